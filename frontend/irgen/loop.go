// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/internal/probe"
	"btc/ir"
)

// loopTargets are the targets of break and continue.
type loopTargets struct{ brk, cont *ir.Block }

// repeat generates the body of a loop.
func (f *fn) repeat(body *ast.Block, brk, cont *ir.Block) {
	f.loop = append(f.loop, loopTargets{brk, cont})
	f.block(body)
	f.loop = f.loop[:len(f.loop)-1]
}

func (f *fn) while(s *ast.WhileStmt) {
	if !f.isCounted(s) {
		f.whileIter(s)
		return
	}
	head, body, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head)
	f.start(head, false)
	f.condition(s.Cond, body, rest)
	f.start(body, true)
	f.repeat(s.Body, rest, head)
	f.jump(head)
	f.seal(head)
	f.start(rest, true)
	f.endIfUnreachable(rest)
}

// whileIter generates a while loop that the kernel's verifier cannot follow to its end, because
// nothing counts its iterations: it becomes a loop over a long range.
func (f *fn) whileIter(s *ast.WhileStmt) {
	const all = 1<<63 - 1 // bpf_loop makes fewer
	iter := f.Emit(ir.OpRangeIter, ir.TI64, ir.Const(all))
	at, pos, end, span := f.at, f.Pos, f.end, f.span
	head, test, body, done, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head)
	f.start(head, false)
	next := f.Emit(ir.OpRangeNext, ir.TI64, iter)
	f.branch(f.ICmp(ir.NE, next, ir.Const(0)), test, done)
	f.start(test, true)
	f.condition(s.Cond, body, rest)
	f.start(body, true)
	f.repeat(s.Body, rest, head)
	f.jump(head)
	f.seal(head)
	f.at, f.Pos, f.end, f.span = at, pos, end, span
	f.reportIfCut(iter, s, done, rest)
	f.start(rest, true)
}

// reportIfCut begins the block after a loop: if iterations are left, it reports that to the user.
func (f *fn) reportIfCut(iter *ir.Value, s ast.Stmt, done, rest *ir.Block) {
	f.start(done, true)
	cut := f.Emit(ir.OpRangeCut, ir.TI64, iter)
	cut.Imm = int64(f.runtimeError(cutText, s))
	report := f.f.NewBlock()
	report.Cold = true
	f.branch(f.ICmp(ir.NE, cut, ir.Const(0)), report, rest)
	f.start(report, true)
	f.Emit(ir.OpError, ir.TVoid, f.AddImm(cut, -1))
	f.jump(rest)
}

// cutText is the message at the limit of bpf_loop.
const cutText = "Loop stopped after 8388608 iterations: this is the limit of the kernel for one loop"

// isCounted reports whether the loop compares a variable that it changes with a known number: then the verifier can
// see that the loop ends, unless the variable gets values that are read, as in $p = $p->next.
func (f *fn) isCounted(s *ast.WhileStmt) bool {
	changed, read := map[*check.Var]bool{}, map[*check.Var]bool{}
	note := func(x, value ast.Expr) {
		if v, ok := x.(*ast.Var); ok {
			changed[f.body.Expr(v).Var] = true
			if value != nil && isRead(value) {
				read[f.body.Expr(v).Var] = true
			}
		}
	}
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			note(n.Left, n.Right)
		case *ast.IncDec:
			note(n.X, nil)
		}
		return true
	})
	counter := func(x ast.Expr) bool {
		v, ok := ast.Unparen(x).(*ast.Var)
		return ok && changed[f.body.Expr(v).Var] && !read[f.body.Expr(v).Var]
	}
	// With a large number the verifier would follow too many iterations.
	few := func(n int64) bool { return -countedTrips <= n && n <= countedTrips }
	known := func(x ast.Expr) bool {
		x = ast.Unparen(x)
		e := f.body.Expr(x)
		if _, ok := x.(*ast.Var); ok && e != nil && e.Var != nil && e.Var.Type.IsScalar() {
			v := f.getVar(e.Var, irType(e.Var.Type))
			return !changed[e.Var] && v.IsConst() && few(v.Imm)
		}
		return e != nil && e.Const != nil && (e.Const.IsStr || few(e.Const.Int))
	}
	found := false
	bound := func(cond ast.Expr) {
		ast.Inspect(cond, func(n ast.Node) bool {
			if c, ok := n.(*ast.Binary); ok && isOrder(c.Op) {
				found = found || counter(c.X) && known(c.Y) || counter(c.Y) && known(c.X)
			}
			return !found
		})
	}
	bound(s.Cond)
	ast.Inspect(s.Body, func(n ast.Node) bool {
		if c, ok := n.(*ast.IfExpr); ok && leaves(c) {
			bound(c.Cond)
		}
		return !found
	})
	return found
}

