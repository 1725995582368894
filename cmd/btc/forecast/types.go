// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"btc/targets/kernel"
)

// types builds BTF for the target's types that an object names, so that relocation uses the same
// library as on hosts. Pointers become void pointers, because no relocation follows them.
type types struct {
	t    *kernel.Target
	made map[*kernel.Type]btf.Type
}

// spec contains all types of the target that have one of the names.
func (y *types) spec(names []string) (*btf.Spec, error) {
	var all []btf.Type
	for _, name := range names {
		for _, k := range []kernel.Kind{kernel.Struct, kernel.Union, kernel.Enum, kernel.Typedef, kernel.Int} {
			for _, typ := range y.t.Named(k, name) {
				all = append(all, y.of(typ))
			}
		}
	}
	b, err := btf.NewBuilder(all, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot build the types of the target: %w", err)
	}
	return b.Spec()
}

func (y *types) of(typ *kernel.Type) btf.Type {
	if typ == nil {
		return &btf.Void{}
	}
	if b, ok := y.made[typ]; ok {
		return b
	}
	switch typ.Kind {
	case kernel.Int:
		i := &btf.Int{Name: typ.Name, Size: uint32(typ.Size)}
		switch {
		case typ.Bool:
			i.Encoding = btf.Bool
		case typ.Signed:
			i.Encoding = btf.Signed
		}
		y.made[typ] = i
	case kernel.Float:
		y.made[typ] = &btf.Float{Name: typ.Name, Size: uint32(typ.Size)}
	case kernel.Pointer:
		y.made[typ] = &btf.Pointer{Target: &btf.Void{}}
	case kernel.Array:
		a := &btf.Array{Nelems: uint32(typ.Len), Index: &btf.Int{Name: "unsigned int", Size: 4}}
		y.made[typ] = a
		a.Type = y.of(typ.Elem())
	case kernel.Struct:
		s := &btf.Struct{Name: typ.Name, Size: uint32(typ.Size)}
		y.made[typ] = s
		s.Members = y.members(typ)
	case kernel.Union:
		u := &btf.Union{Name: typ.Name, Size: uint32(typ.Size)}
		y.made[typ] = u
		u.Members = y.members(typ)
	case kernel.Enum:
		e := &btf.Enum{Name: typ.Name, Size: uint32(typ.Size), Signed: typ.Signed}
		for _, v := range typ.Enumerators {
			e.Values = append(e.Values, btf.EnumValue{Name: v.Name, Value: uint64(v.Value)})
		}
		y.made[typ] = e
	case kernel.Typedef:
		d := &btf.Typedef{Name: typ.Name}
		y.made[typ] = d
		d.Type = y.of(typ.Elem())
	case kernel.Forward:
		y.made[typ] = &btf.Fwd{Name: typ.Name}
	default:
		y.made[typ] = &btf.Void{}
	}
	return y.made[typ]
}

func (y *types) members(typ *kernel.Type) []btf.Member {
	var all []btf.Member
	for _, m := range typ.Members {
		all = append(all, btf.Member{
			Name: m.Name, Type: y.of(m.Type()), Offset: btf.Bits(m.BitOffset),
			BitfieldSize: btf.Bits(m.BitSize),
		})
	}
	return all
}

// named returns the type names that relocations of an object may refer to, without the flavor after
// "___".
func named(spec *btf.Spec) []string {
	var names []string
	if spec == nil {
		return nil
	}
	seen := map[string]bool{}
	for t, err := range spec.All() {
		if err != nil {
			break
		}
		name, _, _ := strings.Cut(t.TypeName(), "___")
		if name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

func newTypes(t *kernel.Target) *types { return &types{t: t, made: map[*kernel.Type]btf.Type{}} }
