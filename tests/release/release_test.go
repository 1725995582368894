// SPDX-License-Identifier: Apache-2.0

// Package release installs what make release makes as a user would: the Debian package in
// directories of two Debian releases, the RPM package by rpm, and the image in a container with the
// documented capabilities and a root that is read-only.
//
// It runs with -dist alone, which make test-release sets: it downloads and needs root.
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
	"runtime"
	"strings"
	"testing"
)

var (
	dist  = flag.String("dist", "", "directory that make release wrote")
	again = flag.String("again", "", "the same of a second make release, to be compared")
	roots = flag.String("roots", "", "directory for the systems that packages are installed in; kept")
)

// one is the file of the release that a pattern names.
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

// TestChecksums holds that the sums are those of all files.
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
		t.Errorf("%d sums of %d files", n, len(entries)-1)
	}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := os.ReadFile(filepath.Join(*dist, name))
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(data)) != sum {
			t.Errorf("%s: another sum, %v", name, err)
		}
	}
}

// TestSameBytes compares two runs of make release.
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
		t.Errorf("the second release differs:\n%s\n%s", a, b)
	}
}

// TestDebianPackage installs the package and uses it.
func TestDebianPackage(t *testing.T) {
	deb := one(t, "btc_*_"+runtime.GOARCH+".deb")
	needs(t, "debootstrap", "chroot", "mount", "unshare")
	for _, suite := range []string{"bookworm", "sid"} {
		t.Run(suite, func(t *testing.T) {
			base := debian(t, suite)
			data, err := os.ReadFile(deb)
			if err != nil {
				t.Fatal(err)
			}
			share := t.TempDir()
			if err := os.WriteFile(filepath.Join(share, "btc.deb"), data, 0o644); err != nil {
				t.Fatal(err)
			}
			script := `set -e
				mount -t tmpfs none ` + share + `/mnt 2>/dev/null || { mkdir ` + share + `/mnt; mount -t tmpfs none ` + share + `/mnt; }
				mkdir ` + share + `/mnt/up ` + share + `/mnt/work ` + share + `/mnt/root
				mount -t overlay overlay -o lowerdir=` + base + `,upperdir=` + share + `/mnt/up,workdir=` + share + `/mnt/work ` + share + `/mnt/root
				root=` + share + `/mnt/root
				cp ` + share + `/btc.deb $root/btc.deb
				for d in proc sys dev; do mkdir -p $root/$d; mount --rbind /$d $root/$d; done
				chroot $root sh -ec '
					dpkg -i /btc.deb
					dpkg -V btc
					btc version
					btrun --version
					cd /tmp
					btc compile -e "begin { printf(\"from the package\\n\"); exit(); }" -o x.o
					btrun x.o
					test -f /usr/share/man/man1/btc-compile.1.gz
					test -f /usr/share/man/man8/btrun.8.gz
					test -f /usr/share/bash-completion/completions/btc
					test -f /usr/share/doc/btc/copyright
					dpkg -r btc
					test ! -e /usr/bin/btc
				'`
			out := run(t, "unshare", "--mount", "--propagation", "private", "sh", "-c", script)
			if !strings.Contains(out, "from the package\n") {
				t.Errorf("the installed programs did not trace:\n%s", out)
			}
		})
	}
}

// debian is a directory with a minimal system of a suite.
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

// TestRPMPackage installs the package in an empty directory and runs what is there.
func TestRPMPackage(t *testing.T) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "riscv64": "riscv64"}[runtime.GOARCH]
	rpm := one(t, "btc-*."+arch+".rpm")
	needs(t, "rpm")
	root := t.TempDir()
	run(t, "rpm", "--root", root, "--initdb")
	run(t, "rpm", "--root", root, "--nosignature", "-i", rpm)
	if out := run(t, "rpm", "--root", root, "-V", "btc"); out != "" {
		t.Errorf("rpm -V: %s", out)
	}
	if out := run(t, filepath.Join(root, "usr/bin/btc"), "version"); !strings.HasPrefix(out, "btc ") {
		t.Errorf("btc version: %s", out)
	}
	run(t, filepath.Join(root, "usr/bin/btrun"), "--version")
}

