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
)

// linked are scripts that use all that an object may have: maps, events, caches, stacks, scratch
// memory, parameters, subprograms, and probes of the same name and clause.
var linked = []string{
	`tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @a[args.offset] = count(); @h = hist(args.offset); printf("a %d\n", args.offset); @ks[kstack(2)] = count(); }
uprobe:WORK:main.step { @u[comm] = count(); }
begin { printf("begin %s\n", comm); }`,
	`tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork" && args.offset < (uint64)getopt("below", 6)/ { @b[comm] = sum(args.offset); printf("b %s %d\n", str(args.whence), args.offset); @kt[kstack(2)] = count(); @n = max(args.offset); }
uprobe:WORK:main.step { @w = count(); $i = (uint64)0; while ($i < nsecs % 3) { @x = sum(1); $i++; } }
begin { printf("begin %s\n", comm); }`,
}

// TestLink has bpftool link two objects into one: both count, and their events arrive.
func TestLink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	tool := []string{"bpftool"}
	if _, err := os.Stat("../../build/loaders/sid"); err == nil && *all {
		tool = inSid(t, "bpftool").Args
	} else if _, err := exec.LookPath("bpftool"); err != nil {
		t.Skip("skipped: no bpftool (tests/setup/install.sh gets it)")
	}
	b := buildPrograms(t, runtime.GOARCH)
	whole := b.path("whole.o")
	args := append(tool, "gen", "object", whole)
	for i, script := range linked {
		o := b.path(string(rune('a'+i)) + ".o")
		b.compileScript(t, script, o)
		args = append(args, o)
	}
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = `h[0] = {slots: [1:400 2:400 3:800 4:1600 5:1600]}
n[0] = {set: 1, max: 5}
u[{comm: loaderwork}] = {count: 4800}
w[0] = {count: 4800}`
	for _, l := range []struct {
		name string
		all  bool
		load func(t *testing.T, b built, object string) string
	}{{"agent", false, agentOutput}, {"libbpf-bookworm", true, bookwormOutput}, {"libbpf-sid", true, sidOutput}} {
		t.Run(l.name, func(t *testing.T) {
			if l.all && !*all {
				t.Skip("skipped: make test-loaders runs it")
			}
			out := l.load(t, b, "whole")
			events := map[string]int{}
			var maps []string
			for line := range strings.Lines(out) {
				if f := strings.Fields(line); f[0] == "event" {
					events[f[1]]++
				} else {
					maps = append(maps, line)
				}
			}
			have := found(t, whole, strings.Join(maps, ""))
			for _, line := range strings.Split(ours(want), "\n") {
				if !strings.Contains(have, line) {
					t.Errorf("no %s in\n%s", line, have)
				}
			}
			if n := strings.Count(have, "}] = {count: 400}"); n != 12 {
				t.Errorf("%d of 12 keys of @a have 400 calls:\n%s", n, have)
			}
			if !strings.Contains(have, ours("b[{comm: loaderwork}] = {sum: 6000}")) {
				t.Errorf("no sum in @b:\n%s", have)
			}
			counts := map[int]int{}
			for _, n := range events {
				counts[n]++
			}
			if d := cmp.Diff(map[int]int{4800: 1, 2400: 1}, counts); d != "" {
				t.Errorf("events of ring buffers %v (-want +got):\n%s", events, d)
			}
		})
	}
}

// TestSuffix checks the symbols that a user chooses, and that each script has its own otherwise.
func TestSuffix(t *testing.T) {
	b := buildPrograms(t, runtime.GOARCH)
	symbols := func(args ...string) string {
		o := filepath.Join(t.TempDir(), "x.o")
		cmd := exec.Command(b.path("btc"), append(append([]string{"compile"}, args...), "-o", o)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return string(out)
		}
		file, err := os.ReadFile(o)
		if err != nil {
			t.Fatal(err)
		}
		return string(file)
	}
	const script = `begin { printf("x"); @m = 1 }`
	if s := symbols("-e", script, "--suffix", "mine"); !strings.Contains(s, "\x00events_mine\x00") || !strings.Contains(s, "\x00m\x00") {
		t.Error("no symbols events_mine and m")
	}
	if first, second := symbols("-e", script), symbols("-e", script); first != second {
		t.Error("the same script twice gives different objects")
	}
	if s := symbols("-e", script, "--suffix", "a b"); !strings.Contains(s, `--suffix: "a b" is not 1 to 24 letters, digits and underscores`) {
		t.Errorf("have %s", s)
	}
}
