// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"fmt"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/ir"
)

// block generates the statements of a block; the caller handles its value, if any.
func (f *fn) block(b *ast.Block) {
	for _, s := range b.Stmts {
		if f.ended() {
			return
		}
		if !f.body.Dead(s) {
			f.stmtNode(s)
		}
	}
}

func (f *fn) stmtNode(s ast.Stmt) {
	f.statement(s.Span())
	switch s := s.(type) {
	case *ast.ExprStmt:
		f.effect(s.X)
	case *ast.AssignStmt:
		f.assign(s)
	case *ast.LetStmt:
		f.let(s)
	case *ast.WhileStmt:
		f.while(s)
	case *ast.UnrollStmt:
		f.unroll(s)
	case *ast.ForStmt:
		f.forStmt(s)
	case *ast.BranchStmt:
		t := f.loop[len(f.loop)-1]
		if s.Continue {
			f.jump(t.cont)
		} else {
			f.jump(t.brk)
		}
	case *ast.ReturnStmt:
		f.returns(s)
	default:
		panic(fmt.Sprintf("BUG: no code for statement %T", s))
	}
}

// effect evaluates an expression for its effects.
func (f *fn) effect(x ast.Expr) {
	x = ast.Unparen(x)
	switch x := x.(type) {
	case *ast.IfExpr:
		f.ifExpr(x, func(ast.Expr) {})
		return
	case *ast.Ternary:
		if f.body.Type(x).Kind == types.None {
			f.choose(x.Cond, func() { f.effect(x.Then) }, func() { f.effect(x.Else) })
			return
		}
	case *ast.Block:
		f.block(x)
		if x.Value != nil && !f.ended() {
			f.effect(x.Value)
		}
		return
	case *ast.IncDec:
		f.incDec(x)
		return
	}
	e := f.body.Expr(x)
	if e.Const != nil && !e.Const.Host {
		return
	}
	switch {
	case e.Call != nil:
		f.call(x, e)
	case e.Type.IsScalar():
		f.scalar(x)
	case e.Type.Kind != types.None:
		f.addr(x)
	}
}

// ifExpr generates an if statement or expression: value is called for the last expression of each branch, inside that
// branch.
func (f *fn) ifExpr(x *ast.IfExpr, value func(ast.Expr)) {
	if then, known := f.body.Taken(x); known {
		if then {
			f.branchBody(x.Then, value)
		} else {
			f.elseBranch(x, value)
		}
		return
	}
	yes, no, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.condition(x.Cond, yes, no)
	f.start(yes, true)
	f.branchBody(x.Then, value)
	f.jump(rest)
	f.start(no, true)
	f.elseBranch(x, value)
	f.jump(rest)
	f.start(rest, true)
	f.endIfUnreachable(rest)
}

func (f *fn) elseBranch(x *ast.IfExpr, value func(ast.Expr)) {
	switch e := x.Else.(type) {
	case *ast.Block:
		f.branchBody(e, value)
	case *ast.IfExpr:
		f.ifExpr(e, value)
	}
}

func (f *fn) branchBody(b *ast.Block, value func(ast.Expr)) {
	f.block(b)
	if b.Value != nil && !f.ended() {
		value(b.Value)
	}
}

// endIfUnreachable ends a block without predecessors, so that the following code is dropped.
func (f *fn) endIfUnreachable(b *ir.Block) {
	if len(f.state(b).preds) == 0 {
		f.Ret(ir.Const(0))
	}
}

func (f *fn) let(s *ast.LetStmt) {
	v := f.body.Let(s)
	switch {
	case s.Init != nil:
		f.setVariable(v, s.Init)
	case v.Type.IsScalar():
		f.setVar(v, unset(irType(v.Type)))
	default:
		f.clear(f.vars[v], v.Type)
	}
}

