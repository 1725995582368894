// SPDX-License-Identifier: Apache-2.0

package loaders

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/tests/tier"
)

// needs skips tests that only make test-loaders runs, or that this user may not run.
func needs(t *testing.T) built {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if !*all {
		tier.Real.Need(t, "a loader that is fetched")
	}
	fetched(t, "sid")
	return buildPrograms(t, runtime.GOARCH)
}

func combined(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}

// The script run by testdata/skeleton.c, compiled with the suffix mine, and the expected output.
const (
	skeletonScript = `tracepoint:syscalls:sys_enter_lseek
		/comm == "loaderwork" && args.offset < (uint64)getopt("below", 6)/ {
			@bytes[args.offset] = count(); printf("%d %s\n", args.offset, comm); }`
	skeletonOutput = `status 0, 1600 events
bytes[0] = 400
bytes[1] = 400
bytes[2] = 400
bytes[3] = 400
lost 0`
)

// TestSkeleton runs a program based on libbpf's skeleton that sets an option, loads, attaches, reads
// events and reads a map. It is linked with the libbpf of each release, in sid.
func TestSkeleton(t *testing.T) {
	b := needs(t)
	b.compileScript(t, skeletonScript, b.path("reads.o"), "--suffix", "mine")
	header := combined(t, inSid(t, "bpftool", "gen", "skeleton", b.path("reads.o"), "name", "reads"))
	source, err := os.ReadFile("testdata/skeleton.c")
	if err != nil {
		t.Fatal(err)
	}
	library, err := os.ReadFile(filepath.Join(fetched(t, "bookworm"), "usr/lib/x86_64-linux-gnu/libbpf.a"))
	if err != nil {
		t.Skip("skipped: ", err)
	}
	for name, content := range map[string][]byte{"reads.skel.h": []byte(header), "skeleton.c": source, "libbpf.a": library} {
		if err := os.WriteFile(b.path(name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for release, dir := range map[string]string{"bookworm": b.dir, "sid": "/usr/lib"} {
		program := b.path("skeleton-" + release)
		combined(t, inSid(t, "gcc", "-Wall", "-O1", "-static", "-L", dir, "-o", program, b.path("skeleton.c"),
			"-lbpf", "-lelf", "-lz", "-lzstd"))
		if d := cmp.Diff(skeletonOutput, strings.TrimSpace(combined(t, withTracefs(program, b.path(workload))))); d != "" {
			t.Errorf("with libbpf of %s (-want +got):\n%s", release, d)
		}
	}
}

// TestMinCoreBTF checks that the BTF that bpftool extracts for objects suffices to load these objects,
// and no others.
func TestMinCoreBTF(t *testing.T) {
	b := needs(t)
	for _, name := range []string{"arguments", "results"} {
		b.compile(t, name, b.path(name+".o"))
	}
	b.compileScript(t, `tracepoint:sched:sched_switch { @[curtask->prio] = count(); }`, b.path("other.o"))
	combined(t, inSid(t, "bpftool", "gen", "min_core_btf", "/sys/kernel/btf/vmlinux", b.path("min.btf"),
		b.path("arguments.o"), b.path("results.o")))
	combined(t,
		inSid(t, "bpftool", "gen", "min_core_btf", "/sys/kernel/btf/vmlinux", b.path("other.btf"), b.path("other.o")))
	if small, err := os.Stat(b.path("min.btf")); err != nil || small.Size() > 4096 {
		t.Errorf("reduced BTF: %v, %v", small, err)
	}
	program := libbpfProgram(t, b)
	for _, name := range []string{"arguments", "results"} {
		run := append([]string{"env", "TYPES=" + b.path("min.btf"), program, b.path(name + ".o")}, b.workload(name)...)
		have := found(t, b.path(name+".o"), output(t, inSid(t, run...)))
		if !strings.HasSuffix(have, "= {count: 12}") || strings.Count(have, "\n") != 0 {
			t.Errorf("%s: got %s", name, have)
		}
		run[1] = "TYPES=" + b.path("other.btf")
		if out, err := inSid(t, run...).CombinedOutput(); err == nil || !strings.Contains(string(out), "not loaded") {
			t.Errorf("%s: loading with the types of another object: error = %v\n%s", name, err, out)
		}
	}
}

// TestVeristat loads each program of each object with veristat.
func TestVeristat(t *testing.T) {
	b := needs(t)
	tool := filepath.Join(filepath.Dir(fetched(t, "sid")), "veristat")
	content, err := os.ReadFile(tool)
	if err != nil {
		t.Skip("skipped: no veristat: tests/setup/loaders.sh could not build it")
	}
	if err := os.WriteFile(b.path("veristat"), content, 0o755); err != nil {
		t.Fatal(err)
	}
	args := append([]string{b.path("veristat")}, veristatOptions...)
	for _, c := range cases {
		b.compile(t, c.name, b.path(c.name+".o"))
		args = append(args, b.path(c.name+".o"))
	}
	checkVeristat(t, b, output(t, inSid(t, args...)))
}

var veristatOptions = []string{"-o", "csv", "-e", "file,prog,verdict,insns"}

// checkVeristat checks the output of veristat for the objects of all cases.
func checkVeristat(t *testing.T, _ built, out string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out), "\n")[1:]
	if len(lines) != len(cases) {
		t.Errorf("found %d programs for %d objects:\n%s", len(lines), len(cases), strings.Join(lines, "\n"))
	}
	for _, line := range lines {
		if f := strings.Split(line, ","); len(f) != 4 || f[2] != "success" || f[3] == "0" {
			t.Error(line)
		}
	}
}
