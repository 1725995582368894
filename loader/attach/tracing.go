// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sort"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
	"btc/loader/host"
	"btc/loader/kerneltypes"
)

// expandTracing finds the functions of a fentry or fexit in the types of the
// kernel and its modules. The kernel fixes the function when the program is
// loaded, so each match has a program of its own.
func expandTracing(x *expander, p *manifest.Program) (Plan, error) {
	a := &p.Attach
	if id, ok := bpfTarget(a.Target); ok {
		return expandBPF(p, id)
	}
	written := a.Name
	p = onThisMachine(p)
	a = &p.Attach
	if !probe.IsPattern(a.Name) && !probe.IsPattern(a.Target) {
		proto, module, err := x.tracedFunction(a)
		if err != nil {
			return Plan{}, err
		}
		if err := sameArgs(p, proto, 0); err != nil {
			return Plan{}, err
		}
		return Plan{
			Strategy: PerMatch,
			Matches:  []Match{{Text: inModule(p.Kind, module, written), Group: module, Name: a.Name}},
		}, nil
	}
	if err := x.readFunctions(); err != nil {
		return Plan{}, err
	}
	plan := Plan{Strategy: PerMatch}
	for _, f := range x.matching(a) {
		proto, _, err := x.tracedFunction(&manifest.Attach{Target: f.module, Name: f.name})
		if err != nil || !canTrampoline(proto) {
			continue
		}
		plan.Matches = append(
			plan.Matches,
			Match{Text: inModule(p.Kind, f.module, f.name), Group: f.module, Name: f.name},
		)
	}
	if len(plan.Matches) == 0 {
		return Plan{}, noMatch(p.Kind, strings.TrimPrefix(a.Text, p.Kind+":"))
	}
	return plan, nil
}

// inModule is the value of the builtin probe for a kind with functions of several modules:
// with the module, even if the script has none.
func inModule(kind, module, name string) string { return kind + ":" + module + ":" + name }

// canTrampoline excludes functions that no kernel can enter with fentry: variadic ones, or
// with more than twelve arguments (MAX_BPF_FUNC_ARGS).
func canTrampoline(proto *btf.FuncProto) bool {
	n := len(proto.Params)
	return n <= 12 && (n == 0 || proto.Params[n-1].Name != "" || !isVoid(proto.Params[n-1].Type))
}

func isVoid(t btf.Type) bool { _, ok := t.(*btf.Void); return ok }

// noTypes says why the kernel's types are unavailable. Types from --btf do not help here:
// the kernel itself checks such programs against its own.
func noTypes(err error) error {
	if _, missing := os.Stat(kerneltypes.Path); errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf(
			"this kernel has no BTF (%s is missing), and such programs are checked against it: a kernel built with CONFIG_DEBUG_INFO_BTF=y is needed, or a kprobe or tracepoint instead",
			kerneltypes.Path,
		)
	}
	return fmt.Errorf("the kernel's types cannot be read: %w", err)
}

// tracedFunction finds a function by name, in its module if it is given. It
// returns the module, "vmlinux" for the kernel itself.
func (x *expander) tracedFunction(a *manifest.Attach) (proto *btf.FuncProto, module string, err error) {
	kernel, err := x.host.Types().Kernel()
	if err != nil {
		return nil, "", noTypes(err)
	}
	inKernel, err := findFunc(kernel, a.Name)
	if errors.Is(err, errWhich) {
		err = &Failure{a.Text, err}
	}
	if err != nil {
		return nil, "", err
	}
	if inKernel != nil && (a.Target == "" || a.Target == "vmlinux") {
		return inKernel, "vmlinux", nil
	}
	if a.Target == "vmlinux" {
		return nil, "", noTyped(a)
	}
	if a.Target != "" && !moduleLoaded(a.Target) {
		return nil, "", &missing{text: "specified module " + a.Target + " in probe " + a.Text + " is not loaded."}
	}
	return x.moduleFunction(a, inKernel != nil)
}

func noTyped(a *manifest.Attach) error {
	kind, _, _ := strings.Cut(a.Text, ":")
	return noMatch(kind, strings.TrimPrefix(a.Target+":"+a.Name, ":"))
}

// moduleFunction looks into the types of the modules (5.11). The library finds functions by
// name only, the kernel's own first: one that is in several modules cannot be selected.
func (x *expander) moduleFunction(a *manifest.Attach, inKernel bool) (*btf.FuncProto, string, error) {
	types := x.host.Types()
	modules, err := types.Modules()
	if err != nil {
		return nil, "", fmt.Errorf("list of modules with types: %w", err)
	}
	var found *btf.FuncProto
	module := ""
	var where []string
	if inKernel {
		where = append(where, "vmlinux")
	}
	for _, name := range modules {
		spec, err := types.Module(name)
		if err != nil {
			continue
		}
		proto, err := findFunc(spec, a.Name)
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
			fmt.Errorf(
				"ambiguous attach point, please specify module containing the function '%s' (%s)",
				a.Name,
				strings.Join(where, ", "),
			),
		}
	case len(where) > 1:
		return nil, "", &Failure{
			a.Text,
			fmt.Errorf(
				"the function %s is in %s, which this loader cannot distinguish",
				a.Name,
				strings.Join(where, ", "),
			),
		}
	}
	return found, module, nil
}

var errWhich = errors.New("its types are ambiguous")

// findFunc returns the prototype of the only function of a name, nil for none.
func findFunc(spec *btf.Spec, name string) (*btf.FuncProto, error) {
	all, err := spec.AnyTypesByName(name)
	if errors.Is(err, btf.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the kernel's types: %w", err)
	}
	var found *btf.FuncProto
	for _, t := range all {
		f, ok := t.(*btf.Func)
		if !ok {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("several functions of this kernel are called %s, and %w", name, errWhich)
		}
		found, _ = f.Type.(*btf.FuncProto)
	}
	return found, nil
}

