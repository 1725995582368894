// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"fmt"
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/cpp"
	"btc/frontend/diag"
)

// copier copies code while it expands macros: the script's own code (m is nil), or a macro's body for one call.
type copier struct {
	*expander
	m      *macro
	cm     *cpp.Macro   // macro of the C text
	caller *copier      // copies the arguments
	up     *copier      // copier of the code with the call
	shift  int          // shift of offsets in src
	src    *diag.Source // the copy for this call
	args   map[string]ast.Expr
	vars   map[string]string // the macro's variables: their names in the new code
	maps   map[string]string
}

// extent returns the span of a copied node.
func (c *copier) extent(e ast.Extent) ast.Extent {
	if c.src != nil && e.At.File != nil {
		e.At = c.src.Span(e.At.Start+c.shift, e.At.End+c.shift)
	}
	return e
}

// span returns the span of a node's replacement in the new code.
func (c *copier) span(n ast.Node) ast.Node { return c.extent(ast.Ext(n.Span())) }

// call expands a macro called at a span. ok is false when the name is not a macro here.
func (c *copier) call(at ast.Expr, name string, args []ast.Expr) (out ast.Expr, ok bool) {
	m, bad := c.find(at, name, args)
	ext := c.extent(ast.Ext(at.Span()))
	if bad {
		return &ast.Bad{Extent: ext}, true
	}
	if m == nil {
		return nil, false
	}
	if c.recursive(m, ext) || !c.room(ext) {
		return &ast.Bad{Extent: ext}, true
	}
	inner := &copier{expander: c.expander, m: m, caller: c, up: c, src: m.def.At.File.ExpandedAt(ext.At),
		args: map[string]ast.Expr{}, vars: map[string]string{}, maps: map[string]string{}}
	c.made[m]++
	for v := range m.own {
		inner.vars[v] = ownName(name, v, c.made[m])
	}
	for i, p := range m.def.Params {
		switch p := p.(type) {
		case *ast.Var:
			inner.vars[p.Name] = c.varName(args[i].(*ast.Var).Name)
		case *ast.Map:
			inner.maps[p.Name] = c.mapName(args[i].(*ast.Map))
		case *ast.Ident:
			inner.args[p.Name] = args[i]
		}
	}
	if body := m.def.Body; len(body.Stmts) == 0 && body.Value != nil {
		return &ast.Paren{Extent: ext, X: inner.expr(body.Value)}, true
	}
	blk := inner.block(m.def.Body)
	blk.Extent = ext
	return blk, true
}

// ownName returns the name of a macro's local variable in its n-th expansion. No script can contain such a name.
func ownName(macro, v string, n int) string {
	if n > 1 {
		macro = fmt.Sprintf("%s.%d", macro, n)
	}
	return "$" + macro + "_" + v
}

// maxDepth bounds the nesting of macro calls.
const maxDepth = 100

// recursive reports a call of a macro that is already being expanded, or calls that are nested too deeply.
func (c *copier) recursive(m *macro, at ast.Node) bool {
	chain := []string{m.def.Name.Text}
	for up := c; up != nil; up = up.up {
		if up.m == nil {
			continue
		}
		chain = append(chain, up.m.def.Name.Text)
		if up.m == m {
			slices.Reverse(chain)
			c.fail(diag.RecursiveMacro, at, "Recursive macro call detected. Call chain: %s", strings.Join(chain, " > "))
			return true
		}
	}
	if len(chain) > maxDepth {
		c.fail(diag.TooLarge, at, "macro calls are nested too deeply (max %d)", maxDepth)
		return true
	}
	return false
}

func (c *copier) varName(name string) string {
	if now, ok := c.vars[name]; ok {
		return now
	}
	return name
}

// mapName returns the map that a name refers to; a macro may use only the maps among its
// arguments.
func (c *copier) mapName(m *ast.Map) string {
	if c.m == nil {
		return m.Name
	}
	if now, ok := c.maps[m.Name]; ok {
		return now
	}
	c.fail(diag.Unhygienic, c.span(m),
		"Unhygienic access to map: @%s. Maps must be passed into the macro as arguments.", m.Name)
	return m.Name
}

// argument returns the expression that is substituted for a plain name, if that is a parameter, and the copier for the
// expression. A parameter that was passed on is resolved to its origin.
func (c *copier) argument(name string) (arg ast.Expr, by *copier) {
	arg, ok := c.args[name]
	if !ok {
		return nil, nil
	}
	by = c.caller
	if id, ok := arg.(*ast.Ident); ok {
		if outer, who := by.argument(id.Name); outer != nil {
			return outer, who
		}
	}
	return arg, by
}

