// SPDX-License-Identifier: Apache-2.0

// Package unwind tests the walk of stacks against gdb: on live processes, and on cases that were captured from them.
package unwind

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"btc/internal/unwind"
	"btc/internal/unwind/ehframe"
	"btc/tests/tier"
	"btc/tests/unwind/unwindcase"
)

var update = flag.Bool("update", false, "write the cases in testdata from live processes")

// programs are those that are stopped; source is compiled.
var programs = []struct {
	name    string
	command []string
	source  string // in testdata
	build   []string
	blocks  bool // the program waits in a system call: it is stopped once
	noTruth bool // gdb does not know how Go changes between stacks: only whether they are whole is tested
}{
	{name: "bash", command: []string{"bash", "-c", `f() { local i=$1; if ((i > 0)); then f $((i - 1)); else for ((j = 0; j < 100; j++)); do x=${x:0:3}$j; done; fi; }; while :; do f 4; done`}},
	{name: "python", command: []string{"/usr/bin/python3", "-c", "import re\ndef f(n):\n  return f(n-1)+1 if n else len(re.sub('a+', lambda m: str(sorted([3,1,2],key=lambda x:-x)), 'xaay'))\nwhile True: f(8)"}},
	{name: "perl", command: []string{"perl", "-e", `sub f { my $n = shift; return $n ? f($n - 1) + 1 : length(join ",", sort { $b <=> $a } map { $_ * 3 } 1..20) } while (1) { f(6); "abc" =~ /(b|c)+$/ }`}},
	{name: "sleep", command: []string{"sleep", "1000"}, blocks: true},
	{name: "c", source: "stacks.c", build: []string{"gcc", "-O2", "-w", "-lpthread", "-lm"}},
	{name: "c-static", source: "stacks.c", build: []string{"gcc", "-O2", "-w", "-static", "-lm"}},
	{name: "c++", source: "stacks.cc", build: []string{"g++", "-O2", "-w"}},
	{name: "go", source: "stacks.go", build: []string{"go", "build"}, noTruth: true},
	{name: "go-pie-stripped", source: "stacks.go", build: []string{"go", "build", "-buildmode=pie", "-ldflags=-s -w"}, noTruth: true},
}

// TestLive stops programs at many instructions and compares each stack with gdb's.
func TestLive(t *testing.T) {
	if _, err := exec.LookPath("gdb"); err != nil {
		t.Skip("skipped: no gdb")
	}
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("skipped: registers are known on x86_64 and arm64")
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			if p.name != "bash" && p.name != "sleep" {
				tier.Real.Need(t, "stops a program under gdb")
			}
			command := p.command
			if p.source != "" {
				command = []string{compile(t, p.source, p.build)}
			}
			path, err := exec.LookPath(command[0])
			if err != nil {
				t.Skipf("skipped: no %s", command[0])
			}
			times := 40
			if p.blocks {
				times = 1
			}
			cases := capture(t, path, command, times)
			if p.noTruth {
				for _, c := range cases {
					c.Truth, _ = unwind.Walk(c.Machine, c.Registers(), c, unwind.MaxFrames)
					c.Names = make([]string, len(c.Truth))
				}
			}
			check(t, cases)
			if *update && !p.noTruth {
				for i, c := range cases {
					c.Name = fmt.Sprintf("%s %d", p.name, i)
				}
				store(t, p.name, cases[:min(len(cases), 16)])
			}
		})
	}
}

// compile builds a program of testdata.
func compile(t *testing.T, source string, command []string) string {
	t.Helper()
	tool, err := exec.LookPath(command[0])
	if err != nil {
		t.Skipf("skipped: no %s", command[0])
	}
	out := filepath.Join(t.TempDir(), "program")
	args := slices.Concat([]string{"-o", out}, []string{filepath.Join("testdata", source)}, command[1:])
	if command[0] == "go" {
		args = slices.Concat(command[1:], []string{"-o", out, filepath.Join("testdata", source)})
	}
	if text, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
		t.Skipf("skipped: cannot compile: %v: %s", err, text)
	}
	return out
}

