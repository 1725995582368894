// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// rotatingFile is the -o file of a long run. When it reaches its maximum size it becomes FILE.1,
// FILE.1 becomes FILE.2, and so on. If the disk is full, it drops whole lines, reports how many,
// and continues when there is space again: the last file always ends with a whole line.
type rotatingFile struct {
	path string
	size int64 // maximum size of a file, in bytes; 0: no rotation
	keep int   // number of files kept besides FILE

	f        *os.File
	fresh    bool   // it did not exist before the run
	started  bool   // its old content has been truncated
	written  int64  // size of f, up to the end of a line, in bytes
	partial  []byte // an incomplete line
	dropped  uint64 // dropped lines
	told     uint64 // dropped lines that have been reported
	next     time.Time
	messages io.Writer
	now      func() time.Time
}

// tellInterval is the minimum time between reports of dropped lines.
const tellInterval = 10 * time.Second

// maxLine is the maximum length of a line that is not split, in bytes.
const maxLine = 16 << 20

func createRotating(path string, size int64, keep int, messages io.Writer) (*rotatingFile, error) {
	_, err := os.Stat(path)
	r := &rotatingFile{path: path, size: size, keep: keep, messages: messages, now: time.Now, fresh: os.IsNotExist(err)}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// open opens the file. As for any output, old content is kept until the run writes something.
func (r *rotatingFile) open() error {
	f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file: --rotate and --every of lines need one", r.path)
	}
	if err != nil {
		f.Close()
		return err
	}
	r.f, r.written, r.started = f, 0, false
	return nil
}

// start truncates the file.
func (r *rotatingFile) start() error {
	if r.started {
		return nil
	}
	r.started = true
	return r.f.Truncate(0)
}

// Write does not split lines. A full disk is not an error of the run.
func (r *rotatingFile) Write(p []byte) (int, error) {
	end := bytes.LastIndexByte(p, '\n') + 1
	if end == 0 && len(r.partial)+len(p) < maxLine {
		r.partial = append(r.partial, p...)
		return len(p), nil
	}
	if end == 0 {
		end = len(p)
	}
	lines := p[:end]
	if len(r.partial) > 0 {
		lines = append(r.partial, lines...)
	}
	if err := r.lines(lines); err != nil {
		return 0, err
	}
	r.partial = append(r.partial[:0], p[end:]...)
	return len(p), nil
}

// lines writes whole lines, to as many files as needed.
func (r *rotatingFile) lines(b []byte) error {
	for len(b) > 0 {
		n := len(b)
		if room := r.size - r.written; r.size > 0 && int64(n) > room {
			n = bytes.LastIndexByte(b[:max(room, 0)], '\n') + 1
			if n == 0 && r.written > 0 {
				if err := r.rotate(); err != nil {
					return err
				}
				continue
			}
			if n == 0 { // a line that is longer than the maximum size of a file
				n = bytes.IndexByte(b, '\n') + 1
			}
			if n == 0 {
				n = len(b)
			}
		}
		if err := r.put(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// put writes whole lines, or as many of them as fit if the disk is full.
func (r *rotatingFile) put(b []byte) error {
	if err := r.start(); err != nil {
		return err
	}
	n, err := r.f.WriteAt(b, r.written)
	if err != nil && !isFull(err) {
		return err
	}
	whole := n
	if err != nil {
		whole = bytes.LastIndexByte(b[:n], '\n') + 1
		r.dropped += uint64(bytes.Count(b[whole:], []byte{'\n'}))
		if e := r.f.Truncate(r.written + int64(whole)); e != nil {
			return e
		}
	}
	r.written += int64(whole)
	r.tell(err, false)
	return nil
}

// isFull reports whether an error means that the disk is full.
func isFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// tell reports the number of dropped lines, at most once per tellInterval.
func (r *rotatingFile) tell(err error, last bool) {
	now := r.now()
	if r.dropped == r.told || now.Before(r.next) && !last {
		return
	}
	why := "the disk was full"
	if err != nil {
		why = cause(err).Error()
	}
	fmt.Fprintf(r.messages, "WARNING: %s: %d lines were dropped: %s\n", r.path, r.dropped-r.told, why)
	r.told, r.next = r.dropped, now.Add(tellInterval)
}

// rotate renames the file to FILE.1 and starts a new one.
func (r *rotatingFile) rotate() error {
	if err := r.f.Close(); err != nil && !isFull(err) {
		return err
	}
	name := func(i int) string { return fmt.Sprintf("%s.%d", r.path, i) }
	for i := r.keep; i > 0; i-- {
		from := r.path
		if i > 1 {
			from = name(i - 1)
		}
		if err := os.Rename(from, name(i)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return r.open()
}

// end writes the remaining data and closes the file. A run that fails to start leaves no new file.
func (r *rotatingFile) end(ran bool) error {
	var err error
	if ran {
		err = r.start()
	} else if r.fresh && !r.started {
		os.Remove(r.path)
	}
	if len(r.partial) > 0 {
		err = r.lines(append(r.partial, '\n'))
	}
	r.tell(nil, true)
	if e := r.f.Close(); err == nil && !isFull(e) {
		err = e
	}
	return err
}
