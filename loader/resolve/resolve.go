// SPDX-License-Identifier: Apache-2.0

// Package resolve finds the attach sites of a script's attach points on a kernel.
//
// It takes the programs of a manifest and a Kernel, and returns a plan for each program or the reason why it has
// none, according to the script's missing_probes. The rules are the same for the host that btrun attaches on and for
// the target that btc check reads: only the Kernel differs.
package resolve

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"btc/internal/arch"
	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
	"btc/loader/diag"
)

// Kernel describes the attach points that a kernel has.
type Kernel interface {
	// Arch is the architecture; nil if it is not supported.
	Arch() *arch.Arch

	// CheckKprobes returns nil if the kernel has kprobes.
	CheckKprobes(p *manifest.Program) error
	// Loaded reports whether a module is loaded, as far as that is known.
	Loaded(module string) bool
	// Functions returns the functions that can be probed, in any order.
	Functions() ([]Function, error)
	// CheckFunction returns nil if a kprobe can be attached to the function that p names.
	CheckFunction(p *manifest.Program) error
	// Several reports whether several functions have the name of a kprobe's function.
	Several(a *manifest.Attach) (bool, error)
	// Address returns the function and the offset for a kprobe on an address.
	Address(p *manifest.Program) (Match, error)
	// KprobeMulti reports whether the kernel supports multi-function links (5.18).
	KprobeMulti() bool

	// Prototype returns the prototype of the named function in a module ("vmlinux": the kernel
	// itself); nil if there is none. The error is ErrAmbiguous if there are several.
	Prototype(module, name string) (*adapt.Prototype, error)
	// Modules returns the modules whose types may contain the named function or raw tracepoint.
	Modules(name string) ([]string, error)
	// RawPrototype returns the arguments of a raw tracepoint in a module ("vmlinux": the kernel
	// itself); nil if there is none.
	RawPrototype(module, name string) (*adapt.Prototype, error)
	// RawTracepoints returns the names of a module's raw tracepoints.
	RawTracepoints(module string) ([]string, error)

	// Tracepoint returns nil if the event exists.
	Tracepoint(group, name string) error
	// Tracepoints returns the events that match one pattern for the group and one for the name.
	Tracepoints(group, name string) ([]adapt.Event, error)
	// Iterator reports whether the kernel has a kind of iterator; true if unknown.
	Iterator(kind string) (bool, error)
	// Iterators returns the kinds of iterators that a script can name.
	Iterators() ([]string, error)

	// Other resolves attach points that depend on more than the kernel: on files, processes, processors, or loaded
	// BPF programs.
	Other(p *manifest.Program) (Plan, error)

	// Absent may replace the error for an attach point that was not found, if the Kernel does not
	// have enough information to be sure.
	Absent(p *manifest.Program, err *Missing) error
}

// Function is a kernel function that can be probed.
type Function struct {
	Name, Module string // Module is "vmlinux" for the kernel itself
	Several      bool   // several functions of the module have this name
}

// Match is one attach site.
type Match struct {
	Text   string   // "kprobe:vfs_read", the value of the builtin probe
	ID     int      // number of the attach point, for programs that use it
	Group  string   // tracepoint category; kernel module
	Name   string   // function, symbol or event
	Path   string   // uprobe: file
	File   *os.File // uprobe: the file itself, which may no longer be at Path; nil: the one at Path
	Offset uint64   // kprobe: bytes after the start of Name; uprobe: offset in the file

	SameBuild bool // uprobe: the file is of the build of manifest.Attach.Calls

	PID int // the process that the link is limited to, and its executable; 0: all

	Several bool // kprobe: several functions have the name, or the name is ambiguous without the module

	BPF ebpf.ProgramID // BPF program that the function Name belongs to; 0: the kernel

	// For usdt probes:
	Semaphore uint64 // file offset of the semaphore; 0: none
	USDT      []byte // argument locations, see usdt.Encode
	More      bool   // another location of the same probe
	Variant   int    // index of its variant of argument locations, from 0
	SameAs    int    // 1 + index of the match whose program this one shares; 0: none
}

// Strategy is how the matches of a plan are loaded and linked. It is chosen before anything is
// loaded, based on the kernel's features and the manifest.
type Strategy int

// Strategies.
const (
	// Single: each match has its own link. All share one program, unless the program uses the
	// number of its attach point.
	Single Strategy = iota
	// PerMatch: each match has its own link and its own program, loaded for the match's name.
	PerMatch
	// Multi: one link holds all matches (kprobe.multi 5.18, uprobe.multi 6.6). The program is
	// loaded with the plan's AttachType, and gets the number of the attach point from the link.
	Multi
	// SharedRaw: one link to the raw tracepoint of all system calls, in the plan's Direction, runs
	// the program for all matches.
	SharedRaw
	// Raw: each match has a link to the raw tracepoint of the same name.
	Raw
	// Virtual: the loader runs the program; nothing is attached.
	Virtual
)