// isRead reports whether an expression reads memory or a map, or calls something: the verifier does not know its value.
func isRead(x ast.Expr) bool {
	found := false
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Map, *ast.MapElem, *ast.Index, *ast.Field, *ast.Call:
			found = true
		case *ast.Unary:
			found = found || n.Op == ast.Deref
		}
		return !found
	})
	return found
}

// leaves reports whether a branch of an if ends the loop.
func leaves(x *ast.IfExpr) bool {
	found := false
	ast.Inspect(x, func(n ast.Node) bool {
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

func isOrder(op ast.BinaryOp) bool {
	switch op {
	case ast.Eq, ast.Ne, ast.Lt, ast.Gt, ast.Le, ast.Ge:
		return true
	}
	return false
}

func (f *fn) unroll(s *ast.UnrollStmt) {
	n := f.body.Unroll(s)
	if n == 0 {
		f.unrollParam(s)
		return
	}
	rest := f.f.NewBlock()
	for range n {
		if f.ended() {
			break
		}
		next := f.f.NewBlock()
		f.repeat(s.Body, rest, next)
		f.jump(next)
		f.start(next, true)
		f.endIfUnreachable(next)
	}
	f.jump(rest)
	f.start(rest, true)
	f.endIfUnreachable(rest)
}

// unrollParam repeats a number of times given by a load-time parameter: a loop of at most MaxUnroll iterations, whose
// trip count the kernel's verifier knows.
func (f *fn) unrollParam(s *ast.UnrollStmt) {
	n := f.num(s.Count)
	most := ir.Const(check.MaxUnroll)
	f.counted(s, ir.Const(0), f.Select(f.ICmp(ir.SGT, n, most), most, n), ir.SLT, s.Body, nil)
}

func (f *fn) forStmt(s *ast.ForStmt) {
	if r, ok := ast.Unparen(s.Over).(*ast.Range); ok {
		f.forRange(s, r)
		return
	}
	f.forMap(s)
}

// inlineTrips is the trip count (for nested loops, the product of their trip counts) up to which a loop of known
// length becomes a loop in place, of which the kernel's verifier follows each iteration. The limit is lower for a
// loop with a loop in its body and in a program that runs once: there an iteration of bpf_loop costs less than
// verifying one of a loop in place.
const (
	inlineTrips = 2048
	outerTrips  = 64
	onceTrips   = 64
	// countedTrips is the largest trip count of a while loop with its own counter that is left unchanged for the
	// verifier to follow.
	countedTrips = 1 << 14
)

// forRange generates "for ($i : from..to)". The range is half-open, and the bounds are evaluated
// once.
func (f *fn) forRange(s *ast.ForStmt, r *ast.Range) {
	from := f.num(r.From)
	to := f.num(r.To)
	less := ir.ULT
	if f.body.Loop(s).Type.Signed {
		less = ir.SLT
	}
	outer := max(f.trips, 1)
	if from.IsConst() && to.IsConst() {
		n := uint64(0)
		if less.Eval(from.Imm, to.Imm) {
			n = uint64(to.Imm - from.Imm)
		}
		most := uint64(inlineTrips / outer)
		if hasLoop(s.Body) {
			most = min(most, outerTrips)
		}
		if p := f.f.Prog; p != nil && probe.RunByLoader(p.Kind) {
			most = min(most, onceTrips)
		}
		if n <= most {
			f.trips = outer * max(int(n), 1)
			if hasLoop(s.Body) { // passes/loop_in_place.go bounds the product
				f.forIter(s, from, to, less)
			} else {
				f.counted(s, from, to, less, s.Body, f.body.Loop(s))
			}
			f.trips = outer
			return
		}
	}
	f.trips = 1
	f.forIter(s, from, to, less)
	f.trips = outer
}

// hasLoop reports whether a loop is in a block.
func hasLoop(b *ast.Block) bool {
	found := false
	ast.Inspect(b, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ForStmt, *ast.WhileStmt:
			found = true
		}
		return !found
	})
	return found
}

// counted generates a loop with a separate counter, because the script may change $i, the variable
// that is set to the counter at the start of each iteration (nil: none).
func (f *fn) counted(s ast.Stmt, from, to *ir.Value, less ir.Cond, code *ast.Block, v *check.Var) {
	type counter struct{ ast.Stmt }
	hidden := counter{s}
	f.setVar(hidden, from)
	head, body, next, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head)
	f.start(head, false)
	i := f.getVar(hidden, ir.TI64)
	f.branch(f.ICmp(less, i, to), body, rest)
	f.start(body, true)
	if v != nil {
		f.setVar(v, i)
	}
	f.repeat(code, rest, next)
	f.jump(next)
	f.start(next, true)
	f.setVar(hidden, f.Add(f.getVar(hidden, ir.TI64), ir.Const(1)))
	f.jump(head)
	f.seal(head)
	f.start(rest, true)
}

