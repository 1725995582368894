// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"fmt"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/ir"
)

// temp returns the address of x's value, in the storage form of type t, in a
// temporary. Bytes that the value does not cover are zero.
func (f *fn) temp(x ast.Expr, t *types.Type) *ir.Value {
	st := t.Store()
	slot := f.Slot("tmp", st.Size, max(1, st.Align))
	f.store(x, slot, t, true)
	return slot
}

// Slot returns a memory object; an empty value gets one byte, so that it has an address.
func (f *fn) Slot(name string, size, align int) *ir.Value {
	return f.Builder.Slot(name, max(1, size), align)
}

// addr returns the address of a value in memory, in the storage form of its own type. It may be the address of a
// variable, so callers must copy before they modify it.
func (f *fn) addr(x ast.Expr) *ir.Value {
	x = f.body.Desugared(x)
	e := f.body.Expr(x)
	if e.Call != nil && e.Call.Option != nil {
		return f.optionAddr(e.Call.Option)
	}
	if e.Const == nil && e.Location == nil && e.Call == nil && !e.ProbeString {
		switch x := x.(type) {
		case *ast.Var:
			return f.vars[e.Var]
		case *ast.TupleIndex, *ast.Index, *ast.Field:
			a, _ := f.element(x, e)
			return a
		case *ast.Positional:
			return f.GlobalAddr(ir.TMapVal(".rodata.params", false), strParam(x.N), 0)
		case *ast.Comptime:
			return f.addr(x.X)
		}
	}
	st := e.Type.Store()
	slot := f.Slot(slotName(e.Type), st.Size, max(1, st.Align))
	f.store(x, slot, e.Type, false)
	return slot
}

func slotName(t *types.Type) string {
	if t.Kind == types.String {
		return "str"
	}
	return "tmp"
}

// store writes x's value to dst in the storage form of type t, which is x's type or wider. exact means that bytes
// after a string's end must be zero, as keys and bytewise comparisons require.
func (f *fn) store(x ast.Expr, dst *ir.Value, t *types.Type, exact bool) {
	x = ast.Unparen(x)
	if t.IsScalar() {
		f.Store(ir.U64, dst, 0, f.num(x))
		return
	}
	e := f.body.Expr(x)
	defer f.here(x)()
	switch x := x.(type) {
	case *ast.Ternary:
		if e.Const == nil {
			f.choose(x.Cond, func() { f.store(x.Then, dst, t, exact) }, func() { f.store(x.Else, dst, t, exact) })
			return
		}
	case *ast.IfExpr:
		f.ifExpr(x, func(v ast.Expr) { f.store(v, dst, t, exact) })
		return
	case *ast.Block:
		f.branchBody(x, func(v ast.Expr) { f.store(v, dst, t, exact) })
		return
	}
	switch t.Kind {
	case types.String:
		f.storeString(x, dst, t, exact)
	case types.Tuple, types.Record:
		f.storeFields(x, dst, t)
	default:
		f.storeObject(x, dst, t)
	}
}

