package passes

import "btc/ir"

// thread-tests leads edges past a block that only compares its parameter with a
// constant, when the edge passes a constant: a map read that finds nothing goes
// straight to where 0 is handled. Then the other side knows that there is an
// element, and range drops its null test.
//
// requires:    -
// establishes: no edge passes a constant to a block that only tests it, where
//
//	the block's parameters are not needed on the side it leads to
//
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
func threadTests(m *ir.Module) []ir.Diag {
	for _, f := range m.Funcs {
		for threadOne(f) {
		}
	}
	return nil
}

// threadOne threads the edges past the first test block that has any to thread.
func threadOne(f *ir.Func) bool {
	ir.RemoveUnreachable(f)
	preds := ir.Preds(f)
	var d *ir.DomTree
	for _, b := range f.Blocks[1:] {
		p, ok := testedParam(b)
		if !ok {
			continue
		}
		if d == nil {
			d = ir.Dominators(f)
		}
		changed := false
		for _, way := range preds[b.ID] {
			e := way.Edge()
			test := b.Values[0]
			if way.Block == b || !e.Args[p].IsConst() {
				continue
			}
			yes, known := test.Cond.Decide(ir.RangeOf(e.Args[p].Imm), ir.RangeOf(test.Args[1].Imm))
			side := 0
			if known && !yes {
				side = 1
			}
			if !known || !freeOf(b, side, preds, d) {
				continue
			}
			*e = passOn(b.Term.Succs[side], b, e.Args)
			changed = true
		}
		if changed {
			return true
		}
	}
	return false
}

// testedParam finds the parameter of a block that only tests it.
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

// freeOf tells whether b's parameters and its test are needed, outside of b,
// only on the other side: in blocks that stay behind b.
func freeOf(b *ir.Block, side int, preds [][]ir.Pred, d *ir.DomTree) bool {
	other := b.Term.Succs[1-side].To
	private := len(preds[other.ID]) == 1 && other != b.Term.Succs[side].To
	own := func(v *ir.Value) bool { return v.Block == b && (v.Op == ir.OpParam || v == b.Values[0]) }
	for _, x := range b.Func.Blocks {
		if x == b || private && d.Dominates(other, x) {
			continue
		}
		needed := false
		for _, v := range x.Values {
			for _, a := range v.Args {
				needed = needed || own(a)
			}
		}
		x.Term.Uses(func(v **ir.Value) { needed = needed || own(*v) })
		if needed {
			return false
		}
	}
	return true
}
