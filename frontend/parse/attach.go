// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/internal/probe"
	"btc/internal/spell"
)

// AttachPoint splits span, one attach point with an optional "name=" before it.
// Syntax errors are added to diags; the result is never nil.
func AttachPoint(span diag.Span, diags *diag.List) *ast.AttachPoint {
	ap := &ast.AttachPoint{Extent: ast.Ext(span)}
	text, start := span.Text(), span.Start
	if n := wordLength(text); n > 0 && n < len(text) && text[n] == '=' && !isDigit(text[0]) {
		ap.Label = &ast.Name{Extent: ast.Ext(span.File.Span(start, start+n)), Text: text[:n]}
		text, start = text[n+1:], start+n+1
	}
	ap.Raw = text
	body := span.File.Span(start, span.End)
	if text == "" {
		diags.Add(diag.Syntax, body, "syntax: expected attach point")
	}
	for _, part := range probe.Split(text) {
		ap.Parts = append(ap.Parts,
			ast.AttachPart{Extent: ast.Ext(span.File.Span(start+part.Start, start+part.End)), Part: part})
	}
	checkParams(body, diags)
	first := ap.Parts[0]
	if t := probe.Find(first.Text); t != nil {
		ap.Provider = t.Kind
		return ap
	}
	if text == "" || first.Wildcard || len(first.Params) > 0 {
		return ap
	}
	d := diags.Add(diag.BadProbeType, first.At, "Invalid probe type: %s", first.Text)
	near := spell.Nearest(strings.ToLower(first.Text), probe.Kinds())
	switch {
	case first.Text == "config":
		d.Hint("a config block has the form config = { ... }")
	case near != "" && (len(ap.Parts) > 1 || near == probe.Begin || near == probe.End):
		d.Hint("did you mean %s?", near)
	case len(ap.Parts) == 1:
		d.Hint("an attach point begins with the kind of probe: kprobe:%s", first.Text)
	}
	return ap
}

// checkParams reports a '$' that is not followed by a parameter number.
func checkParams(body diag.Span, diags *diag.List) {
	text := body.Text()
	for i := range probe.Unquoted(text, '$') {
		n := i + 1
		for n < len(text) && isDigit(text[n]) {
			n++
		}
		at := body.File.Span(body.Start+i, body.Start+n)
		if v, err := strconv.Atoi(text[i+1 : n]); err != nil || v == 0 {
			diags.Add(diag.BadParameter, at, "invalid positional parameter '%s' in an attach point", at.Text()).
				Hint("put this part in double quotes if the '$' belongs to a name")
		}
	}
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
