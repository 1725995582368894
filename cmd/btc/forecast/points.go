// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/ir/kernel"
	"btc/loader/adapt"
	"btc/loader/hostinfo"
)

// point is the target's view of an attach point.
type point struct {
	verdict Verdict
	sites   int
	text    string // the reason, unless it is ok
	// absent: the kernel has no such probe, as text says; the script's policy decides.
	absent, pattern, foreign bool
}

func (c *checker) point(p *manifest.Program) point {
	a := &p.Attach
	if len(a.Fill) > 0 {
		return point{
			verdict: Unknown,
			text:    fmt.Sprintf("where %s attaches depends on the parameters given to the loader", a.Text),
		}
	}
	switch p.Kind {
	case probe.Begin, probe.End, probe.Self, probe.Test, probe.Bench, probe.Interval, probe.Profile, probe.Software:
		return point{verdict: OK, sites: 1}
	case probe.Hardware, probe.Watchpoint:
		return point{verdict: Unknown, text: fmt.Sprintf("%s depends on the host's processor", a.Text)}
	case probe.Uprobe, probe.Uretprobe, probe.USDT:
		return point{verdict: Unknown, text: fmt.Sprintf("%s depends on the host's files", a.Text)}
	case probe.Kprobe, probe.Kretprobe:
		return c.kprobe(a)
	case probe.Fentry, probe.Fexit:
		return c.fentry(p)
	case probe.Tracepoint:
		n := len(c.t.Tracepoints(a.Target, a.Name))
		if n == 0 && a.Target == "syscalls" && c.t.Arch().ForeignSyscall(a.Name) {
			return point{
				absent:  true,
				foreign: true,
				text:    fmt.Sprintf("machines of the architecture %s have no %s", c.t.Arch().Label, a.Text),
			}
		}
		if n == 1 && c.moduleEvent(a) {
			return point{
				verdict: Unknown,
				sites:   n,
				text:    fmt.Sprintf("%s exists only while its module is loaded", a.Text),
			}
		}
		return c.counted(a, "tracepoint "+a.Target+":"+a.Name, n)
	case probe.RawTracepoint:
		return c.rawTracepoint(p)
	case probe.Iter:
		if _, ok := c.t.Iter(a.Name); !ok && a.Name != "" {
			return c.missing(a, "iterator "+a.Name)
		}
		return point{verdict: OK, sites: 1}
	}
	return point{verdict: Unknown, text: fmt.Sprintf("nothing is known about probes of kind %s", p.Kind)}
}

// moduleEvent reports whether an event is that of a module.
func (c *checker) moduleEvent(a *manifest.Attach) bool {
	ev, ok := c.t.Tracepoint(a.Target, a.Name)
	if !ok || ev.Struct() == nil {
		return false
	}
	return ev.Struct().InModule
}

// format is the target's format file of an event.
func (c *checker) format(category, event string) (*hostinfo.Format, error) {
	ev, ok := c.t.Tracepoint(category, event)
	if !ok {
		return nil, fs.ErrNotExist
	}
	format := &hostinfo.Format{Name: event}
	for _, f := range ev.Fields {
		format.Fields = append(
			format.Fields,
			hostinfo.FormatField{Name: f.Name, CType: f.CType, Offset: f.Offset, Size: f.Size, Signed: f.Signed},
		)
	}
	return format, nil
}

// events are the tracepoints that the loader would attach a program to.
func (c *checker) events(p *manifest.Program) []adapt.Event {
	var all []adapt.Event
	if p.Kind == probe.Tracepoint {
		for _, name := range c.t.Tracepoints(p.Attach.Target, p.Attach.Name) {
			category, event, _ := strings.Cut(name, ":")
			all = append(all, adapt.Event{Group: category, Name: event})
		}
	}
	return all
}

func (c *checker) missing(a *manifest.Attach, what string) point {
	return point{
		absent:  true,
		pattern: probe.IsPattern(a.Target + a.Name),
		text:    fmt.Sprintf("this kernel has no %s", what),
	}
}

// decide applies the loader's rules to programs whose attach points are absent: a clause
// that has another attach point runs without them.
func (c *checker) decide(points []point) {
	clauses := adapt.Clauses{}
	absence := make([]adapt.Absence, len(points))
	for i := range points {
		if p := &c.m.Programs[i]; points[i].absent {
			absence[i] = clauses.Lose(p, points[i].text, points[i].pattern, points[i].foreign)
		} else {
			clauses.Keep(p)
		}
	}
	lost := map[int]bool{}
	for _, l := range clauses.Empty(c.m) {
		lost[l.First.Clause] = l.Mode == "error"
	}
	for i := range points {
		p, pt := &c.m.Programs[i], &points[i]
		switch {
		case !pt.absent:
		case absence[i] == adapt.Fatal || lost[p.Clause]:
			pt.verdict = Fails
		case pt.foreign || adapt.Mode(p) == "error":
			pt.verdict, pt.text = Skipped, pt.text+": the script runs without it"
		default:
			pt.verdict, pt.text = Skipped, pt.text+": the script runs without it (missing_probes)"
		}
	}
}

func (c *checker) counted(a *manifest.Attach, what string, n int) point {
	if n == 0 {
		return c.missing(a, what)
	}
	return point{verdict: OK, sites: n}
}

