// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"math"
	"math/bits"
	"strings"

	"btc/ir"
)

// lower-aggregations replaces count, sum, avg, min, max, stats, hist, lhist,
// tseries and aggget by in-place updates of map values.
//
// requires:    map-layout has run
// establishes: none of these ops is left
// invalidates: dominators, liveness (it adds blocks)
//
//	count @                          ; percpu_array, u64
//	->
//	store.u32 [s0+0], 0
//	v1:mapval(@)? = call map_lookup_elem(@, s0+0)
//	...                              ; null: nothing to do
//	v2:mapval(@) = nonnull v1
//	v3:i64 = load.u64 [v2+0]
//	v4:i64 = add v3, 1
//	store.u64 [v2+0], v4
//
// A value of one CPU changes without atomics where the programs that change it
// never meet on a CPU (see nestingMaps). Otherwise and where all CPUs share the value, it
// changes with atomic adds, in the form without fetch that 5.10 has.
func lowerAggregations(m *ir.Module) []ir.Diag {
	return rules{
		ir.OpCount:   lowerCount,
		ir.OpSum:     lowerSum,
		ir.OpAvg:     lowerStats,
		ir.OpStats:   lowerStats,
		ir.OpMin:     lowerMinMax,
		ir.OpMax:     lowerMinMax,
		ir.OpHist:    lowerHist,
		ir.OpLhist:   lowerLhist,
		ir.OpTseries: lowerTseries,
		ir.OpAggGet:  lowerAggGet,
	}.applyWith(&lowering{m: m, nests: nestingMaps(m), taken: takenRanges(m)})
}

// takenRanges finds the bounds of the numbers that histograms receive.
func takenRanges(m *ir.Module) map[*ir.Value]ir.Range {
	taken := map[*ir.Value]ir.Range{}
	for _, f := range m.Funcs {
		var rs *ir.Ranges
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				if v.Op != ir.OpHist && v.Op != ir.OpLhist {
					continue
				}
				if rs == nil {
					rs = ir.NewRanges(f, ir.Dominators(f))
				}
				taken[v] = rs.At(v.Args[1], b)
			}
		}
	}
	return taken
}

// mapOf returns the map named by v's first operand.
func (l *lowering) mapOf(v *ir.Value) *ir.Map {
	x := l.m.Map(v.Args[0].Sym)
	if x == nil {
		panic("BUG: no map " + v.Args[0].Sym + ": " + v.Text())
	}
	return x
}

// keyIn returns v's operand i, the address of the key in the kernel's map; nil for an array.
func (l *lowering) keyIn(x *ir.Map, v *ir.Value, i int) *ir.Value {
	if x.BPF.Hashed {
		return l.key32(ir.Const(0))
	}
	return keyOf(v, i)
}

// partKey makes room for the key of a part of a value (BPFMap.Parts). key is the script's, nil for a scalar.
func (l *lowering) partKey(x *ir.Map, key *ir.Value) *ir.Value {
	size := x.BPF.KeySize
	slot := l.Slot("part", size, 8)
	if key == nil {
		return slot
	}
	if x.BPF.ScriptKey%8 != 0 {
		l.Store(ir.U64, slot, size-16, ir.Const(0)) // the padding
	}
	l.copy(slot, key, x.BPF.ScriptKey)
	return slot
}

// addPart adds n to a word of a value whose words are elements.
func (l *lowering) addPart(x *ir.Map, key, part, n *ir.Value) {
	l.Store(ir.U64, key, x.BPF.KeySize-8, part)
	l.change(x, key, func(p *ir.Value) *ir.Value {
		l.add(x, p, 0, n)
		return nil
	})
}

// keyOf returns v's operand i, the address of the key; nil for a scalar.
func keyOf(v *ir.Value, i int) *ir.Value {
	if i < len(v.Args) {
		return v.Args[i]
	}
	return nil
}

// element returns the nullable address of the element that key selects; for a scalar
// (key nil), of its current slot.
func (l *lowering) element(x *ir.Map, key *ir.Value) *ir.Value {
	if key != nil {
		return l.lookup(x.Name, key)
	}
	return l.lookup(x.Name, l.key32(l.scalarSlot(x)))
}

// scalarSlot returns the number of a scalar's current slot.
func (l *lowering) scalarSlot(x *ir.Map) *ir.Value {
	if x.BPF.Gens != 2 {
		return ir.Const(0)
	}
	return l.And(l.Global(ir.U32, "gen", x.BPF.GenOff), ir.Const(1))
}

