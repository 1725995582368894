// SPDX-License-Identifier: Apache-2.0

// Package attach resolves the attach points of an object's programs on this host, and
// attaches them.
//
// It works in two steps, because how a program is loaded depends on where it is attached:
// Expand turns attach points, patterns included, into plans; after loading, Plan.Attach
// makes the links. Each provider has a file and a row in the table of providers.
package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
	"btc/loader/host"
	"btc/loader/report"
	"btc/loader/symbols"
)

// Options are the user's wishes that act on attach points.
type Options struct {
	PID    int  // only this process; 0: all
	Child  int  // the process of -c, stopped; 0: none
	Unsafe bool // address kprobes are allowed, and functions that are not in Functions
	// Functions is a file that names the kernel functions which can be probed, in the
	// form of tracefs' available_filter_functions; "": that file.
	Functions string
	// Mode is "test" or "bench" when those programs are to run instead of those that
	// are attached; "" otherwise.
	Mode string
	// PinDir opens the directory of an iterator's pin, and returns its name there; nil: any path is
	// used as it is.
	PinDir func(path string) (dir *os.File, name string, err error)
	// Stop is closed to stop attaching; nil: never.
	Stop <-chan struct{}
	// Made counts the places that are attached to; nil: nobody looks.
	Made *atomic.Int64
}

func (o *Options) stopped() bool {
	select {
	case <-o.Stop:
		return true
	default:
		return false
	}
}

// wants reports whether programs of a kind have a part in the run.
func (o *Options) wants(kind string) bool {
	t := probe.Lookup(kind)
	switch {
	case t.Runner == probe.OnDemand:
		return kind == o.Mode
	case kind == probe.Begin || kind == probe.End:
		return true
	}
	return o.Mode == ""
}

// Match is one attach site on this host.
type Match struct {
	Text   string // "kprobe:vfs_read", the value of the builtin probe
	ID     int    // number of the attach point, for programs that use it
	Group  string // tracepoint category; kernel module
	Name   string // function, symbol or event
	Path   string // uprobe: file
	Offset uint64 // kprobe: bytes after the start of Name; uprobe: offset in the file

	Several bool // kprobe: several functions have the name, or it is ambiguous without the module

	BPF ebpf.ProgramID // program that the function Name belongs to; 0: the kernel

	// Of usdt probes:
	Semaphore uint64 // offset in the file of the counter, 0: none
	USDT      []byte // locations of the arguments, see usdt.Encode
	More      bool   // another location of a probe that has been counted
	Place     int    // number of the variant of its argument locations, from 0, among those of the probe
	SameAs    int    // 1 + index of the match whose program serves this one, too; 0: none
}

// Plan says where one program is attached. It does not change once Expand has made it.
type Plan struct {
	Prog    *manifest.Program
	Matches []Match
	// Strategy is how the matches are loaded and linked.
	Strategy   Strategy
	AttachType ebpf.AttachType // of Multi
	Direction  string          // of SharedRaw: sys_enter, sys_exit
	// OnlyPID: the program must be loaded with a test for this process; 0: all.
	OnlyPID int
}

// Expansion is the result of Expand.
type Expansion struct {
	Plans    []Plan
	Warnings []string
	// Probes names each attach point by its number.
	Probes map[int]string

	files *symbols.Files
}

// Address is where a symbol of a file is, see symbols.Files.
func (e *Expansion) Address(path, symbol string, offset uint64) (*symbols.Address, error) {
	if e.files == nil { // an expansion that Expand has not made
		e.files = symbols.NewFiles(func(string) {})
	}
	return e.files.Address(path, symbol, offset)
}

// Close stops the helper process that reads files for Expand; the plans stay valid. A nil
// Expansion has none.
func (e *Expansion) Close() {
	if e != nil {
		e.files.Close()
	}
}

// provider is how one kind of attach point is expanded and attached.
type provider struct {
	expand func(*expander, *manifest.Program) (Plan, error)
	// attach makes the link of one match.
	attach func(*Plan, *Match, *ebpf.Program, Options, *host.Host) (io.Closer, error)
	// reverse: attached in reverse order of declaration, because the kernel runs
	// the program attached last first.
	reverse bool
	// allPIDs: the kernel does not limit it to a process; the program must.
	allPIDs bool
	// list finds the attach points of this host that fit the parts of a pattern; nil: they cannot
	// be listed.
	list func(x *expander, kind string, parts []string) ([]string, error)
}

