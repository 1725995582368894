// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/parse"
)

// value returns the literal for the value of a parameter: a number if it is one, else a string.
func value(text string, at ast.Extent) ast.Expr {
	scratch := &diag.List{}
	src := diag.NewSource("", text)
	e := parse.Expr(src.Span(0, len(text)), scratch, func(string) bool { return false })
	if !scratch.HasErrors() {
		switch x := e.(type) {
		case *ast.IntLit:
			return &ast.IntLit{Extent: at, Text: x.Text, Value: x.Value, Suffix: x.Suffix}
		case *ast.Unary:
			if n, ok := x.X.(*ast.IntLit); ok && text[0] == '-' {
				inner := &ast.IntLit{Extent: at, Text: n.Text, Value: n.Value, Suffix: n.Suffix}
				return &ast.Paren{Extent: at, X: &ast.Unary{Extent: at, Op: x.Op, X: inner}}
			}
		}
	}
	if v, err := strconv.ParseUint(text, 0, 64); err == nil { // 0b11
		return &ast.IntLit{Extent: at, Text: text, Value: v}
	}
	return stringLit(text, at)
}

func stringLit(text string, at ast.Extent) *ast.StringLit {
	return &ast.StringLit{Extent: at, Text: strconv.Quote(text), Value: text}
}

// given replaces str($1) and getopt("name") by literals if their values are given at compile time; nil for other
// calls.
func (c *copier) given(x *ast.Call, at ast.Extent) ast.Expr {
	if len(x.Args) == 0 {
		return nil
	}
	switch first := ast.Unparen(x.Args[0]).(type) {
	case *ast.Positional:
		text, ok := c.values[first.N]
		if !ok || x.Func.Text != "str" {
			return nil
		}
		lit := stringLit(text, at)
		if len(x.Args) == 1 {
			return lit
		}
		return &ast.Call{Extent: at, Func: c.name(x.Func), Args: append([]ast.Expr{lit}, c.exprs(x.Args[1:])...)}
	case *ast.StringLit:
		text, ok := c.named[first.Value]
		if !ok || x.Func.Text != "getopt" {
			return nil
		}
		if len(x.Args) < 2 {
			return truth(text, at)
		}
		switch ast.Unparen(x.Args[1]).(type) {
		case *ast.StringLit:
			return stringLit(text, at)
		case *ast.BoolLit:
			return truth(text, at)
		}
		return value(text, at)
	}
	return nil
}

// truth parses the value of a boolean option as the loader does.
func truth(text string, at ast.Extent) ast.Expr {
	on := slices.Contains([]string{"true", "1", "on", "yes", ""}, strings.ToLower(text))
	return &ast.BoolLit{Extent: at, Value: on}
}

// points substitutes values for the parameters in attach points.
func (c *copier) points(all []*ast.AttachPoint) []*ast.AttachPoint {
	out := slices.Clone(all)
	for i, ap := range out {
		text, ok := c.pointText(ap)
		if !ok {
			continue
		}
		src := diag.NewSource("<attach point>", text).ExpandedAt(ap.At)
		made := parse.AttachPoint(src.Span(0, len(text)), c.l)
		made.Label = ap.Label
		out[i] = made
	}
	return out
}

// pointText returns an attach point with the values of its parameters; a ':' in one
// separates parts.
func (c *copier) pointText(ap *ast.AttachPoint) (string, bool) {
	found := false
	var parts []string
	for _, part := range ap.Parts {
		if len(part.Params) == 0 || part.Quoted {
			parts = append(parts, part.At.Text())
			continue
		}
		text := part.Text
		numbers := slices.Clone(part.Params)
		slices.SortFunc(numbers, func(a, b int) int { return b - a }) // $12 before $1
		for _, n := range numbers {
			v, ok := c.values[n]
			if !ok {
				return "", false
			}
			text = strings.ReplaceAll(text, "$"+strconv.Itoa(n), v)
			found = true
		}
		if strings.ContainsAny(text, "\"\\$") {
			text = strconv.Quote(text)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ":"), found
}
