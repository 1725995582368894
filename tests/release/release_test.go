// SPDX-License-Identifier: Apache-2.0

// Package release installs the results of make release as a user would: the Debian package in systems
// of two Debian releases, the RPM package with rpm, and the image in a container with the documented
// capabilities and a read-only root.
//
// Most tests need -dist, which make test-release sets, because they download files and need root.
package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var (
	dist  = flag.String("dist", "", "directory that make release wrote")
	again = flag.String("again", "", "the same of a second make release, to be compared")
	roots = flag.String("roots", "", "directory for the systems that packages are installed in; kept")
)

// one returns the only file of the release that matches a pattern.
func one(t *testing.T, pattern string) string {
	t.Helper()
	if *dist == "" {
		t.Skip("skipped: no -dist: make test-release builds a release and tests it")
	}
	found, err := filepath.Glob(filepath.Join(*dist, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("skipped: no %s", p)
		}
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestChecksums checks that there is a correct checksum for each file.
func TestChecksums(t *testing.T) {
	sums, err := os.ReadFile(one(t, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(*dist)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(sums), "\n"); n != len(entries)-1 {
		t.Errorf("%d checksums, want %d", n, len(entries)-1)
	}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := os.ReadFile(filepath.Join(*dist, name))
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(data)) != sum {
			t.Errorf("%s: checksum does not match, error %v", name, err)
		}
	}
}

// TestSameBytes checks that two runs of make release produce the same bytes.
func TestSameBytes(t *testing.T) {
	first := one(t, "SHA256SUMS")
	if *again == "" {
		t.Skip("skipped: no -again")
	}
	a, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(*again, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Errorf("checksums of the second release differ:\n%s\n%s", a, b)
	}
}

// TestDebianPackage installs the packages and uses them: over a package btc that has both programs, as earlier ones had, and
// btrun alone.
func TestDebianPackage(t *testing.T) {
	debs := map[string]string{}
	for _, name := range []string{"btc", "btrun"} {
		debs[name] = one(t, name+"_*_"+runtime.GOARCH+".deb")
	}
	needs(t, "debootstrap", "chroot", "mount", "unshare")
	for _, suite := range []string{"bookworm", "sid"} {
		t.Run(suite, func(t *testing.T) {
			base := debian(t, suite)
			share := t.TempDir()
			for name, deb := range debs {
				data, err := os.ReadFile(deb)
				if err == nil {
					err = os.WriteFile(filepath.Join(share, name+".deb"), data, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			script := `set -e
				mount -t tmpfs none ` + share + `/mnt 2>/dev/null || { mkdir ` + share + `/mnt; mount -t tmpfs none ` + share + `/mnt; }
				mkdir ` + share + `/mnt/up ` + share + `/mnt/work ` + share + `/mnt/root
				mount -t overlay overlay -o lowerdir=` + base + `,upperdir=` + share + `/mnt/up,workdir=` + share + `/mnt/work ` + share + `/mnt/root
				root=` + share + `/mnt/root
				cp ` + share + `/*.deb $root/
				for d in proc sys dev; do mkdir -p $root/$d; mount --rbind /$d $root/$d; done
				chroot $root sh -ec '
					dpkg -i /btrun.deb
					test ! -e /usr/bin/btc
					btrun --tools | grep -q "^opensnoop  *print each file"
					btrun --inspect opensnoop | grep -q "^/usr/share/btc/tools/opensnoop.o: "
					dpkg -r btrun
					mkdir -p /old/DEBIAN /old/usr/bin /old/usr/share/man/man8
					touch /old/usr/bin/btc /old/usr/bin/btrun /old/usr/share/man/man8/btrun.8.gz
					printf "Package: btc\nVersion: 0.0.0~1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n" >/old/DEBIAN/control
					dpkg-deb -b /old /old.deb
					dpkg -i /old.deb
					dpkg -i --auto-deconfigure /btrun.deb /btc.deb
					dpkg -V btc btrun
					btc version
					btrun --version
					cd /tmp
					btc compile -e "begin { printf(\"from the package\\n\"); exit(); }" -o x.o
					btrun x.o
					test -f /usr/share/man/man1/btc-compile.1.gz
					test -f /usr/share/man/man8/btrun.8.gz
					test -f /usr/share/bash-completion/completions/btc
					test -f /usr/share/doc/btc/copyright
					test -f /usr/lib/systemd/system/btrun@.service
					test -d /etc/btrun
					test $(ls /usr/share/btc/tools/*.o | wc -l) -ge 46
					dpkg -r btc
					test ! -e /usr/bin/btc
					btrun --version
				'`
			out := run(t, "unshare", "--mount", "--propagation", "private", "sh", "-c", script)
			if !strings.Contains(out, "from the package\n") {
				t.Errorf("installed programs do not trace:\n%s", out)
			}
		})
	}
}

// debian returns a directory with a minimal system of a Debian suite.
func debian(t *testing.T, suite string) string {
	t.Helper()
	dir := filepath.Join(*roots, suite)
	if _, err := os.Stat(filepath.Join(dir, "usr/bin/dpkg")); err == nil {
		return dir
	}
	if out, err := exec.Command("debootstrap", "--variant=minbase", suite, dir).CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		t.Skipf("skipped: debootstrap %s: %v: %s", suite, err, bytes.TrimSpace(out[max(0, len(out)-200):]))
	}
	return dir
}

// TestForeign runs the programs of other architectures by QEMU's user emulation: the same script gives the same object.
func TestForeign(t *testing.T) {
	one(t, "SHA256SUMS") // skips without a release
	var objects [][]byte
	for arch, name := range map[string]string{"amd64": "", "arm64": "qemu-aarch64-static", "riscv64": "qemu-riscv64-static"} {
		archives, err := filepath.Glob(filepath.Join(*dist, "btc-*-linux-"+arch+".tar.gz"))
		if err != nil || len(archives) != 1 {
			t.Logf("the release has nothing for %s", arch)
			continue
		}
		var emulator []string
		if arch != runtime.GOARCH {
			if _, err := exec.LookPath(name); err != nil || name == "" {
				t.Logf("there is no emulator for %s", arch)
				continue
			}
			emulator = []string{name}
		}
		dir := t.TempDir()
		run(t, "tar", "-C", dir, "--strip-components=1", "-xzf", archives[0])
		program := func(args ...string) string {
			args = append(slices.Clone(emulator), args...)
			return run(t, args[0], args[1:]...)
		}
		if out := program(dir+"/btrun", "--version"); !strings.HasPrefix(out, "btrun ") {
			t.Errorf("%s: btrun --version: %s", arch, out)
		}
		object := filepath.Join(dir, "x.o")
		program(dir+"/btc", "compile", "-e", "begin { @ = hist(1); exit(); }", "-o", object)
		if out := program(dir+"/btrun", "--inspect", object); !strings.Contains(out, "it only observes") {
			t.Errorf("%s: btrun --inspect: %s", arch, out)
		}
		data, err := os.ReadFile(object)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, data)
	}
	if len(objects) < 2 {
		t.Skip("skipped: nothing of another architecture can be run (make release, qemu-user-static)")
	}
	for _, o := range objects[1:] {
		if !bytes.Equal(o, objects[0]) {
			t.Error("the objects differ")
		}
	}
}

// TestRPMPackage installs the packages in an empty directory and runs its programs.
func TestRPMPackage(t *testing.T) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "riscv64": "riscv64"}[runtime.GOARCH]
	rpm, loader := one(t, "btc-*."+arch+".rpm"), one(t, "btrun-*."+arch+".rpm")
	needs(t, "rpm")
	root := t.TempDir()
	run(t, "rpm", "--root", root, "--initdb")
	run(t, "rpm", "--root", root, "--nosignature", "-i", rpm, loader)
	if out := run(t, "rpm", "--root", root, "-V", "btc", "btrun"); out != "" {
		t.Errorf("rpm -V: %s", out)
	}
	if out := run(t, filepath.Join(root, "usr/bin/btc"), "version"); !strings.HasPrefix(out, "btc ") {
		t.Errorf("btc version: %s", out)
	}
	run(t, filepath.Join(root, "usr/bin/btrun"), "--version")
}