// providers has a row for each kind of the manifest.
var providers map[string]provider

func init() {
	providers = map[string]provider{
		probe.Kprobe: {
			expand:  expandKprobe,
			attach:  attachKprobe,
			reverse: true,
			allPIDs: true,
			list:    listFunctions,
		},
		probe.Kretprobe:  {expand: expandKprobe, attach: attachKprobe, allPIDs: true, list: listFunctions},
		probe.Tracepoint: {expand: expandTracepoint, attach: attachTracepoint, allPIDs: true, list: listExpanded},
		probe.RawTracepoint: {
			expand:  expandRawTracepoint,
			attach:  attachRawTracepoint,
			allPIDs: true,
			list:    listExpanded,
		},
		probe.Fentry: {
			expand:  expandTracing,
			attach:  attachTracing,
			reverse: true,
			allPIDs: true,
			list:    listExpanded,
		},
		probe.Fexit: {
			expand:  expandTracing,
			attach:  attachTracing,
			reverse: true,
			allPIDs: true,
			list:    listExpanded,
		},
		probe.Uprobe:     {expand: expandUprobe, attach: attachUprobe, reverse: true, list: listExpanded},
		probe.Uretprobe:  {expand: expandUprobe, attach: attachUprobe, reverse: true, list: listExpanded},
		probe.Profile:    {expand: expandOne, attach: attachProfile, list: listTimers},
		probe.Interval:   {expand: expandOne, attach: attachInterval, list: listTimers},
		probe.Software:   {expand: expandCounter, attach: attachCounter, list: listCounters},
		probe.Hardware:   {expand: expandCounter, attach: attachCounter, list: listCounters},
		probe.Watchpoint: {expand: expandOne, attach: attachWatchpoint},
		probe.Begin:      {expand: expandVirtual},
		probe.End:        {expand: expandVirtual},
		probe.Self:       {expand: expandVirtual, list: listSelf},
		probe.Test:       {expand: expandVirtual},
		probe.Bench:      {expand: expandVirtual},
		probe.USDT:       {expand: expandUSDT, attach: attachUprobe, reverse: true, list: listExpanded},
		probe.Iter:       {expand: expandIter, attach: attachIter, list: listIterators},
	}
}

func expandOne(_ *expander, p *manifest.Program) (Plan, error) {
	return Plan{Matches: []Match{{Text: p.Attach.Text, Name: p.Attach.Name, Offset: p.Attach.Addr}}}, nil
}

func expandVirtual(_ *expander, p *manifest.Program) (Plan, error) {
	return Plan{Strategy: Virtual, Matches: []Match{{Text: p.Attach.Text}}}, nil
}

// missing is the error of an attach point that does not exist here; the script's
// missing_probes decides what follows.
type missing struct {
	text    string
	pattern bool   // a pattern that nothing matches
	why     string // more about it, or ""
}

// foreign is a missing point that this architecture cannot have and another one
// has: for a script that runs on both it is not a mistake, so it is only warned of.
type foreign struct{ *missing }

func (f *foreign) Unwrap() error { return f.missing }

func (m *missing) Error() string { return m.text }

// notes are the lines below the attach point in a message.
func (m *missing) notes() []string {
	if m.why == "" {
		return nil
	}
	return []string{m.why}
}

// noMatch is the message for a pattern or name without a match.
func noMatch(kind, what string) error {
	return &missing{text: "No matches for " + kind + " " + what + ".", pattern: probe.IsPattern(what)}
}

// RemovedProbe is the warning of a clause whose attach points are all missing.
const RemovedProbe = "Probe has no valid attach points. It is being removed which may cause issues with program behavior."

// expected is the last part of errors that missing_probes can turn into warnings.
const expected = " If this is expected, set the 'missing_probes' config variable to 'warn'."

// NoAttachPoints is the error of such a clause.
const NoAttachPoints = "Probe has no valid attach points." + expected

// Skipping is the warning of a missing attach point.
func Skipping(text string) string { return strings.TrimSuffix(text, ".") + ". Skipping." }

