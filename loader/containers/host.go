// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"btc/internal/safefile"
)

// Host is a host with containers. It is not safe for concurrent use.
type Host struct {
	root    string // root directory of the host's files; "": this process's own
	cgroups string // mount point of the cgroups of version 2
	old     string // a hierarchy of version 1; "": none
	proc    string
	states  map[string]*state
	roots   map[string]string // root directories of the containers, by cgroup path
	known   map[string]*Names // names of the containers, by cgroup path
	fresh   time.Time         // when the cache of states was started
}

// Local returns the host that this process runs on. If process 1 has another root directory, as
// seen from a container that shares the host's PID namespace, it is that of process 1. It is an
// error if there are no cgroups of version 2.
func Local() (*Host, error) {
	const first = "/proc/1/root"
	root, mounts := "", "/proc/self/mountinfo"
	own, err := os.Stat("/")
	if theirs, e := os.Stat(first + "/"); err == nil && e == nil && !os.SameFile(own, theirs) {
		root, mounts = first, "/proc/1/mountinfo"
	}
	text, err := safefile.ReadPseudo(mounts, maxState)
	if err != nil {
		return nil, err
	}
	unified, old := hierarchies(text)
	if unified == "" {
		return nil, errors.New("containers are found by their cgroups of version 2, which are not mounted here: mount -t cgroup2 none DIRECTORY")
	}
	if old != "" {
		old = root + old
	}
	return At(root, root+unified, old), nil
}

// At returns a host whose files are below root ("": this process's root directory), and whose
// cgroups of version 2 are in the directory cgroups. old is one of its hierarchies of version 1, or
// "".
func At(root, cgroups, old string) *Host {
	h := &Host{root: root, cgroups: cgroups, old: old, proc: "/proc", known: map[string]*Names{}}
	h.refresh()
	return h
}

// refresh drops caches that may be out of date.
func (h *Host) refresh() {
	h.states, h.roots, h.fresh = map[string]*state{}, map[string]string{}, time.Now()
}

// hierarchies returns, from a mountinfo file (proc(5)), the mount point of the cgroups of version
// 2, and a hierarchy of version 1, preferably systemd's. "" means none.
func hierarchies(mountinfo []byte) (unified, old string) {
	for lines := bufio.NewScanner(bytes.NewReader(mountinfo)); lines.Scan(); {
		// 30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw
		mount, super, ok := strings.Cut(lines.Text(), " - ")
		f, s := strings.Fields(mount), strings.Fields(super)
		if !ok || len(f) < 5 || len(s) < 3 {
			continue
		}
		path := unescape(f[4])
		switch {
		case s[0] == "cgroup2" && unified == "":
			unified = path
		case s[0] == "cgroup" && (old == "" || strings.Contains(s[2], "name=systemd")):
			old = path
		}
	}
	return unified, old
}

// unescape decodes the \ooo escapes of mountinfo.
func unescape(text string) string {
	for _, c := range []string{" ", "\t", "\n", "\\"} {
		text = strings.ReplaceAll(text, fmt.Sprintf(`\%03o`, c[0]), c)
	}
	return text
}

// Limits on the cgroup tree.
const (
	maxGroups = 1 << 17
	maxDepth  = 64
)

