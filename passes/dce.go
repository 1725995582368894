// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"strings"

	"btc/ir"
)

// dce is dead code elimination. It drops values without use and effect, block parameters
// that only feed each other, writes to slots that nothing reads, and slots without use.
//
// requires:    -
// establishes: each value has a use or an effect; each slot has a use
// invalidates: use counts, liveness (no block or edge changes)
//
//	b0(v0:ctx):
//	  v1:i64 = pid
//	  v2:i64 = add v1, 1
//	  jump b1(v2)
//	b1(v3:i64):
//	  ret 0
//	->
//	b0(v0:ctx):
//	  jump b1
//	b1:
//	  ret 0
func dce(m *ir.Module) []ir.Diag {
	m.EachFunc(func(_ int, f *ir.Func) {
		dropDeadWrites(f)
		dropDeadValues(m, f)
		dropUnusedSlots(f)
	})
	return nil
}

// quietHelpers have no effect but their result.
var quietHelpers = map[string]bool{
	"ktime_get_ns": true, "ktime_get_boot_ns": true, "ktime_get_tai_ns": true, "ktime_get_coarse_ns": true, "jiffies64": true,
	"map_lookup_elem": true, "ringbuf_query": true,
}

// droppable reports whether v may be removed when its result is not used.
func droppable(m *ir.Module, v *ir.Value) bool {
	if mayFail(v) {
		return false
	}
	if v.Op != ir.OpCall {
		return v.Op.Info().Effect != ir.Writes
	}
	if v.Sym == "map_lookup_elem" { // a lookup in an LRU map makes the element recent
		x := m.Map(v.Args[0].Sym)
		return x != nil && !strings.HasPrefix(x.BPF.Type, "lru")
	}
	return quietHelpers[v.Sym] || stableHelpers[v.Sym]
}

func dropDeadValues(m *ir.Module, f *ir.Func) {
	live := ir.NewValueSet(f)
	var work []*ir.Value
	need := func(v *ir.Value) {
		if v.ID >= 0 && !live.Has(v) {
			live.Add(v)
			work = append(work, v)
		}
	}
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			if !droppable(m, v) {
				need(v)
			}
		}
		if b.Term.Arg != nil {
			need(b.Term.Arg)
		}
	}
	for _, p := range f.Entry().Params {
		need(p)
	}
	preds := ir.Preds(f)
	for len(work) > 0 {
		v := work[len(work)-1]
		work = work[:len(work)-1]
		for _, a := range v.Args {
			need(a)
		}
		if v.Op != ir.OpParam || v.Block == f.Entry() {
			continue
		}
		i := paramIndex(v)
		for _, p := range preds[v.Block.ID] {
			need(p.Edge().Args[i])
		}
	}
	for _, b := range f.Blocks {
		sweep(b, live, preds[b.ID])
	}
}

func paramIndex(v *ir.Value) int {
	for i, p := range v.Block.Params {
		if p == v {
			return i
		}
	}
	panic("BUG: parameter of no block: " + v.Text())
}

func sweep(b *ir.Block, live ir.ValueSet, preds []ir.Pred) {
	keep := b.Values[:0]
	for _, v := range b.Values {
		if live.Has(v) {
			keep = append(keep, v)
		}
	}
	b.Values = keep
	for i := len(b.Params) - 1; i >= 0; i-- {
		if !live.Has(b.Params[i]) {
			ir.RemoveParam(b, i, preds)
		}
	}
}

// dropDeadWrites drops writes to slots that are only ever written.
func dropDeadWrites(f *ir.Func) {
	used := make([]bool, f.NumSlots())
	uses := ir.UseCounts(f)
	use := func(a *ir.Value) {
		if a.Op == ir.OpSlotAddr {
			used[a.Slot.ID] = true
		}
	}
	writes := func(v *ir.Value) bool {
		return v.Op.Is(ir.WritesArg0) && v.Args[0].Op == ir.OpSlotAddr && uses[v.ID] == 0 && !mayFail(v)
	}
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			for i, a := range v.Args {
				if i > 0 || !writes(v) {
					use(a)
				}
			}
		}
		b.Term.Uses(func(a **ir.Value) { use(*a) })
	}
	for _, b := range f.Blocks {
		keep := b.Values[:0]
		for _, v := range b.Values {
			if !writes(v) || used[v.Args[0].Slot.ID] {
				keep = append(keep, v)
			}
		}
		b.Values = keep
	}
}

func dropUnusedSlots(f *ir.Func) {
	used := make([]bool, f.NumSlots())
	f.Uses(func(a **ir.Value) {
		if (*a).Op == ir.OpSlotAddr {
			used[(*a).Slot.ID] = true
		}
	})
	keep := f.Slots[:0]
	for _, s := range f.Slots {
		if used[s.ID] {
			keep = append(keep, s)
		}
	}
	f.Slots = keep
}
