package build

import (
	"btc/frontend/types"
	"btc/ir"
)

// layoutKinds are the language's types by the kind of layout that stores them.
// Aggregations are not here: their layout is that of the integers they count.
var layoutKinds = map[types.Kind]ir.LayoutKind{
	types.None: ir.LNone, types.Int: ir.LInt, types.Bool: ir.LBool, types.Enum: ir.LEnum,
	types.String: ir.LString, types.Buffer: ir.LBuffer, types.Pointer: ir.LPtr, types.Array: ir.LArray,
	types.Struct: ir.LRecord, types.Tuple: ir.LTuple, types.Record: ir.LRecord,
	types.Kstack: ir.LKstack, types.Ustack: ir.LUstack, types.Ksym: ir.LKsym, types.Usym: ir.LUsym,
	types.Inet: ir.LInet, types.Mac: ir.LMac, types.Timestamp: ir.LTimestamp,
	types.Username: ir.LUsername, types.CgroupPath: ir.LCgroup, types.Probe: ir.LProbe,
}

// layoutOf converts a language type to the layout of its stored values
// (docs/layouts.md). stackMap names the map that holds the frames of a stack type.
func layoutOf(t *types.Type, stackMap func(*types.Type) string) *ir.Layout {
	kind, ok := layoutKinds[t.Kind]
	if !ok {
		panic("BUG: no layout for a value of type " + t.String())
	}
	s := t.Store()
	l := &ir.Layout{Kind: kind, Size: s.Size, Align: s.Align, Signed: t.Signed, Name: t.String()}
	switch t.Kind {
	case types.Enum:
		l.Enum = make(map[int64]string, len(t.Enum.Values))
		for _, v := range t.Enum.Values {
			if _, dup := l.Enum[v.Value]; !dup { // the first name of a value is the one printed
				l.Enum[v.Value] = v.Name
			}
		}
	case types.Tuple, types.Record:
		for i, f := range t.Fields {
			l.Fields = append(l.Fields, ir.Field{Name: f.Name, Off: s.Offsets[i], Layout: layoutOf(f.Type, stackMap)})
		}
	case types.Array:
		l.Elem, l.Count = inPlace(t.Elem), t.Len
	case types.Struct:
		for _, m := range t.Comp.Members() {
			if e := inPlace(m.Type); e != nil && m.BitSize == 0 {
				l.Fields = append(l.Fields, ir.Field{Name: m.Name, Off: m.Off, Layout: e})
			}
		}
	case types.Kstack, types.Ustack:
		l.Stack, l.Depth, l.Mode = stackMap(t), t.Depth, t.Mode
	case types.Timestamp:
		l.Format, l.Clock = t.Format, t.Clock
	}
	return l
}

// inPlace is the layout of an object inside a C array or struct, where it has
// its C size. It is nil for what cannot be printed.
func inPlace(t *types.Type) *ir.Layout {
	if t.Kind == types.Func || t.Kind == types.Float || t.Kind == types.None {
		return nil
	}
	l := layoutOf(t, nil)
	switch t.Kind {
	case types.Int, types.Bool, types.Enum:
		l.Size, l.Align = t.Size, t.Align()
	}
	return l
}
