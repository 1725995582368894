// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"slices"

	"btc/ir"
)

// simplify-cfg simplifies the control flow graph: decided branches become jumps,
// unreachable blocks are removed, a block is merged with its only predecessor, empty blocks
// are skipped, a branch on a block parameter is decided where the argument is known,
// parameters with a single argument are removed, and a tiny diamond becomes a select.
//
// requires:    -
// establishes: every block is reachable; no empty block that only jumps; no
// block whose only way in is a jump; no branch on a constant
// invalidates: dominators, liveness, loops, ranges
//
//	b0(v0:ctx):
//	  v1:i1 = icmp eq v9, 1
//	  br v1, b1, b3(false)
//	b1:
//	  v2:i1 = icmp eq v8, 2
//	  jump b3(v2)
//	b3(v3:i1):                         ; v9 == 1 && v8 == 2
//	  br v3, b4, b5
//	->
//	b0(v0:ctx):
//	  v1:i1 = icmp eq v9, 1
//	  br v1, b1, b5
//	b1:
//	  v2:i1 = icmp eq v8, 2
//	  br v2, b4, b5
func simplifyCFG(m *ir.Module) []ir.Diag {
	m.EachFunc(func(_ int, f *ir.Func) { simplifyFunc(f) })
	return nil
}

func simplifyFunc(f *ir.Func) {
	for {
		changed := ir.RemoveUnreachable(f)
		for _, step := range cfgSteps {
			if step(f) {
				changed = true
				ir.RemoveUnreachable(f)
			}
		}
		if !changed {
			return
		}
	}
}

// cfgSteps each do one simplification over a function and report a change.
var cfgSteps = []func(*ir.Func) bool{decideBranches, threadEdges, dropParams, mergeBlocks, selectDiamonds}

// decideBranches turns branches on a constant or with equal edges into jumps.
func decideBranches(f *ir.Func) bool {
	changed := false
	for _, b := range f.Blocks {
		t := &b.Term
		if t.Kind != ir.Br {
			continue
		}
		switch {
		case t.Arg.IsConst():
			e := t.Succs[1-t.Arg.Imm&1]
			b.Jump(e.To, t.Pos, e.Args...)
		case sameEdge(t.Succs[0], t.Succs[1]):
			b.Jump(t.Succs[0].To, t.Pos, t.Succs[0].Args...)
		default:
			continue
		}
		changed = true
	}
	return changed
}

func sameEdge(a, b ir.Edge) bool {
	return a.To == b.To && slices.EqualFunc(a.Args, b.Args, sameOperand)
}

// threadEdges redirects edges past blocks that hold nothing but a terminator.
func threadEdges(f *ir.Func) bool {
	changed := false
	inside := paramsUsedInside(f)
	for _, b := range f.Blocks {
		for i := range b.Term.Succs {
			if skip(&b.Term.Succs[i], b, inside) {
				changed = true
			}
		}
		if b.Term.Kind == ir.Jump && pullTerm(b, inside) {
			changed = true
		}
	}
	return changed
}

// paramsUsedInside reports, for each block that has parameters and no values, whether only
// its own terminator uses them: then an edge may bypass it.
func paramsUsedInside(f *ir.Func) []bool {
	inside := make([]bool, f.NumBlocks())
	for _, b := range f.Blocks {
		inside[b.ID] = len(b.Values) == 0
	}
	for _, b := range f.Blocks {
		use := func(v *ir.Value) {
			if v.Op == ir.OpParam && v.Block != b {
				inside[v.Block.ID] = false
			}
		}
		for _, v := range b.Values {
			for _, a := range v.Args {
				use(a)
			}
		}
		b.Term.Uses(func(v **ir.Value) { use(*v) })
	}
	return inside
}

// skip redirects edge e of block b past an empty block that jumps, or that
// branches on a parameter for which e passes a constant.
func skip(e *ir.Edge, b *ir.Block, inside []bool) bool {
	to := e.To
	if to == b || !inside[to.ID] || to == to.Func.Entry() {
		return false
	}
	var out ir.Edge
	switch t := &to.Term; t.Kind {
	case ir.Jump:
		out = t.Succs[0]
	case ir.Br:
		c := through(t.Arg, to, e.Args)
		if !c.IsConst() || c == t.Arg {
			return false
		}
		out = t.Succs[1-c.Imm&1]
	default:
		return false
	}
	if out.To == to {
		return false
	}
	*e = passOn(out, to, e.Args)
	return true
}

// passOn returns an edge out of block b as it is for an edge into b that passes args.
func passOn(out ir.Edge, b *ir.Block, args []*ir.Value) ir.Edge {
	n := ir.Edge{To: out.To}
	for _, a := range out.Args {
		n.Args = append(n.Args, through(a, b, args))
	}
	return n
}

