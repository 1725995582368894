// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// cgroups returns the mount point of cgroup v2.
func cgroups(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(dir + "/cgroup.procs"); err == nil {
			return dir
		}
	}
	t.Skip("skipped: cgroup v2 is not mounted")
	return ""
}

// containerHost is a mount namespace with its own state files of container runtimes, and processes in cgroups.
type containerHost struct {
	t     *testing.T
	root  string // mount point of cgroup v2
	files string // shell commands that create the state files
}

func newContainerHost(t *testing.T) *containerHost {
	needRoot(t)
	h := &containerHost{t: t, root: cgroups(t)}
	if out, err := exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", "/var/lib").CombinedOutput(); err != nil {
		t.Skipf("skipped: cannot create a mount namespace: %v %s", err, out)
	}
	return h
}

// file adds a file to /var/lib or /var/log in the namespace.
func (h *containerHost) file(path, text string) {
	h.files += fmt.Sprintf("mkdir -p %s && printf '%%s' '%s' >%s\n", filepath.Dir(path), text, path)
}

func (h *containerHost) docker(id, name string) {
	h.file("/var/lib/docker/containers/"+id+"/config.v2.json", `{"ID":"`+id+`","Name":"/`+name+`"}`)
}

// start creates a cgroup and a process in it that opens files.
func (h *containerHost) start(path string) (stop func()) {
	h.t.Helper()
	dir := h.root + path
	if err := os.MkdirAll(dir, 0o755); err != nil {
		h.t.Skip("skipped: ", err)
	}
	cmd := exec.Command("sh", "-c", `echo $$ >`+dir+`/cgroup.procs && while :; do : </dev/null; sleep 0.02; done`)
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
		for dir := dir; len(dir) > len(h.root); dir = filepath.Dir(dir) {
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				if err := os.Remove(dir); err == nil || os.IsNotExist(err) {
					break
				}
				if all, _ := filepath.Glob(dir + "/*/cgroup.procs"); len(all) > 0 {
					return // other processes are in it
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	h.t.Cleanup(stop)
	return stop
}

// command returns a command that runs btrun in the namespace.
func (h *containerHost) command(args ...string) *exec.Cmd {
	script := "mount -t tmpfs none /var/lib && mount -t tmpfs none /var/log && " + h.files + `exec "$0" "$@"`
	return exec.Command("unshare", append([]string{"-m", "sh", "-c", script, program(h.t, "btrun")}, args...)...)
}

func (h *containerHost) run(args ...string) string {
	out, _ := h.command(args...).CombinedOutput()
	return string(out)
}

// opens counts opened files by cgroup. It ends 50 ms after so many cgroups have opened one: then
// others have, too, if they are not excluded.
const opens = `tracepoint:syscalls:sys_enter_openat {
	@[cgroup_path(cgroup)] = count();
	if (len(@) >= $1) {
		if (!@since) { @since = nsecs; }
		if (nsecs - @since > 50000000) { exit(); }
	}
}
end { clear(@since); }`

// TestContainers checks that a run limited to a container or pod counts only what runs in it, and names
// it.
func TestContainers(t *testing.T) {
	h := newContainerHost(t)
	id := func(c string) string { return strings.Repeat(c, 64) }
	const uid = "0f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f0"
	pod := "/btc-test.slice/kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"
	for _, path := range []string{
		"/btc-test.slice/docker-" + id("a") + ".scope", "/btc-test.slice/docker-" + id("b") + ".scope/inner",
		pod + "/cri-containerd-" + id("c") + ".scope", pod + "/cri-containerd-" + id("d") + ".scope", "/btc-test.slice/other",
	} {
		h.start(path)
	}
	h.docker(id("a"), "btc-web")
	h.docker(id("b"), "btc-db")
	h.file("/var/log/pods/btc-shop_web-0_"+uid+"/nginx/0.log", "")
	h.file("/var/log/containers/web-0_btc-shop_nginx-"+id("c")+".log", "")
	o := compile(t, opens)
	for _, c := range []struct {
		args string
		want []string // container names
	}{
		{"--container btc-web", []string{"btc-web"}},
		{"--container " + id("a")[:12], []string{"btc-web"}},
		{"--container btc-web --container btc-db", []string{"btc-web", "btc-db"}},
		{"--container nginx", []string{"btc-shop/web-0/nginx"}},
		{"--pod btc-shop/web-0", []string{"btc-shop/web-0/nginx", ""}}, // the kubelet state has no container name
		{"--pod " + uid + " --container nginx", []string{"btc-shop/web-0/nginx"}},
	} {
		out := h.run(append([]string{"-q", "--timeout", "1m", o, fmt.Sprint(len(c.want))}, strings.Fields(c.args)...)...)
		var have []string
		for _, m := range regexp.MustCompile(`(?m)^@\[unified:[^ \]]*(?: \((.*)\))?\]: \d+$`).FindAllStringSubmatch(out, -1) {
			have = append(have, m[1])
		}
		if len(have) != len(c.want) || strings.Count(out, "\n@[")+strings.Count(out, "@[") < len(have) {
			t.Errorf("%s: containers %q, want %q; output:\n%s", c.args, have, c.want, out)
		}
		for _, name := range c.want {
			if !strings.Contains(out, "("+name+")]: ") && name != "" {
				t.Errorf("%s: %q not found in\n%s", c.args, name, out)
			}
		}
		if strings.Contains(out, "other") {
			t.Errorf("%s: unexpected output: %s", c.args, out)
		}
	}
	for args, want := range map[string]string{
		"--container btc-wbe":                     "there is no running container btc-wbe on this host; did you mean btc-web?",
		"--pod btc-shop/web-1":                    "there is no running pod btc-shop/web-1 on this host; did you mean btc-shop/web-0?",
		"--pod btc-shop/web-0 --container btc-db": "there is no running container btc-db",
	} {
		if out := h.run(append([]string{o, "1"}, strings.Fields(args)...)...); !strings.Contains(out, want) {
			t.Errorf("%s: unexpected output: %s", args, out)
		}
	}
	for args, want := range map[string]string{
		"-f prometheus --container nginx":               `",namespace="btc-shop",pod="web-0",container="nginx"} `,
		"-f prometheus --container btc-db":              id("b") + `.scope/inner",container="btc-db"} `,
		"-f prometheus --cgroup /btc-test.slice/other":  `cgroup="unified:/btc-test.slice/other"} `,
		"-f json2 --container nginx":                    ` (btc-shop/web-0/nginx)", "label": "btc-shop/web-0/nginx", "namespace": "btc-shop", "pod": "web-0", "container": "nginx"}`,
		"-f json2 --cgroup /btc-test.slice/other":       `"text": "unified:/btc-test.slice/other"}`,
		"-f json --container btc-db":                    `/inner(btc-db)": `,
		"--cgroup /btc-test.slice/other --container no": "there is no running container no on this host",
	} {
		out := h.run(append([]string{"-q", "--timeout", "1m", o, "1"}, strings.Fields(args)...)...)
		if !strings.Contains(out, want) {
			t.Errorf("%s: %s not found in\n%s", args, want, out)
		}
	}
	h.docker(id("b"), "btc-web")
	if out := h.run(o, "1", "--container", "btc-web"); !strings.Contains(out,
		"container btc-web is ambiguous, it may be:\n  "+id("a")[:12]+"  docker      btc-web\n  "+id("b")[:12]) {
		t.Errorf("unexpected output: %s", out)
	}
}

// TestContainerComesAndGoes checks that a run waits for a container and ends with it.
func TestContainerComesAndGoes(t *testing.T) {
	h := newContainerHost(t)
	id := strings.Repeat("e", 64)
	h.docker(id, "btc-late")
	var out output
	const never = "1000" // so many cgroups
	cmd := h.command("--timeout", "5m", "--every", "100ms", compile(t, opens), never, "--container", "btc-late", "--wait")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.until(t, "Waiting for container btc-late\n")
	stop := h.start("/btc-test-late.slice/docker-" + id + ".scope")
	out.until(t, "Attached 2 probes\n")
	out.until(t, "docker-"+id+".scope (btc-late)]: ")
	stop()
	begin := time.Now()
	if err := cmd.Wait(); err != nil || time.Since(begin) > time.Minute {
		t.Errorf("Wait = %v after %v", err, time.Since(begin))
	}
	out.until(t, "container btc-late ended: nothing is left to trace\n")
}

// output is what a running process has printed so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// until waits until the output contains a string.
func (o *output) until(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(o.String(), want); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q in\n%.4000s", want, o)
		}
	}
}

