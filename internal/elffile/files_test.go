// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestFilesIsGlob compares Files with filepath.Glob.
func TestFilesIsGlob(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"a/x.so", "a/y.so", "b/x.so", "b/c/x.so", "x.so", ".hidden"} {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("none", filepath.Join(dir, "a", "dangling.so")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, p := range []string{"*", "*/*.so", "*/x.so", "?/x.so", "[ab]/*", "b/c/*", "none/*", "x.so/*", "a/dangling*", "./*/x.so", "a/none"} {
		for _, pattern := range []string{p, filepath.Join(dir, p)} {
			want, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				want[i] = filepath.Clean(want[i])
			}
			slices.Sort(want)
			have, err := Files(pattern)
			if slices.Sort(have); err != nil || !slices.Equal(have, slices.Compact(want)) && len(have)+len(want) > 0 {
				t.Errorf("Files(%s) = %v, %v; want %v", pattern, have, err, want)
			}
		}
	}
	if _, err := Files("[a"); err == nil {
		t.Error("no error for an invalid pattern")
	}
}

func TestFilesIsBounded(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"a", "b", "c"} {
		if err := os.MkdirAll(filepath.Join(dir, sub, "d"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := files(dir+"/*/*", 6); err != nil || len(all) != 3 {
		t.Errorf("6 entries with limit 6: %v, %v", all, err)
	}
	if _, err := files(dir+"/*/*", 5); err == nil {
		t.Error("no error for 6 entries with limit 5")
	}
}