// Plan describes where and how a program is attached.
type Plan struct {
	Prog    *manifest.Program
	Matches []Match
	// Strategy is how the matches are loaded and linked.
	Strategy   Strategy
	AttachType ebpf.AttachType // attach type, with the strategy Multi
	Direction  string          // sys_enter or sys_exit, with the strategy SharedRaw
	// Narrow and Cut describe a result whose width is not that in the object, see adapt.Narrowed.
	Narrow int
	Cut    bool
	// Filtered means that the program must be loaded with the filters of the run.
	Filtered bool
	// Joined are the plans of clauses that the programs of this plan call after its own, see Join. They have the
	// same sites.
	Joined []Plan
}

// UsesID reports whether a clause of the plan uses the number of its attach point.
func (p *Plan) UsesID() bool {
	return p.Prog.UsesID || slices.ContainsFunc(p.Joined, func(j Plan) bool { return j.Prog.UsesID })
}

// CutText is the warning for a plan with Cut.
func (p *Plan) CutText() string {
	return p.Prog.Attach.Text + " returns 64 bits on this kernel, and the script was compiled for 32: larger results are cut;" +
		" compile the script for this kernel (--target)"
}

// NumPrograms returns the number of BPF programs loaded for a plan.
func (p *Plan) NumPrograms() int {
	if p.Strategy == PerMatch || p.UsesID() && p.Strategy != Multi {
		return len(p.Matches)
	}
	processes := map[int]bool{}
	for i := range p.Matches {
		processes[p.Matches[i].PID] = true
	}
	return max(len(processes), 1)
}

// Probes returns the number of probes for n attach sites of a plan. All locations of one usdt probe
// count as one.
func (p *Plan) Probes(n int) int {
	for i := range p.Matches {
		if p.Matches[i].More && n > 1 {
			n--
		}
	}
	return n * (1 + len(p.Joined))
}

// LinksNumber reports whether a program can get the number of its attach point from its link:
// either it does not need the number, or it has room for it in its frame.
func LinksNumber(p *manifest.Program) bool {
	return !p.UsesID || p.Code != nil && p.Code.Frame <= manifest.MaxFrame-8
}

// Result is the outcome for one program.
type Result struct {
	Prog *manifest.Program
	Plan *Plan       // nil: the program is not attached
	Err  *diag.Error // reason why there is no plan; nil if there is one
	// Dropped means that the script runs without the program, with a warning unless Silent is set.
	// Otherwise Err ends the run, unless Unknown is set.
	Dropped, Silent bool
	// Unknown means that the Kernel does not have enough information for a plan or an error.
	Unknown bool
}

// Results are the outcomes for the programs that take part in a run, in the manifest's order.
type Results struct {
	Programs []Result
	// Clauses are the errors for clauses without any remaining attach point.
	Clauses []ClauseError
	// Limit is the error if all plans together exceed a limit, or nil.
	Limit *diag.Error
}

// ClauseError is the error for a clause without any remaining attach point.
type ClauseError struct {
	Clause int // number of the clause
	*diag.Error
	Warn bool // only a warning: the script runs without the clause
}

// maxMatches bounds the total number of matches, independent of max_probes, because each one takes
// memory before anything is loaded.
const maxMatches = 1 << 18

// limit returns the value of max_probes, the number of attach sites that all patterns together may
// match, or max_bpf_progs, the number of programs that may be loaded.
func limit(m *manifest.Manifest, key string) int {
	if n, err := strconv.Atoi(m.Config.Other[key]); err == nil && n > 0 {
		return n
	}
	return 1024
}

