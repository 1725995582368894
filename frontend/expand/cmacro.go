// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"fmt"
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/cpp"
	"btc/frontend/diag"
	"btc/frontend/parse"
)

// cBody is what a macro of the C text expands to in the script's code.
type cBody struct {
	expr  ast.Expr // nil if it is not an expression of the language
	src   *diag.Source
	shift int // difference between offsets in src and in expr
}

// cMacro finds a macro of the C text. Standard macros do not see them.
func (c *copier) cMacro(name string) *cpp.Macro {
	if c.m != nil && c.m.std || c.script.C == nil {
		return nil
	}
	m, _ := c.script.C.Macro(name)
	return m
}

// cIdent expands a plain name that is a macro of the C text; nil if it is not one, or not
// an expression.
func (c *copier) cIdent(x *ast.Ident, at ast.Extent) ast.Expr {
	m := c.cMacro(x.Name)
	if m == nil || m.Function || c.builtin != nil && c.builtin(x.Name) {
		return nil
	}
	if t, ok := m.Special(outermost(at.At)); ok {
		return literal(t, at)
	}
	if c.inside(m) { // the macro's own name in its body
		return nil
	}
	body := c.cBody(m)
	if body.expr == nil || c.tooDeep(at) || !c.room(at) {
		return nil
	}
	inner := &copier{expander: c.expander, cm: m, caller: c, up: c, src: body.src.ExpandedAt(at.At), shift: body.shift}
	return unit(inner.expr(body.expr), at)
}

// unit returns x such that surrounding operators cannot split it.
func unit(x ast.Expr, at ast.Extent) ast.Expr {
	switch x.(type) {
	case *ast.Binary, *ast.Ternary, *ast.Unary, *ast.Cast, *ast.IncDec:
		return &ast.Paren{Extent: at, X: x}
	}
	return x
}

// outermost returns the span in a file that a span was expanded from.
func outermost(at diag.Span) diag.Span {
	if chain := at.Chain(); len(chain) > 0 {
		return chain[len(chain)-1]
	}
	return at
}

func literal(t cpp.Token, at ast.Extent) ast.Expr {
	if t.Kind == cpp.StringLit {
		return &ast.StringLit{Extent: at, Text: t.Text, Value: t.Value}
	}
	v, _ := cpp.ParseInt(t.Text)
	return &ast.IntLit{Extent: at, Text: t.Text, Value: v}
}

// inside reports whether the macro m is being expanded.
func (c *copier) inside(m *cpp.Macro) bool {
	for up := c; up != nil; up = up.up {
		if up.cm == m {
			return true
		}
	}
	return false
}

// tooDeep reports macros of the C text that are nested too deeply.
func (c *copier) tooDeep(at ast.Node) bool {
	n := 0
	for up := c; up != nil; up = up.up {
		if up.cm != nil {
			n++
		}
	}
	if n < maxDepth {
		return false
	}
	c.fail(diag.TooLarge, at, "macros are nested too deeply (max %d)", maxDepth)
	return true
}

// cBody parses the body of a macro as an expression of the language; a body that is not one
// may become one after the macros in it are replaced.
func (x *expander) cBody(m *cpp.Macro) *cBody {
	if have, ok := x.cBodies[m]; ok {
		return have
	}
	made := &cBody{}
	if at := m.BodyAt(); at.Valid() && at.Start <= at.End {
		text := strings.ReplaceAll(strings.ReplaceAll(at.Text(), "\\\r\n", "   "), "\\\n", "  ")
		made = &cBody{parseText(diag.NewSource(at.File.Name, text), x.valuesOf(m)), at.File.Base(), at.Start}
		if made.expr == nil && !m.Function {
			all := x.script.C.Expand(m.Body, nil)
			if cpp.JoinLen(all) > 2*maxText {
				all = m.Body
			}
			if text := cpp.Join(all); text != cpp.Join(m.Body) {
				src := macroSource(m, text)
				made = &cBody{parseText(src, x.isValue), src, 0}
			}
		}
	}
	x.cBodies[m] = made
	return made
}

// valuesOf reports the names in a macro's body that are not types.
func (x *expander) valuesOf(m *cpp.Macro) func(name string) bool {
	return func(name string) bool {
		other, ok := x.script.C.Macro(name)
		return ok && !other.Function || slices.Contains(m.Params, name) || x.isValue(name)
	}
}

func macroSource(m *cpp.Macro, text string) *diag.Source {
	return diag.NewSource("<macro "+m.Name+">", text)
}

// maxText bounds the expansion of a macro, in bytes.
const maxText = 64 << 10

// parseText parses a string as one expression; nil if it is not one.
func parseText(src *diag.Source, isValue func(name string) bool) ast.Expr {
	if len(src.Text) > maxText {
		return nil
	}
	scratch := &diag.List{}
	e := parse.Expr(src.Span(0, len(src.Text)), scratch, isValue)
	if scratch.HasErrors() {
		return nil
	}
	return e
}

