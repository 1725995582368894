// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"btc/internal/spell"
)

// Target is a container or pod that was found.
type Target struct {
	Kind  Kind
	ID    string // or the UID of a pod
	Label string // the name in messages: "web", "shop/web-0/nginx"; the short ID if there is no name
	// Cgroups are its cgroup directories: its processes are in one of them, or below. A container
	// has exactly one.
	Cgroups []string
	// Processes has one process per container, which has the container's root directory.
	Processes []int
	inodes    []uint64
	group     *Group
}

// Gone reports whether all cgroups of the target have been removed.
func (t *Target) Gone() bool {
	for i, dir := range t.Cgroups {
		if ino, err := inode(dir); err == nil && ino == t.inodes[i] {
			return false
		}
	}
	return true
}

// NotFoundError means that the container or pod does not exist here (yet).
type NotFoundError struct {
	Kind Kind
	Name string
	Why  string // details, or ""
	// Unreadable means that the cause may be names that could not be read.
	Unreadable error
	own        bool // Unreadable is about something that the host itself runs
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("there is no running %s %s on this host", e.Kind, e.Name)
	if e.Unreadable != nil {
		text = fmt.Sprintf("cannot look for %s %s among the names: %v", e.Kind, e.Name, e.Unreadable)
		if denied(e.Unreadable) {
			text += " (this needs root, or CAP_DAC_READ_SEARCH, and CAP_SYS_PTRACE for nested containers)"
		}
	}
	if e.Why != "" {
		text += "; " + e.Why
	}
	return text
}

func (e *NotFoundError) Unwrap() error { return e.Unreadable }

// AmbiguousError lists the containers or pods that match a name or an ID prefix.
type AmbiguousError struct {
	Kind       Kind
	Name       string
	Candidates []string // one line each: ID, runtime, name
}

func (e *AmbiguousError) Error() string {
	n := e.Candidates
	more, use := "", "ID"
	if e.Kind != Container {
		use = "UID"
	}
	if len(n) > maxCandidates {
		more, n = fmt.Sprintf("\n  and %d more", len(n)-maxCandidates), n[:maxCandidates]
	}
	return fmt.Sprintf("%s %s is ambiguous, it may be:\n  %s%s\nuse the %s", e.Kind, e.Name, strings.Join(n, "\n  "),
		more, use)
}

const maxCandidates = 20

// named is a group with its names.
type named struct {
	*Group
	names *Names
	label string
	err   error // reason why there are no names
}

// Container finds the running container with an ID or ID prefix, a name, POD/NAME or
// NAMESPACE/POD/NAME. If there are pods, it must be in one of them.
func (h *Host) Container(name string, pods ...*Target) (*Target, error) {
	return h.find(Container, name, func(n *named) bool {
		p := n.pod()
		for _, t := range pods {
			if p != nil && p.ID == t.ID && same(p.outer(), t.group.outer()) {
				return true
			}
		}
		return len(pods) == 0
	})
}

// Pod finds the running pod with a UID or UID prefix, NAMESPACE/NAME or NAME.
func (h *Host) Pod(name string) (*Target, error) {
	return h.find(Pod, name, func(*named) bool { return true })
}

// find returns the best match for a name among the candidate groups of a kind.
func (h *Host) find(kind Kind, name string, in func(n *named) bool) (*Target, error) {
	h.refresh()
	all, err := scan(h.cgroups)
	if err != nil {
		return nil, err
	}
	var some, found []*named
	best := noMatch
	described := h.describe(all)
	for _, n := range described {
		if (n.Kind == Container) != (kind == Container) || !in(n) {
			continue
		}
		some = append(some, n)
		how := n.match(name)
		if how > best {
			best, found = how, nil
		}
		if how == best && how != noMatch {
			found = append(found, n)
		}
	}
	switch best {
	case noMatch:
		return nil, h.notFound(kind, name, some)
	case wholeID:
		found = nearest(found)
	}
	t, err := h.target(kind, name, found)
	if err != nil {
		return nil, err
	}
	for _, n := range described { // the group itself, or the containers of a pod
		if n.Kind != Container || n.names != nil && n.names.Sandbox && kind == Pod {
			continue
		}
		p := n.pod()
		if same(n.Group, t.group) || p != nil && p.ID == t.ID && same(p.outer(), t.group.outer()) {
			if pid := h.first(n.Group); pid != 0 {
				t.Processes = append(t.Processes, pid)
			}
		}
	}
	return t, nil
}

