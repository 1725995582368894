// SPDX-License-Identifier: Apache-2.0

package check

import (
	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
)

func (b *body) loopBody(blk *ast.Block) {
	b.loops++
	b.block(blk)
	b.loops--
}

// MaxUnroll is the maximum number of repetitions of unroll.
const MaxUnroll = 100

func (b *body) unroll(s *ast.UnrollStmt) {
	if b.ofParams(s.Count) {
		b.integer(s.Count, "unroll")
		b.loopBody(s.Body)
		return
	}
	t := b.value(s.Count)
	c := b.out.Expr(s.Count).Const
	n := int64(0)
	if c != nil {
		n = c.Int
	}
	switch {
	case invalid(t):
	case c == nil || c.IsStr || t.Kind == types.Bool || n < 0 && t.Signed:
		b.fail(diag.BadUnroll, s.Count, "invalid unroll value").Hint("expected an integer constant from 1 to %d", MaxUnroll)
	case n == 0:
		b.fail(diag.BadUnroll, s.Count, "unroll minimum value is 1")
	case uint64(n) > MaxUnroll:
		b.fail(diag.BadUnroll, s.Count, "unroll maximum value is %d", MaxUnroll)
	default:
		b.out.count[s] = int(n)
		outer := b.repeat
		b.repeat = min(max(b.repeat, 1)*int(n), maxStmts)
		b.loopBody(s.Body)
		b.repeat = outer
		return
	}
	b.loopBody(s.Body)
}

// ofParams reports whether a number is known when the object is loaded: computed
// from positional parameters.
func (b *body) ofParams(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.Positional:
		return true
	case *ast.Binary:
		_, left := ast.Unparen(x.X).(*ast.IntLit)
		_, right := ast.Unparen(x.Y).(*ast.IntLit)
		return b.ofParams(x.X) && (right || b.ofParams(x.Y)) || left && b.ofParams(x.Y)
	}
	return false
}

func (b *body) while(s *ast.WhileStmt) {
	b.condition(s.Cond)
	b.whiles++
	b.loopBody(s.Body)
	b.whiles--
}

// forStmt checks "for ($i : from..to)" or "for ($kv : @map)".
func (b *body) forStmt(s *ast.ForStmt) {
	slot := b.clause.scope.slot(s.Var)
	v := b.vars[slot]
	b.out.loops[s] = v
	t, walk := types.TInvalid, false
	switch over := ast.Unparen(s.Over).(type) {
	case *ast.Range:
		b.set(over, &Expr{Type: types.TNone})
		from, to := b.rangeEnd(over.From, "start"), b.rangeEnd(over.To, "end")
		if p, ok := types.Promote(from, to); ok && !invalid(p.Type) {
			t = p.Type
		}
		outer := b.trips
		defer func() { b.trips = outer }()
		b.countTrips(s, over)
	case *ast.Map:
		walk, v.Element = true, true
		t = b.walkElem(over)
	default:
		b.value(s.Over)
		b.fail(diag.BadMapUse, s.Over, "expected map or range in for loop")
	}
	if !invalid(t) {
		b.grow(&v.Type, t)
	}
	b.seen[slot] = true
	b.set(s.Var, &Expr{Type: orInvalid(v.Type), Var: v})
	if walk {
		b.walks++
		defer func() { b.walks-- }()
	}
	b.fors++
	b.loopBody(s.Body)
	b.fors--
}

// maxTripsOfRun is how many iterations of the shortest body take the CPU time that the loops of one run may take, 0.25 s
// (loader/rewrite.LoopNanos).
const maxTripsOfRun = 50e6

// countTrips warns of a loop that, with the loops around it, makes too many iterations for one run. A loop that may end
// early does not count.
func (b *body) countTrips(s *ast.ForStmt, r *ast.Range) {
	from, to := b.out.Expr(r.From), b.out.Expr(r.To)
	if from == nil || to == nil || from.Const == nil || to.Const == nil || endsEarly(s.Body) {
		return
	}
	const most = 1 << 23 // of one call of bpf_loop
	was := max(b.trips, 1)
	b.trips = was * min(max(float64(to.Const.Int)-float64(from.Const.Int), 0), most)
	if b.trips > maxTripsOfRun && was <= maxTripsOfRun {
		b.fail(diag.LongLoop, r, "these loops make %.0f iterations, and are stopped after 0.25 s of CPU time", b.trips).
			Hint("use smaller ranges, or run the object with --allow long-loops")
	}
}

// endsEarly reports whether a loop may end before its last iteration.
func endsEarly(body *ast.Block) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BranchStmt:
			found = found || !n.Continue
		case *ast.ReturnStmt:
			found = true
		}
		return !found
	})
	return found
}

// rangeEnd types the start or the end of a range.
func (b *body) rangeEnd(x ast.Expr, which string) *types.Type {
	t := b.value(x)
	if !invalid(t) && t.Kind != types.Int && t.Kind != types.Enum {
		b.fail(diag.BadArguments, x, "Loop range requires an integer for the %s value", which)
		return types.TInvalid
	}
	return t
}

// walkElem returns the type of the elements of a map: (key, value). The kernel calls the body with the current CPU's
// value of each element, so an aggregation gets the shared layout, like one that is read.
func (b *body) walkElem(x *ast.Map) *types.Type {
	m := b.mapNamed(x)
	b.set(x, &Expr{Type: types.TNone, Map: &m.Map})
	b.unknownMap(m, x)
	switch {
	case m.use == keyScalar:
		b.fail(diag.KeyMismatch, x, "%s has no explicit keys (scalar map), and cannot be used for iteration", m.Name).
			Note(m.keyAt, "it has no key here")
		return types.TInvalid
	case m.agg != nil && !m.agg.IsReadable():
		b.fail(diag.BadMapUse, x, "Loop expression does not support type: %s", m.agg).
			Hint("print(%s) prints the whole map", m.Name)
		return types.TInvalid
	case m.Key == nil:
		return types.TInvalid // known in a later round
	}
	value := m.Value
	if m.agg != nil {
		value, m.Read = types.MakeInt(8, m.agg.Signed), true
	}
	if value == nil {
		return types.TInvalid
	}
	return b.bounded(x, types.MakeTuple(fitKey(m.Key.Fixed(), maxKey), value.Fixed()))
}

// noContext reports builtins that read the context in the body of a loop over a map.
func (b *body) noContext(at ast.Node, name string) {
	if b.walks > 0 {
		b.fail(diag.NotInThisProbe, at, "'%s' builtin is not allowed in a for-loop", name).
			Hint("read it into a variable before the loop")
	}
}