// empty does what the script wants of clauses without any attach point.
func (x *Expansion) empty(m *manifest.Manifest, clauses adapt.Clauses) error {
	for _, l := range clauses.Empty(m) {
		f := &report.Error{Script: &m.Script, Pos: l.First.Pos, Text: NoAttachPoints, Notes: l.Texts}
		if l.Mode == "warn" {
			f.Text = RemovedProbe
			x.Warnings = append(x.Warnings, f.Warning())
			continue
		}
		if l.First.Attach.Missing == "ignore" { // a member of a pattern, which the compiler expanded
			f.Hint = "the pattern stands for what it matched in Linux " + m.Target +
				", and none of that exists here: compile the script for this kernel (btc compile --target)"
		}
		f.Cause = &missing{text: f.Text}
		return f
	}
	return nil
}

// expander holds what several attach points share while they are expanded.
type expander struct {
	host      *host.Host
	opts      Options
	files     *symbols.Files
	functions []function // traceable kernel functions, read once
	warnings  []*report.Error

	switchedOff bool // the warning that function probes do not run was reported
}

// limit is the value of the settings max_probes, how many attach sites all patterns
// together may match, and max_bpf_progs, how many programs may be loaded.
func limit(m *manifest.Manifest, key string) int {
	if n, err := strconv.Atoi(m.Config.Other[key]); err == nil && n > 0 {
		return n
	}
	return 1024
}

// maxPlaces bounds the matches of all attach points together, whatever max_probes says: each
// takes memory before anything is loaded.
const maxPlaces = 1 << 18

// maxAbsent is how many missing attach points are reported.
const maxAbsent = 20

// Expand finds the attach sites of all programs. Its error is a *report.Error with the
// attach point's position in the script, or several if attach points are missing.
func Expand(h *host.Host, m *manifest.Manifest, opts Options) (_ *Expansion, err error) {
	x := &expander{host: h, opts: opts}
	x.files = symbols.NewFiles(func(text string) { x.warnings = append(x.warnings, &report.Error{Text: text}) })
	out := &Expansion{Probes: map[int]string{}, files: x.files}
	defer func() {
		if err != nil {
			out.Close()
		}
	}()
	total, programs := 0, 0
	clauses := adapt.Clauses{}
	var absent []error // of missing attach points: all are reported
	for i := range m.Programs {
		p := &m.Programs[i]
		if !opts.wants(p.Kind) {
			continue
		}
		plan, err := x.expand(p)
		var gone *missing
		var elsewhere *foreign
		var failed *Failure
		switch {
		case errors.As(err, &failed) && adapt.Mode(p) != "error":
			if adapt.Mode(p) == "warn" {
				out.Warnings = append(out.Warnings, failed.report(m, p).Warning())
			}
			clauses.Keep(p) // it is there
			continue
		case errors.As(err, &failed):
			return nil, failed.report(m, p)
		}
		if errors.As(err, &gone) {
			switch clauses.Lose(p, gone.text, gone.pattern, errors.As(err, &elsewhere)) {
			case adapt.Warned:
				f := &report.Error{Script: &m.Script, Pos: p.Pos, Text: Skipping(gone.text), Notes: gone.notes()}
				out.Warnings = append(out.Warnings, f.Warning())
				continue
			case adapt.Silently:
				continue
			}
		}
		switch {
		case gone != nil && len(absent) < maxAbsent:
			absent = append(absent, errorOf(m, p, err))
			continue
		case gone != nil:
			continue
		case err != nil:
			return nil, errorOf(m, p, err)
		}
		clauses.Keep(p)
		plan.Prog = p
		x.warnSwitchedOff(p)
		if total += len(plan.Matches); total > maxPlaces {
			return nil, &report.Error{
				Script: &m.Script,
				Pos:    p.Pos,
				Text:   fmt.Sprintf("the attach points up to this one match more than %d attach sites", maxPlaces),
			}
		}
		if programs += plan.NumPrograms(); programs > limit(m, "max_bpf_progs") {
			return nil, &report.Error{
				Script: &m.Script,
				Pos:    p.Pos,
				Text: fmt.Sprintf(
					"Your program is trying to generate more than %d BPF programs, which exceeds the current limit of %d",
					programs,
					limit(m, "max_bpf_progs"),
				),
				Hint: "You can increase the limit through the BPFTRACE_MAX_BPF_PROGS environment variable.",
			}
		}
		out.Plans = append(out.Plans, plan)
	}
	if len(absent) > 0 {
		return nil, errors.Join(absent...)
	}
	if err := out.empty(m, clauses); err != nil {
		return nil, err
	}
	if limit := limit(m, "max_probes"); total > limit {
		return nil, &report.Error{
			Script: &m.Script,
			Text: fmt.Sprintf(
				"Can't attach to %d probes because it exceeds the current limit of %d probes.\nYou can increase the limit through the BPFTRACE_MAX_PROBES environment variable, but BE CAREFUL since a high number of probes attached can cause your system to crash.",
				total,
				limit,
			),
		}
	}
	for _, w := range x.warnings {
		w.Script = &m.Script
		out.Warnings = append(out.Warnings, w.Warning())
	}
	out.number()
	out.Plans = shareSyscalls(out.Plans)
	out.Plans = preferRaw(out.Plans, h)
	return out, nil
}