// forIter generates a loop of unknown or large trip count, headed by rangenext.
func (f *fn) forIter(s *ast.ForStmt, from, to *ir.Value, less ir.Cond) {
	n := f.Select(f.ICmp(less, from, to), f.Sub(to, from), ir.Const(0))
	iter := f.Emit(ir.OpRangeIter, ir.TI64, n)
	at, pos, end, span := f.at, f.Pos, f.end, f.span
	head, body, done, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head)
	f.start(head, false)
	next := f.Emit(ir.OpRangeNext, ir.TI64, iter)
	f.branch(f.ICmp(ir.NE, next, ir.Const(0)), body, done)
	f.start(body, true)
	f.setVar(f.body.Loop(s), f.Add(f.AddImm(next, -1), from))
	f.repeat(s.Body, rest, head)
	f.jump(head)
	f.seal(head)
	f.at, f.Pos, f.end, f.span = at, pos, end, span
	f.reportIfCut(iter, s, done, rest)
	f.start(rest, true)
}

// forMap generates "for ($kv : @map)": a loop headed by mapnext, whose body begins by copying key
// and value to the tuple $kv.
func (f *fn) forMap(s *ast.ForStmt) {
	m, kv := f.body.Expr(s.Over).Map, f.body.Loop(s)
	name := ir.MapOperand(m.Name)
	walk := f.Emit(ir.OpMapIter, ir.TI64, name)
	head, body, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head)
	f.start(head, false)
	next := f.Emit(ir.OpMapNext, ir.TMapVal(m.Name, true), name, walk)
	f.branch(f.NotNull(next), body, rest)
	f.start(body, true)
	elem := f.NonNull(next)
	dst, st := f.vars[kv], kv.Type.Store()
	f.clearPadding(dst, kv.Type)
	key := f.Emit(ir.OpMapKey, ir.TMapKey(m.Name), elem)
	f.copy(f.AddImm(dst, int64(st.Offsets[0])), key, m.Key.Store().Size)
	value := f.AddImm(dst, int64(st.Offsets[1]))
	if t := kv.Type.Fields[1].Type; t.IsScalar() {
		f.Store(ir.U64, value, 0, f.Emit(ir.OpElemGet, irType(t), name, elem))
	} else {
		f.Emit(ir.OpElemGetMem, ir.TVoid, name, value, elem)
	}
	f.repeat(s.Body, rest, head)
	f.jump(head)
	f.seal(head)
	f.start(rest, true)
}
