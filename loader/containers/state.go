// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/safefile"
)

// Names are the names of a container, as its runtime stores them.
type Names struct {
	Container string
	Namespace string // name of the pod
	Pod       string
	Sandbox   bool // the sandbox container, which holds the namespaces of its pod
}

// Limits on what is read.
const (
	maxState   = 16 << 20 // size of a file, in bytes
	maxEntries = 1 << 16  // entries of a directory
	maxName    = 256      // length of a name, in bytes
)

// state reads the state files of container runtimes below a root directory. It is not safe for
// concurrent use.
type state struct {
	root  string // "": this process's own
	dead  error  // the file system of root does not respond
	lists map[string]directory
	files map[string]storage
	homes map[int]string
	dirs  map[string]string // set by an option in a configuration file
}

// directory is a cached directory listing.
type directory struct {
	names []string
	err   error
}

// storage is a cached list of containers of containers/storage.
type storage struct {
	names map[string]string // keyed by ID
	err   error
}

func newState(root string) *state {
	return &state{
		root:  root,
		lists: map[string]directory{}, files: map[string]storage{}, homes: map[int]string{}, dirs: map[string]string{},
	}
}

// sources are the functions that look up names, by runtime. Each returns no names and no error if
// it does not know the container, and an error if a file could not be read.
var sources = []struct {
	runtime string
	read    func(s *state, g *Group) (*Names, error)
}{
	{"docker", (*state).docker},
	{"containerd", (*state).containerd},
	{"cri-o", (*state).crio},
	{"podman", (*state).podman},
	{"", (*state).kubelet}, // tried for all of them
}

// namesDir returns the directory in which the name of a container or pod would be.
func namesDir(g *Group) string {
	switch {
	case g.Kind != Container:
		return podLogs
	case g.Runtime == "docker":
		return "/var/lib/docker/containers"
	case g.Runtime == "podman":
		return "/var/lib/containers/storage"
	case g.Runtime == "cri-o":
		return "/run/containers/storage"
	case g.Runtime == "containerd":
		return runDirs[0]
	}
	return "the files of any runtime"
}

// names returns the names of a container; nil if no source has any. The error says what could not
// be read.
func (s *state) names(g *Group) (*Names, error) {
	var failed []error
	for _, src := range sources {
		if g.Runtime != "" && src.runtime != "" && src.runtime != g.Runtime {
			continue
		}
		n, err := src.read(s, g)
		if err != nil {
			failed = append(failed, err)
		}
		if n.valid() {
			return n, nil
		}
	}
	return nil, errors.Join(failed...)
}

// valid reports whether the names are ones that a runtime accepts. Others are ignored, because the
// files may belong to users or other containers.
func (n *Names) valid() bool {
	if n == nil || n.Container == "" && n.Pod == "" {
		return false
	}
	for _, name := range []string{n.Container, n.Namespace, n.Pod} {
		if name != "" && !isName(name) {
			return false
		}
	}
	return true
}

// isName reports whether text is a valid name of a container, pod or namespace.
func isName(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9',
			c >= 'a' && c <= 'z',
			c >= 'A' && c <= 'Z',
			strings.IndexByte("_.-", c) >= 0 && i > 0:
		default:
			return false
		}
	}
	return text != "" && len(text) <= maxName
}

// docker reads the data directory of the Docker daemon.
func (s *state) docker(g *Group) (*Names, error) {
	var failed error
	for _, dir := range s.dataOf(g, s.option("/etc/docker/daemon.json", "data-root"), "/var/lib/docker",
		"/var/snap/docker/common/var-lib-docker", ".local/share/docker") {
		subs, err := s.listIn(dir.root, dir.path)
		if err != nil {
			failed = err
		}
		for _, sub := range append([]string{"."}, subs...) {
			if a, b, ok := strings.Cut(sub, "."); !ok || strings.Trim(a+b, "0123456789") != "" {
				continue // userns-remap has a subdirectory UID.GID
			}
			var c struct {
				Name string `json:"Name"`
			}
			found, err := s.json(dir.root, dir.path+"/"+sub+"/containers/"+g.ID+"/config.v2.json", &c)
			if err != nil {
				failed = err
			} else if found {
				return dockerNames(strings.TrimPrefix(c.Name, "/")), nil
			}
		}
	}
	return nil, failed
}