// warnSwitchedOff warns once when probes of functions would be attached and never run.
func (x *expander) warnSwitchedOff(p *manifest.Program) {
	switch p.Kind {
	case probe.Kprobe, probe.Kretprobe, probe.Fentry, probe.Fexit:
	default:
		return
	}
	b, err := os.ReadFile("/proc/sys/kernel/ftrace_enabled")
	if err != nil || strings.TrimSpace(string(b)) != "0" || x.switchedOff {
		return
	}
	x.switchedOff = true
	x.warn(
		p,
		"kernel.ftrace_enabled is 0 on this machine: probes at the entry of functions do not run until sysctl kernel.ftrace_enabled=1",
	)
}

// warn reports a problem with an attach site that is not an error.
func (x *expander) warn(p *manifest.Program, text string) {
	x.warnings = append(x.warnings, &report.Error{Pos: p.Pos, Text: text})
}

func (x *expander) expand(p *manifest.Program) (Plan, error) {
	pr := providers[p.Kind]
	plan, err := pr.expand(x, p)
	x.choose(p, &plan)
	if pr.allPIDs {
		plan.OnlyPID = x.opts.PID
	}
	return plan, err
}

func errorOf(m *manifest.Manifest, p *manifest.Program, err error) error {
	f := &report.Error{Script: &m.Script, Pos: p.Pos, Text: p.Attach.Text + ": " + err.Error(), Cause: err}
	var gone *missing
	if errors.As(err, &gone) {
		f.Text, f.Notes, f.Hint = gone.text, gone.notes(), missingHint
	}
	return f
}

// placeShift is the bit where the number of a usdt probe's location begins in that of its
// attach point (frontend/irgen has it, too).
const placeShift = 20

// NumPrograms is how many BPF programs a plan is loaded as.
func (p *Plan) NumPrograms() int {
	if p.Strategy == PerMatch || p.Prog.UsesID && p.Strategy != Multi {
		return len(p.Matches)
	}
	return 1
}

// number assigns each match of a program that uses its attach point's number a number:
// FirstID to the first, fresh ones to the others. Matches of the same name, of several
// clauses or patterns, share a number: as keys they are equal. The locations of a usdt
// probe differ in the upper bits, which select the arguments of the location; the lower
// ones are the value of the builtin probe.
func (e *Expansion) number() {
	next, numbers := 0, map[string]int{}
	for i := range e.Plans {
		next = max(next, e.Plans[i].Prog.FirstID+1)
	}
	for i := range e.Plans {
		p := &e.Plans[i]
		for j := range p.Matches {
			m := &p.Matches[j]
			shared, named := numbers[m.Text]
			m.ID = p.Prog.FirstID
			switch {
			case m.SameAs > 0:
				m.ID = p.Matches[m.SameAs-1].ID
			case p.Prog.UsesID && named:
				m.ID = shared | m.Place<<placeShift
			case p.Prog.UsesID && j > 0:
				m.ID = next
				next++
			}
			if !named && p.Prog.UsesID {
				numbers[m.Text] = m.ID
			}
			for _, id := range []int{m.ID, p.Prog.FirstID} { // func has the latter, whatever match shares a number
				if _, ok := e.Probes[id]; !ok {
					e.Probes[id] = m.Text
				}
			}
		}
	}
}

// Count is the number of attach sites of all plans, virtual programs included.
func (e *Expansion) Count() (total, attached int) {
	for i := range e.Plans {
		n := e.Plans[i].Places(len(e.Plans[i].Matches))
		total += n
		if e.Plans[i].Strategy != Virtual {
			attached += n
		}
	}
	return total, attached
}

