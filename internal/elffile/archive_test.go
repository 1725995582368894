// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"
)

// archive returns an archive with a stored and a compressed member.
func archive(t testing.TB, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range []struct {
		name   string
		method uint16
	}{{"lib/other.txt", zip.Store}, {"lib/prog", zip.Store}, {"lib/packed", zip.Deflate}} {
		f, err := w.CreateHeader(&zip.FileHeader{Name: m.name, Method: m.method})
		if err != nil {
			t.Fatal(err)
		}
		f.Write(content)
	}
	w.SetComment("a comment")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchive(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(content, []byte("\x7fELF")) {
		t.Skip("skipped: programs on this system are not ELF files")
	}
	data := archive(t, content)
	f, err := New(bytes.NewReader(data), int64(len(data)), "lib/prog", true)
	if err != nil {
		t.Fatal(err)
	}
	if f.Section(".text") == nil || !bytes.HasPrefix(data[f.Offset:], content) {
		t.Errorf("program not found at %d", f.Offset)
	}
	for member, want := range map[string]string{"lib/packed": "is compressed", "none": "no member none"} {
		if _, err := New(bytes.NewReader(data), int64(len(data)), member, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v", member, err)
		}
	}
	if _, err := New(bytes.NewReader(content), int64(len(content)), "x", true); err == nil || !strings.Contains(err.Error(), "not a valid zip file") {
		t.Errorf("not an archive: error = %v", err)
	}
	if archive, member, inside := Member("/a/b.apk!/lib/c.so"); archive != "/a/b.apk" || member != "lib/c.so" || !inside {
		t.Errorf("Member = %s, %s, %t", archive, member, inside)
	}
}

// large rewrites the end of an archive as that of a large one, and its entries with fields of 64 bits.
func large(b []byte) []byte {
	le := binary.LittleEndian
	end := bytes.LastIndex(b, []byte(endSignature))
	at := int(le.Uint32(b[end+16:]))
	var entries []byte
	for dir := b[at:end]; len(dir) > 0; {
		names, extras := int(le.Uint16(dir[28:])), int(le.Uint16(dir[30:]))
		next := entrySize + names + extras + int(le.Uint16(dir[32:]))
		head := bytes.Clone(dir[:entrySize+names])
		extra := []byte{9, 0, 2, 0, 'x', 'y', 1, 0, 24, 0}
		for _, off := range []int{24, 20, 42} { // size, compressed size, offset
			extra = le.AppendUint64(extra, uint64(le.Uint32(dir[off:])))
			le.PutUint32(head[off:], 1<<32-1)
		}
		le.PutUint16(head[30:], uint16(len(extra)))
		le.PutUint16(head[32:], 0)
		entries = append(append(entries, head...), extra...)
		dir = dir[next:]
	}
	out := append(bytes.Clone(b[:at]), entries...)
	end64 := len(out)
	out = append(out, end64Signature...)
	out = append(le.AppendUint64(out, end64Size-12), make([]byte, 12)...)
	for _, v := range []uint64{3, 3, uint64(len(entries)), uint64(at)} {
		out = le.AppendUint64(out, v)
	}
	out = append(append(out, locator64Signature...), 0, 0, 0, 0)
	out = append(le.AppendUint64(out, uint64(end64)), 1, 0, 0, 0)
	out = append(append(out, endSignature...), 0, 0, 0, 0)
	return append(out, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0)
}

// reference is what archive/zip finds.
func reference(b []byte, member string) (off, length int64, ok bool) {
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return 0, 0, false
	}
	for _, f := range z.File {
		if f.Name == member {
			off, err := f.DataOffset()
			return off, int64(f.CompressedSize64), err == nil && f.Method == zip.Store
		}
	}
	return 0, 0, false
}

// Members are where archive/zip finds them, in each kind of archive.
func TestArchiveKinds(t *testing.T) {
	plain := archive(t, []byte("some bytes"))
	for name, b := range map[string][]byte{
		"plain":                    plain,
		"large":                    large(plain),
		"after a program":          append([]byte("#!/bin/sh\n"), plain...),
		"signature in the comment": append(bytes.Clone(plain[:len(plain)-9]), endSignature+"xxxxx"...),
	} {
		for _, member := range []string{"lib/prog", "lib/other.txt"} {
			off, n, err := stored(bytes.NewReader(b), int64(len(b)), member)
			wantOff, wantN, ok := reference(b, member)
			if err != nil || !ok || off != wantOff || n != wantN || string(b[off:off+n]) != "some bytes" {
				t.Errorf("%s: %s: %d bytes at %d, %v; archive/zip finds %d at %d, %v", name, member, n, off, err, wantN, wantOff, ok)
			}
		}
	}
	for i := range len(plain) { // cut anywhere
		if off, n, err := stored(bytes.NewReader(plain[:i]), int64(i), "lib/prog"); err == nil {
			t.Errorf("%d bytes: found %d at %d", i, n, off)
		}
	}
	huge := bytes.Clone(plain)
	end := bytes.LastIndex(huge, []byte(endSignature))
	binary.LittleEndian.PutUint32(huge[end+12:], 1<<30)
	if _, _, err := stored(bytes.NewReader(huge), int64(len(huge)), "lib/prog"); err == nil {
		t.Error("a directory that is larger than its file was read")
	}
}

func FuzzArchive(f *testing.F) {
	f.Add(archive(f, []byte("some bytes")))
	f.Add(large(archive(f, []byte("some bytes"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		off, n, err := stored(bytes.NewReader(b), int64(len(b)), "lib/prog")
		if err == nil && (off < 0 || n < 0 || off+n > int64(len(b))) {
			t.Errorf("%d bytes at %d of %d", n, off, len(b))
		}
		if wantOff, wantN, ok := reference(b, "lib/prog"); ok && err == nil && (off != wantOff || n != wantN) {
			t.Errorf("%d bytes at %d, archive/zip: %d at %d", n, off, wantN, wantOff)
		}
	})
}