// dockerNames splits a Docker name. Kubernetes (cri-dockerd) uses
// "k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT", with POD as the container name of the sandbox.
func dockerNames(name string) *Names {
	if parts := strings.Split(name, "_"); len(parts) == 6 && parts[0] == "k8s" {
		return &Names{Container: parts[1], Pod: parts[2], Namespace: parts[3], Sandbox: parts[1] == "POD"}
	}
	return &Names{Container: name}
}

// runDirs are the state directories of containerd, as configured by distributions of Kubernetes.
var runDirs = []string{
	"/run/containerd", "/run/k3s/containerd", "/run/k0s/containerd", "/var/snap/microk8s/common/run/containerd",
}

const tasks = "/io.containerd.runtime.v2.task"

// containerd reads the OCI bundles of running containers, and the names kept by nerdctl.
func (s *state) containerd(g *Group) (*Names, error) {
	dirs := runDirs
	if dir := s.option("/etc/containerd/config.toml", "state"); dir != "" {
		dirs = append([]string{dir}, dirs...)
	}
	var failed error
	for _, dir := range dirs {
		spaces, err := s.list(dir + tasks)
		if err != nil {
			failed = err
		}
		for _, space := range spaces {
			if space == "moby" { // Docker's containers, which Docker itself names
				continue
			}
			n, err := s.bundle(s.root, dir+tasks+"/"+space+"/"+g.ID+"/config.json")
			if err != nil {
				failed = err
			}
			if n.valid() {
				return n, nil
			}
			if n != nil {
				return s.nerdctl(space, g.ID)
			}
		}
	}
	return nil, failed
}

// nerdctl returns the name that nerdctl keeps for a container. Its files contain the ID:
// /var/lib/nerdctl/ADDRESS/names/NAMESPACE/NAME.
func (s *state) nerdctl(space, id string) (*Names, error) {
	const dir = "/var/lib/nerdctl"
	stores, err := s.list(dir)
	for _, store := range stores {
		if !isHex(store, 1) {
			continue
		}
		names := dir + "/" + store + "/names/" + space
		list, e := s.list(names)
		if e != nil {
			err = e
		}
		for _, name := range list {
			if !isName(name) {
				continue
			}
			if have, e := s.read(s.root, names+"/"+name, 2*idLength); e == nil &&
				strings.TrimSpace(string(have)) == id {
				return &Names{Container: name}, nil
			}
		}
	}
	return nil, err
}

// crio reads the OCI bundles of CRI-O.
func (s *state) crio(g *Group) (*Names, error) {
	const conf = "/etc/containers/storage.conf"
	return s.bundles(g, s.option(conf, "runroot"), "/run/containers/storage",
		s.option(conf, "graphroot"), "/var/lib/containers/storage")
}

// podman reads the container list of containers/storage, which podman and CRI-O use.
func (s *state) podman(g *Group) (*Names, error) {
	var failed error
	for _, dir := range s.dataOf(g, s.option("/etc/containers/storage.conf", "graphroot"), "/var/lib/containers/storage",
		"", ".local/share/containers/storage") {
		drivers, err := s.drivers(dir.root, dir.path)
		if err != nil {
			failed = err
		}
		for _, d := range drivers {
			for _, file := range []string{"containers.json", "volatile-containers.json"} {
				names, err := s.storage(dir.root, d+"/"+file)
				if err != nil {
					failed = err
				}
				if name := names[g.ID]; name != "" {
					if n, err := s.bundle(dir.root, d+"/"+g.ID+"/userdata/config.json"); err == nil && n.valid() {
						return n, nil // CRI-O's containers
					}
					return &Names{Container: name}, nil
				}
			}
		}
	}
	return nil, failed
}

