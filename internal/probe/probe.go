// SPDX-License-Identifier: Apache-2.0

// Package probe describes the kinds of probes for compiler and loader: a table with one row for
// each kind, and the parser of attach points ("kprobe:vfs_read", "interval:s:1").
//
// To add a kind, start with a row here; docs/contributing/probe.md has the next steps. frontend/check resolves attach
// points in a target. On a host, loader/sites resolves them and loader/attach attaches them.
package probe

import (
	"slices"
	"strings"
)

// The kinds of probes, as manifests, messages and the IR name them.
const (
	Begin         = "begin"
	End           = "end"
	Self          = "self"
	Test          = "test"
	Bench         = "bench"
	Kprobe        = "kprobe"
	Kretprobe     = "kretprobe"
	Fentry        = "fentry"
	Fexit         = "fexit"
	Uprobe        = "uprobe"
	Uretprobe     = "uretprobe"
	USDT          = "usdt"
	Tracepoint    = "tracepoint"
	RawTracepoint = "rawtracepoint"
	Iter          = "iter"
	Profile       = "profile"
	Interval      = "interval"
	Software      = "software"
	Hardware      = "hardware"
	Watchpoint    = "watchpoint"
)

// Form is the grammar of an attach point after its kind.
type Form uint8

// The forms of attach points.
const (
	NoParts    Form = iota // begin
	Signal                 // self:signal:SIGUSR1
	Named                  // test:NAME
	Function               // kprobe:[MODULE:]FUNCTION[+OFFSET], kprobe:ADDRESS
	Typed                  // fentry:[MODULE:]FUNCTION, fentry:bpf:[ID:]PROGRAM, rawtracepoint:[MODULE:]EVENT
	UserCode               // uprobe:BINARY:[cpp:]FUNCTION[+OFFSET], uprobe:BINARY:ADDRESS, uprobe:BINARY@FILE:LINE
	UserMarker             // usdt:BINARY:[NAMESPACE:]NAME
	Event                  // tracepoint:CATEGORY:EVENT
	Iterator               // iter:KIND[:PIN]
	Timer                  // interval:UNIT:NUMBER, interval:DURATION
	Counter                // software:EVENT[:PERIOD]
	Watch                  // watchpoint:ADDRESS:LENGTH:MODE
)

// Runner is who runs the programs of a kind.
type Runner uint8

const (
	Kernel   Runner = iota // the kernel, at the events that they are attached to
	Loader                 // the loader, at the beginning, the end or at a signal
	OnDemand               // the loader, only when tests or benchmarks are requested
)

// Nesting is what prevents programs of a kind from interrupting each other on a CPU.
type Nesting uint8

const (
	Counted  Nesting = iota // the kernel's count of running programs (bpf_prog_active)
	Nests                   // nothing
	NestsOwn                // nothing; they interrupt programs of user space probes only
)

// Space is the address space that integers from the context of a probe point to.
type Space uint8

const (
	NoSpace     Space = iota // the interrupted code decides
	KernelSpace              // the probe is in kernel code
	UserSpace                // the probe is in user code
)

// Type is a row of the table: the properties that all probes of a kind share.
type Type struct {
	Kind    string
	Aliases []string
	// Name is what the builtin probetype returns; "": the kind.
	Name string
	Form Form
	// Min and Max are the numbers of parts that may follow the kind.
	Min, Max int
	Runner   Runner
	// Program is the type of BPF program that a probe is compiled to. Other is another type that the loader accepts
	// (in objects from another compiler); 0, ProgKprobe, means none.
	Program, Other Program
	Space          Space
	Nesting        Nesting
	// Wildcards: names may contain "*", which the host expands.
	Wildcards bool
	// Searched means that a pattern for the kind matches it, in listings and attach points. These
	// are the kinds that fire at the start of something, so that each event is found once.
	Searched bool
	// Listed: the attach points of a host can be listed.
	Listed bool
	// Args: the builtin args has the fields of the event or the arguments of the function. ArgN: the builtins arg0,
	// arg1 and so on are available. Retval: the builtin retval is available.
	Args, ArgN, Retval bool
	// Parameters: the attach point may contain $N, whose values the loader substitutes.
	Parameters bool
	// Frequent: it may fire millions of times per second.
	Frequent bool
	// Offsets: the attach point may have an offset from the function's first byte.
	Offsets bool
}

