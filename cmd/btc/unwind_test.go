// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"btc/internal/elffile"
	"btc/internal/unwind"
	"btc/internal/unwind/ehframe"
)

// TestUnwindPack packs a directory and reads the table of a library from the pack.
func TestUnwindPack(t *testing.T) {
	library, ok := elffile.Library("libc.so.6")
	if !ok {
		t.Skip("skipped: no C library")
	}
	content, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, b := range map[string][]byte{"libc.so.6": content, "copy/libc.so": content, "text": []byte("no program"), "half": content[:len(content)/2]} {
		path := filepath.Join(dir, "in", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(library, filepath.Join(dir, "in", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("in", filepath.Join(dir, "to")); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "x.unwind")
	for _, c := range []struct {
		args   []string
		status int
	}{
		{[]string{"unwind", "pack"}, 1},
		{[]string{"unwind", "pack", library}, 1},
		{[]string{"unwind", "pack", filepath.Join(dir, "in", "text"), "-o", out}, 1},
		{[]string{"unwind", "pack", filepath.Join(dir, "none"), library, "-o", out}, 2},
		{[]string{"unwind", "pack", filepath.Join(dir, "in", "text"), library, "-o", out}, 2},
		{[]string{"unwind", "pack", filepath.Join(dir, "in"), "-o", out}, 0},
		{[]string{"unwind", "pack", filepath.Join(dir, "to"), "-o", out}, 0}, // as /lib is a link to usr/lib
	} {
		if got := execute(rootCommand(), c.args); got != c.status {
			t.Errorf("btc %v: status %d, want %d", c.args, got, c.status)
		}
	}
	f, err := elf.Open(library)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := ehframe.Build(f)
	if err != nil {
		t.Fatal(err)
	}
	pack, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer pack.Close()
	got, err := unwind.ReadTable(pack, want.BuildID)
	if err != nil || got == nil || !slices.Equal(got.Rows, want.Rows) {
		t.Errorf("the table in the pack is another one, error = %v", err)
	}
	if fi, err := pack.Stat(); err != nil || fi.Size() > int64(len(want.Rows)*unwind.RowSize)+1000 {
		t.Errorf("the pack has %d bytes for %d rows", fi.Size(), len(want.Rows))
	}
}
