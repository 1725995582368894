// SPDX-License-Identifier: Apache-2.0

package loaders

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"btc/tests/kernels/vm"
)

var kernel = flag.String("kernel", "", "run the cases in guests with the kernels whose whole name matches this regular expression")

var only = flag.String("case", "", "run only cases in guests that match this regular expression")

// guests are the kernels, as tests/kernels/getkernels.sh calls them.
var guests = []string{"5.10", "6.1", "6.1-rt", "6.12", "6.12-rt", "sid", "6.1-arm64", "sid-arm64"}

// openat is the number of the system call.
var openat = map[string]string{"amd64": "257", "arm64": "56"}

// inGuest are the loaders that guests run: a shell command with the object as $1 and the workload after it,
// and how to read what it prints; nil: it is in the form of cases.
var inGuest = []struct {
	name, command string
	read          func(t *testing.T, b built, name, out string) string
	refused       map[string]string
}{
	{"btrace", `"$dir/library" "$@"`, nil, nil},
	{"agent", `"$dir/agent" "$@"`, printed, map[string]string{"usdt": ""}},
	{"libbpf-bookworm", `"$dir/libbpf-bookworm" "$@"`, printed, map[string]string{"usdt": ""}},
	{"libbpf-sid", `"$dir/libbpf-sid" "$@"`, printed, map[string]string{"usdt": ""}},
}

// brief shortens what the loaders print: a guest's serial line is slow.
const brief = `awk '$1 == "event" { n++; next } $1 == "map" && $2 ~ /[.]|^scratch/ { next } { print } END { if (n) print n, "events" }'`

func printed(t *testing.T, b built, name, out string) string {
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.HasSuffix(line, " events") {
			return line
		}
	}
	return found(t, b.path(name+".o"), out)
}

// TestGuests has each loader run each object in guests.
func TestGuests(t *testing.T) {
	if *kernel == "" {
		t.Skip("skipped: make test-loaders KERNEL=NAME boots kernels under emulation, minutes")
	}
	wanted := regexp.MustCompile("^(" + *kernel + ")$")
	dir, err := filepath.Abs("../../build/kernels")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range guests {
		if !wanted.MatchString(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			image, err := vm.FindImage(dir, name)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			qemu, err := vm.FindQEMU("../../build/qemu", image)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			goarch, err := vm.Arch(image)
			if err != nil {
				t.Fatal(err)
			}
			guest(t, qemu, image, goarch)
		})
	}
}

// marks separate what the runs print.
const runMark, endMark = "=== ", "=== end "

func guest(t *testing.T, qemu, image, goarch string) {
	b := build(t, goarch)
	for _, l := range []string{"bookworm", "sid"} {
		if err := staticLibbpf(t, b, goarch, l); err != nil {
			t.Logf("skipped: libbpf of %s: %v", l, err)
		}
	}
	chosen := regexp.MustCompile(*only)
	// /tmp is empty in a guest, and uprobes name the path.
	script := fmt.Sprintf("dir=%s; mkdir -p $dir; cp /objects/* $dir/\n", b.dir)
	for _, l := range inGuest {
		if _, err := os.Stat(b.path(strings.Replace(l.name, "btrace", "library", 1))); err != nil {
			continue
		}
		for _, c := range cases {
			if !chosen.MatchString(c.name) {
				continue
			}
			script += fmt.Sprintf("echo '%s%s %s'\nset -- %s\n%s 2>/tmp/messages >/tmp/found; s=$?; %s </tmp/found\necho '%s'$s\ncat /tmp/messages >&2\n", runMark, l.name, c.name,
				strings.Join(append([]string{b.path(c.name + ".o")}, b.workload(c.name)...), " "), l.command, brief, endMark)
		}
	}
	r, err := vm.Run(context.Background(), vm.Config{
		QEMU: qemu, Image: image, Command: []string{script}, Memory: 1024, Timeout: 25 * time.Minute,
		Puts: []vm.Put{{Host: b.dir, Guest: "/objects"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{}
	for part := range strings.SplitSeq("\n"+string(r.Stdout), "\n"+runMark) {
		head, body, _ := strings.Cut(part, "\n")
		if !strings.HasPrefix(head, "end ") {
			outputs[head] = body
		} else if strings.HasPrefix(head, "end ") && head != "end 0" {
			t.Logf("a loader ended with status %s", strings.TrimPrefix(head, "end "))
		}
	}
	for _, l := range inGuest {
		t.Run(l.name, func(t *testing.T) {
			for _, c := range cases {
				if !chosen.MatchString(c.name) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					out, ran := outputs[l.name+" "+c.name]
					if !ran {
						t.Skip("skipped: it is not in the guest")
					}
					want := c.want
					if other, ok := l.refused[c.name]; ok {
						want = other
					}
					if c.name == "usdt" && !b.probes {
						t.Skip("skipped: no C compiler for a program with static probes")
					}
					if l.read != nil {
						out = l.read(t, b, c.name, out)
					}
					if d := cmp.Diff(strings.ReplaceAll(ours(want), "OPENAT", openat[goarch]), strings.TrimSpace(out)); d != "" {
						t.Errorf("found (-want +got):\n%s", d)
					}
				})
			}
		})
	}
	if t.Failed() {
		t.Logf("messages:\n%s", r.Stderr)
	}
}

// staticLibbpf makes the program of testdata/libbpf.c without shared libraries, with the libbpf of a release.
func staticLibbpf(t *testing.T, b built, goarch, release string) error {
	t.Helper()
	dir, err := filepath.EvalSymlinks("../../build/loaders")
	if err != nil {
		return err
	}
	source, err := filepath.Abs("testdata/libbpf.c")
	if err != nil {
		return err
	}
	args := []string{compilers[goarch], "-O1", "-static", "-o", b.path("libbpf-" + release)}
	switch {
	case goarch != "amd64":
		root := filepath.Join(dir, release+"-"+goarch, "usr")
		if _, err := os.Stat(root); err != nil {
			return err
		}
		libs, err := filepath.Glob(root + "/lib/*-linux-gnu")
		if err != nil || len(libs) != 1 {
			return fmt.Errorf("no libraries in %s", root)
		}
		args = append(args, "-I", root+"/include", source, "-L", libs[0])
	default:
		// In sid, which has the libraries that libbpf needs; it sees this machine's /tmp.
		args[0] = "gcc"
		for _, file := range []string{source, filepath.Join(dir, "bookworm/usr/lib/x86_64-linux-gnu/libbpf.a")} {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := os.WriteFile(b.path(filepath.Base(file)), content, 0o644); err != nil {
				return err
			}
		}
		args = append(args, b.path("libbpf.c"))
		if release == "bookworm" {
			args = append(args, "-L", b.dir)
		}
	}
	args = append(args, "-lbpf", "-lelf", "-lz")
	cmd := exec.Command(args[0], args[1:]...)
	if goarch == "amd64" {
		cmd = inSid(t, append(args, "-lzstd")...) // which the newer libelf needs
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