// capabilities are those that docs/howto/image.md lists for the container; sysAdmin is also needed on a
// host that has not mounted tracefs.
var capabilities = []string{"BPF", "PERFMON", "DAC_READ_SEARCH", "SYSLOG"}

const sysAdmin = "SYS_ADMIN"

// host describes the host of a container.
type host struct {
	name    string
	tracefs bool     // whether tracefs is mounted
	caps    []string // capabilities of the container
	want    string   // regular expression for the output of btrun
}

var hosts = []host{
	{"tracefs", true, capabilities, `from the image\n(?s).*@: \d`},
	{"no-tracefs", false, append(slices.Clone(capabilities), sysAdmin), `from the image\n(?s).*@: \d`},
	{"no-tracefs-refused", false, capabilities, `tracefs is not mounted .*CAP_SYS_ADMIN`},
	{"no-capabilities", true, []string{"SYSLOG"}, `Missing CAP_BPF and CAP_PERFMON capabilities`},
}

// run runs a command in a mount and cgroup namespace with a single cgroup hierarchy (version 2), as
// container runtimes require, with or without tracefs. It does not change this host.
func (h host) run(t *testing.T, args ...string) string {
	t.Helper()
	script := `set -e
		mount --make-rprivate /
		if ! mountpoint -q /sys/fs/cgroup || [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
			umount -l /sys/fs/cgroup 2>/dev/null || true
			mount -t cgroup2 cgroup2 /sys/fs/cgroup
		fi
		while umount -l /sys/kernel/tracing 2>/dev/null; do :; done
		while umount -l /sys/kernel/debug 2>/dev/null; do :; done
		[ "$1" = false ] || mount -t tracefs tracefs /sys/kernel/tracing
		shift
		exec "$@"`
	cmd := exec.Command(
		"unshare",
		append([]string{"--mount", "--cgroup", "sh", "-c", script, "sh", fmt.Sprint(h.tracefs)}, args...)...)
	out, err := cmd.CombinedOutput()
	if failed := strings.Contains(h.want, "from the image"); failed == (err != nil) {
		t.Errorf("%s: %v\n%s", h.name, err, out)
	}
	return string(out)
}

