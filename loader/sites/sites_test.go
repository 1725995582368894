// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/diag"
	"btc/loader/host"
	"btc/loader/resolve"
)

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
