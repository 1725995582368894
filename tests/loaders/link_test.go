// SPDX-License-Identifier: Apache-2.0

package loaders

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/tests/tier"
)

// linked are scripts that use everything that an object may have: maps, events, caches, stacks, scratch
// memory, parameters, subprograms, and probes with the same name and clause. Both have a map @a, so the
// second is compiled with a prefix.
var linked = []string{
	`tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork"/ { @a[args.offset] = count(); @h = hist(args.offset); printf("a %d\n", args.offset); @ks[kstack(2)] = count(); }
uprobe:WORK:main.step { @u[comm] = count(); }
begin { printf("begin %s\n", comm); }`,
	`tracepoint:syscalls:sys_enter_lseek /comm == "loaderwork" && args.offset < (uint64)getopt("below", 6)/ { @a[comm] = sum(args.offset); printf("b %s %d\n", str(args.whence), args.offset); @kt[kstack(2)] = count(); @n = max(args.offset); }
uprobe:WORK:main.step { @w = count(); $i = (uint64)0; while ($i < nsecs % 3) { @x = sum(1); $i++; } }
begin { printf("begin %s\n", comm); }`,
}

// TestLink links two objects into one with bpftool. Both must count, and the events of both must
// arrive.
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
	args := append(append(tool, "gen", "object", b.path("whole.o")), b.compileLinked(t)...)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	} else if len(out) > 0 { // libbpf prints a line for a section that it does not know
		t.Errorf("bpftool: %s", out)
	}
	for _, l := range []struct {
		name string
		all  bool
		load func(t *testing.T, b built, object string) string
	}{{"agent", false, agentOutput}, {"libbpf-bookworm", true, bookwormOutput}, {"libbpf-sid", true, sidOutput}} {
		t.Run(l.name, func(t *testing.T) {
			if l.all && !*all {
				tier.Real.Need(t, "a loader that is fetched")
			}
			checkLinked(t, b, l.load(t, b, "whole"))
		})
	}
}

// compileLinked compiles the scripts and returns their objects.
func (b built) compileLinked(t *testing.T) (objects []string) {
	t.Helper()
	for i, options := range [][]string{nil, {"--map-prefix", "two"}} {
		objects = append(objects, b.path(fmt.Sprintf("linked-%c.o", 'a'+i)))
		b.compileScript(t, linked[i], objects[i], options...)
	}
	return objects
}

// checkLinked checks the output of a loader for the object linked from both scripts.
func checkLinked(t *testing.T, b built, out string) {
	t.Helper()
	events := map[string]int{}
	var maps strings.Builder
	for line := range strings.Lines(out) {
		switch f := strings.Fields(line); f[0] {
		case "event":
			events[f[1]]++
		case "events":
			events[f[1]], _ = strconv.Atoi(f[2])
		default:
			maps.WriteString(line)
		}
	}
	have := found(t, b.path("whole.o"), maps.String())
	const want = `h[0] = {slots: [1:400 2:400 3:800 4:1600 5:1600]}
two_n[0] = {set: 1, max: 5}
two_a[{comm: loaderwork}] = {sum: 6000}
u[{comm: loaderwork}] = {count: 4800}
two_w[0] = {count: 4800}`
	for line := range strings.Lines(ours(want)) {
		if !strings.Contains(have, strings.TrimSpace(line)) {
			t.Errorf("%s not found in\n%s", line, have)
		}
	}
	if n := strings.Count(have, "}] = {count: 400}"); n != 12 {
		t.Errorf("%d keys of @a with 400 calls, want 12:\n%s", n, have)
	}
	counts := map[int]int{}
	for _, n := range events {
		counts[n]++
	}
	if d := cmp.Diff(map[int]int{4800: 1, 2400: 1}, counts); d != "" {
		t.Errorf("events of ring buffers %v (-want +got):\n%s", events, d)
	}
}

// TestSuffix checks that a user can choose the suffix of symbols, and that otherwise each script has
// its own.
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
	if s := symbols("-e", script, "--suffix", "mine"); !strings.Contains(s, "\x00events_mine\x00") ||
		!strings.Contains(s, "\x00m\x00") {
		t.Error("symbols events_mine and m not found")
	}
	s := symbols("-e", `begin { @m = 1; @ = 2; @lost = 3 }`, "--map-prefix", "mine")
	for _, name := range []string{"mine", "mine_m", "mine_AT_lost"} {
		if !strings.Contains(s, "\x00"+name+"\x00") {
			t.Errorf("symbol %s not found", name)
		}
	}
	for options, want := range map[string]string{
		"--map-prefix=2":                       `--map-prefix: "2" is not 1 to 24 letters`,
		"--map-prefix=x --for=gadget":          "cannot be combined with --for gadget",
		"--suffix=m --map-prefix=lost":         "the symbol of @m, lost_m, is also that of something else",
		"--suffix=mine --map-prefix=lost_mine": "the symbol of @, lost_mine, is also that of something else",
	} {
		if s := symbols(append(strings.Fields(options), "-e", `begin { @m = 1; @ = 2; printf("x"); }`)...); !strings.Contains(s,
			want) {
			t.Errorf("%s: got %s, want %s", options, s, want)
		}
	}
	if first, second := symbols("-e", script), symbols("-e", script); first != second {
		t.Error("compiling the same script twice gives different objects")
	}
	if s := symbols("-e", script, "--suffix", "a b"); !strings.Contains(s,
		`--suffix: "a b" is not 1 to 24 letters, digits and underscores`) {
		t.Errorf("got %s", s)
	}
}