// capture runs a program and stops it several times.
func capture(t *testing.T, path string, command []string, times int) []*unwindcase.Case {
	t.Helper()
	cmd := &exec.Cmd{Path: path, Args: command}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	time.Sleep(300 * time.Millisecond) // it has started
	pid := cmd.Process.Pid
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	gdb := exec.CommandContext(ctx, "gdb", "-nx", "-batch", "-p", strconv.Itoa(pid), "-x", "capture.py")
	gdb.Env = append(os.Environ(), fmt.Sprint("CAPTURE_TIMES=", times), "CAPTURE_STEPS=300", "DEBUGINFOD_URLS=")
	var text bytes.Buffer
	gdb.Stderr = &text
	maps := mappings(t, pid)
	out, err := gdb.Output()
	if err != nil {
		t.Skipf("skipped: gdb: %v: %.300s", err, text.String())
	}
	var cases []*unwindcase.Case
	in := bufio.NewScanner(bytes.NewReader(out))
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		line, ok := strings.CutPrefix(in.Text(), "CASE ")
		if !ok {
			continue
		}
		var got struct {
			PC, SP uint64
			Regs   []uint64
			Stack  string
			Frames [][]any
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&got); err != nil {
			t.Fatal(err)
		}
		stack, err := hex.DecodeString(got.Stack)
		if err != nil {
			t.Fatal(err)
		}
		c := &unwindcase.Case{Machine: maps.machine, PC: got.PC, Regs: got.Regs, Tables: map[string][]unwind.Row{}, Keeps: map[string]bool{}}
		for _, f := range got.Frames {
			pc, _ := strconv.ParseUint(f[0].(json.Number).String(), 10, 64)
			c.Truth, c.Names = append(c.Truth, pc), append(c.Names, f[1].(string))
		}
		live := &process{c: c, maps: maps, sp: got.SP, stack: stack, rows: map[string]map[unwind.Row]bool{}, words: map[uint64]uint64{}}
		_, reason := unwind.Walk(c.Machine, c.Registers(), live, unwind.MaxFrames)
		c.Reason = reason.String()
		live.finish()
		cases = append(cases, c)
	}
	if len(cases) == 0 {
		t.Skipf("skipped: gdb cannot stop the program: %.300s", text.String())
	}
	return cases
}

// memoryMap is what is mapped as code.
type memoryMap struct {
	machine elf.Machine
	maps    []unwindcase.Mapping
	tables  map[string]*unwind.Table
}

// mappings reads the mappings of a process and makes the tables of their files.
func mappings(t *testing.T, pid int) *memoryMap {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := &memoryMap{tables: map[string]*unwind.Table{}}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if words[1][2] != 'x' {
			continue
		}
		var at unwindcase.Mapping
		var off uint64
		fmt.Sscanf(words[0], "%x-%x", &at.Start, &at.End)
		fmt.Sscanf(words[2], "%x", &off)
		if len(words) > 5 {
			if table := m.table(t, pid, words[5], &at); table != nil {
				if bias, ok := table.Bias(at.Start, off); ok {
					at.Bias, at.File = bias, filepath.Base(words[5])
				}
			}
		}
		m.maps = append(m.maps, at)
	}
	return m
}

func (m *memoryMap) table(t *testing.T, pid int, path string, at *unwindcase.Mapping) *unwind.Table {
	t.Helper()
	name := filepath.Base(path)
	if table, ok := m.tables[name]; ok {
		return table
	}
	var f *elf.File
	var err error
	if path == "[vdso]" {
		mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return nil
		}
		defer mem.Close()
		b := make([]byte, at.End-at.Start)
		mem.ReadAt(b, int64(at.Start))
		if f, err = elf.NewFile(bytes.NewReader(b)); err != nil {
			return nil
		}
	} else if f, err = elf.Open(path); err != nil {
		return nil
	}
	defer f.Close()
	table, err := ehframe.Build(f)
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	m.tables[name], m.machine = table, f.Machine
	return table
}

// process is a captured process; it records what a walk reads.
type process struct {
	c     *unwindcase.Case
	maps  *memoryMap
	sp    uint64
	stack []byte
	rows  map[string]map[unwind.Row]bool
	words map[uint64]uint64
}

func (p *process) Word(addr uint64) (uint64, bool) {
	if off := addr - p.sp; off+8 <= uint64(len(p.stack)) && off < uint64(len(p.stack)) {
		var v uint64
		for i, b := range p.stack[off : off+8] {
			v |= uint64(b) << (8 * i)
		}
		p.words[addr] = v
		return v, true
	}
	return 0, false
}

