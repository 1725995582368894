// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"strconv"

	"github.com/antlr4-go/antlr/v4"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/grammar/parser"
)

func (b *builder) expr(ctx parser.IExprContext) ast.Expr {
	cond := b.binary(ctx.Binary())
	if ctx.QUESTION() == nil {
		return cond
	}
	x := &ast.Ternary{Extent: b.extent(ctx), Cond: cond}
	parts := ctx.AllExpr()
	if len(parts) == 2 {
		x.Then = b.expr(parts[0])
	}
	x.Else = b.expr(parts[len(parts)-1])
	return x
}

var binaryOps = func() map[string]ast.BinaryOp {
	ops := make(map[string]ast.BinaryOp)
	for op := ast.LogOr; op <= ast.Mod; op++ {
		ops[op.String()] = op
	}
	return ops
}()

// binary builds a flat list of operands and operators into a tree by
// precedence; all binary operators are left-associative.
func (b *builder) binary(ctx parser.IBinaryContext) ast.Expr {
	if ctx.GetChildCount() == 1 {
		return b.unary(ctx.Unary(0))
	}
	var operands []ast.Expr
	type operator struct {
		op ast.BinaryOp
		at ast.Extent
	}
	var pending []operator
	reduce := func() {
		n, last := len(operands), pending[len(pending)-1]
		x, y := operands[n-2], operands[n-1]
		operands = append(operands[:n-2], &ast.Binary{
			Extent: ast.Ext(x.Span().To(y.Span())), Op: last.op, X: x, Y: y, OpAt: last.at,
		})
		pending = pending[:len(pending)-1]
	}
	for _, c := range ctx.GetChildren() {
		switch c := c.(type) {
		case *parser.UnaryContext:
			operands = append(operands, b.unary(c))
		case *parser.BinopContext:
			op := binaryOps[c.GetText()]
			for len(pending) > 0 && pending[len(pending)-1].op.Precedence() >= op.Precedence() {
				reduce()
			}
			pending = append(pending, operator{op, b.extent(c)})
		}
	}
	for len(pending) > 0 {
		reduce()
	}
	return operands[0]
}

var unaryOps = map[int]ast.UnaryOp{
	parser.BtLexerMINUS: ast.Neg, parser.BtLexerNOT: ast.Not, parser.BtLexerTILDE: ast.BitNot,
	parser.BtLexerSTAR: ast.Deref, parser.BtLexerAND: ast.AddrOf,
}

func (b *builder) unary(ctx parser.IUnaryContext) ast.Expr {
	if ctx.Postfix() != nil {
		return b.postfix(ctx.Postfix())
	}
	at := b.extent(ctx)
	x := b.unary(ctx.Unary())
	switch kind := tok(ctx.GetChild(0)).kind; kind {
	case parser.BtLexerCAST_OPEN:
		return &ast.Cast{Extent: at, Type: b.typeName(ctx.TypeName()), X: x}
	case parser.BtLexerCOMPTIME:
		return &ast.Comptime{Extent: at, X: x}
	case parser.BtLexerINC, parser.BtLexerDEC:
		b.needStorage(x, x.Span())
		return &ast.IncDec{Extent: at, X: x, Dec: kind == parser.BtLexerDEC, Prefix: true}
	default:
		op := unaryOps[kind]
		if op == ast.AddrOf {
			b.needAddress(x)
		}
		return &ast.Unary{Extent: at, Op: op, X: x}
	}
}

func (b *builder) needStorage(x ast.Expr, at diag.Span) {
	switch x.(type) {
	case *ast.Var, *ast.Map, *ast.MapElem:
	default:
		b.diags.Add(diag.NotAssignable, at, "syntax: increment/decrement requires a variable or map")
	}
}

func (b *builder) needAddress(x ast.Expr) {
	switch x.(type) {
	case *ast.Var, *ast.Map:
	default:
		b.diags.Add(diag.NotAssignable, x.Span(), "syntax: address-of operator (&) can only be used on a map or variable")
	}
}

func (b *builder) postfix(ctx parser.IPostfixContext) ast.Expr {
	x := b.primary(ctx.Primary().(*parser.PrimaryContext))
	for _, s := range ctx.AllSuffix() {
		x = b.suffix(x, s)
	}
	return x
}

func (b *builder) suffix(x ast.Expr, s parser.ISuffixContext) ast.Expr {
	at := b.from(x.Span(), s)
	first := tok(s.GetChild(0))
	switch first.kind {
	case parser.BtLexerLBRACK:
		return b.index(at, x, s)
	case parser.BtLexerINC, parser.BtLexerDEC:
		b.needStorage(x, b.tokenExtent(first).At)
		return &ast.IncDec{Extent: at, X: x, Dec: first.kind == parser.BtLexerDEC}
	case parser.BtLexerARROW:
		return &ast.Field{Extent: at, X: x, Name: b.name(s.IDENT()), Arrow: true}
	}
	if s.IDENT() != nil {
		return &ast.Field{Extent: at, X: x, Name: b.name(s.IDENT())}
	}
	t := tok(s.INT())
	n, err := strconv.Atoi(t.text)
	if err != nil {
		b.diags.Add(diag.BadInteger, b.tokenExtent(t).At,
			"syntax: a tuple index is a plain decimal number, found '%s'", t.text)
	}
	return &ast.TupleIndex{Extent: at, X: x, Index: n}
}

