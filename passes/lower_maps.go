// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"btc/ir"
)

// lower-maps replaces the reads and writes of plain maps by helper calls, and
// by changes in place where the value is a single word.
//
// requires:    map-layout has run; lower-aggregations may have
// establishes: no map op is left
// invalidates: dominators, liveness (it adds blocks)
//
//	v2:i64 = mapget @x, s0+0
//	->
//	v3:mapval(@x)? = call map_lookup_elem(@x, s0+0)
//	v4:i1 = icmp ne v3, 0
//	br v4, b1, b2
//	b1:
//	v5:mapval(@x) = nonnull v3
//	v6:i64 = load.u64 [v5+0]
//	jump b3(v6)
//	b2:
//	jump b3(0)
//	b3(v2:i64):
func lowerMaps(m *ir.Module) []ir.Diag {
	return rules{
		ir.OpMapGet:    lowerMapGet,
		ir.OpMapGetMem: lowerMapGetMem,
		ir.OpMapSet:    lowerMapSet,
		ir.OpMapSetMem: lowerMapSetMem,
		ir.OpMapAdd:    lowerMapAdd,
		ir.OpMapDel:    lowerMapDel,
		ir.OpMapHas:    lowerMapHas,
		ir.OpMapLen:    lowerMapLen,
		ir.OpElemGet:   lowerElemGet,
		ir.OpElemGetMem: func(l *lowering, v *ir.Value) *ir.Value {
			x := l.mapOf(v)
			l.copy(v.Args[1], l.AddImm(v.Args[2], int64(x.BPF.ValueOff)), valueSize(x.Value))
			return nil
		},
	}.apply(m)
}

func lowerMapGet(l *lowering, v *ir.Value) *ir.Value {
	x := l.mapOf(v)
	p := l.element(x, keyOf(v, 1))
	return l.IfValue(l.NotNull(p), v.Type,
		func() *ir.Value {
			p := l.NonNull(p)
			l.checkSet(x, keyOf(v, 1), p)
			return l.LoadAs(v.Type, ir.U64, p, x.BPF.ValueOff)
		},
		func() *ir.Value {
			l.absent()
			return zeroOf(v.Type)
		})
}

// lowerElemGet reads the current element of a loop over a map. map-layout places an
// aggregation that is iterated in a shared map, like one that is read.
func lowerElemGet(l *lowering, v *ir.Value) *ir.Value {
	x, p := l.mapOf(v), v.Args[1]
	if x.Shape == ir.ShapePlain {
		return l.LoadAs(v.Type, ir.U64, p, x.BPF.ValueOff)
	}
	if isExtreme(x) {
		return l.readExtreme(x, l.Emit(ir.OpMapKey, ir.TMapKey(x.Name), p), v.Pos)
	}
	read := l.aggReader(x)
	if read == nil {
		return l.refuse(v, "print the map instead", "cannot read %s: a %s() map has no single value", x.Name, x.Shape)
	}
	return read(p)
}

func lowerMapGetMem(l *lowering, v *ir.Value) *ir.Value {
	x, to := l.mapOf(v), v.Args[1]
	n := valueSize(x.Value)
	p := l.element(x, keyOf(v, 2))
	l.If(l.NotNull(p),
		func() {
			p := l.NonNull(p)
			l.checkSet(x, keyOf(v, 2), p)
			l.copy(to, l.AddImm(p, int64(x.BPF.ValueOff)), n)
		},
		func() {
			l.absent()
			l.zero(to, n)
		})
	return nil
}

// lowerMapSet stores a word: in place in an array. In a hash it calls the update helper
// whether the key exists or not: most such maps are keyed by something short-lived, like
// @start[tid], where a lookup first would fail.
func lowerMapSet(l *lowering, v *ir.Value) *ir.Value {
	x, n, key := l.mapOf(v), v.Args[1], keyOf(v, 2)
	if key != nil {
		word := l.Slot("value", 8, 8)
		l.Store(ir.U64, word, 0, n)
		l.set(x, key, word)
		return nil
	}
	p := l.element(x, nil)
	l.If(l.NotNull(p), func() {
		p := l.NonNull(p)
		l.Store(ir.U64, p, x.BPF.ValueOff, n)
		l.markSet(x, p)
	}, nil)
	return nil
}