// Order returns the indices of the plans in the order to attach them: so that programs on one
// attach site fire in script order.
func (e *Expansion) Order() []int {
	var forward, backward []int
	for i := range e.Plans {
		p := &e.Plans[i]
		switch {
		case p.Strategy == Virtual:
		case providers[p.Prog.Kind].reverse:
			backward = append([]int{i}, backward...)
		default:
			forward = append(forward, i)
		}
	}
	return append(backward, forward...)
}

// Programs are the loaded programs of a plan.
type Programs struct {
	// Strategy is that of the plan, or the one that the kernel accepted instead.
	Strategy Strategy
	// Of has a program for each match, the same one for several if they share it; nil for one
	// that the kernel refused.
	Of []*ebpf.Program
}

// Attached is the result of Attach.
type Attached struct {
	Links   []io.Closer
	Refused []string // functions of a link of many that the kernel did not accept
	places  int
}

// Attach makes the plan's links. On error it also returns the links made so far.
func (p *Plan) Attach(progs Programs, opts Options, h *host.Host) (Attached, error) {
	out := Attached{places: len(p.Matches)}
	pr := providers[p.Prog.Kind]
	if progs.Strategy == Multi || progs.Strategy == SharedRaw {
		l, refused, err := p.attachOnce(progs, opts)
		if err != nil {
			return out, &Failure{p.Prog.Attach.Text, explain(p.Prog.Kind, err)}
		}
		out.Links, out.Refused = []io.Closer{l}, refused
		out.places -= len(refused)
		return out, nil
	}
	// Attach sites of a pattern that turn out not to be probeable (some functions are
	// listed and still refused) are skipped.
	several := len(p.Matches) > 1
	var failure *Failure
	for i := range p.Matches {
		if opts.stopped() {
			break
		}
		if progs.Of[i] == nil { // refused when it was loaded
			continue
		}
		attach := pr.attach
		if progs.Strategy == Raw {
			attach = attachRawTracepoint
		}
		l, err := attach(p, &p.Matches[i], progs.Of[i], opts, h)
		if err != nil {
			failure = &Failure{p.Matches[i].Text, explain(p.Prog.Kind, err)}
			if !several || outOfRoom(err) {
				break
			}
			continue
		}
		out.Links = append(out.Links, l)
		if opts.Made != nil {
			opts.Made.Add(1)
		}
	}
	out.places = len(out.Links)
	if failure != nil && (len(out.Links) == 0 || !several || outOfRoom(failure.Cause)) {
		return out, failure
	}
	return out, nil
}

// attachOnce makes the one link that holds all matches.
func (p *Plan) attachOnce(progs Programs, opts Options) (l io.Closer, refused []string, err error) {
	switch {
	case progs.Strategy == SharedRaw:
		l, err = linkRaw(p.Direction, progs.Of[0])
		return l, nil, err
	case p.AttachType == ebpf.AttachTraceKprobeMulti:
		return attachKprobeMulti(p, progs.Of[0])
	}
	return attachMulti(p, progs.Of[0], opts)
}

// explain adds the missing capabilities to a refusal for lack of privileges.
func explain(kind string, err error) error {
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return err
	}
	needs := []string{"CAP_BPF", "CAP_PERFMON"}
	switch kind {
	case probe.Uprobe, probe.Uretprobe, probe.USDT:
		needs = append(needs, "CAP_SYS_ADMIN") // perf_uprobe_event_init
	case probe.Tracepoint:
		needs = append(needs, "CAP_DAC_READ_SEARCH") // the id's file in tracefs
	case probe.Watchpoint:
		needs = append(needs, "CAP_SYS_ADMIN") // addresses of the kernel: hw_breakpoint_parse
	}
	return fmt.Errorf("%w (%s)", err, host.WhyNot(needs...))
}

// outOfRoom: an error that all further attach sites would meet too.
func outOfRoom(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) ||
		errors.Is(err, unix.EPERM) ||
		errors.Is(err, unix.EACCES)
}

// Places is the number of probes for n matches of a plan. The many locations of one usdt
// probe count once.
func (p *Plan) Places(links int) int {
	for i := range p.Matches {
		if p.Matches[i].More && links > 1 {
			links--
		}
	}
	return links
}

// Probes is how many probes of the plan are attached.
func (p *Plan) Probes(a Attached) int { return p.Places(a.places) }

// IsMissing reports whether an error means that the attach point does not exist
// on this host.
func IsMissing(err error) bool {
	var gone *missing
	return errors.As(err, &gone)
}