// index builds the keys of a map or the index of something else.
func (b *builder) index(at ast.Extent, x ast.Expr, s parser.ISuffixContext) ast.Expr {
	var keys []ast.Expr
	for _, e := range s.AllExpr() {
		keys = append(keys, b.expr(e))
	}
	if m, ok := x.(*ast.Map); ok {
		return &ast.MapElem{Extent: at, Map: m, Keys: keys}
	}
	if len(keys) > 1 {
		b.diags.Add(diag.Syntax, b.tokenExtent(tok(s.COMMA(0))).At, "syntax: expected ']', found ','")
	}
	return &ast.Index{Extent: at, X: x, I: keys[0]}
}

func (b *builder) primary(ctx *parser.PrimaryContext) ast.Expr {
	at := b.extent(ctx)
	n := ctx.GetChild(0).(antlr.TerminalNode)
	t := tok(n)
	switch t.kind {
	case parser.BtLexerIDENT:
		if call := ctx.Call(); call != nil {
			return &ast.Call{Extent: at, Func: b.name(n), Args: b.args(call)}
		}
		return &ast.Ident{Extent: at, Name: t.text}
	case parser.BtLexerVAR:
		return b.variable(n)
	case parser.BtLexerMAP:
		return b.mapRef(n)
	case parser.BtLexerPARAM:
		return &ast.Positional{Extent: at, N: int(t.num.value)}
	case parser.BtLexerPARAMCOUNT:
		return &ast.ParamCount{Extent: at}
	case parser.BtLexerINT:
		return b.intLit(n)
	case parser.BtLexerSTRING:
		return b.stringLit(n)
	case parser.BtLexerTRUE, parser.BtLexerFALSE:
		return &ast.BoolLit{Extent: at, Value: t.kind == parser.BtLexerTRUE}
	case parser.BtLexerLPAREN:
		return b.paren(at, ctx)
	case parser.BtLexerREC_OPEN:
		return b.record(at, ctx)
	case parser.BtLexerIF:
		return b.ifExpr(at, ctx.IfRest())
	case parser.BtLexerLBRACE:
		return b.block(at, ctx.Stmts().(*parser.StmtsContext), true)
	case parser.BtLexerSIZEOF:
		return &ast.Sizeof{Extent: at, Arg: b.typeOrExpr(ctx.TypeOrExpr())}
	case parser.BtLexerTYPEINFO:
		return &ast.Typeinfo{Extent: at, Arg: b.typeOrExpr(ctx.TypeOrExpr())}
	case parser.BtLexerOFFSETOF:
		x := &ast.Offsetof{Extent: at, Arg: b.typeOrExpr(ctx.TypeOrExpr())}
		for _, f := range ctx.AllIDENT() {
			x.Fields = append(x.Fields, b.name(f))
		}
		return x
	}
	panic("BUG: no case for the primary expression " + t.text)
}

func (b *builder) args(call parser.ICallContext) []ast.Expr {
	var args []ast.Expr
	for _, a := range call.AllArg() {
		switch {
		case a.Expr() != nil:
			args = append(args, b.expr(a.Expr()))
		case a.TagType() != nil:
			args = append(args, typeExpr(b.tagType(a.TagType().(*parser.TagTypeContext))))
		default:
			args = append(args, typeExpr(b.typeofType(a.TypeofType().(*parser.TypeofTypeContext))))
		}
	}
	return args
}

// paren builds "(x)" and tuples.
func (b *builder) paren(at ast.Extent, ctx *parser.PrimaryContext) ast.Expr {
	var elems []ast.Expr
	commas, comma := 0, false
	for _, c := range ctx.GetChildren() {
		if e, ok := c.(parser.IExprContext); ok {
			elems = append(elems, b.expr(e))
			comma = false
			continue
		}
		if t := tok(c); t.kind == parser.BtLexerCOMMA {
			if comma {
				b.diags.Add(diag.Syntax, b.tokenExtent(t).At, "syntax: expected expression, found ','")
			}
			commas++
			comma = true
		}
	}
	if len(elems) == 1 && commas == 0 {
		return &ast.Paren{Extent: at, X: elems[0]}
	}
	return &ast.Tuple{Extent: at, Elems: elems}
}

func (b *builder) record(at ast.Extent, ctx *parser.PrimaryContext) ast.Expr {
	r := &ast.Record{Extent: at}
	seen := make(map[string]*ast.Name)
	for _, f := range ctx.AllRecordField() {
		name := b.name(f.IDENT())
		if first := seen[name.Text]; first != nil {
			b.diags.Add(diag.DuplicateField, name.At, "syntax: Named argument list already contains name: %s", name.Text).
				Note(first.At, "the first '%s' is here", name.Text)
		}
		seen[name.Text] = name
		r.Fields = append(r.Fields, &ast.RecordField{Extent: b.extent(f), Name: name, Value: b.expr(f.Expr())})
	}
	return r
}