// cCall expands a call of a macro of the C text; ok is false when the name is not one.
func (c *copier) cCall(x *ast.Call, at ast.Extent) (out ast.Expr, ok bool) {
	m := c.cMacro(x.Func.Text)
	for range maxDepth { // the macro is an alias of a function
		if m == nil || m.Function || len(m.Body) != 1 || m.Body[0].Kind != cpp.Word || c.isBuiltin(m.Name) {
			break
		}
		call := *x
		call.Func = &ast.Name{Extent: x.Func.Extent, Text: m.Body[0].Text}
		x = &call
		if m = c.cMacro(x.Func.Text); m == nil {
			return c.expr(x), true
		}
	}
	if m == nil || !m.Function || c.inside(m) || c.isBuiltin(m.Name) && len(m.Params) != len(x.Args) {
		return nil, false
	}
	if c.tooDeep(at) || !c.room(at) {
		return &ast.Bad{Extent: at}, true
	}
	if len(x.Args) != len(m.Params) && !(m.Variadic && len(x.Args) >= len(m.Params)-1) {
		d := c.fail(diag.BadMacroCall, at, "macro %s takes %d arguments, found %d", m.Name, len(m.Params), len(x.Args))
		if m.At.Valid() {
			d.Note(m.At, "it is defined here")
		}
		return &ast.Bad{Extent: at}, true
	}
	body := c.cBody(m)
	if body.expr == nil || m.Textual() || !byValue(m, x.Args) {
		return c.cText(m, x, at), true
	}
	inner := &copier{
		expander: c.expander,
		cm:       m,
		caller:   c,
		up:       c,
		src:      body.src.ExpandedAt(at.At),
		shift:    body.shift,
		args:     map[string]ast.Expr{},
	}
	for i, p := range m.Params {
		inner.args[p] = x.Args[i]
	}
	return unit(inner.expr(body.expr), at), true
}

func (c *copier) isBuiltin(name string) bool { return c.builtin != nil && c.builtin(name) }

// byValue reports whether substituting a macro's arguments as values, not as source text, has the same result.
func byValue(m *cpp.Macro, args []ast.Expr) bool {
	open := func(t cpp.Token) bool { return t.Is("(") || t.Is(",") || t.Is("[") }
	shut := func(t cpp.Token) bool { return t.Is(")") || t.Is(",") || t.Is("]") }
	for i, t := range m.Body {
		p := slices.Index(m.Params, t.Text)
		if t.Kind != cpp.Word || p < 0 {
			continue
		}
		var before, after cpp.Token
		if i > 0 {
			before = m.Body[i-1]
		}
		if i+1 < len(m.Body) {
			after = m.Body[i+1]
		}
		alone := (i == 0 || open(before)) && (i+1 == len(m.Body) || shut(after))
		switch {
		case before.Is(".") || before.Is("->") || before.Kind == cpp.Word && before.Text != "return", before.Is("@"):
			return false
		case !alone && !primary(args[p]):
			return false
		}
	}
	return true
}

// primary reports whether adjacent operators cannot split an expression.
func primary(x ast.Expr) bool {
	switch x.(type) {
	case *ast.Binary, *ast.Ternary, *ast.Unary, *ast.Cast, *ast.IncDec, *ast.Range:
		return false
	}
	return true
}

// cText expands a call by substituting source text, as # and ## require.
func (c *copier) cText(m *cpp.Macro, x *ast.Call, at ast.Extent) ast.Expr {
	var args [][]cpp.Token
	for _, a := range x.Args {
		all, err := cpp.Lex(a.Span())
		if err != nil {
			c.fail(diag.CSyntax, c.span(a), "%v", err)
			return &ast.Bad{Extent: at}
		}
		args = append(args, all)
	}
	scratch := &diag.List{}
	all, ok := c.script.C.Call(m, args, cpp.Token{At: at.At}, scratch)
	if !ok || scratch.HasErrors() {
		for _, d := range scratch.Sorted() {
			c.l.Append(d)
		}
		return &ast.Bad{Extent: at}
	}
	if cpp.JoinLen(all) > 2*maxText {
		c.fail(diag.TooLarge, at, "macro %s expands to more than %d bytes of code here", m.Name, maxText)
		return &ast.Bad{Extent: at}
	}
	src := macroSource(m, cpp.Join(all))
	e := parseText(src, c.isValue)
	if e == nil { // the text may be statements
		src = macroSource(m, "{ "+src.Text+" }")
		e = parseText(src, c.isValue)
	}
	if e == nil {
		d := c.fail(diag.CSyntax, at, "unable to expand macro as an expression: %s", shown(m, all))
		if m.At.Valid() {
			d.Note(m.At, "it is defined here")
		}
		return &ast.Bad{Extent: at}
	}
	inner := *c
	inner.cm, inner.up, inner.src, inner.shift = m, c, src.ExpandedAt(at.At), 0
	return unit(inner.expr(e), at)
}

// shown returns the expansion of a macro for a message.
func shown(m *cpp.Macro, all []cpp.Token) string {
	if m.At.Private() {
		return "..."
	}
	return shorten(cpp.Join(all))
}

// shorten truncates a long string for a message.
func shorten(s string) string {
	if len(s) > 200 {
		return fmt.Sprintf("%s...", s[:200])
	}
	return s
}