// All resolves the attach points of all programs of the selected kinds. It continues after an error
// in one program, but stops at a limit.
func All(k Kernel, m *manifest.Manifest, wanted func(kind string) bool) *Results {
	out := &Results{}
	total, programs := 0, 0
	clauses := adapt.Clauses{}
	for i := range m.Programs {
		p := &m.Programs[i]
		if !wanted(p.Kind) {
			continue
		}
		plan, err := One(k, p)
		if err != nil {
			out.Programs = append(out.Programs, failed(m, p, err, clauses))
			continue
		}
		clauses.Retain(p)
		plan.Prog = p
		if total += len(plan.Matches); total > maxMatches {
			out.Limit = &diag.Error{
				Script: &m.Script,
				Pos:    p.Pos,
				Text:   fmt.Sprintf("the attach points up to this one match more than %d attach sites", maxMatches),
			}
			return out
		}
		if programs += plan.NumPrograms(); programs > limit(m, "max_bpf_progs") {
			out.Limit = &diag.Error{
				Script: &m.Script,
				Pos:    p.Pos,
				Text: fmt.Sprintf("Your program is trying to generate more than %d BPF programs, which exceeds the current limit of %d",
					programs, limit(m, "max_bpf_progs")),
				Hint: "You can increase the limit through the BPFTRACE_MAX_BPF_PROGS environment variable.",
			}
			return out
		}
		out.Programs = append(out.Programs, Result{Prog: p, Plan: &plan})
	}
	out.Clauses = emptyClauses(m, clauses)
	if limit := limit(m, "max_probes"); total > limit {
		out.Limit = &diag.Error{
			Script: &m.Script,
			Text: fmt.Sprintf(
				"Can't attach to %d probes because it exceeds the current limit of %d probes.\n"+
					"You can increase the limit through the BPFTRACE_MAX_PROBES environment variable, "+
					"but BE CAREFUL since a high number of probes attached can cause your system to crash.",
				total,
				limit,
			),
		}
	}
	return out
}

// failed returns the outcome for a program whose attach point has an error, according to the
// script's missing_probes.
func failed(m *manifest.Manifest, p *manifest.Program, err error, clauses adapt.Clauses) Result {
	r := Result{Prog: p}
	var failure *Failure
	var gone *Missing
	var unknown *Unknown
	switch {
	case errors.As(err, &unknown):
		clauses.Retain(p)
		r.Unknown = true
		r.Err = &diag.Error{Script: &m.Script, Pos: p.Pos, Text: unknown.Text, Cause: err}
		return r
	case errors.As(err, &failure):
		r.Err = failure.Report(m, p)
		if adapt.Mode(p) != "error" {
			clauses.Retain(p) // the attach point exists
			r.Dropped = true
		}
		r.Silent = adapt.Mode(p) == "ignore"
		return r
	case !errors.As(err, &gone):
		r.Err = &diag.Error{Script: &m.Script, Pos: p.Pos, Text: p.Attach.Text + ": " + err.Error(), Cause: err}
		return r
	}
	r.Err = &diag.Error{
		Script: &m.Script,
		Pos:    p.Pos,
		Text:   gone.Text,
		Notes:  gone.notes(),
		Hint:   MissingHint,
		Cause:  err,
	}
	switch clauses.Drop(p, gone.Text, gone.Pattern, gone.Foreign) {
	case adapt.Warned:
		r.Dropped = true
		r.Err.Hint = ""
	case adapt.Silently:
		r.Dropped, r.Silent = true, true
	}
	return r
}

// emptyClauses returns the errors for clauses without any remaining attach point.
func emptyClauses(m *manifest.Manifest, clauses adapt.Clauses) []ClauseError {
	var out []ClauseError
	for _, l := range clauses.Unmatched(m) {
		f := &diag.Error{Script: &m.Script, Pos: l.First.Pos, Text: NoAttachPoints, Notes: l.Missing}
		if l.Mode == "warn" {
			f.Text = RemovedProbe
			out = append(out, ClauseError{l.First.Clause, f, true})
			continue
		}
		if l.First.Attach.Missing == "ignore" { // a match of a pattern that the compiler expanded
			f.Hint = "the compiler expanded the pattern for Linux " + m.Target +
				", and none of its matches exists here: compile the script for this kernel (btc compile --target)"
		}
		f.Cause = &Missing{Text: f.Text}
		out = append(out, ClauseError{l.First.Clause, f, false})
	}
	return out
}

// One resolves the attach point of one program.
func One(k Kernel, p *manifest.Program) (Plan, error) {
	if len(p.Attach.Substitute) > 0 {
		return Plan{}, &Unknown{
			fmt.Sprintf("the attach point of %s depends on the parameters given to the loader", p.Attach.Text),
		}
	}
	find := kinds[p.Kind]
	if find == nil {
		find = Kernel.Other
	}
	plan, err := find(k, p)
	var gone *Missing
	if errors.As(err, &gone) {
		err = k.Absent(p, gone)
	}
	if errors.As(err, &gone) && gone.Why == "" && adapt.Mode(p) != "ignore" {
		if near := Nearest(k, p.Kind, strings.TrimPrefix(p.Attach.Target+":"+p.Attach.Name, ":")); near != "" {
			gone.Why = "did you mean " + near + "?"
		}
	}
	return plan, err
}

// kinds maps a kind of probe to the function that resolves its attach points. Kinds without an
// entry depend on more than the kernel.
var kinds = map[string]func(Kernel, *manifest.Program) (Plan, error){
	probe.Kprobe:        kprobe,
	probe.Kretprobe:     kprobe,
	probe.Tracepoint:    tracepoint,
	probe.RawTracepoint: rawTracepoint,
	probe.Fentry:        tracing,
	probe.Fexit:         tracing,
	probe.Hardware:      counter,
	probe.Software:      counter,
	probe.Profile:       itself,
	probe.Interval:      itself,
	probe.Begin:         virtual,
	probe.End:           virtual,
	probe.Self:          virtual,
	probe.Test:          virtual,
	probe.Bench:         virtual,
	probe.Iter:          iterator,
}

