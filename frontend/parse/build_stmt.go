// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"strings"

	"github.com/antlr4-go/antlr/v4"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/grammar/parser"
)

// body builds a block in braces. With value, a last expression without ';' is
// the block's Value; otherwise it is a statement.
func (b *builder) body(ctx parser.IBodyContext, value bool) *ast.Block {
	return b.block(b.extent(ctx), ctx.Stmts().(*parser.StmtsContext), value)
}

func (b *builder) block(at ast.Extent, ctx *parser.StmtsContext, value bool) *ast.Block {
	blk := &ast.Block{Extent: at}
	children := ctx.GetChildren()
	for i, c := range children {
		var s ast.Stmt
		switch c := c.(type) {
		case *parser.ControlContext:
			s = b.control(c)
		case *parser.SimpleContext:
			s = b.simple(c)
		default: // ';'
			continue
		}
		x, ok := s.(*ast.ExprStmt)
		if ok && value && i == len(children)-1 {
			blk.Value = x.X
			break
		}
		if ok {
			discardValues(x.X)
		}
		blk.Stmts = append(blk.Stmts, s)
	}
	return blk
}

// discardValues turns the values of the blocks in an expression statement, which are unused, into statements.
func discardValues(x ast.Expr) {
	switch x := x.(type) {
	case *ast.Block:
		if v := x.Value; v != nil {
			x.Value = nil
			x.Stmts = append(x.Stmts, exprStmt(v))
			discardValues(v)
		}
	case *ast.IfExpr:
		discardValues(x.Then)
		if x.Else != nil {
			discardValues(x.Else)
		}
	}
}

func exprStmt(x ast.Expr) *ast.ExprStmt { return &ast.ExprStmt{Extent: ast.Ext(x.Span()), X: x} }

func (b *builder) control(ctx *parser.ControlContext) ast.Stmt {
	at := b.extent(ctx)
	switch {
	case ctx.S_IF() != nil:
		return exprStmt(b.ifExpr(at, ctx.IfRest()))
	case ctx.S_LBRACE() != nil:
		return exprStmt(b.block(at, ctx.Stmts().(*parser.StmtsContext), true))
	case ctx.WhileStmt() != nil:
		w := ctx.WhileStmt()
		return &ast.WhileStmt{Extent: at, Cond: b.condition(w.Expr()), Body: b.body(w.Body(), false)}
	case ctx.UnrollStmt() != nil:
		u := ctx.UnrollStmt()
		return &ast.UnrollStmt{Extent: at, Count: b.condition(u.Expr()), Body: b.body(u.Body(), false)}
	}
	return b.forStmt(at, ctx.ForStmt())
}

// condition drops the parentheses around a whole condition. A record or a tuple there is an error: "if (x = 1)".
func (b *builder) condition(ctx parser.IExprContext) ast.Expr {
	x := b.expr(ctx)
	switch x := x.(type) {
	case *ast.Paren:
		return x.X
	case *ast.Record:
		b.assignInCondition(x.Fields[0])
	case *ast.Tuple:
		b.diags.Add(diag.Syntax, x.At, "syntax: expected a condition, found a tuple")
	}
	return x
}

func (b *builder) assignInCondition(f *ast.RecordField) {
	at := f.Name.At.End + max(strings.IndexByte(b.src.Text[f.Name.At.End:], '='), 0)
	e := b.diags.Add(diag.Syntax, b.src.Span(at, at+1), "syntax: expected ')', found '='")
	if strings.HasPrefix(b.src.Text[at:], "=~") {
		e.Hint("%s", noPatterns)
		return
	}
	e.Hint("== compares")
}

func (b *builder) ifExpr(at ast.Extent, ctx parser.IIfRestContext) *ast.IfExpr {
	bodies := ctx.AllBody()
	x := &ast.IfExpr{Extent: at, Cond: b.condition(ctx.Expr()), Then: b.body(bodies[0], true)}
	switch {
	case ctx.IF() != nil:
		x.Else = b.ifExpr(b.from(b.tokenExtent(tok(ctx.IF())).At, ctx.IfRest()), ctx.IfRest())
	case len(bodies) > 1:
		x.Else = b.body(bodies[1], true)
	}
	return x
}

