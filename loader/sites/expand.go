// SPDX-License-Identifier: Apache-2.0

// Package sites finds where the programs of an object are attached on this host: Expand turns attach points, patterns
// included, into plans, and List lists what can be attached to. It attaches nothing: loading depends on the plans, and
// package attach makes the links. What a kernel has to answer is package resolve's; here are the answers of this host.
package sites

import (
	"errors"
	"os"
	"strings"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/diag"
	"btc/loader/host"
	"btc/loader/resolve"
	"btc/loader/symbols"
)

// Options are the user's options that affect attach sites.
type Options struct {
	// PIDs are the only processes whose events count, with all that they start if Follow is set; none:
	// all. Cgroup means that only the tasks of some cgroups count.
	PIDs   []int
	Follow bool
	Cgroup bool
	// Inside are processes of containers, one each: files of user-space probes are looked up in
	// their root directories; none: in those of PIDs or of this process.
	Inside []int
	Unsafe bool // address kprobes are allowed, and functions that are not in Functions
	// Functions is a file that names the kernel functions which can be probed, in the
	// form of tracefs' available_filter_functions; "": that file.
	Functions string
	// Separate means that clauses are not joined, because the cost of each counts.
	Separate bool
	// NoHelper means that this process parses the files that attach points name.
	NoHelper bool
	// Mode is "test" or "bench" to run those programs instead of attaching the others; "" otherwise.
	Mode string

	pid int // process whose files are looked up
}

// wants reports whether programs of a kind take part in the run.
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

// Expansion is the result of Expand.
type Expansion struct {
	Plans    []resolve.Plan
	Warnings []string
	// Probes maps the number of each attach point to its name.
	Probes map[int]string

	files *symbols.Files
}

// Address returns the location of a symbol in the file of a match, see symbols.Files.
func (e *Expansion) Address(m *resolve.Match, symbol string) (*symbols.Address, error) {
	if e.files == nil { // not created by Expand
		e.files = symbols.NewFiles(symbols.Process, func(string) {})
	}
	file := m.File
	if file == nil {
		var err error
		if file, err = e.files.Open(m.Path); err != nil {
			return nil, err
		}
	}
	return e.files.Address(file, symbol, m.Offset)
}

// Close stops the helper process that reads files for Expand; the plans stay valid. It may be called on nil.
func (e *Expansion) Close() {
	if e != nil {
		e.files.Close()
	}
}

// CloseFiles closes the files of the plans, which must be attached by then. It may be called on nil.
func (e *Expansion) CloseFiles() {
	if e != nil {
		e.files.Release("")
	}
}

// provider is how attach sites of one kind are filtered, ordered and listed.
type provider struct {
	// reverse: attached in reverse order of declaration, because the kernel runs
	// the program attached last first.
	reverse bool
	// filtered: the programs run in the task whose event it is, so that the filters of the run apply.
	filtered bool
	// perProcess: links can be limited to a process.
	perProcess bool
	// list finds the attach points of this host that match the parts of a pattern; nil: they cannot be listed.
	list func(x *expander, kind string, parts []string) ([]string, error)
}

// providers has a row for each kind of the manifest.
var providers map[string]provider

func init() {
	userProbe := provider{reverse: true, filtered: true, perProcess: true, list: listUser}
	providers = map[string]provider{
		probe.Kprobe:        {reverse: true, filtered: true, list: listKernel},
		probe.Kretprobe:     {filtered: true, list: listKernel},
		probe.Tracepoint:    {filtered: true, list: listKernel},
		probe.RawTracepoint: {filtered: true, list: listKernel},
		probe.Fentry:        {reverse: true, filtered: true, list: listKernel},
		probe.Fexit:         {reverse: true, filtered: true, list: listKernel},
		probe.Uprobe:        userProbe,
		probe.Uretprobe:     userProbe,
		probe.USDT:          userProbe,
		probe.Profile:       {filtered: true, perProcess: true, list: listKernel},
		probe.Interval:      {list: listKernel},
		probe.Software:      {filtered: true, perProcess: true, list: listKernel},
		probe.Hardware:      {filtered: true, perProcess: true, list: listKernel},
		probe.Watchpoint:    {filtered: true, perProcess: true},
		probe.Begin:         {},
		probe.End:           {},
		probe.Self:          {list: listKernel},
		probe.Test:          {},
		probe.Bench:         {},
		probe.Iter:          {perProcess: true, list: listKernel},
	}
}

// expander is the state shared by the expansion of all attach points.
type expander struct {
	host      *host.Host
	opts      Options
	files     *symbols.Files
	functions []resolve.Function // traceable kernel functions, read once
	warnings  []*diag.Error

	stripped    string // a file without symbols among those that were last searched
	switchedOff bool   // already warned that function probes do not run
}