// capabilities are those that docs/howto names for the container; sysAdmin is for a host on which
// tracefs is not mounted.
var capabilities = []string{"CAP_BPF", "CAP_PERFMON", "CAP_DAC_READ_SEARCH", "CAP_SYSLOG"}

const sysAdmin = "CAP_SYS_ADMIN"

// TestImage runs the image by crun, with the documented capabilities and a root that is read-only.
func TestImage(t *testing.T) {
	image := one(t, "btrun-*-oci.tar")
	needs(t, "crun", "unshare", "setpriv")
	bundle := t.TempDir()
	rootfs := filepath.Join(bundle, "rootfs")
	unpackImage(t, image, rootfs)
	bin := filepath.Join(bundle, "btc")
	cmd := exec.Command("go", "build", "-o", bin, "btc/cmd/btc")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	objects := filepath.Join(bundle, "objects")
	if err := os.Mkdir(objects, 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, bin, "compile", "-e", `tracepoint:sched:sched_switch { @ = count(); } interval:ms:200 { printf("from the image\n"); exit(); }`, "-o", filepath.Join(objects, "x.o"))
	caps := capabilities
	if _, err := os.Stat("/sys/kernel/tracing/events"); err != nil {
		caps = append(caps, sysAdmin)
		t.Log("tracefs is not mounted on this host: with " + sysAdmin)
	}
	mount := func(to, kind, source string, options ...string) map[string]any {
		return map[string]any{"destination": to, "type": kind, "source": source, "options": options}
	}
	config, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2",
		"root":       map[string]any{"path": "rootfs", "readonly": true},
		"process": map[string]any{
			"args": []string{"/btrun", "--max-memory", "64M", "/work/x.o"}, "cwd": "/work", "user": map[string]int{"uid": 0, "gid": 0}, "noNewPrivileges": true,
			"capabilities": map[string]any{"bounding": caps, "effective": caps, "permitted": caps},
		},
		"mounts": []any{
			mount("/proc", "proc", "proc"), mount("/sys", "none", "/sys", "rbind", "ro"), mount("/work", "none", objects, "bind", "ro"), mount("/dev", "tmpfs", "tmpfs", "mode=755"),
		},
		"linux": map[string]any{"namespaces": []any{map[string]string{"type": "mount"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), config, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("crun", "--root", filepath.Join(bundle, "state"), "--cgroup-manager=disabled", "run", "--bundle", bundle, fmt.Sprintf("btrun-test-%d", os.Getpid())).CombinedOutput()
	if err != nil && strings.Contains(string(out), "cgroups in hybrid mode not supported") {
		t.Log("crun does not run with this host's cgroups: the image runs in a chroot instead")
		out, err = inChroot(rootfs, objects, caps)
	}
	if err != nil || !strings.Contains(string(out), "from the image\n") || !strings.Contains(string(out), "@: ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// inChroot runs btrun of an image in a mount namespace with a root that is read-only, and no
// capabilities but caps and the one that chroot needs.
func inChroot(rootfs, objects string, caps []string) ([]byte, error) {
	set := "-all,+sys_chroot"
	for _, c := range caps {
		set += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
	}
	script := `set -e
		mount --bind "$0" "$0"
		mount -t proc proc "$0/proc"
		mount --rbind /sys "$0/sys"
		mount --bind "$1" "$0/work"
		mount -o remount,bind,ro "$0"
		mount -o remount,bind,ro "$0/work"
		exec setpriv --no-new-privs --bounding-set "$2" chroot "$0" /btrun --max-memory 64M /work/x.o`
	return exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", script, rootfs, objects, set).CombinedOutput()
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
			t.Fatalf("the blob %s is another", sum)
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
	t.Skip("skipped: the image has nothing for " + runtime.GOARCH)
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
