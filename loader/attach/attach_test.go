// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/diag"
	"btc/loader/host"
	"btc/loader/resolve"
)

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"vfs_read", "vfs_read", true}, {"vfs_read", "vfs_readv", false}, {"vfs_*", "vfs_read", true}, {"*", "", true},
		{"*read*", "vfs_readv", true}, {"a*b*c", "aXbYc", true}, {"a*b*c", "acb", false}, {"a*", "ba", false}, {"*ab", "aab", true}, {"a*a", "a", false},
	} {
		if got := probe.Glob(tc.pattern, tc.name); got != tc.want {
			t.Errorf("probe.Glob(%q, %q) = %v", tc.pattern, tc.name, got)
		}
	}
}

func look(t *testing.T) *host.Host {
	t.Helper()
	h, err := host.Probe()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func one(p manifest.Program) *manifest.Manifest {
	return &manifest.Manifest{Script: manifest.Script{File: "x.bt", Source: "text"}, Programs: []manifest.Program{p}}
}

func TestMissingPoints(t *testing.T) {
	p := manifest.Program{
		Kind:   "uprobe",
		Pos:    manifest.Pos{Line: 1, Col: 1},
		Attach: manifest.Attach{Text: "uprobe:/no/file:f", Target: "/no/file", Name: "f"},
	}
	_, err := Expand(look(t), one(p), Options{})
	var f *diag.Error
	if !errors.As(err, &f) || f.Pos.Line != 1 || !resolve.IsMissing(err) {
		t.Errorf("error = %v", err)
	}
	p.Attach.Missing = "warn"
	x, err := Expand(look(t), one(p), Options{})
	if err != nil || len(x.Plans) != 0 || len(x.Warnings) != 2 || !strings.Contains(x.Warnings[0], "Skipping") ||
		!strings.Contains(x.Warnings[1], "Probe has no valid attach points") {
		t.Errorf("error = %v, %+v", err, x)
	}
	p.Attach.Missing = "ignore"
	if x, err = Expand(look(t), one(p), Options{}); err != nil || len(x.Plans) != 0 || len(x.Warnings) != 0 {
		t.Errorf("error = %v, %+v", err, x)
	}
}

// TestPatternsWithoutMatch checks that a pattern without a match is dropped if the clause has another
// attach point, even a pattern, and that missing_probes applies to a clause without any attach point
// left.
func TestPatternsWithoutMatch(t *testing.T) {
	point := func(clause int, text, missing string) manifest.Program {
		parts := strings.Split(text, ":")
		return manifest.Program{
			Kind:   parts[0],
			Clause: clause,
			Pos:    manifest.Pos{Line: 1, Col: 1},
			Attach: manifest.Attach{Text: text, Target: parts[1], Name: parts[2], Missing: missing},
		}
	}
	needTracepoints(t)
	for _, tc := range []struct {
		mode     string
		alone    bool
		plans    int
		warnings int
		err      string
	}{
		{"error", false, 1, 0, ""}, {"warn", false, 1, 0, ""},
		{"error", true, 0, 0, "No matches for tracepoint nonsense:*."}, {"warn", true, 1, 1, ""}, {"ignore", true, 1, 0, ""},
	} {
		beside := 0
		if tc.alone {
			beside = 1
		}
		m := one(point(0, "tracepoint:nonsense:*", tc.mode))
		m.Programs = append(m.Programs, point(beside, "tracepoint:sched:sched_swi*", tc.mode))
		m.Config.Other = map[string]string{"missing_probes": tc.mode}
		x, err := Expand(look(t), m, Options{})
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) ||
				!strings.Contains(err.Error(), "Probe has no valid attach points") ||
				!resolve.IsMissing(err) {
				t.Errorf("%+v: error = %v", tc, err)
			}
			continue
		}
		if err != nil || len(x.Plans) != tc.plans || len(x.Warnings) != tc.warnings {
			t.Errorf("%+v: error = %v, expansion = %+v", tc, err, x)
		}
	}
}

