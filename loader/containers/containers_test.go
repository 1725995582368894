// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// id returns an ID of 64 digits that begins with text.
func id(text string) string { return text + strings.Repeat("0", idLength-len(text)) }

const (
	uid1 = "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f0"
	uid2 = "0f1e2d3c-ffff-4978-8695-a4b3c2d1e0f0"
)

func systemd(uid string) string { return strings.ReplaceAll(uid, "-", "_") }

// TestParse checks that names of cgroup directories identify containers and pods.
func TestParse(t *testing.T) {
	burstable := "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + systemd(uid1) + ".slice"
	kind := "/system.slice/docker-" + id("aa") + ".scope/kubelet.slice/kubelet-kubepods.slice/" +
		"kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod" + systemd(uid1) + ".slice"
	for _, c := range []struct{ path, want string }{
		{"/", ""},
		{"/system.slice/ssh.service", ""},
		{"/system.slice/docker-" + id("aa") + ".scope", "docker " + id("aa")},
		{"/system.slice/docker-" + id("aa") + ".scope/init.scope", "docker " + id("aa")},
		{"/docker/" + id("aa"), "docker " + id("aa")},
		{"/docker/buildx/" + id("ab"), " " + id("ab")},
		{"/ecs/5f2a/" + id("ab"), " " + id("ab")},
		{"/system.slice/docker.service", ""},
		{"/system.slice/docker-cleanup.scope", ""},
		{burstable, "pod " + uid1},
		{burstable + "/cri-containerd-" + id("b1") + ".scope", "containerd " + id("b1") + " in pod " + uid1},
		{burstable + "/crio-" + id("b1") + ".scope", "cri-o " + id("b1") + " in pod " + uid1},
		{burstable + "/crio-" + id("b1") + ".scope/container", "cri-o " + id("b1") + " in pod " + uid1},
		{burstable + "/crio-conmon-" + id("b1") + ".scope", "pod " + uid1},
		{burstable + "/docker-" + id("b1") + ".scope", "docker " + id("b1") + " in pod " + uid1},
		{"/kubepods.slice/kubepods-pod" + systemd(uid1) + ".slice", "pod " + uid1},
		{"/kubepods/burstable/pod" + uid1 + "/" + id("b1"), " " + id("b1") + " in pod " + uid1},
		{"/kubepods/pod" + uid1 + "/" + id("b1"), " " + id("b1") + " in pod " + uid1},
		{"/kubepods/besteffort/pod0123456789abcdef0123456789abcdef", "pod 0123456789abcdef0123456789abcdef"},
		{"/kubepods.slice/kubepods-burstable.slice", ""},
		{"/x.slice/x-podium.slice", ""},
		{"/podman/pod1", ""},
		{"/system.slice/kubepods-burstable-pod" + systemd(uid1) + ".slice:cri-containerd:" + id("b1"), "containerd " + id("b1") + " in pod " + uid1},
		{"/default/nerdctl-" + id("b1") + ".scope", "containerd " + id("b1")},
		{"/machine.slice/libpod-" + id("c1") + ".scope", "podman " + id("c1")},
		{"/machine.slice/libpod-" + id("c1") + ".scope/container", "podman " + id("c1")},
		{"/machine.slice/libpod-conmon-" + id("c1") + ".scope", ""},
		{"/system.slice/web.service/libpod-payload-" + id("c1"), "podman " + id("c1")},
		{"/libpod_parent/libpod-" + id("c1"), "podman " + id("c1")},
		{"/libpod_parent/conmon", ""},
		{"/libpod_parent/" + id("cc") + "/libpod-" + id("c1"), "podman " + id("c1") + " in pod " + id("cc")},
		{"/machine.slice/machine-libpod_pod_" + id("cc") + ".slice/libpod-" + id("c1") + ".scope", "podman " + id("c1") + " in pod " + id("cc")},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id("c1") + ".scope/container", "podman " + id("c1") + " of 1000"},
		{kind, "pod " + uid1 + " in docker " + id("aa")},
		{kind + "/cri-containerd-" + id("b1") + ".scope", "containerd " + id("b1") + " in pod " + uid1 + " in docker " + id("aa")},
		{"/docker/" + id("aa") + "/docker/" + id("ab"), "docker " + id("ab") + " in docker " + id("aa")},
		{"/docker/" + id("aa") + "/docker/" + id("aa"), "docker " + id("aa")},
	} {
		var parts []string
		for g := parse(c.path); g != nil; g = g.Parent {
			what := g.Runtime + " " + g.ID
			if g.Kind != Container {
				what = "pod " + g.ID
			}
			if g.User >= 0 {
				what += fmt.Sprintf(" of %d", g.User)
			}
			parts = append(parts, what)
		}
		if have := strings.Join(parts, " in "); have != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.path, have, c.want)
		}
	}
}

