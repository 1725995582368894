// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"slices"

	"btc/ir"
)

// jump-threading is jump threading: it redirects edges past a block that only compares its
// parameter with a constant, if the edge passes a constant: a map read that finds no element jumps
// directly to where 0 is handled. The other successor then implies that there is an element, and
// range removes its null check.
//
// requires:    -
// establishes: no edge passes a constant to a block that only tests it, where
// the block's parameters are not needed on the side it leads to
// invalidates: dominators, liveness, ranges (edges change)
//
//	b0:
//	  br v1, b1, b2(0)
//	b1:
//	  v2:i64 = load.u64 [v9]
//	  jump b2(v2)
//	b2(v3:i64):
//	  v4:i1 = icmp ne v3, 0
//	  br v4, b3, b4
//	->
//	b0:
//	  br v1, b1, b4
func jumpThreading(m *ir.Module) []ir.Diag {
	m.EachFunc(func(_ int, f *ir.Func) {
		for newThreader(f).sweep() {
		}
	})
	return nil
}

// threader is the state of a function while its edges change.
type threader struct {
	f     *ir.Func
	preds [][]ir.Pred   // by Block.ID
	uses  [][]*ir.Block // blocks that use it, or did before an edge changed
	dead  []bool        // not reachable any more
	seen  []int         // the last walk that reached it
	walks int
}

func newThreader(f *ir.Func) *threader {
	ir.RemoveUnreachable(f)
	n := f.NumBlocks()
	t := &threader{
		f:     f,
		preds: ir.Preds(f),
		uses:  make([][]*ir.Block, f.NumValues()),
		dead:  make([]bool, n),
		seen:  make([]int, n),
	}
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			for _, a := range v.Args {
				t.use(a, b)
			}
		}
		b.Term.Uses(func(v **ir.Value) { t.use(*v, b) })
	}
	return t
}

func (t *threader) use(v *ir.Value, b *ir.Block) {
	if v.ID < 0 {
		return
	}
	if u := t.uses[v.ID]; len(u) == 0 || u[len(u)-1] != b {
		t.uses[v.ID] = append(u, b)
	}
}

// sweep threads the edges past each test block once, and reports whether there
// was one.
func (t *threader) sweep() bool {
	changed := false
	for _, b := range t.f.Blocks[1:] {
		if p, ok := testedParam(b); ok && !t.dead[b.ID] {
			changed = t.thread(b, p) || changed
		}
	}
	return changed
}

// thread redirects edges past b, which tests its parameter p.
func (t *threader) thread(b *ir.Block, p int) bool {
	test := b.Values[0]
	var checked, free [2]bool // by side
	var stay []ir.Pred
	preds := t.preds[b.ID]
	for _, pred := range preds {
		e := pred.Edge()
		side, known := 0, false
		if pred.Block != b && e.Args[p].IsConst() {
			var yes bool
			yes, known = test.Cond.Decide(ir.RangeOf(e.Args[p].Imm), ir.RangeOf(test.Args[1].Imm))
			if !yes {
				side = 1
			}
		}
		if known && !checked[side] {
			checked[side], free[side] = true, t.freeOf(b, side)
		}
		if !known || !free[side] {
			stay = append(stay, pred)
			continue
		}
		*e = passOn(b.Term.Succs[side], b, e.Args)
		t.preds[e.To.ID] = append(t.preds[e.To.ID], pred)
		for _, a := range e.Args {
			t.use(a, pred.Block)
		}
	}
	t.preds[b.ID] = stay
	if len(stay) == 0 {
		t.drop(b)
	}
	return len(stay) < len(preds)
}

// drop removes the edges out of b, which is unreachable, and out of the blocks that only those
// edges lead to.
func (t *threader) drop(b *ir.Block) {
	for work := []*ir.Block{b}; len(work) > 0; {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		t.dead[b.ID] = true
		for _, e := range b.Term.Succs {
			to := e.To
			t.preds[to.ID] = slices.DeleteFunc(t.preds[to.ID], func(p ir.Pred) bool { return p.Block == b })
			if len(t.preds[to.ID]) == 0 && !t.dead[to.ID] && to != t.f.Entry() {
				work = append(work, to)
			}
		}
	}
}

// testedParam finds the parameter of a block that does nothing but test it.
func testedParam(b *ir.Block) (int, bool) {
	if len(b.Values) != 1 || b.Term.Kind != ir.Br || b.Term.Arg != b.Values[0] {
		return 0, false
	}
	test := b.Values[0]
	if test.Op != ir.OpICmp || !test.Args[1].IsConst() || b.Term.Succs[0].To == b || b.Term.Succs[1].To == b {
		return 0, false
	}
	for i, p := range b.Params {
		if p == test.Args[0] {
			return i, true
		}
	}
	return 0, false
}

// freeOf reports whether b's parameters and its test are used, outside of b, only in blocks
// that are still dominated by the other side.
func (t *threader) freeOf(b *ir.Block, side int) bool {
	test := b.Values[0]
	if slices.Contains(b.Term.Succs[side].Args, test) {
		return false
	}
	other := b.Term.Succs[1-side].To
	private := len(t.preds[other.ID]) == 1 && other != b.Term.Succs[side].To
	t.walks++
	for _, v := range append(slices.Clip(b.Params), test) {
		for _, x := range t.uses[v.ID] {
			if x == b || t.dead[x.ID] || t.seen[x.ID] == t.walks || !mentions(x, v) {
				continue
			}
			if !private || !t.onlyThrough(x, other, b) {
				return false
			}
		}
	}
	return true
}

// onlyThrough reports whether every path from b to x begins with the edge to other, which no
// other edge leads to. b dominates x. It walks back from x and skips what an earlier call
// for the same t.walks visited.
func (t *threader) onlyThrough(x, other, b *ir.Block) bool {
	t.seen[x.ID] = t.walks
	for work := []*ir.Block{x}; len(work) > 0; {
		x := work[len(work)-1]
		work = work[:len(work)-1]
		if x == other {
			continue
		}
		if len(t.preds[x.ID]) == 0 {
			return false
		}
		for _, p := range t.preds[x.ID] {
			if p.Block == b {
				return false
			}
			if t.seen[p.Block.ID] != t.walks {
				t.seen[p.Block.ID] = t.walks
				work = append(work, p.Block)
			}
		}
	}
	return true
}

// mentions reports whether v is an operand of a value in b.
func mentions(b *ir.Block, v *ir.Value) bool {
	for _, w := range b.Values {
		if slices.Contains(w.Args, v) {
			return true
		}
	}
	found := false
	b.Term.Uses(func(u **ir.Value) { found = found || *u == v })
	return found
}
