// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"btc/internal/elffile"
	"btc/internal/safefile"
	"btc/internal/unwind"
)

// withStore returns an Unwinder that uses a directory.
func withStore(t *testing.T, dir string) *Unwinder {
	t.Helper()
	return withStoreWarn(t, dir, func(text string) { t.Error(text) })
}

func withStoreWarn(t *testing.T, dir string, warn func(string)) *Unwinder {
	t.Helper()
	safe := storeIsSafe
	storeIsSafe = func(string) bool { return true }
	defer func() { storeIsSafe = safe }()
	u := NewUnwinder(Here, warn)
	if err := u.UseStore(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u
}

// inMemory returns a file of root in memory, as a program of another mount namespace looks like.
func inMemory(t *testing.T, content []byte) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("file", unix.MFD_CLOEXEC)
	if err != nil {
		t.Skip("skipped: no memfd_create: ", err)
	}
	f := os.NewFile(uintptr(fd), "file")
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := f.Chmod(0o755); err != nil {
		t.Fatal(err)
	}
	return f
}

// stored returns the names of the tables in a directory.
func stored(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, unwind.CacheName("*")))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestUnwindStore checks that a table is read from the directory and from a pack in it, and that only files of root are
// written into it.
func TestUnwindStore(t *testing.T) {
	library, ok := elffile.Library("libc.so.6")
	if !ok {
		t.Skip("skipped: no C library")
	}
	dir := t.TempDir()
	if err := NewUnwinder(Here, nil).UseStore(dir); err == nil {
		t.Error("a directory below one that everybody may write was used")
	}
	made, err := withStore(t, dir).Table(open(t, library))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, unwind.CacheName(made.BuildID))
	fi, err := os.Stat(library)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil && fi.Mode().Perm()&0o022 == 0 && os.Getuid() == 0 && safefile.OnOwnMount(open(t, library)) {
		t.Errorf("the table was not written: %v", err)
	}
	// What is read is what the file or the pack has: here a table of one row.
	short := *made
	short.Rows = made.Rows[:1]
	b, err := short.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var pack bytes.Buffer
	if err := unwind.WritePack(&pack, map[string][]byte{made.BuildID: b}); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{path: b, filepath.Join(dir, "host.unwind"): pack.Bytes()} {
		os.Remove(path)
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := withStore(t, dir).Table(open(t, library)); err != nil || len(got.Rows) != 1 {
			t.Errorf("%s: table of the file, error = %v", filepath.Base(name), err)
		}
		os.Remove(name)
	}
	// A damaged file is replaced by a table that is made.
	if err := os.WriteFile(path, []byte("btcunwt1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := withStore(t, dir).Table(open(t, library)); err != nil || len(got.Rows) != len(made.Rows) {
		t.Errorf("damaged file: error = %v", err)
	}
	// A file of another user may have the build id of a library.
	os.Remove(path)
	content, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	copied := write(t, content)
	if err := os.Chmod(copied, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := withStore(t, dir).Table(open(t, copied)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the table of a file that everybody may write was stored")
	}
	// So may a file in memory, and one of a container whose root is user 0.
	memory := inMemory(t, content)
	u := withStore(t, dir)
	if table, err := u.Table(memory); err != nil || table.BuildID != made.BuildID {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the table of a file in memory was stored")
	}
	// The file was written between the two readings: its table has another build id.
	if u.keep(open(t, library), "abcd", made); len(stored(t, dir)) > 0 {
		t.Errorf("a table of another build id was stored: %q", stored(t, dir))
	}
	for _, id := range []string{"", "a", "../../etc/passwd", "ABCD", "0g"} {
		if validBuildID(id) {
			t.Errorf("%q is a build id", id)
		}
	}
}

// TestDamagedPacks checks that packs that are not read are reported once, by name: damaged ones and those that are too many.
func TestDamagedPacks(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var pack bytes.Buffer
	if err := unwind.WritePack(&pack, map[string][]byte{"abcd": []byte("no table")}); err != nil {
		t.Fatal(err)
	}
	put("abcd1234.unwind", nil) // a table: it is made again
	put("host.unwind", []byte("btcunwX1"))
	put("empty.unwind", nil)
	put("x00.unwind", pack.Bytes()[:40])
	put("x01.unwind", pack.Bytes())
	for i := 2; i < maxStorePacks+3; i++ {
		put(fmt.Sprintf("x%02d.unwind", i), []byte("btcunwp1\x00\x00\x00\x00\x00\x00\x00\x00"))
	}
	var got []string
	u := withStoreWarn(t, dir, func(text string) { got = append(got, text) })
	for range 2 {
		if x := u.find("abcd"); x != nil {
			t.Error("a damaged table was used")
		}
	}
	want := []string{"empty.unwind: not a valid pack", "host.unwind: not a valid pack", "more than 16 packs: ", "x00.unwind: not a valid pack", "x01.unwind: not a valid"}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i, text := range got {
		if !strings.HasPrefix(text, "WARNING: --unwind-cache: ") || !strings.Contains(text, want[i]) || !strings.Contains(text, dir) {
			t.Errorf("%q, want %q", text, want[i])
		}
	}
	if !strings.Contains(got[2], "x16.unwind and") {
		t.Errorf("%q: not the first that is left out", got[2])
	}
}