func (f *fn) setVariable(v *check.Var, x ast.Expr) {
	if v.Type.IsScalar() {
		if v.Type.Kind == types.Int && !f.body.Type(x).FitsInto(v.Type) {
			f.setVar(v, f.narrow(f.num(x), v.Type))
			return
		}
		if v.Type.Kind == types.Bool && !f.isTruth(x) {
			f.setVar(v, f.stored(v, f.num(x)))
			return
		}
		f.setVar(v, f.as(irType(v.Type), f.scalar(x)))
		return
	}
	dst := f.vars[v]
	if y, ok := ast.Unparen(x).(*ast.Var); ok && f.body.Expr(y).Var == v {
		return // copying a string onto itself would clear it first
	}
	if !f.mentions(x, v) {
		f.store(x, dst, v.Type, false)
		return
	}
	// A new value computed from the old one needs a temporary.
	st := v.Type.Store()
	tmp := f.Slot("$"+v.Name, st.Size, st.Align)
	f.store(x, tmp, v.Type, false)
	if v.Type.Kind == types.String && v.Type.Size > smallObject {
		f.copyString(tmp, dst, v.Type.Size, v.Type, false)
		return
	}
	f.copy(dst, tmp, st.Size)
}

// mentions reports whether a variable that lives in memory is used somewhere within x.
func (f *fn) mentions(x ast.Expr, v *check.Var) bool {
	x = ast.Unparen(x)
	found := false
	ast.Inspect(x, func(n ast.Node) bool {
		if y, ok := n.(*ast.Var); ok && n != ast.Node(x) {
			e := f.body.Expr(y)
			found = found || e != nil && e.Var == v
		}
		return !found
	})
	return found
}

func (f *fn) assign(s *ast.AssignStmt) {
	if bin, ok := s.Op.Binary(); ok {
		f.compound(s, bin)
		return
	}
	switch left := s.Left.(type) {
	case *ast.Discard:
		f.effect(s.Right)
	case *ast.Var:
		f.setVariable(f.body.Expr(left).Var, s.Right)
	default:
		f.setMap(s.Left, s.Right)
	}
}

// setMap stores into a map: a plain value, or a call of an aggregation, which
// may be at the end of branches.
func (f *fn) setMap(left, right ast.Expr) {
	m, keys := f.mapOf(left)
	if m.Shape == "plain" {
		f.setPlain(m, keys, right)
		return
	}
	switch r := ast.Unparen(right).(type) {
	case *ast.Ternary:
		f.choose(r.Cond, func() { f.setMap(left, r.Then) }, func() { f.setMap(left, r.Else) })
	case *ast.IfExpr:
		f.ifExpr(r, func(x ast.Expr) { f.setMap(left, x) })
	case *ast.Block:
		f.branchBody(r, func(x ast.Expr) { f.setMap(left, x) })
	default:
		f.aggregate(m, keys, r)
	}
}

// choose generates a branch with two sides and continues at the join.
func (f *fn) choose(cond ast.Expr, then, els func()) {
	yes, no, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.condition(cond, yes, no)
	f.start(yes, true)
	then()
	f.jump(rest)
	f.start(no, true)
	els()
	f.jump(rest)
	f.start(rest, true)
}

func (f *fn) setPlain(m *check.Map, keys []ast.Expr, right ast.Expr) {
	if m.Value.IsScalar() {
		v := f.as(ir.TI64, f.scalar(right))
		f.mapOp(ir.OpMapSet, ir.TVoid, m, f.key(m, keys), v)
		return
	}
	st := m.Value.Store()
	tmp := f.Slot("value", st.Size, st.Align)
	f.store(right, tmp, m.Value, true)
	f.mapOp(ir.OpMapSetMem, ir.TVoid, m, f.key(m, keys), tmp)
}

var aggOps = map[string]ir.Op{
	"count": ir.OpCount, "sum": ir.OpSum, "avg": ir.OpAvg, "min": ir.OpMin, "max": ir.OpMax,
	"stats": ir.OpStats, "hist": ir.OpHist, "lhist": ir.OpLhist,
}

