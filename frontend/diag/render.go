package diag

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
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

const (
	tabWidth   = 4   // columns of a tab in the shown source line
	maxColumns = 160 // longer source lines are cut around the marker
	leadIn     = 40  // columns kept before the marker in a cut line
	ellipsis   = "..."
	maxEntries = 5 // places shown of files that include each other
)

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
	from := min(start.Col-1, len(line))
	to := len(line)
	if end.Line == start.Line {
		to = min(max(end.Col-1, from), len(line))
	}
	before := display(near(line[:from], false), 0)
	marked := display(near(line[from:to], true), columns(before))
	after := display(near(line[to:], true), columns(before)+columns(marked))
	before, marked, after = cut(before, marked, after)

	number := fmt.Sprint(start.Line)
	margin := strings.Repeat(" ", len(number)+2)
	p.printf("%s\n", strings.TrimRight(" "+number+" | "+before+marked+after, " "))
	marker := "^"
	if n := columns(marked); n > 1 {
		marker += strings.Repeat("~", n-1)
	}
	p.printf("%s| %s%s\n", margin, strings.Repeat(" ", columns(before)), p.paint("1;32", marker))
	return margin
}

// near is what of a part of a line can be shown, and more: its first bytes or its
// last. The others are not looked at.
func near(s string, first bool) string {
	const most = 16 * maxColumns
	switch {
	case len(s) <= most:
		return s
	case first:
		return s[:most]
	}
	s = s[len(s)-most:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// cut shortens a very long line to a window around the marked part.
func cut(before, marked, after string) (string, string, string) {
	if columns(before)+columns(marked)+columns(after) <= maxColumns {
		return before, marked, after
	}
	if columns(before) > leadIn {
		r := []rune(before)
		before = ellipsis + string(r[max(len(r)-leadIn, 0):])
	}
	room := maxColumns - columns(before)
	marked, room = head(marked, room)
	after, _ = head(after, room)
	return before, marked, after
}

// head keeps at most room columns of s and returns what room is left.
func head(s string, room int) (string, int) {
	used := 0
	for i, r := range s {
		n := runeColumns(r)
		if used+n > room {
			if room == 0 {
				return "", 0
			}
			return s[:i] + ellipsis, 0
		}
		used += n
	}
	return s, room - used
}

// display makes a text safe and of known width for a terminal: tabs become
// blanks up to the next stop, invalid bytes and control characters become the
// replacement character.
func display(s string, column int) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		s = s[n:]
		switch {
		case r == '\t':
			pad := tabWidth - column%tabWidth
			b.WriteString(strings.Repeat(" ", pad))
			column += pad
			continue
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			r = utf8.RuneError
		}
		b.WriteRune(r)
		column += runeColumns(r)
	}
	return b.String()
}

func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

// wide lists the ranges that terminals show in two columns.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0xa4cf, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1}, {Lo: 0xff00, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1}},
}

func runeColumns(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}
