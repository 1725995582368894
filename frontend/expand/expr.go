// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"fmt"

	"btc/frontend/ast"
	"btc/frontend/diag"
)

func (c *copier) exprs(all []ast.Expr) []ast.Expr {
	var out []ast.Expr
	for _, x := range all {
		out = append(out, c.expr(x))
	}
	return out
}

// expr copies an expression, which may be nil.
func (c *copier) expr(x ast.Expr) ast.Expr {
	if x == nil {
		return nil
	}
	at := c.extent(ast.Ext(x.Span()))
	if (c.m != nil || c.cm != nil) && !c.room(at) {
		return &ast.Bad{Extent: at}
	}
	switch x := x.(type) {
	case *ast.Ident:
		return c.ident(x, at)
	case *ast.Call:
		if out, ok := c.call(x, x.Func.Text, x.Args); ok {
			return out
		}
		if out, ok := c.cCall(x, at); ok {
			return out
		}
		if out := c.given(x, at); out != nil {
			return out
		}
		return &ast.Call{Extent: at, Func: c.name(x.Func), Args: c.exprs(x.Args)}
	case *ast.Var:
		return c.variable(x)
	case *ast.Map:
		return c.mapRef(x)
	case *ast.MapElem:
		return &ast.MapElem{Extent: at, Map: c.mapRef(x.Map), Keys: c.exprs(x.Keys)}
	case *ast.TypeExpr:
		c.fail(diag.BadTypeArg, at, "When used as a call argument, `typeof` builtin only valid for macro calls that are expecting a type parameter")
		return &ast.Bad{Extent: at}
	case *ast.IfExpr:
		return c.ifExpr(x, at)
	case *ast.Block:
		return c.block(x)
	case *ast.Sizeof:
		return &ast.Sizeof{Extent: at, Arg: c.typeOrExpr(x.Arg)}
	case *ast.Typeinfo:
		return &ast.Typeinfo{Extent: at, Arg: c.typeOrExpr(x.Arg)}
	case *ast.Offsetof:
		return &ast.Offsetof{Extent: at, Arg: c.typeOrExpr(x.Arg), Fields: c.fields(x.Fields)}
	}
	if out := c.operation(x, at); out != nil {
		return out
	}
	return c.atom(x, at)
}

// operation copies a node with operands.
func (c *copier) operation(x ast.Expr, at ast.Extent) ast.Expr {
	switch x := x.(type) {
	case *ast.Index:
		return &ast.Index{Extent: at, X: c.expr(x.X), I: c.expr(x.I)}
	case *ast.Field:
		return &ast.Field{Extent: at, X: c.expr(x.X), Name: c.name(x.Name), Arrow: x.Arrow}
	case *ast.TupleIndex:
		return &ast.TupleIndex{Extent: at, X: c.expr(x.X), Index: x.Index}
	case *ast.Unary:
		return &ast.Unary{Extent: at, Op: x.Op, X: c.expr(x.X)}
	case *ast.IncDec:
		return &ast.IncDec{Extent: at, X: c.expr(x.X), Dec: x.Dec, Prefix: x.Prefix}
	case *ast.Binary:
		return &ast.Binary{Extent: at, Op: x.Op, X: c.expr(x.X), Y: c.expr(x.Y), OpAt: c.extent(x.OpAt)}
	case *ast.Ternary:
		return &ast.Ternary{Extent: at, Cond: c.expr(x.Cond), Then: c.expr(x.Then), Else: c.expr(x.Else)}
	case *ast.Cast:
		return &ast.Cast{Extent: at, Type: c.typ(x.Type), X: c.expr(x.X)}
	case *ast.Paren:
		return &ast.Paren{Extent: at, X: c.expr(x.X)}
	case *ast.Tuple:
		return &ast.Tuple{Extent: at, Elems: c.exprs(x.Elems)}
	case *ast.Record:
		out := &ast.Record{Extent: at}
		for _, f := range x.Fields {
			field := &ast.RecordField{Extent: c.extent(f.Extent), Name: c.name(f.Name), Value: c.expr(f.Value)}
			out.Fields = append(out.Fields, field)
		}
		return out
	case *ast.Comptime:
		return &ast.Comptime{Extent: at, X: c.expr(x.X)}
	case *ast.Range:
		return &ast.Range{Extent: at, From: c.expr(x.From), To: c.expr(x.To)}
	}
	return nil
}

// atom copies a node without parts.
func (c *copier) atom(x ast.Expr, at ast.Extent) ast.Expr {
	switch x := x.(type) {
	case *ast.Positional:
		if text := c.values[x.N]; text != "" { // an empty one is 0, as one that is not given
			return value(text, at)
		}
		return &ast.Positional{Extent: at, N: x.N}
	case *ast.ParamCount:
		if c.count != "" {
			return value(c.count, at)
		}
		return &ast.ParamCount{Extent: at}
	case *ast.IntLit:
		return &ast.IntLit{Extent: at, Text: x.Text, Value: x.Value, Suffix: x.Suffix}
	case *ast.StringLit:
		return &ast.StringLit{Extent: at, Text: x.Text, Value: x.Value}
	case *ast.BoolLit:
		return &ast.BoolLit{Extent: at, Value: x.Value}
	case *ast.Discard:
		return &ast.Discard{Extent: at}
	case *ast.Bad:
		return &ast.Bad{Extent: at}
	}
	panic(fmt.Sprintf("BUG: no copy of expression %T", x))
}

func (c *copier) ident(x *ast.Ident, at ast.Extent) ast.Expr {
	if arg, by := c.argument(x.Name); arg != nil {
		return c.put(arg, by)
	}
	if out, ok := c.call(x, x.Name, nil); ok {
		return out
	}
	if out := c.cIdent(x, at); out != nil {
		return out
	}
	return &ast.Ident{Extent: at, Name: x.Name}
}

func (c *copier) ifExpr(x *ast.IfExpr, at ast.Extent) *ast.IfExpr {
	return &ast.IfExpr{Extent: at, Cond: c.expr(x.Cond), Then: c.block(x.Then), Else: c.expr(x.Else)}
}
