// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"math/bits"

	"btc/internal/probe"
	"btc/ir"
)

// Per-CPU cache of a keyed aggregation. A lookup in a hash map is several calls, for the key's
// number, the search and the compare: 70 to 100 ns. If the aggregations of a map are all that
// programs do with it, and never interrupt each other on a CPU, most of them find their value in
// a small per-CPU table instead. Its slots are taken by the first keys that occur, which include
// the frequent ones, and are never released: a CPU's value for a key stays where it is, so a
// reader adds up what it finds in the caches and the hash, at any time and in any order. A reader
// that does not know the caches must find all in the hash: programs use the caches only if the
// loader has set the constant cachesOn.

const (
	cacheSlots  = 64 // per CPU; power of two
	cacheCPUs   = 64 // further CPUs use the hash; power of two
	maxCaches   = 8  // per object: its caches are part of .bss
	maxCacheKey = 24 // bytes, which are compared word by word

	cachesOn = "caches" // the constant
)

// mayRunOften reports whether a program may run at rates at which the cost of a lookup is
// noticeable. Block requests do not count, because each takes microseconds.
func mayRunOften(p *ir.Prog) bool {
	return probe.Lookup(p.Kind).Frequent && !(p.Kind == probe.Tracepoint && p.Attach.Target == "block")
}

// addCaches adds caches to the maps that can have one. A program has the code of a cache
// at most once: it is about as long as that of the hash.
func addCaches(m *ir.Module, names map[string]bool) {
	nests := nestingMaps(m)
	uses := aggregated(m)
	has := map[*ir.Func]bool{}
	given := 0
	for _, x := range m.Maps {
		if given == maxCaches || !cacheable(x) || nests[x.Name] || !uses.onceEach(x.Name, has) {
			continue
		}
		for f := range uses.sites[x.Name] {
			has[f] = true
		}
		given++
		t := &x.BPF.Cache
		if x.Shape == ir.ShapeSum { // a sum may be 0
			t.ValueOff = 8
		}
		t.CPUs, t.Slots, t.KeyOff = cacheCPUs, cacheSlots, t.ValueOff+x.BPF.ValueSize
		t.SlotSize = t.KeyOff + x.BPF.KeySize
		if x.Shape == ir.ShapeHist { // a slot has one bucket, whose number is part of the key
			t.KeyOff = 8
			t.SlotSize = t.KeyOff + x.BPF.KeySize + 8
		}
		t.Global = unique("cache_"+x.BPF.Name, names)
		t.Enable = global(m, cachesOn, ir.GlobalConst, 8).Name
		global(m, t.Global, ir.GlobalData, t.CPUs*t.Slots*t.SlotSize)
	}
}

// cacheable reports whether a map's layout allows caches: it does not if the script declares the
// number of keys, or if the key contains a stack, which costs much more to capture than a lookup.
func cacheable(x *ir.Map) bool {
	kind := "percpu_hash"
	switch x.Shape {
	case ir.ShapeCount, ir.ShapeSum, ir.ShapeAvg, ir.ShapeStats, ir.ShapeMin, ir.ShapeMax:
	case ir.ShapeHist:
		kind = "hash"
	default:
		return false
	}
	b := &x.BPF
	return x.Key != nil && b.Type == kind && b.MaxEntries >= defaultKeys && x.Declared == "" && b.Len == 0 &&
		!x.Cleared && !x.Deleted && !x.Read && b.KeySize%8 == 0 && b.KeySize <= maxCacheKey && !holdsStack(x.Key)
}

func holdsStack(l *ir.Layout) bool {
	if l.Kind == ir.LKstack || l.Kind == ir.LUstack || l.Elem != nil && holdsStack(l.Elem) {
		return true
	}
	for i := range l.Fields {
		if holdsStack(l.Fields[i].Layout) {
			return true
		}
	}
	return false
}

// mapUses records what programs do with maps.
type mapUses struct {
	sites map[string]map[*ir.Func]int // by map: aggregations in it
	other map[string]bool             // maps that another op uses, or an aggregation that does not fit
}

