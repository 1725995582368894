// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"btc/frontend/parse"
)

// TestReadScript checks that only regular files are opened, and that the size limit is enforced while
// reading.
func TestReadScript(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("x.bt"), []byte("begin { }"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("large.bt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path("large.bt"), 3<<30); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path("fifo.bt"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", path("zero.bt")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{path("x.bt"), ""}, {path("large.bt"), "script too large (max 2097152 bytes)"}, {path("fifo.bt"), "not a regular file"},
		{path("zero.bt"), "not a regular file"}, {"/dev/zero", "not a regular file"}, {dir, "not a regular file"}, {path("none.bt"), "no such file"},
	} {
		text, err := readScript(c.path)
		if c.want == "" && (err != nil || text != "begin { }") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %d bytes, %v; want %q", c.path, len(text), err, c.want)
		}
	}
}

// TestReadPipe reads a pipe under a /dev/fd name, as shells pass it, and an endless one.
func TestReadPipe(t *testing.T) {
	feed := func(text string, times int) *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer w.Close()
			for range times {
				if _, err := w.WriteString(text); err != nil {
					return
				}
			}
		}()
		return r
	}
	r := feed("begin { }", 1)
	fd, err := unix.Dup(int(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := readScript(fmt.Sprintf("/dev/fd/%d", fd)); text != "begin { }" || err != nil {
		t.Errorf("pipe: %q, %v", text, err)
	}
	r.Close()
	r = feed(strings.Repeat("x", 1<<20), 1<<20)
	if text, err := readPipe(r); err == nil || len(text) > parse.MaxBytes+1 {
		t.Errorf("endless pipe: %d bytes, error = %v", len(text), err)
	}
	r.Close()
}
