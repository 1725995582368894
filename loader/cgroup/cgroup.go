// SPDX-License-Identifier: Apache-2.0

// Package cgroup finds cgroups of this host: paths by cgroup ID, and version 2 directories by path
// or ID, for filters. The ID of a cgroup is the inode number of its directory, as returned by
// bpf_get_current_cgroup_id. The package reads mounts and directories, and changes nothing.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"btc/internal/safefile"
	"btc/loader/format"
)

// Names resolves IDs to paths. It caches results, because a cgroup may be gone by the time its
// events are read.
type Names struct {
	// Container returns the container or pod that a cgroup of version 2 belongs to, by the cgroup's
	// path below the mount, or the zero value if there is none. The function may be nil.
	Container func(path string) format.Container

	mu          sync.Mutex
	hierarchies []Hierarchy
	looked      bool
	paths       map[uint64][]hierarchyPath
}

// Hierarchy is a mounted cgroup file system: "unified" is version 2; hierarchies of version 1 are
// named after their controllers.
type Hierarchy struct{ Name, Mount string }

type hierarchyPath struct {
	hierarchy, path string
	container       format.Container
}

// Find returns the cgroups with an ID in the hierarchies that match the glob filter; "" matches
// all. The container is known for version 2 only.
func (c *Names) Find(id uint64, filter string) (out format.Cgroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.paths[id]
	if !ok {
		found = c.find(id)
	}
	for _, p := range found {
		if match, err := filepath.Match(filter, p.hierarchy); filter != "" && (err != nil || !match) {
			continue
		}
		if out.Path != "" {
			out.Path += ","
		}
		out.Path += p.hierarchy + ":" + p.path
		if p.hierarchy == unified {
			out.Container = p.container
		}
	}
	return out
}

// Load reads all current cgroups, so that a cgroup that is removed before it is printed still has a
// name.
func (c *Names) Load() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read()
}

func (c *Names) find(id uint64) []hierarchyPath {
	c.read() // the cgroup may be new
	found := c.paths[id]
	if found == nil {
		c.paths[id] = nil // it has been removed: there is no need to look again
	}
	return found
}

// read adds the current cgroups to paths.
func (c *Names) read() {
	if !c.looked {
		c.hierarchies, c.looked = Mounted(), true
		c.paths = map[uint64][]hierarchyPath{}
	}
	for _, h := range c.hierarchies {
		h.walk(func(id uint64, path string) bool {
			known := c.paths[id]
			i := slices.IndexFunc(known, func(p hierarchyPath) bool { return p.hierarchy == h.Name })
			if i >= 0 && known[i].path == path {
				return true
			}
			now := hierarchyPath{hierarchy: h.Name, path: path}
			if h.Name == unified && c.Container != nil {
				now.container = c.Container(path)
			}
			if i >= 0 { // the inode number was reused after a cgroup was removed
				known[i] = now
			} else {
				c.paths[id] = append(known, now)
			}
			return true
		})
	}
}

// Find returns the path below the mount of the cgroup with an ID.
func (h Hierarchy) Find(id uint64) (string, bool) {
	found := ""
	h.walk(func(have uint64, path string) bool {
		if have == id {
			found = path
		}
		return have != id
	})
	return found, found != ""
}

// walk calls a function for each cgroup until it returns false.
func (h Hierarchy) walk(visit func(id uint64, path string) bool) { h.below("", visit) }

// below is walk for a path and the cgroups below it; it reports whether all were visited. What cannot be read was removed
// in the meantime, or permission is denied.
func (h Hierarchy) below(path string, visit func(id uint64, path string) bool) bool {
	info, err := os.Lstat(h.Mount + path)
	if err != nil || !info.IsDir() {
		return true
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && !visit(st.Ino, "/"+strings.TrimPrefix(path, "/")) {
		return false
	}
	entries, _ := safefile.Entries(h.Mount + path)
	for _, e := range entries {
		if e.IsDir() && !h.below(path+"/"+e.Name(), visit) {
			return false
		}
	}
	return true
}

// unified is the name of the hierarchy of version 2.
const unified = "unified"

// Mounted returns the cgroup mounts of this process: version 2, then those of version 1 by name.
func Mounted() []Hierarchy {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil
	}
	defer f.Close()
	var new, old []Hierarchy
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 {
			continue
		}
		mount := unescape.Replace(fields[1])
		switch fields[2] {
		case "cgroup2":
			new = append(new, Hierarchy{unified, mount})
		case "cgroup":
			old = append(old, Hierarchy{controllers(fields[3]), mount})
		}
	}
	sort.Slice(old, func(i, j int) bool { return old[i].Name < old[j].Name })
	return append(new, old...)
}

// unescape decodes the octal escapes of /proc/mounts.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountOptions are the options of a cgroup mount that do not name a controller.
var mountOptions = map[string]bool{
	"rw": true, "ro": true, "nosuid": true, "nodev": true, "noexec": true, "relatime": true, "noatime": true,
	"nodiratime": true, "seclabel": true, "xattr": true, "clone_children": true,
}

