// SPDX-License-Identifier: Apache-2.0

// Package permit derives what an object can do to the host besides observing it, and checks it against the operator's
// permissions.
//
// It takes an object and returns its actions, derived from what the kernel and the loader would execute: helper calls
// of programs, kinds of events, attach points. It does not trust the list of unsafe functions in the manifest, which
// it uses only for positions.
package permit

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/diag"
	"btc/loader/object"
	"btc/loader/resolve"
	"btc/loader/rewrite"
)

// Action is something that an object does and that needs a permission.
type Action struct {
	Permission Permission
	What       string // for lists: "sends signals"
	Name       string // name of the function in the language, or ""
	Path       string // Files, Pins: absolute
	Pos        manifest.Pos
	// OnHost means that the files of the host decide whether the permission is needed: package sites asks for it.
	OnHost bool
}

// helperUse describes a helper that is not in safe.
var helperUse = map[asm.BuiltinFunc]struct {
	permission Permission
	what       string
	names      []string // functions of the language that call it
}{
	asm.FnProbeWriteUser:   {WriteUser, "writes memory of processes", []string{"write_user"}},
	asm.FnOverrideReturn:   {Override, "changes results of kernel functions", []string{"override"}},
	asm.FnSendSignal:       {Signal, "sends signals", []string{"signal"}},
	asm.FnSendSignalThread: {Signal, "sends signals", []string{"signal_thread"}},
	// The kernel switches the event bpf_trace:bpf_trace_printk on at the first call, and leaves it on.
	asm.FnTracePrintk: {TracePrintk, "writes to the kernel's trace buffer: debugf()", nil},
}

// safe are the helpers that the compiler calls and that only read, or write only to the object's own maps. A test
// compares them with the compiler.
var safe = []asm.BuiltinFunc{
	asm.FnMapLookupElem, asm.FnMapUpdateElem, asm.FnMapDeleteElem, asm.FnMapLookupPercpuElem, asm.FnForEachMapElem,
	asm.FnProbeReadUser, asm.FnProbeReadKernel, asm.FnProbeReadUserStr, asm.FnProbeReadKernelStr,
	asm.FnKtimeGetNs, asm.FnKtimeGetBootNs, asm.FnKtimeGetTaiNs, asm.FnJiffies64, asm.FnGetPrandomU32,
	asm.FnGetSmpProcessorId, asm.FnGetNumaNodeId, asm.FnGetCurrentPidTgid, asm.FnGetNsCurrentPidTgid,
	asm.FnGetCurrentUidGid, asm.FnGetCurrentComm,
	asm.FnGetCurrentTask, asm.FnGetCurrentTaskBtf, asm.FnTaskPtRegs, asm.FnGetCurrentCgroupId, asm.FnGetSocketCookie,
	asm.FnGetStack, asm.FnGetFuncIp, asm.FnDPath,
	asm.FnSkbOutput, asm.FnRingbufOutput, asm.FnRingbufReserve, asm.FnRingbufSubmit,
	asm.FnSeqPrintf, asm.FnSeqWrite, asm.FnLoop,
}

// Classified reports whether a helper is known to be safe, or the permission that covers it.
func Classified(f asm.BuiltinFunc) (p Permission, known bool) {
	use, dangerous := helperUse[f]
	return use.permission, dangerous || slices.Contains(safe, f)
}

// Actions lists the actions of an object that need a permission, in the order of its programs and events. The
// parameters of attach points must be substituted, see sites.Substitute.
func Actions(o *object.Object) []Action {
	var all []Action
	for i := range o.Manifest.Programs {
		p := &o.Manifest.Programs[i]
		all = append(all, ofAttach(p)...)
		all = append(all, ofCode(o, p)...)
	}
	for i := range o.Manifest.Events {
		all = append(all, ofEvent(&o.Manifest.Events[i])...)
	}
	return all
}

