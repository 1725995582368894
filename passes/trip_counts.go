// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"math"
	"slices"

	"btc/ir"
)

// The trip count limits of loops in place. The kernel verifies each iteration of such a
// loop and refuses a program after a million instructions, or if more than 8192 branches
// wait for their other side (BPF_COMPLEXITY_LIMIT_JMP_SEQ).

const (
	// walkBudget is how many instructions the kernel may verify for the loops of a function
	// together: a fraction of a second.
	walkBudget = 150_000
	// overrun is the factor by which loops whose trip count cannot be reduced may exceed
	// the budget.
	overrun = 3
	// otherSide is how many instructions the verifier walks on the other side of a branch
	// until it prunes the path: in loops it keeps only some of the states.
	otherSide = 40
	// waitBudget is how many branches of these loops may wait at a time.
	waitBudget = 7000
	// maxTripCount is the maximum trip count for a loop of unknown length, however small its
	// body.
	maxTripCount = 1 << 11
	// inPlaceTripCount is the maximum trip count of a loop that frontend/irgen leaves in place.
	inPlaceTripCount = 1 << 14
	// minTripCount is the smallest trip count for which a loop in place is worth its code.
	minTripCount = 16
)

// planner decides which loops over ranges have an in-place form, and their trip counts.
type planner struct {
	m      *ir.Module
	trips  map[*ir.Value]uint64 // by rangenext: the maximum
	within map[*ir.Value]bool   // by rangenext: it never exceeds the maximum
	// hasLoop marks functions that run only on kernels with bpf_loop.
	hasLoop map[*ir.Func]bool
	never   bool // no loop has an in-place form: another construct needs bpf_loop
}

// inPlace reports whether the loop of next, outermost in f, is to have an in-place form.
func (p *planner) inPlace(f *ir.Func, next *ir.Value) bool {
	return next.Op == ir.OpRangeNext && !p.never && !p.hasLoop[f] && p.trips[next] > 0
}

// planLoops plans all loops over ranges. If one cannot have an in-place form, the object
// needs bpf_loop, and no loop gets one.
func planLoops(m *ir.Module) *planner {
	p := &planner{m: m, trips: map[*ir.Value]uint64{}, within: map[*ir.Value]bool{}, hasLoop: map[*ir.Func]bool{}}
	for _, f := range m.Funcs {
		p.planFunc(f)
	}
	for _, n := range m.Meta.Needs {
		p.never = p.never || n.Feature == rangeHelper
	}
	return p
}

// loopFacts is the analysis of a function that its plan is based on.
type loopFacts struct {
	f      *ir.Func
	dom    *ir.DomTree
	nest   *ir.LoopNest
	ranges *ir.Ranges
}

func newLoopFacts(f *ir.Func) *loopFacts {
	d := ir.Dominators(f)
	return &loopFacts{f: f, dom: d, nest: ir.Loops(f, d), ranges: ir.NewRanges(f, d)}
}

// rangeHead returns the rangenext that heads a loop, nil when it has none.
func rangeHead(l *ir.Loop) *ir.Value {
	for _, v := range l.Header.Values {
		if v.Op == ir.OpRangeNext {
			return v
		}
	}
	return nil
}