// How well a name matches a group; higher is better.
const (
	noMatch = iota
	partOfID
	itsName
	wholeID
)

func (n *named) match(name string) int {
	switch {
	case name == "":
	case n.ID == name:
		return wholeID
	case n.isCalled(name):
		return itsName
	case strings.HasPrefix(n.ID, name):
		return partOfID
	}
	return noMatch
}

// isCalled reports whether a name matches a group's name or the end of it.
func (n *named) isCalled(name string) bool {
	switch {
	case n.names == nil:
		return false
	case name == n.label:
		return true
	case n.names.Sandbox:
		return false
	}
	full := n.names.path(n.Kind)
	return name == full || strings.HasSuffix(full, "/"+name)
}

// path returns a name qualified by its pod and namespace: NAMESPACE/POD/CONTAINER.
func (n *Names) path(kind Kind) string {
	text, container := n.Namespace, n.Container
	if n.Sandbox {
		container = "(sandbox)"
	}
	if kind != Container {
		container = ""
	}
	for _, part := range []string{n.Pod, container} {
		if text != "" && part != "" {
			text += "/"
		}
		text += part
	}
	return text
}

// nearest returns the groups with the smallest distance: an ID refers to what the host itself runs,
// whatever users and containers call their cgroups.
func nearest(found []*named) (out []*named) {
	least := found[0].distance()
	for _, n := range found {
		least = min(least, n.distance())
	}
	for _, n := range found {
		if n.distance() == least {
			out = append(out, n)
		}
	}
	return out
}

// describe looks up the names.
func (h *Host) describe(all []*Group) []*named {
	var out []*named
	for _, g := range all {
		n := &named{Group: g}
		if g.Kind == Container {
			n.names, n.err = h.names(g)
		} else {
			n.names, n.err = h.podNames(g, all)
		}
		n.label = h.label(g, n.names)
		out = append(out, n)
	}
	return out
}

// label returns the display name of a group. A nested container is prefixed with the outer one. It
// is "" if there is no name.
func (h *Host) label(g *Group, names *Names) string {
	if names == nil {
		return ""
	}
	text := names.path(g.Kind)
	for o := g.outer(); o != nil; o = o.outer() {
		outer := short(o.ID)
		if n, _ := h.names(o); n != nil {
			outer = n.path(Container)
		}
		text = outer + " > " + text
	}
	return text
}

// target returns the only container or pod found, or an AmbiguousError.
func (h *Host) target(kind Kind, name string, found []*named) (*Target, error) {
	first := found[0]
	t := &Target{Kind: first.Kind, ID: first.ID, Label: first.label, group: first.Group}
	if t.Label == "" {
		t.Label = short(t.ID)
	}
	for _, n := range found {
		if n.ID != first.ID || n.Kind != first.Kind || !same(n.outer(), first.outer()) || n.User != first.User {
			return nil, &AmbiguousError{kind, name, candidates(found)}
		}
		if dir := h.cgroups + n.Path; !slices.Contains(t.Cgroups, dir) {
			t.Cgroups = append(t.Cgroups, dir)
		}
	}
	slices.Sort(t.Cgroups)
	t.Cgroups = slices.DeleteFunc(t.Cgroups, func(dir string) bool {
		ino, err := inode(dir)
		if err == nil { // on an error it was removed in the meantime
			t.inodes = append(t.inodes, ino)
		}
		return err != nil
	})
	if len(t.Cgroups) == 0 {
		return nil, &NotFoundError{Kind: kind, Name: name, Why: "it has just ended"}
	}
	return t, nil
}