func ofAttach(p *manifest.Program) []Action {
	switch {
	case (p.Kind == probe.Kprobe || p.Kind == probe.Kretprobe) && p.Attach.Name == "":
		return []Action{
			{Permission: ProbeAddress, What: "probes the kernel at an address: " + p.Attach.Attaches(p.Kind), Pos: p.Pos},
		}
	case (p.Kind == probe.Uprobe || p.Kind == probe.Uretprobe) && mayBeAddress(&p.Attach):
		what := "probes a program at an address or offset, if its file does not prove that an instruction begins there: "
		return []Action{{Permission: ProbeAddress, What: what + p.Attach.Attaches(p.Kind), Pos: p.Pos, OnHost: true}}
	case resolve.PinPath(p) != "":
		path := absolute(resolve.PinPath(p))
		return []Action{{Permission: Pins, What: "pins an iterator at " + path, Path: path, Pos: p.Pos}}
	}
	return nil
}

// mayBeAddress reports whether a uprobe is at an address or an offset in a function, as far as its parameters are
// known.
func mayBeAddress(a *manifest.Attach) bool {
	if n := len(a.Substitute); n > 0 {
		return strings.ContainsAny(a.Substitute[n-1], "$+") || strings.HasPrefix(a.Substitute[n-1], "0")
	}
	return a.Name == "" || a.Offset > 0
}

// ofCode adds the actions of each call in a program, subprograms included.
func ofCode(o *object.Object, p *manifest.Program) []Action {
	var all []Action
	seen := map[string]bool{}
	add := func(a Action) {
		if !seen[a.What] {
			seen[a.What] = true
			all = append(all, a)
		}
	}
	spec := o.Spec.Programs[p.Name]
	if _, err := rewrite.FindLoops(spec.Instructions, o.Spec.Maps); err != nil {
		add(Action{Permission: LongLoops, What: err.Error(), Pos: p.Pos})
	}
	for i := range spec.Instructions {
		ins := &spec.Instructions[i]
		if !emitted(ins) {
			add(Action{What: "has an instruction of an unknown kind: opcode " + strconv.FormatUint(uint64(ins.OpCode), 16),
				Pos: p.Pos})
			continue
		}
		switch {
		case ins.IsKfuncCall():
			add(Action{What: "calls the kernel function " + kfuncName(ins), Pos: p.Pos})
		case ins.IsBuiltinCall():
			helper := asm.BuiltinFunc(ins.Constant)
			if slices.Contains(safe, helper) {
				continue
			}
			use, known := helperUse[helper]
			if !known {
				add(Action{What: "calls the helper " + object.HelperName(helper), Pos: p.Pos})
				continue
			}
			a := Action{Permission: use.permission, What: use.what, Pos: p.Pos}
			if len(use.names) > 0 {
				a.Name = use.names[0]
			}
			if at := documented(o.Manifest, use.names); at != nil {
				a.Name, a.Pos = at.Name, at.Pos
			}
			add(a)
		case ins.OpCode.JumpOp() == asm.Call && !ins.IsFunctionCall():
			add(Action{What: "makes a call of an unknown kind", Pos: p.Pos})
		}
	}
	return all
}

// kfuncName returns the name of the kernel function that an instruction calls.
func kfuncName(ins *asm.Instruction) string {
	if name := ins.Reference(); name != "" {
		return name
	}
	return fmt.Sprintf("with BTF ID %d", ins.Constant)
}

// documented returns the position in the manifest of a function of the language.
func documented(m *manifest.Manifest, names []string) *manifest.Unsafe {
	for i := range m.Unsafe {
		if slices.Contains(names, m.Unsafe[i].Name) {
			return &m.Unsafe[i]
		}
	}
	return nil
}

