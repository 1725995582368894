// SPDX-License-Identifier: Apache-2.0

package cdef

import (
	"errors"
	"fmt"

	"btc/frontend/cpp"
	"btc/frontend/diag"
	"btc/frontend/types"
)

// compositeType reads "struct [tag] [{ members }]".
func (p *parser) compositeType(at diag.Span) (*types.Type, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errTooDeep
	}
	defer func() { p.depth-- }()
	kind := p.next().Text
	attr := p.attributes()
	tag := ""
	if p.peek().Kind == cpp.Word {
		tag = p.next().Text
	}
	if !p.accept("{") {
		if tag == "" {
			return nil, fmt.Errorf("%s without a name and a body", kind)
		}
		return p.env.reference(kind, tag), nil
	}
	comp := &types.Composite{Tag: tag, Union: kind == "union", Align: 1}
	t := types.MakeStruct(comp)
	if tag != "" {
		if _, dup := p.env.tags[kind+" "+tag]; dup && !p.env.declared(kind, tag) {
			return nil, fmt.Errorf("%s %s is defined twice", kind, tag)
		}
		if old, ok := p.env.tags[kind+" "+tag]; ok { // complete the type that pointers already refer to
			t, comp = old, old.Comp
		}
		comp.Forward = true // until its members are known
		p.env.tags[kind+" "+tag] = t
	}
	b := &layout{union: comp.Union, limit: p.env.pack}
	if err := p.members(b); err != nil {
		return nil, err
	}
	after := p.attributes()
	attr.packed = attr.packed || after.packed
	attr.aligned = max(attr.aligned, after.aligned)
	b.finish(comp, attr)
	comp.Forward = false
	t.Size = comp.Size
	if t.Parts() > types.MaxParts {
		comp.Load = nil
		return nil, fmt.Errorf("%s %s has more than %d members, including nested ones", kind, tag, types.MaxParts)
	}
	if tag != "" && at.Valid() {
		p.env.hintShadow(at, kind, tag, comp)
	}
	return t, nil
}

// reference finds a tag that is used but not defined here. A tag that neither the script nor the target defines
// becomes a forward declaration.
func (e *Env) reference(kind, tag string) *types.Type {
	if t, ok := e.Tagged(kind, tag); ok {
		return t
	}
	t := types.MakeStruct(&types.Composite{Tag: tag, Union: kind == "union", Align: 1, Forward: true})
	e.tags[kind+" "+tag] = t
	return t
}

func (e *Env) declared(kind, tag string) bool {
	t := e.tags[kind+" "+tag]
	return t != nil && t.Comp != nil && t.Comp.Forward
}

// hintShadow warns when the kernel has another type of the same name. Types of modules are ignored: they often have
// generic names, such as struct flags.
func (e *Env) hintShadow(at diag.Span, kind, tag string, own *types.Composite) {
	k, ok := e.kernelTag(kind, tag)
	if !ok || k.Comp == nil || k.Comp.Size == own.Size && sameOffsets(k.Comp, own) {
		return
	}
	if t, ok := e.target.Struct(tag); kind == "struct" && ok && t.InModule {
		return
	}
	e.diags.Add(diag.ShadowsKernelType, at, "%s %s is also a type of the kernel, with another layout", kind, tag).
		Hint("the script's definition is used unchanged; without it the kernel's fields are relocated on every host")
}

func sameOffsets(k, own *types.Composite) bool {
	for _, m := range own.Members() {
		if m.Name == "" {
			continue
		}
		if f, ok := k.Find(m.Name); !ok || f.Off != m.Off || f.BitOff != m.BitOff {
			return false
		}
	}
	return true
}

// field is a member before layout.
type field struct {
	name string
	typ  *types.Type
	bits int // width of a bitfield; -1 for other members
	attr attribute
}

// members reads "... }".
func (p *parser) members(b *layout) error {
	for !p.accept("}") {
		if p.peek().Kind == cpp.End {
			return errors.New("expected '}'")
		}
		if p.accept(";") {
			continue
		}
		if err := p.memberLine(b); err != nil {
			return err
		}
	}
	return nil
}

// memberLine reads one declaration of members with its ';'.
func (p *parser) memberLine(b *layout) error {
	base, err := p.specifiers(diag.Span{})
	if err != nil {
		return err
	}
	for {
		f := field{bits: -1}
		if f.name, f.typ, err = p.declarator(base); err != nil {
			return err
		}
		if p.accept(":") {
			c, err := p.binary(0)
			if err != nil {
				return err
			}
			if c.IsStr || c.Int < 0 || int(c.Int) > 8*f.typ.Size || !f.typ.IsInteger() {
				return fmt.Errorf("invalid width of bitfield %s", f.name)
			}
			f.bits = int(c.Int)
		}
		f.attr = p.attributes()
		if err := checkMember(f); err != nil {
			return err
		}
		b.fields = append(b.fields, f)
		if p.accept(",") {
			continue
		}
		if p.peek().Kind == cpp.Punct && p.peek().Text == "}" {
			return nil // compilers accept the last member without its ';'
		}
		return p.expect(";")
	}
}

