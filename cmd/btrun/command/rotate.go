// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"btc/internal/safefile"
)

// rotatingFile is the -o file of a long run. When it reaches its maximum size it becomes FILE.1,
// FILE.1 becomes FILE.2, and so on. If the disk is full, or the file cannot be written for another
// reason, it drops whole lines, reports how many, and continues when it can: the last file always
// ends with a whole line. If somebody renames or removes the file, it continues in a new one. Each file of a recording
// begins with its head, or the one of the object that has replaced another one; heads do not count for the size.
type rotatingFile struct {
	path string
	size int64 // maximum size of a file, in bytes; 0: no rotation
	keep int   // number of files kept besides FILE

	f        *os.File  // nil: not open, because it was rotated or removed
	fresh    bool      // the file did not exist before the run
	started  bool      // the old content has been truncated
	written  int64     // size of f, up to the end of a line, in bytes
	looked   time.Time // when the path was last compared with f
	head     []byte    // the last head of a recording; nil: the first line was not one
	owed     bool      // f lacks the head
	heads    int64     // bytes of heads in f
	partial  []byte    // an incomplete line
	dropped  uint64    // dropped lines
	reported uint64    // dropped lines that have been reported
	next     time.Time
	messages io.Writer
	now      func() time.Time
}

// reportInterval is the minimum time between reports of dropped lines.
const reportInterval = 10 * time.Second

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

// open opens the file. As for any output, old content is kept until the run writes something. After that, the
// content of a file that somebody has put in its place is kept.
func (r *rotatingFile) open() error {
	f, err := safefile.Create(r.path, 0, 0o600)
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
	r.f, r.written, r.heads = f, 0, 0
	if r.started {
		r.written = fi.Size()
	}
	return nil
}

// lookInterval is the minimum time between two looks whether the path still is the file.
const lookInterval = time.Second

// ready opens the file if it is not open, and truncates it if nothing has been written.
func (r *rotatingFile) ready() error {
	if now := r.now(); r.f != nil && now.Sub(r.looked) >= lookInterval {
		r.looked = now
		at, err := os.Stat(r.path)
		own, e := r.f.Stat()
		if os.IsNotExist(err) || err == nil && e == nil && !os.SameFile(at, own) {
			r.f.Close()
			r.f = nil
		}
	}
	if r.f == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	if r.started {
		return nil
	}
	r.started = true
	return r.f.Truncate(0)
}

// Write does not split lines. A full disk, or a file that cannot be written, is not an error of the run.
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
	r.lines(lines)
	r.partial = append(r.partial[:0], p[end:]...)
	return len(p), nil
}

// lines writes whole lines, to as many files as needed.
func (r *rotatingFile) lines(b []byte) {
	for len(b) > 0 {
		if n := r.readHead(b); n > 0 {
			r.put(nil)
			b = b[n:]
			continue
		}
		n := len(b)
		if r.head != nil {
			if i := bytes.Index(b, nextHead); i >= 0 {
				n = i + 1
			}
		}
		if room := r.size + r.heads - r.written; r.size > 0 && int64(n) > room {
			n = bytes.LastIndexByte(b[:max(room, 0)], '\n') + 1
			if n == 0 && r.written > r.heads {
				if err := r.rotate(); err != nil {
					r.drop(b, err)
					return
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
		r.put(b[:n])
		b = b[n:]
	}
}

// nextHead is how the head of a recording begins, after the end of a line.
var nextHead = []byte("\n{\"type\": \"head\"")

// readHead returns the length of the head that b begins with, and keeps it to be written. Only what begins with a head is
// a recording.
func (r *rotatingFile) readHead(b []byte) int {
	n := bytes.IndexByte(b, '\n') + 1
	if n == 0 || r.head == nil && r.started || !bytes.HasPrefix(b, nextHead[1:]) {
		return 0
	}
	r.head, r.owed = bytes.Clone(b[:n]), true
	return n
}

// put writes whole lines, or as many of them as fit if the disk is full. The head, if the file lacks it, is before them,
// or nothing is written.
func (r *rotatingFile) put(b []byte) {
	n := 0
	err := r.ready()
	if err == nil && len(r.head) > 0 && (r.owed || r.written == 0) {
		if _, err = r.f.WriteAt(r.head, r.written); err == nil {
			r.written, r.heads, r.owed = r.written+int64(len(r.head)), r.heads+int64(len(r.head)), false
		} else {
			r.owed = true
		}
	}
	if err == nil {
		n, err = r.f.WriteAt(b, r.written)
	}
	if err != nil {
		n = bytes.LastIndexByte(b[:n], '\n') + 1
		if r.f != nil {
			r.f.Truncate(r.written + int64(n)) // the next write overwrites what is left otherwise
		}
	}
	r.written += int64(n)
	r.drop(b[n:], err)
}

// drop counts the lines that could not be written.
func (r *rotatingFile) drop(b []byte, err error) {
	r.dropped += uint64(bytes.Count(b, []byte{'\n'}))
	r.reportDropped(err, false)
}

// reportDropped reports the number of dropped lines, at most once per reportInterval.
func (r *rotatingFile) reportDropped(err error, last bool) {
	now := r.now()
	if r.dropped == r.reported || now.Before(r.next) && !last {
		return
	}
	why := "the file could not be written"
	if err != nil {
		why = cause(err).Error()
	}
	fmt.Fprintf(r.messages, "WARNING: %s: %d lines were dropped: %s\n", r.path, r.dropped-r.reported, why)
	r.reported, r.next = r.dropped, now.Add(reportInterval)
}

// rotate renames the file to FILE.1; the next write starts a new one. Until it has another name, FILE is FILE.0, so
// that a directory that cannot be written leaves the other files as they are.
func (r *rotatingFile) rotate() error {
	name := func(i int) string { return fmt.Sprintf("%s.%d", r.path, i) }
	if err := os.Rename(r.path, name(0)); err != nil && !os.IsNotExist(err) {
		return err
	}
	for i := r.keep; i > 0; i-- {
		if err := os.Rename(name(i-1), name(i)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	r.f.Close()
	r.f, r.written = nil, 0
	return nil
}

// end writes the remaining data and closes the file. A run that fails to start leaves no new file.
func (r *rotatingFile) end(ran bool) error {
	var err error
	switch {
	case ran && !r.started:
		err = r.ready()
	case r.fresh && !r.started:
		os.Remove(r.path)
	}
	if len(r.partial) > 0 {
		r.lines(append(r.partial, '\n'))
	}
	r.reportDropped(nil, true)
	if r.f != nil {
		err = errors.Join(err, r.f.Close())
	}
	return err
}
