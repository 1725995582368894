// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"debug/dwarf"
	"slices"
	"strings"

	"btc/frontend/types"
)

// typeEntry is a converted type with its size, which is known before the members of a composite are.
type typeEntry struct {
	t *types.Type
}

// Tagged finds the definition of "struct name", "union name" or "enum name".
func (b *Binary) Tagged(word, name string) (*types.Type, bool) {
	at, ok := b.lookup().tags[word+" "+name]
	if !ok {
		return nil, false
	}
	return b.convert(at.part, at.off, 0), true
}

// Named finds a typedef, or the tag of a struct, union or enum.
func (b *Binary) Named(name string) (*types.Type, bool) {
	if at, ok := b.lookup().typedefs[name]; ok {
		return b.convert(at.part, at.off, 0), true
	}
	for _, word := range []string{"struct", "union", "enum"} {
		if t, ok := b.Tagged(word, name); ok {
			return t, true
		}
	}
	return nil, false
}

// maxDepth bounds chains of pointers, arrays and qualifiers, and the dimensions of an array.
const maxDepth = 64

// maxSize bounds types and the offsets of members, in bytes. Beyond it nothing can be read, and sums could overflow.
const maxSize = 1 << 40

// convert converts an entry to a type of the language. A type without a counterpart becomes void, of size 0: nothing
// can be read there.
func (b *Binary) convert(p *part, off dwarf.Offset, depth int) *types.Type {
	if known := p.types[off]; known != nil {
		return known.t
	}
	e, err := p.entry(off)
	if err != nil || depth > maxDepth {
		return types.TNone
	}
	t := b.convertEntry(p, e, depth)
	p.types[off] = &typeEntry{t}
	return t
}

// typeOf returns the type that an entry's attribute names; void without one.
func (b *Binary) typeOf(p *part, e *dwarf.Entry, depth int) *types.Type {
	off, ok := p.val(e, dwarf.AttrType).(dwarf.Offset)
	if !ok {
		return types.TNone
	}
	return b.convert(p, off, depth+1)
}

func (b *Binary) convertEntry(p *part, e *dwarf.Entry, depth int) *types.Type {
	switch e.Tag {
	case dwarf.TagBaseType:
		return baseType(e)
	case dwarf.TagPointerType, dwarf.TagReferenceType, dwarf.TagRvalueReferenceType:
		return b.pointer(p, e, depth)
	case dwarf.TagTypedef,
		dwarf.TagConstType,
		dwarf.TagVolatileType,
		dwarf.TagRestrictType,
		dwarf.TagAtomicType,
		dwarf.TagSharedType,
		dwarf.TagTemplateAlias:
		return b.typeOf(p, e, depth)
	case dwarf.TagArrayType:
		return b.array(p, e, depth)
	case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType:
		return b.composite(p, e)
	case dwarf.TagEnumerationType:
		return b.enum(p, e, depth)
	case dwarf.TagSubroutineType:
		return &types.Type{Kind: types.Func}
	case dwarf.TagUnspecifiedType:
		return types.TNone
	}
	return types.TNone
}

// pointer converts a pointer type. Recursion ends at composites, whose members are converted later.
func (b *Binary) pointer(p *part, e *dwarf.Entry, depth int) *types.Type {
	return types.MakePointer(b.typeOf(p, e, depth), types.User)
}

// spell returns the type that an entry's attribute names, in C syntax.
func (p *part) spell(e *dwarf.Entry, depth int) string {
	off, ok := p.val(e, dwarf.AttrType).(dwarf.Offset)
	if !ok {
		return "void"
	}
	t, err := p.entry(off)
	if err != nil || depth > maxDepth {
		return "?"
	}
	name, _ := t.Val(dwarf.AttrName).(string)
	switch t.Tag {
	case dwarf.TagPointerType:
		return p.spell(t, depth+1) + "*"
	case dwarf.TagReferenceType:
		return p.spell(t, depth+1) + "&"
	case dwarf.TagRvalueReferenceType:
		return p.spell(t, depth+1) + "&&"
	case dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagRestrictType:
		word := map[dwarf.Tag]string{dwarf.TagConstType: "const", dwarf.TagVolatileType: "volatile", dwarf.TagRestrictType: "restrict"}[t.Tag]
		if inner := p.spell(t, depth+1); strings.HasSuffix(inner, "*") {
			return inner + " " + word
		} else {
			return word + " " + inner
		}
	case dwarf.TagArrayType:
		return p.spell(t, depth+1) + "[]"
	case dwarf.TagSubroutineType:
		return p.spell(t, depth+1) + " (*)(...)"
	case dwarf.TagStructType, dwarf.TagClassType, dwarf.TagUnionType, dwarf.TagEnumerationType:
		if name == "" {
			name = "{...}"
		}
		return tagWords[t.Tag] + name
	}
	return name
}

