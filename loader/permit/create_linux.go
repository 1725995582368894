// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"os"
	"path/filepath"

	"btc/internal/safefile"
)

// Create creates or truncates a file that an object writes, with mode 0600. Below the directory that the operator
// allowed (with --unsafe, the file's own directory) no symbolic link is followed. An existing file must be a regular
// file with one hard link.
func (g *Grants) Create(path string) (*os.File, error) {
	a := &Action{Permission: Files, Path: absolute(path)}
	root, ok := g.Root(a)
	if !ok {
		return nil, &os.PathError{Op: "create", Path: path, Err: os.ErrPermission}
	}
	name, err := filepath.Rel(root, a.Path)
	if err != nil {
		return nil, err
	}
	return safefile.CreateIn(root, name)
}

// PinDir opens the directory of an iterator's pin, with the rules of Create, and returns it with the pin's name
// there.
func (g *Grants) PinDir(path string) (dir *os.File, name string, err error) {
	a := &Action{Permission: Pins, Path: absolute(path)}
	root, ok := g.Root(a)
	if !ok {
		return nil, "", &os.PathError{Op: "pin", Path: path, Err: os.ErrPermission}
	}
	in, name := filepath.Split(a.Path)
	if in, err = filepath.Rel(root, in); err != nil {
		return nil, "", err
	}
	dir, err = safefile.DirIn(root, in)
	return dir, name, err
}
