// SPDX-License-Identifier: Apache-2.0

package object

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/internal/manifest"
	"btc/internal/objfile"
)

// joined returns an object with its manifest in one file. It is small enough to change each of its bytes.
func joined(t *testing.T) []byte {
	t.Helper()
	file, err := os.ReadFile("testdata/joined.o")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// in returns the path of a new object, with a manifest next to it unless that is nil.
func in(t *testing.T, data, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.o")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if text != nil {
		if err := os.WriteFile(ManifestPath(path), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestOneFile reads an object alone, with an equal manifest next to it, and in both forms of a stream.
func TestOneFile(t *testing.T) {
	file := joined(t)
	without, text, err := objfile.Split(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ data, text []byte }{"one": {file, nil}, "both": {file, text}, "two": {without, text}} {
		path := in(t, c.data, c.text)
		o, err := Read(path)
		if err != nil || len(o.Spec.Programs) != 1 {
			t.Errorf("%s: %v", name, err)
		}
		if m, err := ReadManifest(path); err != nil || len(m.Programs) != 1 {
			t.Errorf("%s: manifest: %v", name, err)
		}
		if files, err := ReadFiles(path); err != nil || files.Joined() != (name != "two") {
			t.Errorf("%s: joined: %v", name, err)
		}
	}
}

// TestOneFileRefused checks the errors for files that do not belong together.
func TestOneFileRefused(t *testing.T) {
	file := joined(t)
	without, text, err := objfile.Split(file)
	if err != nil {
		t.Fatal(err)
	}
	linked, err := os.ReadFile("testdata/linked.o")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		data, text []byte
		want       string
	}{
		{"no manifest", without, nil, "x.o: missing manifest: neither a section .debug_btc_manifest, which strip and objcopy remove, nor a file "},
		{"another manifest", file, bytes.Replace(text, []byte("begin"), []byte("end"), 1), "x.json differs from the manifest in the object: remove one of the two"},
		{"empty manifest", file, []byte{}, "x.json differs from the manifest in the object"},
		{"changed", bytes.Replace(file, []byte("raw_tp"), []byte("raw_tq"), 1), nil, "x.o: damaged, or changed after it was compiled: use the object as btc compile wrote it"},
		{"text", []byte("text"), nil, "x.o: not a BPF object"},
		{"linked", linked, nil, "x.o: objects were linked (bpftool gen object), and no manifest fits the result: run each by itself"},
		{"linked, with a manifest", linked, text, "x.o: objects were linked (bpftool gen object)"},
	} {
		path := in(t, c.data, c.text)
		for name, read := range map[string]func() error{
			"Read":         func() error { _, err := Read(path); return err },
			"ReadManifest": func() error { _, err := ReadManifest(path); return err },
		} {
			if err := read(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s: error = %v, want %q", c.name, name, err, c.want)
			}
		}
	}
	path := in(t, file, nil)
	if err := os.Mkdir(ManifestPath(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil {
		t.Error("no error for a directory as the manifest")
	}
	if _, err := Read(filepath.Join(t.TempDir(), "absent.o")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v", err)
	}
}

// TestEachByte changes each byte of an object: no reader may accept it, as one file or with the unchanged manifest next
// to it.
func TestEachByte(t *testing.T) {
	file := joined(t)
	without, text, err := objfile.Split(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		data, text []byte
	}{{"one", file, nil}, {"both", file, text}, {"two", without, text}} {
		for i := range c.data {
			for _, x := range []byte{1, 0x20, 0x80, 0xff} {
				changed := bytes.Clone(c.data)
				changed[i] ^= x
				if _, err := NewFiles("x.o", changed, c.text).Parse(); err == nil {
					t.Fatalf("%s: byte %d changed from %#x to %#x: no error", c.name, i, c.data[i], changed[i])
				}
			}
		}
		for i := range c.data {
			if _, err := NewFiles("x.o", c.data[:i], c.text).Parse(); err == nil {
				t.Fatalf("%s: the first %d bytes: no error", c.name, i)
			}
		}
	}
	for i := range text {
		changed := bytes.Clone(text)
		changed[i] ^= 1
		if _, err := NewFiles("x.o", file, changed).Parse(); err == nil {
			t.Fatalf("manifest: byte %d: no error", i)
		}
	}
}

// FuzzOneFile checks that no file makes the reader panic, and that the sizes in an accepted one are within bounds.
func FuzzOneFile(f *testing.F) {
	file, err := os.ReadFile("testdata/joined.o")
	if err != nil {
		f.Fatal(err)
	}
	_, text, err := objfile.Split(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file, []byte(nil))
	f.Add(file, text)
	f.Fuzz(func(t *testing.T, data, text []byte) {
		if o, err := NewFiles("x.o", data, text).Parse(); err == nil && (o.Manifest == nil || o.Spec == nil || len(text) > manifest.MaxBytes) {
			t.Error("object and error at the same time")
		}
	})
}