// TestTraceableFunctions checks that if there is a list of traceable functions, others need --unsafe
// and cause a warning, and patterns do not match dangerous functions.
func TestTraceableFunctions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "functions")
	if err := os.WriteFile(file, []byte("vfs_read\nnvme_setup [nvme]\nrcu_note_context_switch\ndefault_idle\nvfs_read\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, unsafe := range map[string]bool{"vfs_read": false, "vfs_write": true} {
		p := &manifest.Program{Kind: "kprobe", Attach: manifest.Attach{Text: "kprobe:" + name, Name: name}}
		x := &expander{opts: Options{Functions: file}}
		if err := x.CheckFunction(p); (err != nil) != unsafe || unsafe && !resolve.IsMissing(err) {
			t.Errorf("%s: error = %v", name, err)
		}
		x.opts.Unsafe = true
		if err := x.CheckFunction(p); err != nil || len(x.warnings) > 0 != unsafe {
			t.Errorf("%s with --unsafe: error = %v, warnings = %v", name, err, x.warnings)
		}
	}
	x := &expander{opts: Options{Functions: file}}
	if all, err := x.Functions(); err != nil || len(all) != 5 {
		t.Errorf("functions %v, error = %v", all, err)
	}
	star := manifest.Attach{Name: "*"}
	if all := resolve.Matching(x.functions, &star); len(all) != 2 || !all[1].Several {
		t.Errorf("functions = %+v", all)
	}
}

// needTracepoints skips the test if this user cannot list tracepoints, to which patterns would expand.
func needTracepoints(t *testing.T) {
	t.Helper()
	dir, err := kernelfs.Tracefs()
	if err == nil {
		_, err = os.ReadDir(dir + "/events/sched")
	}
	if err != nil {
		t.Skip("skipped: ", err)
	}
}

// TestLimits checks the limits of the script: on attach sites of all patterns together, and on
// programs.
func TestLimits(t *testing.T) {
	needTracepoints(t)
	for key, want := range map[string]string{"max_probes": "exceeds the current limit of 2 probes", "max_bpf_progs": "BPF programs, which exceeds the current limit of 2"} {
		m := one(manifest.Program{
			Kind: "tracepoint", UsesID: true, Pos: manifest.Pos{Line: 1, Col: 1},
			Attach: manifest.Attach{Text: "tracepoint:sched:*", Target: "sched", Name: "*"},
		})
		m.Config.Other = map[string]string{key: "2"}
		_, err := Expand(look(t), m, Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v", key, err)
		}
	}
}

func TestPIDIsRefusedWhereNothingCanFilter(t *testing.T) {
	p := manifest.Program{Kind: "iter", Attach: manifest.Attach{Text: "iter:bpf_map", Name: "bpf_map"}}
	if _, err := Expand(look(t), one(p), Options{PIDs: []int{1}}); err == nil ||
		!strings.Contains(err.Error(), "-p cannot be used") {
		t.Errorf("error = %v", err)
	}
}

// TestNumbers checks that each match of a program that uses the number of its attach point gets a
// program of its own, shared by matches with the same name.
func TestNumbers(t *testing.T) {
	e := &Expansion{Probes: map[int]string{}, Plans: []resolve.Plan{
		{Prog: &manifest.Program{FirstID: 0, UsesID: true}, Matches: []resolve.Match{{Text: "a"}, {Text: "b"}, {Text: "c"}}},
		{Prog: &manifest.Program{FirstID: 1}, Matches: []resolve.Match{{Text: "d"}, {Text: "e"}}},
		{Prog: &manifest.Program{FirstID: 2, UsesID: true}, Matches: []resolve.Match{{Text: "f"}, {Text: "g"}}},
	}}
	e.Plans = append(
		e.Plans,
		resolve.Plan{
			Prog: &manifest.Program{FirstID: 3, UsesID: true}, Matches: []resolve.Match{{Text: "h"}, {Text: "c"}},
		},
		resolve.Plan{
			Prog:    &manifest.Program{FirstID: 4, UsesID: true},
			Matches: []resolve.Match{{Text: "u", USDT: []byte{1}}, {Text: "u", USDT: []byte{2}, Variant: 1}},
		},
	)
	e.number()
	if first, later := e.Plans[0].Matches[2].ID, e.Plans[3].Matches[1].ID; first != later {
		t.Errorf("same name with numbers %d and %d", first, later)
	}
	if u := e.Plans[4].Matches; u[0].ID == u[1].ID || u[0].ID&0xfffff != u[1].ID&0xfffff {
		t.Errorf("two locations of a USDT probe: numbers %#x and %#x", u[0].ID, u[1].ID)
	}
	for id, want := range map[int]string{0: "a", 5: "b", 6: "c", 1: "d", 2: "f", 7: "g", 3: "h", 4: "u"} {
		if e.Probes[id] != want {
			t.Errorf("name of %d = %q, want %q", id, e.Probes[id], want)
		}
	}
}