func (p *process) Find(addr uint64) (*unwind.Table, uint64, unwind.Reason) {
	for _, m := range p.maps.maps {
		if addr-m.Start >= m.End-m.Start {
			continue
		}
		if !slices.Contains(p.c.Mappings, m) {
			p.c.Mappings = append(p.c.Mappings, m)
		}
		if m.File == "" {
			return nil, 0, unwind.NoTable
		}
		table := p.maps.tables[m.File]
		if p.rows[m.File] == nil {
			p.rows[m.File] = map[unwind.Row]bool{}
		}
		i := sort.Search(len(table.Rows), func(i int) bool { return uint64(table.Rows[i].PC) > addr-m.Bias })
		for _, r := range table.Rows[max(i-1, 0):min(i+1, len(table.Rows))] {
			p.rows[m.File][r] = true
		}
		if table.Frames {
			p.c.Keeps[m.File] = true
		}
		return table, m.Bias, 0
	}
	return nil, 0, unwind.UnknownCode
}

// finish puts what was read into the case.
func (p *process) finish() {
	for addr, v := range p.words {
		p.c.Words = append(p.c.Words, [2]uint64{addr, v})
	}
	slices.SortFunc(p.c.Words, func(a, b [2]uint64) int {
		if a[0] < b[0] {
			return -1
		}
		return 1
	})
	for file, set := range p.rows {
		var rows []unwind.Row
		for r := range set {
			rows = append(rows, r)
		}
		slices.SortFunc(rows, func(a, b unwind.Row) int { return int(int64(a.PC) - int64(b.PC)) })
		p.c.Tables[file] = rows
	}
}

// check unwinds cases and compares them with gdb. Every frame must be one of gdb's; of all cases, at least nine in ten
// must be whole.
func check(t *testing.T, cases []*unwindcase.Case) {
	t.Helper()
	whole := 0
	reasons := map[string]int{}
	for i, c := range cases {
		got, reason := unwind.Walk(c.Machine, c.Registers(), c, unwind.MaxFrames)
		reasons[reason.String()]++
		if reason.String() != c.Reason {
			t.Errorf("%d: ended because of %q, was %q", i, reason, c.Reason)
		}
		if reason == unwind.Whole && len(got) == len(c.Truth) {
			whole++
		}
		for j, pc := range got {
			if j >= len(c.Truth) || c.Truth[j] != pc {
				t.Errorf("%d: frame %d of %d is %#x (%s)\n%s", i, j, len(got), pc, reason, explain(c, got))
				break
			}
		}
		if reason != unwind.Whole && testing.Verbose() {
			t.Logf("%d: cut after %d frames: %s\n%s", i, len(got), reason, explain(c, got))
		}
		if reason == unwind.Whole && len(got) < len(c.Truth) {
			t.Errorf("%d: whole after %d frames (%s)\n%s", i, len(got), reason, explain(c, got))
		}
	}
	t.Logf("%d of %d stacks are whole: %v", whole, len(cases), reasons)
	if whole*10 < len(cases)*9 {
		t.Errorf("%d of %d stacks are whole: %v", whole, len(cases), reasons)
	}
}

func explain(c *unwindcase.Case, got []uint64) string {
	var b strings.Builder
	for i, pc := range c.Truth {
		mine := "-"
		if i < len(got) {
			mine = fmt.Sprintf("%#x", got[i])
		}
		fmt.Fprintf(&b, "\t%d: gdb %#x %s, here %s\n", i, pc, c.Names[i], mine)
	}
	return b.String()
}

// store writes cases to testdata.
func store(t *testing.T, name string, cases []*unwindcase.Case) {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("[\n")
	for i, c := range cases {
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			b.WriteString(",\n")
		}
		b.Write(line)
	}
	b.WriteString("\n]\n")
	if err := os.WriteFile(filepath.Join("testdata", runtime.GOARCH+"-"+name+".json"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCases unwinds the stored cases.
func TestCases(t *testing.T) {
	all, err := unwindcase.Load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no cases")
	}
	for name, cases := range all {
		t.Run(name, func(t *testing.T) { check(t, cases) })
	}
}