// change runs body with the address of the element, which is created (as zeros) when it is
// missing, and returns body's result. When the element cannot be created the loss is
// counted, body does not run and the result is 0. An array's element always exists: the
// verifier requires that test.
func (l *lowering) change(x *ir.Map, key *ir.Value, body func(p *ir.Value) *ir.Value) *ir.Value {
	p := l.element(x, key)
	end := l.Split()
	missing := l.Func().NewBlockAfter(l.Block())
	missing.Cold = true
	found := l.IfValue(l.NotNull(p), ir.TMapVal(x.Name, false),
		func() *ir.Value { return l.NonNull(p) },
		func() *ir.Value {
			l.Block().Cold = true
			if key == nil {
				l.Jump(missing)
				return nil
			}
			return l.insert(x, key, missing)
		})
	r := body(found)
	if r == nil {
		l.Jump(end)
		missing.Jump(end, l.Pos)
	} else {
		result := end.AddParam(r.Type)
		l.Jump(end, r)
		missing.Jump(end, l.Pos, zeroOf(r.Type))
		r = result
	}
	l.continueAt(end)
	return r
}

// aggregate updates an aggregation's element by body, as change does. The first value of a
// missing element is body applied to zeros; body first writes it as a whole.
//
// Where only this program changes this CPU's value (see nestingMaps), a missing element is
// created with its first value at once. If another CPU creates it at the same time, the
// update helper changes only this CPU's value, which nobody else writes.
func (l *lowering) aggregate(x *ir.Map, key *ir.Value, body func(p *ir.Value), first func(p *ir.Value)) *ir.Value {
	if key == nil || !strings.Contains(x.BPF.Type, "percpu") || l.nests[x.Name] || x.BPF.Len > 0 {
		return l.change(x, key, func(p *ir.Value) *ir.Value {
			body(p)
			return nil
		})
	}
	inHash := func() {
		p := l.element(x, key)
		l.IfElseCold(l.NotNull(p), func() { body(l.NonNull(p)) }, func() {
			value := l.Slot("first", x.BPF.ValueSize, 8)
			first(value)
			r := l.update(x.Name, key, value, updateAny)
			l.IfCold(l.ICmp(ir.SLT, r, ir.Const(0)), func() { l.lose(x) })
		})
	}
	if x.BPF.Cache.Global != "" {
		l.cachedUpdate(x, key, body, inHash)
	} else {
		inHash()
	}
	return nil
}

// insert creates the element and returns its address; on failure it counts the loss and
// jumps to missing.
func (l *lowering) insert(x *ir.Map, key *ir.Value, missing *ir.Block) *ir.Value {
	l.insertZero(x, key)
	p := l.lookup(x.Name, key)
	l.IfCold(l.IsNull(p), func() {
		l.lose(x)
		l.Jump(missing)
	})
	return l.NonNull(p)
}

// smallValue is the size up to which an initial value is built on the frame
// rather than taken from the global "zero", which is never written.
const smallValue = 16

// insertZero creates the element unless another CPU does. The lookup that follows finds out if it
// failed.
func (l *lowering) insertZero(x *ir.Map, key *ir.Value) {
	n := x.BPF.ValueSize
	if n <= smallValue {
		zero := l.Slot("zero", n, 8)
		l.Zero(zero, n, 8)
		l.insertNew(x, key, zero)
		return
	}
	zero := global(l.m, "zero", ir.GlobalData, 0)
	zero.Size = max(zero.Size, roundUp(n, 8))
	l.insertNew(x, key, l.GlobalAddr(ir.TMapVal(".bss", false), "zero", 0))
}

// add adds n to the word at p + off, atomically if x's kind requires it.
func (l *lowering) add(x *ir.Map, p *ir.Value, off int, n *ir.Value) {
	if strings.Contains(x.BPF.Type, "percpu") && !l.nests[x.Name] {
		l.Store(ir.U64, p, off, l.Add(l.Load(ir.U64, p, off), n))
		return
	}
	l.AtomicAdd(ir.U64, p, off, n)
}

// markSet records that a scalar is set, if it has a word for that.
func (l *lowering) markSet(x *ir.Map, p *ir.Value) {
	if x.BPF.Present >= 0 && x.BPF.ValueOff != x.BPF.Present {
		l.Store(ir.U64, p, x.BPF.Present, ir.Const(1))
	}
}