func aggregated(m *ir.Module) mapUses {
	u := mapUses{map[string]map[*ir.Func]int{}, map[string]bool{}}
	for _, f := range m.Funcs {
		var keys slotUses // slot uses of f, computed on demand
		scalarKey := func(v *ir.Value) bool {
			if keys == nil {
				keys = usesOfSlots(f)
			}
			return keys.scalar(f, v.Args[len(v.Args)-1])
		}
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				for i, a := range v.Args {
					switch {
					case a.Op != ir.OpMapRef:
					case i > 0 || !v.Op.Is(ir.Updates) || f.Prog == nil || !scalarKey(v):
						u.other[a.Sym] = true
					default:
						if u.sites[a.Sym] == nil {
							u.sites[a.Sym] = map[*ir.Func]int{}
						}
						u.sites[a.Sym][f]++
					}
				}
			}
		}
	}
	return u
}

// onceEach reports whether a map is used only by aggregations, one in each program, no
// program uses another map's cache, and some program may run often.
func (u mapUses) onceEach(name string, has map[*ir.Func]bool) bool {
	often := false
	for f, n := range u.sites[name] {
		if n > 1 || has[f] {
			return false
		}
		often = often || mayRunOften(f.Prog)
	}
	return often && !u.other[name]
}

// cachedUpdate applies body, which updates a value that starts as zeros, to x's value in the CPU's
// cache. more are words of the slot's key after those of the map's. A free slot is taken; if
// another key has the slot, or the CPU has no cache, slowPath updates the hash.
// The first word of a slot is written after the key: a reader that sees it not 0 finds the key. (A
// free slot looks as if taken by the key 0, which may use it.)
//
//	v0:i64 = global.u64 caches                     ; known to the kernel's verifier
//	br (icmp ne v0, 0), b0, hash
//	b0:
//	v1:i64 = call get_smp_processor_id()
//	br (icmp ult v1, 64), b1, hash
//	b1:
//	v2:i64 = load.u64 [key+0]
//	v3:mapval(.bss) = ...                          ; the key's slot in the table
//	v4:i64 = load.u64 [v3+8]
//	br (icmp eq v4, v2), b2, b3
//	b2:                                            ; body
//	...
//	b3 cold:
//	v5:i64 = load.u64 [v3+0]
//	br (icmp eq v5, 0), b4, hash
//	b4 cold:
//	store.u64 [v3+8], v2
//	jump b2
func (l *lowering) cachedUpdate(x *ir.Map, key *ir.Value, body func(p *ir.Value), slowPath func(), more ...*ir.Value) {
	t := &x.BPF.Cache
	if key.Op == ir.OpSlotAddr && key.Imm%8 == 0 {
		key.Slot.Align = max(key.Slot.Align, 8)
	}
	end := l.Split()
	hash := l.Func().NewBlockAfter(l.Block())
	taken := l.Func().NewBlockAfter(l.Block())
	miss := l.Func().NewBlockAfter(l.Block())
	hash.Cold, miss.Cold = true, true
	on := l.Func().NewBlockAfter(l.Block())
	l.Br(l.ICmp(ir.NE, l.Global(ir.U64, t.Enable, 0), ir.Const(0)), on, hash)
	l.continueAt(on)
	cpu := l.Call("get_smp_processor_id", ir.TI64)
	within := l.Func().NewBlockAfter(l.Block())
	// The verifier does not know how many CPUs there are: the bound also keeps the offset within the table.
	l.Br(l.ICmp(ir.ULT, cpu, ir.Const(int64(t.CPUs))), within, hash)
	l.continueAt(within)
	var words []*ir.Value
	for off := 0; off < x.BPF.KeySize; off += 8 {
		words = append(words, l.Load(ir.U64, key, off))
	}
	words = append(words, more...)
	table := l.Mul(cpu, ir.Const(int64(t.Slots*t.SlotSize)))
	slot := l.Add(l.GlobalAddr(ir.TMapVal(".bss", false), t.Global, 0), l.Add(table, l.cacheSlot(words, t)))
	for i, w := range words {
		same := taken
		if i < len(words)-1 {
			same = l.Func().NewBlockAfter(l.Block())
		}
		l.Br(l.ICmp(ir.EQ, l.Load(ir.U64, slot, t.KeyOff+8*i), w), same, miss)
		l.continueAt(same)
	}
	body(l.AddImm(slot, int64(t.ValueOff)))
	// Word 0 says that the slot is taken. The value of count() is there itself (ValueOff 0), and is not 0 any more.
	if t.ValueOff > 0 {
		l.Store(ir.U64, slot, 0, ir.Const(1))
	}
	l.Jump(end)
	l.continueAt(miss)
	free := l.Func().NewBlockAfter(miss)
	free.Cold = true
	l.Br(l.ICmp(ir.EQ, l.Load(ir.U64, slot, 0), ir.Const(0)), free, hash)
	l.continueAt(free)
	for i, w := range words {
		l.Store(ir.U64, slot, t.KeyOff+8*i, w)
	}
	l.Jump(taken)
	l.continueAt(hash)
	slowPath()
	l.Jump(end)
	l.continueAt(end)
}

