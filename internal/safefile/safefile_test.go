// SPDX-License-Identifier: Apache-2.0

//go:build linux

package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenTakesRegularFilesOnly checks that files other than regular ones are rejected: opening a FIFO
// without a writer, for example, would block forever.
func TestOpenTakesRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(target, name string) string {
		path := filepath.Join(dir, name)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		path string
		want error
	}{
		{file, nil}, {link("file", "to-file"), nil},
		{fifo, ErrNotRegular}, {link("fifo", "to-fifo"), ErrNotRegular},
		{"/dev/null", ErrNotRegular}, {link("/dev/zero", "to-device"), ErrNotRegular},
		{dir, ErrNotRegular}, {filepath.Join(dir, "none"), fs.ErrNotExist},
	} {
		f, err := Open(c.path)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("Open(%s): error = %v, want %v", c.path, err, c.want)
		}
		f.Close()
	}
}

func TestOpenInStaysBelowItsRoot(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "secret")
	for path, text := range map[string]string{filepath.Join(root, "file"): "inside", outside: "outside"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"absolute": "/file", "up": "../../../../../file", "out": outside} {
		if err := os.Symlink(target, filepath.Join(root, "a", name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/file", "/a/absolute", "/a/up", "/../file"} {
		f, err := OpenIn(root, path)
		if err != nil {
			t.Errorf("OpenIn(%s): error = %v", path, err)
			continue
		}
		if fi, err := f.Stat(); err != nil || fi.Size() != int64(len("inside")) {
			t.Errorf("%s opened a different file", path)
		}
		f.Close()
	}
	if f, err := OpenIn(root, "/a/out"); err == nil {
		t.Errorf("symbolic link followed to %s outside of the root", outside)
		f.Close()
	}
}

func TestCreateIn(t *testing.T) {
	root, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	write := func(path string) {
		if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(outside)
	write(filepath.Join(root, "old"))
	for name, target := range map[string]string{"out": outside, "dir": filepath.Dir(outside), "device": "/dev/null"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(outside, filepath.Join(root, "hard")); err != nil {
		t.Logf("hard link not tested: %v", err)
	}
	if err := unix.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"new", "old"} {
		f, err := CreateIn(root, name)
		if err != nil {
			t.Errorf("CreateIn(%s): error = %v", name, err)
			continue
		}
		f.WriteString("text")
		f.Close()
		if b, err := os.ReadFile(filepath.Join(root, name)); string(b) != "text" {
			t.Errorf("contents of %s = %q, %v", name, b, err)
		}
	}
	if fi, err := os.Stat(filepath.Join(root, "new")); err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode of new = %v, %v", fi.Mode(), err)
	}
	for _, name := range []string{"out", "dir/secret", "hard", "fifo", "device", "../x", ".", "none/x"} {
		if f, err := CreateIn(root, name); err == nil {
			t.Errorf("%s was created", name)
			f.Close()
		}
	}
	if b, _ := os.ReadFile(outside); string(b) != "old" {
		t.Errorf("file outside of the root changed: %q", b)
	}
}

func TestDirIn(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(root, "a", "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, ok := range map[string]bool{".": true, "a/b": true, "a/../a": true, "a/out": false, "file": false, "..": false, "a/none": false} {
		f, err := DirIn(root, path)
		if (err == nil) != ok {
			t.Errorf("DirIn(%s): error = %v", path, err)
		}
		f.Close()
	}
}

func TestReadIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := Read(path, 100); err != nil || len(b) != 100 {
		t.Errorf("read %d bytes, error = %v", len(b), err)
	}
	if _, err := Read(path, 99); !errors.Is(err, ErrTooLarge) {
		t.Errorf("100 bytes with limit 99: error = %v", err)
	}
	if err := os.Truncate(path, 1<<40); err != nil { // sparse
		t.Skip("skipped: the file system does not support sparse files of 1 TiB: ", err)
	}
	if _, err := Read(path, 1<<10); !errors.Is(err, ErrTooLarge) {
		t.Errorf("1 TiB with limit 1 KiB: error = %v", err)
	}
}

// TestListIn checks that links are resolved below the root, and that at most the given number of names
// is returned.
func TestListIn(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"a/x", "a/y", "a/z"} {
		os.MkdirAll(filepath.Join(root, name), 0o755)
	}
	os.WriteFile(filepath.Join(root, "file"), []byte("12345"), 0o644)
	os.Symlink("/a", filepath.Join(root, "link"))
	os.Symlink("../../../..", filepath.Join(root, "out"))
	if names, err := ListIn(root, "/link", 3); err != nil || len(names) != 3 {
		t.Errorf("ListIn = %v, %v", names, err)
	}
	if names, err := ListIn(root, "a/x", 3); err != nil || len(names) != 0 {
		t.Errorf("ListIn of an empty directory = %v, %v", names, err)
	}
	if names, err := ListIn(root, "out", 10); err != nil || len(names) != 4 {
		t.Errorf("ListIn followed a link out of the root: %v, %v", names, err)
	}
	if _, err := ListIn(root, "a", 2); !errors.Is(err, ErrTooLarge) {
		t.Errorf("three names with limit two: error = %v", err)
	}
	if _, err := ListIn(root, "none", 2); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error = %v", err)
	}
	if _, err := ListIn(root, "file", 2); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("error = %v", err)
	}
	if data, err := ReadIn(root, "file", 5); err != nil || string(data) != "12345" {
		t.Errorf("data %q, error = %v", data, err)
	}
	if _, err := ReadIn(root, "file", 4); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error = %v", err)
	}
}