// storeString writes a string into capacity t.Size.
func (f *fn) storeString(x ast.Expr, dst *ir.Value, t *types.Type, exact bool) {
	if lit, ok := f.literal(x); ok {
		n := min(t.Size, len(lit)+1)
		if exact || t.Size <= smallObject {
			n = t.Size
		}
		if exact {
			lit = cString(lit)
		}
		s := f.Emit(ir.OpStrLit, ir.TVoid, dst)
		s.Sym, s.Imm = lit[:min(n, len(lit))], int64(n)
		return
	}
	e := f.body.Expr(x)
	if e.ProbeString {
		f.probeString(x, e, dst, t)
		return
	}
	own := min(e.Type.Size, t.Size)
	if t.Size <= smallObject && own < t.Size {
		exact = true // small strings are copied whole
	}
	if e.Call != nil {
		if exact {
			f.zero(dst, t.Size)
		}
		if e.Call.Sub != nil && own < e.Type.Size {
			f.copyString(f.addr(x), dst, own, t, exact)
			return
		}
		f.stringCall(x, e, dst, own, exact)
		return
	}
	if e.Location != nil {
		if exact {
			f.zero(dst, t.Size)
		}
		if e.Type.Raw {
			f.readWhole(e, dst, own)
		} else {
			f.readString(e, dst, own)
		}
		return
	}
	switch x := x.(type) {
	case *ast.Map, *ast.MapElem:
		m, keys := f.mapOf(x)
		key := f.key(m, keys)
		if m.Value.Size <= t.Size {
			f.mapOp(ir.OpMapGetMem, ir.TVoid, m, key, dst)
			if exact {
				f.zero(f.AddImm(dst, int64(m.Value.Size)), t.Size-m.Value.Size)
			}
			return
		}
	case *ast.Cast: // the same string with another capacity
		own = min(own, f.body.Type(x.X).Size)
		f.copyString(f.addr(x.X), dst, own, t, exact)
		return
	}
	if e.Type.Raw {
		f.copy(dst, f.addr(x), own)
		if exact && t.Size > own {
			f.zero(f.AddImm(dst, int64(own)), t.Size-own)
		}
		return
	}
	f.copyString(f.addr(x), dst, own, t, exact)
}

// copyString copies a string of at most own bytes to dst.
func (f *fn) copyString(src, dst *ir.Value, own int, t *types.Type, exact bool) {
	f.Emit(ir.OpStrCopy, ir.TI64, dst, src).Imm = int64(own)
	if exact && t.Size > own {
		f.zero(f.AddImm(dst, int64(own)), t.Size-own)
	}
}

// storeFields writes a tuple or record, each field with its type in t.
func (f *fn) storeFields(x ast.Expr, dst *ir.Value, t *types.Type) {
	st := t.Store()
	switch x := f.body.Desugared(x).(type) {
	case *ast.Tuple:
		f.clearPadding(dst, t)
		for i, el := range x.Elems {
			f.store(el, f.AddImm(dst, int64(st.Offsets[i])), t.Fields[i].Type, true)
		}
		return
	case *ast.Record:
		f.clearPadding(dst, t)
		for _, el := range x.Fields {
			for i, fl := range t.Fields {
				if fl.Name == el.Name.Text {
					f.store(el.Value, f.AddImm(dst, int64(st.Offsets[i])), fl.Type, true)
				}
			}
		}
		return
	}
	if known := f.body.Expr(x).Known; known != nil {
		f.storeKnown(known, dst, t)
		return
	}
	if m := f.body.Expr(x).Map; m != nil && m.Shape == "stats" {
		f.storeStats(x, dst, t)
		return
	}
	own := f.body.Type(x)
	src := dst
	same := own.Store().Size == st.Size && types.Equal(own, t)
	if !same {
		os := own.Store()
		src = f.Slot("tmp", os.Size, os.Align)
	}
	f.storeObject(x, src, own)
	if !same {
		f.widen(dst, t, src, own)
	}
}

// storeStats writes the record (count, average, total) of a stats map's element.
func (f *fn) storeStats(x ast.Expr, dst *ir.Value, t *types.Type) {
	m, keys := f.mapOf(x)
	key := f.key(m, keys)
	for i, part := range []int64{ir.AggCount, ir.AggValue, ir.AggTotal} {
		v := f.mapOp(ir.OpAggGet, ir.TI64, m, key)
		v.Imm = part
		f.Store(ir.U64, dst, t.Store().Offsets[i], v)
	}
}

// storeKnown writes a record whose values are known.
func (f *fn) storeKnown(fields []check.KnownField, dst *ir.Value, t *types.Type) {
	f.zero(dst, t.Store().Size)
	for i, fl := range t.Fields {
		off := t.Store().Offsets[i]
		for _, k := range fields {
			switch {
			case k.Name != fl.Name:
			case fl.Type.Kind == types.String:
				s := f.Emit(ir.OpStrLit, ir.TVoid, f.AddImm(dst, int64(off)))
				s.Sym, s.Imm = k.Str, int64(fl.Type.Size)
			default:
				f.Store(ir.U64, dst, off, ir.Const(k.Int))
			}
		}
	}
}