// cacheSlot returns the offset of the slot that a key may have in a table: a multiple of it by a
// constant from the golden ratio spreads consecutive numbers. For a one-word key only the
// lower half counts, for which a constant of 31 bits is enough.
func (l *lowering) cacheSlot(words []*ir.Value, t *ir.PerCPUCache) *ir.Value {
	h, high := words[0], 32
	for _, w := range words[1:] {
		h = l.Binary(ir.OpXor, h, w)
	}
	golden := int64(0x61c88647)
	if len(words) > 1 {
		golden, high = -0x61c8864680b583eb, 64
	}
	h = l.Mul(h, ir.Const(golden))
	n := bits.TrailingZeros(uint(t.Slots))
	if t.SlotSize&(t.SlotSize-1) != 0 {
		return l.Mul(l.And(l.LShr(h, ir.Const(int64(high-n))), ir.Const(int64(t.Slots-1))), ir.Const(int64(t.SlotSize)))
	}
	by := bits.TrailingZeros(uint(t.SlotSize))
	return l.And(l.LShr(h, ir.Const(int64(high-n-by))), ir.Const(int64((t.Slots-1)*t.SlotSize)))
}

// slotUses are the uses of the address of each slot as an operand of values.
type slotUses map[*ir.Slot][]slotOperand

// slotOperand is operand i of v.
type slotOperand struct {
	v *ir.Value
	i int
}

func usesOfSlots(f *ir.Func) slotUses {
	uses := slotUses{}
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			for i, a := range v.Args {
				if a.Op == ir.OpSlotAddr {
					uses[a.Slot] = append(uses[a.Slot], slotOperand{v, i})
				}
			}
		}
	}
	return uses
}

// scalar reports whether all words of an aggregation's key are plain numbers to the kernel's
// verifier, which forbids arithmetic with tracked pointers: the context, what is in it, and
// what programs with typed arguments load.
func (uses slotUses) scalar(f *ir.Func, key *ir.Value) bool {
	if key.Op != ir.OpSlotAddr || key.Imm != 0 {
		return false
	}
	for _, use := range uses[key.Slot] {
		switch w := use.v; {
		case w.Op == ir.OpStore && use.i == 0:
			if !scalar(f, w.Args[1], 8) {
				return false
			}
		case w.Op == ir.OpComm, w.Op == ir.OpMemZero, w.Op == ir.OpStrLit, w.Op == ir.OpStr && use.i == 0:
		case w.Op.Is(ir.Updates):
		default:
			return false
		}
	}
	return true
}

// scalar reports whether v is a number to the verifier; false if unknown or more than depth
// operands away.
func scalar(f *ir.Func, v *ir.Value, deep int) bool {
	untyped := f.Prog.Kind == probe.Tracepoint || f.Prog.Kind == probe.Kprobe || f.Prog.Kind == probe.Kretprobe
	switch {
	case v.Op.Is(ir.Number):
		return true
	case deep == 0:
		return false
	case v.Op == ir.OpArg, v.Op == ir.OpRetval, v.Op == ir.OpFuncIP, v.Op == ir.OpProbeIP, v.Op == ir.OpReg:
		return untyped
	case v.Op == ir.OpRead, v.Op == ir.OpLoad:
		if v.Args[0].Type == ir.TCtx {
			return untyped
		}
		return v.Op == ir.OpRead && v.Type == ir.TI64
	case v.Op == ir.OpAdd, v.Op == ir.OpSub:
		return scalar(f, v.Args[0], deep-1) && scalar(f, v.Args[1], deep-1)
	case v.Op == ir.OpZext, v.Op == ir.OpSext, v.Op == ir.OpCast:
		return scalar(f, v.Args[0], deep-1)
	}
	return false
}