// put returns the code for one use of an argument. A variable or map is wrapped in a block, so
// that it can be read but not changed.
func (c *copier) put(arg ast.Expr, by *copier) ast.Expr {
	x := by.expr(arg)
	switch x.(type) {
	case *ast.Var, *ast.Map:
		if c.cm != nil {
			return x
		}
		return &ast.Block{Extent: ast.Ext(x.Span()), Value: x}
	}
	return x
}

func (c *copier) name(n *ast.Name) *ast.Name {
	if n == nil {
		return nil
	}
	return &ast.Name{Extent: c.extent(n.Extent), Text: n.Text}
}

func (c *copier) variable(v *ast.Var) *ast.Var {
	return &ast.Var{Extent: c.extent(v.Extent), Name: c.varName(v.Name)}
}

func (c *copier) mapRef(m *ast.Map) *ast.Map {
	return &ast.Map{Extent: c.extent(m.Extent), Name: c.mapName(m)}
}

func (c *copier) block(b *ast.Block) *ast.Block {
	if b == nil {
		return nil
	}
	out := &ast.Block{Extent: c.extent(b.Extent)}
	for _, s := range b.Stmts {
		if _, done := s.(*ast.Import); !done {
			out.Stmts = append(out.Stmts, c.stmt(s))
		}
	}
	out.Value = c.expr(b.Value)
	return out
}

// discarded returns an expression whose value is discarded: a macro body in statement position has no parentheses, and
// its blocks and branches have no values.
func discarded(x ast.Expr) ast.Expr {
	switch inner := ast.Unparen(x).(type) {
	case *ast.Block:
		if v := inner.Value; v != nil {
			inner.Value = nil
			inner.Stmts = append(inner.Stmts, &ast.ExprStmt{Extent: ast.Ext(v.Span()), X: discarded(v)})
		}
		return inner
	case *ast.IfExpr:
		discarded(inner.Then)
		if inner.Else != nil {
			discarded(inner.Else)
		}
		return inner
	}
	return x
}

// deletions rewrites "delete(@a[1], @b[2], @c)", which older versions of the language accept, to a block with a call
// for each argument; nil if x is something else. The first argument must be an element, because "delete(@a, @b)"
// deletes the element of @a whose key is the value of @b.
func deletions(x ast.Expr) *ast.Block {
	call, ok := ast.Unparen(x).(*ast.Call)
	if !ok || call.Func.Text != "delete" || len(call.Args) < 2 {
		return nil
	}
	if _, ok := ast.Unparen(call.Args[0]).(*ast.MapElem); !ok {
		return nil
	}
	out := &ast.Block{Extent: call.Extent}
	for _, arg := range call.Args {
		switch ast.Unparen(arg).(type) {
		case *ast.Map, *ast.MapElem:
			one := &ast.Call{Extent: ast.Ext(arg.Span()), Func: call.Func, Args: []ast.Expr{arg}}
			out.Stmts = append(out.Stmts, &ast.ExprStmt{Extent: one.Extent, X: one})
		default:
			return nil
		}
	}
	return out
}

func (c *copier) stmt(s ast.Stmt) ast.Stmt {
	at := c.extent(ast.Ext(s.Span()))
	switch s := s.(type) {
	case *ast.ExprStmt:
		if all := deletions(s.X); all != nil {
			c.fail(diag.Deprecated, s.X, "delete() of several elements is deprecated").Hint("write one delete(@map, key) for each")
			return &ast.ExprStmt{Extent: at, X: c.block(all)}
		}
		return &ast.ExprStmt{Extent: at, X: discarded(c.expr(s.X))}
	case *ast.AssignStmt:
		return &ast.AssignStmt{Extent: at, Left: c.expr(s.Left), Op: s.Op, Right: c.expr(s.Right)}
	case *ast.LetStmt:
		return &ast.LetStmt{Extent: at, Var: c.variable(s.Var), Type: c.typ(s.Type), Init: c.expr(s.Init)}
	case *ast.WhileStmt:
		return &ast.WhileStmt{Extent: at, Cond: c.expr(s.Cond), Body: c.block(s.Body)}
	case *ast.UnrollStmt:
		return &ast.UnrollStmt{Extent: at, Count: c.expr(s.Count), Body: c.block(s.Body)}
	case *ast.ForStmt:
		return &ast.ForStmt{Extent: at, Var: c.variable(s.Var), Over: c.expr(s.Over), Body: c.block(s.Body)}
	case *ast.BranchStmt:
		return &ast.BranchStmt{Extent: at, Continue: s.Continue}
	case *ast.ReturnStmt:
		return &ast.ReturnStmt{Extent: at, X: c.expr(s.X)}
	}
	panic(fmt.Sprintf("BUG: no copy of statement %T", s))
}
