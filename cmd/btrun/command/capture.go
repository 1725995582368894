// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"btc/internal/kernelfs"
	"btc/internal/safefile"
)

// captureKernel writes a raw capture of this kernel, which btc target import turns into a target
// file. An existing file is replaced only when the new one is complete.
func captureKernel(o *arguments, stderr io.Writer) int {
	var b bytes.Buffer
	if err := kernelfs.WriteRaw(&b); err != nil {
		fmt.Fprintf(stderr, "btrun: cannot capture this host: %v\n", err)
		return 1
	}
	if err := replaceFile(o.Capture, b.Bytes()); err != nil {
		if c := errors.Unwrap(err); c != nil { // without the path of the temporary file
			err = c
		}
		fmt.Fprintf(stderr, "btrun: cannot write %s: %v\n", o.Capture, err)
		return 1
	}
	return 0
}

// replaceFile writes a file and keeps the permissions of an existing one.
func replaceFile(path string, content []byte) error {
	mode := os.FileMode(0o644)
	if fi, err := os.Stat(path); err == nil {
		if !fi.Mode().IsRegular() {
			return safefile.Write(path, content, mode) // a device or a pipe
		}
		mode = fi.Mode().Perm()
	}
	path, err := safefile.Target(path)
	if err != nil {
		return err
	}
	// The name is unique, so that no existing file or link is written to.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
