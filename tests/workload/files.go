// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sizes is the value of a flag: byte counts separated by commas, used in rotation.
type sizes []int

func (s *sizes) String() string { return fmt.Sprint([]int(*s)) }

func (s *sizes) Set(text string) error {
	*s = nil
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a size in bytes", part)
		}
		*s = append(*s, n)
	}
	return nil
}

// buffer returns a buffer for the largest size.
func (s sizes) buffer() []byte {
	largest := 1
	for _, n := range s {
		largest = max(largest, n)
	}
	return make([]byte, largest)
}

// transfer makes n system calls like write(2), with the sizes in rotation, and returns the number of
// bytes transferred.
func (s sizes) transfer(number uintptr, fd, n int, buf []byte) (int, error) {
	total := 0
	for i := range n {
		want := s[i%len(s)]
		got, _, e := unix.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(want))
		if e != 0 {
			return total, e
		}
		if int(got) != want {
			return total, fmt.Errorf("transferred %d bytes, want %d", got, want)
		}
		total += want
	}
	return total, nil
}

func setupWrite(args []string, r *report) (func() error, error) {
	return setupTransfer("write", unix.SYS_WRITE, "/dev/null", os.O_WRONLY|os.O_CREATE, args, r)
}

func setupRead(args []string, r *report) (func() error, error) {
	return setupTransfer("read", unix.SYS_READ, "/dev/zero", os.O_RDONLY, args, r)
}

func setupTransfer(name string, number uintptr, file string, mode int, args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	n := flags.Int("n", 1, "number of calls")
	path := flags.String("file", file, "file to use")
	size := sizes{1}
	flags.Var(&size, "size", "bytes in a call; several, separated by commas, are used in turn")
	failing := flags.Int("errors", 0, "calls on a directory, which fail with EISDIR (read only)")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	dir, err := unix.Open("/", unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(*path, mode, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", *path, err)
	}
	buf := size.buffer()
	return func() error {
		total, err := size.transfer(number, fd, *n, buf)
		if err != nil {
			return err
		}
		for range *failing {
			if _, err := size.transfer(number, dir, 1, buf); err != unix.EISDIR {
				return fmt.Errorf("transfer of a directory: error = %v, want EISDIR", err)
			}
		}
		r.add("calls", *n)
		r.add("errors", *failing)
		r.add("bytes", total)
		r.add("fd", fd)
		return nil
	}, nil
}

func setupOpen(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("open", flag.ContinueOnError)
	n := flags.Int("n", 1, "files that exist")
	missing := flags.Int("missing", 0, "files that do not exist")
	legacy := flags.Bool("legacy", false, "use open(2), not openat(2)")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "wl")
	if err != nil {
		return nil, err
	}
	there, absent := filepath.Join(dir, "there"), filepath.Join(dir, "absent")
	if err := os.WriteFile(there, nil, 0o644); err != nil {
		return nil, err
	}
	return func() error {
		defer os.RemoveAll(dir)
		for range *n {
			fd, e := open(there, *legacy)
			if e != 0 {
				return e
			}
			r.add("fd", fd)
			if err := raw(unix.SYS_CLOSE, fd, 0, 0); err != nil {
				return err
			}
		}
		for range *missing {
			if _, e := open(absent, *legacy); e != unix.ENOENT {
				return fmt.Errorf("open of a missing file: error = %v", e)
			}
		}
		r.add("opened", *n)
		r.add("missing", *missing)
		r.add("path", there)
		r.add("absent", absent)
		return setThreadName("workload-done") // before cleaning up
	}, nil
}

func open(path string, legacy bool) (uintptr, unix.Errno) {
	name := append([]byte(path), 0)
	p := uintptr(unsafe.Pointer(&name[0]))
	if legacy {
		return openLegacy(p)
	}
	at := unix.AT_FDCWD
	fd, _, e := unix.RawSyscall6(unix.SYS_OPENAT, uintptr(at), p, unix.O_RDONLY, 0, 0, 0)
	return fd, e
}
