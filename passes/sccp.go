// SPDX-License-Identifier: Apache-2.0

package passes

import "btc/ir"

// sccp is sparse conditional constant propagation (Wegman and Zadeck): it assumes every
// value constant, and every branch decided, until a path that is taken shows otherwise. So
// it finds constants that depend on each other around a loop; fold, simplify-cfg and range,
// which begin with what is certain, do not.
//
// requires:    -
// establishes: no branch on a constant; every block is reachable
// invalidates: dominators, liveness, loops, use counts, ranges
//
//	b0(v0:ctx):
//	  jump b1(0, 1)
//	b1(v1:i64, v2:i64):                ; v2 is 1 unless it is not 1
//	  v3:i1 = icmp eq v2, 1
//	  br v3, b2, b3
//	b2:
//	  jump b4(v2)
//	b3:
//	  jump b4(2)
//	b4(v4:i64):
//	  v5:i64 = add v1, v4
//	  v6:i1 = icmp ult v5, 9
//	  br v6, b1(v5, v4), b5
//	->
//	b0(v0:ctx):
//	  jump b1(0, 1)
//	b1(v1:i64, v2:i64):
//	  jump b2
//	b2:
//	  jump b4(1)
//	b4(v4:i64):
//	  v5:i64 = add v1, 1
//	  v6:i1 = icmp ult v5, 9
//	  br v6, b1(v5, 1), b5
//
// Ranges are a pass of their own (range): they need the dominators' branches, may use only
// what the kernel verifier can follow, and would have to be widened around loops.
func sccp(m *ir.Module) []ir.Diag {
	m.EachFunc(func(_ int, f *ir.Func) { sccpFunc(f) })
	return nil
}

// maxSweeps bounds the work: a function without loops takes one sweep, one with loops
// another for each constant that a back edge refutes. A function that takes more is left
// unchanged.
const maxSweeps = 8

func sccpFunc(f *ir.Func) {
	p := &propagation{
		order: ir.ReversePostorder(f),
		facts: make([]fact, f.NumValues()),
		taken: make([]bool, f.NumBlocks()),
		swept: make([]int, f.NumBlocks()),
	}
	if p.run(f) {
		p.replace(f)
	}
}

// fact is what is known of a value: a constant or, during the propagation, that no path to
// it is known.
type fact struct {
	state factState
	n     int64 // when it isConstant
}

type factState uint8

const (
	isUnreached factState = iota
	isConstant
	isAny
)

type propagation struct {
	order []*ir.Block
	facts []fact // by Value.ID; they only rise in the lattice: unreached, a constant, anything
	taken []bool // by Block.ID: a path leads there
	swept []int  // by Block.ID: the last sweep that visited it
	sweep int
	again bool // something changed in a block that the sweep had passed
}

// run sweeps over the blocks until nothing changes, or returns false when it gives up.
// Definitions come before their uses in the order, except for those that pass a back edge.
func (p *propagation) run(f *ir.Func) bool {
	p.taken[f.Entry().ID] = true
	for _, v := range f.Entry().Params {
		p.facts[v.ID] = fact{state: isAny}
	}
	for p.again = true; p.again; {
		if p.sweep++; p.sweep > maxSweeps {
			return false
		}
		p.again = false
		for _, b := range p.order {
			if p.taken[b.ID] {
				p.swept[b.ID] = p.sweep
				p.block(b)
			}
		}
	}
	return true
}

func (p *propagation) block(b *ir.Block) {
	for _, v := range b.Values {
		if v.ID >= 0 {
			p.raise(v, p.result(v))
		}
	}
	t := &b.Term
	if t.Kind == ir.Br {
		if c := p.of(t.Arg); c.state == isConstant {
			p.edge(b, t.Succs[1-c.n&1])
			return
		}
	}
	for _, e := range t.Succs {
		p.edge(b, e)
	}
}

// edge marks e, which leaves b, as taken.
func (p *propagation) edge(b *ir.Block, e ir.Edge) {
	changed := !p.taken[e.To.ID]
	p.taken[e.To.ID] = true
	for i, a := range e.Args {
		v := e.To.Params[i]
		x := p.of(a)
		if v.Type.IsPtr() {
			x = fact{state: isAny} // a null keeps the type of its map
		}
		changed = p.raise(v, x) || changed
	}
	if changed && p.swept[e.To.ID] == p.sweep {
		p.again = true
	}
}

// raise joins x to what is known of v, and reports whether that changed.
func (p *propagation) raise(v *ir.Value, x fact) bool {
	old := p.facts[v.ID]
	switch {
	case old.state == isAny || x.state == isUnreached || old == x:
		return false
	case old.state == isConstant:
		x = fact{state: isAny}
	}
	p.facts[v.ID] = x
	return true
}

// of returns what is known of an operand.
func (p *propagation) of(v *ir.Value) fact {
	switch {
	case v.IsConst():
		return fact{isConstant, v.Imm}
	case v.ID < 0:
		return fact{state: isAny}
	}
	return p.facts[v.ID]
}

// result returns what is known of the result of v, whose operands have all been reached.
func (p *propagation) result(v *ir.Value) fact {
	if n, ok := computed(v, p.arg); ok {
		return fact{isConstant, n}
	}
	return fact{state: isAny}
}

func (p *propagation) arg(v *ir.Value, i int) (n int64, known bool) {
	x := p.of(v.Args[i])
	return x.n, x.state == isConstant
}

// replace puts the constants in and takes the branches that they decide.
func (p *propagation) replace(f *ir.Func) {
	subst := ir.Subst{}
	note := func(v *ir.Value) bool {
		x := p.facts[v.ID]
		if x.state == isConstant {
			subst[v] = constOf(v.Type, x.n)
		}
		return x.state == isConstant
	}
	for _, b := range p.order {
		if !p.taken[b.ID] {
			continue
		}
		for _, v := range b.Params {
			note(v)
		}
		keep := b.Values[:0]
		for _, v := range b.Values {
			if v.ID >= 0 && note(v) {
				v.Block = nil
				continue
			}
			keep = append(keep, v)
		}
		b.Values = keep
	}
	subst.Apply(f)
	decideBranches(f)
	ir.RemoveUnreachable(f)
}
