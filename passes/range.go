// SPDX-License-Identifier: Apache-2.0

package passes

import "btc/ir"

// range is range analysis: it decides comparisons by what is known of the numbers from
// their definitions and from the branches that dominate the comparison. So it also drops a
// null test dominated by another one of the same pointer, and a repeated condition. It
// knows no more than the kernel verifier does on 5.10, which therefore never misses a check
// that was removed.
//
// requires:    -
// establishes: no icmp or branch whose result its block's dominators imply; every
// block is reachable
// invalidates: dominators, liveness, loops, use counts, ranges
//
//	b0(v0:ctx):
//	  v1:i64 = load.u8 [v0+8]
//	  v2:i1 = icmp ult v1, 10
//	  br v2, b1, b2
//	b1:
//	  v3:i1 = icmp ugt v1, 20
//	  br v3, b3, b4
//	->
//	b0(v0:ctx):
//	  v1:i64 = load.u8 [v0+8]
//	  v2:i1 = icmp ult v1, 10
//	  br v2, b1, b2
//	b1:
//	  jump b4
func decideRanges(m *ir.Module) []ir.Diag {
	m.EachFunc(func(_ int, f *ir.Func) { rangesFunc(f) })
	return nil
}

func rangesFunc(f *ir.Func) {
	d := ir.Dominators(f)
	rs := ir.NewRanges(f, d)
	clamps := clampTests(f)
	subst := ir.Subst{}
	type decided struct {
		block *ir.Block
		side  int
	}
	var branches []decided
	for _, b := range d.Order {
		for _, v := range b.Values {
			if v.Op != ir.OpICmp {
				continue
			}
			if yes, known := decide(rs, v, b); known && (!clamps[v] || decidedByDefinition(rs, v)) {
				subst[v] = ir.Bool(yes)
			}
		}
		if t := &b.Term; t.Kind == ir.Br && !t.Arg.IsConst() {
			if yes, known := decide(rs, t.Arg, b); known && yes {
				branches = append(branches, decided{b, 0})
			} else if known {
				branches = append(branches, decided{b, 1})
			}
		}
	}
	for _, x := range branches { // not before: the analysis reads the terminators
		t := &x.block.Term
		e := t.Succs[x.side]
		x.block.Jump(e.To, t.Pos, e.Args...)
	}
	// Where a condition can never hold anything may have been decided: the block is removed
	// at once, or ir.Verify would look at unreachable code.
	ir.RemoveUnreachable(f)
	subst.Apply(f)
	for _, b := range f.Blocks {
		keep := b.Values[:0]
		for _, v := range b.Values {
			if subst[v] == nil {
				keep = append(keep, v)
			}
		}
		b.Values = keep
	}
	// Blocks that only a decided branch led to are removed now: after an edge that is never
	// taken anything can be "known", including what ir.Verify would reject.
	if decideBranches(f) {
		ir.RemoveUnreachable(f)
	}
}

// clampTests finds the comparisons that choose, in a select, between a number
// and its bound. 5.10 forgets what a branch said of a number once the number is
// spilled or copied, so such a test stays next to the use that needs it unless
// the number's definition bounds it.
func clampTests(f *ir.Func) map[*ir.Value]bool {
	clamps := map[*ir.Value]bool{}
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			if v.Op != ir.OpSelect || v.Args[0].Op != ir.OpICmp {
				continue
			}
			if x := v.Args[0].Args[0]; x.ID >= 0 && (x == v.Args[1] || x == v.Args[2]) {
				clamps[v.Args[0]] = true
			}
		}
	}
	return clamps
}

// decidedByDefinition trusts only definitions of one op: 5.10 loses the sign's bound
// of a sum of shifted bits.
func decidedByDefinition(rs *ir.Ranges, v *ir.Value) bool {
	switch x := v.Args[0]; x.Op {
	case ir.OpAdd, ir.OpSub, ir.OpOr, ir.OpXor, ir.OpMul, ir.OpShl:
		return false
	}
	_, known := v.Cond.Decide(rs.Def(v.Args[0]), rs.Def(v.Args[1]))
	return known
}

// decide returns a truth value in block b: known there, or a comparison that its operands'
// ranges settle, or whose holding would leave no number.
func decide(rs *ir.Ranges, v *ir.Value, b *ir.Block) (yes, known bool) {
	if n, ok := rs.At(v, b).Const(); ok {
		return n&1 != 0, true
	}
	if v.Op != ir.OpICmp {
		return false, false
	}
	x, y := rs.At(v.Args[0], b), rs.At(v.Args[1], b)
	if yes, known = v.Cond.Decide(x, y); known || x.Empty() || y.Empty() {
		return yes, known
	}
	if v.Cond.Refine(x, y).Empty() {
		return false, true
	}
	return true, v.Cond.Negate().Refine(x, y).Empty()
}
