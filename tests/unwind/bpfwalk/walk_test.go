// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package bpfwalk tests the walk of user stacks by unwind tables: the program in the kernel, with maps that the tests
// fill from the files of a process.
package bpfwalk

import (
	"bufio"
	"bytes"
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"btc/compile"
	"btc/internal/arch"
	"btc/internal/unwind"
	"btc/internal/unwind/ehframe"
	"btc/targets/kernel"
)

// program calls five functions, none of which keeps a frame pointer, and then leaf for each line of its input.
const program = `
#include <stdio.h>
#include <unistd.h>
volatile long sink;
__attribute__((noipa)) void leaf(long n) { sink += n; }
__attribute__((noipa)) long f5(long n) { long a[9]; for (int i = 0; i < 9; i++) a[i] = sink + n; leaf(n); return a[sink & 7]; }
__attribute__((noipa)) long f4(long n) { long a[40]; for (int i = 0; i < 40; i++) a[i] = sink; return f5(n) + a[sink & 31]; }
__attribute__((noipa)) long f3(long n) { return f4(n) + sink; }
__attribute__((noipa)) long f2(long n) { return f3(n) + f3(n + 1); }
__attribute__((noipa)) long f1(long n) { return n ? f1(n - 1) + f2(n) : f2(n); }
int main(int argc, char **argv) { char c; puts("ready"); fflush(stdout); while (read(0, &c, 1) == 1) { f1(argc > 1 ? 90 : 2); getppid(); puts("done"); fflush(stdout); } }
`

// compiled is the compiled program, for machines without a compiler.
var compiled = flag.String("program", "", "the compiled program")

// build compiles the program. It is linked statically, so that guests can run it.
func build(t testing.TB) string {
	t.Helper()
	if *compiled != "" {
		return *compiled
	}
	return buildWith(t, "cc")
}

func buildWith(t testing.TB, compiler string) string {
	t.Helper()
	dir := t.TempDir()
	src, exe := filepath.Join(dir, "chain.c"), filepath.Join(dir, "chain")
	if err := os.WriteFile(src, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(compiler, "-O2", "-fomit-frame-pointer", "-static", src, "-o", exe)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("skipped: no C compiler: %v %s", err, out)
	}
	return exe
}

// object compiles a script for this machine.
func object(t testing.TB, script string) *ebpf.CollectionSpec {
	t.Helper()
	target, err := kernel.Default(arch.Host().Name)
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: "config = { unstable_dw_ustack = enable }\n" + script, Target: target, Verify: true})
	if out == nil {
		t.Fatal(diags)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(out.Object))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// named finds a map or variable by the name without the script's suffix.
func named[T any](t testing.TB, all map[string]T, name string) T {
	t.Helper()
	for full, x := range all {
		if full == name || regexp.MustCompile("^"+name+"_[0-9a-f]{6}$").MatchString(full) {
			return x
		}
	}
	t.Fatalf("no %s in the object", name)
	panic("unreachable")
}

// load loads an object with walks by tables, those of ustack, too.
func load(t testing.TB, spec *ebpf.CollectionSpec) *ebpf.Collection {
	t.Helper()
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Skip("skipped: no memory for maps: ", err)
	}
	for name, n := range map[string]uint32{"unwind_tables": 256, "unwind_procs": 64, "unwind_ranges": 4096, "unwind_asked": 64, "unwind_state": 4} {
		named(t, spec.Maps, name).MaxEntries = n
	}
	if err := named(t, spec.Variables, "unwind").Set(uint64(2)); err != nil {
		t.Fatal(err)
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats}})
	if err != nil {
		var v *ebpf.VerifierError
		if ok := asVerifier(err, &v); ok {
			t.Fatalf("%+v", v)
		}
		t.Skip("skipped: cannot load programs: ", err)
	}
	t.Cleanup(c.Close)
	for name, p := range c.Programs {
		if info, err := p.Info(); err == nil {
			n, _ := info.VerifiedInstructions()
			t.Logf("%s: %d verified instructions; %s", name, n, strings.TrimSpace(p.VerifierLog))
		}
	}
	return c
}

func asVerifier(err error, v **ebpf.VerifierError) bool {
	for err != nil {
		if x, ok := err.(*ebpf.VerifierError); ok {
			*v = x
			return true
		}
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return false
		}
		err = u.Unwrap()
	}
	return false
}