func (p *planner) planFunc(f *ir.Func) {
	facts := newLoopFacts(f)
	d := facts.dom
	var outer []*ir.Loop
	for _, l := range facts.nest.Loops {
		inside := false
		for up := l.Parent; up != nil; up = up.Parent {
			inside = inside || rangeHead(up) != nil
		}
		if rangeHead(l) != nil && !inside {
			outer = append(outer, l)
		}
	}
	for _, b := range d.Order {
		for _, v := range b.Values {
			if l := facts.nest.Of(b); v.Op == ir.OpRangeNext && (l == nil || l.Header != b) { // no back edge
				p.trips[v], p.within[v] = maxIterations, true
			}
		}
	}
	if len(outer) == 0 {
		return
	}
	// The cost of the code around, of the loops of known length and of the minimum trip
	// counts of the others is fixed; the others share the rest.
	fixed, sharing := p.cost(facts, nil, maxTripCount), 0.0
	for _, l := range outer {
		fixed = fixed.plus(p.cost(facts, l, minTripCount))
		if p.cost(facts, l, 1) != p.cost(facts, l, 2) {
			sharing++
		}
	}
	for _, l := range outer {
		least := p.cost(facts, l, minTripCount)
		if fixed.insns > overrun*walkBudget || fixed.waits > waitBudget {
			least = loopCost{}
		}
		p.planNest(
			facts,
			l,
			least.plus(loopCost{
				max(walkBudget-fixed.insns, walkBudget/4) / max(sharing, 1),
				max(waitBudget-fixed.waits, 0) / max(sharing, 1),
			}),
		)
	}
}

// planNest assigns trip counts to the loops of a nest.
func (p *planner) planNest(facts *loopFacts, l *ir.Loop, budget loopCost) {
	most := uint64(0)
	for step := uint64(maxTripCount); step > 0; step /= 2 {
		if c := p.cost(facts, l, most+step); most+step <= maxTripCount && c.insns <= budget.insns &&
			c.waits <= budget.waits {
			most += step
		}
	}
	complete, what := true, "a loop of so many iterations"
	for _, in := range facts.nest.Loops {
		// The verifier checks the callback of a loop over a map again in each iteration,
		// since 6.7 several times: such a loop has no in-place form.
		if within(in, l) &&
			slices.ContainsFunc(in.Header.Values, func(v *ir.Value) bool { return v.Op == ir.OpMapNext }) {
			complete, what = false, "a loop with 'for' over a map in it"
		}
		if next := rangeHead(in); next != nil && facts.dom.Dominates(l.Header, in.Header) {
			n := next.Args[0]
			if n.Op == ir.OpRangeIter {
				n = n.Args[0]
			}
			known := facts.tripCount(in, math.MaxUint64)
			p.trips[next], p.within[next] = min(known, most), known <= most
			short := n.IsConst() && p.walksAll(facts, in, uint64(n.Imm))
			if short || n.IsConst() && uint64(n.Imm) <= maxIterations && !facts.leaves(in) { // all iterations run
				p.trips[next], p.within[next] = max(uint64(n.Imm), 1), true
			}
			if short {
				most = max(most, 1)
			}
			if !p.within[next] && (p.trips[next] < minTripCount || len(cutsOf(facts.f, next.Args[0])) == 0) {
				complete = false
			}
		}
	}
	if most == 0 || !complete {
		next := rangeHead(l)
		p.m.Meta.AddNeed(ir.Need{Feature: rangeHelper, Construct: what, Pos: next.Pos})
	}
}

// walksAll reports whether every kernel verifies all n iterations of a loop, as it does for a loop
// that frontend/irgen leaves in place and that neither contains a loop nor is in one.
func (p *planner) walksAll(facts *loopFacts, l *ir.Loop, n uint64) bool {
	if n > maxTripCount || l.Parent != nil || !facts.alone(l) {
		return false
	}
	c := p.cost(facts, l, n)
	return c.insns <= overrun*walkBudget && c.waits <= waitBudget
}

// alone reports whether a loop contains no other loop.
func (x *loopFacts) alone(l *ir.Loop) bool {
	return !slices.ContainsFunc(x.nest.Loops, func(in *ir.Loop) bool { return in != l && within(in, l) })
}

// deep reports whether a loop is nested in a loop that is nested in l.
func (x *loopFacts) deep(l *ir.Loop) bool {
	return slices.ContainsFunc(x.nest.Loops, func(in *ir.Loop) bool { return in != l && within(in, l) && !x.alone(in) })
}

// within reports whether a loop is, or is nested in, another one.
func within(in, l *ir.Loop) bool {
	for up := in; up != nil; up = up.Parent {
		if up == l {
			return true
		}
	}
	return false
}

