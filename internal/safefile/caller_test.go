// SPDX-License-Identifier: Apache-2.0

//go:build linux

package safefile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A file that a group of the caller may read is opened for a caller by sudo, and that of another group is not.
func TestGroupsOfCaller(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"passwd": "root:x:0:0::/:/bin/sh\nann:x:4242:4242::/:/bin/sh\nbroken\nbob:x:4343:4343::/:/bin/sh\n",
		"group":  "root:x:0:\nann:x:4242:\nstaff:x:777:bob,ann\nannex:x:778:anna,bob\nbad:x:y:ann\nmore:x:779:ann\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	userFiles = dir
	t.Cleanup(func() { userFiles = "/etc" })
	if g := groupsOf(4242); !slices.Equal(g, []int{777, 779}) {
		t.Errorf("groups of ann: %v", g)
	}
	if g := groupsOf(5); g != nil {
		t.Errorf("groups of an unknown user: %v", g)
	}
	if os.Getuid() != 0 {
		t.Skip("skipped: not root")
	}
	file := filepath.Join(dir, "object")
	if err := os.WriteFile(file, []byte("x"), 0o640); err != nil {
		t.Fatal(err)
	}
	for d := dir; d != "/tmp" && len(d) > 1; d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	t.Setenv("SUDO_UID", "4242")
	t.Setenv("SUDO_GID", "4242")
	before, _ := unix.Getgroups()
	for _, c := range []struct {
		gid  int
		open bool
	}{{777, true}, {779, true}, {778, false}, {0, false}} {
		if err := os.Chown(file, 0, c.gid); err != nil {
			t.Fatal(err)
		}
		AsCaller(func() {
			f, err := Open(file)
			if (err == nil) != c.open {
				t.Errorf("group %d: %v", c.gid, err)
			}
			f.Close()
		})
	}
	if after, _ := unix.Getgroups(); !slices.Equal(before, after) {
		t.Errorf("groups %v, before %v", after, before)
	}
}