// through returns value v of block b as it is for an edge into b that passes args.
func through(v *ir.Value, b *ir.Block, args []*ir.Value) *ir.Value {
	if i := slices.Index(b.Params, v); i >= 0 && v.ID >= 0 {
		return args[i]
	}
	return v
}

// pullTerm replaces b's jump to an empty block by that block's return, or by its branch
// when that is on a parameter: the truth value is then not materialized.
func pullTerm(b *ir.Block, inside []bool) bool {
	e := b.Term.Succs[0]
	to := e.To
	if to == b || !inside[to.ID] || to == to.Func.Entry() {
		return false
	}
	switch t := &to.Term; t.Kind {
	case ir.Ret:
		b.Ret(through(t.Arg, to, e.Args), t.Pos)
		return true
	case ir.Br:
		if c := through(t.Arg, to, e.Args); c != t.Arg && t.Succs[0].To != to && t.Succs[1].To != to {
			b.Br(c, passOn(t.Succs[0], to, e.Args), passOn(t.Succs[1], to, e.Args), t.Pos)
			return true
		}
	}
	return false
}

// dropParams replaces a parameter for which every edge passes the same value.
func dropParams(f *ir.Func) bool {
	changed := false
	preds := ir.Preds(f)
	subst := ir.Subst{}
	for _, b := range f.Blocks[1:] {
		for i := len(b.Params) - 1; i >= 0; i-- {
			p := b.Params[i]
			w := onlyArgument(p, i, preds[b.ID], subst)
			if w == nil {
				continue
			}
			subst[p] = w
			ir.RemoveParam(b, i, preds[b.ID])
			changed = true
		}
	}
	subst.Apply(f)
	return changed
}

// onlyArgument returns the value that all edges pass for p; p itself, along a back edge, is
// ignored. A nullable parameter keeps its type.
func onlyArgument(p *ir.Value, i int, preds []ir.Pred, subst ir.Subst) *ir.Value {
	var only *ir.Value
	for _, pred := range preds {
		a := subst.Of(pred.Edge().Args[i])
		switch {
		case a == p:
		case only == nil:
			only = a
		case !sameOperand(only, a):
			return nil
		}
	}
	if only == nil || only.Type != p.Type {
		return nil
	}
	return only
}

// mergeBlocks appends a block to its only predecessor when that jumps to it.
func mergeBlocks(f *ir.Func) bool {
	changed := false
	preds := ir.Preds(f)
	for _, b := range f.Blocks {
		for b.Term.Kind == ir.Jump {
			to := b.Term.Succs[0].To
			if to == b || to == f.Entry() || len(preds[to.ID]) != 1 || len(to.Params) > 0 {
				break // dropParams removes the parameters first
			}
			for _, v := range to.Values {
				b.AppendValue(v)
			}
			b.Term = to.Term
			b.Cold = b.Cold && to.Cold
			to.Values, to.Term = nil, ir.Term{Kind: ir.Ret, Arg: ir.Const(0), Pos: ir.NoPos} // unreachable now
			for _, e := range b.Term.Succs {
				for i, p := range preds[e.To.ID] {
					if p.Block == to {
						preds[e.To.ID][i].Block = b
					}
				}
			}
			changed = true
		}
	}
	return changed
}

// selectDiamonds replaces a branch whose edges meet at once and differ in one argument by a
// select. More arguments would cost more moves than the branch.
func selectDiamonds(f *ir.Func) bool {
	changed := false
	for _, b := range f.Blocks {
		t := &b.Term
		if t.Kind != ir.Br || t.Succs[0].To != t.Succs[1].To {
			continue
		}
		yes, no := t.Succs[0].Args, t.Succs[1].Args
		differ := -1
		for i := range yes {
			if !sameOperand(yes[i], no[i]) {
				if differ >= 0 {
					differ = -2
					break
				}
				differ = i
			}
		}
		if differ < 0 || !selectable(yes[differ], no[differ]) {
			continue
		}
		args := slices.Clone(yes)
		args[differ] = b.Append(ir.OpSelect, yes[differ].Type, t.Pos, t.Arg, yes[differ], no[differ])
		b.Jump(t.Succs[0].To, t.Pos, args...)
		changed = true
	}
	return changed
}

// selectable reports whether the kernel verifier sees plain numbers.
func selectable(x, y *ir.Value) bool {
	return x.Type == y.Type && (x.Type == ir.TI64 || x.Type == ir.TI1 || x.Type.IsForeign())
}
