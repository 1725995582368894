// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"btc/frontend/ast"
	"btc/frontend/diag"
)

// typeOrExpr copies the operand of sizeof and similar operators. A plain name that is not a parameter may be a type,
// so a macro without arguments must be called with parentheses there.
func (c *copier) typeOrExpr(x ast.Expr) ast.Expr {
	at := c.extent(ast.Ext(x.Span()))
	if t := c.asType(x); t != nil {
		return &ast.TypeExpr{Extent: at, Type: t}
	}
	switch x := x.(type) {
	case *ast.TypeExpr:
		return &ast.TypeExpr{Extent: at, Type: c.typ(x.Type)}
	case *ast.Ident:
		if arg, _ := c.argument(x.Name); arg == nil {
			if m := c.cMacro(x.Name); m != nil && len(m.Body) > 1 {
				if out := c.cIdent(x, at); out != nil {
					return out
				}
			}
			return &ast.Ident{Extent: at, Name: x.Name}
		}
	}
	return c.expr(x)
}

// asType returns the type that was passed for a parameter, possibly as the element of an array: "b[2]" is an array of
// two b. It is nil for expressions.
func (c *copier) asType(x ast.Expr) ast.Type {
	switch x := x.(type) {
	case *ast.Ident:
		if arg, by := c.argument(x.Name); arg != nil {
			if t, ok := arg.(*ast.TypeExpr); ok {
				return by.typ(t.Type)
			}
		}
	case *ast.Index:
		n, ok := x.I.(*ast.IntLit)
		if !ok {
			return nil
		}
		if elem := c.asType(x.X); elem != nil {
			return &ast.ArrayType{Extent: c.extent(x.Extent), Elem: elem, Len: c.atom(n, c.extent(n.Extent)).(*ast.IntLit)}
		}
	}
	return nil
}

// typ copies a type, which may be nil.
func (c *copier) typ(t ast.Type) ast.Type {
	if t == nil {
		return nil
	}
	at := c.extent(ast.Ext(t.Span()))
	switch t := t.(type) {
	case *ast.NamedType:
		arg, by := c.argument(t.Name)
		switch arg := arg.(type) {
		case nil:
			return &ast.NamedType{Extent: at, Name: t.Name}
		case *ast.TypeExpr:
			return by.typ(arg.Type)
		case *ast.Ident:
			return &ast.NamedType{Extent: at, Name: arg.Name}
		}
		c.badType(t, t.Name, arg, by)
		return &ast.NamedType{Extent: at, Name: "int64"}
	case *ast.TagType:
		return &ast.TagType{Extent: at, Kind: t.Kind, Name: c.tag(t)}
	case *ast.PointerType:
		return &ast.PointerType{Extent: at, Elem: c.typ(t.Elem)}
	case *ast.ArrayType:
		out := &ast.ArrayType{Extent: at, Elem: c.typ(t.Elem)}
		if t.Len != nil {
			out.Len = c.atom(t.Len, c.extent(t.Len.Extent)).(*ast.IntLit)
		}
		return out
	case *ast.TypeofType:
		return &ast.TypeofType{Extent: at, Arg: c.typeOrExpr(t.Arg)}
	}
	panic("BUG: no copy of a type")
}

// tag returns the name in "struct name", which may be a parameter.
func (c *copier) tag(t *ast.TagType) string {
	arg, by := c.argument(t.Name)
	if arg == nil {
		return t.Name
	}
	if name := by.plainName(arg); name != "" {
		return name
	}
	c.badType(t, t.Name, arg, by)
	return t.Name
}

// plainName returns the single word that an argument consists of; "" for other arguments.
func (c *copier) plainName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		if arg, by := c.argument(x.Name); arg != nil {
			return by.plainName(arg)
		}
		return x.Name
	case *ast.TypeExpr:
		switch t := x.Type.(type) {
		case *ast.NamedType:
			return t.Name
		case *ast.TypeofType:
			return c.plainName(t.Arg)
		}
	}
	return ""
}

func (c *copier) badType(outer ast.Type, name string, arg ast.Expr, by *copier) {
	c.fail(diag.BadTypeArg, by.span(arg),
		"Invalid replacement for macro '%s' type parameter '%s' which makes up the type '%s'", c.m.def.Name.Text,
		name, ast.TypeString(outer))
}

// fields returns the path of an offsetof. If the path is a parameter, it is replaced by the names passed for it: "a" or
// "a.b.c".
func (c *copier) fields(all []*ast.Name) []*ast.Name {
	if len(all) == 1 {
		if arg, by := c.argument(all[0].Text); arg != nil {
			if path := by.path(arg); path != nil {
				return path
			}
			c.fail(diag.BadTypeArg, by.span(arg),
				"FieldAccess expressions must be made up entirely of idents (e.g. a.b.c) to replace the second argument in `offsetof`")
		}
	}
	var out []*ast.Name
	for _, n := range all {
		out = append(out, c.name(n))
	}
	return out
}

// path returns the names of "a.b.c"; nil for anything else.
func (c *copier) path(x ast.Expr) []*ast.Name {
	switch x := x.(type) {
	case *ast.Ident:
		return []*ast.Name{{Extent: c.extent(x.Extent), Text: x.Name}}
	case *ast.Field:
		if head := c.path(x.X); head != nil {
			return append(head, c.name(x.Name))
		}
	}
	return nil
}
