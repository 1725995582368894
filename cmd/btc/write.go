// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// newFile is a file to write: its final path and content.
type newFile struct {
	path string
	data []byte
}

// writeFiles writes all files or none: it writes them under temporary names and checks that no
// final path is a directory before it renames the first.
func writeFiles(files ...newFile) error {
	var temps []string
	defer func() {
		for _, t := range temps {
			os.Remove(t)
		}
	}()
	for _, f := range files {
		t, err := writeTemp(f)
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", f.path, cause(err))
		}
		temps = append(temps, t)
	}
	for i, f := range files {
		if err := os.Rename(temps[i], f.path); err != nil {
			return fmt.Errorf("cannot write %s: %w", f.path, cause(err))
		}
	}
	return nil
}

// writeTemp writes the content next to the final path, with the permissions of the file
// that it will replace.
func writeTemp(f newFile) (string, error) {
	mode := os.FileMode(0o644)
	if old, err := os.Stat(f.path); err == nil {
		if old.IsDir() {
			return "", syscall.EISDIR
		}
		mode = old.Mode().Perm()
	}
	temp, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*")
	if err != nil {
		return "", err
	}
	_, err = temp.Write(f.data)
	if err == nil {
		err = temp.Chmod(mode)
	}
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(temp.Name())
		return "", err
	}
	return temp.Name(), nil
}

// cause returns the error without the path of a temporary file.
func cause(err error) error {
	var p *os.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}

// sameFile reports whether both names refer to one existing file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
