// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"btc/internal/arch"
	"btc/internal/kernelfs"
	"btc/internal/probe"
	"btc/loader/host"
)

// Arguments returns the arguments of an attach point returned by List, each as "type name", and last the result as
// retval. The result is empty if the kernel does not describe them.
func Arguments(h *host.Host, point string) []string {
	parts := strings.Split(point, ":")
	x := &expander{host: h}
	name := parts[len(parts)-1]
	switch kind := parts[0]; kind {
	case probe.Tracepoint:
		if len(parts) == 3 {
			return eventArgs(parts[1], name)
		}
	case probe.Kprobe, probe.Kretprobe, probe.Fentry, probe.Fexit:
		module := ""
		if len(parts) == 3 {
			module = parts[1]
		}
		return x.functionArgs(kind, module, name)
	case probe.RawTracepoint:
		if kernel, err := h.Types().Kernel(); err == nil {
			if proto := namedRawTracepoint(kernel, name); proto != nil && len(proto.Params) > 0 {
				return paramDecls(proto.Params[1:])
			}
		}
	case probe.Iter:
		if kernel, err := h.Types().Kernel(); err == nil {
			if proto, err := findFunc(kernel, "bpf_iter_"+name); err == nil && proto != nil {
				return paramDecls(proto.Params)
			}
		}
	}
	return nil
}

// namedRawTracepoint returns the prototype of a raw tracepoint with the names of its
// parameters, which the functions that the kernel generates for it have.
func namedRawTracepoint(kernel *btf.Spec, name string) *btf.FuncProto {
	for _, prefix := range []string{"__bpf_trace_", "__probestub_"} {
		if proto, err := findFunc(kernel, prefix+name); err == nil && proto != nil {
			return proto
		}
	}
	return rawTracepoint(kernel, name)
}

// eventArgs returns the fields of a tracepoint from its format file.
func eventArgs(category, event string) []string {
	f, err := kernelfs.Tracepoint(category, event)
	if err != nil {
		return nil
	}
	var out []string
	for _, field := range f.Fields {
		if field.Common() {
			continue
		}
		typ, dims := field.CType, ""
		if i := strings.IndexByte(typ, '['); i > 0 && !strings.HasPrefix(typ, "__data_loc ") &&
			!strings.HasPrefix(typ, "__rel_loc ") {
			typ, dims = strings.TrimSpace(typ[:i]), typ[i:]
		}
		out = append(out, typ+" "+field.Name+dims)
	}
	return out
}

func (x *expander) functionArgs(kind, module, name string) []string {
	spec, err := x.host.Types().Kernel()
	if err == nil && module != "" && module != "vmlinux" {
		spec, err = x.host.Types().Module(module)
	}
	if err != nil {
		return nil
	}
	proto, err := findFunc(spec, name)
	if err != nil || proto == nil {
		return nil
	}
	var out []string
	switch kind {
	case probe.Kprobe: // in registers, without names
		here := arch.Host()
		if here == nil {
			return nil
		}
		for i, p := range proto.Params[:min(len(proto.Params), len(here.Args))] {
			out = append(out, Declare(p.Type, "")+fmt.Sprintf(" arg%d", i))
		}
	case probe.Fentry, probe.Fexit:
		out = paramDecls(proto.Params)
	}
	switch void := isVoid(proto.Return); {
	case void && kind == probe.Kretprobe:
		out = append(out, "void")
	case !void && (kind == probe.Fexit || kind == probe.Kretprobe):
		out = append(out, Declare(proto.Return, "")+" retval")
	}
	return out
}

func paramDecls(params []btf.FuncParam) []string {
	var out []string
	for _, p := range params {
		out = append(out, Declare(p.Type, "")+" "+p.Name)
	}
	return out
}

// Declare formats a C declaration: the type around a name, which may be empty.
func Declare(t btf.Type, name string) string { return declareDeep(t, name, 16) }

func declareDeep(t btf.Type, inner string, depth int) string {
	if depth == 0 {
		return "..."
	}
	with := func(base string) string {
		if inner == "" {
			return base
		}
		return base + " " + inner
	}
	switch t := t.(type) {
	case *btf.Pointer:
		if word, _, _ := strings.Cut(inner, " "); word == "const" || word == "restrict" {
			inner = " " + inner
		}
		switch t.Target.(type) {
		case *btf.Array, *btf.FuncProto:
			return declareDeep(t.Target, "(*"+inner+")", depth-1)
		}
		if strings.HasPrefix(inner, "(") {
			inner = " " + inner
		}
		return declareDeep(t.Target, "*"+inner, depth-1)
	case *btf.Array:
		return declareDeep(t.Type, fmt.Sprintf("%s[%d]", inner, t.Nelems), depth-1)
	case *btf.FuncProto:
		var params []string
		for _, p := range t.Params {
			params = append(params, declareDeep(p.Type, "", depth-1))
		}
		if len(params) == 0 {
			params = []string{"void"}
		}
		return declareDeep(t.Return, inner+"("+strings.Join(params, ", ")+")", depth-1)
	case *btf.Const:
		if p, ok := t.Type.(*btf.Pointer); ok {
			return declareDeep(p, strings.TrimSuffix("const "+inner, " "), depth-1)
		}
		text := declareDeep(t.Type, inner, depth-1)
		if strings.HasPrefix(text, "const ") { // the element type of the array is const
			return text
		}
		return "const " + text
	case *btf.Volatile:
		return "volatile " + declareDeep(t.Type, inner, depth-1)
	case *btf.Restrict:
		return declareDeep(t.Type, strings.TrimSuffix("restrict "+inner, " "), depth-1)
	case *btf.TypeTag:
		return declareDeep(t.Type, inner, depth-1)
	case *btf.Struct:
		return with("struct " + t.Name)
	case *btf.Union:
		return with("union " + t.Name)
	case *btf.Enum:
		return with("enum " + t.Name)
	case *btf.Fwd:
		return with(t.Kind.String() + " " + t.Name)
	case *btf.Void:
		return with("void")
	}
	return with(t.TypeName())
}
