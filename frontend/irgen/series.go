// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/ir"
)

// A tseries map has an element for each key and each interval that it keeps. The map's key is the script's key
// followed by the interval's number modulo the number of intervals (u64), or that number alone for a scalar.

// seriesLayout returns the layout of a tseries map's key; key is the script's, nil
// for a scalar.
func (b *builder) seriesLayout(key *ir.Layout) *ir.Layout {
	bucket := b.layout(types.TUint64)
	out := &ir.Layout{Kind: ir.LTuple, Align: 8}
	if key != nil {
		out.Fields = append(out.Fields, ir.Field{Layout: key})
		out.Size = seriesKeySize(key.MemSize())
	}
	out.Fields = append(out.Fields, ir.Field{Off: out.Size, Layout: bucket})
	out.Size += 8
	out.Name = "(" + bucket.Name + ")"
	if key != nil {
		out.Name = "(" + key.Name + "," + bucket.Name + ")"
	}
	return out
}

// seriesKeySize returns the offset of the interval's number after a key.
func seriesKeySize(key int) int { return (key + 7) / 8 * 8 }

// seriesKey builds the key without the interval's number and returns the slot and
// the number's address.
func (f *fn) seriesKey(m *check.Map, keys []ast.Expr) (key, bucket *ir.Value) {
	if m.Scalar() {
		slot := f.Slot("key", 8, 8)
		return slot, slot
	}
	st := m.Key.Store()
	size := seriesKeySize(st.Size)
	slot := f.Slot("key", size+8, 8)
	if size != st.Size {
		f.zero(f.AddImm(slot, int64(size-8)), 8)
	}
	f.keyInto(slot, m, keys)
	return slot, f.AddImm(slot, int64(size))
}

// series generates "@m[keys] = tseries(n, ...)".
func (f *fn) series(m *check.Map, keys []ast.Expr, c *check.Call) {
	n := f.num(c.Args[0])
	now := f.seriesClock()
	interval := f.Binary(ir.OpUDiv, now, ir.Const(m.Interval))
	key, bucket := f.seriesKey(m, keys)
	f.Store(ir.U64, bucket, 0, f.Binary(ir.OpUMod, interval, ir.Const(m.Intervals)))
	f.mapOp(ir.OpTseries, ir.TVoid, m, key, n, now, interval)
}

// seriesClock returns the time in ns that decides the interval.
func (f *fn) seriesClock() *ir.Value {
	if name := f.info.SeriesClock; name != "" {
		for _, m := range f.info.Maps {
			if m.Name == name && m.Shape == "plain" && m.Scalar() {
				return f.mapOp(ir.OpMapGet, ir.TI64, m, nil)
			}
		}
	}
	v := f.Emit(ir.OpNsecs, ir.TI64)
	v.Imm = softTAI
	return v
}

// softTAI is the clock of tseries, numbered as in OpNsecs: TAI computed from the boot clock, which every kernel has.
const softTAI = 3

// eachInterval generates code for the element of every interval of a key; the result is 1 if the code's result is 1
// for any, else 0.
func (f *fn) eachInterval(m *check.Map, keys []ast.Expr, do func(key *ir.Value) *ir.Value) *ir.Value {
	key, bucket := f.seriesKey(m, keys)
	iter := f.Emit(ir.OpRangeIter, ir.TI64, ir.Const(m.Intervals))
	type found struct{ m *check.Map }
	any := found{m}
	f.setVar(any, ir.Const(0))
	head, body, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head)
	f.start(head, false)
	next := f.Emit(ir.OpRangeNext, ir.TI64, iter)
	f.branch(f.ICmp(ir.NE, next, ir.Const(0)), body, rest)
	f.start(body, true)
	f.Store(ir.U64, bucket, 0, f.AddImm(next, -1))
	f.setVar(any, f.Or(f.getVar(any, ir.TI64), f.BoolInt(do(key))))
	f.jump(head)
	f.seal(head)
	f.start(rest, true)
	return f.getVar(any, ir.TI64)
}