func itself(_ Kernel, p *manifest.Program) (Plan, error) { return Itself(p), nil }

// Itself returns the plan for an attach point that is its own, only attach site.
func Itself(p *manifest.Program) Plan {
	return Plan{Matches: []Match{{Text: p.Attach.Text, Name: p.Attach.Name, Offset: p.Attach.Addr}}}
}

func virtual(_ Kernel, p *manifest.Program) (Plan, error) {
	return Plan{Strategy: Virtual, Matches: []Match{{Text: p.Attach.Text}}}, nil
}

// EventName returns the event of a software or hardware probe, which may be in either part of the
// attach point.
func EventName(a *manifest.Attach) string {
	if a.Name != "" {
		return a.Name
	}
	return a.Target
}

func counter(k Kernel, p *manifest.Program) (Plan, error) {
	if _, ok := probe.FindEvent(p.Kind, EventName(&p.Attach)); !ok {
		return Plan{}, NoMatch(p.Kind, EventName(&p.Attach))
	}
	if p.Kind == probe.Hardware {
		return k.Other(p)
	}
	return Itself(p), nil
}

func tracepoint(k Kernel, p *manifest.Program) (Plan, error) {
	a := &p.Attach
	if a.Target == "ftrace" { // entries of the function tracer, which have a format but no event (TRACE_EVENT_FL_IGNORE_ENABLE)
		return Plan{}, NoMatch(probe.Tracepoint, a.Target+":"+a.Name)
	}
	if !probe.IsPattern(a.Target) && !probe.IsPattern(a.Name) {
		if err := k.Tracepoint(a.Target, a.Name); err != nil {
			return Plan{}, err
		}
		return Plan{Matches: []Match{{Text: a.Text, Group: a.Target, Name: a.Name}}}, nil
	}
	events, err := k.Tracepoints(a.Target, a.Name)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{}
	for _, e := range events {
		if e.Group == "ftrace" { // ftrace's own entries, which perf does not accept
			continue
		}
		plan.Matches = append(plan.Matches,
			Match{Text: "tracepoint:" + e.Group + ":" + e.Name, Group: e.Group, Name: e.Name})
	}
	if len(plan.Matches) == 0 {
		return Plan{}, NoMatch(probe.Tracepoint, a.Target+":"+a.Name)
	}
	return plan, nil
}

// iterator looks up the kernel function that describes a kind of iterator.
func iterator(k Kernel, p *manifest.Program) (Plan, error) {
	kind := p.Attach.Name
	if what, ok := kernelfs.IterOverMap[kind]; ok {
		return Plan{}, &Missing{Text: fmt.Sprintf(
			"No matches for iter %s. It visits the %s of one map, which a script cannot name.", kind, what)}
	}
	ok, err := k.Iterator(kind)
	if err != nil {
		return Plan{}, err
	}
	if !ok {
		return Plan{}, &Missing{Text: fmt.Sprintf("this kernel has no iterator %s.", kind)}
	}
	return Itself(p), nil
}

// Matching returns the functions that match an attach point's pattern, sorted. Functions with the
// same name and module are listed once.
func Matching(functions []Function, a *manifest.Attach) []Function {
	var out []Function
	for _, f := range functions {
		if probe.Glob(a.Name, f.Name) && (a.Target == "" || probe.Glob(a.Target, f.Module)) && !Excluded(f.Name) {
			out = append(out, f)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Name != out[j].Name {
			return out[i].Name < out[j].Name
		}
		return out[i].Module < out[j].Module
	})
	kept := out[:0]
	for _, f := range out {
		if n := len(kept); n > 0 && kept[n-1].Name == f.Name && kept[n-1].Module == f.Module {
			kept[n-1].Several = true
			continue
		}
		kept = append(kept, f)
	}
	return kept
}

// bpffs is the directory of relative pin paths.
const bpffs = "/sys/fs/bpf/"

// OfProcess are the kinds of iterators that can be limited to a process (6.1).
var OfProcess = map[string]bool{"task": true, "task_file": true, "task_vma": true}

// PinPath returns the path at which an iterator's program is pinned, or "".
func PinPath(p *manifest.Program) string {
	switch path := p.Attach.Target; {
	case p.Kind != probe.Iter || path == "":
		return ""
	case strings.HasPrefix(path, "/"):
		return path
	default:
		return bpffs + path
	}
}
