// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"slices"

	"btc/backend/mach"
)

// placeStores inserts the store of each spilled value that is reloaded: at the first of the points
// where it left its register that dominates all reloads and is in no deeper loop, or right after
// its definition.
func (a *allocator) placeStores() {
	dom := a.f.Dominators()
	type insertion struct {
		index int
		insn  mach.Insn
	}
	todo := make([][]insertion, len(a.f.Blocks))
	for n := range a.vals {
		v := &a.vals[n]
		if !v.spilled || v.inSlot || len(v.reloads) == 0 {
			continue
		}
		at := v.storePoint(dom)
		store := slotStore(n, mach.RegOp(at.reg))
		store.Pos = at.b.Term.Pos
		if at.index > 0 {
			store.Pos = at.b.Insns[at.index-1].Pos
		} else if len(at.b.Insns) > 0 {
			store.Pos = at.b.Insns[0].Pos
		}
		todo[at.b.Index] = append(todo[at.b.Index], insertion{at.index, store})
	}
	for n, list := range todo {
		if len(list) == 0 {
			continue
		}
		slices.SortStableFunc(list, func(x, y insertion) int { return x.index - y.index })
		b := a.f.Blocks[n]
		out := make([]mach.Insn, 0, len(b.Insns)+len(list))
		next := 0
		for _, ins := range list {
			out = append(out, b.Insns[next:ins.index]...)
			out = append(out, ins.insn)
			next = ins.index
		}
		b.Insns = append(out, b.Insns[next:]...)
	}
}

func (v *value) storePoint(dom *mach.Dominators) point {
	for _, p := range v.left {
		if p.b.Depth > v.def.b.Depth {
			continue
		}
		if !slices.ContainsFunc(v.reloads, func(r point) bool { return !p.dominates(r, dom) }) {
			return p
		}
	}
	return v.def
}

func (p point) dominates(q point, dom *mach.Dominators) bool {
	if p.b == q.b {
		return p.index <= q.index
	}
	return dom.Dominates(p.b, q.b)
}
