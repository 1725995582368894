// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/cilium/ebpf"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
)

// Vmlinux is the module name of the kernel itself.
const Vmlinux = "vmlinux"

// ErrAmbiguous is the error for a name that several functions with different types have.
var ErrAmbiguous = errors.New("its types are ambiguous")

// here translates the function name of a system call's program to the kernel's architecture. The
// attach point keeps its name in the script.
func here(k Kernel, p *manifest.Program) *manifest.Program {
	name := k.Arch().SyscallFunc(p.Attach.Name)
	if name == p.Attach.Name {
		return p
	}
	there := *p
	there.Attach.Name = name
	return &there
}

// kprobe resolves kprobes and kretprobes: a name matches itself, a pattern the functions that the
// kernel lists as traceable.
func kprobe(k Kernel, p *manifest.Program) (Plan, error) {
	a := &p.Attach
	if a.Target != "" && a.Target != Vmlinux && !probe.IsPattern(a.Target) && !k.Loaded(a.Target) {
		return Plan{}, notLoaded(a)
	}
	if err := k.CheckKprobes(p); err != nil {
		return Plan{}, err
	}
	if a.Name == "" {
		m, err := k.Address(p)
		return Plan{Matches: []Match{m}}, err
	}
	p = here(k, p)
	a = &p.Attach
	plan := Plan{}
	if !probe.IsPattern(a.Name) && !probe.IsPattern(a.Target) {
		if err := k.CheckFunction(p); err != nil {
			return Plan{}, err
		}
		several, err := k.Several(a)
		plan.Matches = []Match{{Text: a.Text, Group: a.Target, Name: a.Name, Offset: a.Offset, Several: several}}
		return plan, err
	}
	functions, err := k.Functions()
	if err != nil {
		return Plan{}, err
	}
	for _, f := range Matching(functions, a) {
		text := p.Kind + ":"
		if a.Target != "" {
			text += f.Module + ":"
		}
		plan.Matches = append(plan.Matches,
			Match{Text: text + f.Name, Group: f.Module, Name: f.Name, Several: f.Several})
	}
	if len(plan.Matches) == 0 {
		return Plan{}, NoMatch(p.Kind, strings.TrimPrefix(a.Target+":"+a.Name, ":"))
	}
	if len(plan.Matches) > 1 && LinksNumber(p) && (!p.UsesID || distinct(plan.Matches)) && k.KprobeMulti() {
		plan.Strategy, plan.AttachType = Multi, ebpf.AttachTraceKprobeMulti
	}
	return plan, nil
}

// distinct reports whether all functions have different names. Multi links find functions by name
// only.
func distinct(matches []Match) bool {
	names := map[string]bool{}
	for i := range matches {
		if names[matches[i].Name] {
			return false
		}
		names[matches[i].Name] = true
	}
	return true
}

