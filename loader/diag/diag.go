// SPDX-License-Identifier: Apache-2.0

// Package diag formats the loader's errors with their position in the script.
//
// It takes a position, a message and the script's source (from the manifest) and returns an
// error whose message shows the line with a caret, in the form of the compiler's own
// diagnostics.
package diag

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"btc/internal/manifest"
	"btc/internal/snippet"
)

// Error is an error with a position in the script.
type Error struct {
	Script *manifest.Script
	Pos    manifest.Pos // zero: no position
	Text   string
	Notes  []string // more lines, such as the relevant part of a verifier log
	Hint   string
	Cause  error
	Severe bool // Error formats it like Message, in bpftrace's form
	// Chain are Pos and the calls of macros that led to it, if Pos is not enough.
	Chain []manifest.Location
}

func (f *Error) Unwrap() error { return f.Cause }

// Error formats the error, without a newline at the end:
//
//	x.bt:3:12: error: the kernel refused ...
//	 3 | kprobe:f { ... }
//	   |            ^
//	   = hint: ...
func (f *Error) Error() string {
	if f.Severe {
		return f.Message("ERROR")
	}
	return f.render("error")
}

// Warning formats the error as a warning.
func (f *Error) Warning() string { return f.render("warning") }

// Message formats a run-time message of a program in bpftrace's form:
//
//	x.bt:3:12-20: WARNING: Divide or modulo by 0 detected. ...
//	begin { print(1 / @x); }
//	              ~~~~~~
//
// In a macro it is followed by the calls that led there, as "expanded from".
func (f *Error) Message(severity string) string {
	return f.message(severity, true)
}

// Brief is like Message, without the source line.
func (f *Error) Brief(severity string) string { return f.message(severity, false) }

func (f *Error) message(severity string, source bool) string {
	places := f.Chain
	if len(places) == 0 {
		p := manifest.Location{Line: f.Pos.Line, Col: f.Pos.Col, EndCol: f.Pos.EndCol}
		text := Head(f.Script, f.Pos) + severity + ": " + f.Text
		if source {
			text += f.lines(p)
		}
		return text
	}
	var text strings.Builder
	for i, p := range places {
		what := "expanded from"
		if i == 0 {
			what = f.Text
		} else {
			text.WriteByte('\n')
		}
		text.WriteString(f.head(p) + severity + ": " + what)
		if i > 0 || source {
			text.WriteString(f.lines(p))
		}
	}
	return text.String()
}

// head returns the position that a message begins with.
func (f *Error) head(p manifest.Location) string {
	file := p.File
	if file == "" {
		file = f.Script.File
	}
	if p.EndLine > 0 {
		return fmt.Sprintf("%s:%d-%d: ", file, p.Line, p.EndLine)
	}
	return fmt.Sprintf("%s:%d:%d-%d: ", file, p.Line, p.Col, p.EndCol)
}

// lines returns the lines of a span, each after a newline, with a marker below a single one;
// empty if the source is not known.
func (f *Error) lines(p manifest.Location) string {
	line, ok := p.Text, p.Text != ""
	if p.File == "" {
		line, ok = sourceLine(f.Script.Source, p.Line)
	}
	if !ok {
		return ""
	}
	if p.EndLine > 0 {
		text := wholeLine(line)
		for n := p.Line + 1; p.File == "" && n <= min(p.EndLine, p.Line+maxLines); n++ {
			line, ok := sourceLine(f.Script.Source, n)
			if !ok {
				break
			}
			text += wholeLine(line)
		}
		return text
	}
	shown := snippet.Mark(line, p.Col-1, p.EndCol-1)
	return "\n" + shown.Text + "\n" + strings.Repeat(" ", shown.Column) + strings.Repeat("~", max(1, shown.Width))
}

// Bounds of what is shown of a span: lines after the first, and bytes of each.
const (
	maxLines = 20
	maxLine  = 1024
)

func wholeLine(line string) string {
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + "..."
	}
	return "\n" + strings.ReplaceAll(line, "\t", "    ")
}

// Head returns the position that a message begins with, "x.bt:3:12-20: "; empty if there is
// none.
func Head(script *manifest.Script, p manifest.Pos) string {
	switch {
	case p.Line == 0:
		return ""
	case p.EndCol == 0:
		return fmt.Sprintf("%s:%d:%d: ", script.File, p.Line, p.Col)
	}
	return fmt.Sprintf("%s:%d:%d-%d: ", script.File, p.Line, p.Col, p.EndCol)
}

func (f *Error) render(severity string) string { return f.renderAs(severity, false) }

// Painted renders the error like Error ("error") or Warning ("warning"), with terminal colors. Strings that may come
// from a hostile object are made Printable.
func (f *Error) Painted(severity string) string {
	if f.Severe {
		return Printable(f.Error())
	}
	c := *f
	script := *f.Script
	script.File = Printable(script.File)
	c.Script, c.Text, c.Hint, c.Notes = &script, Printable(f.Text), Printable(f.Hint), nil
	for _, n := range f.Notes {
		c.Notes = append(c.Notes, Printable(n))
	}
	return c.renderAs(severity, true)
}

// Printable makes names from a hostile object safe to print on a terminal: characters that are not printable, except
// newlines and tabs, become U+FFFD.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text)
}

func (f *Error) renderAs(severity string, color bool) string {
	m := snippet.Message{
		File:     f.Script.File,
		Line:     f.Pos.Line,
		Col:      f.Pos.Col,
		EndCol:   f.Pos.Col + 1,
		Severity: severity,
		Text:     f.Text,
		Color:    color,
	}
	if line, ok := sourceLine(f.Script.Source, f.Pos.Line); ok {
		m.Source = &line
	}
	text := m.String()
	for _, n := range f.Notes {
		text += m.Note(n)
	}
	if f.Hint != "" {
		text += m.Hint(f.Hint)
	}
	return strings.TrimSuffix(text, "\n")
}

func sourceLine(source string, line int) (string, bool) {
	if line < 1 {
		return "", false
	}
	for text := range strings.Lines(source) {
		if line--; line == 0 {
			return strings.TrimRight(text, "\r\n"), true
		}
	}
	return "", false
}