// Encodings of base types (DWARF 5, table 7.11).
const (
	encComplexFloat = 0x03
	encFloat        = 0x04
	encSigned       = 0x05
	encSignedChar   = 0x06
	encUnsignedChar = 0x08
	encDecimalFloat = 0x0f
)

func baseType(e *dwarf.Entry) *types.Type {
	size, _ := e.Val(dwarf.AttrByteSize).(int64)
	enc, _ := e.Val(dwarf.AttrEncoding).(int64)
	switch {
	case enc == encFloat || enc == encComplexFloat || enc == encDecimalFloat:
		return &types.Type{Kind: types.Float, Size: int(size)}
	case size != 1 && size != 2 && size != 4 && size != 8: // __int128
		return types.MakeArray(types.TUint8, int(max(0, min(size, 1<<16))))
	}
	return types.MakeInt(int(size), enc == encSigned || enc == encSignedChar)
}

func (b *Binary) array(p *part, e *dwarf.Entry, depth int) *types.Type {
	elem, chars := b.typeOf(p, e, depth), p.charsOf(e)
	kids, _ := p.children(e.Offset)
	kids = slices.DeleteFunc(kids, func(k *dwarf.Entry) bool { return k.Tag != dwarf.TagSubrangeType })
	if len(kids) > maxDepth {
		return types.TNone
	}
	for i := len(kids) - 1; i >= 0; i-- { // the last dimension is the innermost
		n := int64(0)
		if count, ok := kids[i].Val(dwarf.AttrCount).(int64); ok {
			n = count
		} else if upper, ok := kids[i].Val(dwarf.AttrUpperBound).(int64); ok {
			n = upper + 1
		}
		if n < 0 || n > 1<<28 || elem.Size > 0 && n > maxSize/int64(elem.Size) {
			n = 0
		}
		elem = types.MakeChars(elem, int(n), chars)
	}
	return elem
}

// charsOf returns how an array of the given type is read: as a string if its elements are char, signed char or unsigned
// char, qualified or not. A typedef of one (uint8_t), and every other type of one byte, is a number.
func (p *part) charsOf(array *dwarf.Entry) types.CharArray {
	e := array
	for range maxDepth {
		off, ok := p.val(e, dwarf.AttrType).(dwarf.Offset)
		if !ok {
			break
		}
		var err error
		if e, err = p.entry(off); err != nil {
			break
		}
		switch e.Tag {
		case dwarf.TagConstType, dwarf.TagVolatileType, dwarf.TagAtomicType:
			continue
		case dwarf.TagBaseType:
			if enc, _ := e.Val(dwarf.AttrEncoding).(int64); enc == encSignedChar || enc == encUnsignedChar {
				return types.KernelChars
			}
		}
		break
	}
	return types.NoChars
}

// composite converts a struct or union; its members are read on demand. A declaration is
// replaced by the definition in another unit.
func (b *Binary) composite(p *part, e *dwarf.Entry) *types.Type {
	name, _ := e.Val(dwarf.AttrName).(string)
	c := &types.Composite{Tag: name, Union: e.Tag == dwarf.TagUnionType}
	t := &types.Type{Kind: types.Struct, Comp: c}
	if declared, _ := e.Val(dwarf.AttrDeclaration).(bool); declared {
		at, ok := b.lookup().tags[tagWords[e.Tag]+name]
		if !ok {
			c.Forward = true
			return t
		}
		p = at.part
		def, err := p.entry(at.off)
		if err != nil {
			c.Forward = true
			return t
		}
		e = def
	}
	size, _ := e.Val(dwarf.AttrByteSize).(int64)
	c.Size = int(max(0, min(size, maxSize)))
	t.Size = c.Size
	if align, ok := e.Val(dwarf.AttrAlignment).(int64); ok {
		c.Align = int(align)
	}
	off := e.Offset
	c.Load = func() []types.Member { return b.load(c, p, off) }
	c.AlignOf = func() int { return alignOf(c) }
	return t
}

// load reads the members of a composite, and of those that it contains by value. A damaged file can say that a type
// contains itself, nest types without a limit, or contain a type twice in each of many levels: such members are left
// out, because all users follow members recursively.
func (b *Binary) load(c *types.Composite, p *part, off dwarf.Offset) []types.Member {
	if len(b.loading) > maxDepth {
		return nil
	}
	b.loading[c] = true
	defer delete(b.loading, c)
	weight := 1
	all := slices.DeleteFunc(b.members(p, off), func(m types.Member) bool {
		t := m.Type
		for t.Kind == types.Array {
			t = t.Elem
		}
		if t.Kind != types.Struct {
			return false
		}
		if b.loading[t.Comp] {
			return true
		}
		t.Comp.Members()
		weight += b.weights[t.Comp]
		return false
	})
	if weight > types.MaxParts {
		return nil
	}
	b.weights[c] = weight
	return all
}

