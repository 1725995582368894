// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"btc/internal/arch"
	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/adapt"
	"btc/loader/resolve"
)

// The expander is the resolve.Kernel of this host.
var _ resolve.Kernel = (*expander)(nil)

// Arch returns this host's architecture.
func (x *expander) Arch() *arch.Arch { return arch.Host() }

// Loaded reports whether a module is loaded.
func (x *expander) Loaded(module string) bool { return moduleLoaded(module) }

// Functions returns what can be probed.
func (x *expander) Functions() ([]resolve.Function, error) {
	err := x.readFunctions()
	return x.functions, err
}

// KprobeMulti reports whether the kernel has links of many functions.
func (x *expander) KprobeMulti() bool { return x.host.KprobeMulti() }

// types returns the types of a module.
func (x *expander) types(module string) (*btf.Spec, error) {
	if module != resolve.Vmlinux {
		return x.host.Types().Module(module)
	}
	spec, err := x.host.Types().Kernel()
	if err != nil {
		return nil, noTypes(err)
	}
	return spec, nil
}

// Prototype finds a function in the types of a module.
func (x *expander) Prototype(module, name string) (*adapt.Prototype, error) {
	spec, err := x.types(module)
	if err != nil {
		return nil, err
	}
	proto, err := findFunc(spec, name)
	if err != nil || proto == nil {
		return nil, err
	}
	return prototype(proto, 0), nil
}

// Modules returns all modules with types.
func (x *expander) Modules(string) ([]string, error) { return x.host.Types().Modules() }

// RawPrototype finds a raw tracepoint in the types of a module.
func (x *expander) RawPrototype(module, name string) (*adapt.Prototype, error) {
	spec, err := x.types(module)
	if err != nil {
		return nil, err
	}
	proto := rawTracepoint(spec, name)
	if proto == nil {
		return nil, nil
	}
	return prototype(proto, 1), nil // the first parameter is internal to the kernel
}

// RawTracepoints returns the raw tracepoints in the types of a module.
func (x *expander) RawTracepoints(module string) ([]string, error) {
	spec, err := x.types(module)
	if err != nil {
		return nil, err
	}
	var out []string
	for t, err := range spec.All() {
		if err != nil {
			return out, nil
		}
		def, ok := t.(*btf.Typedef)
		if !ok {
			continue
		}
		if name, ok := strings.CutPrefix(def.Name, "btf_trace_"); ok {
			out = append(out, name)
		}
	}
	return out, nil
}

// Other resolves attach points that depend on files, processes, processors or BPF programs.
func (x *expander) Other(p *manifest.Program) (plan resolve.Plan, err error) {
	switch p.Kind {
	case probe.Uprobe, probe.Uretprobe:
		plan, err = x.ofProcesses(p, x.uprobes)
		x.choose(p, &plan)
	case probe.USDT:
		plan, err = x.ofProcesses(p, x.usdts)
		x.choose(p, &plan)
	case probe.Fentry, probe.Fexit:
		id, ok := bpfTarget(p.Attach.Target)
		if !ok {
			return resolve.Plan{}, fmt.Errorf("%s is neither bpf:ID nor bpf:*", p.Attach.Target)
		}
		return expandBPF(p, id)
	default:
		return resolve.Itself(p), nil
	}
	return plan, err
}

// Absent returns the error unchanged, because the host is authoritative.
func (x *expander) Absent(_ *manifest.Program, err *resolve.Missing) error { return err }

// Iterator looks for the function that describes a kind of iterator, where the kernel's types are
// available; without them loading decides.
func (x *expander) Iterator(kind string) (bool, error) {
	if err := x.opts.checkIterator(kind); err != nil {
		return false, err
	}
	kernel, err := x.host.Types().Kernel()
	if err != nil {
		return true, nil
	}
	proto, err := findFunc(kernel, "bpf_iter_"+kind)
	return proto != nil, err
}

// Iterators finds the kinds of iterators in the kernel's types: each has a function that names its parameters and a
// struct of them.
func (x *expander) Iterators() ([]string, error) {
	kernel, err := x.host.Types().Kernel()
	if err != nil {
		return nil, err
	}
	var out []string
	for t, err := range kernel.All() {
		if err != nil {
			return out, err
		}
		s, ok := t.(*btf.Struct)
		if !ok {
			continue
		}
		name, ok := strings.CutPrefix(s.Name, "bpf_iter__")
		if !ok || kernelfs.IterOverMap[name] != "" {
			continue
		}
		if proto, err := findFunc(kernel, "bpf_iter_"+name); err == nil && proto != nil {
			out = append(out, name)
		}
	}
	return out, nil
}