// TestOrder checks that kprobes and uprobes are attached in reverse order, other probes in the order of
// the script.
func TestOrder(t *testing.T) {
	e := &Expansion{Plans: []resolve.Plan{
		{Prog: &manifest.Program{Name: "a", Kind: "kprobe"}}, {Prog: &manifest.Program{Name: "b", Kind: "tracepoint"}},
		{Prog: &manifest.Program{Name: "c", Kind: "begin"}, Strategy: resolve.Virtual}, {Prog: &manifest.Program{Name: "d", Kind: "kprobe"}}, {Prog: &manifest.Program{Name: "e", Kind: "kretprobe"}},
	}}
	got := ""
	for _, i := range e.Order() {
		got += e.Plans[i].Prog.Name
	}
	if got != "dabe" {
		t.Errorf("order = %s", got)
	}
}

// counted returns a program that counts its runs in a map.
func counted(t *testing.T, typ ebpf.ProgramType, at ebpf.AttachType) (*ebpf.Program, func() uint64) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Skip("skipped: cannot make BPF maps here: ", err)
	}
	t.Cleanup(func() { m.Close() })
	prog, err := ebpf.NewProgram(
		&ebpf.ProgramSpec{Type: typ, AttachType: at, License: "GPL", Instructions: asm.Instructions{
			asm.LoadMapValue(asm.R1, m.FD(), 0), asm.Mov.Imm(asm.R2, 1),
			asm.StoreXAdd(asm.R1, asm.R2, asm.DWord), asm.Mov.Imm(asm.R0, 0), asm.Return()}},
	)
	if err != nil {
		t.Skip("skipped: cannot load BPF programs here: ", err)
	}
	t.Cleanup(func() { prog.Close() })
	return prog, func() uint64 {
		var b []byte
		if b, err = m.LookupBytes(uint32(0)); err != nil {
			t.Fatal(err)
		}
		return binary.NativeEndian.Uint64(b)
	}
}

// attached expands and attaches one attach point, and returns a function that returns the number of
// runs.
func attached(t *testing.T, p manifest.Program, typ ebpf.ProgramType, opts Options) func() uint64 {
	t.Helper()
	links, count := linked(t, p, typ, opts)
	t.Cleanup(func() { CloseAll(links) })
	return count
}

// linked is like attached, but leaves closing the links to the caller.
func linked(t *testing.T, p manifest.Program, typ ebpf.ProgramType, opts Options) ([]io.Closer, func() uint64) {
	t.Helper()
	return linkedAfter(t, p, typ, opts, func() {})
}

// linkedAfter is like linked, and calls between after the sites are found and before anything is attached.
func linkedAfter(t *testing.T, p manifest.Program, typ ebpf.ProgramType, opts Options, between func()) ([]io.Closer, func() uint64) {
	t.Helper()
	h := look(t)
	x, err := Expand(h, one(p), opts)
	if err != nil {
		t.Fatal(err)
	}
	between()
	plan := &x.Plans[0]
	prog, count := counted(t, typ, plan.AttachType)
	progs := make([]*ebpf.Program, len(plan.Matches))
	for i := range progs {
		progs[i] = prog
	}
	made, err := Attach(plan, Programs{plan.Strategy, progs}, opts, h)
	if err != nil {
		CloseAll(made.Links)
		t.Fatal(err)
	}
	if made.Probes(plan) != len(plan.Matches) {
		t.Errorf("attached %d of %d probes", made.Probes(plan), len(plan.Matches))
	}
	return made.Links, count
}

func TestTracepoint(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	needTracepoints(t)
	for _, name := range []string{"sys_enter_getpriority", "sys_enter_getpriorit*"} {
		count := attached(t,
			manifest.Program{Kind: "tracepoint", Attach: manifest.Attach{Text: "t", Target: "syscalls", Name: name}},
			ebpf.TracePoint, Options{})
		before := count()
		for range 5 {
			getpriority()
		}
		if n := count() - before; n < 5 {
			t.Errorf("%s: counted %d calls, want 5", name, n)
		}
	}
}

