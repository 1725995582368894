// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package safefile

import "os"

// Open opens the regular file at path for reading. It follows symbolic links. The error
// is an *os.PathError, with the cause ErrNotRegular if path is not a regular file.
func Open(path string) (*os.File, error) {
	if fi, err := os.Stat(path); err != nil {
		return nil, err
	} else if !fi.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	return os.Open(path)
}
