// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReplaceFile checks that a file is replaced as a whole, that other files in the directory are
// unchanged, and that the old file is unchanged if the new one cannot be written.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path, beside := filepath.Join(dir, "t"), filepath.Join(dir, "t.part")
	for name, mode := range map[string]os.FileMode{path: 0o600, beside: 0o644} {
		if err := os.WriteFile(name, []byte("old"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := replaceFile(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path: "new", beside: "old"} {
		if have, err := os.ReadFile(name); err != nil || string(have) != want {
			t.Errorf("contents of %s = %q, %v, want %q", name, have, err, want)
		}
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("Stat = %v, %v, want mode 0600", fi, err)
	}
	if err := replaceFile(dir, []byte("new")); err == nil {
		t.Error("no error for a directory")
	}
	if err := replaceFile(filepath.Join(dir, "none", "t"), []byte("new")); err == nil {
		t.Error("directory created")
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("files left behind: %v, %v", all, err)
	}
	if err := replaceFile("/dev/null", []byte("new")); err != nil {
		t.Error(err)
	}
}
