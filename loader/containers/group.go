// SPDX-License-Identifier: Apache-2.0

// Package containers finds containers and pods of this host by their cgroups (version 2), and names
// the container that a cgroup belongs to. It takes an ID or a name as the user knows it, and
// returns cgroups. It reads IDs from the names of cgroup directories, and names from the state
// files of container runtimes and the kubelet. It talks to no runtime, and starts nothing. All
// input is hostile: users create cgroups and files of their own, and the files of nested containers
// belong to the outer container.
package containers

import (
	"strconv"
	"strings"
)

// Group is a container or a pod, as identified by the name of its cgroup directory.
type Group struct {
	Kind    Kind
	Runtime string // containers only: containerd, cri-o, docker or podman; "" if the cgroup name does not show it
	ID      string // ID of a container, UID of a pod
	Path    string // cgroup path from the root of the hierarchy: "/system.slice/docker-ID.scope"
	Parent  *Group // the container or pod that contains it; nil: this host
	User    int    // the user in whose slice it is; -1: none
}

// Kind is the kind of a group.
type Kind int

const (
	Container Kind = iota
	Pod            // a pod of Kubernetes
	PodmanPod
)

func (k Kind) String() string {
	if k == Container {
		return "container"
	}
	return "pod"
}

// directories are the prefixes of a container's ID in the names of cgroup directories; the first
// match counts. With the systemd driver the name ends in ".scope"; with the cgroupfs driver it is
// the bare ID. A runtime configured for the wrong driver creates "SLICE:PREFIX:ID".
var directories = []struct {
	prefix  string
	runtime string // "": not a container, but its monitor process
}{
	{"cri-containerd", "containerd"},
	{"nerdctl", "containerd"},
	{"crio-conmon", ""},
	{"crio", "cri-o"},
	{"docker", "docker"},
	{"libpod-conmon", ""},
	{"libpod-payload", "podman"}, // --cgroups=split
	{"libpod", "podman"},
}

const (
	idLength = 64 // hexadecimal digits of an ID, for all of these runtimes
	minID    = 12 // minimum after a known prefix
	maxUID   = 128
)

// podmanPod is the prefix of a podman pod's cgroup name, which continues with the ID and ".slice".
// With the cgroupfs driver the name is the bare ID, below libpod_parent.
const (
	podmanPod    = "machine-libpod_pod_"
	userPod      = "user-libpod_pod_" // cgroup of a rootless pod
	podmanParent = "libpod_parent"
)

// isHex reports whether text consists of at least n hexadecimal digits.
func isHex(text string, n int) bool {
	return len(text) >= n && len(text) <= idLength && strings.Trim(text, "0123456789abcdef") == ""
}

// walk describes a directory on the way down the hierarchy, from the root of this host.
type walk struct {
	path   string // "" is the root
	name   string // name of the last directory
	user   int
	within *Group
}

// down returns the walk one directory further down. Its group is a new one if the directory is a
// group.
func (w walk) down(name string) walk {
	next := walk{w.path + "/" + name, name, w.user, w.within}
	if n, ok := userOf(name); ok && w.within == nil {
		next.user = n
	}
	names := []string{name}
	if slice, _, ok := strings.Cut(name, ":"); ok { // SLICE:PREFIX:ID: the slice may be that of a pod
		names = []string{slice, name}
	}
	for _, n := range names {
		if g := group(n, w.name, next.within); g != nil {
			g.Path, g.Parent, g.User = next.path, next.within, next.user
			next.within = g
		}
	}
	return next
}

var top = walk{user: -1}

// parse returns the innermost group that a cgroup belongs to, or nil.
func parse(path string) *Group {
	w := top
	for name := range strings.SplitSeq(path, "/") {
		if name != "" {
			w = w.down(name)
		}
	}
	return w.within
}

