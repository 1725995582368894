package diag

import (
	"fmt"
	"io"
	"strings"

	"btc/internal/snippet"
)

// RenderOptions say how a list is shown.
type RenderOptions struct {
	// Color marks severities with terminal colours.
	Color bool
	// NoWarnings leaves warnings out.
	NoWarnings bool
	// MaxErrors stops after so many errors, and after so many warnings; 0 shows all.
	MaxErrors int
}

// maxEntries is how many positions of files that include each other are shown.
const maxEntries = 5

// Render writes the list, sorted by position:
//
//	name:3:15: error[E0201]: Unknown identifier: 'foo'
//	 3 | begin { print(foo); }
//	   |               ^~~
//	   = hint: ...
//
// It returns the first error of w.
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

func (p *printer) paint(color, text string) string {
	if !p.color {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func (p *printer) diagnostic(d *Diagnostic) {
	color := "1;31"
	if d.Severity() == Warning {
		color = "1;33"
	}
	if d.Span.Valid() {
		p.printf("%s: ", d.Span)
	}
	p.printf("%s: %s\n", p.paint(color, fmt.Sprintf("%s[%s]", d.Severity(), d.Code)), d.text())
	margin := p.context(d.Span)
	for _, r := range d.Related {
		if r.Span.Valid() {
			p.printf("%s: ", r.Span)
		}
		p.printf("%s: %s\n", p.paint("1;36", "note"), r.Message)
		p.context(r.Span)
	}
	for _, s := range d.Expanded {
		p.printf("%s: %s: expanded from\n", s, p.paint("1;36", "note"))
		p.context(s)
	}
	entries := d.Span.Entries()
	for i, e := range entries {
		if left := len(entries) - i - 1; i == maxEntries-1 && left > 0 { // the outermost is always shown
			p.printf("%s: ... %d more files in between\n", p.paint("1;36", "note"), left)
			e = entries[len(entries)-1]
		}
		p.printf("%s: %s: %s\n", e.At, p.paint("1;36", "note"), e.How)
		if i == maxEntries-1 {
			break
		}
	}
	if d.Span.Private() {
		return
	}
	for _, h := range d.Hints {
		p.printf("%s= hint: %s\n", margin, h)
	}
}

// context shows the first line of a span with a marker below. It returns the
// margin that aligns with it.
func (p *printer) context(s Span) string {
	if !s.Valid() || s.Private() {
		return " "
	}
	start, end := s.Pos(), s.EndPos()
	line := s.File.Line(start.Line)
	to := len(line)
	if end.Line == start.Line {
		to = end.Col - 1
	}
	shown := snippet.Mark(line, start.Col-1, to)

	number := fmt.Sprint(start.Line)
	margin := strings.Repeat(" ", len(number)+2)
	p.printf("%s\n", strings.TrimRight(" "+number+" | "+shown.Text, " "))
	marker := "^"
	if shown.Width > 1 {
		marker += strings.Repeat("~", shown.Width-1)
	}
	p.printf("%s| %s%s\n", margin, strings.Repeat(" ", shown.Column), p.paint("1;32", marker))
	return margin
}