// loopCost estimates how much of the code the kernel's verifier walks.
type loopCost struct{ insns, waits float64 }

func (c loopCost) plus(d loopCost) loopCost { return loopCost{c.insns + d.insns, c.waits + d.waits} }

// cost returns the cost of the nest of l, or for nil of the code outside loops over ranges.
// unknown is the trip count of loops of unknown length.
func (p *planner) cost(facts *loopFacts, l *ir.Loop, unknown uint64) loopCost {
	var all loopCost
	for _, b := range facts.dom.Order {
		if l != nil && !facts.dom.Dominates(l.Header, b) {
			continue
		}
		trips, mine := 1.0, l == nil
		for up := facts.nest.Of(b); up != nil; up = up.Parent {
			if l == nil && rangeHead(up) != nil {
				mine = false
			}
			trips *= float64(facts.tripCount(up, unknown))
			if up == l {
				mine = true
			}
		}
		if !mine {
			continue
		}
		n := 1.0
		for _, v := range b.Values {
			n += float64(cost(v))
			if v.Op == ir.OpCallSub {
				n += p.calleeCost(v.Sym)
			}
		}
		all.insns += n * trips
		// The exit edge of the nest's head does not wait: it is walked first.
		if b.Term.Kind == ir.Br && !b.Term.Arg.IsConst() && (l == nil || b != l.Header) {
			all.waits += trips
			all.insns += otherSide * trips
		}
	}
	return all
}

// calleeCost returns the cost of a function of the script, which the kernel verifies at each call.
func (p *planner) calleeCost(name string) float64 {
	n := 0
	for _, f := range p.m.Funcs {
		if f.Name == name && !f.Global {
			n += instructions(f)
		}
	}
	return float64(n)
}

// tripCount returns how many iterations of a loop the kernel verifies.
func (x *loopFacts) tripCount(l *ir.Loop, unknown uint64) uint64 {
	const guess = 64 // for a loop with a counter of its own
	for _, v := range l.Header.Values {
		switch {
		case v.Op == ir.OpMapNext:
			return 2
		case v.Op == ir.OpRangeNext && v.Args[0].Op != ir.OpRangeIter:
			return unknown
		case v.Op == ir.OpRangeNext:
			n := v.Args[0].Args[0]
			if n.IsConst() && uint64(n.Imm) <= maxIterations && !x.leaves(l) {
				return max(uint64(n.Imm), 1)
			}
			return max(min(x.ranges.At(n, v.Args[0].Block).UMax, unknown), 1)
		}
	}
	test := l.Header.Term.Arg
	if l.Header.Term.Kind != ir.Br || test.Op != ir.OpICmp {
		return guess
	}
	first, ok := x.initial(l, test.Args[0])
	last := x.ranges.At(test.Args[1], l.Header).SMax
	if n := last - first; ok && n > 0 && n <= inPlaceTripCount {
		return uint64(n)
	}
	return guess
}

// initial returns the constant from which a loop counts p.
func (x *loopFacts) initial(l *ir.Loop, p *ir.Value) (int64, bool) {
	for i, q := range l.Header.Params {
		if q != p {
			continue
		}
		for _, w := range ir.Preds(x.f)[l.Header.ID] {
			if arg := w.Edge().Args[i]; !x.dom.Dominates(l.Header, w.Block) {
				return arg.Imm, arg.IsConst()
			}
		}
	}
	return 0, false
}

// leaves reports whether a block in a loop's body leaves the loop.
func (x *loopFacts) leaves(l *ir.Loop) bool {
	inside := map[*ir.Block]bool{}
	for _, b := range l.Blocks {
		inside[b] = true
	}
	for _, b := range l.Blocks {
		for _, e := range b.Term.Succs {
			if b != l.Header && !inside[e.To] {
				return true
			}
		}
	}
	return false
}