// bundles reads the OCI bundle of a container from the directories of containers/storage.
func (s *state) bundles(g *Group, dirs ...string) (*Names, error) {
	var failed error
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		drivers, err := s.drivers(s.root, dir)
		if err != nil {
			failed = err
		}
		for _, d := range drivers {
			n, err := s.bundle(s.root, d+"/"+g.ID+"/userdata/config.json")
			if err != nil {
				failed = err
			}
			if n.valid() {
				return n, nil
			}
		}
	}
	return nil, failed
}

// drivers lists the container directories of containers/storage, one for each storage driver:
// overlay-containers, vfs-containers.
func (s *state) drivers(root, dir string) ([]string, error) {
	var out []string
	names, err := s.listIn(root, dir)
	for _, name := range names {
		if strings.HasSuffix(name, "-containers") {
			out = append(out, dir+"/"+name)
		}
	}
	return out, err
}

// storage reads a container list of containers/storage: names by ID.
func (s *state) storage(root, file string) (map[string]string, error) {
	key := root + "\x00" + file
	if have, ok := s.files[key]; ok {
		return have.names, have.err
	}
	var list []struct {
		ID    string   `json:"id"`
		Names []string `json:"names"`
	}
	_, err := s.json(root, file, &list)
	out := storage{names: map[string]string{}, err: err}
	for _, c := range list {
		if len(c.Names) > 0 {
			out.names[c.ID] = c.Names[0]
		}
	}
	s.files[key] = out
	return out.names, out.err
}

// Annotations in the OCI configuration of a Kubernetes container: containerd's and CRI-O's.
var annotations = []struct{ container, pod, namespace, kind string }{
	{
		"io.kubernetes.cri.container-name", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.sandbox-namespace",
		"io.kubernetes.cri.container-type",
	},
	{
		"io.kubernetes.container.name", "io.kubernetes.pod.name", "io.kubernetes.pod.namespace",
		"io.kubernetes.cri-o.ContainerType",
	},
}

// bundle reads the names in the OCI configuration of a container. They are empty if the file has
// none, and nil if there is no such file.
func (s *state) bundle(root, file string) (*Names, error) {
	var c struct {
		Annotations map[string]string `json:"annotations"`
	}
	found, err := s.json(root, file, &c)
	if !found || err != nil {
		return nil, err
	}
	for _, a := range annotations {
		n := &Names{
			Container: c.Annotations[a.container],
			Pod:       c.Annotations[a.pod],
			Namespace: c.Annotations[a.namespace],
			Sandbox:   c.Annotations[a.kind] == "sandbox",
		}
		if n.valid() {
			return n, nil
		}
	}
	if name := c.Annotations["nerdctl/name"]; name != "" {
		return &Names{Container: name}, nil
	}
	return &Names{}, nil
}

// logs is the directory of the kubelet's symbolic links to container logs: POD_NAMESPACE_CONTAINER-ID.log.
const logs = "/var/log/containers"

// kubelet reads the names in the kubelet's links to logs.
func (s *state) kubelet(g *Group) (*Names, error) {
	names, err := s.list(logs)
	for _, name := range names {
		text, ok := strings.CutSuffix(name, "-"+g.ID+".log")
		if parts := strings.Split(text, "_"); ok && len(parts) == 3 {
			return &Names{Pod: parts[0], Namespace: parts[1], Container: parts[2]}, nil
		}
	}
	return nil, err
}

// podLogs is the directory of the kubelet's log directories, NAMESPACE_NAME_UID.
const podLogs = "/var/log/pods"

// podNames returns the namespace and name of a pod, given its UID; nil if the kubelet has none.
func (s *state) podNames(uid string) (*Names, error) {
	names, err := s.list(podLogs)
	for _, name := range names {
		if parts := strings.Split(name, "_"); len(parts) == 3 && parts[2] == uid {
			if n := (&Names{Namespace: parts[0], Pod: parts[1]}); n.valid() {
				return n, nil
			}
		}
	}
	return nil, err
}

