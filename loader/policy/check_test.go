// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/loader/resolve"
)

// In a directory where others than root can create files, a file with several hard links is permitted only if it belongs
// to whoever owns the directory, and nobody else can create files there. Otherwise the owner of the directory could link
// another user's program into it. What is opened counts, not what is at the path later.
func TestHardLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root")
	}
	const ann, bob = 4242, 4343
	for _, c := range []struct {
		name      string
		dir, file int
		mode      os.FileMode
		links     int
		permitted bool
	}{
		{"own file", ann, ann, 0o755, 1, true},
		{"own file, linked", ann, ann, 0o755, 2, true},
		{"file of root, not linked", ann, 0, 0o755, 1, true},
		{"file of root, linked", ann, 0, 0o755, 2, false},
		{"file of another user, linked", ann, bob, 0o755, 2, false},
		{"file of another user, many links", ann, bob, 0o755, 5, false},
		{"own file, linked, directory of a group", ann, ann, 0o775, 2, false},
		{"own file, linked, directory of all", ann, ann, 0o777, 2, false},
		{"own file, linked, sticky directory", ann, ann, 0o777 | os.ModeSticky, 2, false},
		{"linked in a directory of root that all may write", 0, 0, 0o777, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "d")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "program")
			if err := os.WriteFile(path, []byte("x"), 0o755); err != nil {
				t.Fatal(err)
			}
			for i := 1; i < c.links; i++ {
				if err := os.Link(path, filepath.Join(top, strings.Repeat("l", i))); err != nil {
					t.Skip("skipped: no hard links: ", err)
				}
			}
			if err := os.Chown(path, c.file, c.file); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(dir, c.dir, c.dir); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, c.mode); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := checkedPath(&resolve.Match{Path: path, File: f})
			if (err == nil) != c.permitted || err == nil && got != path {
				t.Errorf("%q, %v", got, err)
			}
			// The file at the path is another one now: the path of the open file decides.
			if err := os.Rename(path, filepath.Join(top, "moved")); err != nil {
				t.Fatal(err)
			}
			os.WriteFile(path, []byte("y"), 0o755)
			if got, err := checkedPath(&resolve.Match{Path: path, File: f}); got == path {
				t.Errorf("replaced: %q, %v", got, err)
			}
		})
	}
}