// alignOf returns the alignment that the members require.
func alignOf(c *types.Composite) int {
	most := 1
	for _, m := range c.Members() {
		most = max(most, memberAlign(m.Type, 0))
	}
	return most
}

func memberAlign(t *types.Type, depth int) int {
	switch {
	case depth > maxDepth:
		return 1
	case t.Kind == types.Array:
		return memberAlign(t.Elem, depth+1)
	case t.Kind == types.Struct:
		return t.Comp.Alignment()
	case t.Size == 1 || t.Size == 2 || t.Size == 4 || t.Size == 8:
		return t.Size
	}
	return 8
}

// members reads the members of a composite. Bases of a C++ class are unnamed members: their members are found as if
// they were the class's own.
func (b *Binary) members(p *part, off dwarf.Offset) []types.Member {
	kids, _ := p.children(off)
	var all []types.Member
	for _, k := range kids {
		static, _ := k.Val(dwarf.AttrExternal).(bool)
		if k.Tag != dwarf.TagMember && k.Tag != dwarf.TagInheritance || static {
			continue
		}
		if declared, _ := k.Val(dwarf.AttrDeclaration).(bool); declared {
			continue // a static member
		}
		m := types.Member{Type: b.typeOf(p, k, 0)}
		if k.Tag == dwarf.TagMember {
			m.Name, _ = k.Val(dwarf.AttrName).(string)
		}
		at, ok := memberOffset(k)
		if !ok {
			continue // a virtual base, whose offset is stored in the object
		}
		m.Off = at
		bitfield(k, &m)
		all = append(all, m)
	}
	return all
}

// memberOffset returns a member's offset in bytes; old compilers write it as an expression.
func memberOffset(k *dwarf.Entry) (int, bool) {
	switch v := k.Val(dwarf.AttrDataMemberLoc).(type) {
	case int64:
		return int(v), v >= 0 && v <= maxSize
	case []byte:
		if len(v) > 1 && v[0] == 0x23 { // DW_OP_plus_uconst
			n, shift := uint64(0), 0
			for _, c := range v[1:] {
				n |= uint64(c&0x7f) << shift
				shift += 7
				if c&0x80 == 0 || shift > 56 {
					break
				}
			}
			return int(n), n < 1<<30
		}
		return 0, false
	}
	return 0, true
}

// bitfield places a bitfield in its storage unit.
func bitfield(k *dwarf.Entry, m *types.Member) {
	size, ok := k.Val(dwarf.AttrBitSize).(int64)
	unit := m.Type.Size
	if !ok || size <= 0 || size > 64 || unit != 1 && unit != 2 && unit != 4 && unit != 8 {
		return
	}
	first := int64(-1) // bits from the start of the composite
	if at, ok := k.Val(dwarf.AttrDataBitOffset).(int64); ok {
		first = at + 8*int64(m.Off)
	} else if from, ok := k.Val(dwarf.AttrBitOffset).(int64); ok { // counted from the most significant bit
		store := int64(unit)
		if n, ok := k.Val(dwarf.AttrByteSize).(int64); ok {
			store = n
		}
		first = 8*int64(m.Off) + 8*store - from - size
	}
	if first < 0 {
		return
	}
	m.Off = int(first/8) / unit * unit
	m.BitOff, m.BitSize = int(first)-8*m.Off, int(size)
	if m.BitOff+m.BitSize > 8*unit { // a packed field that crosses its unit
		m.Off = int(first / 8)
		m.BitOff = int(first % 8)
	}
}

func (b *Binary) enum(p *part, e *dwarf.Entry, depth int) *types.Type {
	name, _ := e.Val(dwarf.AttrName).(string)
	size, _ := e.Val(dwarf.AttrByteSize).(int64)
	def := &types.EnumDef{Tag: name}
	signed := false
	if base := b.typeOf(p, e, depth); base.Kind == types.Int {
		signed = base.Signed
		if size == 0 {
			size = int64(base.Size)
		}
	}
	kids, _ := p.children(e.Offset)
	for _, k := range kids {
		if k.Tag != dwarf.TagEnumerator {
			continue
		}
		v, _ := k.Val(dwarf.AttrConstValue).(int64)
		n, _ := k.Val(dwarf.AttrName).(string)
		def.Values = append(def.Values, types.EnumValue{Name: n, Value: v})
	}
	if size != 1 && size != 2 && size != 8 {
		size = 4
	}
	return &types.Type{Kind: types.Enum, Size: int(size), Signed: signed, Enum: def}
}
