// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
)

// cgroups resolves cgroup ids to paths. It caches results: a cgroup that is gone when its
// events are read may have been seen before.
type cgroups struct {
	mu          sync.Mutex
	hierarchies []hierarchy
	looked      bool
	paths       map[uint64][]hierarchyPath
}

// hierarchy is a mounted cgroup file system.
type hierarchy struct{ name, mount string }

type hierarchyPath struct{ hierarchy, path string }

// text lists "hierarchy:path" of an id in the hierarchies that match the glob filter; all
// for "".
func (c *cgroups) text(id uint64, filter string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.paths[id]
	if !ok {
		found = c.find(id)
	}
	var parts []string
	for _, p := range found {
		if match, err := filepath.Match(filter, p.hierarchy); filter == "" || err == nil && match {
			parts = append(parts, p.hierarchy+":"+p.path)
		}
	}
	return strings.Join(parts, ",")
}

func (c *cgroups) find(id uint64) []hierarchyPath {
	if !c.looked {
		c.hierarchies, c.looked = mountedHierarchies(), true
		c.paths = map[uint64][]hierarchyPath{}
	}
	var found []hierarchyPath
	for _, h := range c.hierarchies {
		if path, ok := h.find(id); ok {
			found = append(found, hierarchyPath{h.name, path})
		}
	}
	if found != nil { // others may be made later
		c.paths[id] = found
	}
	return found
}

// find looks for the directory with the inode's number id.
func (h hierarchy) find(id uint64) (string, bool) {
	found := ""
	filepath.WalkDir(h.mount, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile, or not for us
		}
		if !d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Ino == id {
			found = "/" + strings.TrimPrefix(strings.TrimPrefix(path, h.mount), "/")
			return fs.SkipAll
		}
		return nil
	})
	return found, found != ""
}

// mountedHierarchies reads the mounts: "unified", then those of version 1 by
// name.
func mountedHierarchies() []hierarchy {
	f, err := os.Open("/proc/mounts")
	if err != nil {
		return nil
	}
	defer f.Close()
	var unified, old []hierarchy
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 {
			continue
		}
		switch fields[2] {
		case "cgroup2":
			unified = append(unified, hierarchy{"unified", fields[1]})
		case "cgroup":
			old = append(old, hierarchy{controllers(fields[3]), fields[1]})
		}
	}
	sort.Slice(old, func(i, j int) bool { return old[i].name < old[j].name })
	return append(unified, old...)
}

// mountOptions are options of a cgroup mount that name no controller.
var mountOptions = map[string]bool{
	"rw": true, "ro": true, "nosuid": true, "nodev": true, "noexec": true, "relatime": true, "noatime": true,
	"nodiratime": true, "seclabel": true, "xattr": true, "clone_children": true,
}

// controllers names a hierarchy of version 1 by its controllers, or by its own
// name when it has none.
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
