// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"cmp"
	"slices"

	"btc/targets/targetfile"
)

// converter turns BTF into the types of a target file: qualifiers and type tags are dropped, pointers become part of
// references, equal arrays are merged, and functions are dropped except for prototypes that types refer to.
type converter struct {
	btf    *btf
	at     map[uint32]int // BTF id -> index in order
	order  []uint32       // BTF ids that get a record
	uses   []int          // number of references to order[i]
	pos    []int          // order index -> position in the file
	arrays map[[2]uint64]uint32
}

// collect visits everything reachable from a type.
func (c *converter) collect(id uint32) {
	_, base := c.base(id)
	if base == 0 {
		return
	}
	if i, ok := c.at[base]; ok {
		c.uses[i]++
		return
	}
	t := c.btf.at(base)
	switch t.kind {
	case btfFunc, btfVar, btfDatasec, btfDeclTag:
		return
	}
	c.at[base] = len(c.order)
	c.order = append(c.order, base)
	c.uses = append(c.uses, 1)
	switch t.kind {
	case btfPtr, btfTypedef:
		c.collect(t.link)
	case btfArray:
		c.collect(t.word(0))
	case btfStruct, btfUnion:
		for i := range t.vlen {
			_, typ, _, _ := c.btf.member(t, i)
			c.collect(typ)
		}
	case btfFuncProto:
		c.collectProto(t)
	}
}

func (c *converter) collectProto(t *btfType) {
	c.collect(t.link)
	for i := range t.vlen {
		_, typ := c.btf.param(t, i)
		c.collect(typ)
	}
}

// base splits a type into the parts of a targetfile.Ref: pointers, then a record.
func (c *converter) base(id uint32) (pointers int, base uint32) { return c.baseAt(id, 0) }

// baseAt counts the nesting of arrays: damaged BTF may contain cycles.
func (c *converter) baseAt(id uint32, depth int) (pointers int, base uint32) {
	for {
		id = c.btf.strip(id)
		t := c.btf.at(id)
		switch {
		case t.kind == btfPtr && pointers < 3 && !c.btf.userPtr(t):
			pointers++
			id = t.link
			continue
		case t.kind == btfArray && depth < 32:
			// Arrays with the same element type and length are merged.
			n, elem := c.baseAt(t.word(0), depth+1)
			key := [2]uint64{uint64(elem)<<2 | uint64(n), uint64(t.word(2))}
			if first, ok := c.arrays[key]; ok {
				return pointers, first
			}
			c.arrays[key] = id
		}
		return pointers, id
	}
}

// assign orders the records: the ones referred to most come first, so that most scripts need only the few blocks with
// them (and references to them are short). The rest stays in BTF order, where related types are adjacent.
func (c *converter) assign(popular int) {
	byUse := make([]int, len(c.order))
	for i := range byUse {
		byUse[i] = i
	}
	slices.SortStableFunc(byUse, func(a, b int) int {
		return cmp.Or(cmp.Compare(c.uses[b], c.uses[a]), cmp.Compare(c.order[a], c.order[b]))
	})
	rest := byUse[min(popular, len(byUse)):]
	slices.SortFunc(rest, func(a, b int) int { return cmp.Compare(c.order[a], c.order[b]) })
	c.pos = make([]int, len(c.order))
	for p, i := range byUse {
		c.pos[i] = p
	}
}

func (c *converter) ref(id uint32) targetfile.Ref {
	pointers, base := c.base(id)
	if base == 0 {
		return targetfile.MakeRef(-1, pointers)
	}
	i, ok := c.at[base]
	if !ok {
		return targetfile.MakeRef(-1, pointers) // a function or variable instead of a type
	}
	return targetfile.MakeRef(c.pos[i], pointers)
}

// records makes the table of types.
func (c *converter) records() []targetfile.Type {
	out := make([]targetfile.Type, len(c.order))
	for i, id := range c.order {
		out[c.pos[i]] = c.record(id)
	}
	return out
}

func (c *converter) record(id uint32) targetfile.Type {
	b, t := c.btf, c.btf.at(id)
	out := targetfile.Type{Name: t.name, Size: b.size(id, 0)}
	if int(id) >= b.base && t.name != "" {
		out.Flags = targetfile.InModule
	}
	switch t.kind {
	case btfInt:
		out.Kind = targetfile.Int
		if enc := t.word(0) >> 24; enc&1 != 0 {
			out.Flags |= targetfile.Signed
		} else if enc&4 != 0 {
			out.Flags |= targetfile.Bool
		}
	case btfFloat:
		out.Kind = targetfile.Float
	case btfPtr:
		out.Kind = targetfile.Pointer
		out.Elem = c.ref(t.link)
		if b.userPtr(t) {
			out.Flags |= targetfile.User
		}
	case btfArray:
		out.Kind, out.Name = targetfile.Array, ""
		out.Elem, out.Len = c.ref(t.word(0)), int(t.word(2))
	case btfStruct, btfUnion:
		out.Kind = targetfile.Struct
		if t.kind == btfUnion {
			out.Kind = targetfile.Union
		}
		for i := range t.vlen {
			name, typ, bit, bits := b.member(t, i)
			out.Members = append(out.Members,
				targetfile.Member{Name: name, BitOffset: bit, BitSize: bits, Type: c.ref(typ)})
		}
	case btfEnum, btfEnum64:
		out.Kind = targetfile.Enum
		for i := range t.vlen {
			name, value := b.enumerator(t, i)
			out.Enumerators = append(out.Enumerators, targetfile.Enumerator{Name: name, Value: value})
			if value < 0 && !b.signed {
				out.Flags |= targetfile.Signed
			}
		}
		if t.flag {
			out.Flags |= targetfile.Signed
		}
	case btfTypedef:
		out.Kind = targetfile.Typedef
		out.Elem = c.ref(t.link)
	case btfFuncProto:
		return c.proto(t)
	default:
		out.Kind = targetfile.Forward
	}
	return out
}

func (c *converter) proto(t *btfType) targetfile.Type {
	out := targetfile.Type{Kind: targetfile.Proto, Elem: c.ref(t.link)}
	for i := range t.vlen {
		name, typ := c.btf.param(t, i)
		if name == "" && typ == 0 && i == t.vlen-1 {
			out.Flags |= targetfile.Variadic
			break
		}
		out.Params = append(out.Params, targetfile.Param{Name: name, Type: c.ref(typ)})
	}
	return out
}
