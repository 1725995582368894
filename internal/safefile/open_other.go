// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package safefile

import (
	"io"
	"os"
	"path/filepath"
)

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

// OpenHead is like Open, for a file of which only the first n bytes are read.
func OpenHead(path string, n int) (*os.File, error) { return Open(path) }

// OpenPseudo is like Open, and also opens readable files of proc, sysfs and cgroup file systems.
func OpenPseudo(path string) (*os.File, error) { return Open(path) }

// Exists reports whether there is anything at path, also a symbolic link that refers to nothing.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// List returns the names in a directory, without order. More than limit of them are an error that wraps ErrTooLarge.
func List(path string, limit int) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := f.Readdirnames(limit + 1)
	if len(all) > limit {
		return nil, &os.PathError{Op: "read", Path: path, Err: ErrTooLarge}
	}
	if err == io.EOF {
		err = nil
	}
	return all, err
}

// Create opens a file for writing.
func Create(path string, flags int, mode os.FileMode) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flags, mode)
}

// Target returns the path of the file that Create would open, without symbolic links.
func Target(path string) (string, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target, nil
	}
	return path, nil
}
