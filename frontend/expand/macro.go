// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"btc/frontend/ast"
	"btc/frontend/diag"
)

// macro is a definition.
type macro struct {
	def *ast.Macro
	std bool
	// own are the variables that the body declares or assigns.
	own map[string]bool
}

func newMacro(def *ast.Macro, std bool) *macro {
	m := &macro{def: def, std: std, own: map[string]bool{}}
	ast.Inspect(def.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.LetStmt:
			m.own[n.Var.Name] = true
		case *ast.ForStmt:
			m.own[n.Var.Name] = true
		case *ast.AssignStmt:
			if v, ok := n.Left.(*ast.Var); ok {
				m.own[v.Name] = true
			}
		}
		return true
	})
	for _, p := range def.Params {
		if v, ok := p.(*ast.Var); ok {
			delete(m.own, v.Name)
		}
	}
	return m
}

// define records a macro of the script.
func (x *expander) define(def *ast.Macro) {
	name := def.Name.Text
	if before, _ := match(x.macros[name], def.Params); before != nil {
		x.fail(diag.BadMacro, def.Name, "Redefinition of macro: %s", name).
			Note(before.def.Name.At, "This is the original definition.")
		return
	}
	if !x.distinctParams(def) {
		return
	}
	x.macros[name] = append(x.macros[name], newMacro(def, false))
	x.checkBody(def)
}

func (x *expander) distinctParams(def *ast.Macro) bool {
	seen := map[string]bool{}
	for _, p := range def.Params {
		kind, text := paramText(p)
		if seen[text] {
			x.fail(diag.BadMacro, p, "%s for macro argument has already been used: %s", kind, text)
			return false
		}
		seen[text] = true
	}
	return true
}

func paramText(p ast.Expr) (kind, text string) {
	switch p := p.(type) {
	case *ast.Var:
		return "Variable", "$" + p.Name
	case *ast.Map:
		return "Map", "@" + p.Name
	case *ast.Ident:
		return "Ident", p.Name
	}
	panic("BUG: no parameter of a macro")
}

// checkBody reports statements that are not allowed in a macro, even if it is never called.
func (x *expander) checkBody(def *ast.Macro) {
	refs := map[string]bool{}
	for _, p := range def.Params {
		if v, ok := p.(*ast.Var); ok {
			refs[v.Name] = true
		}
	}
	var visit func(n ast.Node, loops int)
	visit = func(n ast.Node, loops int) {
		switch s := n.(type) {
		case *ast.WhileStmt, *ast.UnrollStmt, *ast.ForStmt:
			loops++
		case *ast.ReturnStmt:
			x.fail(diag.BadMacro, s, "'return' statement is not allowed in a macro")
		case *ast.BranchStmt:
			if loops == 0 {
				x.fail(diag.BadMacro, s, "'%s' statement is not allowed in a macro", branchWord(s))
			}
		case *ast.LetStmt:
			if refs[s.Var.Name] {
				x.fail(diag.BadMacro, s, "Variable declaration shadows macro arg $%s", s.Var.Name)
			}
		}
		for _, c := range ast.Children(n) {
			visit(c, loops)
		}
	}
	visit(def.Body, 0)
}

func branchWord(s *ast.BranchStmt) string {
	if s.Continue {
		return "continue"
	}
	return "break"
}

// missingArg is the distance for each missing or extra argument: more than for all arguments of the wrong kind.
const missingArg = 1024

// distance measures how badly arguments match a definition; 0 is a match.
func distance(params, args []ast.Expr) int {
	d := missingArg * max(len(params)-len(args), len(args)-len(params))
	for i := range min(len(params), len(args)) {
		if !fits(params[i], args[i]) {
			d++
		}
	}
	return d
}

func fits(param, arg ast.Expr) bool {
	switch param.(type) {
	case *ast.Var:
		_, ok := arg.(*ast.Var)
		return ok
	case *ast.Map:
		_, ok := arg.(*ast.Map)
		return ok
	}
	return true
}

// match finds the best definition (overload resolution): among those that fit, the first with the most parameters
// that bind to a variable or map. If none fits, it also returns the closest.
func match(all []*macro, args []ast.Expr) (fit, closest *macro) {
	best, near := -1, 0
	for _, m := range all {
		d := distance(m.def.Params, args)
		if closest == nil || d < near {
			closest, near = m, d
		}
		if n := references(m); d == 0 && n > best {
			fit, best = m, n
		}
	}
	return fit, closest
}

// references returns the number of parameters that bind to a variable or map.
func references(m *macro) int {
	n := 0
	for _, p := range m.def.Params {
		if _, ident := p.(*ast.Ident); !ident {
			n++
		}
	}
	return n
}

// find returns the macro that a call refers to, or nil. It is an error if the name is only that of macros, and none of
// them fits.
func (c *copier) find(at ast.Node, name string, args []ast.Expr) (m *macro, bad bool) {
	var std []*macro
	// A call that matches no definition is an error only if the name has no other meaning.
	if c.std.takes(name, len(args)) || c.builtin == nil || !c.builtin(name) {
		std = c.std.macros(name, c.isValue)
	}
	if c.m != nil && c.m.std { // standard macros see only each other
		m, _ = match(std, args)
		return m, false
	}
	m, closest := match(c.macros[name], args)
	if m != nil {
		return m, false
	}
	if c.funcs[name] {
		return nil, false
	}
	fit, closestStd := match(std, args)
	if fit != nil {
		return fit, false
	}
	if closest == nil {
		closest = closestStd
	}
	if closest == nil || c.builtin != nil && c.builtin(name) {
		return nil, false
	}
	c.mismatch(at, closest.def, args)
	return nil, true
}

// mismatch reports a call that no definition fits.
func (c *copier) mismatch(at ast.Node, def *ast.Macro, args []ast.Expr) {
	name := def.Name.Text
	if len(def.Params) != len(args) {
		c.fail(diag.BadMacroCall, c.span(at), "Call to %s() has arguments that do not match any definition.", name).
			Note(def.Name.At, "The closest definition of %s() has a different number of arguments. Expected: %d but got %d", name, len(def.Params), len(args))
		return
	}
	for i, p := range def.Params {
		if fits(p, args[i]) {
			continue
		}
		want, text := "variable", ""
		if _, ok := p.(*ast.Map); ok {
			want = "map"
		}
		_, text = paramText(p)
		got := "an expression"
		switch args[i].(type) {
		case *ast.Var:
			got = "a variable"
		case *ast.Map:
			got = "a map"
		}
		c.fail(diag.BadMacroCall, c.span(args[i]), "Mismatched arg. %s() expects a %s for arg %s but got %s.", name, want, text, got).
			Note(p.Span(), "This is the argument in the closest definition.")
	}
}