// group returns the group that a directory represents, or nil. parent is the directory that
// contains it, and within the group that parent belongs to.
func group(name, parent string, within *Group) *Group {
	inPod := within != nil && within.Kind == Pod
	if uid, ok := podUID(name, parent); ok {
		if inPod && within.ID == uid {
			return nil
		}
		return &Group{Kind: Pod, ID: uid}
	}
	for _, prefix := range []string{podmanPod, userPod} {
		if id, ok := strings.CutPrefix(strings.TrimSuffix(name, ".slice"), prefix); ok && isHex(id, minID) {
			return &Group{Kind: PodmanPod, Runtime: "podman", ID: id}
		}
	}
	runtime, id, ok := containerID(name)
	if !ok {
		return nil
	}
	if runtime == "" && parent == podmanParent {
		return &Group{Kind: PodmanPod, Runtime: "podman", ID: id}
	}
	if runtime == "" && parent == "docker" {
		runtime = "docker"
	}
	if within != nil && within.Kind == Container && within.ID == id { // part of the same container
		return nil
	}
	return &Group{Kind: Container, Runtime: runtime, ID: id}
}

// containerID returns the container's ID for a cgroup name, and the runtime if it is known.
func containerID(name string) (runtime, id string, ok bool) {
	if _, rest, found := strings.Cut(name, ":"); found { // slice:prefix:ID
		name = strings.Replace(rest, ":", "-", 1)
	}
	if isHex(name, idLength) {
		return "", name, true
	}
	for _, d := range directories {
		if rest, found := strings.CutPrefix(name, d.prefix+"-"); found {
			id = strings.TrimSuffix(rest, ".scope")
			return d.runtime, id, d.runtime != "" && isHex(id, minID)
		}
	}
	return "", "", false
}

// podUID returns the pod's UID for a cgroup name: "kubepods-burstable-podUID.slice", with "_" in
// place of "-", or "podUID" below kubepods, burstable or besteffort. The kubelet's cgroup root, if
// set, is a prefix: "kubelet-kubepods-burstable-podUID.slice".
func podUID(name, parent string) (uid string, ok bool) {
	if unit, found := strings.CutSuffix(name, ".slice"); found {
		i := strings.LastIndex(unit, "-pod")
		if i < 0 {
			return "", false
		}
		class := unit[:i]
		if j := strings.LastIndexByte(class, '-'); j >= 0 && class[j+1:] != "kubepods" {
			if class[j+1:] != "burstable" && class[j+1:] != "besteffort" {
				return "", false
			}
			class = class[:j]
		}
		if class != "kubepods" && !strings.HasSuffix(class, "-kubepods") {
			return "", false
		}
		uid = strings.ReplaceAll(unit[i+len("-pod"):], "_", "-")
	} else if uid, found = strings.CutPrefix(name, "pod"); !found ||
		parent != "kubepods" && parent != "burstable" && parent != "besteffort" {
		return "", false
	}
	return uid, isUID(uid)
}

// isUID reports whether text is a valid pod UID.
func isUID(text string) bool {
	if text == "" || len(text) > maxUID {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-':
		default:
			return false
		}
	}
	return true
}

// userOf returns the user of a slice "user-1000.slice" or of a service "user@1000.service".
func userOf(name string) (uid int, ok bool) {
	text, found := strings.CutPrefix(name, "user-")
	if found {
		text, found = strings.CutSuffix(text, ".slice")
	} else if text, found = strings.CutPrefix(name, "user@"); found {
		text, found = strings.CutSuffix(text, ".service")
	}
	if !found {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 32)
	return int(n), err == nil
}

// outer returns the container that contains a group; nil for a group of this host.
func (g *Group) outer() *Group {
	for p := g.Parent; p != nil; p = p.Parent {
		if p.Kind == Container {
			return p
		}
	}
	return nil
}

// pod returns the pod of a container, or nil.
func (g *Group) pod() *Group {
	if p := g.Parent; p != nil && p.Kind != Container {
		return p
	}
	return nil
}

// distance returns the number of containers around a group, plus 1 if a user created it; 0 for what the
// host itself runs.
func (g *Group) distance() (n int) {
	for o := g.outer(); o != nil; o = o.outer() {
		n++
	}
	if g.User > 0 {
		n++
	}
	return n
}