// fill describes a process to the object, as the loader does.
func fill(t testing.TB, c *ebpf.Collection, pid int) {
	t.Helper()
	files := map[string]uint32{}
	tables := map[string]*unwind.Table{}
	n := uint32(0)
	for line := range strings.Lines(mapsOf(t, pid)) {
		words := strings.Fields(line)
		if !strings.Contains(words[1], "x") {
			continue
		}
		var start, end, off uint64
		fmt.Sscanf(words[0], "%x-%x", &start, &end)
		fmt.Sscanf(words[2], "%x", &off)
		r := struct {
			Start, End, Bias uint64
			File, Flags      uint32
		}{Start: start, End: end, Flags: 2}
		if len(words) == 6 && strings.HasPrefix(words[5], "/") {
			path := words[5]
			if files[path] == 0 {
				table, err := ehframe.Build(open(t, path).File)
				if err != nil {
					t.Fatal(path, err)
				}
				files[path], tables[path] = uint32(len(files)+1), table
				put(t, c, files[path], table)
			}
			bias, ok := tables[path].Bias(start, off)
			if !ok {
				t.Fatalf("%s: no segment at %#x", path, off)
			}
			r.Bias, r.File, r.Flags = bias, files[path], 0
		}
		if err := named(t, c.Maps, "unwind_ranges").Put(n, r); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if err := named(t, c.Maps, "unwind_procs").Put(uint32(pid), uint64(n)<<32); err != nil {
		t.Fatal(err)
	}
}

// put puts a table into the object's map.
func put(t testing.TB, c *ebpf.Collection, number uint32, table *unwind.Table) {
	t.Helper()
	chunks := table.Chunks()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: unwind.ChunkSize, MaxEntries: uint32(len(chunks)), Flags: 1 << 12})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i, chunk := range chunks {
		if err := m.Put(uint32(i), chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := named(t, c.Maps, "unwind_tables").Put(number, m); err != nil {
		t.Fatal(err)
	}
}

// stacks returns the stacks that were stored, each as the names of its functions.
func stacks(t testing.TB, c *ebpf.Collection, pid int, depth int) []string {
	t.Helper()
	m := named(t, c.Maps, fmt.Sprintf("ustack_%d", depth))
	var all []string
	var id uint64
	frames := make([]uint64, depth)
	for it := m.Iterate(); it.Next(&id, frames); {
		var names []string
		for _, pc := range frames[:id&(1<<11-1)] {
			names = append(names, symbol(t, pid, pc))
		}
		all = append(all, strings.Join(names, " "))
	}
	slices.Sort(all)
	return all
}

// symbol returns the name of the function at an address of a process.
func symbol(t testing.TB, pid int, pc uint64) string {
	for line := range strings.Lines(mapsOf(t, pid)) {
		words := strings.Fields(line)
		var start, end, off uint64
		fmt.Sscanf(words[0], "%x-%x", &start, &end)
		fmt.Sscanf(words[2], "%x", &off)
		if pc < start || pc >= end || len(words) < 6 || words[5][0] != '/' {
			continue
		}
		f := open(t, words[5])
		addr := pc - start + off
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD && off >= p.Off&^4095 && off < p.Off+p.Filesz {
				addr = pc - start + off - p.Off + p.Vaddr
			}
		}
		best := elf.Symbol{Name: filepath.Base(words[5])}
		for _, s := range f.symbols {
			if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Value <= addr && s.Value > best.Value && addr <= s.Value+s.Size {
				best = s
			}
		}
		return best.Name
	}
	return fmt.Sprintf("%#x", pc)
}

func mapsOf(t testing.TB, pid int) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// file is a file of a process, read once.
type file struct {
	*elf.File
	symbols []elf.Symbol
}

var opened = map[string]*file{}

func open(t testing.TB, path string) *file {
	t.Helper()
	if f := opened[path]; f != nil {
		return f
	}
	e, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &file{File: e}
	f.symbols, _ = e.Symbols()
	dynamic, _ := e.DynamicSymbols()
	f.symbols = append(f.symbols, dynamic...)
	opened[path] = f
	return f
}

// start runs the program. once makes it call its functions, and returns when it has.
func start(t testing.TB, exe string, args ...string) (pid int, once func()) {
	t.Helper()
	cmd := exec.Command(exe, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	lines := bufio.NewReader(out)
	line := func() {
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	line()
	return cmd.Process.Pid, func() { in.Write([]byte("x")); line() }
}

// reasons returns the counts of why walks ended.
func reasons(t testing.TB, c *ebpf.Collection) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	for r := unwind.Reason(0); r < unwind.Reasons; r++ {
		var counts []uint64
		if err := named(t, c.Maps, "unwind_stats").Lookup(uint32(r), &counts); err != nil {
			t.Fatal(err)
		}
		for _, n := range counts {
			if n > 0 {
				all[r.String()] += n
			}
		}
	}
	return all
}

// attach attaches a program, and skips the test where the machine cannot.
func attach(t testing.TB, l link.Link, err error) {
	t.Helper()
	if err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() { l.Close() })
}