// scan returns the containers and pods in a hierarchy.
func scan(dir string) ([]*Group, error) {
	var out []*Group
	seen := 0
	var visit func(w walk, depth int) error
	visit = func(w walk, depth int) error {
		if seen++; seen > maxGroups {
			return fmt.Errorf("%s has more than %d cgroups", dir, maxGroups)
		}
		f, err := os.Open(dir + w.path)
		if err != nil {
			if w.path == "" {
				return err
			}
			return nil // removed in the meantime
		}
		entries, err := f.ReadDir(-1)
		f.Close()
		if err != nil && w.path == "" {
			return err
		}
		for _, e := range entries {
			if !e.IsDir() || depth == maxDepth {
				continue
			}
			next := w.down(e.Name())
			if g := next.within; g != nil && g.Path == next.path {
				if g.Parent != nil && g.Parent.Path == g.Path { // both groups are from one name SLICE:PREFIX:ID
					out = append(out, g.Parent)
				}
				out = append(out, g)
			}
			if err := visit(next, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(top, 0); err != nil {
		return nil, err
	}
	return out, nil
}

// partial reports whether only part of the host's cgroups is visible: the root cgroup has inode 1.
func (h *Host) partial() bool {
	ino, err := inode(h.cgroups)
	return err == nil && ino != 1
}

func inode(path string) (uint64, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("no inode")
	}
	return st.Ino, nil
}

// names returns the names of a container; nil if no runtime knows it. The error says what could not
// be read.
func (h *Host) names(g *Group) (*Names, error) {
	if n := h.known[g.Path]; n != nil {
		return n, nil
	}
	s, err := h.state(g)
	if err != nil {
		return nil, err
	}
	n, err := s.names(g)
	if n != nil {
		h.known[g.Path] = n
	}
	return n, err
}

// Label returns the name of the container or pod that a cgroup belongs to, given the cgroup's path
// from the root of the hierarchy: "web", "shop/web-0/nginx". It is "" if there is none, or its name
// is unknown.
func (h *Host) Label(path string) (label string, names Names) {
	g := parse(path)
	if g == nil {
		return "", Names{}
	}
	n := h.namesOf(g)
	if n == nil && time.Since(h.fresh) > freshTime { // the container may be new
		h.refresh()
		n = h.namesOf(g)
	}
	if n != nil {
		names = *n
	}
	return h.label(g, n), names
}

// freshTime is how long Label caches lists of names.
const freshTime = time.Second

func (h *Host) namesOf(g *Group) (n *Names) {
	if g.Kind == Container {
		n, _ = h.names(g)
	} else {
		n, _ = h.podNames(g, nil)
	}
	return n
}

// podNames returns the namespace and name of a pod; nil if unknown.
func (h *Host) podNames(g *Group, all []*Group) (*Names, error) {
	if g.Kind != Pod {
		return nil, nil
	}
	s, err := h.state(g)
	if err != nil {
		return nil, err
	}
	n, err := s.podNames(g.ID)
	if n != nil {
		return n, nil
	}
	for _, c := range all {
		if c.Kind == Container && c.Parent != nil && c.Parent.Kind == Pod && c.Parent.ID == g.ID &&
			same(c.outer(), g.outer()) {
			if n, _ := h.names(c); n != nil && n.Pod != "" {
				return &Names{Namespace: n.Namespace, Pod: n.Pod}, nil
			}
		}
	}
	return nil, err
}

// same reports whether two groups have the same cgroup.
func same(a, b *Group) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Path == b.Path && a.ID == b.ID
}

// state returns the state files of the runtime that created a group: on the host, or in the
// container in which the runtime runs.
func (h *Host) state(g *Group) (*state, error) {
	root := h.root
	if o := g.outer(); o != nil {
		var err error
		if root, err = h.rootOf(o); err != nil {
			return nil, err
		}
	}
	s := h.states[root]
	if s == nil {
		s = newState(root)
		h.states[root] = s
	}
	return s, nil
}

// rootOf returns the root directory of a running container: that of the first process in its PID
// namespace, or else of its oldest process.
func (h *Host) rootOf(c *Group) (string, error) {
	root, ok := h.roots[c.Path]
	if !ok {
		if pid := h.first(c); pid != 0 {
			root = fmt.Sprintf("%s/%d/root", h.proc, pid)
		}
		h.roots[c.Path] = root
	}
	if root == "" {
		return "", fmt.Errorf("container %s has no process whose files could be read", short(c.ID))
	}
	return root, nil
}

// first returns the first process of a container's PID namespace, or else its oldest process; 0 if
// there is none.
func (h *Host) first(c *Group) (best int) {
	for _, pid := range h.processes(c) {
		if h.isFirst(pid) {
			return pid
		}
		if best == 0 || pid < best {
			best = pid
		}
	}
	return best
}

// maxProcesses bounds the processes of a container that are looked at.
const maxProcesses = 256

// processes lists processes of a container that are not in a nested container.
func (h *Host) processes(c *Group) (pids []int) {
	var visit func(w walk, depth int)
	visit = func(w walk, depth int) {
		f, err := os.Open(h.cgroups + w.path + "/cgroup.procs")
		if err == nil {
			text, _ := io.ReadAll(io.LimitReader(f, 8*maxProcesses))
			f.Close()
			lines := strings.Split(string(text), "\n")
			for _, line := range lines[:len(lines)-1] { // the last one is empty or incomplete
				if pid, err := strconv.Atoi(line); err == nil && pid > 0 {
					pids = append(pids, pid)
				}
			}
		}
		entries, _ := safefile.Entries(h.cgroups + w.path)
		for _, e := range entries {
			if len(pids) >= maxProcesses || depth == maxDepth {
				return
			}
			if next := w.down(e.Name()); e.IsDir() && next.within == c {
				visit(next, depth+1)
			}
		}
	}
	visit(walk{path: c.Path, name: c.Path[strings.LastIndexByte(c.Path, '/')+1:], user: c.User, within: c}, 0)
	return pids
}

// isFirst reports whether a process is the first of its PID namespace.
func (h *Host) isFirst(pid int) bool {
	text, err := safefile.ReadPseudo(fmt.Sprintf("%s/%d/status", h.proc, pid), maxState)
	if err != nil {
		return false
	}
	_, rest, ok := strings.Cut(string(text), "\nNSpid:")
	line, _, _ := strings.Cut(rest, "\n")
	f := strings.Fields(line)
	return ok && len(f) > 1 && f[len(f)-1] == "1"
}

// short returns an ID as runtimes display it.
func short(id string) string {
	if isHex(id, idLength) {
		return id[:minID]
	}
	return id
}
