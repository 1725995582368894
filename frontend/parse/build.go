// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"github.com/antlr4-go/antlr/v4"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/grammar/parser"
)

// builder makes the tree from a parse without errors. It decides and checks what the grammar leaves open.
type builder struct {
	src   *diag.Source
	diags *diag.List
}

func tok(n antlr.Tree) *token { return n.(antlr.TerminalNode).GetSymbol().(*token) }

// node is the common interface of rule contexts.
type node interface {
	GetStart() antlr.Token
	GetStop() antlr.Token
}

func (b *builder) extent(n node) ast.Extent {
	return ast.Ext(b.src.Span(n.GetStart().(*token).start, n.GetStop().(*token).end))
}

func (b *builder) tokenExtent(t *token) ast.Extent { return ast.Ext(b.src.Span(t.start, t.end)) }

func (b *builder) from(start diag.Span, n node) ast.Extent {
	return ast.Ext(b.src.Span(start.Start, n.GetStop().(*token).end))
}

func (b *builder) name(n antlr.TerminalNode) *ast.Name {
	t := tok(n)
	return &ast.Name{Extent: b.tokenExtent(t), Text: t.text}
}

func (b *builder) intLit(n antlr.TerminalNode) *ast.IntLit {
	t := tok(n)
	return &ast.IntLit{Extent: b.tokenExtent(t), Text: t.text, Value: t.num.value, Suffix: t.num.suffix}
}

func (b *builder) stringLit(n antlr.TerminalNode) *ast.StringLit {
	t := tok(n)
	return &ast.StringLit{Extent: b.tokenExtent(t), Text: t.text, Value: t.str}
}

func (b *builder) variable(n antlr.TerminalNode) *ast.Var {
	t := tok(n)
	return &ast.Var{Extent: b.tokenExtent(t), Name: t.text[1:]}
}

func (b *builder) mapRef(n antlr.TerminalNode) *ast.Map {
	t := tok(n)
	return &ast.Map{Extent: b.tokenExtent(t), Name: t.text[1:]}
}

func (b *builder) script(ctx *parser.ScriptContext) *ast.Script {
	s := &ast.Script{Extent: ast.Ext(b.src.Span(0, len(b.src.Text))), Source: b.src}
	config := false
	for _, c := range ctx.AllItem() {
		item := c.(*parser.ItemContext)
		at := diag.Span{}
		if item.SEMI() == nil {
			at = b.extent(item).At
		}
		late := len(s.Items) > 0
		switch {
		case item.Config() != nil:
			switch {
			case config:
				b.diags.Add(diag.Misplaced, at, "syntax: duplicate config block")
				continue
			case late:
				b.diags.Add(diag.Misplaced, at, "syntax: config must appear before probes and functions")
			}
			config = true
			s.Header = append(s.Header, b.config(item.Config().(*parser.ConfigContext)))
		case item.ImportDef() != nil:
			if late {
				b.diags.Add(diag.Misplaced, at, "syntax: root imports must appear before probes and functions")
			}
			s.Header = append(s.Header, &ast.Import{Extent: ast.Ext(at), Path: b.stringLit(item.ImportDef().STRING())})
		case item.Macro() != nil:
			s.Items = append(s.Items, b.macro(item.Macro().(*parser.MacroContext)))
		case item.FuncDef() != nil:
			s.Items = append(s.Items, b.function(item.FuncDef().(*parser.FuncDefContext)))
		case item.MapDecl() != nil:
			d := item.MapDecl()
			s.Items = append(s.Items, &ast.MapDecl{
				Extent: ast.Ext(at), Map: b.mapRef(d.MAP()), Kind: b.name(d.IDENT()),
				Max: b.intLit(d.INT()),
			})
		case item.Probe() != nil:
			s.Items = append(s.Items, b.probe(item.Probe().(*parser.ProbeContext)))
		}
	}
	return s
}

func (b *builder) config(ctx *parser.ConfigContext) *ast.Config {
	c := &ast.Config{Extent: b.extent(ctx)}
	for _, e := range ctx.AllConfigEntry() {
		c.Entries = append(c.Entries, &ast.ConfigEntry{
			Extent: b.extent(e), Key: b.name(e.IDENT()), Value: b.configValue(e.ConfigValue()),
		})
	}
	return c
}

func (b *builder) configValue(ctx parser.IConfigValueContext) ast.Expr {
	n := ctx.GetChild(0).(antlr.TerminalNode)
	t := tok(n)
	switch t.kind {
	case parser.BtLexerSTRING:
		return b.stringLit(n)
	case parser.BtLexerINT:
		return b.intLit(n)
	case parser.BtLexerTRUE, parser.BtLexerFALSE:
		return &ast.BoolLit{Extent: b.tokenExtent(t), Value: t.kind == parser.BtLexerTRUE}
	}
	return &ast.Ident{Extent: b.tokenExtent(t), Name: t.text}
}

