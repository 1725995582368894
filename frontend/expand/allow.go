// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"errors"
	"path/filepath"
)

// errOutside is the error for a file that an untrusted script may not read. It does not reveal whether the file exists.
var errOutside = errors.New("it is outside the directories that this script may read, see -I and --untrusted")

// allow returns the check for files that the script may read. Without Confined it may read all.
func (o *Options) allow() func(path string) error {
	if !o.Confined {
		return func(string) error { return nil }
	}
	return func(path string) error {
		abs, err := filepath.Abs(path)
		if err != nil || !o.below(abs) {
			return errOutside
		}
		real, err := filepath.EvalSymlinks(abs)
		if err != nil {
			return nil // reading it reports the error
		}
		if !o.below(real) {
			return errOutside
		}
		return nil
	}
}

// below reports whether an absolute path is in one of the directories of -I, or in the target of one that is a
// symbolic link.
func (o *Options) below(path string) bool {
	for _, dir := range o.C.Dirs {
		abs, err := filepath.Abs(dir)
		if err != nil {
			continue
		}
		roots := []string{abs}
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			roots = append(roots, real)
		}
		for _, root := range roots {
			if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
				return true
			}
		}
	}
	return false
}