func lowerCount(l *lowering, v *ir.Value) *ir.Value {
	x := l.mapOf(v)
	return l.aggregate(x, l.keyIn(x, v, 1), func(p *ir.Value) {
		l.add(x, p, 0, ir.Const(1))
	}, func(p *ir.Value) {
		l.Store(ir.U64, p, 0, ir.Const(1))
	})
}

func lowerSum(l *lowering, v *ir.Value) *ir.Value {
	x := l.mapOf(v)
	return l.aggregate(x, l.keyIn(x, v, 2), func(p *ir.Value) {
		l.markSet(x, p)
		l.add(x, p, x.BPF.ValueOff, v.Args[1])
	}, func(p *ir.Value) {
		l.Store(ir.U64, p, x.BPF.ValueOff, v.Args[1])
	})
}

// lowerStats lowers avg and stats: {u64 count, 8 bytes total}.
func lowerStats(l *lowering, v *ir.Value) *ir.Value {
	x := l.mapOf(v)
	if x.BPF.Parts {
		key := l.partKey(x, keyOf(v, 2))
		l.addPart(x, key, ir.Const(0), ir.Const(1))
		l.addPart(x, key, ir.Const(1), v.Args[1])
		return nil
	}
	return l.aggregate(x, l.keyIn(x, v, 2), func(p *ir.Value) {
		l.add(x, p, 0, ir.Const(1))
		l.add(x, p, 8, v.Args[1])
	}, l.pair(v.Args[1]))
}

// pair returns the code that writes {1, n}.
func (l *lowering) pair(n *ir.Value) func(p *ir.Value) {
	return func(p *ir.Value) {
		l.Store(ir.U64, p, 0, ir.Const(1))
		l.Store(ir.U64, p, 8, n)
	}
}

// lowerMinMax lowers {u64 set, 8 bytes}.
func lowerMinMax(l *lowering, v *ir.Value) *ir.Value {
	x, n := l.mapOf(v), v.Args[1]
	better := better(x, v.Op == ir.OpMax)
	if x.BPF.Parts {
		l.extremePart(x, l.partKey(x, keyOf(v, 2)), n, better)
		return nil
	}
	return l.aggregate(x, keyOf(v, 2), func(p *ir.Value) {
		store := func() { l.Store(ir.U64, p, 8, n) }
		set := l.ICmp(ir.NE, l.Load(ir.U64, p, 0), ir.Const(0))
		l.IfElseCold(set, func() {
			l.If(l.ICmp(better, n, l.Load(ir.U64, p, 8)), store, nil)
		}, func() {
			l.Store(ir.U64, p, 0, ir.Const(1))
			store()
		})
	}, l.pair(n))
}

// extremePart keeps the minimum or maximum of this CPU in a separate element, whose first value is
// n.
func (l *lowering) extremePart(x *ir.Map, key, n *ir.Value, better ir.Cond) {
	l.Store(ir.U64, key, x.BPF.KeySize-8, l.Call("get_smp_processor_id", ir.TI64))
	keep := func(p *ir.Value) {
		l.If(l.ICmp(better, n, l.Load(ir.U64, p, 0)), func() { l.Store(ir.U64, p, 0, n) }, nil)
	}
	p := l.lookup(x.Name, key)
	l.IfElseCold(l.NotNull(p), func() { keep(l.NonNull(p)) }, func() {
		first := l.Slot("first", 8, 8)
		l.Store(ir.U64, first, 0, n)
		l.insertNew(x, key, first)
		p := l.lookup(x.Name, key) // of a program that interrupted this one, or full
		l.If(l.NotNull(p), func() { keep(l.NonNull(p)) }, func() { l.lose(x) })
	})
}

// lowerHist counts in a log2 histogram, by the rule of aggregate.HistBuckets.
func lowerHist(l *lowering, v *ir.Value) *ir.Value {
	x, n := l.mapOf(v), v.Args[1]
	k := int64(x.Bits)
	r := l.taken[v]
	var notNegative *ir.Value // all ones or 0
	most := r.UMax
	if r.SMin < 0 || r.Empty() {
		notNegative = l.Binary(ir.OpXor, l.AShr(n, ir.Const(63)), ir.Const(-1))
		n, most = l.And(n, notNegative), math.MaxInt64
	}
	var index *ir.Value
	if k == 0 {
		high, nibble := l.highNibble(n, most)
		index = l.Add(high, l.fromNibble(nibble, 3, bitsAnd1))
	} else {
		high, nibble := l.highNibble(l.Or(l.LShr(n, ir.Const(k)), ir.Const(1)), most>>k|1)
		q := l.Or(high, l.fromNibble(nibble, 2, highestBits))
		index = l.AddImm(l.Add(l.Shl(q, ir.Const(k)), l.LShr(n, q)), 1)
	}
	if notNegative != nil {
		index = l.And(index, notNegative)
	}
	l.bump(x, v, index)
	return nil
}