func checkMember(f field) error {
	elem := f.typ
	for elem.Kind == types.Array {
		elem = elem.Elem
	}
	switch {
	case elem.Kind == types.Struct && elem.Comp.Forward:
		return fmt.Errorf("member %s has unknown type %s", f.name, elem)
	case elem.Kind == types.None, elem.Kind == types.Func:
		return fmt.Errorf("member %s has no type", f.name)
	case f.name == "" && f.bits < 0 && (elem.Kind != types.Struct || elem != f.typ):
		return errors.New("missing member name")
	}
	return nil
}

// layout lays out members by the rules of C on Linux (System V ABI, all 64-bit
// little-endian machines).
type layout struct {
	union  bool
	limit  int // #pragma pack: largest alignment, 0 for none
	fields []field

	bit, size, align int
	members          []types.Member
}

// finish computes the layout of comp.
func (b *layout) finish(comp *types.Composite, attr attribute) {
	b.align = 1
	for _, f := range b.fields {
		if b.union {
			b.bit = 0
		}
		b.addField(f, attr.packed)
		b.size = max(b.size, (b.bit+7)/8)
	}
	b.align = max(b.align, attr.aligned)
	comp.Align = b.align
	comp.Size = (b.size + b.align - 1) / b.align * b.align
	all := b.members
	comp.Load = func() []types.Member { return all }
}

func (b *layout) addField(f field, packed bool) {
	packed = packed || f.attr.packed
	align := f.typ.Align()
	if packed {
		align = 1
	}
	if b.limit > 0 {
		align = min(align, b.limit)
	}
	align = max(align, f.attr.aligned)
	m := types.Member{Name: f.name, Type: f.typ}
	if f.bits < 0 {
		b.bit = (b.bit + 8*align - 1) / (8 * align) * 8 * align
		m.Off = b.bit / 8
		b.bit += 8 * f.typ.Size
		b.align = max(b.align, align)
		b.members = append(b.members, m)
		return
	}
	unit := 8 * f.typ.Size
	if f.bits == 0 { // ":0" closes the unit
		b.bit = (b.bit + unit - 1) / unit * unit
		return
	}
	if f.attr.aligned > 0 {
		b.bit = (b.bit + 8*align - 1) / (8 * align) * 8 * align
	}
	if !packed && b.limit == 0 && b.bit/unit != (b.bit+f.bits-1)/unit {
		b.bit = (b.bit + unit - 1) / unit * unit
	}
	if f.name != "" {
		b.align = max(b.align, align)
		b.members = append(b.members, b.bitfield(m, f.bits))
	}
	b.bit += f.bits
}

// bitfield allocates a bitfield at the current bit. In packed structs it may cross the storage units of its type:
// then its offset counts from the byte that contains its first bit.
func (b *layout) bitfield(m types.Member, bits int) types.Member {
	m = placeBits(m, b.bit, bits)
	if m.BitOff+bits > 8*m.Type.Size {
		m.Off, m.BitOff = b.bit/8, b.bit%8
	}
	return m
}

// enumType reads "enum [tag] [{ enumerators }]".
func (p *parser) enumType() (*types.Type, error) {
	p.next()
	p.attributes()
	tag := ""
	if p.peek().Kind == cpp.Word {
		tag = p.next().Text
	}
	if !p.accept("{") {
		if t, ok := p.env.Tagged("enum", tag); ok {
			return t, nil
		}
		return nil, fmt.Errorf("unknown enum %s", tag)
	}
	def := &types.EnumDef{Tag: tag}
	size, signed, next := 4, false, int64(0)
	for !p.accept("}") {
		name := p.next()
		if name.Kind != cpp.Word {
			return nil, fmt.Errorf("expected an enumerator name, found '%s'", name.Text)
		}
		if p.accept("=") {
			c, err := p.constant()
			if err != nil {
				return nil, err
			}
			next = c.Int
		}
		def.Values = append(def.Values, types.EnumValue{Name: name.Text, Value: next})
		p.env.enums[name.Text] = Const{Type: literal(next), Int: next} // so that later ones can refer to it
		signed = signed || next < 0
		if next < -1<<31 || next > 1<<32-1 {
			size = 8
		}
		next++
		if !p.accept(",") {
			if err := p.expect("}"); err != nil {
				return nil, err
			}
			break
		}
	}
	if a := p.attributes(); a.packed {
		size = 1
	}
	t := types.MakeEnum(def, size, signed)
	for _, v := range def.Values {
		p.env.enums[v.Name] = Const{Type: t, Int: v.Value}
	}
	if tag != "" {
		p.env.tags["enum "+tag] = t
	}
	return t, nil
}