// chain is the stack of leaf: n calls of f1.
func chain(n int) string {
	return "leaf f5 f4 f3 f2" + strings.Repeat(" f1", n) + " main"
}

// TestUprobe walks from a uprobe.
func TestUprobe(t *testing.T) {
	exe := build(t)
	for _, c := range []struct {
		builtin string
		args    []string
		want    []string // the last f1 has left its frame to f2
	}{
		{"dw_ustack", nil, []string{chain(1), chain(2)}},
		{"dw_ustack", []string{"deep"}, []string{chain(1), chain(89), chain(90)}},
		{"ustack", nil, []string{chain(1), chain(2)}},
	} {
		spec := object(t, fmt.Sprintf(`uprobe:%s:leaf { @[%s] = count(); }`, exe, c.builtin))
		coll := load(t, spec)
		ex, err := link.OpenExecutable(exe)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range coll.Programs {
			l, err := ex.Uprobe("leaf", p, nil)
			attach(t, l, err)
		}
		pid, once := start(t, exe, c.args...)
		once()
		got, all := stacks(t, coll, pid, 127), reasons(t, coll)
		if len(all) != 1 || all["not yet known"] == 0 {
			t.Errorf("before the process is known: %v; want not yet known", all)
		}
		byHelper := func(s string) bool { return strings.HasPrefix(s, "leaf f5") } // the caller is read at the stack pointer
		if c.builtin == "dw_ustack" && !slices.Equal(got, []string{"leaf"}) || c.builtin == "ustack" && !slices.ContainsFunc(got, byHelper) {
			t.Errorf("%s before the process is known: stacks %q", c.builtin, got)
		}
		fill(t, coll, pid)
		once()
		got = stacks(t, coll, pid, 127)
		for _, want := range c.want {
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want+" ") && strings.HasSuffix(s, " _start") }) {
				t.Errorf("%v: no stack %q in %.2000q", c.args, want, got)
			}
		}
		all = reasons(t, coll)
		if len(all) != 2 || all["whole"] != all["not yet known"] {
			t.Errorf("%v: reasons %v; want each stack whole", c.args, all)
		}
	}
}

// TestSyscall walks from a tracepoint, with the registers that the task has saved.
func TestSyscall(t *testing.T) {
	exe := build(t)
	for _, builtin := range []string{"dw_ustack", "ustack"} {
		pid, once := start(t, exe)
		coll := load(t, object(t, fmt.Sprintf(`tracepoint:syscalls:sys_enter_getppid /pid == %d/ { @[%s(100)] = count(); }`, pid, builtin)))
		for _, p := range coll.Programs {
			l, err := link.Tracepoint("syscalls", "sys_enter_getppid", p, nil)
			attach(t, l, err)
		}
		fill(t, coll, pid)
		once()
		if got := stacks(t, coll, pid, 100); len(got) != 1 || !strings.Contains(got[0], " main ") || !strings.HasSuffix(got[0], " _start") {
			t.Errorf("%s: stacks %q; want getppid main ... _start", builtin, got)
		}
	}
}

// BenchmarkFrame measures a frame: the time of stacks with 90 calls of a function minus that of stacks with few, as the
// kernel counts it.
func BenchmarkFrame(b *testing.B) {
	exe := build(b)
	stats, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME
	if err != nil {
		b.Skip("skipped: ", err)
	}
	defer stats.Close()
	took := func(args ...string) (ns, frames float64) {
		coll := load(b, object(b, fmt.Sprintf(`uprobe:%s:leaf { @[dw_ustack] = count(); }`, exe)))
		pid, once := start(b, exe, args...)
		fill(b, coll, pid)
		for _, p := range coll.Programs {
			ex, err := link.OpenExecutable(exe)
			if err != nil {
				b.Fatal(err)
			}
			l, err := ex.Uprobe("leaf", p, nil)
			attach(b, l, err)
			for range max(b.N, 20) {
				once()
			}
			s, err := p.Stats()
			if err != nil {
				b.Fatal(err)
			}
			ns = float64(s.Runtime.Nanoseconds()) / float64(s.RunCount)
		}
		return ns, float64(strings.Count(strings.Join(stacks(b, coll, pid, 127), " "), " ")+1) / float64(len(stacks(b, coll, pid, 127)))
	}
	few, n := took()
	many, m := took("deep")
	b.ReportMetric((many-few)/(m-n), "ns/frame")
	b.ReportMetric(few, "ns/stack-of-few")
	b.ReportMetric(n, "frames-of-few")
}
