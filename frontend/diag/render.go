// SPDX-License-Identifier: Apache-2.0

package diag

import (
	"fmt"
	"io"

	"btc/internal/snippet"
)

// RenderOptions control how a list is rendered.
type RenderOptions struct {
	// Color marks severities with terminal colors.
	Color bool
	// NoWarnings leaves warnings out.
	NoWarnings bool
	// MaxErrors is the maximum number of errors, and of warnings, to show; 0 shows all.
	MaxErrors int
}

// maxEntries is the maximum number of "included from" positions shown.
const maxEntries = 5

// Render writes the list, sorted by position:
//
//	name:3:15: error[E0201]: Unknown identifier: 'foo'
//	 3 | begin { print(foo); }
//	   |               ^~~
//	   = hint: ...
//
// It returns the first error from w.
func Render(w io.Writer, l *List, opt RenderOptions) error {
	var shown, hidden [2]int // by severity
	p := &printer{w: w, color: opt.Color}
	for _, d := range l.Sorted() {
		s := d.Severity()
		switch {
		case s == Warning && opt.NoWarnings:
		case opt.MaxErrors > 0 && shown[s] >= opt.MaxErrors:
			hidden[s]++
		default:
			shown[s]++
			p.diagnostic(d)
		}
	}
	for s, n := range hidden {
		if n > 0 {
			p.printf("... and %d more %ss\n", n, Severity(s))
		}
	}
	return p.err
}

type printer struct {
	w     io.Writer
	color bool
	err   error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *printer) diagnostic(d *Diagnostic) {
	m := p.message(d.Span, d.Severity().String(), d.text())
	m.Code = string(d.Code)
	p.printf("%s", m)
	for _, r := range d.Related {
		p.note(r.Span, r.Message)
	}
	for _, s := range d.Expanded {
		p.note(s, "expanded from")
	}
	entries := d.Span.Entries()
	for i, e := range entries {
		if left := len(entries) - i - 1; i == maxEntries-1 && left > 0 { // the outermost is always shown
			p.note(Span{}, fmt.Sprintf("... %d more files in between", left))
			e = entries[len(entries)-1]
		}
		n := p.message(e.At, "note", e.How)
		n.Source = nil
		p.printf("%s", n)
		if i == maxEntries-1 {
			break
		}
	}
	if d.Span.Private() {
		return
	}
	for _, h := range d.Hints {
		p.printf("%s", m.Hint(h))
	}
}

func (p *printer) note(at Span, text string) { p.printf("%s", p.message(at, "note", text)) }

// message prints a message with the first source line of a span.
func (p *printer) message(at Span, severity, text string) *snippet.Message {
	m := &snippet.Message{Severity: severity, Text: text, Color: p.color}
	if !at.Valid() {
		return m
	}
	start, end := at.Pos(), at.EndPos()
	m.File, m.Line, m.Col, m.EndCol = at.File.Name, start.Line, start.Col, end.Col
	if at.Private() {
		return m
	}
	line := at.File.Line(start.Line)
	if m.Source = &line; end.Line != start.Line {
		m.EndCol = len(line) + 1
	}
	return m
}
