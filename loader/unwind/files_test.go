// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"btc/internal/unwind"
)

// TestKeepMemory checks that a copy in memory is not kept open: 256 of them can be 128 GiB.
func TestKeepMemory(t *testing.T) {
	w := newWorld(t, Options{})
	w.write("prog", "elf prog")
	fd, err := unix.MemfdCreate("file", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	prog, err := os.Open(filepath.Join(w.dir, "prog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   *os.File
		kept bool
	}{{os.NewFile(uintptr(fd), "file"), false}, {prog, true}} {
		x := &file{}
		w.k.known[x.identity] = x
		w.k.held = 0
		w.k.keep(x, c.in)
		if (x.in != nil) != c.kept || (w.k.held > 0) != c.kept {
			t.Errorf("%s: kept %t, held %d", c.in.Name(), x.in != nil, w.k.held)
		}
		if _, err := c.in.Stat(); (err == nil) != c.kept {
			t.Errorf("%s: open %t, want %t", c.in.Name(), err == nil, c.kept)
		}
	}
	w.k.release()
}

// TestTableOf checks what the builder makes of the answers of its process.
func TestTableOf(t *testing.T) {
	failed := errors.New("failed")
	if got, err := tableOf(nil, failed); got != nil || err != failed {
		t.Errorf("error: %v, %v", got, err)
	}
	if got, err := tableOf(nil, nil); got != nil || err == nil {
		t.Errorf("no table: %v, %v", got, err)
	}
	if got, err := tableOf(&unwind.Table{Frames: true}, nil); err != nil || !got.Frames || got.Chunks != nil {
		t.Errorf("table without rows: %+v, %v", got, err)
	}
}
