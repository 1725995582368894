// SPDX-License-Identifier: Apache-2.0

package passes

import "btc/ir"

// forgetCarried hides from the verifier what one iteration of a callback passes to the
// next, where the branches of the body depend on it; see unknown. Otherwise the branches
// make the value known: with "$w++; if ($w > 8) { ... }", the other side has only 8 for $w
// after a few iterations, then 9, 10 and so on are verified one by one.
func (o *outliner) forgetCarried() {
	changed := map[int64]bool{}
	for _, b := range o.cb.Blocks {
		for _, v := range b.Values {
			if v.Op == ir.OpStore && v.Args[0] == o.frame {
				changed[v.Imm] = true
			}
		}
	}
	decides := deciding(o.cb)
	known := ir.Subst{}
	at := ir.AtEnd(o.cb.Entry(), o.next.Pos)
	var zero *ir.Value
	for _, p := range o.head.Params {
		v := o.subst[p]
		if v == nil || v.Op != ir.OpLoad || v.Type != ir.TI64 || !decides[v] || !changed[v.Imm] {
			continue
		}
		if zero == nil {
			global(o.m, unknownZero, ir.GlobalData, 8)
			zero = at.Global(ir.U64, unknownZero, 0)
		}
		known[v] = at.Emit(ir.OpAdd, ir.TI64, v, zero)
	}
	known.Apply(o.cb)
	for v, sum := range known {
		sum.Args[0] = v
	}
}

// deciding returns the numbers that comparisons in f depend on.
func deciding(f *ir.Func) map[*ir.Value]bool {
	found := map[*ir.Value]bool{}
	var work []*ir.Value
	add := func(v *ir.Value) {
		if v.ID >= 0 && !found[v] {
			found[v] = true
			work = append(work, v)
		}
	}
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			if v.Op == ir.OpICmp {
				add(v)
			}
		}
	}
	preds := ir.Preds(f)
	for len(work) > 0 {
		v := work[len(work)-1]
		work = work[:len(work)-1]
		if v.Op != ir.OpParam {
			for _, a := range v.Args {
				add(a)
			}
			continue
		}
		for i, p := range v.Block.Params {
			for _, way := range preds[v.Block.ID] {
				if p == v {
					add(way.Edge().Args[i])
				}
			}
		}
	}
	return found
}