// tree is a host in a temporary directory: files are in root, cgroups in cgroup, processes in proc.
type tree struct {
	t   *testing.T
	dir string
	*Host
}

func newTree(t *testing.T) *tree {
	t.Helper()
	dir := t.TempDir()
	r := &tree{t, dir, At(dir+"/root", dir+"/cgroup", "")}
	r.proc = dir + "/proc"
	r.group("/system.slice/ssh.service")
	r.mkdir("root")
	return r
}

func (r *tree) mkdir(path string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Join(r.dir, path), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

func (r *tree) group(path string) { r.t.Helper(); r.mkdir("cgroup/" + path) }

// file writes a file of the host.
func (r *tree) file(path, text string) {
	r.t.Helper()
	r.mkdir(filepath.Dir("root/" + path))
	if err := os.WriteFile(filepath.Join(r.dir, "root", path), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// docker adds a container of Docker.
func (r *tree) docker(cgroup, id, name string) {
	r.t.Helper()
	r.group(cgroup)
	r.file(
		"/var/lib/docker/containers/"+id+"/config.v2.json",
		fmt.Sprintf(`{"StreamConfig":{},"State":{"Running":true,"Pid":4711},"ID":%q,"Name":"/%s","Driver":"overlay2"}`,
			id, name),
	)
}

// containerd adds the OCI configuration of a Kubernetes container, or of its sandbox, that containerd
// runs.
func (r *tree) containerd(run, id, namespace, pod, container string) {
	r.t.Helper()
	kind := `"io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.container-name": "` + container + `",`
	if container == "" {
		kind = `"io.kubernetes.cri.container-type": "sandbox",`
	}
	r.file(
		run+"/io.containerd.runtime.v2.task/k8s.io/"+id+"/config.json",
		`{"ociVersion":"1.1.0","process":{"args":["x"]},
"linux":{"cgroupsPath":"kubepods.slice:cri-containerd:`+id+`"},
"annotations":{`+kind+`"io.kubernetes.cri.sandbox-name":"`+pod+`","io.kubernetes.cri.sandbox-namespace":"`+namespace+`"}}`,
	)
}

// want checks the result of looking up a container or pod. If label is "", it expects an error that
// contains cgroup.
func (r *tree) want(t *Target, err error, label, cgroup string) {
	r.t.Helper()
	switch {
	case err != nil:
		r.t.Errorf("error = %v; want %s", err, label)
	case t.Label != label || len(t.Cgroups) != 1 || t.Cgroups[0] != r.dir+"/cgroup"+cgroup:
		r.t.Errorf("found %s %v; want %s %s", t.Label, t.Cgroups, label, cgroup)
	}
}

func (r *tree) wantError(err error, parts ...string) {
	r.t.Helper()
	if err == nil {
		r.t.Errorf("no error; want %q", parts)
		return
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			r.t.Errorf("error = %v\nwant one with %q", err, p)
		}
	}
}

// TestDocker checks that Docker's containers are found by ID, ID prefix and name.
func TestDocker(t *testing.T) {
	r := newTree(t)
	web, db := "/system.slice/docker-"+id("aa1")+".scope", "/docker/"+id("aa2")
	r.docker(web, id("aa1"), "web")
	r.docker(db, id("aa2"), "db")
	for _, name := range []string{"web", id("aa1"), id("aa1")[:12], "aa1"} {
		c, err := r.Container(name)
		r.want(c, err, "web", web)
	}
	c, err := r.Container("db")
	r.want(c, err, "db", db)
	_, err = r.Container("aa")
	r.wantError(err, "container aa is ambiguous", id("aa1")[:12]+"  docker      web", id("aa2")[:12]+"  docker      db")
	_, err = r.Container("wbe")
	r.wantError(err, "there is no running container wbe on this host; did you mean web?")
	_, err = r.Container("")
	r.wantError(err, "no running container")
	_, err = r.Pod("web")
	r.wantError(err, "there is no running pod web")

	r.group("/docker/" + id("cc")) // unknown to Docker
	r.group("/system.slice/crio-" + id("cd") + ".scope")
	_, err = r.Container("nothing-like-it")
	r.wantError(err, "no running container nothing-like-it",
		"2 have no name in /var/lib/docker/containers, /run/containers/storage: use the ID")
	r.docker("/x/"+id("aa3"), id("aa3"), "aa2") // a name takes precedence over an ID prefix
	c, err = r.Container("aa2")
	r.want(c, err, "aa2", "/x/"+id("aa3"))
}

// TestDockerDirectory checks a configured data directory, and the subdirectory of a remapped user
// namespace.
func TestDockerDirectory(t *testing.T) {
	r := newTree(t)
	r.group("/docker/" + id("aa1"))
	r.group("/docker/" + id("aa2"))
	r.file("/etc/docker/daemon.json", "{\n  \"log-driver\": \"local\",\n  \"data-root\": \"/data/docker\"\n}\n")
	r.file("/data/docker/containers/"+id("aa1")+"/config.v2.json", `{"Name":"/web"}`)
	r.file("/var/lib/docker/165536.165536/containers/"+id("aa2")+"/config.v2.json", `{"Name":"/db"}`)
	c, err := r.Container("web")
	r.want(c, err, "web", "/docker/"+id("aa1"))
	c, err = r.Container("db")
	r.want(c, err, "db", "/docker/"+id("aa2"))
}

// TestContainerd checks that containerd's pods are found by UID and name, and their containers by the
// names of their pods.
func TestContainerd(t *testing.T) {
	r := newTree(t)
	slice := func(uid string) string {
		return "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + systemd(uid) + ".slice"
	}
	for _, c := range []struct{ uid, id, namespace, pod, name string }{
		{uid1, "b1", "shop", "web-0", ""}, {uid1, "b2", "shop", "web-0", "nginx"}, {uid1, "b3", "shop", "web-0", "log"},
		{uid2, "c1", "test", "web-0", ""}, {uid2, "c2", "test", "web-0", "nginx"},
	} {
		r.group(slice(c.uid) + "/cri-containerd-" + id(c.id) + ".scope")
		r.containerd("/run/containerd", id(c.id), c.namespace, c.pod, c.name)
	}
	for _, name := range []string{uid1, uid1[:10], "shop/web-0"} {
		p, err := r.Pod(name)
		r.want(p, err, "shop/web-0", slice(uid1))
	}
	_, err := r.Pod("web-0")
	r.wantError(err, "pod web-0 is ambiguous", uid1+"  pod         shop/web-0", uid2+"  pod         test/web-0",
		"use the UID")
	_, err = r.Pod(uid1[:5])
	r.wantError(err, "is ambiguous")
	_, err = r.Pod("shop/web-1")
	r.wantError(err, "there is no running pod shop/web-1", "did you mean shop/web-0?")

	log := slice(uid1) + "/cri-containerd-" + id("b3") + ".scope"
	for _, name := range []string{"log", "web-0/log", "shop/web-0/log", id("b3")} {
		c, err := r.Container(name)
		r.want(c, err, "shop/web-0/log", log)
	}
	_, err = r.Container("nginx")
	r.wantError(err, "container nginx is ambiguous", "shop/web-0/nginx", "test/web-0/nginx", "use the ID")
	pod, err := r.Pod("test/web-0")
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Container("nginx", pod)
	r.want(c, err, "test/web-0/nginx", slice(uid2)+"/cri-containerd-"+id("c2")+".scope")
	_, err = r.Container("log", pod)
	r.wantError(err, "no running container log")

	for path, want := range map[string]string{
		slice(uid1) + "/cri-containerd-" + id("b3") + ".scope":   "shop/web-0/log",
		slice(uid1) + "/cri-containerd-" + id("b3") + ".scope/x": "shop/web-0/log",
		slice(uid1) + "/cri-containerd-" + id("b1") + ".scope":   "shop/web-0/(sandbox)",
		"/system.slice/ssh.service":                              "",
		"/system.slice/docker-" + id("77") + ".scope":            "",
	} {
		if have, _ := r.Label(path); have != want {
			t.Errorf("%s: %q, want %q", path, have, want)
		}
	}
}

// TestKubelet checks that the state directories of Kubernetes distributions are found, and that the
// kubelet's log directories name pods that the runtime does not know.
func TestKubelet(t *testing.T) {
	r := newTree(t)
	pod := "/kubepods/besteffort/pod" + uid1
	r.group(pod + "/" + id("b1"))
	r.group(pod + "/" + id("b2"))
	r.group("/kubepods/pod" + uid2)
	r.containerd("/run/k3s/containerd", id("b1"), "shop", "web-0", "nginx")
	r.file("/var/log/containers/web-0_shop_log-"+id("b2")+".log", "")
	r.file("/var/log/pods/kube-system_dns-x_"+uid2+"/dns/0.log", "")
	r.file("/var/log/pods/shop_old_"+uid2[:30]+"/dns/0.log", "")
	c, err := r.Container("nginx")
	r.want(c, err, "shop/web-0/nginx", pod+"/"+id("b1"))
	c, err = r.Container("log")
	r.want(c, err, "shop/web-0/log", pod+"/"+id("b2"))
	p, err := r.Pod("shop/web-0")
	r.want(p, err, "shop/web-0", pod)
	p, err = r.Pod("kube-system/dns-x")
	r.want(p, err, "kube-system/dns-x", "/kubepods/pod"+uid2)
	_, err = r.Pod("shop/old") // only its logs are left
	r.wantError(err, "no running pod shop/old")
}

// TestCRIDocker checks names of cri-dockerd, which encodes the Kubernetes names in those of Docker.
func TestCRIDocker(t *testing.T) {
	r := newTree(t)
	pod := "/kubepods.slice/kubepods-pod" + systemd(uid1) + ".slice"
	r.docker(pod+"/docker-"+id("a1")+".scope", id("a1"), "k8s_POD_web-0_shop_"+uid1+"_0")
	r.docker(pod+"/docker-"+id("a2")+".scope", id("a2"), "k8s_nginx_web-0_shop_"+uid1+"_3")
	c, err := r.Container("nginx")
	r.want(c, err, "shop/web-0/nginx", pod+"/docker-"+id("a2")+".scope")
	p, err := r.Pod("shop/web-0")
	r.want(p, err, "shop/web-0", pod)
}

// TestWrongDriver checks a runtime that is configured for the wrong cgroup driver: it puts a pod's
// containers next to the pod's slice.
func TestWrongDriver(t *testing.T) {
	r := newTree(t)
	unit := "kubepods-burstable-pod" + systemd(uid1) + ".slice"
	dirs := []string{
		"/kubepods.slice/kubepods-burstable.slice/" + unit, "/system.slice/" + unit + ":cri-containerd:" + id("b1"),
	}
	for _, d := range dirs {
		r.group(d)
	}
	r.containerd("/run/containerd", id("b1"), "shop", "web-0", "nginx")
	p, err := r.Pod("shop/web-0")
	if err != nil || len(p.Cgroups) != 2 || p.Cgroups[0] != r.dir+"/cgroup"+dirs[0] ||
		p.Cgroups[1] != r.dir+"/cgroup"+dirs[1] {
		t.Errorf("pod %+v, error = %v", p, err)
	}
	c, err := r.Container("nginx")
	r.want(c, err, "shop/web-0/nginx", dirs[1])
}

// TestCRIO checks that CRI-O's names are read from its OCI configurations.
func TestCRIO(t *testing.T) {
	r := newTree(t)
	pod := "/kubepods.slice/kubepods-pod" + systemd(uid1) + ".slice"
	for id, name := range map[string]string{id("d1"): "POD", id("d2"): "nginx"} {
		kind := "container"
		if name == "POD" {
			kind = "sandbox"
		}
		r.group(pod + "/crio-" + id + ".scope/container")
		r.group(pod + "/crio-conmon-" + id + ".scope")
		r.file("/run/containers/storage/overlay-containers/"+id+"/userdata/config.json", `{"annotations":{
"io.kubernetes.container.name":"`+name+`","io.kubernetes.pod.name":"web-0","io.kubernetes.pod.namespace":"shop",
"io.kubernetes.cri-o.ContainerType":"`+kind+`","io.kubernetes.pod.uid":"`+uid1+`"}}`)
	}
	c, err := r.Container("nginx")
	r.want(c, err, "shop/web-0/nginx", pod+"/crio-"+id("d2")+".scope")
	c, err = r.Container(id("d1")[:12])
	r.want(c, err, "shop/web-0/(sandbox)", pod+"/crio-"+id("d1")+".scope")
	_, err = r.Container("POD")
	r.wantError(err, "no running container POD")
	p, err := r.Pod("shop/web-0")
	r.want(p, err, "shop/web-0", pod)
}

// TestPodman checks that Podman's names are read from the list of containers/storage, which for
// rootless containers is in home directories.
func TestPodman(t *testing.T) {
	r := newTree(t)
	user := "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id("e3") + ".scope"
	root, rm := "/machine.slice/libpod-"+id("e1")+".scope", "/system.slice/rm.service/libpod-payload-"+id("e2")
	pod := "/machine.slice/machine-libpod_pod_" + id("ee") + ".slice"
	for _, path := range []string{root + "/container", rm, user, pod + "/libpod-" + id("e4") + ".scope"} {
		r.group(path)
	}
	list := func(id, name string) string {
		return `[{"id":"` + id + `","names":["` + name + `"],"image":"x","layer":"y","metadata":"{\"name\":\"z\"}","flags":{"MountLabel":""}}]`
	}
	r.file("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000:Ann:/home/ann:/bin/sh\n")
	r.file("/var/lib/containers/storage/overlay-containers/containers.json", list(id("e1"), "web"))
	r.file("/var/lib/containers/storage/overlay-containers/volatile-containers.json", list(id("e2"), "once"))
	r.file("/home/ann/.local/share/containers/storage/vfs-containers/containers.json", list(id("e3"), "mine"))
	c, err := r.Container("web")
	r.want(c, err, "web", root)
	c, err = r.Container("once")
	r.want(c, err, "once", rm)
	c, err = r.Container("mine")
	r.want(c, err, "mine", user)
	p, err := r.Pod(id("ee")[:12])
	r.want(p, err, id("ee")[:12], pod)
	_, err = r.Pod("mypod")
	r.wantError(err, "no running pod mypod", "podman keeps the names of its pods in a database: use the pod's ID")

	r.file("/home/ann/.local/share/containers/storage/vfs-containers/containers.json", list(id("e3"), "web"))
	fresh := At(r.dir+"/root", r.dir+"/cgroup", "")
	_, err = fresh.Container("web")
	r.wantError(err, "ambiguous", "podman      web", "web of user 1000")
}

// TestNested checks a container that runs containers (kind, Docker in Docker): the names are in the
// files of the outer container.
func TestNested(t *testing.T) {
	r := newTree(t)
	outer := "/system.slice/docker-" + id("aa") + ".scope"
	slice := "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice"
	pod := outer + slice + "/kubelet-kubepods-besteffort-pod" + systemd(uid1) + ".slice"
	inner := pod + "/cri-containerd-" + id("b1") + ".scope"
	r.docker(outer, id("aa"), "kind-worker")
	r.group(inner)
	r.group(outer + "/init.scope")
	r.group(outer + "/system.slice/containerd.service")
	for path, pids := range map[string]string{
		outer + "/init.scope": "100\n", outer + "/system.slice/containerd.service": "90\n", inner: "120\n",
	} {
		if err := os.WriteFile(r.dir+"/cgroup"+path+"/cgroup.procs", []byte(pids), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for pid, ns := range map[string]string{"90": "90\t12", "100": "100\t1", "120": "120\t80\t1"} {
		r.mkdir("proc/" + pid + "/root")
		os.WriteFile(r.dir+"/proc/"+pid+"/status", []byte("Name:\tx\nNSpid:\t"+ns+"\nThreads:\t1\n"), 0o644)
	}
	in := &tree{t, r.dir + "/proc/100", nil}
	in.containerd("/run/containerd", id("b1"), "shop", "web-0", "nginx")
	c, err := r.Container("nginx")
	r.want(c, err, "kind-worker > shop/web-0/nginx", inner)
	c, err = r.Container("kind-worker > shop/web-0/nginx")
	r.want(c, err, "kind-worker > shop/web-0/nginx", inner)
	p, err := r.Pod("shop/web-0")
	r.want(p, err, "kind-worker > shop/web-0", pod)
	if have, _ := r.Label(inner); have != "kind-worker > shop/web-0/nginx" {
		t.Errorf("names %q", have)
	}

	// A nested cgroup with the ID of a container of the host is not mistaken for that container.
	r.docker("/docker/"+id("ab"), id("ab"), "web")
	r.group(outer + "/docker-" + id("ab") + ".scope")
	c, err = r.Container(id("ab"))
	r.want(c, err, "web", "/docker/"+id("ab"))
}

// TestUnreadable checks that the error says so if names cannot be read, and that IDs still work.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 { // root may read everything
		r := newTree(t)
		r.docker("/docker/"+id("aa"), id("aa"), "web")
		os.Remove(r.dir + "/root/var/lib/docker/containers/" + id("aa") + "/config.v2.json")
		if err := unix.Mkfifo(r.dir+"/root/var/lib/docker/containers/"+id("aa")+"/config.v2.json", 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := r.Container("web")
		r.wantError(err, "cannot look for container web among the names", "config.v2.json: not a regular file")
		c, err := r.Container(id("aa"))
		r.want(c, err, id("aa")[:12], "/docker/"+id("aa"))
		return
	}
	r := newTree(t)
	r.docker("/docker/"+id("aa"), id("aa"), "web")
	if err := os.Chmod(r.dir+"/root/var/lib/docker", 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(r.dir+"/root/var/lib/docker", 0o755)
	_, err := r.Container("web")
	r.wantError(err, "cannot look for container web", "/var/lib/docker", "permission denied")
	if !errors.Is(err, fs.ErrPermission) {
		t.Error("want a permission error")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err = r.Wait(ctx, func() (*Target, error) { return r.Container("web") },
		func() { t.Error("unexpected wait") }) // does not wait
	r.wantError(err, "permission denied")
}

// TestHostileNames checks that invalid names are not shown, because names come from others.
func TestHostileNames(t *testing.T) {
	for what, text := range map[string]string{
		"escape": `{"Name":"/\u001b[2J"}`, "newline": `{"Name":"/a\nb"}`, "long": `{"Name":"/` + strings.Repeat("a", 300) + `"}`,
		"array": `[]`, "cut": `{"Name":"/web"`, "number": `{"Name":17}`, "deep": strings.Repeat("[", 1<<20), "empty": ``,
		"list": `{"Name":["web"]}`, "null": `{"Name":null}`, "other": `{"Names":"/web"}`,
	} {
		r := newTree(t)
		r.group("/docker/" + id("aa"))
		r.file("/var/lib/docker/containers/"+id("aa")+"/config.v2.json", text)
		if have, _ := r.Label("/docker/" + id("aa")); have != "" {
			t.Errorf("%s: name %q", what, have)
		}
		if c, err := r.Container(id("aa")); err != nil || c.Label != id("aa")[:12] {
			t.Errorf("%s: %+v, error = %v", what, c, err)
		}
	}
	// A symbolic link of a user must not lead out of the home directory.
	r := newTree(t)
	r.group("/user.slice/user-1000.slice/libpod-" + id("e3") + ".scope")
	r.file("/etc/passwd", "ann:x:1000:1000:Ann:/home/ann:/bin/sh\n")
	r.file("/secret/containers.json", `[{"id":"`+id("e3")+`","names":["secret"]}]`)
	r.mkdir("root/home/ann/.local/share/containers/storage")
	if err := os.Symlink("../../../../../../secret", r.dir+"/root/home/ann/.local/share/containers/storage/vfs-containers"); err != nil {
		t.Fatal(err)
	}
	if have, _ := r.Label("/user.slice/user-1000.slice/libpod-" + id("e3") + ".scope"); have != "" {
		t.Errorf("name %q", have)
	}
}

// TestWait checks that Wait returns a container that starts later, and returns when its context is
// done.
func TestWait(t *testing.T) {
	r := newTree(t)
	waited := 0
	find := func() (*Target, error) { return r.Container("web") }
	ctx, cancel := context.WithTimeout(context.Background(), 250*time.Millisecond)
	defer cancel()
	if _, err := r.Wait(ctx, find, func() {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v", err)
	}
	c, err := r.Wait(context.Background(), find, func() {
		waited++
		r.file("/var/lib/docker/containers/"+id("aa")+"/config.v2.json", `{"Name":"/web"}`)
		r.group("/docker/" + id("aa"))
	})
	r.want(c, err, "web", "/docker/"+id("aa"))
	if waited != 1 {
		t.Errorf("container reported as missing %d times", waited)
	}
	if c.Gone() {
		t.Error("Gone = true for a running container")
	}
	os.Remove(r.dir + "/cgroup/docker/" + id("aa"))
	if !c.Gone() {
		t.Error("Gone = false for a removed container")
	}
	r.group("/other")
	r.group("/docker/" + id("aa")) // a new cgroup with the same name
	if ino, _ := inode(r.dir + "/cgroup/docker/" + id("aa")); ino != c.inodes[0] && !c.Gone() {
		t.Error("Gone = false although the cgroup is a new one")
	}
}

// TestOldCgroups checks that a container with only v1 cgroups is rejected with an error that says so.
func TestOldCgroups(t *testing.T) {
	r := newTree(t)
	r.mkdir("old/docker/" + id("aa"))
	r.file("/var/lib/docker/containers/"+id("aa")+"/config.v2.json", `{"Name":"/web"}`)
	r.old = r.dir + "/old"
	for _, name := range []string{"web", id("aa")} {
		_, err := r.Container(name)
		r.wantError(err, "no running container "+name, "version 1")
	}
}

func TestHierarchies(t *testing.T) {
	unified, old := hierarchies([]byte(`24 1 0:22 / /proc rw - proc proc rw
30 23 0:26 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory
31 23 0:27 / /sys/fs/cgroup/systemd rw shared:9 - cgroup cgroup rw,xattr,name=systemd
32 23 0:28 / /sys/fs/cg\040two rw,nosuid shared:9 - cgroup2 cgroup2 rw
33 23 0:28 / /mnt rw - cgroup2 cgroup2 rw
`))
	if unified != "/sys/fs/cg two" || old != "/sys/fs/cgroup/systemd" {
		t.Errorf("hierarchies %q, %q", unified, old)
	}
}

// TestParseRandom checks that for any names of cgroups, the path of a group is a prefix of the path of
// the cgroup, and its ID is well-formed.
func TestParseRandom(t *testing.T) {
	words := []string{
		"docker", "-", "crio", "conmon", id("a"), id("b")[:12], ".scope", "kubepods", "-pod", "pod", uid1, systemd(uid1),
		".slice", "burstable", ":", "user-", "1000", "user@", ".service", "libpod", "payload", "libpod_parent", "..", "/", "/", "/",
		"\x1b[2J", "machine-libpod_pod_", "\xff",
	}
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 200_000 {
		path := "/"
		for range 1 + r.IntN(12) {
			path += words[r.IntN(len(words))]
		}
		for g := parse(path); g != nil; g = g.Parent {
			found++
			if !strings.HasPrefix(strings.ReplaceAll("/"+path, "//", "/"), g.Path) && !strings.Contains(path, "//") {
				t.Fatalf("%q: group path %q", path, g.Path)
			}
			if g.Kind == Pod && !isUID(g.ID) || g.Kind != Pod && !isHex(g.ID, minID) {
				t.Fatalf("%q: invalid group %+v", path, g)
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d groups", found)
	}
}

// TestCandidates checks that groups that share an ID are told apart by their paths, and others have no path.
func TestCandidates(t *testing.T) {
	one := func(id, path string, user int) *named {
		n := &named{Group: &Group{Kind: Container, ID: id, Path: path}}
		n.User = user
		return n
	}
	twin, other := strings.Repeat("a", 64), strings.Repeat("a", 20)+strings.Repeat("b", 44)
	got := candidates([]*named{one(twin, "/x", 0), one(twin, "/y", 7), one(other, "/z", 0)})
	want := []string{
		twin[:21] + "  container   (name unknown) of user 7, cgroup /y", twin[:21] + "  container   (name unknown), cgroup /x",
		other[:21] + "  container   (name unknown)"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