func (b *builder) macro(ctx *parser.MacroContext) *ast.Macro {
	m := &ast.Macro{Extent: b.extent(ctx), Name: b.name(ctx.IDENT())}
	for _, p := range ctx.AllMacroParam() {
		switch {
		case p.VAR() != nil:
			m.Params = append(m.Params, b.variable(p.VAR()))
		case p.MAP() != nil:
			m.Params = append(m.Params, b.mapRef(p.MAP()))
		default:
			id := &ast.Ident{Extent: b.extent(p), Name: p.IDENT().GetText()}
			if reservedParams[id.Name] || isArg(id.Name) {
				b.diags.Add(diag.BadMacroParam, id.At, "syntax: builtin '%s' can't be used as a macro argument",
					id.Name)
			}
			m.Params = append(m.Params, id)
		}
	}
	m.Body = b.body(ctx.Body(), true)
	return m
}

var reservedParams = wordSet("args ctx kstack ustack nsecs pid tid")

func (b *builder) function(ctx *parser.FuncDefContext) *ast.Func {
	f := &ast.Func{Extent: b.extent(ctx), Name: b.name(ctx.IDENT()), Result: b.typeName(ctx.TypeName())}
	for _, p := range ctx.AllFuncParam() {
		f.Params = append(f.Params,
			&ast.Param{Extent: b.extent(p), Var: b.variable(p.VAR()), Type: b.typeName(p.TypeName())})
	}
	f.Body = b.body(ctx.Body(), false)
	return f
}

func (b *builder) probe(ctx *parser.ProbeContext) *ast.Probe {
	p := &ast.Probe{Extent: b.extent(ctx)}
	comma := false
	for _, c := range ctx.GetChildren() {
		n, ok := c.(antlr.TerminalNode)
		if !ok {
			break
		}
		t := tok(n)
		if t.kind == parser.BtLexerCOMMA {
			if comma {
				b.diags.Add(diag.Syntax, b.tokenExtent(t).At, "syntax: expected attach point, found ','")
			}
			comma = true
			continue
		}
		comma = false
		p.Points = append(p.Points, AttachPoint(b.tokenExtent(t).At, b.diags))
	}
	if pred := ctx.Predicate(); pred != nil {
		p.Pred = b.expr(pred.Expr())
	}
	p.Body = b.body(ctx.Body(), false)
	return p
}

// typeName builds a type.
func (b *builder) typeName(ctx parser.ITypeNameContext) ast.Type {
	switch {
	case ctx.TagType() != nil:
		return b.tagType(ctx.TagType().(*parser.TagTypeContext))
	case ctx.TypeofType() != nil:
		return b.typeofType(ctx.TypeofType().(*parser.TypeofTypeContext))
	}
	t := tok(ctx.IDENT())
	return b.suffixed(&ast.NamedType{Extent: b.tokenExtent(t), Name: t.text}, ctx.AllTypeSuffix())
}

var tagKinds = map[int]ast.TagKind{
	parser.BtLexerSTRUCT: ast.StructTag, parser.BtLexerUNION: ast.UnionTag, parser.BtLexerENUM: ast.EnumTag,
}

func (b *builder) tagType(ctx *parser.TagTypeContext) ast.Type {
	keyword, name := tok(ctx.GetChild(0)), tok(ctx.IDENT())
	at := ast.Ext(b.src.Span(keyword.start, name.end))
	return b.suffixed(&ast.TagType{Extent: at, Kind: tagKinds[keyword.kind], Name: name.text}, ctx.AllTypeSuffix())
}

func (b *builder) typeofType(ctx *parser.TypeofTypeContext) ast.Type {
	at := ast.Ext(b.src.Span(tok(ctx.TYPEOF()).start, tok(ctx.RPAREN()).end))
	return b.suffixed(&ast.TypeofType{Extent: at, Arg: b.typeOrExpr(ctx.TypeOrExpr())}, ctx.AllTypeSuffix())
}

func (b *builder) suffixed(t ast.Type, suffixes []parser.ITypeSuffixContext) ast.Type {
	for _, s := range suffixes {
		at := b.from(t.Span(), s)
		if s.STAR() != nil {
			t = &ast.PointerType{Extent: at, Elem: t}
			continue
		}
		array := &ast.ArrayType{Extent: at, Elem: t}
		if s.INT() != nil {
			array.Len = b.intLit(s.INT())
		}
		t = array
	}
	return t
}

// typeOrExpr builds the argument of sizeof and the like.
func (b *builder) typeOrExpr(ctx parser.ITypeOrExprContext) ast.Expr {
	if ctx.Expr() != nil {
		return b.expr(ctx.Expr())
	}
	return typeExpr(b.typeName(ctx.TypeName()))
}

func typeExpr(t ast.Type) *ast.TypeExpr { return &ast.TypeExpr{Extent: ast.Ext(t.Span()), Type: t} }