func (b *builder) forStmt(at ast.Extent, ctx parser.IForStmtContext) ast.Stmt {
	head := ctx.ForHead()
	f := &ast.ForStmt{Extent: at, Var: b.variable(head.VAR())}
	over := head.AllUnary()
	f.Over = b.unary(over[0])
	if len(over) == 2 {
		to := b.unary(over[1])
		f.Over = &ast.Range{Extent: ast.Ext(f.Over.Span().To(to.Span())), From: f.Over, To: to}
	} else if _, ok := f.Over.(*ast.Map); !ok {
		b.diags.Add(diag.Syntax, f.Over.Span(), "syntax: expected map or range in for loop")
	}
	f.Body = b.body(ctx.Body(), false)
	return f
}

func (b *builder) simple(ctx *parser.SimpleContext) ast.Stmt {
	at := b.extent(ctx)
	first, ok := ctx.GetChild(0).(antlr.TerminalNode)
	if !ok {
		return b.assignment(at, ctx)
	}
	switch tok(first).kind {
	case parser.BtLexerLET:
		s := &ast.LetStmt{Extent: at, Var: b.variable(ctx.VAR())}
		if ctx.TypeName() != nil {
			s.Type = b.typeName(ctx.TypeName())
		}
		if ctx.Expr(0) != nil {
			s.Init = b.expr(ctx.Expr(0))
		}
		return s
	case parser.BtLexerRETURN:
		s := &ast.ReturnStmt{Extent: at}
		if ctx.Expr(0) != nil {
			s.X = b.expr(ctx.Expr(0))
		}
		return s
	case parser.BtLexerIMPORT:
		return &ast.Import{Extent: at, Path: b.stringLit(ctx.STRING())}
	}
	return &ast.BranchStmt{Extent: at, Continue: tok(first).kind == parser.BtLexerCONTINUE}
}

var assignOps = func() map[string]ast.AssignOp {
	ops := make(map[string]ast.AssignOp)
	for op := ast.Assign; op <= ast.AssignShr; op++ {
		ops[op.String()] = op
	}
	return ops
}()

func (b *builder) assignment(at ast.Extent, ctx *parser.SimpleContext) ast.Stmt {
	left := b.expr(ctx.Expr(0))
	if ctx.Expr(1) == nil {
		return exprStmt(left)
	}
	op := assignOps[ctx.GetChild(1).(antlr.TerminalNode).GetText()]
	switch x := left.(type) {
	case *ast.Var, *ast.Map, *ast.MapElem:
	case *ast.Field, *ast.TupleIndex:
		b.diags.Add(diag.NotAssignable, at.At, "syntax: Tuples and records are immutable once created. Consider creating a new value and assigning it instead.")
	case *ast.Ident:
		if x.Name == "_" && op == ast.Assign {
			left = &ast.Discard{Extent: x.Extent}
			break
		}
		b.notAssignable(x)
	default:
		b.notAssignable(x)
	}
	return &ast.AssignStmt{Extent: at, Left: left, Op: op, Right: b.expr(ctx.Expr(1))}
}

// notAssignable reports an assignment to something that is not a variable or map.
func (b *builder) notAssignable(x ast.Expr) {
	e := b.diags.Add(diag.NotAssignable, x.Span(), "syntax: invalid assignment target")
	switch x := x.(type) {
	case *ast.Ident:
		e.Hint("a variable begins with $, a map with @: $%s = ...", x.Name)
	case *ast.Positional:
		e.Hint("%s is a positional parameter; variable names begin with a letter", x.Span().Text())
	case *ast.Binary:
		if _, ok := x.X.(*ast.Map); ok && x.Op == ast.Sub {
			e.Hint("names contain only letters, digits and _")
			break
		}
		e.Hint("variables begin with $ and get their type from their value: $x = 1")
	case *ast.Index:
		if _, ok := x.X.(*ast.MapElem); ok {
			e.Hint("write several keys in one pair of brackets: @x[1, 2]")
		}
	}
}