// data is a directory below a root.
type data struct{ root, path string }

// dataOf lists the directories that may hold a container's state: those of the host, or the one in
// the home directory of the user who runs it. Empty paths are omitted.
func (s *state) dataOf(g *Group, configured, usual, other, home string) []data {
	var out []data
	if g.User > 0 {
		if dir := s.home(g.User); dir != "" {
			out = append(out,
				data{filepath.Join("/", s.root, dir), "/" + home}) // the user's symbolic links cannot lead out of it
		}
	}
	for _, dir := range []string{configured, usual, other} {
		if dir != "" {
			out = append(out, data{s.root, dir})
		}
	}
	return out
}

// home returns the home directory of a user, or "".
func (s *state) home(uid int) string {
	if dir, ok := s.homes[uid]; ok {
		return dir
	}
	dir := ""
	text, _ := s.read(s.root, "/etc/passwd", maxState)
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 7 && f[2] == strconv.Itoa(uid) &&
			filepath.IsAbs(f[5]) {
			dir = f[5]
			break
		}
	}
	s.homes[uid] = dir
	return dir
}

// option returns the directory that a line `name = "/path"` or `"name": "/path"` of a configuration
// file sets, or "".
func (s *state) option(file, name string) string {
	key := file + " " + name
	if dir, ok := s.dirs[key]; ok {
		return dir
	}
	dir := ""
	text, _ := s.read(s.root, file, maxState)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimLeft(strings.TrimSpace(line), `{ "`)
		rest, ok := strings.CutPrefix(line, name)
		rest = strings.TrimLeft(rest, "\" \t")
		if !ok || rest == "" || rest[0] != '=' && rest[0] != ':' {
			continue
		}
		if parts := strings.SplitN(rest, `"`, 3); len(parts) == 3 && filepath.IsAbs(parts[1]) {
			dir = filepath.Clean(parts[1])
			break
		}
	}
	s.dirs[key] = dir
	return dir
}

// json reads a JSON file; it reports whether the file exists.
func (s *state) json(root, file string, into any) (found bool, err error) {
	text, err := s.read(root, filepath.Clean(file), maxState)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := manifest.DecodeJSON(text, into); err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	return true, nil
}

// read reads a regular file below a root directory.
func (s *state) read(root, file string, limit int64) ([]byte, error) {
	var text []byte
	err := s.bounded(file, func() (err error) {
		text, err = safefile.ReadIn(orSlash(root), file, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return text, nil
}

// list returns the names in a directory; none if it does not exist.
func (s *state) list(dir string) ([]string, error) { return s.listIn(s.root, dir) }

func (s *state) listIn(root, dir string) ([]string, error) {
	key := root + "\x00" + dir
	if have, ok := s.lists[key]; ok {
		return have.names, have.err
	}
	var names []string
	d := directory{err: s.bounded(dir, func() (err error) {
		names, err = safefile.ListIn(orSlash(root), dir, maxEntries)
		return err
	})}
	switch {
	case d.err == nil:
		d.names = names
	case errors.Is(d.err, fs.ErrNotExist) || errors.Is(d.err, unix.ENOTDIR):
		d.err = nil
	}
	s.lists[key] = d
	return d.names, d.err
}

func orSlash(root string) string {
	if root == "" {
		return "/"
	}
	return root
}

// answerTime is the timeout for reading a container's file: the container may have mounted a file
// system there that does not respond.
const answerTime = 2 * time.Second

// bounded calls a function that reads files. For files of a container, answerTime limits it: what the function sets may be read
// only if there is no error.
func (s *state) bounded(file string, read func() error) error {
	switch {
	case s.dead != nil:
		return s.dead
	case s.root == "":
		return read()
	}
	done := make(chan error, 1)
	go func() { done <- read() }()
	select {
	case err := <-done:
		return err
	case <-time.After(answerTime):
		s.dead = &os.PathError{Op: "read", Path: s.root + file, Err: errors.New("the file system does not answer")}
		return s.dead
	}
}