// loop is a program that opens a file in a loop.
const loop = `package main

import (
	"os"
	"time"
)

func main() {
	for {
		os.Open("/nothing")
		time.Sleep(20 * time.Millisecond)
	}
}
`

// podmanScript starts two containers, and a pod with a container, and runs btrun ($1) with an object
// ($2). It reports if podman does not work.
const podmanScript = `
cd "$3"
umount -R /sys/fs/cgroup || umount -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup || { echo "cannot: mount cgroup2"; exit; }
mkdir -p graph run /var/lib/containers /run/containers
mount -t tmpfs none /var/lib/containers && mount -t tmpfs none /run/containers || { echo "cannot: mount"; exit; }
mkdir -p /var/lib/containers/storage /run/containers/storage
mount --bind graph /var/lib/containers/storage && mount --bind run /run/containers/storage
podman="podman --storage-driver vfs --cgroup-manager cgroupfs"
start="$podman run -d --network none --privileged --pids-limit 0 --ulimit nofile=64:64 --ulimit nproc=64:64"
trap '$podman rm -fa >/dev/null 2>&1; $podman pod rm -fa >/dev/null 2>&1' EXIT
tar -C root -cf image.tar . && $podman import -q image.tar btc-test:1 >/dev/null || { echo "cannot: import"; exit; }
for name in web web-2; do
	$start --name btc-$name btc-test:1 /loop >$name.id || { echo "cannot: run"; exit; }
done
$podman pod create --infra=false --name btc-pod >pod.id &&
	$start --pod btc-pod --name btc-inner btc-test:1 /loop >/dev/null || { echo "cannot: pod"; exit; }
run() { n=$2; echo "== $1 $3 $4 $5 $6"; shift 2; "$btrun" -q --timeout 1m "$object" $n "$@" 2>&1; }
btrun=$1 object=$2
run name 1 --container btc-web
run id 1 --container "$(cut -c 1-20 web.id)"
run two 2 --container btc-web --container btc-inner
run missing 1 --container btc-wbe
run pod-name 1 --pod btc-pod
has() { until grep -q "$1" waited; do sleep 0.1; done; }
: >waited
(has Waiting; $start --name btc-late btc-test:1 /loop; has btc-late.]:; $podman rm -f -t 0 btc-late) >/dev/null 2>&1 &
echo "== wait"
"$btrun" --timeout 2m --every 200ms "$object" 1000 --container btc-late --wait >waited 2>&1
cat waited
echo "== file"
"$btrun" -q --timeout 1m "$4" --container btc-web 2>&1
echo "== done"
`