// holds checks the output of a container.
func (h host) holds(t *testing.T, out string) {
	t.Helper()
	if !regexp.MustCompile(h.want).MatchString(out) {
		t.Errorf("%s: output\n%s\ndoes not match %s", h.name, out, h.want)
	}
}

// objects returns a directory with an object.
func objects(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "btc")
	cmd := exec.Command("go", "build", "-o", bin, "btc/cmd/btc")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	const script = `tracepoint:sched:sched_switch { @ = count(); } interval:ms:200 { printf("from the image\n"); exit(); }`
	run(t, bin, "compile", "-e", script, "-o", filepath.Join(work, "x.o"))
	return work
}

// TestCrun runs the image with crun, with only the documented capabilities and a read-only root.
func TestCrun(t *testing.T) {
	image := one(t, "btrun-*-oci.tar")
	needs(t, "crun", "unshare", "mountpoint")
	bundle, work := t.TempDir(), objects(t)
	unpackImage(t, image, filepath.Join(bundle, "rootfs"))
	mount := func(to, kind, source string, options ...string) map[string]any {
		return map[string]any{"destination": to, "type": kind, "source": source, "options": options}
	}
	for _, h := range hosts {
		var caps []string
		for _, c := range h.caps {
			caps = append(caps, "CAP_"+c)
		}
		config, err := json.Marshal(map[string]any{
			"ociVersion": "1.0.2",
			"root":       map[string]any{"path": "rootfs", "readonly": true},
			"process": map[string]any{
				"args":            []string{"/btrun", "--max-memory", "64M", "/objects/x.o"},
				"cwd":             "/objects",
				"user":            map[string]int{"uid": 0, "gid": 0},
				"noNewPrivileges": true,
				"capabilities":    map[string]any{"bounding": caps, "effective": caps, "permitted": caps},
			},
			"mounts": []any{
				mount("/proc", "proc", "proc"), mount("/sys", "none", "/sys", "rbind", "ro"),
				mount("/objects", "none", work, "bind", "ro"), mount("/dev", "tmpfs", "tmpfs", "mode=755"),
			},
			"linux": map[string]any{"namespaces": []any{map[string]string{"type": "mount"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o644); err != nil {
			t.Fatal(err)
		}
		h.holds(t, h.run(t, "crun", "--root", filepath.Join(bundle, "state"), "--cgroup-manager=disabled", "run",
			"--bundle", bundle, fmt.Sprintf("btrun-test-%d", os.Getpid())))
	}
}

// TestPodman pulls the image and runs it as described in docs/howto/image.md.
func TestPodman(t *testing.T) {
	image := one(t, "btrun-*-oci.tar")
	needs(t, "podman", "crun", "unshare", "mountpoint")
	work, store := objects(t), t.TempDir()
	podman := []string{
		"podman", "--root", store + "/root", "--runroot", store + "/run", "--storage-driver", "vfs", "--runtime", "crun",
		"--cgroup-manager", "cgroupfs", "--events-backend", "none",
	}
	pull := host{"pull", false, nil, "from the image"}
	pull.run(t, append(slices.Clone(podman), "pull", "oci-archive:"+image)...)
	version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(image), "btrun-"), "-oci.tar")
	where := []string{"--pid", "host"}
	if missing(t, unix.CAP_SYS_RESOURCE) {
		t.Log("without CAP_SYS_RESOURCE podman cannot raise limits: running without cgroup, in a PID namespace")
		where = []string{"--cgroups", "disabled", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"}
	}
	for _, h := range hosts {
		args := append(slices.Clone(podman), "run", "--rm", "--network", "none", "--read-only",
			"--cap-drop", "all", "--cap-add", strings.Join(h.caps, ","), "--security-opt", "no-new-privileges",
			"--security-opt", "seccomp=unconfined", // Debian 12's profile permits bpf(2) only with CAP_SYS_ADMIN
			"-v", work+":/work:ro")
		args = append(args, where...)
		if h.tracefs {
			args = append(args, "-v", "/sys/kernel/tracing:/sys/kernel/tracing:ro")
		}
		h.holds(t, h.run(t, append(args, "localhost/btrun:"+strings.ReplaceAll(version, "+", "_"), "--max-memory", "64M", "x.o")...))
	}
}

// missing reports whether this process lacks a capability.
func missing(t *testing.T, capability uint) bool {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "CapEff:")
	caps, err := strconv.ParseUint(strings.Fields(after)[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return caps&(1<<capability) == 0
}

// TestUnit checks that systemd accepts the unit file of the packages, and that its capabilities are the
// documented ones.
func TestUnit(t *testing.T) {
	const unit = "../../tools/release/btrun@.service"
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	want := "\nCapabilityBoundingSet=CAP_" + strings.Join(capabilities, " CAP_") + "\n"
	if !strings.Contains(string(text), want) {
		t.Errorf("unit file lacks the line%s", want)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("skipped: no systemd-analyze")
	}
	copied := filepath.Join(t.TempDir(), filepath.Base(unit))
	text = bytes.ReplaceAll(text, []byte("/usr/bin/btrun"), []byte("/bin/true"))
	if err := os.WriteFile(copied, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", copied).CombinedOutput(); err != nil ||
		len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
	// The figure of docs/security.md. Versions of systemd differ in what they count.
	out, err := exec.Command("systemd-analyze", "security", "--offline=true", copied).CombinedOutput()
	if err != nil && bytes.Contains(out, []byte("offline")) {
		t.Skip("skipped: systemd-analyze has no --offline (before 250)")
	}
	m := regexp.MustCompile(`exposure level for \S+: (\d+\.\d)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("%v: %s", err, out)
	}
	docs, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := regexp.MustCompile(`exposure of (\d+\.\d) by .systemd-analyze`).FindSubmatch(docs)
	if stated == nil || string(m[1]) > string(stated[1]) {
		t.Errorf("exposure of the unit is %s, docs/security.md says %q", m[1], stated)
	}
}

// unpackImage unpacks the layers of an OCI archive for this machine.
func unpackImage(t *testing.T, path, to string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	files := map[string][]byte{}
	eachFile(t, f, func(h *tar.Header, data []byte) { files[h.Name] = data })
	type descriptor struct {
		Digest   string
		Platform struct{ Architecture string }
	}
	blob := func(d descriptor, v any) []byte {
		sum, _ := strings.CutPrefix(d.Digest, "sha256:")
		data := files["blobs/sha256/"+sum]
		if fmt.Sprintf("%x", sha256.Sum256(data)) != sum {
			t.Fatalf("blob %s does not match its digest", sum)
		}
		if v != nil {
			if err := json.Unmarshal(data, v); err != nil {
				t.Fatal(err)
			}
		}
		return data
	}
	var index struct{ Manifests []descriptor }
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	blob(index.Manifests[0], &index)
	for _, d := range index.Manifests {
		if d.Platform.Architecture != runtime.GOARCH {
			continue
		}
		var manifest struct{ Layers []descriptor }
		blob(d, &manifest)
		for _, l := range manifest.Layers {
			plain, err := gzip.NewReader(bytes.NewReader(blob(l, nil)))
			if err != nil {
				t.Fatal(err)
			}
			eachFile(t, plain, func(h *tar.Header, data []byte) {
				name := filepath.Join(to, h.Name)
				if h.Typeflag == tar.TypeDir {
					err = os.MkdirAll(name, 0o755)
				} else if err = os.MkdirAll(filepath.Dir(name), 0o755); err == nil {
					err = os.WriteFile(name, data, h.FileInfo().Mode())
				}
				if err != nil {
					t.Fatal(err)
				}
			})
		}
		return
	}
	t.Skip("skipped: no image for " + runtime.GOARCH)
}

func eachFile(t *testing.T, r io.Reader, do func(h *tar.Header, data []byte)) {
	t.Helper()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		do(h, data)
	}
}
