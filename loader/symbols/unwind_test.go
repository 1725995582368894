// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"btc/internal/elffile"
	"btc/internal/unwind"
)

// open opens a file for a test.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// write writes a file of a test.
func write(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUnwinder checks that the table of the C library is the same from the file, from a file of its own and from a pack,
// in either process.
func TestUnwinder(t *testing.T) {
	path, ok := elffile.Library("libc.so.6")
	if !ok {
		t.Skip("skipped: no C library")
	}
	for _, helper := range []Helper{Process, Here} {
		u := NewUnwinder(helper, func(text string) { t.Error(text) })
		defer u.Close()
		want, err := u.Table(open(t, path))
		if err != nil {
			t.Fatal(err)
		}
		if len(want.Rows) < 1000 || want.BuildID == "" || want.Frames || len(want.Segments) != 1 {
			t.Fatalf("table of %s: %d rows, build id %q, segments %v", path, len(want.Rows), want.BuildID, want.Segments)
		}
		b, err := want.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var pack bytes.Buffer
		if err := unwind.WritePack(&pack, map[string][]byte{"00": nil, want.BuildID: b, "ffff": {1}}); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{"table": b, "pack": pack.Bytes()} {
			got, err := u.Stored(open(t, write(t, content)), want.BuildID)
			if err != nil || got == nil || !slices.Equal(got.Rows, want.Rows) || !slices.Equal(got.Segments, want.Segments) || got.Base != want.Base {
				t.Errorf("%s: another table, error = %v", name, err)
			}
		}
		if got, err := u.Stored(open(t, write(t, pack.Bytes())), "1234"); got != nil || err != nil {
			t.Errorf("build id that is not in the pack: %v, %v", got, err)
		}
		if got, err := u.Stored(open(t, write(t, b)), "1234"); got != nil || err == nil {
			t.Error("the table of another build id was read")
		}
		if helper == Process && u.Used() <= 0 {
			t.Error("no time counted")
		}
	}
}

// frameBomb is an .eh_frame of many entries that share one common part with as many instructions as it can have.
func frameBomb(size int) []byte {
	le := binary.LittleEndian
	var b []byte
	common := append([]byte{0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1}, bytes.Repeat([]byte{0x0a, 0x0b}, 1<<19)...)
	b = append(le.AppendUint32(b, uint32(len(common))), common...)
	for i := 0; len(b) < size; i++ {
		// Each entry names another common part: the entries before it begin with the same bytes.
		at := len(b)
		e := le.AppendUint32(nil, uint32(at+4))
		e = le.AppendUint64(e, uint64(0x1000+i))
		e = le.AppendUint64(e, 1)
		e = append(e, 0)
		e = append(e, bytes.Repeat([]byte{0x41}, 11)...)
		b = append(le.AppendUint32(b, uint32(len(e))), e...)
	}
	return b
}

// TestHostileUnwind checks that tables of malicious files cost little and that the next file is read.
func TestHostileUnwind(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, sections ...elfSection) string {
		path := filepath.Join(dir, name)
		elfFile(t, path, sections)
		return path
	}
	frames := func(size uint64, data []byte) elfSection {
		return elfSection{".eh_frame", elf.Section64{Type: uint32(elf.SHT_PROGBITS), Addr: 1 << 20, Size: size}, data}
	}
	sparse := file("sparse", frames(60<<20, nil))
	if err := os.Truncate(sparse, 62<<20); err != nil {
		t.Skip("skipped: the file system does not support sparse files: ", err)
	}
	loops := write(t, []byte("btcunwp1\xff\xff\xff\xff\xff\xff\xff\xff"))
	u := NewUnwinder(Process, func(text string) { t.Error(text) })
	defer u.Close()
	for _, c := range []struct{ name, path, id, want string }{
		{"sparse section", sparse, "", ""},
		{"larger than the file", file("large", frames(1<<40, []byte{1, 2, 3})), "", ""},
		{"a common part of millions of instructions", file("bomb", frames(0, frameBomb(24<<20))), "", ""},
		{"text", write(t, []byte(strings.Repeat("no program", 10))), "", "bad magic number"},
		{"empty", write(t, nil), "", "EOF"},
		{"a pack of too many tables", loops, "1234", "not a valid pack"},
		{"a pack that ends", write(t, []byte("btcunwp1\x05\x00\x00\x00\x00\x00\x00\x00")), "1234", "not a valid pack"},
		{"a table that ends", write(t, []byte("btcunwt1")), "1234", "not a valid unwind table"},
	} {
		begin := u.Used()
		table, err := u.ask(open(t, c.path), c.id)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want %q", c.name, err, c.want)
		}
		if cost := u.Used() - begin; cost > 2*time.Second {
			t.Errorf("%s: took %s of CPU time", c.name, cost)
		}
		if table != nil && len(table.Rows) > unwind.MaxRows {
			t.Errorf("%s: %d rows", c.name, len(table.Rows))
		}
	}
	if u.parser.fails > 0 {
		t.Errorf("process failed %d times", u.parser.fails)
	}
	if self, err := u.Table(open(t, "/proc/self/exe")); err != nil || len(self.Rows) == 0 {
		t.Errorf("afterwards: %v", err)
	}
}