// TestPodman checks that containers of a real podman are found by name and ID and waited for, and that
// their end is noticed. The tests of package containers use copies of its state files and cgroups.
func TestPodman(t *testing.T) {
	needRoot(t)
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("skipped: ", err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/root", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/loop.go", []byte(loop), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", dir+"/root/loop", dir+"/loop.go")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	cmd := exec.Command("unshare", "-m", "sh", "-c", podmanScript, "sh", program(t, "btrun"), compile(t, opens), dir,
		compile(t, `uprobe:/loop:os.OpenFile { @[comm, cgroup_path(cgroup)] = count(); exit(); }`))
	text, err := cmd.CombinedOutput()
	out := string(text)
	if i := strings.Index(out, "cannot: "); i >= 0 || err != nil && !strings.Contains(out, "== ") {
		t.Skipf("skipped: podman cannot run containers: %v", strings.ReplaceAll(strings.TrimSpace(out), "\n", "; "))
	}
	line := func(path, name string) string { return path + `[0-9a-f]{64} \(` + name + `\)\]: [1-9]\d*\n` }
	const key = `@\[unified:/libpod_parent/`
	for _, want := range []string{
		`== name --container btc-web *\n\s*` + line(key+"libpod-", "btc-web") + `\s*== id`,
		`== id --container [0-9a-f]{20} *\n\s*` + line(key+"libpod-", "btc-web") + `\s*== two`,
		`== two [^\n]*\n\s*(?:` + line(key+"(?:[0-9a-f]{64}/)?libpod-", "btc-(?:web|inner)") + `){2}\s*== missing`,
		`there is no running container btc-wbe on this host; did you mean btc-web\?\n`,
		`there is no running pod btc-pod on this host`,
		`== wait\nWaiting for container btc-late\nAttached 2 probes\n(?s:.*)\n` +
			`container btc-late ended: nothing is left to trace\n\s*` + line(key+"libpod-", "btc-late") + `\s*== file`,
		`== file\n\s*@\[loop, unified:/libpod_parent/` + line("libpod-", "btc-web") + `\s*== done`,
	} {
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s not found in\n%s", want, out)
		}
	}
}
