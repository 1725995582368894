// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"fmt"
	"strconv"

	"btc/frontend/types"
	"btc/ir"
)

// layout returns the storage layout of a type, for maps and events.
func (b *builder) layout(t *types.Type) *ir.Layout {
	if l := b.layouts[t]; l != nil {
		return l
	}
	l := b.makeLayout(t)
	b.layouts[t] = l
	return l
}

var plainKinds = map[types.Kind]ir.LayoutKind{
	types.Int: ir.LInt, types.Bool: ir.LBool, types.Enum: ir.LEnum, types.Pointer: ir.LPtr,
	types.String: ir.LString, types.Buffer: ir.LBuffer, types.Array: ir.LArray, types.Struct: ir.LRecord,
	types.Tuple: ir.LTuple, types.Record: ir.LRecord, types.Kstack: ir.LKstack, types.Ustack: ir.LUstack,
	types.Ksym: ir.LKsym, types.Usym: ir.LUsym, types.Inet: ir.LInet, types.Mac: ir.LMac,
	types.Timestamp: ir.LTimestamp, types.Username: ir.LUsername, types.CgroupPath: ir.LCgroup,
	types.Probe: ir.LProbe, types.None: ir.LNone, types.Float: ir.LNone,
}

func (b *builder) makeLayout(t *types.Type) *ir.Layout {
	kind, ok := plainKinds[t.Kind]
	if !ok {
		if !t.IsAgg() {
			panic("BUG: no layout for type " + t.String())
		}
		kind = ir.LInt
	}
	st := t.Store()
	l := &ir.Layout{Kind: kind, Size: st.Size, Align: st.Align, Signed: t.Signed, Name: t.String()}
	switch t.Kind {
	case types.Enum:
		l.Enum = enumTable(t.Enum)
	case types.Array:
		if t.Chars != types.NoChars && t.Len > 0 {
			l.Kind = ir.LString
			if t.Chars == types.ScriptChars {
				l.Count = t.Len
			}
			break
		}
		l.Elem, l.Count = b.memberLayout(t.Elem), t.Len
	case types.Struct:
		l.CORE, l.Fields = t.Comp.CORE, b.members(t.Comp, 0)
	case types.Tuple, types.Record:
		for i, fl := range t.Fields {
			l.Fields = append(l.Fields, ir.Field{Name: fl.Name, Off: st.Offsets[i], Layout: b.layout(fl.Type)})
		}
	case types.Kstack, types.Ustack:
		l.Stack, l.Depth, l.Mode = b.stackMap(t.Kind == types.Ustack, t.Depth), t.Depth, t.Mode
	case types.Timestamp, types.CgroupPath:
		l.Format, l.FormatFrom, l.Clock = t.Format, b.stringFrom(t.FormatFrom), t.Clock
	}
	return l
}

func enumTable(e *types.EnumDef) map[int64]string {
	out := map[int64]string{}
	for _, v := range e.Values {
		if _, ok := out[v.Value]; !ok {
			out[v.Value] = v.Name
		}
	}
	return out
}

// memberLayout returns the layout of a type inside a struct or array: integers keep
// their C size there.
func (b *builder) memberLayout(t *types.Type) *ir.Layout {
	if !t.IsScalar() && t.Kind != types.Float {
		return b.layout(t)
	}
	l := *b.makeLayout(t)
	l.Size, l.Align = t.Size, t.Align()
	return &l
}

// members returns the fields of a struct, including those of anonymous members. Fields that
// cannot be printed are omitted; a floating point number prints as null.
func (b *builder) members(c *types.Composite, base int) []ir.Field {
	var out []ir.Field
	for _, m := range c.Members() {
		switch {
		case m.Name == "" && m.Type.Kind == types.Struct:
			out = append(out, b.members(m.Type.Comp, base+m.Off)...)
		case m.Name == "" || m.Type.Kind == types.Func:
		default:
			out = append(out, ir.Field{
				Name: m.Name, Off: base + m.Off, BitOff: m.BitOff, BitSize: m.BitSize,
				Layout: b.memberLayout(m.Type),
			})
		}
	}
	return out
}

// stackMap returns the name of the map with the frames of stacks of a kind and depth; it is created at the first use.
// Stacks of depth 0 are never stored, so they share the map of depth 1.
func (b *builder) stackMap(user bool, depth int) string {
	depth = max(1, depth)
	name := fmt.Sprintf("kstack_%d", depth)
	if user {
		name = fmt.Sprintf("ustack_%d", depth)
	}
	if b.m.Map(name) == nil {
		b.m.Maps = append(b.m.Maps,
			&ir.Map{Name: name, Shape: ir.ShapeStack, Depth: depth, User: user, Pos: ir.NoPos})
	}
	return name
}

// Numbers of different stacks of a kind and depth that are kept, unless the script sets max_stacks:
// as many as its maps may hold, within these bounds. A table of kstack of the largest size takes 71
// MB; the kernel allocates it when the object is loaded, because a program that is interrupted cannot
// allocate memory on every kernel. The loader lowers what is much for the host's memory.
const (
	minStacks = 4096
	maxStacks = 1 << 16
)

// sizeStacks sets the sizes of the stack tables.
func (b *builder) sizeStacks() {
	set, _ := strconv.Atoi(b.info.Config.Values["max_stacks"])
	for _, x := range b.m.Maps {
		if x.Shape != ir.ShapeStack {
			continue
		}
		if x.MaxEntries = set; set > 0 {
			continue
		}
		held := 0
		for _, m := range b.m.Maps {
			n := 1
			if m.Key != nil {
				n = m.MaxEntries
			}
			held += min(n, maxStacks) * min(stacksIn(m.Key, x.Name)+stacksIn(m.Value, x.Name), maxStacks)
		}
		x.MaxEntries = min(max(held, minStacks), maxStacks)
	}
}

// stacksIn returns the number of stacks of a table in an object with a layout.
func stacksIn(l *ir.Layout, table string) int {
	if l == nil {
		return 0
	}
	if l.Stack == table {
		return 1
	}
	n := l.Count * stacksIn(l.Elem, table)
	for i := range l.Fields {
		n += stacksIn(l.Fields[i].Layout, table)
	}
	return n
}