// Excluded reports whether patterns do not match a function although the kernel lists it as traceable: markers, and
// functions on which machines have hung. The kernel's own tests of multi-kprobe links exclude the same ones
// (kprobe_multi_test.c). Such functions can be probed by name.
func Excluded(name string) bool {
	switch name {
	case "arch_cpu_idle", "default_idle", "bpf_dispatcher_xdp_func":
		return true
	}
	for _, prefix := range []string{"rcu_", "__ftrace_invalid_address__", "__pfx_", "__cfi_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// tracing finds the functions of a fentry or fexit in the types of the kernel and its modules. The
// kernel fixes the function when the program is loaded, so each match has its own program.
func tracing(k Kernel, p *manifest.Program) (Plan, error) {
	if word, _, _ := strings.Cut(p.Attach.Target, ":"); word == "bpf" {
		return k.Other(p)
	}
	written := p.Attach.Name
	p = here(k, p)
	a := &p.Attach
	if !probe.IsPattern(a.Name) && !probe.IsPattern(a.Target) {
		proto, module, err := traced(k, a)
		if err != nil {
			return Plan{}, err
		}
		if text := adapt.Trampoline(a.Name, proto); text != "" {
			return Plan{}, &Failure{p.Attach.Text, errors.New(text + "; use a kprobe instead")}
		}
		if err := adapt.Arguments(p, *proto); err != nil {
			return Plan{}, err
		}
		plan := Plan{Strategy: PerMatch, Matches: []Match{{Text: inModule(p.Kind, module, written), Group: module, Name: a.Name}}}
		plan.Narrow, plan.Cut = adapt.Narrowed(p, proto)
		return plan, nil
	}
	functions, err := k.Functions()
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Strategy: PerMatch}
	for _, f := range Matching(functions, a) {
		proto, _, err := traced(k, &manifest.Attach{Target: f.Module, Name: f.Name})
		if err != nil || adapt.Trampoline(f.Name, proto) != "" {
			continue
		}
		plan.Matches = append(plan.Matches,
			Match{Text: inModule(p.Kind, f.Module, f.Name), Group: f.Module, Name: f.Name})
	}
	if len(plan.Matches) == 0 {
		return Plan{}, NoMatch(p.Kind, strings.TrimPrefix(a.Text, p.Kind+":"))
	}
	return plan, nil
}

// inModule returns the value of the builtin probe for kinds whose functions may be in several
// modules: it includes the module, even if the script does not.
func inModule(kind, module, name string) string { return kind + ":" + module + ":" + name }

// traced finds a function by name, in its module if it is given. It returns the module, "vmlinux"
// for the kernel itself.
func traced(k Kernel, a *manifest.Attach) (proto *adapt.Prototype, module string, err error) {
	inKernel, err := k.Prototype(Vmlinux, a.Name)
	if errors.Is(err, ErrAmbiguous) {
		err = &Failure{a.Text, err}
	}
	if err != nil {
		return nil, "", err
	}
	if inKernel != nil && (a.Target == "" || a.Target == Vmlinux) {
		return inKernel, Vmlinux, nil
	}
	if a.Target == Vmlinux {
		return nil, "", noTyped(a)
	}
	if a.Target != "" && !k.Loaded(a.Target) {
		return nil, "", notLoaded(a)
	}
	return moduleFunction(k, a, inKernel != nil)
}

func noTyped(a *manifest.Attach) error {
	kind, _, _ := strings.Cut(a.Text, ":")
	return NoMatch(kind, strings.TrimPrefix(a.Target+":"+a.Name, ":"))
}

// moduleFunction searches the types of modules (5.11). The loader finds functions by name only, the kernel's first,
// so a function in several modules cannot be selected.
func moduleFunction(k Kernel, a *manifest.Attach, inKernel bool) (*adapt.Prototype, string, error) {
	modules, err := k.Modules(a.Name)
	if err != nil {
		return nil, "", fmt.Errorf("cannot list modules with types: %w", err)
	}
	var found *adapt.Prototype
	module := ""
	var where []string
	if inKernel {
		where = append(where, Vmlinux)
	}
	for _, name := range modules {
		proto, err := k.Prototype(name, a.Name)
		if err != nil || proto == nil {
			continue
		}
		where = append(where, name)
		if a.Target == "" || a.Target == name {
			found, module = proto, name
		}
	}
	switch {
	case found == nil:
		return nil, "", noTyped(a)
	case len(where) > 1 && a.Target == "":
		return nil, "", &Failure{
			a.Text,
			fmt.Errorf("ambiguous attach point, please specify module containing the function '%s' (%s)", a.Name,
				strings.Join(where, ", ")),
		}
	case len(where) > 1:
		return nil, "", &Failure{
			a.Text,
			fmt.Errorf("the function %s is in %s, which this loader cannot distinguish",
				a.Name, strings.Join(where, ", ")),
		}
	}
	return found, module, nil
}

// rawTracepoint finds raw tracepoints by the types of their arguments, btf_trace_NAME, in the types
// of the kernel ("vmlinux") or a module.
func rawTracepoint(k Kernel, p *manifest.Program) (Plan, error) {
	a := &p.Attach
	in := func(module string) bool { return a.Target == "" || probe.Glob(a.Target, module) }
	what := strings.TrimPrefix(a.Target+":"+a.Name, ":")
	if !probe.IsPattern(a.Name) {
		proto, err := k.RawPrototype(Vmlinux, a.Name)
		if err != nil {
			return Plan{}, err
		}
		if proto != nil && in(Vmlinux) {
			return onlyRaw(a, Vmlinux), adapt.Arguments(p, *proto)
		}
		modules, err := k.Modules(a.Name)
		for _, m := range modules {
			if !in(m) {
				continue
			}
			if proto, merr := k.RawPrototype(m, a.Name); merr == nil && proto != nil {
				return onlyRaw(a, m), adapt.Arguments(p, *proto)
			}
		}
		if err != nil {
			return Plan{}, fmt.Errorf("cannot list modules with types: %w", err)
		}
		// A bare name is skipped if the clause has other attach points, like a pattern.
		return Plan{}, &Missing{Text: "No matches for " + p.Kind + " " + what + ".", Pattern: a.Target == ""}
	}
	plan := Plan{Strategy: PerMatch}
	err := eachRawTracepoint(k, in, func(module, name string) {
		if probe.Glob(a.Name, name) {
			plan.Matches = append(plan.Matches, Match{Text: inModule(p.Kind, module, name), Group: module, Name: name})
		}
	})
	if err != nil {
		return Plan{}, err
	}
	if len(plan.Matches) == 0 {
		return Plan{}, NoMatch(p.Kind, what)
	}
	sort.Slice(plan.Matches, func(i, j int) bool { return plan.Matches[i].Name < plan.Matches[j].Name })
	return plan, nil
}

// onlyRaw returns the plan for one raw tracepoint.
func onlyRaw(a *manifest.Attach, module string) Plan {
	return Plan{
		Strategy: PerMatch,
		Matches:  []Match{{Text: inModule(probe.RawTracepoint, module, a.Name), Group: module, Name: a.Name}},
	}
}

// eachRawTracepoint visits the raw tracepoints of the selected modules; the kernel itself is
// "vmlinux".
func eachRawTracepoint(k Kernel, wanted func(module string) bool, visit func(module, name string)) error {
	modules, err := k.Modules("")
	if err != nil {
		modules = nil // no list of modules: there are no module types
	}
	for _, m := range append([]string{Vmlinux}, modules...) {
		if !wanted(m) {
			continue
		}
		names, err := k.RawTracepoints(m)
		if err != nil && m == Vmlinux {
			return err
		}
		for _, name := range names {
			visit(m, name)
		}
	}
	return nil
}
