// SPDX-License-Identifier: Apache-2.0

// Package safefile opens files whose names come from objects, attach points and traced processes.
//
// Such a name may lead to a device, a FIFO or a symbolic link: opening a watchdog device arms it, and opening a FIFO
// waits for a writer. Open therefore checks the file before it opens it, accepts only regular files, and never
// blocks. It does not limit how much is read afterwards.
package safefile

import (
	"errors"
	"io"
	"os"
)

// ErrNotRegular is the cause of an error about a directory, device, FIFO or socket.
var ErrNotRegular = errors.New("not a regular file")

// FileSystemError is the cause of an error about a file that is not opened because of the type of its file system.
type FileSystemError struct{ Type string }

func (e *FileSystemError) Error() string {
	return "not opened: it is in a file system of type " + e.Type + ", where opening a file can have effects"
}

// ErrNoAnswer is the cause of an error about a file whose file system does not respond.
var ErrNoAnswer = errors.New("the file system does not respond")

// ErrTooLarge is the cause of an error about a file larger than the caller accepts.
var ErrTooLarge = errors.New("file too large")

// Read reads the regular file at path. A file of more than limit bytes is an error that
// wraps ErrTooLarge; no more than limit+1 bytes are read.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	return readAll(f, limit)
}

// ReadPseudo is like Read, for a file that OpenPseudo opens.
func ReadPseudo(path string, limit int64) ([]byte, error) {
	f, err := OpenPseudo(path)
	if err != nil {
		return nil, err
	}
	return readAll(f, limit)
}

// Write writes a file that Create opens, and truncates an existing one.
func Write(path string, content []byte, mode os.FileMode) error {
	f, err := Create(path, os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// readAll reads and closes a file.
func readAll(f *os.File, limit int64) ([]byte, error) {
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &os.PathError{Op: "read", Path: f.Name(), Err: ErrTooLarge}
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}
