// SPDX-License-Identifier: Apache-2.0

package cdef

import (
	"btc/frontend/types"
	"btc/targets/kernel"
)

// Kernel converts a type of the target. Results are cached: equal arguments return the same pointer.
func (e *Env) Kernel(t *kernel.Type) *types.Type {
	if have, ok := e.kernel[t]; ok {
		return have
	}
	made := e.convert(t, "")
	e.kernel[t] = made
	return made
}

// convert converts a kernel type to a type of the language; alias is the typedef that names it, if any.
func (e *Env) convert(t *kernel.Type, alias string) *types.Type {
	switch t.Kind {
	case kernel.Int:
		switch {
		case t.Bool:
			return types.TBool
		case t.Name == "signed char": // plain char is unsigned: the kernel is built with -funsigned-char
			return types.TInt8
		}
		return types.MakeInt(t.Size, t.Signed)
	case kernel.Float:
		return &types.Type{Kind: types.Float, Size: t.Size}
	case kernel.Pointer:
		space := types.NoSpace
		if t.User {
			space = types.User
		}
		return types.MakePointer(e.Kernel(t.Elem()), space)
	case kernel.Array:
		chars := types.KernelBytes
		if t.Elem().Name == "char" {
			chars = types.KernelChars
		}
		return types.MakeChars(e.Kernel(t.Elem()), t.Len, chars)
	case kernel.Struct, kernel.Union, kernel.Forward:
		return e.composite(t, alias)
	case kernel.Enum:
		return e.kernelEnum(t, alias)
	case kernel.Typedef:
		elem := t.Elem()
		if elem.Name == "" && (elem.Kind == kernel.Struct || elem.Kind == kernel.Union || elem.Kind == kernel.Enum) {
			return e.convert(elem, t.Name)
		}
		return e.Kernel(elem)
	case kernel.Func:
		return types.TFunc
	}
	return types.TNone
}

func (e *Env) composite(t *kernel.Type, alias string) *types.Type {
	if t.Kind == kernel.Forward {
		if def, ok := e.target.Struct(t.Name); ok {
			return e.Kernel(def)
		}
	}
	c := &types.Composite{Tag: t.Name, Union: t.Kind == kernel.Union, CORE: alias,
		Forward: t.Kind == kernel.Forward, Size: t.Size, AlignOf: t.Align}
	if t.Name != "" {
		c.CORE = c.Word() + " " + t.Name
	}
	c.Load = func() []types.Member { return e.kernelMembers(t) }
	c.Lookup = func(name string) (types.Member, bool) {
		f, ok := t.Field(name)
		if !ok {
			return types.Member{}, false
		}
		return types.Member{
			Name:    name,
			Type:    e.Kernel(f.Type),
			Off:     f.Offset,
			BitOff:  f.BitOffset,
			BitSize: f.BitSize,
		}, true
	}
	return types.MakeStruct(c)
}

func (e *Env) kernelMembers(t *kernel.Type) []types.Member {
	var all []types.Member
	for _, m := range t.Members {
		typ := e.Kernel(m.Type())
		member := types.Member{Name: m.Name, Type: typ, Off: m.BitOffset / 8}
		if m.BitSize > 0 {
			member = placeBits(member, m.BitOffset, m.BitSize)
		}
		all = append(all, member)
	}
	return all
}

// placeBits computes the aligned storage unit, of the bitfield's type, with the first of
// its size bits at bit offset at.
func placeBits(m types.Member, at, size int) types.Member {
	unit := max(1, m.Type.Size)
	m.Off = at / 8 / unit * unit
	m.BitOff, m.BitSize = at-8*m.Off, size
	return m
}

func (e *Env) kernelEnum(t *kernel.Type, alias string) *types.Type {
	def := &types.EnumDef{Tag: t.Name, CORE: alias}
	if t.Name != "" {
		def.CORE = "enum " + t.Name
	}
	for _, v := range t.Enumerators {
		def.Values = append(def.Values, types.EnumValue(v))
	}
	return types.MakeEnum(def, max(1, t.Size), t.Signed)
}
