// Package attach finds the places that the programs of an object belong to on
// this host, and attaches them.
//
// It works in two steps, because how a program is loaded depends on where it
// goes: Expand turns attach points, patterns included, into plans; after loading,
// Plan.Attach makes the links. Each provider has a file and a row in the table of
// providers.
package attach

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/loader/host"
	"btc/loader/manifest"
	"btc/loader/report"
)

// Options are the user's wishes that act on attach points.
type Options struct {
	PID    int  // only this process; 0: all
	Child  int  // the process of -c, stopped; 0: none
	Unsafe bool // address kprobes are allowed
}

// Match is one place on this host.
type Match struct {
	Text   string // "kprobe:vfs_read", what the builtin probe shows
	ID     int    // number of the attach point, for programs that use it
	Group  string // tracepoint category; kernel module
	Name   string // function, symbol or event
	Path   string // uprobe: file
	Offset uint64 // kprobe: bytes behind Name; uprobe: offset in the file

	// Of usdt probes:
	Semaphore uint64 // offset in the file of the counter, 0: none
	USDT      []byte // where the arguments lie, see usdt.Encode
	More      bool   // another place of a probe that has been counted
	Place     int    // number of the way in which its arguments lie, from 0, among those of the probe
	SameAs    int    // 1 + index of the match whose program serves this one, too; 0: none
}

// Plan says where one program goes.
type Plan struct {
	Prog    *manifest.Program
	Matches []Match
	// Multi: one link holds all matches; the program must be loaded with
	// AttachType.
	Multi      bool
	AttachType ebpf.AttachType
	// Each: every match needs a program of its own, loaded for the match's Name.
	Each bool
	// OnlyPID: the program must be loaded with a test for this process; 0: all.
	OnlyPID int
	// Virtual programs are run by the loader and attached nowhere.
	Virtual bool
}

// Expansion is the result of Expand.
type Expansion struct {
	Plans    []Plan
	Warnings []string
	// Probes names each attach point by its number.
	Probes map[int]string
}

// provider is how one kind of attach point is expanded and attached.
type provider struct {
	expand func(*expander, *manifest.Program) (Plan, error)
	// attach makes the link of one match, or of all when the plan is Multi.
	attach func(*Plan, *Match, *ebpf.Program, Options, *host.Host) (io.Closer, error)
	// reverse: attached in reverse order of declaration, because the kernel runs
	// the program attached last first.
	reverse bool
	// allPIDs: the kernel does not limit it to a process; the program must.
	allPIDs bool
}

// providers has a row for each kind of the manifest.
var providers map[string]provider

func init() {
	providers = map[string]provider{
		"kprobe":        {expand: expandKprobe, attach: attachKprobe, reverse: true, allPIDs: true},
		"kretprobe":     {expand: expandKprobe, attach: attachKprobe, allPIDs: true},
		"tracepoint":    {expand: expandTracepoint, attach: attachTracepoint, allPIDs: true},
		"rawtracepoint": {expand: expandRawTracepoint, attach: attachRawTracepoint, allPIDs: true},
		"fentry":        {expand: expandTracing, attach: attachTracing, reverse: true, allPIDs: true},
		"fexit":         {expand: expandTracing, attach: attachTracing, reverse: true, allPIDs: true},
		"uprobe":        {expand: expandUprobe, attach: attachUprobe, reverse: true},
		"uretprobe":     {expand: expandUprobe, attach: attachUprobe, reverse: true},
		"profile":       {expand: expandOne, attach: attachProfile},
		"interval":      {expand: expandOne, attach: attachInterval},
		"software":      {expand: expandSoftware, attach: attachCounter},
		"hardware":      {expand: expandHardware, attach: attachCounter},
		"watchpoint":    {expand: expandOne, attach: attachWatchpoint},
		"begin":         {expand: expandVirtual},
		"end":           {expand: expandVirtual},
		"self":          {expand: expandVirtual},
		"usdt":          {expand: expandUSDT, attach: attachUSDT, reverse: true},
		"iter":          {expand: expandIter, attach: attachIter},
	}
}

func expandOne(_ *expander, p *manifest.Program) (Plan, error) {
	return Plan{Matches: []Match{{Text: p.Attach.Text, Name: p.Attach.Name, Offset: p.Attach.Addr}}}, nil
}

func expandVirtual(_ *expander, p *manifest.Program) (Plan, error) {
	return Plan{Virtual: true, Matches: []Match{{Text: p.Attach.Text}}}, nil
}

// missing is the error of an attach point that does not exist here; what happens
// then is the script's choice (missing_probes).
type missing struct{ text string }

func (m *missing) Error() string { return m.text }

// noMatch is the text for a pattern or name that nothing here matches.
func noMatch(kind, what string) error { return &missing{"No matches for " + kind + " " + what + "."} }

// expander holds what several attach points share while they are expanded.
type expander struct {
	host      *host.Host
	opts      Options
	functions []function // traceable kernel functions, read once
	warnings  []*report.Fault
}

// defaultMaxProbes is how many places all patterns together may match, unless
// the environment says otherwise.
const defaultMaxProbes = 1024

func maxProbes() int {
	if n, err := strconv.Atoi(os.Getenv("BPFTRACE_MAX_PROBES")); err == nil && n > 0 {
		return n
	}
	return defaultMaxProbes
}