// highNibble finds the highest nibble, aligned to bit 0, of x that is not 0: the position
// of its lowest bit, and its value. most is an upper bound of x, below 1<<63. It takes a
// few steps without branches: the verifier would check every path of branches.
func (l *lowering) highNibble(x *ir.Value, most uint64) (pos, nibble *ir.Value) {
	pos = ir.Const(0)
	for step := int64(5); step >= 2; step-- {
		limit := int64(1)<<(1<<step) - 1
		if most <= uint64(limit) {
			continue
		}
		// The difference is negative when x has a bit at 1<<step or above.
		shift := l.Shl(l.LShr(l.Sub(ir.Const(limit), x), ir.Const(63)), ir.Const(step))
		x = l.LShr(x, shift)
		if pos.IsConst() {
			pos = shift
		} else {
			pos = l.Or(pos, shift)
		}
	}
	return pos, x
}

// Tables for fromNibble: a number for each nibble, that for 0 in the lowest bits.
const (
	highestBits = 0xffffaa50     // 2 bits each: the position of the highest bit; 0 for 0
	bitsAnd1    = 0xb6db6d9246d1 // 3 bits each: 1 + the number of bits
)

// fromNibble looks up a nibble in table, whose entries have the given number of bits.
func (l *lowering) fromNibble(nibble *ir.Value, width, table int64) *ir.Value {
	return l.And(l.LShr(ir.Const(table), l.Mul(nibble, ir.Const(width))), ir.Const(1<<width-1))
}

// shift returns x shifted by a constant, x itself when that is 0.
func (l *lowering) shift(op ir.Op, x *ir.Value, by int64) *ir.Value {
	if by == 0 {
		return x
	}
	return l.Binary(op, x, ir.Const(by))
}

// lowerLhist counts in a linear histogram: 0 below min, then one bucket per step; values
// past the last bucket count there.
func lowerLhist(l *lowering, v *ir.Value) *ir.Value {
	x, n := l.mapOf(v), v.Args[1]
	from := l.Sub(n, ir.Const(x.Min))
	var step *ir.Value
	if bits.OnesCount64(uint64(x.Step)) == 1 {
		step = l.shift(ir.OpLShr, from, int64(bits.TrailingZeros64(uint64(x.Step))))
	} else {
		step = l.Binary(ir.OpUDiv, from, ir.Const(x.Step))
	}
	below := l.ICmp(ir.SLT, n, ir.Const(x.Min))
	l.bump(x, v, l.Select(below, ir.Const(0), l.AddImm(step, 1)))
	return nil
}

// lowerTseries adds a value to an interval: {8 bytes value, u64 meta, u64 interval}. An
// element of an older interval is reset.
func lowerTseries(l *lowering, v *ir.Value) *ir.Value {
	x, n, now, interval := l.mapOf(v), v.Args[1], v.Args[2], v.Args[3]
	return l.change(x, keyOf(v, 4), func(p *ir.Value) *ir.Value {
		if x.Agg == "" {
			l.Store(ir.U64, p, 0, n)
			l.Store(ir.U64, p, 8, now)
			l.Store(ir.U64, p, 16, interval)
			return nil
		}
		l.IfCold(l.ICmp(ir.NE, l.Load(ir.U64, p, 16), interval), func() {
			l.Store(ir.U64, p, 0, ir.Const(0))
			l.Store(ir.U64, p, 8, ir.Const(0))
			l.Store(ir.U64, p, 16, interval)
		})
		switch x.Agg {
		case "avg":
			l.Store(ir.U64, p, 8, l.AddImm(l.Load(ir.U64, p, 8), 1))
			fallthrough
		case "sum":
			l.Store(ir.U64, p, 0, l.Add(l.Load(ir.U64, p, 0), n))
		default:
			store := func() { l.Store(ir.U64, p, 0, n) }
			set := l.ICmp(ir.NE, l.Load(ir.U64, p, 8), ir.Const(0))
			l.IfElseCold(set, func() {
				l.If(l.ICmp(better(x, x.Agg == "max"), n, l.Load(ir.U64, p, 0)), store, nil)
			}, func() {
				l.Store(ir.U64, p, 8, ir.Const(1))
				store()
			})
		}
		return nil
	})
}