// maxAbsent is the maximum number of missing attach points reported.
const maxAbsent = 20

// Expand finds the attach sites of all programs. Its error is a *diag.Error with the
// attach point's position in the script, or several if attach points are missing.
func Expand(h *host.Host, m *manifest.Manifest, opts Options) (_ *Expansion, err error) {
	x := &expander{host: h, opts: opts}
	helper := symbols.Process
	if opts.NoHelper {
		helper = symbols.Here
	}
	x.files = symbols.NewFiles(helper, func(text string) { x.warnings = append(x.warnings, &diag.Error{Text: text}) })
	out := &Expansion{Probes: map[int]string{}, files: x.files}
	defer func() {
		if err != nil {
			out.Close()
			out.CloseFiles()
		}
	}()
	results := resolve.All(x, m, opts.wants)
	if err := out.add(results); err != nil {
		return nil, err
	}
	for i := range out.Plans {
		x.warnSwitchedOff(out.Plans[i].Prog)
		x.filter(&out.Plans[i])
		if p := &out.Plans[i]; p.Cut {
			x.warn(p.Prog, p.CutText())
		}
	}
	for _, w := range x.warnings {
		w.Script = &m.Script
		out.Warnings = append(out.Warnings, w.Warning())
	}
	out.number()
	out.Plans = shareSyscalls(out.Plans)
	out.Plans = preferRaw(out.Plans, h)
	plans, over := resolve.Join(m, out.Plans, opts.Separate)
	if over != nil {
		return nil, over
	}
	out.Plans = plans
	return out, nil
}

// add adds the plans and warnings of results. It returns the first error that is not about a missing attach point,
// else all errors.
func (e *Expansion) add(results *resolve.Results) error {
	var absent []error
	for i := range results.Programs {
		r := &results.Programs[i]
		switch {
		case r.Plan != nil:
			e.Plans = append(e.Plans, *r.Plan)
		case r.Dropped && !r.Silent:
			w := *r.Err
			if resolve.IsMissing(w.Cause) {
				w.Text = resolve.Skipping(w.Text)
			}
			e.Warnings = append(e.Warnings, w.Warning())
		case r.Dropped:
		case !resolve.IsMissing(r.Err):
			return r.Err
		case len(absent) < maxAbsent:
			absent = append(absent, r.Err)
		}
	}
	if len(absent) > 0 {
		return errors.Join(absent...)
	}
	for _, c := range results.Clauses {
		if !c.Warn {
			return c.Error
		}
		e.Warnings = append(e.Warnings, c.Warning())
	}
	if results.Limit != nil {
		return results.Limit
	}
	return nil
}

// warnSwitchedOff warns once if probes of functions would be attached but never run.
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
	x.warn(p,
		"kernel.ftrace_enabled is 0 on this machine: probes at the entry of functions do not run until sysctl kernel.ftrace_enabled=1")
}

// warn reports a problem with an attach site that is not an error.
func (x *expander) warn(p *manifest.Program, text string) {
	x.warnings = append(x.warnings, &diag.Error{Pos: p.Pos, Text: text})
}

// variantShift is the first bit of the number of a usdt probe's location in the number of its attach point (also in
// frontend/irgen).
const variantShift = 20

// number assigns a number to each match of a program that uses the number of its attach point: FirstID to the first,
// new numbers to the others. Matches with the same name, in several clauses or patterns, share a number, so that they
// are equal as keys. The locations of a usdt probe differ in the upper bits, which select the arguments of the
// location; the lower bits are the value of the builtin probe.
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
				m.ID = shared | m.Variant<<variantShift
			case p.Prog.UsesID && j > 0:
				m.ID = next
				next++
			}
			if !named && p.Prog.UsesID {
				numbers[m.Text] = m.ID
			}
			// The builtin func returns the latter, whichever match shares a number.
			for _, id := range []int{m.ID, p.Prog.FirstID} {
				if _, ok := e.Probes[id]; !ok {
					e.Probes[id] = m.Text
				}
			}
		}
	}
}

// Count returns the number of attach sites of all plans, virtual programs included.
func (e *Expansion) Count() (total, attached int) {
	for i := range e.Plans {
		n := e.Plans[i].Probes(len(e.Plans[i].Matches))
		total += n
		if e.Plans[i].Strategy != resolve.Virtual {
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
		case p.Strategy == resolve.Virtual:
		case providers[p.Prog.Kind].reverse:
			backward = append([]int{i}, backward...)
		default:
			forward = append(forward, i)
		}
	}
	return append(backward, forward...)
}