func ofEvent(e *manifest.Event) []Action {
	switch e.Kind {
	case "system":
		return []Action{
			{Permission: System, What: fmt.Sprintf("runs the shell command %q", e.Format), Name: "system", Pos: e.Pos},
		}
	case "skboutput":
		if e.FormatFrom != "" { // --inspect, without values
			return []Action{{Permission: Files, What: "writes packets to the file of a parameter", Pos: e.Pos}}
		}
		path := absolute(e.Format)
		return []Action{{Permission: Files, What: "writes packets to " + path, Path: path, Pos: e.Pos}}
	}
	return nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path)
}

// Grants are the permissions that the operator grants.
type Grants struct {
	All   bool // --unsafe
	given map[Permission][]string
	// limit is what the host's policy permits, which limitAt names; nil: all.
	limit   *Grants
	limitAt string
}

// Limit bounds what can be granted by what a policy permits. at is the file and line that says
// so. More than that is an error, and so is a later grant of it.
func (g *Grants) Limit(by *Grants, at string) error {
	g.limit, g.limitAt = by, at
	if g.All && !by.All {
		return LimitedAt(at, "--unsafe"+notHere+g.limitedTo())
	}
	for _, p := range All {
		for _, path := range g.given[p.Name] {
			if _, ok := by.Root(&Action{Permission: p.Name, Path: path}); by.All || ok && p.Path ||
				!p.Path && by.Has(p.Name) {
				continue
			}
			text := string(p.Name)
			if p.Path {
				text += "=" + path
			}
			return LimitedAt(at, "--allow "+text+notHere+g.limitedTo())
		}
	}
	return nil
}

// Limited is the error for what the policy of this host does not permit.
type Limited struct {
	At   string    // file and line of the setting
	Text string    // "" for the cause of a diag.Error
	_    [0]func() // not comparable, so that btrun has no code that compares it
}

func (l *Limited) Error() string { return l.Text }

// LimitedAt returns a Limited.
func LimitedAt(at, text string) error { return &Limited{At: at, Text: text} }

const notHere = " is not permitted on this host: "

// limitedTo says what the policy permits.
func (g *Grants) limitedTo() string { return g.limitAt + " permits " + g.limit.String() }

