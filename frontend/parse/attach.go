package parse

import (
	"iter"
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/internal/spell"
)

// provider is one probe type: its names and how many parts follow it.
type provider struct {
	name     string
	aliases  []string
	min, max int
}

var providers = []provider{
	{"begin", nil, 0, 0},
	{"end", nil, 0, 0},
	{"self", nil, 2, 2},
	{"test", nil, 1, 1},
	{"bench", nil, 1, 1},
	{"kprobe", []string{"k"}, 1, 2},
	{"kretprobe", []string{"kr"}, 1, 2},
	{"fentry", []string{"f", "kfunc"}, 1, 3},
	{"fexit", []string{"fr", "kretfunc"}, 1, 3},
	{"uprobe", []string{"u"}, 1, 3},
	{"uretprobe", []string{"ur"}, 1, 3},
	{"usdt", []string{"U"}, 1, 3},
	{"tracepoint", []string{"t"}, 2, 2},
	{"rawtracepoint", []string{"rt"}, 1, 2},
	{"iter", []string{"it"}, 1, 2},
	{"profile", []string{"p"}, 1, 2},
	{"interval", []string{"i"}, 1, 2},
	{"software", []string{"s"}, 1, 2},
	{"hardware", []string{"h"}, 1, 2},
	{"watchpoint", []string{"w"}, 3, 3},
}

// lookupProvider finds a probe type by name (in any case) or alias. The only
// aliases that differ in case are u (uprobe) and U (usdt).
func lookupProvider(word string) (provider, bool) {
	lower := strings.ToLower(word)
	for _, p := range providers {
		if p.name == lower {
			return p, true
		}
		for _, a := range p.aliases {
			if a == word || a == lower && word != "U" {
				return p, true
			}
		}
	}
	return provider{}, false
}

// nearestProvider is the probe type that a misspelt word means, or "".
func nearestProvider(word string) string {
	var names []string
	for _, p := range providers {
		names = append(names, p.name)
	}
	return spell.Nearest(strings.ToLower(word), names)
}

// AttachPoint splits the text of span, one attach point with an optional
// "name=" before it. Faults of form go to diags; the result is never nil.
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
	ap.Parts = splitParts(body)
	checkParams(body, diags)
	first := ap.Parts[0]
	p, ok := lookupProvider(first.Text)
	switch {
	case ok:
		ap.Provider = p.name
		p.splitLocation(ap)
		p.check(ap, diags)
	case text != "" && !first.Wildcard && len(first.Params) == 0:
		d := diags.Add(diag.BadProbeType, first.At, "Invalid probe type: %s", first.Text)
		near := nearestProvider(first.Text)
		switch {
		case first.Text == "config":
			d.Hint("a config block has the form config = { ... }")
		case near != "" && (len(ap.Parts) > 1 || near == "begin" || near == "end"):
			d.Hint("did you mean %s?", near)
		case len(ap.Parts) == 1:
			d.Hint("an attach point begins with the kind of probe: kprobe:%s", first.Text)
		}
	}
	return ap
}

// splitLocation cuts "BIN@FILE:LINE[:COL]" of a uprobe, which the split at ':'
// has torn apart, into the binary and one location.
func (p provider) splitLocation(ap *ast.AttachPoint) {
	if (p.name != "uprobe" && p.name != "uretprobe") || len(ap.Parts) < 3 {
		return
	}
	bin := ap.Parts[1]
	i := strings.IndexByte(bin.At.Text(), '@')
	if i <= 0 || bin.Quoted || strings.Trim(ap.Parts[2].Text, "0123456789") != "" {
		return
	}
	file, last := bin.At.File, ap.Parts[len(ap.Parts)-1].At
	at := bin.At.Start + i
	left := newPart(file.Span(bin.At.Start, at))
	right := newPart(file.Span(at+1, last.End))
	right.Location = true
	ap.Parts = []ast.AttachPart{ap.Parts[0], left, right}
}

// check reports a wrong number of parts.
func (p provider) check(ap *ast.AttachPoint, diags *diag.List) {
	n, least := len(ap.Parts)-1, p.min
	if last := ap.Parts[n]; last.Wildcard && n > 0 { // tracepoint:* is all of them
		least = 1
	}
	if n >= least && n <= p.max || slices.ContainsFunc(ap.Parts, func(a ast.AttachPart) bool { return len(a.Params) > 0 }) {
		return
	}
	numbers := strconv.Itoa(p.min)
	for i := p.min + 1; i <= p.max; i++ {
		numbers += " or " + strconv.Itoa(i)
	}
	d := diags.Add(diag.BadAttachPoint, ap.At, "%s probe type requires %s arguments, found %d", p.name, numbers, n)
	if p.name == "tracepoint" {
		d.Hint("tracepoint:CATEGORY:EVENT")
	}
}

// checkParams reports a '$' that no parameter number follows.
func checkParams(body diag.Span, diags *diag.List) {
	text := body.Text()
	for i := range unquoted(text, '$') {
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

// unquoted gives the places of a character of text outside of quotes.
func unquoted(text string, want byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		quoted := false
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case c == '\\' && quoted:
				i++
			case c == '"':
				quoted = !quoted
			case c == want && !quoted && !yield(i):
				return
			}
		}
	}
}

// splitParts splits at each ':' that is not in quotes. There is always a part.
func splitParts(body diag.Span) []ast.AttachPart {
	var parts []ast.AttachPart
	start := 0
	for i := range unquoted(body.Text(), ':') {
		parts = append(parts, newPart(body.File.Span(body.Start+start, body.Start+i)))
		start = i + 1
	}
	return append(parts, newPart(body.File.Span(body.Start+start, body.End)))
}

// newPart removes quotes and finds wildcards and parameters outside of them.
func newPart(at diag.Span) ast.AttachPart {
	part := ast.AttachPart{Extent: ast.Ext(at)}
	text := at.Text()
	var b strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			quoted = !quoted
			part.Quoted = true
			continue
		case quoted:
			if c == '\\' && i+1 < len(text) {
				i++
				c = text[i]
			}
		case c == '*':
			part.Wildcard = true
		case c == '$':
			n := i + 1
			for n < len(text) && isDigit(text[n]) {
				n++
			}
			if v, err := strconv.Atoi(text[i+1 : n]); err == nil && v > 0 {
				part.Params = append(part.Params, v)
			}
		}
		b.WriteByte(c)
	}
	part.Text = b.String()
	return part
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// Aliases lists the other names of a probe type.
func Aliases(name string) []string {
	p, _ := lookupProvider(name)
	return slices.Clone(p.aliases)
}
