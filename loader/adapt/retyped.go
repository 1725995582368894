// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
)

// Retype lets the fields that an object reads be relocated where the kernel has an enum instead of an integer, or
// the reverse, or a struct with an enum as its only member: inode.i_state was a u32, has been an enum since 6.17
// and such a struct since 6.19. Relocation compares the kinds of types, and takes the field for missing. The
// members of the kernel's types are changed to the kind of local's, the object's types, with the kernel's size and
// sign.
func Retype(m *manifest.Manifest, local *btf.Spec, types ...*btf.Spec) {
	for i := range m.Fields {
		use := &m.Fields[i]
		was, here := member([]*btf.Spec{local}, use), member(types, use)
		if was == nil || here == nil || was.BitfieldSize != 0 || here.BitfieldSize != 0 {
			continue
		}
		here.Type = as(btf.UnderlyingType(was.Type), here.Type)
	}
}

// as returns a type of the kind of was for a value of another kind of integer, or the type itself.
func as(was, typ btf.Type) btf.Type {
	here := btf.UnderlyingType(typ)
	if s, ok := here.(*btf.Struct); ok && len(s.Members) == 1 && s.Members[0].BitfieldSize == 0 {
		// Integers in a struct have a meaning of their own.
		if e, ok := btf.UnderlyingType(s.Members[0].Type).(*btf.Enum); ok {
			here = e
		}
	}
	size, signed := uint32(0), false
	switch h := here.(type) {
	case *btf.Int:
		size, signed = h.Size, h.Encoding == btf.Signed
	case *btf.Enum:
		size, signed = h.Size, h.Signed
	}
	if n, err := btf.Sizeof(typ); err != nil || n != int(size) {
		return typ
	}
	switch w := was.(type) {
	case *btf.Int:
		i := &btf.Int{Name: w.Name, Size: size}
		if signed {
			i.Encoding = btf.Signed
		}
		return i
	case *btf.Enum:
		return &btf.Enum{Name: w.Name, Size: size, Signed: signed, Values: w.Values}
	}
	return typ
}

// NotLoaded ends the text of Lacks for a type that a module may bring.
const NotLoaded = " neither in the kernel nor in a module that is loaded"

// Lacks describes why a field, type or enumerator that an object reads could not be relocated, with the types of
// the object and of the kernel.
func Lacks(use *manifest.FieldUse, local *btf.Spec, types ...*btf.Spec) string {
	_, name, _ := strings.Cut(use.Type, " ")
	found := false
	for _, spec := range types {
		if spec != nil {
			_, err := spec.AnyTypesByName(name)
			found = found || err == nil
		}
	}
	was, here := member([]*btf.Spec{local}, use), member(types, use)
	switch {
	case was != nil && here != nil:
		return fmt.Sprintf("%s is %s on this kernel, and the script was compiled for %s", use, typeName(here.Type), typeName(was.Type))
	case !found && use.Module != "":
		return "this kernel has no " + use.String() + ": " + use.Type + " is of the module " + use.Module + ", and" + NotLoaded
	case !found && use.Path != "" && !strings.HasPrefix(use.Type, "struct trace_event_raw_"): // else the event has another record
		return "this kernel has no " + use.String() + ": " + use.Type + " is" + NotLoaded
	}
	return "this kernel has no " + use.String()
}

// typeName names a type for messages.
func typeName(t btf.Type) string {
	switch u := t.(type) {
	case *btf.Const:
		return typeName(u.Type)
	case *btf.Volatile:
		return typeName(u.Type)
	case *btf.TypeTag:
		return typeName(u.Type)
	case *btf.Struct:
		return strings.TrimSpace("struct " + u.Name)
	case *btf.Union:
		return strings.TrimSpace("union " + u.Name)
	case *btf.Enum:
		return strings.TrimSpace("enum " + u.Name)
	case *btf.Pointer:
		return "a pointer"
	case *btf.Array:
		return "an array"
	}
	return t.TypeName()
}

// member finds the last member of a use's path in the first of the specs that has it; nil for an element of an array.
func member(specs []*btf.Spec, use *manifest.FieldUse) *btf.Member {
	_, name, _ := strings.Cut(use.Type, " ")
	for _, spec := range specs {
		if spec == nil || use.Path == "" {
			continue
		}
		all, err := spec.AnyTypesByName(name)
		if err != nil {
			continue
		}
		for _, t := range all {
			if m := last(t, use.Path); m != nil {
				return m
			}
		}
	}
	return nil
}

func last(t btf.Type, path string) *btf.Member {
	var m *btf.Member
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if _, err := strconv.Atoi(part); err == nil {
			a, ok := btf.UnderlyingType(t).(*btf.Array)
			if !ok {
				return nil
			}
			t, m = a.Type, nil
			continue
		}
		if m = memberOf(btf.UnderlyingType(t), part, 8); m == nil {
			return nil
		}
		t = m.Type
	}
	return m
}