// ofSyscalls is an attach point with the name that the target's architecture has
// for a system call's function; the loader does the same on the host.
func (c *checker) ofSyscalls(a *manifest.Attach) *manifest.Attach {
	here := *a
	here.Name = c.t.Arch().SyscallFunc(a.Name)
	return &here
}

func (c *checker) kprobe(a *manifest.Attach) point {
	a = c.ofSyscalls(a)
	if a.Name == "" {
		return point{verdict: Unknown, text: fmt.Sprintf("%s depends on the address of the host's kernel", a.Text)}
	}
	if len(c.t.Funcs("vfs_read")) == 0 && len(c.t.Funcs("do_*")) == 0 {
		return c.missing(
			a,
			"function that can be probed: it was built without kprobes, or the target was captured without tracefs",
		)
	}
	n, own, inModules := 0, 0, ""
	for _, name := range c.t.Funcs(a.Name) {
		f, ok := c.t.Func(name)
		if a.Target != "" && a.Target != "vmlinux" && !(ok && f.Module != "" && probe.Glob(a.Target, f.Module)) {
			continue
		}
		if n++; ok && f.Module != "" {
			inModules = f.Module
		} else {
			own++
		}
	}
	switch {
	case n == 0 && a.Target != "" && a.Target != "vmlinux" && !probe.IsPattern(a.Target):
		return point{
			verdict: Unknown,
			text: fmt.Sprintf(
				"%s depends on the module %s, of which the target has no such function",
				a.Text,
				a.Target,
			),
		}
	case n == 0:
		return c.missing(a, "function "+a.Name+" that can be probed")
	case own == 0:
		return point{
			verdict: Unknown,
			sites:   n,
			text:    fmt.Sprintf("%s attaches only while the module %s is loaded", a.Text, inModules),
		}
	case a.Offset != 0:
		return point{
			verdict: Unknown,
			sites:   n,
			text:    fmt.Sprintf("%s depends on the instructions of the host's kernel", a.Text),
		}
	}
	return point{verdict: OK, sites: n}
}

func (c *checker) fentry(p *manifest.Program) point {
	a := c.ofSyscalls(&p.Attach)
	if a.Target == "bpf" {
		return point{
			verdict: Unknown,
			text:    fmt.Sprintf("%s depends on the BPF programs that the host has loaded", a.Text),
		}
	}
	// The target's types do not show it.
	if arch, since := c.t.Arch(), c.t.Arch().FentrySince; release(c.t.Release()) < since[0]*1000+since[1] {
		return point{
			verdict: Fails,
			text: fmt.Sprintf(
				"%s: kernels for %s have no fentry before Linux %d.%d",
				a.Text,
				arch.Label,
				since[0],
				since[1],
			),
		}
	}
	if probe.IsPattern(a.Name) {
		return c.counted(a, "function "+a.Name+" that can be traced", len(c.t.Funcs(a.Name)))
	}
	f, ok := c.t.Func(a.Name)
	switch {
	case !ok && a.Target != "" && a.Target != "vmlinux":
		return point{
			verdict: Unknown,
			text: fmt.Sprintf(
				"%s depends on the module %s, of which the target has no such function",
				a.Text,
				a.Target,
			),
		}
	case !ok || !f.Traceable:
		return c.missing(a, "function "+a.Name+" that can be traced")
	case f.Proto == nil:
		return point{
			verdict: Fails,
			text:    fmt.Sprintf("%s: this kernel does not describe the arguments of the function", a.Text),
		}
	}
	if err := sameArgs(p, f.Proto); err != nil {
		return point{verdict: Fails, text: a.Text + ": " + err.Error()}
	}
	if f.Module != "" {
		return point{
			verdict: Unknown,
			sites:   1,
			text:    fmt.Sprintf("%s attaches only while the module %s is loaded", a.Text, f.Module),
		}
	}
	return point{verdict: OK, sites: 1}
}

func (c *checker) rawTracepoint(p *manifest.Program) point {
	a := &p.Attach
	if probe.IsPattern(a.Name) {
		return c.counted(a, "raw tracepoint "+a.Name, len(c.t.RawTracepoints(a.Name)))
	}
	proto, ok := c.t.RawTracepoint(a.Name)
	if !ok {
		return c.missing(a, "raw tracepoint "+a.Name)
	}
	if err := sameArgs(p, proto); err != nil {
		return point{verdict: Fails, text: a.Text + ": " + err.Error()}
	}
	return point{verdict: OK, sites: 1}
}

// sameArgs compares the arguments that a program reads with a prototype.
func sameArgs(p *manifest.Program, proto *kernel.Type) error {
	there := adapt.Prototype{Result: proto.Elem().String()}
	for _, param := range proto.Params {
		t := param.Type()
		there.Params = append(there.Params, adapt.Param{Name: param.Name, Type: t.String(), Size: t.Resolve().Size})
	}
	return adapt.Arguments(p, there)
}

// release is a kernel's version as 1000 times major plus minor.
func release(text string) int {
	major, rest, _ := strings.Cut(text, ".")
	minor := strings.FieldsFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	a, _ := strconv.Atoi(major)
	b := 0
	if len(minor) > 0 {
		b, _ = strconv.Atoi(minor[0])
	}
	return a*1000 + b
}