// types is the table, in the order of documentation.
var types = []Type{
	{Kind: Begin, Name: "special", Runner: Loader, Program: ProgRawTracepoint, Nesting: Nests},
	{Kind: End, Name: "special", Runner: Loader, Program: ProgRawTracepoint, Nesting: Nests},
	{Kind: Self, Name: "special", Form: Signal, Min: 2, Max: 2, Runner: Loader, Program: ProgRawTracepoint, Nesting: Nests, Listed: true},
	{Kind: Test, Form: Named, Min: 1, Max: 1, Runner: OnDemand, Program: ProgXDP, Nesting: Nests},
	{Kind: Bench, Name: "benchmark", Form: Named, Min: 1, Max: 1, Runner: OnDemand, Program: ProgXDP, Nesting: Nests},
	{Kind: Kprobe, Aliases: []string{"k"}, Form: Function, Min: 1, Max: 2, Program: ProgKprobe, Space: KernelSpace,
		Wildcards: true, Searched: true, Listed: true, Parameters: true, Frequent: true, Offsets: true, ArgN: true},
	{Kind: Kretprobe, Aliases: []string{"kr"}, Form: Function, Min: 1, Max: 2, Program: ProgKprobe, Space: KernelSpace,
		Wildcards: true, Listed: true, Parameters: true, Frequent: true, Retval: true},
	{Kind: Fentry, Aliases: []string{"f", "kfunc"}, Form: Typed, Min: 1, Max: 3, Program: ProgFentry, Space: KernelSpace, Nesting: Nests, Wildcards: true, Searched: true, Listed: true, Args: true, Frequent: true, Retval: true},
	{Kind: Fexit, Aliases: []string{"fr", "kretfunc"}, Form: Typed, Min: 1, Max: 3, Program: ProgFexit, Space: KernelSpace, Nesting: Nests, Wildcards: true, Listed: true, Args: true, Frequent: true, Retval: true},
	{Kind: Uprobe, Aliases: []string{"u"}, Form: UserCode, Min: 1, Max: 3, Program: ProgKprobe, Space: UserSpace, Nesting: NestsOwn, Wildcards: true, Searched: true, Listed: true, Args: true, Parameters: true, Offsets: true, ArgN: true},
	{Kind: Uretprobe, Aliases: []string{"ur"}, Form: UserCode, Min: 1, Max: 3, Program: ProgKprobe, Space: UserSpace, Nesting: NestsOwn, Wildcards: true, Listed: true, Parameters: true, Retval: true},
	{Kind: USDT, Aliases: []string{"U"}, Form: UserMarker, Min: 1, Max: 3, Program: ProgKprobe, Space: UserSpace, Nesting: NestsOwn, Wildcards: true, Searched: true, Listed: true, Parameters: true, ArgN: true},
	{Kind: Tracepoint, Aliases: []string{"t"}, Form: Event, Min: 2, Max: 2, Program: ProgTracepoint, Space: KernelSpace,
		Wildcards: true, Searched: true, Listed: true, Args: true, Parameters: true, Frequent: true},
	{Kind: RawTracepoint, Aliases: []string{"rt"}, Form: Typed, Min: 1, Max: 2, Program: ProgTPBTF, Other: ProgRawTracepoint, Space: KernelSpace, Nesting: Nests, Wildcards: true, Searched: true, Listed: true, Args: true, Frequent: true, ArgN: true},
	{Kind: Iter, Aliases: []string{"it"}, Form: Iterator, Min: 1, Max: 2, Program: ProgIter, Space: KernelSpace, Nesting: Nests, Searched: true, Listed: true},
	{Kind: Profile, Aliases: []string{"p"}, Form: Timer, Min: 1, Max: 2, Program: ProgPerfEvent, Listed: true, Parameters: true},
	{Kind: Interval, Aliases: []string{"i"}, Form: Timer, Min: 1, Max: 2, Program: ProgPerfEvent, Listed: true, Parameters: true},
	{Kind: Software, Aliases: []string{"s"}, Form: Counter, Min: 1, Max: 2, Program: ProgPerfEvent, Searched: true, Listed: true, Parameters: true},
	{Kind: Hardware, Aliases: []string{"h"}, Form: Counter, Min: 1, Max: 2, Program: ProgPerfEvent, Searched: true, Listed: true, Parameters: true},
	{Kind: Watchpoint, Aliases: []string{"w"}, Form: Watch, Min: 3, Max: 3, Program: ProgPerfEvent, Parameters: true},
}

// Types returns the table, which callers must not modify.
func Types() []Type { return types }

// Lookup returns the row of a kind; nil if there is none.
func Lookup(kind string) *Type {
	i := slices.IndexFunc(types, func(t Type) bool { return t.Kind == kind })
	if i < 0 {
		return nil
	}
	return &types[i]
}

// Find returns the row of a kind by its name, ignoring case, or by an alias; nil if there is none.
// The only aliases that differ in case are u (uprobe) and U (usdt).
func Find(word string) *Type {
	lower := strings.ToLower(word)
	if word == "U" {
		lower = word
	}
	i := slices.IndexFunc(types, func(t Type) bool { return t.Kind == lower || slices.Contains(t.Aliases, lower) })
	if i < 0 {
		return nil
	}
	return &types[i]
}

// Kinds returns the names of all kinds.
func Kinds() []string {
	var names []string
	for i := range types {
		names = append(names, types[i].Kind)
	}
	return names
}

// TypeName returns what the builtin probetype returns.
func (t *Type) TypeName() string {
	if t.Name != "" {
		return t.Name
	}
	return t.Kind
}

// Return reports whether the probe is at the return of a function.
func (t *Type) Return() bool {
	return t.Kind == Fexit || strings.HasSuffix(t.Kind, "retprobe")
}

// RunByLoader reports whether the loader itself runs the programs of a kind, one after the other.
func RunByLoader(kind string) bool {
	t := Lookup(kind)
	return t != nil && t.Runner == Loader
}
