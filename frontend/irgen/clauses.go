// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/ir"
)

// clauses describes the clauses of the script (ir.Clause). It adds no code.
func (b *builder) clauses() {
	var all []ir.Clause
	read, branched := map[string]bool{}, map[string]bool{}
	stores := map[int][]string{}
	inFuncs := &mapUses{builder: b, clause: &ir.Clause{}}
	for _, f := range b.info.Subprogs {
		inFuncs.body = f.Body
		inFuncs.node(f.Def.Body)
	}
	called := inFuncs.clause.Effects // stored to in functions, from any branch
	for i := range inFuncs.clause.Branches {
		called = append(called, inFuncs.clause.Branches[i].Effects...)
	}
	last := -1
	for _, p := range b.info.Programs {
		if p.Clause == last { // another attach point
			continue
		}
		last = p.Clause
		c := ir.Clause{Number: p.Clause}
		b.predicate(&c, p)
		if b.returns(p.Probe.Body) {
			if n := len(p.Probe.Body.Stmts); n > 0 {
				c.Returns = true
				c.Last, _ = b.plain(p.Probe.Body.Stmts[n-1].Span())
			}
		}
		u := &mapUses{builder: b, body: p.Body, clause: &c}
		if p.Probe.Pred != nil {
			u.node(p.Probe.Pred)
		}
		u.node(p.Probe.Body)
		for _, r := range c.Reads {
			read[r.Map] = true
		}
		for i := range c.Branches {
			x := &c.Branches[i]
			x.Effects = slices.DeleteFunc(x.Effects, func(name string) bool { return name != ir.EffectPrint && slices.Contains(called, name) })
			for _, name := range x.Effects {
				branched[name] = true
			}
		}
		stores[len(all)] = u.stores
		all = append(all, c)
	}
	for i := range all {
		for _, name := range stores[i] {
			if read[name] && !slices.Contains(all[i].Stores, name) {
				all[i].Stores = append(all[i].Stores, name)
			}
		}
		all[i].Effects = slices.DeleteFunc(all[i].Effects, func(name string) bool { return !branched[name] || name == ir.EffectPrint && len(all[i].Branches) == 0 })
	}
	b.m.Meta.Clauses = slices.DeleteFunc(all, func(c ir.Clause) bool {
		return c.Predicate.Pos.Line == 0 && !c.Returns && len(c.Reads) == 0 && len(c.Stores) == 0 && len(c.Branches) == 0 && len(c.Effects) == 0
	})
}

// plain returns a span of the script; false if it is expanded from a macro, or is where line info cannot have it.
func (b *builder) plain(at diag.Span) (ir.Span, bool) {
	src := b.info.Script.Source
	if !at.Valid() || at.File.Base() != src.Base() || at.Chain() != nil {
		return ir.Span{}, false
	}
	end := at.EndPos()
	out := ir.Span{Pos: b.pos(at, -1), EndLine: end.Line, EndCol: end.Col}
	return out, out.Pos.Col < maxLineColumn && end.Col < maxLineColumn
}

// maxLineColumn is the largest column in line info, which stands for all that are larger.
const maxLineColumn = 1023

// predicate sets the parts of c that describe the predicate. One that calls functions is omitted.
func (b *builder) predicate(c *ir.Clause, p *check.Program) {
	if p.Probe.Pred == nil {
		return
	}
	c.Predicate, c.Tests = b.condition(p.Body, p.Probe.Pred)
}

// condition describes a predicate or condition. The span is empty for one that a macro has, or that calls functions.
func (b *builder) condition(body *check.Body, x ast.Expr) (ir.Span, []ir.Test) {
	span, ok := b.plain(x.Span())
	ast.Inspect(x, func(n ast.Node) bool {
		if n == nil {
			return true
		}
		if n.Span().Chain() != nil { // its line info is that of the call
			at := n.Span().In(b.info.Script.Source)
			ok = at.Valid() && at.Start >= x.Span().Start && at.End <= x.Span().End
		}
		if x, isCall := n.(*ast.Call); isCall {
			if e := body.Expr(x); e != nil && e.Call != nil && e.Call.Sub != nil {
				ok = false
			}
		}
		return ok
	})
	if !ok {
		return ir.Span{}, nil
	}
	return span, b.tests(nil, body, x)
}

// tests adds the operands of && and || in x.
func (b *builder) tests(all []ir.Test, body *check.Body, x ast.Expr) []ir.Test {
	x = ast.Unparen(x)
	op, isBinary := x.(*ast.Binary)
	if isBinary && (op.Op == ast.LogAnd || op.Op == ast.LogOr) {
		return b.tests(b.tests(all, body, op.X), body, op.Y)
	}
	t := ir.Test{Left: b.testText(x)}
	t.Span, _ = b.plain(x.Span())
	if isBinary && op.Op >= ast.Eq && op.Op <= ast.Ge {
		b.comparison(&t, body, op)
	} else if id, ok := x.(*ast.Ident); ok {
		t.Builtin = builtins[id.Name]
	}
	return append(all, t)
}

// builtins are the values that a loader can find out again at the end of a clause.
var builtins = map[string]string{"comm": "comm", "pid": "pid", "tid": "tid", "uid": "uid", "gid": "gid", "cpu": "cpu"}

// mirrored are the operators whose operands are exchanged; == and != stay.
var mirrored = map[ast.BinaryOp]ast.BinaryOp{ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.Le: ast.Ge, ast.Ge: ast.Le}

