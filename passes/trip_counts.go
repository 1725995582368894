package passes

import (
	"math"
	"slices"

	"btc/ir"
)

// How many turns a loop in place may make. The kernel walks each turn of it and
// refuses a program of which it has walked a million instructions, or of which more
// than 8192 branches wait for their other side (BPF_COMPLEXITY_LIMIT_JMP_SEQ).

const (
	// walkBudget is how many instructions the kernel may walk for the loops of a
	// function together: a fraction of a second.
	walkBudget = 150_000
	// patience is by how much loops may exceed the budget that cannot have fewer turns.
	patience = 3
	// otherSide is what it walks of the other side of a branch, until it finds that it
	// has been in such a state before: in loops it keeps only some of the states.
	otherSide = 40
	// waitBudget is how many branches of these loops may wait at a time.
	waitBudget = 7000
	// mostTurns is the most for a loop of unknown length, however small its body.
	mostTurns = 1 << 11
	// inPlaceTurns is the most turns of a loop that frontend/irgen leaves in place.
	inPlaceTurns = 1 << 14
	// leastTurns is the fewest that make a loop in place worth its code.
	leastTurns = 16
)

// planner says which loops over ranges have a form in place, and its turns.
type planner struct {
	m      *ir.Module
	turns  map[*ir.Value]uint64 // by rangenext: the most
	within map[*ir.Value]bool   // by rangenext: it never has more
	// hasLoop marks functions that only kernels with bpf_loop run.
	hasLoop map[*ir.Func]bool
	never   bool // no loop has the form: another construct needs bpf_loop
}

// inPlace reports whether the loop of next, outermost in f, is to have the form in place.
func (p *planner) inPlace(f *ir.Func, next *ir.Value) bool {
	return next.Op == ir.OpRangeNext && !p.never && !p.hasLoop[f] && p.turns[next] > 0
}

// planLoops plans all loops over ranges. Where one cannot have the form in place the
// object needs bpf_loop, and none has.
func planLoops(m *ir.Module) *planner {
	p := &planner{m: m, turns: map[*ir.Value]uint64{}, within: map[*ir.Value]bool{}, hasLoop: map[*ir.Func]bool{}}
	for _, f := range m.Funcs {
		p.planFunc(f)
	}
	for _, n := range m.Meta.Needs {
		p.never = p.never || n.Feature == rangeHelper
	}
	return p
}

// loopFacts is what the plan of a function looks at.
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

// rangeHead is the rangenext that heads a loop, nil when it has none.
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
			if l := facts.nest.Of(b); v.Op == ir.OpRangeNext && (l == nil || l.Header != b) { // its body never comes back
				p.turns[v], p.within[v] = maxTurns, true
			}
		}
	}
	if len(outer) == 0 {
		return
	}
	// What the code around, the loops of known length and the fewest turns of the others
	// cost is not to be changed; the others share the rest.
	fixed, sharing := p.cost(facts, nil, mostTurns), 0.0
	for _, l := range outer {
		fixed = fixed.plus(p.cost(facts, l, leastTurns))
		if p.cost(facts, l, 1) != p.cost(facts, l, 2) {
			sharing++
		}
	}
	for _, l := range outer {
		least := p.cost(facts, l, leastTurns)
		if fixed.insns > patience*walkBudget || fixed.waits > waitBudget {
			least = loopCost{}
		}
		p.planNest(facts, l, least.plus(loopCost{max(walkBudget-fixed.insns, walkBudget/4) / max(sharing, 1), max(waitBudget-fixed.waits, 0) / max(sharing, 1)}))
	}
}