// String lists what is granted, such as "signal, files=/tmp", or "nothing".
func (g *Grants) String() string {
	var all []string
	if g.All {
		all = append(all, string(Unsafe))
	}
	for _, p := range All {
		for _, path := range g.given[p.Name] {
			if text := string(p.Name); p.Path {
				all = append(all, text+"="+path)
			} else {
				all = append(all, text)
			}
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(slices.Compact(all), ", ")
}

// Allow grants a permission: "system", or "files=DIR".
func (g *Grants) Allow(text string) error {
	name, path, hasPath := strings.Cut(text, "=")
	for _, p := range All {
		if p.Name != Permission(name) {
			continue
		}
		switch {
		case p.Path && path == "":
			return fmt.Errorf("--allow %s needs a directory: --allow %s=DIR", name, name)
		case !p.Path && hasPath:
			return fmt.Errorf("--allow %s does not take a value", name)
		}
		if g.given == nil {
			g.given = map[Permission][]string{}
		}
		if p.Path {
			path = absolute(path)
		}
		g.given[p.Name] = append(g.given[p.Name], path)
		return nil
	}
	var names []string
	for _, p := range All {
		names = append(names, string(p.Name))
	}
	return fmt.Errorf("--allow: unknown permission %q (known: %s)", name, strings.Join(names, ", "))
}

// Has reports whether a permission without a path was granted.
func (g *Grants) Has(p Permission) bool { return g.All || len(g.given[p]) > 0 }

// Covers reports whether the operator allows an action.
func (g *Grants) Covers(a *Action) bool { return g.grants(a) && (g.limit == nil || g.limit.grants(a)) }

// grants reports whether an action is granted, whatever the policy permits.
func (g *Grants) grants(a *Action) bool {
	if g.All {
		return true
	}
	if a.Path == "" {
		return a.Permission != none && len(g.given[a.Permission]) > 0
	}
	_, ok := g.root(a)
	return ok
}

// Root returns the directory that the operator allowed for an action's file: the file must be opened
// below it. For a file that was allowed itself, and for any file with --unsafe, it is the file's
// own directory. If a policy names directories, it is one of those, because directories below it
// may belong to other users.
func (g *Grants) Root(a *Action) (dir string, ok bool) {
	if g.limit != nil && !g.limit.All {
		if !g.grants(a) {
			return "", false
		}
		return g.limit.root(a)
	}
	return g.root(a)
}

// root is Root without the limits of the policy.
func (g *Grants) root(a *Action) (dir string, ok bool) {
	for _, root := range g.given[a.Permission] {
		if root == a.Path {
			return filepath.Dir(a.Path), true
		}
		if rel, err := filepath.Rel(root, a.Path); err == nil && filepath.IsLocal(rel) {
			return root, true
		}
	}
	return filepath.Dir(a.Path), g.All
}

// Check returns an error if an object does something that the operator does not allow. Its error is a
// *diag.Error that names the first such clause of the script.
func (g *Grants) Check(o *object.Object) error {
	for _, a := range Actions(o) {
		if !a.OnHost && !g.Covers(&a) {
			f := refusal(&o.Manifest.Script, &a)
			if g.limit != nil && !g.limit.grants(&a) {
				f.Hint = "no option allows it on this host: " + g.limitedTo()
				f.Cause = LimitedAt(g.limitAt, "")
			}
			return f
		}
	}
	return nil
}

// Refused is the cause of an error for an action that the operator does not allow.
type Refused struct{ *Action }

func (r Refused) Error() string { return r.What }

func refusal(script *manifest.Script, a *Action) *diag.Error {
	f := &diag.Error{Script: script, Pos: a.Pos, Cause: Refused{a}}
	switch {
	case a.Permission == ProbeAddress:
		f.Text = "Probing by address requires --unsafe"
	case a.Name != "":
		f.Text = a.Name + "() is unsafe. To use you need the --unsafe flag"
	default:
		f.Text = "not allowed: the object " + a.What
	}
	switch {
	case a.Permission == none:
		f.Hint = "btc does not generate such objects; --unsafe loads it anyway"
	case a.Path != "":
		f.Hint = fmt.Sprintf("allow it with --allow %s=%s, or everything with --unsafe", a.Permission,
			filepath.Dir(a.Path))
	default:
		f.Hint = fmt.Sprintf("allow it with --allow %s, or everything with --unsafe", a.Permission)
	}
	return f
}

// Written lists what a script allows by itself: the files that an object writes and the pins that it creates, as written
// in the script, and debugf(). Someone who runs the script itself could have read them there.
func Written(m *manifest.Manifest) []string {
	var all []string
	for i := range m.Programs {
		for _, a := range ofAttach(&m.Programs[i]) {
			if a.Permission == Pins {
				all = append(all, string(Pins)+"="+a.Path)
			}
		}
	}
	for i := range m.Events {
		for _, a := range ofEvent(&m.Events[i]) {
			if a.Permission == Files {
				all = append(all, string(Files)+"="+a.Path)
			}
		}
	}
	if strings.Contains(m.Script.Source, "debugf(") {
		all = append(all, string(TracePrintk))
	}
	return slices.Compact(all)
}

// Calls lists the helpers and kernel functions that the programs of an object call.
func Calls(spec *ebpf.CollectionSpec) (helpers, kfuncs []string) {
	helpers, kfuncs = []string{}, []string{}
	for _, p := range spec.Programs {
		for i := range p.Instructions {
			switch ins := &p.Instructions[i]; {
			case ins.IsKfuncCall():
				kfuncs = append(kfuncs, kfuncName(ins))
			case ins.IsBuiltinCall():
				helpers = append(helpers, object.HelperName(asm.BuiltinFunc(ins.Constant)))
			}
		}
	}
	slices.Sort(helpers)
	slices.Sort(kfuncs)
	return slices.Compact(helpers), slices.Compact(kfuncs)
}
