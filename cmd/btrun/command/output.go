// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"

	"btc/internal/safefile"
)

// outputFile is the -o file. It is opened before anything is traced, so that a wrong name is
// reported at once. A run that fails to start leaves the file unchanged: old content is kept, and a
// new file is removed.
type outputFile struct {
	f       *os.File
	fresh   bool // the file did not exist before
	started bool // the old content has been truncated
}

func createOutput(path string) (*outputFile, error) {
	_, err := os.Stat(path)
	fresh := os.IsNotExist(err)
	f, err := safefile.Create(path, 0, 0o600)
	if err != nil {
		return nil, err
	}
	return &outputFile{f: f, fresh: fresh}, nil
}

// start truncates a regular file.
func (o *outputFile) start() error {
	if o.started {
		return nil
	}
	o.started = true
	fi, err := o.f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return err
	}
	return o.f.Truncate(0)
}

func (o *outputFile) Write(p []byte) (int, error) {
	if err := o.start(); err != nil {
		return 0, err
	}
	return o.f.Write(p)
}

// end closes the file; ran reports whether the run was completed.
func (o *outputFile) end(ran bool) error {
	var err error
	if ran {
		err = o.start()
	} else if o.fresh && !o.started {
		os.Remove(o.f.Name())
	}
	if e := o.f.Close(); err == nil {
		err = e
	}
	return err
}
