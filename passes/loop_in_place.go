// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"slices"

	"btc/ir"
)

// Loops over ranges that are in callbacks: those with a small trip count stay in place,
// with a counter; every kernel verifies such a bounded loop (5.3).
//
//	  v1:i64 = rangeiter v0                  ; at most 16 iterations
//	  jump b1
//	b1:
//	  v2:i64 = rangenext v1
//	  v3:i1 = icmp ne v2, 0
//	  br v3, b2, b3
//	b2:
//	  ...                                    ; uses v2
//	  jump b1
//	->
//	  jump b1(0)
//	b1(v2:i64):
//	  v3:i1 = icmp ult v2, v0
//	  br v3, b2, b3
//	b2:
//	  v4:i64 = add v2, 1
//	  ...                                    ; uses v4
//	  jump b1(v4)

const (
	// maxIterations is BPF_MAX_LOOPS, the most iterations that bpf_loop makes.
	maxIterations = 1 << 23
)

// countShort gives the loops of f with small trip counts a counter. A nest that is together
// too large for the verifier is split: the outer loops call bpf_loop, and the inner ones
// are short.
func (p *planner) countShort(f *ir.Func) {
	facts := newLoopFacts(f)
	ranges := facts.ranges
	var short []*ir.Value // first: counting one makes values that ranges does not know
	for _, b := range ir.ReversePostorder(f) {
		for _, v := range b.Values {
			if v.Op == ir.OpRangeNext && v.Args[0].Op == ir.OpRangeIter &&
				ranges.At(v.Args[0].Args[0], v.Args[0].Block).UMax <= ir.FewTrips &&
				p.walksShort(facts, b) {
				short = append(short, v)
			}
		}
	}
	for _, v := range short {
		count(f, v)
	}
}

// walksShort reports whether the kernel verifies all iterations of the loop with this head, and
// of those nested in it: always for a nest of two, so that kernels without bpf_loop run it; for
// deeper ones if the product is small enough.
func (p *planner) walksShort(facts *loopFacts, head *ir.Block) bool {
	l := facts.nest.Of(head)
	if l == nil || l.Header != head {
		return true // no back edge
	}
	outermost := l
	for outermost.Parent != nil {
		outermost = outermost.Parent
	}
	if !facts.deep(outermost) {
		return true
	}
	for _, in := range facts.nest.Loops {
		// If it does not know the trip count, it verifies each possible one, times the
		// loops around.
		if next := rangeHead(in); next != nil && within(in, l) && !facts.alone(l) &&
			next.Args[0].Op == ir.OpRangeIter &&
			!next.Args[0].Args[0].IsConst() {
			return false
		}
	}
	c := p.cost(facts, l, ir.FewTrips)
	for up := l.Parent; up != nil; up = up.Parent { // which are not part of it
		n := float64(facts.tripCount(up, ir.FewTrips))
		c = loopCost{c.insns / n, c.waits / n}
	}
	return c.insns <= walkBudget && c.waits <= waitBudget
}

// count gives one loop a counter. A head with other ops, or without a back edge, is left to
// bpf_loop.
func count(f *ir.Func, next *ir.Value) {
	head, begin := next.Block, next.Args[0]
	test := head.Term.Arg
	if head.Term.Kind != ir.Br || len(head.Values) != 2 || test != head.Values[1] || test.Args[0] != next {
		return
	}
	counter := head.AddParam(ir.TI64)
	body := 0
	if test.Cond == ir.EQ {
		body = 1
	}
	inside := ir.SplitEdge(ir.Pred{Block: head, Succ: body})
	d := ir.Dominators(f)
	number := ir.At(inside, 0, next.Pos).AddImm(counter, 1)
	ir.ReplaceUses(f, next, number)
	for _, p := range ir.Preds(f)[head.ID] {
		arg := ir.Const(0)
		if d.Dominates(inside, p.Block) {
			arg = number
		}
		e := p.Edge()
		e.Args = append(slices.Clip(e.Args), arg)
	}
	settleCut(f, begin, func(*ir.Builder, *ir.Value) *ir.Value { return ir.Const(0) })
	cond := ir.ULT
	if body == 1 {
		cond = ir.UGE
	}
	test.Cond, test.Args = cond, []*ir.Value{counter, begin.Args[0]}
	head.Remove(next.Index())
	begin.Block.Remove(begin.Index())
}