// widen copies a tuple into one with wider fields.
func (f *fn) widen(dst *ir.Value, t *types.Type, src *ir.Value, own *types.Type) {
	f.zero(dst, t.Store().Size)
	to, from := t.Store().Offsets, own.Store().Offsets
	for i := range t.Fields {
		j := i
		if t.Kind == types.Record {
			for k, fl := range own.Fields {
				if fl.Name == t.Fields[i].Name {
					j = k
				}
			}
		}
		d, s := f.AddImm(dst, int64(to[i])), f.AddImm(src, int64(from[j]))
		tt, ot := t.Fields[i].Type, own.Fields[j].Type
		switch {
		case tt.Kind == types.Tuple || tt.Kind == types.Record:
			f.widen(d, tt, s, ot)
		case tt.Kind == types.Buffer && tt.Size < ot.Size:
			f.cutBuffer(d, tt.Size, s)
		default:
			f.copy(d, s, min(tt.Store().Size, ot.Store().Size))
		}
	}
}

// cutBuffer copies the first bytes of a longer buffer into one of the given capacity.
func (f *fn) cutBuffer(dst *ir.Value, capacity int, src *ir.Value) {
	n, top := f.Load(ir.U32, src, 0), ir.Const(int64(capacity))
	f.copy(dst, src, 4+capacity)
	f.Store(ir.U32, dst, 0, f.Select(f.ICmp(ir.UGT, n, top), top, n))
}

func (f *fn) copy(dst, src *ir.Value, n int) {
	if n > 0 && dst != src {
		f.Emit(ir.OpMemCopy, ir.TVoid, dst, src).Imm = int64(n)
	}
}

// storeObject writes an object of fixed size that has only one storage form.
func (f *fn) storeObject(x ast.Expr, dst *ir.Value, t *types.Type) {
	x = f.body.Desugared(x)
	e := f.body.Expr(x)
	size := t.Store().Size
	if t.Kind == types.Buffer {
		own := e.Type.Store().Size
		switch {
		case own > size && e.Call != nil && e.Call.Sub == nil:
			defer f.here(x)()
			f.bufInto(e.Call, dst, t.Size)
			return
		case own > size:
			f.cutBuffer(dst, t.Size, f.addr(x))
			return
		case own < size:
			f.zero(dst, size)
			size = own
		}
	}
	switch {
	case e.Call != nil:
		f.objectCall(x, e, dst, t)
		return
	case e.Location != nil:
		f.readObject(e, dst)
		return
	}
	switch x := x.(type) {
	case *ast.Map, *ast.MapElem:
		m, keys := f.mapOf(x)
		f.mapOp(ir.OpMapGetMem, ir.TVoid, m, f.key(m, keys), dst)
	case *ast.Cast:
		f.castObject(x, dst, t)
	case *ast.Var, *ast.TupleIndex, *ast.Index, *ast.Field, *ast.Comptime:
		f.copy(dst, f.addr(x), size)
	case *ast.Tuple, *ast.Record:
		f.storeFields(x, dst, t)
	default:
		panic(fmt.Sprintf("BUG: no code for an object %T of type %s at %s", x, t, x.Span()))
	}
}

// castObject writes an integer as an array of its bytes, or an array as an array of another element type.
func (f *fn) castObject(x *ast.Cast, dst *ir.Value, t *types.Type) {
	from := f.body.Type(x.X)
	if from.IsScalar() {
		v, n := f.num(x.X), t.Elem.Size // the only alignment that is known
		for off := 0; off < t.Size; off += n {
			part := v
			if off > 0 {
				part = f.LShr(v, ir.Const(int64(8*off)))
			}
			f.Store(ir.MemKindOf(n, false), dst, off, part)
		}
		return
	}
	if e := f.body.Expr(ast.Unparen(x.X)); e.Location != nil && e.Type.Kind == types.String && e.Location.Chars == 0 {
		f.readObject(e, dst) // all its bytes, even after a NUL
		return
	}
	n := min(t.Store().Size, from.Store().Size)
	if n < t.Size {
		f.zero(dst, t.Size)
	}
	f.copy(dst, f.addr(x.X), n)
}
