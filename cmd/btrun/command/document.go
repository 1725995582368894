// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"btc/internal/safefile"
)

// documentFile is the -o file for a document format: each document is written to a temporary file,
// which then replaces the file, so that readers always find a complete document. Its mode is 0644,
// because other users, such as node_exporter's, read it.
type documentFile struct {
	path, aside string
	f           *os.File // file of the current document; nil: none has been started
	err         error    // reason why the document cannot be written
}

// createDocument checks that the directory is writable.
func createDocument(path string) (*documentFile, error) {
	path, err := safefile.Target(path)
	if err != nil {
		return nil, err
	}
	d := &documentFile{path: path, aside: filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")}
	if err := d.begin(); err != nil {
		return nil, err
	}
	d.drop()
	return d, nil
}

// begin creates the temporary file. An existing one is left over from a run that was killed.
func (d *documentFile) begin() error {
	if err := os.Remove(d.aside); err != nil && !os.IsNotExist(err) {
		return err
	}
	f, err := os.OpenFile(d.aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	d.f = f
	return f.Chmod(0o644) // independent of the umask
}

// drop discards the current document.
func (d *documentFile) drop() {
	if d.f != nil {
		d.f.Close()
		os.Remove(d.aside)
		d.f = nil
	}
}

// Write never fails: Replace reports errors.
func (d *documentFile) Write(p []byte) (int, error) {
	if d.f == nil && d.err == nil {
		d.err = d.begin()
	}
	if d.err == nil {
		_, d.err = d.f.Write(p)
	}
	return len(p), nil
}

// Replace replaces the previous document by the current one.
func (d *documentFile) Replace() error {
	err := d.err
	d.err = nil
	if d.f == nil && err == nil {
		return nil
	}
	if err == nil {
		if err = d.f.Close(); err == nil {
			d.f, err = nil, os.Rename(d.aside, d.path)
		}
	}
	if err != nil {
		d.drop()
		return fmt.Errorf("%s keeps its last content, and this document is dropped: %w", d.path, cause(err))
	}
	return nil
}

// cause returns an error without the name of the file.
func cause(err error) error {
	if e, ok := err.(*fs.PathError); ok {
		return e.Err
	}
	return err
}

// isReplaced reports whether documents replace the -o file: a regular file, or one that does not
// exist yet. For anything else, such as pipes and terminals, documents are written one after the
// other.
func isReplaced(path string) bool {
	fi, err := os.Stat(path)
	return err != nil || fi.Mode().IsRegular()
}

// end discards an unfinished document.
func (d *documentFile) end(bool) error {
	d.drop()
	return nil
}