// TestDetach checks that no program runs after Detach, even if links are not closed yet.
func TestDetach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	needTracepoints(t)
	links, count := linked(
		t,
		manifest.Program{
			Kind:   "tracepoint",
			Attach: manifest.Attach{Text: "t", Target: "syscalls", Name: "sys_enter_getpriorit*"},
		},
		ebpf.TracePoint,
		Options{},
	)
	more, _ := linked(t, manifest.Program{Kind: "interval", Attach: manifest.Attach{Text: "i", Unit: "s", Count: 1}},
		ebpf.PerfEvent, Options{})
	links = append(links, more...)
	before := count()
	getpriority()
	if count() == before {
		t.Error("program does not run")
	}
	free := Detach(links)
	defer free()
	before = count()
	getpriority()
	if n := count() - before; n != 0 {
		t.Errorf("program ran %d times after Detach", n)
	}
}

func TestUprobe(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	// A copy of a program, so that other processes are not counted.
	sh, err := exec.LookPath("getent")
	if err != nil {
		t.Skip("skipped: no getent")
	}
	data, err := os.ReadFile(sh)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := exec.Command("readelf", "-h", path).Output()
	if err != nil {
		t.Skip("skipped: no readelf")
	}
	entry := uint64(0)
	for line := range strings.Lines(string(m)) {
		if _, v, ok := strings.Cut(line, "Entry point address:"); ok {
			for _, c := range strings.TrimSpace(v)[2:] {
				entry = entry<<4 | uint64(strings.IndexRune("0123456789abcdef", c))
			}
		}
	}
	count := attached(t,
		manifest.Program{Kind: "uprobe", Attach: manifest.Attach{Text: "u", Target: path, Addr: entry}}, ebpf.Kprobe,
		Options{})
	for range 3 {
		exec.Command(path, "--version").Run()
	}
	if n := count(); n != 3 {
		t.Errorf("counted %d starts, want 3", n)
	}
}

// TestSwappedFile checks that the file whose functions were found is the one that is attached to, although another is
// at its path by then: directly, through a symbolic link, and with one link for several sites.
func TestSwappedFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	data, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Skip("skipped: ", err)
	}
	run := func(path string) {
		if err := exec.Command(path).Run(); err != nil {
			t.Fatal(err)
		}
	}
	for _, pids := range [][]int{nil, {os.Getpid(), 1}} {
		dir := t.TempDir()
		path, old, other := filepath.Join(dir, "prog"), filepath.Join(dir, "old"), filepath.Join(dir, "other")
		for _, name := range []string{path, other} {
			if err := os.WriteFile(name, data, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		swap := func() {
			if err := errors.Join(os.Rename(path, old), os.Symlink("other", path)); err != nil {
				t.Fatal(err)
			}
		}
		p := manifest.Program{Kind: "uprobe", Attach: manifest.Attach{Text: "u", Target: path, Addr: f.Entry}}
		links, count := linkedAfter(t, p, ebpf.Kprobe, Options{PIDs: pids, Follow: len(pids) > 0}, swap)
		run(path)
		if n := count(); n != 0 {
			t.Errorf("%v: counted %d starts of a file that was not checked", pids, n)
		}
		run(old)
		if n := count(); n != 1 {
			t.Errorf("%v: counted %d starts, want 1", pids, n)
		}
		CloseAll(links)
	}
}

// TestFirstByte checks that the first byte of a file that contains only code can be probed.
func TestFirstByte(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	path := filepath.Join(t.TempDir(), "flat")
	if err := os.WriteFile(path, []byte("\x90\x90\x90\x90\xc3 no ELF file"), 0o755); err != nil {
		t.Fatal(err)
	}
	attached(t, manifest.Program{Kind: "uprobe", Attach: manifest.Attach{Text: "u", Target: path}}, ebpf.Kprobe,
		Options{Unsafe: true})
}

// TestExpandedForAnotherKernel checks the error for a pattern that was expanded by the compiler if none
// of its functions exists on this kernel.
func TestExpandedForAnotherKernel(t *testing.T) {
	p := manifest.Program{
		Kind:   "uprobe",
		Pos:    manifest.Pos{Line: 1, Col: 1},
		Attach: manifest.Attach{Text: "uprobe:/no/file:f", Target: "/no/file", Name: "f", Missing: "ignore"},
	}
	m := one(p)
	m.Target = "6.12.1"
	m.Config.Other = map[string]string{"missing_probes": "error"}
	_, err := Expand(look(t), m, Options{})
	var f *diag.Error
	if !errors.As(err, &f) || !strings.Contains(f.Hint, "Linux 6.12.1") || !strings.Contains(f.Hint, "--target") {
		t.Errorf("error = %v", err)
	}
}

func TestNoFunctionAtAddress(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	_, err := (&expander{}).Address(&manifest.Program{Kind: "kprobe", Attach: manifest.Attach{Text: "kprobe:0x1000", Addr: 0x1000}})
	if !resolve.IsMissing(err) || !strings.Contains(err.Error(), "kprobe:4096") ||
		!strings.Contains(err.Error(), "0x1000") {
		t.Errorf("error = %v", err)
	}
}

func TestTimers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: needs root")
	}
	for _, p := range []manifest.Program{
		{Kind: "interval", Attach: manifest.Attach{Text: "i", Unit: "ms", Count: 5}},
		{Kind: "profile", Attach: manifest.Attach{Text: "p", Unit: "hz", Count: 200}},
		{Kind: "software", Attach: manifest.Attach{Text: "s", Target: "cpu-clock", Count: 1e6}},
	} {
		count := attached(t, p, ebpf.PerfEvent, Options{})
		for end := deadline(); count() == 0 && !end(); {
			spin()
		}
		if count() == 0 {
			t.Errorf("%s never fired", p.Kind)
		}
	}
}