// bump adds 1 to a bucket. The index is clamped where it is used: before 5.11 the kernel
// forgets the bounds of a number that is spilled.
func (l *lowering) bump(x *ir.Map, v, index *ir.Value) {
	last := ir.Const(int64(buckets(x) - 1))
	if x.BPF.Parts {
		l.bumpPart(x, v, l.Select(l.ICmp(ir.UGT, index, last), last, index))
		return
	}
	key := l.keyIn(x, v, 2)
	inMap := func() {
		l.change(x, key, func(p *ir.Value) *ir.Value {
			i := l.Select(l.ICmp(ir.UGT, index, last), last, index)
			l.add(x, l.Add(p, l.Shl(i, ir.Const(3))), 0, ir.Const(1))
			if x.BPF.Low {
				l.If(l.ICmp(ir.ULT, i, ir.Const(2)), func() { l.add(x, p, 8*2, ir.Const(1)) }, nil)
				l.IfCold(l.ICmp(ir.EQ, i, last), func() { l.add(x, p, x.BPF.ValueSize-16, ir.Const(1)) })
			}
			return nil
		})
	}
	if x.BPF.Cache.Global == "" {
		inMap()
		return
	}
	// The index of a hist is within the buckets by construction.
	l.cachedUpdate(x, key, func(p *ir.Value) {
		l.Store(ir.U64, p, 0, l.AddImm(l.Load(ir.U64, p, 0), 1))
	}, inMap, index)
}

// bumpPart adds 1 to a bucket that is an element, and v's number to the sum after the last bucket. Sums
// of counters never decrease: numbers below 0 are not in it.
func (l *lowering) bumpPart(x *ir.Map, v, index *ir.Value) {
	n := v.Args[1]
	key := l.partKey(x, keyOf(v, 2))
	l.addPart(x, key, index, ir.Const(1))
	sum := func() { l.addPart(x, key, ir.Const(int64(buckets(x))), n) }
	if r := l.taken[v]; r.SMin < 0 || r.Empty() {
		l.If(l.ICmp(ir.SGT, n, ir.Const(0)), sum, nil)
		return
	}
	sum()
}

// lowerAggGet reads an aggregation, which map-layout has placed in a shared map.
func lowerAggGet(l *lowering, v *ir.Value) *ir.Value {
	x := l.mapOf(v)
	if isExtreme(x) {
		key := keyOf(v, 1)
		if key == nil {
			key = l.key32(l.scalarSlot(x))
		}
		return l.readExtreme(x, key, v.Pos)
	}
	read := l.aggReader(x)
	switch {
	case x.Shape == ir.ShapeStats && v.Imm != ir.AggValue:
		read = func(p *ir.Value) *ir.Value { return l.Load(ir.U64, p, int(8*(v.Imm-ir.AggCount))) }
	case read == nil:
		return l.refuse(v, "print the map instead", "cannot read %s: a %s() map has no single value", x.Name, x.Shape)
	}
	p := l.element(x, keyOf(v, 1))
	return l.IfValue(l.NotNull(p), ir.TI64,
		func() *ir.Value { return read(l.NonNull(p)) },
		func() *ir.Value { return ir.Const(0) })
}

// aggReader returns the code that reads an aggregation from its address; nil for a shape
// without a single value.
func (l *lowering) aggReader(x *ir.Map) func(p *ir.Value) *ir.Value {
	switch x.Shape {
	case ir.ShapeCount, ir.ShapeSum:
		return func(p *ir.Value) *ir.Value { return l.Load(ir.U64, p, x.BPF.ValueOff) }
	case ir.ShapeAvg, ir.ShapeStats:
		return func(p *ir.Value) *ir.Value {
			return l.average(l.Load(ir.U64, p, 8), l.Load(ir.U64, p, 0), x.Value.Signed)
		}
	}
	return nil
}

// average emits total / count, rounded towards zero; 0 if count is 0. BPF has only unsigned
// division (signed since 6.6), so the sign of a signed total is handled apart.
func (l *lowering) average(total, count *ir.Value, signed bool) *ir.Value {
	if !signed {
		return l.Binary(ir.OpUDiv, total, count)
	}
	sign := l.AShr(total, ir.Const(63))
	flip := func(n *ir.Value) *ir.Value { return l.Sub(l.Binary(ir.OpXor, n, sign), sign) }
	return flip(l.Binary(ir.OpUDiv, flip(total), count))
}
