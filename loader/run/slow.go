// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"btc/internal/safefile"
	"btc/loader/format"
)

// maxCatBytes is the default limit of cat().
const maxCatBytes = 10240

// hurry is closed when running operations must end. Operations of the end programs have a time
// limit of their own.
func (s *writer) hurry() <-chan struct{} {
	if s.ending {
		return nil
	}
	return s.end.hurry
}

var errRushed = errors.New("ended with the run")

// onCat prints a regular file. Opening or reading it may block on a remote file system.
func (s *writer) onCat(e *format.Event) {
	limit := int64(maxCatBytes)
	if n, err := strconv.ParseInt(s.manifest.Config.Other["max_cat_bytes"], 10, 64); err == nil && n > 0 {
		limit = n
	}
	name := string(s.printf(e))
	failed := func(what string, err error) {
		s.Out.Idle()
		s.errorLine(fmt.Sprintf("ERROR: failed to %s file '%s' (%s)", what, name, cause(err)))
	}
	type opened struct {
		f   *os.File
		err error
	}
	c := make(chan opened, 1)
	go func() {
		f, err := safefile.OpenPseudo(name) // the object chose the name
		c <- opened{f, err}
	}()
	var o opened
	select {
	case o = <-c:
	case <-s.hurry():
		o.err = &os.PathError{Op: "open", Path: name, Err: errRushed}
	}
	if o.err != nil {
		failed("open", o.err)
		return
	}
	defer o.f.Close()
	first := true
	err := chunks(io.LimitReader(o.f, limit), s.hurry(), func(piece []byte) {
		s.sink.Piece(e, piece, first, false)
		s.Out.Idle()
		first = false
	})
	if err != nil {
		failed("read", err)
	}
	s.sink.Piece(e, nil, first, true)
}

// cause returns the last part of a file error, in the words of strerror(3).
func cause(err error) string {
	if pe, ok := err.(*os.PathError); ok {
		text := []byte(pe.Err.Error())
		return string(append(bytes.ToUpper(text[:1]), text[1:]...))
	}
	return err.Error()
}

// maxHeld is how much output of a command is kept until the command ends: it is printed on success
// and becomes part of the error on failure. Longer output is printed as it arrives.
const maxHeld = 1 << 20

// onSystem runs a shell command; prepare has checked for --unsafe. The command's output, stdout and
// stderr, follows what has been printed so far. If the command fails, the output is part of the
// error: bpftrace does not print it.
func (s *writer) onSystem(e *format.Event) {
	if s.end.expired.Load() && !s.ending {
		s.end.unstarted++
		return
	}
	r, w, err := os.Pipe()
	if err != nil {
		s.msg.report(e.Pos, err)
		return
	}
	defer r.Close()
	p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", string(s.printf(e))}, &os.ProcAttr{
		Files: []*os.File{os.Stdin, w, w},
		Sys:   &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM}, // this process's threads live longer than the command
	})
	w.Close()
	if err != nil {
		s.msg.report(e.Pos, err)
		return
	}
	var held []byte
	first := true // nothing has been printed yet
	write := func() {
		s.sink.Piece(e, held, first, false)
		s.Out.Idle()
		held, first = held[:0], false
	}
	err = chunks(r, s.hurry(), func(piece []byte) {
		if held = append(held, piece...); len(held) > maxHeld || !first {
			write()
		}
	})
	if err != nil {
		terminate(p.Pid)
	}
	if state := s.await(p); state == nil || !state.Success() {
		if !first {
			s.sink.Piece(e, nil, false, true)
		} else if len(held) > 0 && held[len(held)-1] != '\n' {
			held = append(held, '\n')
		}
		s.Out.Idle()
		s.errorLine(fmt.Sprintf("%sERROR: %s", string(held), commandFailure(state)))
		return
	}
	s.sink.Piece(e, held, first, true)
}

// commandFailure formats a failed command of system() as bpftrace does, but without the errno that
// bpftrace appends, which is that of an earlier system call.
func commandFailure(state *os.ProcessState) string {
	if state == nil || !state.Exited() {
		return "child process did not exit normally"
	}
	return fmt.Sprintf("command exited with code %d", state.ExitCode())
}

// terminate kills a command and its descendants, as far as they are still in its process tree.
func terminate(pid int) {
	tree := []int{pid}
	for i := 0; i < len(tree) && len(tree) < maxTerminated; i++ {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", tree[i])) // children of its first thread
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				tree = append(tree, child)
			}
		}
	}
	for _, pid := range tree {
		unix.Kill(pid, unix.SIGTERM)
	}
}

// maxTerminated bounds the number of processes that terminate looks at.
const maxTerminated = 1024

// await waits for a process until it must end; the state is nil if the process does not exit.
func (s *writer) await(p *os.Process) *os.ProcessState {
	done := make(chan *os.ProcessState, 1)
	go func() {
		state, _ := p.Wait()
		done <- state
	}()
	select {
	case state := <-done:
		return state
	case <-s.hurry():
	}
	terminate(p.Pid)
	select {
	case state := <-done:
		return state
	case <-time.After(commandTime / 2):
		p.Kill()
		return nil
	}
}

// chunks passes on the data of r in pieces that end with whole characters, until EOF or until quit
// is closed.
func chunks(r io.Reader, quit <-chan struct{}, show func([]byte)) error {
	type piece struct {
		text []byte
		err  error
	}
	pieces, stop := make(chan piece), make(chan struct{})
	defer close(stop)
	go func() {
		for {
			b := make([]byte, 32<<10)
			n, err := r.Read(b)
			select {
			case pieces <- piece{b[:n], err}:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	var rest []byte
	for {
		select {
		case p := <-pieces:
			text := append(rest, p.text...)
			n := len(text)
			if p.err == nil {
				n = wholeRunes(text)
			}
			if n > 0 {
				show(text[:n])
			}
			rest = append([]byte(nil), text[n:]...)
			switch {
			case p.err == io.EOF:
				return nil
			case p.err != nil:
				return p.err
			}
		case <-quit:
			return errRushed
		}
	}
}

// wholeRunes returns the length of b without an incomplete character at its end.
func wholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return i
			}
			break
		}
	}
	return len(b)
}