// Expand finds the places of all programs. Its error is a *report.Fault with
// the attach point's place in the script.
func Expand(h *host.Host, m *manifest.Manifest, opts Options) (*Expansion, error) {
	x := &expander{host: h, opts: opts}
	out := &Expansion{Probes: map[int]string{}}
	total := 0
	for i := range m.Programs {
		p := &m.Programs[i]
		plan, err := x.expand(p)
		var gone *missing
		switch {
		case errors.As(err, &gone) && p.Attach.Missing == "ignore":
			continue
		case errors.As(err, &gone) && p.Attach.Missing == "warn":
			f := &report.Fault{Script: &m.Script, Pos: p.Pos, Text: gone.text + " Skipping."}
			out.Warnings = append(out.Warnings, f.Warning())
			continue
		case err != nil:
			return nil, faultOf(m, p, err)
		}
		plan.Prog = p
		total += len(plan.Matches)
		out.Plans = append(out.Plans, plan)
	}
	if limit := maxProbes(); total > limit {
		return nil, &report.Fault{Script: &m.Script, Text: fmt.Sprintf("Can't attach to %d probes because it exceeds the current limit of %d probes.\nYou can increase the limit through the BPFTRACE_MAX_PROBES environment variable, but BE CAREFUL since a high number of probes attached can cause your system to crash.", total, limit)}
	}
	for _, w := range x.warnings {
		w.Script = &m.Script
		out.Warnings = append(out.Warnings, w.Warning())
	}
	out.number()
	return out, nil
}

// warn notes what is odd about an attach point's place and no reason to stop.
func (x *expander) warn(p *manifest.Program, text string) {
	x.warnings = append(x.warnings, &report.Fault{Pos: p.Pos, Text: text})
}

func (x *expander) expand(p *manifest.Program) (Plan, error) {
	pr := providers[p.Kind]
	if x.opts.PID != 0 && p.Kind == "iter" {
		return Plan{}, fmt.Errorf("-p cannot be honoured: an iterator visits all processes; put a filter such as /ctx.task.tgid == %d/ into the script", x.opts.PID)
	}
	plan, err := pr.expand(x, p)
	if pr.allPIDs {
		plan.OnlyPID = x.opts.PID
	}
	return plan, err
}

func faultOf(m *manifest.Manifest, p *manifest.Program, err error) error {
	f := &report.Fault{Script: &m.Script, Pos: p.Pos, Text: p.Attach.Text + ": " + err.Error(), Cause: err}
	var gone *missing
	if errors.As(err, &gone) {
		f.Text = gone.text
		f.Hint = "if this is expected, set the config key missing_probes to warn"
	}
	return f
}

// placeShift is where the number of a usdt probe's place begins in that of its
// attach point (frontend/build has it, too).
const placeShift = 20

// number gives each match of a program that uses its attach point's number one
// of its own: the first FirstID, the others fresh ones. Matches of the same
// name, of several clauses or patterns, share a number: as keys they are equal.
// The places of a usdt probe differ in the upper bits, for the number finds the
// arguments of the place; the lower ones are what the builtin probe gives.
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
			if _, ok := e.Probes[m.ID]; !ok {
				e.Probes[m.ID] = m.Text
			}
		}
	}
}

// Count is the number of places of all plans, virtual programs included.
func (e *Expansion) Count() (total, attached int) {
	for i := range e.Plans {
		n := e.Plans[i].Places(len(e.Plans[i].Matches))
		total += n
		if !e.Plans[i].Virtual {
			attached += n
		}
	}
	return total, attached
}

// Order gives the plans in the order to attach them: so that programs on one
// place fire in the order of the script.
func (e *Expansion) Order() []*Plan {
	var forward, backward []*Plan
	for i := range e.Plans {
		p := &e.Plans[i]
		switch {
		case p.Virtual:
		case providers[p.Prog.Kind].reverse:
			backward = append([]*Plan{p}, backward...)
		default:
			forward = append(forward, p)
		}
	}
	return append(backward, forward...)
}

// Attach makes the plan's links. progs has a program for each match, all the
// same one when the program does not use the attach point's number. On error
// the links made so far are given too.
func (p *Plan) Attach(progs []*ebpf.Program, opts Options, h *host.Host) ([]io.Closer, error) {
	pr := providers[p.Prog.Kind]
	if p.Multi {
		l, err := pr.attach(p, nil, progs[0], opts, h)
		if err != nil {
			return nil, &Failure{p.Prog.Attach.Text, err}
		}
		return []io.Closer{l}, nil
	}
	// Of the places that a pattern matched, those that cannot be probed after all
	// (some functions are listed and still refused) are left out.
	several := len(p.Matches) > 1
	var links []io.Closer
	var failure *Failure
	for i := range p.Matches {
		if progs[i] == nil { // refused when it was loaded
			continue
		}
		l, err := pr.attach(p, &p.Matches[i], progs[i], opts, h)
		if err != nil {
			failure = &Failure{p.Matches[i].Text, err}
			if !several || outOfRoom(err) {
				return links, failure
			}
			continue
		}
		links = append(links, l)
	}
	if len(links) == 0 && failure != nil {
		return nil, failure
	}
	return links, nil
}

// outOfRoom: an error that all further places would meet too.
func outOfRoom(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EPERM)
}

// Places is the number of attached probes that so many links of a plan stand
// for. The many places of one usdt probe count once.
func (p *Plan) Places(links int) int {
	if p.Multi && links > 0 {
		links = len(p.Matches)
	}
	for i := range p.Matches {
		if p.Matches[i].More && links > 1 {
			links--
		}
	}
	return links
}

// Failure is an attach point that the kernel would not take.
type Failure struct {
	Probe string
	Cause error
}

func (f *Failure) Error() string {
	return "Unable to attach probe: " + f.Probe + ": " + f.Cause.Error()
}
func (f *Failure) Unwrap() error { return f.Cause }

// IsMissing tells whether an error means that the attach point does not exist
// on this host.
func IsMissing(err error) bool {
	var gone *missing
	return errors.As(err, &gone)
}