// expandRawTracepoint finds raw tracepoints by the types of their programs'
// arguments, btf_trace_NAME.
func expandRawTracepoint(x *expander, p *manifest.Program) (Plan, error) {
	a := &p.Attach
	kernel, err := x.host.Types().Kernel()
	if err != nil {
		return Plan{}, noTypes(err)
	}
	// The types that describe it are the kernel's own, "vmlinux", or a module's.
	in := func(module string) bool { return a.Target == "" || probe.Glob(a.Target, module) }
	what := strings.TrimPrefix(a.Target+":"+a.Name, ":")
	if !probe.IsPattern(a.Name) {
		if proto := rawTracepoint(kernel, a.Name); proto != nil && in("vmlinux") {
			if err := sameArgs(p, proto, 1); err != nil {
				return Plan{}, err
			}
			return onlyRaw(a, "vmlinux"), nil
		}
		modules, err := x.host.Types().Modules()
		for _, m := range modules {
			if !in(m) {
				continue
			}
			spec, merr := x.host.Types().Module(m)
			if merr != nil {
				continue
			}
			if proto := rawTracepoint(spec, a.Name); proto != nil {
				return onlyRaw(a, m), sameArgs(p, proto, 1)
			}
		}
		if err != nil {
			return Plan{}, fmt.Errorf("list of modules with types: %w", err)
		}
		// A bare name is skipped beside others, as a pattern is.
		return Plan{}, &missing{text: "No matches for " + p.Kind + " " + what + ".", pattern: a.Target == ""}
	}
	plan := Plan{Strategy: PerMatch}
	x.eachRawTracepoint(kernel, in, func(module, name string) {
		if probe.Glob(a.Name, name) {
			plan.Matches = append(plan.Matches, Match{Text: inModule(p.Kind, module, name), Group: module, Name: name})
		}
	})
	if len(plan.Matches) == 0 {
		return Plan{}, noMatch(p.Kind, what)
	}
	sort.Slice(plan.Matches, func(i, j int) bool { return plan.Matches[i].Name < plan.Matches[j].Name })
	return plan, nil
}

// onlyRaw is the plan of one raw tracepoint.
func onlyRaw(a *manifest.Attach, module string) Plan {
	return Plan{
		Strategy: PerMatch,
		Matches:  []Match{{Text: inModule(probe.RawTracepoint, module, a.Name), Group: module, Name: a.Name}},
	}
}

// eachRawTracepoint visits the raw tracepoints of the modules that are wanted, the
// kernel itself being "vmlinux".
func (x *expander) eachRawTracepoint(
	kernel *btf.Spec,
	wanted func(module string) bool,
	visit func(module, name string),
) {
	const prefix = "btf_trace_"
	in := func(spec *btf.Spec, module string) {
		for t, err := range spec.All() {
			if err != nil {
				return
			}
			def, ok := t.(*btf.Typedef)
			if ok && strings.HasPrefix(def.Name, prefix) {
				visit(module, def.Name[len(prefix):])
			}
		}
	}
	if wanted("vmlinux") {
		in(kernel, "vmlinux")
	}
	modules, err := x.host.Types().Modules()
	if err != nil {
		return // a list that cannot be read: no modules with types
	}
	for _, m := range modules {
		if !wanted(m) {
			continue
		}
		if spec, err := x.host.Types().Module(m); err == nil {
			in(spec, m)
		}
	}
}

func rawTracepoint(spec *btf.Spec, name string) *btf.FuncProto {
	var def *btf.Typedef
	if spec.TypeByName("btf_trace_"+name, &def) != nil {
		return nil
	}
	ptr, ok := btf.UnderlyingType(def).(*btf.Pointer)
	if !ok {
		return nil
	}
	proto, _ := ptr.Target.(*btf.FuncProto)
	return proto
}

// sameArgs holds the arguments that a program reads against a function's
// prototype on this host, without its first skip parameters.
func sameArgs(p *manifest.Program, proto *btf.FuncProto, skip int) error {
	here := adapt.Prototype{Result: typeText(proto.Return)}
	for _, param := range proto.Params[min(skip, len(proto.Params)):] {
		size, err := btf.Sizeof(param.Type)
		if err != nil {
			size = 8
		}
		here.Params = append(here.Params, adapt.Param{Name: param.Name, Type: typeText(param.Type), Size: size})
	}
	return adapt.Arguments(p, here)
}

// typeText is a type in C without qualifiers, as the compiler's target has it.
func typeText(t btf.Type) string {
	for range 32 {
		switch x := t.(type) {
		case *btf.Const:
			t = x.Type
		case *btf.Volatile:
			t = x.Type
		case *btf.Restrict:
			t = x.Type
		case *btf.TypeTag:
			t = x.Type
		case *btf.Pointer:
			e := typeText(x.Target)
			if !strings.HasSuffix(e, "*") {
				e += " "
			}
			return e + "*"
		case *btf.Struct:
			return "struct " + x.Name
		case *btf.Union:
			return "union " + x.Name
		case *btf.Enum:
			return "enum " + x.Name
		case *btf.Fwd:
			return x.Kind.String() + " " + x.Name
		case *btf.Void:
			return "void"
		default:
			return t.TypeName()
		}
	}
	return ""
}

// attachTracing attaches fentry, fexit and typed raw tracepoints: the target was
// fixed when the program was loaded.
func attachTracing(_ *Plan, m *Match, prog *ebpf.Program, _ Options, _ *host.Host) (io.Closer, error) {
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINVAL) {
		return nil, fmt.Errorf("the kernel does not let %s be traced: %w", m.Name, err)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}