func (b *builder) comparison(t *ir.Test, body *check.Body, x *ast.Binary) {
	left, right, op := x.X, x.Y, x.Op
	constant := func(x ast.Expr) *check.Const {
		if c := body.Expr(x).Const; c != nil && !c.Host {
			return c
		}
		return nil
	}
	if constant(left) != nil {
		left, right = right, left
		if m, ok := mirrored[op]; ok {
			op = m
		}
	}
	t.Left, t.Op, t.Right = b.testText(left), op.String(), b.testText(right)
	if id, ok := ast.Unparen(left).(*ast.Ident); ok {
		t.Builtin = builtins[id.Name]
	}
	lit, typ := constant(right), body.Type(left)
	if lit == nil || constant(left) != nil {
		return
	}
	switch {
	case typ.Kind == types.Int && !lit.IsStr:
		t.Kind, t.Size, t.Signed, t.Number = "int", typ.Size, typ.Signed, lit.Int
	case typ.Kind == types.String && lit.IsStr && len(lit.Str) <= ir.MaxTestText:
		t.Kind, t.Size, t.Literal = "string", typ.Size, lit.Str
	}
}

// testText returns the source of an expression on one line.
func (b *builder) testText(x ast.Expr) string {
	text := strings.ToValidUTF8(strings.Join(strings.Fields(x.Span().Text()), " "), "?")
	if len(text) > ir.MaxTestText {
		text = strings.ToValidUTF8(text[:ir.MaxTestText-3], "") + "..."
	}
	return text
}

func (b *builder) returns(body *ast.Block) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		_, is := n.(*ast.ReturnStmt)
		found = found || is
		return !found
	})
	return found
}

// mapUses finds the elements of maps that a clause reads and stores, and in which branches it does so.
type mapUses struct {
	*builder
	body   *check.Body
	clause *ir.Clause
	stores []string
	branch int // 1 + index of the innermost branch, 0 outside
}

// printers are functions that print.
var printers = map[string]bool{"printf": true, "print": true, "cat": true, "system": true, "join": true, "time": true, "errorf": true, "warnf": true}

// inBranch visits a condition and the body that it is for. A body without effect is not described, and the effects of one whose
// condition is not known are those of the code around it.
func (u *mapUses) inBranch(cond ast.Expr, body *ast.Block, loop bool) {
	u.node(cond)
	span, tests := u.condition(u.body, cond)
	at, ok := u.plain(body.Span())
	if span.Pos.Line == 0 || !ok {
		u.node(body)
		return
	}
	outer, n := u.branch, len(u.clause.Branches)
	u.clause.Branches = append(u.clause.Branches, ir.Branch{Cond: span, Body: at, Loop: loop, Tests: tests})
	u.branch = n + 1
	u.node(body)
	u.branch = outer
	if x := &u.clause.Branches[n]; len(x.Effects) == 0 && len(u.clause.Branches) == n+1 {
		u.clause.Branches = u.clause.Branches[:n]
	}
}

// acts notes an effect.
func (u *mapUses) acts(name string) {
	all := &u.clause.Effects
	if u.branch > 0 {
		all = &u.clause.Branches[u.branch-1].Effects
	}
	if !slices.Contains(*all, name) {
		*all = append(*all, name)
	}
}

// actsOnMaps are functions whose argument @m[k] is not read.
var actsOnMaps = map[string]bool{"delete": true, "has_key": true, "print": true, "clear": true, "zero": true, "len": true}

func (u *mapUses) node(n ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		u.lvalue(n.Left)
		u.node(n.Right)
		return
	case *ast.IncDec:
		u.lvalue(n.X)
		return
	case *ast.IfExpr:
		if _, known := u.body.Taken(n); !known {
			u.inBranch(n.Cond, n.Then, false)
			if n.Else != nil {
				u.node(n.Else)
			}
			return
		}
	case *ast.WhileStmt:
		u.inBranch(n.Cond, n.Body, true)
		return
	case *ast.Call:
		if e := u.body.Expr(n); printers[n.Func.Text] || e != nil && e.Call != nil && e.Call.Sub != nil {
			u.acts(ir.EffectPrint)
		}
		for _, x := range n.Args {
			if e, ok := ast.Unparen(x).(*ast.MapElem); ok && actsOnMaps[n.Func.Text] {
				u.keys(e)
			} else {
				u.node(x)
			}
		}
		return
	case *ast.MapElem:
		u.keys(n)
		e := u.body.Expr(n)
		if span, ok := u.plain(n.Span()); ok && e != nil && !e.Type.IsAgg() {
			u.clause.Reads = append(u.clause.Reads, ir.MapRead{Map: "@" + n.Map.Name, Span: span})
		}
		return
	}
	for _, c := range ast.Children(n) {
		u.node(c)
	}
}

func (u *mapUses) keys(x *ast.MapElem) {
	for _, k := range x.Keys {
		u.node(k)
	}
}

// lvalue visits what is stored to.
func (u *mapUses) lvalue(x ast.Expr) {
	if e, ok := ast.Unparen(x).(*ast.MapElem); ok {
		u.keys(e)
		u.stores = append(u.stores, "@"+e.Map.Name)
		u.acts("@" + e.Map.Name)
		return
	}
	if m, ok := ast.Unparen(x).(*ast.Map); ok {
		u.acts("@" + m.Name)
	}
	u.node(x)
}
