// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/cilium/ebpf/btf"

	"btc/loader/adapt"
	"btc/loader/kerneltypes"
	"btc/loader/resolve"
)

// noTypes explains why the kernel's types are unavailable. Types from --btf do not help here, because the kernel
// checks such programs against its own types.
func noTypes(err error) error {
	if _, missing := os.Stat(kerneltypes.Path); errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("this kernel has no BTF (%s is missing), and such programs are checked against it: a kernel built with CONFIG_DEBUG_INFO_BTF=y is needed, or a kprobe or tracepoint instead",
			kerneltypes.Path)
	}
	return fmt.Errorf("the kernel's types cannot be read: %w", err)
}

// findFunc returns the prototype of the only function of a name, or nil if there is none.
func findFunc(spec *btf.Spec, name string) (*btf.FuncProto, error) {
	all, err := spec.AnyTypesByName(name)
	if errors.Is(err, btf.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the kernel's types: %w", err)
	}
	var found *btf.FuncProto
	for _, t := range all {
		f, ok := t.(*btf.Func)
		if !ok {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("several functions of this kernel are called %s, and %w", name, resolve.ErrAmbiguous)
		}
		found, _ = f.Type.(*btf.FuncProto)
	}
	return found, nil
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

// prototype returns a function's prototype without its first skip parameters.
func prototype(proto *btf.FuncProto, skip int) *adapt.Prototype {
	out := &adapt.Prototype{Result: typeText(proto.Return), ResultClass: class(proto.Return)}
	switch r := btf.UnderlyingType(proto.Return).(type) {
	case *btf.Int:
		out.ResultBits = bits(r.Size, r.Encoding == btf.Signed)
	case *btf.Enum:
		out.ResultBits = bits(r.Size, r.Signed)
	}
	if n := len(proto.Params); n > 0 && proto.Params[n-1].Name == "" && isVoid(proto.Params[n-1].Type) {
		out.Variadic = true
	}
	for _, param := range proto.Params[min(skip, len(proto.Params)):] {
		size, err := btf.Sizeof(param.Type)
		if err != nil {
			size = 8
		}
		p := adapt.Param{Name: param.Name, Type: typeText(param.Type), Size: size, Class: class(param.Type)}
		out.Params = append(out.Params, p)
	}
	return out
}

func bits(size uint32, signed bool) int {
	if signed {
		return -8 * int(size)
	}
	return 8 * int(size)
}

// class returns how a value of a type is passed, see adapt.Param.
func class(t btf.Type) string {
	switch btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		return "struct"
	case *btf.Union:
		return "union"
	case *btf.Float:
		return "float"
	}
	return ""
}

func isVoid(t btf.Type) bool { _, ok := t.(*btf.Void); return ok }

// typeText returns a C type without qualifiers, in the form of the compiler's target.
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
