// SPDX-License-Identifier: Apache-2.0

package binary

import (
	"archive/zip"
	"bytes"
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

func FuzzArchive(f *testing.F) {
	f.Add(archive(f, []byte("some bytes")))
	f.Fuzz(func(t *testing.T, b []byte) {
		off, n, err := stored(bytes.NewReader(b), int64(len(b)), "lib/prog")
		if err == nil && (off < 0 || n < 0 || off+n > int64(len(b))) {
			t.Errorf("%d bytes at %d of %d", n, off, len(b))
		}
	})
}
