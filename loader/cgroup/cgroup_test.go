// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"btc/loader/format"
)

// tree makes directories, which stand in for a hierarchy, and returns it with the ID of each.
func tree(t *testing.T, name string, dirs ...string) (Hierarchy, map[string]uint64) {
	t.Helper()
	h := Hierarchy{name, t.TempDir()}
	ids := map[string]uint64{}
	for _, d := range append([]string{""}, dirs...) {
		path := h.Mount + d
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		ids[d] = info.Sys().(*syscall.Stat_t).Ino
	}
	if err := os.WriteFile(h.Mount+"/cgroup.procs", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return h, ids
}

// TestHierarchyFind checks that a cgroup has the path below the mount, and that files are not cgroups.
func TestHierarchyFind(t *testing.T) {
	h, ids := tree(t, unified, "/a", "/a/b", "/c")
	for path, id := range ids {
		want := path
		if path == "" {
			want = "/"
		}
		if got, ok := h.Find(id); got != want || !ok {
			t.Errorf("Find(%s) = %q, %v", want, got, ok)
		}
	}
	info, err := os.Stat(h.Mount + "/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint64{0, info.Sys().(*syscall.Stat_t).Ino} {
		if got, ok := h.Find(id); got != "" || ok {
			t.Errorf("Find(%d) = %q, %v; want none", id, got, ok)
		}
	}
	if got, ok := (Hierarchy{unified, h.Mount + "/missing"}).Find(ids[""]); got != "" || ok {
		t.Errorf("a mount that does not exist: %q, %v", got, ok)
	}
	visits := 0
	h.walk(func(uint64, string) bool { visits++; return visits < 2 })
	if visits != 2 {
		t.Errorf("%d visits, want an end after 2", visits)
	}
}

// TestNames checks the paths of an ID in all hierarchies, that containers are those of version 2, and that names are
// kept when a cgroup is gone.
func TestNames(t *testing.T) {
	two, ids := tree(t, unified, "/pod", "/other")
	one := Hierarchy{"cpu,cpuacct", two.Mount} // of the same inode numbers, as two file systems may have
	asked := 0
	c := &Names{looked: true, hierarchies: []Hierarchy{two, one}, paths: map[uint64][]hierarchyPath{}}
	c.Container = func(path string) format.Container {
		asked++
		return format.Container{Name: "of " + path}
	}
	for _, x := range []struct {
		filter, path, container string
	}{
		{"", "unified:/pod,cpu,cpuacct:/pod", "of /pod"},
		{"unified", "unified:/pod", "of /pod"},
		{"cpu*", "cpu,cpuacct:/pod", ""},
		{"none", "", ""},
		{"[", "", ""}, // not a pattern
	} {
		if got := c.Find(ids["/pod"], x.filter); got.Path != x.path || got.Container.Name != x.container {
			t.Errorf("Find(pod, %q) = %q of %q, want %q of %q", x.filter, got.Path, got.Container.Name, x.path, x.container)
		}
	}
	if asked != 3 {
		t.Errorf("%d cgroups of version 2 were looked up, want 3, each once", asked)
	}
	c.Load()
	if asked != 3 {
		t.Error("known cgroups are looked up again")
	}
	if err := os.Remove(two.Mount + "/pod"); err != nil {
		t.Fatal(err)
	}
	c.Load()
	if got := c.Find(ids["/pod"], "unified"); got.Path != "unified:/pod" {
		t.Errorf("a cgroup that is gone has the path %q", got.Path)
	}
	if got := c.Find(1, ""); got != (format.Cgroup{}) {
		t.Errorf("an unknown ID: %v", got)
	}
	if err := os.Rename(two.Mount+"/other", two.Mount+"/renamed"); err != nil { // as if the number was reused
		t.Fatal(err)
	}
	c.Load()
	if got := c.Find(ids["/other"], ""); got.Path != "unified:/renamed,cpu,cpuacct:/renamed" || got.Container.Name != "of /renamed" {
		t.Errorf("a number that was reused: %v", got)
	}
}

// TestUnknownID checks that an ID without a cgroup is looked for once.
func TestUnknownID(t *testing.T) {
	h, _ := tree(t, unified)
	c := &Names{looked: true, hierarchies: []Hierarchy{h}, paths: map[uint64][]hierarchyPath{}}
	c.Find(1, "")
	if _, ok := c.paths[1]; !ok || len(c.paths) != 2 {
		t.Errorf("paths = %v, want the mount and the missing one", c.paths)
	}
}

// TestHost checks that Names reads the mounts of the host by itself.
func TestHost(t *testing.T) {
	mounts := Mounted()
	if len(mounts) == 0 {
		t.Skip("skipped: no cgroup file system is mounted here")
	}
	if !slices.IsSortedFunc(mounts, func(a, b Hierarchy) int {
		switch {
		case a.Name == unified && b.Name != unified:
			return -1
		case a.Name != unified && b.Name == unified:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	}) {
		t.Errorf("%v, want version 2 first, then names in order", mounts)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(mounts[0].Mount, &st); err != nil {
		t.Skip("skipped: ", err)
	}
	c := &Names{}
	c.Load()
	if len(c.paths) == 0 {
		t.Fatal("no cgroups after Load")
	}
	if got := c.Find(st.Ino, mounts[0].Name); !strings.HasPrefix(got.Path, mounts[0].Name+":/") {
		t.Errorf("the root of %v: %q", mounts[0], got.Path)
	}
}

func TestControllers(t *testing.T) {
	for options, want := range map[string]string{
		"rw,cpu,cpuacct":                                "cpu,cpuacct",
		"rw,nosuid,nodev,noexec,relatime,pids":          "pids",
		"rw,xattr,name=systemd":                         "systemd",
		"rw,memory,release_agent=/x":                    "memory",
		"ro,seclabel,clone_children,noatime,nodiratime": "",
	} {
		if got := controllers(options); got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}

func TestMountsAreUnescaped(t *testing.T) {
	if got := unescape.Replace(`/a\040b\011c\012d\134e\040`); got != "/a b\tc\nd\\e " {
		t.Errorf("%q", got)
	}
}

// TestOpenMessages checks what a user is told about names that are not cgroups of version 2.
func TestOpenMessages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(file)
	for text, want := range map[string]string{
		"":   "the name of a cgroup is empty",
		file: file + " is not the directory of a cgroup",
		dir:  dir + " is not in a cgroup file system of version 2",
	} {
		if d, err := Open(text); d != nil || err == nil || err.Error() != want {
			t.Errorf("Open(%q) = %v, %v; want %s", text, d, err, want)
		}
	}
	version2 := []Hierarchy{{unified, dir}}
	version1Only := []Hierarchy{{"cpu", dir}}
	if _, err := openID("7", 7, version2); err == nil || err.Error() != "there is no cgroup with the ID 7" {
		t.Error(err)
	}
	if _, err := openID("7", 7, version1Only); !errors.Is(err, ErrVersion1) || !strings.HasPrefix(err.Error(), "cgroup 7: only cgroups of version 1 are mounted here: ") {
		t.Error(err)
	}
	if _, err := openID("7", 7, nil); errors.Is(err, ErrVersion1) || !strings.HasSuffix(err.Error(), "mount -t cgroup2 cgroup2 /sys/fs/cgroup") {
		t.Error(err)
	}
	h, ids := tree(t, "cpu", "/a")
	if _, err := openID("x", ids["/a"], []Hierarchy{h}); !errors.Is(err, ErrVersion1) || !strings.HasPrefix(err.Error(), h.Mount+"/a is a cgroup of version 1 (cpu): ") {
		t.Error(err)
	}
	if err := version1("/a", ""); !strings.HasPrefix(err.Error(), "/a is a cgroup of version 1: ") {
		t.Error(err)
	}
	if _, err := openID("x", ids["/a"], []Hierarchy{{unified, h.Mount}}); err == nil || err.Error() != h.Mount+"/a is not in a cgroup file system of version 2" {
		t.Error(err)
	}
}

// TestOpen opens a cgroup by its path, by its path below the mount and by its ID.
func TestOpen(t *testing.T) {
	mounts := Mounted()
	i := slices.IndexFunc(mounts, func(h Hierarchy) bool { return h.Name == unified })
	if i < 0 {
		t.Skip("skipped: cgroups of version 2 are not mounted here")
	}
	mount := mounts[i].Mount
	root, err := Open(mount + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if id, ok := mounts[i].Find(root.ID); id != "/" || !ok || root.Path != mount || root.Text != mount+"/" || root.FD() < 0 {
		t.Errorf("%+v, ID of %q", root, id)
	}
	if _, err := Open("/btc-no-such"); err == nil || err.Error() != "there is no cgroup /btc-no-such, nor one below "+mount+"/btc-no-such" {
		t.Error(err)
	}
	path := mount + "/btc-test-" + strconv.Itoa(os.Getpid())
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Skip("skipped: cannot make a cgroup: ", err)
	}
	defer os.Remove(path)
	below, err := Open("/" + filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	byID, err := Open(strconv.FormatUint(below.ID, 10))
	if err != nil {
		t.Fatal(err)
	}
	defer byID.Close()
	if below.Path != path || byID.Path != path || byID.ID != below.ID || below.ID == root.ID {
		t.Errorf("%+v, %+v", below, byID)
	}
	if below.Removed() || root.Removed() {
		t.Error("removed, but it is there")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if !below.Removed() {
		t.Error("not removed")
	}
}