// candidates describes groups, one line each.
func candidates(found []*named) (out []string) {
	width := minID
	for i, a := range found { // long enough to be distinct
		for _, b := range found[:i] {
			for a.ID != b.ID && width < idLength && cut(a.ID, width) == cut(b.ID, width) {
				width++
			}
		}
	}
	for _, n := range found {
		id, runtime, label := n.ID, n.Runtime, n.label
		if n.Kind != Pod {
			id = cut(id, width)
		}
		if runtime == "" {
			runtime = n.Kind.String()
		}
		if label == "" {
			label = "(name unknown)"
		}
		if n.User > 0 {
			label += fmt.Sprintf(" of user %d", n.User)
		}
		for _, o := range found {
			if o.ID == n.ID && o.Path != n.Path {
				label += ", cgroup " + n.Path
				break
			}
		}
		out = append(out, fmt.Sprintf("%s  %-10s  %s", id, runtime, label))
	}
	slices.Sort(out)
	return out
}

func cut(text string, n int) string { return text[:min(len(text), n)] }

// notFound explains why nothing matches a name.
func (h *Host) notFound(kind Kind, name string, in []*named) error {
	e := &NotFoundError{Kind: kind, Name: name}
	var labels, places []string
	unnamed := 0
	for _, n := range in {
		switch {
		case n.names != nil && !n.names.Sandbox:
			labels = append(labels, n.label, n.names.path(n.Kind))
			if path := n.names.path(n.Kind); strings.Contains(path, "/") {
				labels = append(labels, path[strings.LastIndexByte(path, '/')+1:])
			}
		case n.Kind == PodmanPod:
			e.Why = "podman keeps the names of its pods in a database: use the pod's ID"
		case n.names == nil && n.err != nil && !isHex(name, minID):
			// Files of the host itself come first: any user can have a file that cannot be read.
			if mine := n.distance() == 0; e.Unreadable == nil || mine && !e.own {
				e.Unreadable, e.own = n.err, mine
			}
		case n.names == nil:
			unnamed++
			if where := namesDir(n.Group); !slices.Contains(places, where) {
				places = append(places, where)
			}
		}
	}
	near := spell.Nearest(name, labels)
	switch {
	case e.Why != "":
	case near != "":
		e.Why = "did you mean " + near + "?"
	case e.Unreadable != nil:
	case h.hasOld(kind, name):
		e.Why = "it has a cgroup of version 1, and version 2 is required"
	case unnamed > 0:
		e.Why = fmt.Sprintf("of those that run, %d have no name in %s: use the ID", unnamed, strings.Join(places, ", "))
	case h.partial():
		e.Why = "only a part of the cgroups is visible in this cgroup namespace: run it in the host's"
	}
	return e
}

// hasOld reports whether a container or pod has a cgroup of version 1.
func (h *Host) hasOld(kind Kind, name string) bool {
	if h.old == "" {
		return false
	}
	all, err := scan(h.old)
	if err != nil {
		return false
	}
	old := At(h.root, h.old, "")
	for _, n := range old.describe(all) {
		if (n.Kind == Container) == (kind == Container) && n.match(name) != noMatch {
			return true
		}
	}
	return false
}

// Timing of Wait: the shortest pause between two scans of the cgroups, and the ratio of a pause to
// the duration of a scan.
const (
	shortestWait = 100 * time.Millisecond
	waitShare    = 25
)

// Wait calls find, which looks for a container or pod, until it succeeds or ctx ends. Any error but
// a NotFoundError ends the wait, and so do names that this process is not permitted to read. It
// calls waiting once if the first attempt fails.
func (h *Host) Wait(ctx context.Context, find func() (*Target, error), waiting func()) (*Target, error) {
	for first := true; ; first = false {
		begin := time.Now()
		t, err := find()
		var absent *NotFoundError
		if !errors.As(err, &absent) || absent.own && denied(err) {
			return t, err
		}
		if first {
			waiting()
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w while waiting: %w", ctx.Err(), err)
		case <-time.After(max(shortestWait, waitShare*time.Since(begin))):
		}
	}
}

// denied reports whether this process is not permitted to read the files. Waiting would be in vain.
func denied(err error) bool { return errors.Is(err, fs.ErrPermission) }