// planNest gives the loops of a nest their turns.
func (p *planner) planNest(facts *loopFacts, l *ir.Loop, budget loopCost) {
	most := uint64(0)
	for step := uint64(mostTurns); step > 0; step /= 2 {
		if c := p.cost(facts, l, most+step); most+step <= mostTurns && c.insns <= budget.insns && c.waits <= budget.waits {
			most += step
		}
	}
	whole, what := true, "a loop of so many turns"
	for _, in := range facts.nest.Loops {
		// The verifier walks the callback of a walk over a map anew in each turn, since 6.7
		// several times: such a loop has no form in place.
		if within(in, l) && slices.ContainsFunc(in.Header.Values, func(v *ir.Value) bool { return v.Op == ir.OpMapNext }) {
			whole, what = false, "a loop with 'for' over a map in it"
		}
		if next := rangeHead(in); next != nil && facts.dom.Dominates(l.Header, in.Header) {
			n := next.Args[0]
			if n.Op == ir.OpRangeIter {
				n = n.Args[0]
			}
			known := facts.turnsOf(in, math.MaxUint64)
			p.turns[next], p.within[next] = min(known, most), known <= most
			short := n.IsConst() && p.walksAll(facts, in, uint64(n.Imm))
			if short || n.IsConst() && uint64(n.Imm) <= maxTurns && !facts.leaves(in) { // it makes them all
				p.turns[next], p.within[next] = max(uint64(n.Imm), 1), true
			}
			if short {
				most = max(most, 1)
			}
			if !p.within[next] && (p.turns[next] < leastTurns || len(cutsOf(facts.f, next.Args[0])) == 0) {
				whole = false
			}
		}
	}
	if most == 0 || !whole {
		next := rangeHead(l)
		p.m.Meta.AddNeed(ir.Need{Feature: rangeHelper, Construct: what, Pos: next.Pos})
	}
}

// walksAll reports whether every kernel walks all n turns of a loop, as it does of one that
// frontend/irgen leaves in place: no other loop is around it or in it.
func (p *planner) walksAll(facts *loopFacts, l *ir.Loop, n uint64) bool {
	if n > mostTurns || l.Parent != nil || !facts.alone(l) {
		return false
	}
	c := p.cost(facts, l, n)
	return c.insns <= patience*walkBudget && c.waits <= waitBudget
}

// alone reports whether no other loop is in a loop.
func (x *loopFacts) alone(l *ir.Loop) bool {
	return !slices.ContainsFunc(x.nest.Loops, func(in *ir.Loop) bool { return in != l && within(in, l) })
}

// deep reports whether a loop is in a loop that is in l.
func (x *loopFacts) deep(l *ir.Loop) bool {
	return slices.ContainsFunc(x.nest.Loops, func(in *ir.Loop) bool { return in != l && within(in, l) && !x.alone(in) })
}

// within reports whether a loop is another one or is in it.
func within(in, l *ir.Loop) bool {
	for up := in; up != nil; up = up.Parent {
		if up == l {
			return true
		}
	}
	return false
}

// loopCost is what the kernel's verifier does with code, estimated.
type loopCost struct{ insns, waits float64 }

func (c loopCost) plus(d loopCost) loopCost { return loopCost{c.insns + d.insns, c.waits + d.waits} }

// cost is that of the nest of l, or with nil of what is in no loop over a range. unknown
// is the turns of loops whose length no one knows.
func (p *planner) cost(facts *loopFacts, l *ir.Loop, unknown uint64) loopCost {
	var all loopCost
	for _, b := range facts.dom.Order {
		if l != nil && !facts.dom.Dominates(l.Header, b) {
			continue
		}
		turns, mine := 1.0, l == nil
		for up := facts.nest.Of(b); up != nil; up = up.Parent {
			if l == nil && rangeHead(up) != nil {
				mine = false
			}
			turns *= float64(facts.turnsOf(up, unknown))
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
		all.insns += n * turns
		// The way out of the nest's head does not wait: it is walked first.
		if b.Term.Kind == ir.Br && !b.Term.Arg.IsConst() && (l == nil || b != l.Header) {
			all.waits += turns
			all.insns += otherSide * turns
		}
	}
	return all
}

// calleeCost is that of a function of the script, which the kernel walks at each call.
func (p *planner) calleeCost(name string) float64 {
	n := 0
	for _, f := range p.m.Funcs {
		if f.Name == name {
			n += instructions(f)
		}
	}
	return float64(n)
}

// turnsOf is how many turns of a loop the kernel walks.
func (x *loopFacts) turnsOf(l *ir.Loop, unknown uint64) uint64 {
	const guess = 64 // of a loop that counts in its own way
	for _, v := range l.Header.Values {
		switch {
		case v.Op == ir.OpMapNext:
			return 2
		case v.Op == ir.OpRangeNext && v.Args[0].Op != ir.OpRangeIter:
			return unknown
		case v.Op == ir.OpRangeNext:
			n := v.Args[0].Args[0]
			if n.IsConst() && uint64(n.Imm) <= maxTurns && !x.leaves(l) {
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
	if n := last - first; ok && n > 0 && n <= inPlaceTurns {
		return uint64(n)
	}
	return guess
}

// initial is the known number with which a loop begins to count p.
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

// leaves reports whether something in a loop's body ends the loop.
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