func (f *fn) aggregate(m *check.Map, keys []ast.Expr, right ast.Expr) {
	c := f.body.Expr(right).Call
	if m.Shape == "tseries" {
		f.series(m, keys, c)
		return
	}
	op, ok := aggOps[c.Fn.Name]
	if !ok {
		panic("BUG: no op for aggregation " + c.Fn.Name)
	}
	var args []*ir.Value
	if op != ir.OpCount {
		args = append(args, f.summand(m, c.Args[0]))
	}
	key := f.key(m, keys)
	defer f.here(right)()
	f.mapOp(op, ir.TVoid, m, key, args...)
}

// summand generates the argument of an aggregation. As in bpftrace, an unsigned number of less than 64 bits is read as a
// signed one of its size if the map has signed values, but not by stats().
func (f *fn) summand(m *check.Map, x ast.Expr) *ir.Value {
	v := f.num(x)
	e := f.body.Expr(x)
	t, size := e.Type, e.Type.Size
	if e.Width > 0 {
		size = e.Width
	}
	if m.Value.Signed && m.Shape != "stats" && !t.Signed && size < 8 {
		return f.Extend(ir.MemKindOf(size, true), v)
	}
	return v
}

// compound generates "left op= right".
func (f *fn) compound(s *ast.AssignStmt, op ast.BinaryOp) {
	if v, ok := s.Left.(*ast.Var); ok {
		e := f.body.Expr(v)
		old := f.scalar(v)
		x := f.arith(op, f.as(ir.TI64, old), f.scaled(f.num(s.Right), e.Scale), s.Right)
		f.setVar(e.Var, f.stored(e.Var, x))
		return
	}
	m, keys := f.mapOf(s.Left)
	scale := f.body.Expr(s.Left).Scale
	if changes(s.Right) { // the right side may change the element, which is read first
		key := f.key(m, keys)
		old := f.mapOp(ir.OpMapGet, ir.TI64, m, key)
		x := f.scaled(f.num(s.Right), scale)
		f.mapOp(ir.OpMapSet, ir.TVoid, m, key, f.bounded(m.Value, op, f.arith(op, old, x, s.Right)))
		return
	}
	x := f.scaled(f.num(s.Right), scale)
	key := f.key(m, keys)
	switch {
	case op == ast.Add && m.Value.Kind != types.Bool:
		f.mapOp(ir.OpMapAdd, ir.TI64, m, key, x)
	case op == ast.Sub && m.Value.Kind != types.Bool:
		f.mapOp(ir.OpMapAdd, ir.TI64, m, key, f.Sub(ir.Const(0), x))
	default:
		old := f.mapOp(ir.OpMapGet, ir.TI64, m, key)
		f.mapOp(ir.OpMapSet, ir.TVoid, m, key, f.bounded(m.Value, op, f.arith(op, old, x, s.Right)))
	}
}

// stored returns a computed i64 as stored in a variable: a declared narrow type loses the upper bits, a bool all but
// the lowest.
func (f *fn) stored(v *check.Var, x *ir.Value) *ir.Value {
	if v.Type.Kind == types.Bool {
		return f.Binary(ir.OpAnd, x, ir.Const(1))
	}
	if v.Type.Kind == types.Int && v.Type.Size < 8 {
		return f.narrow(x, v.Type)
	}
	return f.as(irType(v.Type), x)
}

// incDec adds or subtracts one (or the size of the pointee) and returns the value of the expression.
func (f *fn) incDec(x *ast.IncDec) *ir.Value {
	step := int64(1)
	if n := f.body.Expr(x).Scale; n > 0 {
		step = int64(n)
	}
	if x.Dec {
		step = -step
	}
	if v, ok := x.X.(*ast.Var); ok {
		e := f.body.Expr(v)
		old := f.scalar(v)
		now := f.stored(e.Var, f.Add(f.as(ir.TI64, old), ir.Const(step)))
		f.setVar(e.Var, now)
		if x.Prefix {
			return now
		}
		return old
	}
	m, keys := f.mapOf(x.X)
	old := f.mapOp(ir.OpMapAdd, ir.TI64, m, f.key(m, keys), ir.Const(step))
	if x.Prefix {
		return f.Add(old, ir.Const(step))
	}
	return old
}