// lowerMapSetMem stores a larger object, in a hash through the update helper, so that a
// reader sees the old or the new value and no mixture.
func lowerMapSetMem(l *lowering, v *ir.Value) *ir.Value {
	x, from, key := l.mapOf(v), v.Args[1], keyOf(v, 2)
	if key != nil {
		l.set(x, key, from)
		return nil
	}
	p := l.element(x, nil)
	l.If(l.NotNull(p), func() {
		p := l.NonNull(p)
		l.copy(l.AddImm(p, int64(x.BPF.ValueOff)), from, valueSize(x.Value))
		l.markSet(x, p)
	}, nil)
	return nil
}

// set updates a hash and counts the loss when it is full.
func (l *lowering) set(x *ir.Map, key, value *ir.Value) {
	r := l.put(x, key, value)
	if x.BPF.Loss >= 0 {
		l.IfCold(l.ICmp(ir.SLT, r, ir.Const(0)), func() {
			if l.Pos.Site == 0 {
				l.lose(x)
				return
			}
			l.If(l.ICmp(ir.EQ, r, ir.Const(-errTooBig)), func() { l.lose(x) },
				func() { l.failed("map_update_elem", r) })
		})
	}
}

// lowerMapAdd returns the previous value, which is read apart from the atomic add because
// 5.10 has no fetching form. Two CPUs may read the same value; neither increment is lost.
func lowerMapAdd(l *lowering, v *ir.Value) *ir.Value {
	x := l.mapOf(v)
	return l.change(x, l.keyIn(x, v, 2), func(p *ir.Value) *ir.Value {
		l.markSet(x, p)
		before := l.Load(ir.U64, p, x.BPF.ValueOff)
		l.AtomicAdd(ir.U64, p, x.BPF.ValueOff, v.Args[1])
		return before
	})
}

func lowerMapDel(l *lowering, v *ir.Value) *ir.Value {
	x, key := l.mapOf(v), keyOf(v, 1)
	if key != nil {
		r := l.Call("map_delete_elem", ir.TI64, ir.MapOperand(x.Name), key)
		l.checkBut("map_delete_elem", r, errNoEntry)
		gone := l.ICmp(ir.EQ, r, ir.Const(0))
		if x.BPF.Len > 0 {
			l.If(gone, func() { l.count(x, -1) }, nil)
		}
		return gone
	}
	p := l.element(x, nil)
	was := l.IfValue(l.NotNull(p), ir.TI64, func() *ir.Value {
		p := l.NonNull(p)
		was := l.isSet(x, p)
		l.zero(p, x.BPF.ValueSize)
		return was
	}, func() *ir.Value { return ir.Const(0) })
	return l.ICmp(ir.NE, was, ir.Const(0))
}

func lowerMapHas(l *lowering, v *ir.Value) *ir.Value {
	x, key := l.mapOf(v), keyOf(v, 1)
	p := l.element(x, key)
	if key != nil {
		return l.NotNull(p)
	}
	set := l.IfValue(l.NotNull(p), ir.TI64,
		func() *ir.Value { return l.isSet(x, l.NonNull(p)) },
		func() *ir.Value { return ir.Const(0) })
	return l.ICmp(ir.NE, set, ir.Const(0))
}

// isSet emits a value that is not 0 if the scalar at p is set. A histogram has no word for that
// and counts as set.
func (l *lowering) isSet(x *ir.Map, p *ir.Value) *ir.Value {
	if x.BPF.Present < 0 {
		return ir.Const(1)
	}
	return l.Load(ir.U64, p, x.BPF.Present)
}
