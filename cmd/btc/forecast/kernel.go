// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"strings"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
	"btc/loader/resolve"
	"btc/targets/kernel"
)

// target implements resolve.Kernel for a target file. What only a host knows is unknown: files,
// processors, and modules that were not loaded when the target was captured.
type target struct {
	*kernel.Target
	functions []resolve.Function
}

// Kernel returns a target's kernel, of which only that is known.
func Kernel(t *kernel.Target) resolve.Kernel { return &target{Target: t} }

// CheckKprobes returns an error if the target lists no functions.
func (t *target) CheckKprobes(p *manifest.Program) error {
	all, _ := t.Functions()
	if len(all) > 0 {
		return nil
	}
	return &resolve.Missing{
		Text:    resolve.NoMatch(p.Kind, p.Attach.Text[len(p.Kind)+1:]).Error(),
		Pattern: probe.IsPattern(p.Attach.Target + p.Attach.Name),
		Why:     "no function can be probed: the kernel has no kprobes, or the target was captured without tracefs",
	}
}

// Loaded returns true, because the host may have loaded any module.
func (t *target) Loaded(string) bool { return true }

// Functions returns the traceable functions of the target.
func (t *target) Functions() ([]resolve.Function, error) {
	if t.functions == nil {
		t.functions = []resolve.Function{}
		for _, f := range t.Traceable() {
			t.functions = append(t.functions, resolve.Function{Name: f.Name, Module: inKernel(f.Module)})
		}
	}
	return t.functions, nil
}

// inKernel returns the module of a function.
func inKernel(module string) string {
	if module == "" {
		return resolve.Vmlinux
	}
	return module
}

// CheckFunction looks for a function among the traceable ones.
func (t *target) CheckFunction(p *manifest.Program) error {
	a := &p.Attach
	f, ok := t.Func(a.Name)
	ok = ok && f.Traceable && (a.Target == "" || a.Target == resolve.Vmlinux || a.Target == f.Module)
	if !ok {
		return resolve.NoMatch(p.Kind, p.Attach.Text[len(p.Kind)+1:])
	}
	return nil
}

// Several returns false: a target lists each name once.
func (t *target) Several(*manifest.Attach) (bool, error) { return false, nil }

// Address returns an error: kernels are loaded at random addresses.
func (t *target) Address(p *manifest.Program) (resolve.Match, error) {
	return resolve.Match{}, unknown("%s depends on the address of the host's kernel", p.Attach.Text)
}

// KprobeMulti reports whether the kernel has the attach type.
func (t *target) KprobeMulti() bool {
	_, _, ok := t.EnumConst("BPF_TRACE_KPROBE_MULTI")
	return ok
}

// Prototype finds a traceable function with types.
func (t *target) Prototype(module, name string) (*adapt.Prototype, error) {
	f, ok := t.Func(name)
	if !ok || !f.Traceable || f.Proto == nil || inKernel(f.Module) != module {
		return nil, nil
	}
	return prototype(f.Proto), nil
}

// Modules returns the modules in which the target has a function with that name.
func (t *target) Modules(name string) ([]string, error) {
	if f, ok := t.Func(name); ok && f.Module != "" {
		return []string{f.Module}, nil
	}
	return nil, nil
}

// RawPrototype finds a raw tracepoint. Targets do not record which raw tracepoints belong to
// modules.
func (t *target) RawPrototype(module, name string) (*adapt.Prototype, error) {
	proto, ok := t.RawTracepoint(name)
	if !ok || module != resolve.Vmlinux {
		return nil, nil
	}
	return prototype(proto), nil
}

// RawTracepoints returns all raw tracepoints of the target.
func (t *target) RawTracepoints(module string) ([]string, error) {
	if module != resolve.Vmlinux {
		return nil, nil
	}
	return t.Target.RawTracepoints("*"), nil
}

// Tracepoint looks up an event.
func (t *target) Tracepoint(group, name string) error {
	switch {
	case len(t.Target.Tracepoints(group, name)) > 0:
		return nil
	case group == "syscalls" && t.Target.Arch().ForeignSyscall(name):
		return &resolve.Missing{
			Text: fmt.Sprintf("%v The architecture %s has no such system call.",
				resolve.NoMatch(probe.Tracepoint, group+":"+name), t.Target.Arch().Label),
			Foreign: true,
		}
	}
	return resolve.NoMatch(probe.Tracepoint, group+":"+name)
}

// Tracepoints returns the events of the target that match.
func (t *target) Tracepoints(group, name string) ([]adapt.Event, error) {
	return events(t.Target.Tracepoints(group, name)), nil
}

// Iterator reports whether the target has a kind of iterator.
func (t *target) Iterator(kind string) (bool, error) {
	_, ok := t.Iter(kind)
	return ok || kind == "", nil
}

// Iterators returns the kinds of the target.
func (t *target) Iterators() ([]string, error) { return t.Iters(), nil }

// Other returns an error that says that the attach point is unknown.
func (t *target) Other(p *manifest.Program) (resolve.Plan, error) {
	what := "processor"
	switch t := probe.Lookup(p.Kind); {
	case t.Space == probe.UserSpace:
		what = "files"
	case strings.HasPrefix(p.Attach.Target, "bpf"):
		what = "BPF programs"
	}
	return resolve.Plan{}, unknown("%s depends on the host's %s", p.Attach.Text, what)
}

// Absent makes an attach point in a named module unknown: the module may be missing from the target
// only.
func (t *target) Absent(p *manifest.Program, err *resolve.Missing) error {
	a := &p.Attach
	switch p.Kind {
	case probe.Kprobe, probe.Kretprobe, probe.Fentry, probe.Fexit, probe.RawTracepoint:
		if a.Target != "" && a.Target != resolve.Vmlinux && !probe.IsPattern(a.Target) {
			return unknown("%s depends on the module %s, which has no such function in the target", a.Text, a.Target)
		}
	}
	return err
}

func unknown(format string, args ...any) error {
	return &resolve.Unknown{Text: fmt.Sprintf(format, args...)}
}

// prototype converts the type of a function to the form that the loader compares.
func prototype(t *kernel.Type) *adapt.Prototype {
	out := &adapt.Prototype{Result: t.Elem().String(), ResultClass: class(t.Elem()), Variadic: t.Variadic}
	if r := t.Elem().Resolve(); r.Kind == kernel.Int || r.Kind == kernel.Enum {
		if out.ResultBits = 8 * r.Size; r.Signed {
			out.ResultBits = -out.ResultBits
		}
	}
	for _, param := range t.Params {
		p := param.Type()
		made := adapt.Param{Name: param.Name, Type: p.String(), Size: p.Resolve().Size, Class: class(p)}
		out.Params = append(out.Params, made)
	}
	return out
}

// class returns how a value of a type is passed, see adapt.Param.
func class(t *kernel.Type) string {
	switch t.Resolve().Kind {
	case kernel.Struct:
		return "struct"
	case kernel.Union:
		return "union"
	case kernel.Float:
		return "float"
	}
	return ""
}

// Arch returns the target's architecture.
func (t *target) Arch() *arch.Arch { return t.Target.Arch() }