// TestBisect checks that a list of functions is bisected until the rejected ones are isolated.
func TestBisect(t *testing.T) {
	var names, used, refused []string
	for i := range 100 {
		names = append(names, fmt.Sprint(i))
	}
	bad := map[string]bool{"7": true, "8": true, "99": true}
	calls := 0
	err := bisect(names, func(part []string) error {
		calls++
		for _, n := range part {
			if bad[n] {
				return fmt.Errorf("link: %w", unix.EINVAL)
			}
		}
		used = append(used, part...)
		return nil
	}, func(n string) { refused = append(refused, n) })
	if err != nil || len(used) != 97 || strings.Join(refused, " ") != "7 8 99" || calls > 40 {
		t.Errorf("error = %v, %d used, rejected %v, %d calls", err, len(used), refused, calls)
	}
	err = bisect(names, func(part []string) error { return unix.EPERM }, func(string) { t.Error("refused") })
	if !errors.Is(err, unix.EPERM) {
		t.Errorf("error = %v", err)
	}
}

// TestKprobeError checks that a function that exists, but cannot be probed, is not reported as missing.
func TestKprobeError(t *testing.T) {
	if k, err := kallsyms(); err != nil || len(k.Find("vfs_read")) == 0 {
		t.Skip("skipped: the kernel's functions cannot be listed")
	}
	gone := fmt.Errorf("creating perf_kprobe PMU: %w", os.ErrNotExist)
	for _, c := range []struct {
		name    string
		offset  uint64
		err     error
		missing bool
		want    string
	}{
		{"no_such_function", 0, gone, true, "No matches for kprobe vmlinux:no_such_function."},
		{"no_such_function", 0, unix.EINVAL, true, "No matches for kprobe vmlinux:no_such_function."},
		{"vfs_read", 0, gone, false, "refuses a kprobe"},
		{"vfs_read", 3, gone, false, "in the middle of an instruction"},
		{"vfs_read", 0, fmt.Errorf("a step: %w", unix.EINVAL), false, "does not allow probing it: invalid argument"},
		{"vfs_read", 0, unix.EPERM, false, "operation not permitted"},
	} {
		err := kprobeError(probe.Kprobe, &resolve.Match{Group: "vmlinux", Name: c.name, Offset: c.offset}, c.err)
		if resolve.IsMissing(err) != c.missing || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s+%d, %v: error = %v", c.name, c.offset, c.err, err)
		}
	}
}
