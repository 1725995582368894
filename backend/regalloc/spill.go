package regalloc

import (
	"fmt"
	"slices"

	"btc/backend/mach"
)

// placeStores inserts the store of each spilled value that is reloaded: at the
// first place where it left its register that all reloads follow and that is in
// no deeper loop, else right after its definition.
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

// placeSlots colours the spill slots and writes their offsets into the
// instructions. Two share eight bytes when one is never live at a store of the other.
func (a *allocator) placeSlots() error {
	g := a.slotGraph()
	if len(g.near) == 0 {
		return nil
	}
	base := (a.f.FrameUsed + 7) / 8
	colour := make([]int, len(g.near))
	most := 0
	for n := range g.near {
		used := make([]bool, len(g.near)+1)
		for other := range g.near[n] {
			if other < n {
				used[colour[other]] = true
			}
		}
		colour[n] = slices.Index(used, false)
		most = max(most, colour[n]+1)
	}
	for _, b := range a.f.Blocks {
		for n := range b.Insns {
			if i := &b.Insns[n]; i.Spill > 0 {
				i.Off = -8 * (base + colour[g.number[i.Spill]] + 1)
			}
		}
	}
	slots := a.f.FrameUsed
	a.f.FrameUsed = 8 * (base + most)
	if a.f.FrameUsed > frameLimit {
		return &mach.Error{Func: a.f.Name, Pos: a.f.Pos,
			Msg: fmt.Sprintf("needs %d bytes of stack: %d for variables and keys, %d for values that find no register; BPF programs have %d",
				a.f.FrameUsed, slots, 8*most, frameLimit)}
	}
	return nil
}

// slotGraph says which slots interfere.
type slotGraph struct {
	number map[int]int // Insn.Spill -> dense number, in order of appearance
	near   []map[int]bool
}

func (a *allocator) slotGraph() *slotGraph {
	g := &slotGraph{number: map[int]int{}}
	for _, b := range a.f.Blocks {
		for n := range b.Insns {
			if s := b.Insns[n].Spill; s > 0 {
				if _, ok := g.number[s]; !ok {
					g.number[s] = len(g.near)
					g.near = append(g.near, map[int]bool{})
				}
			}
		}
	}
	if len(g.near) == 0 {
		return g
	}
	in := make([]map[int]bool, len(a.f.Blocks))
	for n := range in {
		in[n] = map[int]bool{}
	}
	for changed := true; changed; {
		changed = false
		for n := len(a.f.Blocks) - 1; n >= 0; n-- {
			if g.walk(a.f.Blocks[n], in, false) {
				changed = true
			}
		}
	}
	for _, b := range a.f.Blocks {
		g.walk(b, in, true)
	}
	return g
}

// walk computes the slots live at the start of b and reports whether they grew;
// with record it notes interferences.
func (g *slotGraph) walk(b *mach.Block, in []map[int]bool, record bool) bool {
	live := map[int]bool{}
	for _, e := range b.Term.Succs {
		for s := range in[e.To.Index] {
			live[s] = true
		}
	}
	for n := len(b.Insns) - 1; n >= 0; n-- {
		i := &b.Insns[n]
		if i.Spill == 0 {
			continue
		}
		s := g.number[i.Spill]
		if i.Op == mach.Load {
			live[s] = true
			continue
		}
		delete(live, s)
		if record {
			for other := range live {
				g.near[s][other] = true
				g.near[other][s] = true
			}
		}
	}
	grew := len(live) > len(in[b.Index])
	in[b.Index] = live
	return grew
}