// controllers names a hierarchy of version 1 after its controllers, or by its own name if it has
// none.
func controllers(options string) string {
	var names []string
	for o := range strings.SplitSeq(options, ",") {
		name, own := strings.CutPrefix(o, "name=")
		if own || !mountOptions[o] && !strings.Contains(o, "=") {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// Dir is an open cgroup directory of version 2.
type Dir struct {
	Text string // as given by the user
	Path string // path of the directory
	ID   uint64
	file *os.File
}

// FD returns the directory's file descriptor.
func (d *Dir) FD() int { return int(d.file.Fd()) }

// Close closes the directory.
func (d *Dir) Close() { d.file.Close() }

// Removed reports whether the cgroup has been removed. A new cgroup at the same path is a different
// one.
func (d *Dir) Removed() bool {
	err := unix.Faccessat(d.FD(), "cgroup.procs", unix.F_OK, 0)
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
}

// Open opens a cgroup of version 2, given by its path in the file system, by its path below the
// mount of version 2 (as in /proc/PID/cgroup and systemd), or by its decimal ID.
func Open(text string) (*Dir, error) {
	if text == "" {
		return nil, errors.New("the name of a cgroup is empty")
	}
	mounts := Mounted()
	if id, err := strconv.ParseUint(text, 10, 64); err == nil {
		return openID(text, id, mounts)
	}
	candidates := []string{text}
	for _, h := range mounts {
		if h.Name == unified {
			candidates = append(candidates, filepath.Join(h.Mount, text))
		}
	}
	reason := error(nil)
	for _, path := range candidates {
		d, err := openDir(text, path, mounts)
		if err == nil {
			return d, nil
		}
		if reason == nil || errors.Is(reason, fs.ErrNotExist) {
			reason = err
		}
	}
	if !errors.Is(reason, fs.ErrNotExist) {
		return nil, reason
	}
	if len(candidates) == 1 {
		return nil, noVersion2(text, mounts)
	}
	for _, h := range mounts { // a path in /proc/PID/cgroup that belongs to version 1
		if h.Name == unified {
			continue
		}
		if st, err := os.Stat(filepath.Join(h.Mount, text)); err == nil && st.IsDir() {
			return nil, version1(text, h.Name)
		}
	}
	return nil, fmt.Errorf("there is no cgroup %s, nor one below %s", text, strings.Join(candidates[1:], ", "))
}

func openID(text string, id uint64, mounts []Hierarchy) (*Dir, error) {
	any := false
	for _, h := range mounts {
		path, ok := h.Find(id)
		any = any || h.Name == unified
		switch {
		case ok && h.Name != unified:
			return nil, version1(h.Mount+path, h.Name)
		case ok:
			return openDir(text, filepath.Join(h.Mount, path), mounts)
		}
	}
	if !any {
		return nil, noVersion2(text, mounts)
	}
	return nil, fmt.Errorf("there is no cgroup with the ID %d", id)
}

// openDir opens a path if it is a cgroup of version 2.
func openDir(text, path string, mounts []Hierarchy) (*Dir, error) {
	// Not O_PATH: before Linux 6.0 the kernel does not accept such a descriptor for a cgroup.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("%s is not the directory of a cgroup", path)
	}
	if err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", path, err)
	}
	d := &Dir{Text: text, Path: filepath.Clean(path), file: os.NewFile(uintptr(fd), path)}
	var kind unix.Statfs_t
	var st unix.Stat_t
	if err := errors.Join(unix.Fstatfs(fd, &kind), unix.Fstat(fd, &st)); err != nil {
		d.Close()
		return nil, fmt.Errorf("cgroup %s: %w", path, err)
	}
	d.ID = st.Ino
	switch int64(kind.Type) {
	case unix.CGROUP2_SUPER_MAGIC:
		return d, nil
	case unix.CGROUP_SUPER_MAGIC:
		name := ""
		for _, h := range mounts {
			if rest, ok := strings.CutPrefix(d.Path, h.Mount); ok && h.Name != unified &&
				(rest == "" || rest[0] == '/') {
				name = h.Name
			}
		}
		d.Close()
		return nil, version1(d.Path, name)
	}
	d.Close()
	return nil, fmt.Errorf("%s is not in a cgroup file system of version 2", path)
}

// ErrVersion1 is the cause of errors about cgroups of version 1.
var ErrVersion1 = errors.New("filters need cgroups of version 2: a BPF program cannot test whether a task is in one of version 1")

// version1 returns the error for a cgroup of version 1.
func version1(path, hierarchy string) error {
	if hierarchy != "" {
		hierarchy = " (" + hierarchy + ")"
	}
	return fmt.Errorf("%s is a cgroup of version 1%s: %w", path, hierarchy, ErrVersion1)
}

// noVersion2 returns the error for a host where version 2 is not mounted.
func noVersion2(text string, mounts []Hierarchy) error {
	if len(mounts) == 0 {
		return fmt.Errorf("cgroup %s: no cgroup file system is mounted here: mount -t cgroup2 cgroup2 /sys/fs/cgroup",
			text)
	}
	return fmt.Errorf("cgroup %s: only cgroups of version 1 are mounted here: %w", text, ErrVersion1)
}
