// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"slices"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/ir"
)

// mapOf returns the map that an expression names, and its key expressions.
func (f *fn) mapOf(x ast.Expr) (*check.Map, []ast.Expr) {
	x = ast.Unparen(x)
	m := f.body.Expr(x).Map
	if el, ok := x.(*ast.MapElem); ok {
		return m, el.Keys
	}
	return m, nil
}

// key builds a map's key in memory and returns its address; nil for a scalar map.
func (f *fn) key(m *check.Map, keys []ast.Expr) *ir.Value {
	if m.Scalar() {
		return nil
	}
	st := m.Key.Store()
	slot := f.Slot("key", st.Size, max(8, st.Align))
	f.keyInto(slot, m, keys)
	return slot
}

// keyInto builds a map's key at an address.
func (f *fn) keyInto(slot *ir.Value, m *check.Map, keys []ast.Expr) {
	if len(keys) == 1 {
		f.store(keys[0], slot, m.Key, true)
		return
	}
	st := m.Key.Store()
	f.clearPadding(slot, m.Key)
	for i, k := range keys {
		f.store(k, f.AddImm(slot, int64(st.Offsets[i])), m.Key.Fields[i].Type, true)
	}
}

// clearPadding zeroes a tuple whose fields do not cover it.
func (f *fn) clearPadding(addr *ir.Value, t *types.Type) {
	st := t.Store()
	covered := 0
	for _, fl := range t.Fields {
		covered += fl.Type.Store().Size
	}
	if covered != st.Size {
		f.zero(addr, st.Size)
	}
}

// mapOp emits an op on a map with its operands and, for keyed maps, the key.
func (f *fn) mapOp(op ir.Op, t ir.Type, m *check.Map, key *ir.Value, args ...*ir.Value) *ir.Value {
	all := append([]*ir.Value{ir.MapOperand(m.Name)}, args...)
	if key != nil {
		all = append(all, key)
		f.noteUpdate(op, m)
	}
	return f.Emit(op, t, all...)
}

// noteUpdate records where the script adds elements to a keyed map.
func (f *fn) noteUpdate(op ir.Op, m *check.Map) {
	x := f.m.Map(m.Name)
	if op.Info().Effect != ir.Writes || op == ir.OpMapDel || op == ir.OpMapGetMem || x == nil {
		return
	}
	chain := f.chain(f.span)
	i := slices.IndexFunc(x.Updates, func(u ir.UpdatePos) bool { return u.Pos == f.Pos })
	switch {
	case i < 0:
		x.Updates = append(x.Updates, ir.UpdatePos{Pos: f.Pos, End: f.end, Chain: chain})
	case !slices.Equal(x.Updates[i].Chain, chain):
		x.Updates[i].Chain = nil
	}
}

// readMap returns a map's scalar value, or an aggregation read as a number.
func (f *fn) readMap(x ast.Expr, e *check.Expr) *ir.Value {
	m, keys := f.mapOf(x)
	if m.Shape != "plain" {
		return f.mapOp(ir.OpAggGet, ir.TI64, m, f.key(m, keys))
	}
	return f.mapOp(ir.OpMapGet, irType(m.Value), m, f.key(m, keys))
}
