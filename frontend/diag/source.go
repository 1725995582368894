// SPDX-License-Identifier: Apache-2.0

package diag

import (
	"fmt"
	"sort"
	"unicode/utf8"
)

// Stdin is the name of a source given by -e or read from standard input.
const Stdin = "stdin"

// Source is one source file: a script, an imported script or a header.
type Source struct {
	// Name is the name in diagnostics: a path as the user wrote it, or Stdin.
	Name string
	// Text is the entire content. Spans are byte offsets into it.
	Text string

	// Private is set for a file whose content messages must not show: the script could name
	// any file, and whoever reads the messages of a compile service may not be allowed to
	// read it.
	Private bool
	// Library is set for a file of the standard library, whose code the user cannot change.
	Library bool

	lines []int // byte offset of each line's first byte

	// origin is the span where the code of a copy was expanded, or where the file is imported; base is the source
	// that it is a copy of.
	origin Span
	base   *Source
	how    string // how the file was reached: "imported from", "included from"
}

// NewSource indexes the lines of text.
func NewSource(name, text string) *Source {
	s := &Source{Name: name, Text: text, lines: []int{0}}
	for i := 0; i < len(text); i++ {
		if text[i] == '\n' {
			s.lines = append(s.lines, i+1)
		}
	}
	return s
}

// ExpandedAt returns a copy of s for code that was expanded at a span, which spans in the copy
// refer to. It shares the text.
func (s *Source) ExpandedAt(at Span) *Source {
	c := *s
	c.origin, c.base = at, s.Base()
	return &c
}

// ImportedAt records where a file is imported, and returns s.
func (s *Source) ImportedAt(at Span) *Source {
	s.origin, s.how = at, "imported from"
	return s
}

// IncludedAt records where a header is included, and returns s.
func (s *Source) IncludedAt(at Span) *Source {
	s.origin, s.how = at, "included from"
	return s
}

// Base returns the source that s is a copy of, or s itself.
func (s *Source) Base() *Source {
	if s.base != nil {
		return s.base
	}
	return s
}

// Position is a position for people: both numbers start at 1, the column counts bytes.
type Position struct{ Line, Col int }

// Position converts a byte offset; offsets outside the text are clamped.
func (s *Source) Position(offset int) Position {
	offset = min(max(offset, 0), len(s.Text))
	i := sort.SearchInts(s.lines, offset+1) - 1
	return Position{Line: i + 1, Col: offset - s.lines[i] + 1}
}

// LineCount returns the number of lines; a source that ends in a newline has an empty last line.
func (s *Source) LineCount() int { return len(s.lines) }

// LineStart returns the byte offset of the first byte of a line (from 1).
func (s *Source) LineStart(line int) int { return s.lines[line-1] }

// Line returns the text of a line (from 1) without its line ending.
func (s *Source) Line(line int) string {
	start, end := s.lines[line-1], len(s.Text)
	if line < len(s.lines) {
		end = s.lines[line] - 1
	}
	if end > start && s.Text[end-1] == '\r' {
		end--
	}
	return s.Text[start:end]
}

// Span returns the bytes from start up to, but not including, end.
func (s *Source) Span(start, end int) Span { return Span{File: s, Start: start, End: end} }

// RuneOffsets returns, for each rune index of the text and for its end, the
// byte offset. It returns nil if the text is all ASCII, where both are equal.
func (s *Source) RuneOffsets() []int {
	if utf8.RuneCountInString(s.Text) == len(s.Text) {
		return nil
	}
	out := make([]int, 0, len(s.Text)+1)
	for i := range s.Text {
		out = append(out, i)
	}
	return append(out, len(s.Text))
}

// Span is a range of bytes of one source: Start is included, End is not.
type Span struct {
	File       *Source
	Start, End int
}

// Valid reports whether the span is in a source.
func (s Span) Valid() bool { return s.File != nil }

// Private reports whether the span is in a private source.
func (s Span) Private() bool { return s.File != nil && s.File.Base().Private }

// caller returns the span itself, or the call of a standard macro, outside of the library, that it was expanded from.
func (s Span) caller() Span {
	for s.File != nil && s.File.Library && s.File.base != nil {
		s = s.File.origin
	}
	return s
}

// Text returns the source text of the span.
func (s Span) Text() string {
	if s.File == nil {
		return ""
	}
	return s.File.Text[s.Start:s.End]
}

// To returns the span from the start of s to the end of other.
func (s Span) To(other Span) Span { return Span{File: s.File, Start: s.Start, End: other.End} }

// Pos returns the position of the first byte; the zero Position for a span without
// a source.
func (s Span) Pos() Position {
	if s.File == nil {
		return Position{}
	}
	return s.File.Position(s.Start)
}

// EndPos returns the position just after the last byte.
func (s Span) EndPos() Position {
	if s.File == nil {
		return Position{}
	}
	return s.File.Position(s.End)
}

// Chain returns the spans the code at s was expanded from, innermost first; nil for code that is not expanded.
func (s Span) Chain() []Span {
	var all []Span
	for s.File != nil && s.File.base != nil {
		s = s.File.origin
		all = append(all, s)
	}
	return all
}

// Entry is a position at which a file was included or imported.
type Entry struct {
	At Span
	// How is "imported from" or "included from".
	How string
}

// Entries returns the positions at which the file of s was included or imported, innermost
// first; none for the script itself.
func (s Span) Entries() []Entry {
	var all []Entry
	for s.File != nil {
		base := s.File.Base()
		if base.how == "" {
			break
		}
		all = append(all, Entry{base.origin, base.how})
		s = base.origin
	}
	return all
}

// In returns the span of s in src: s itself, or the innermost span in src that it was expanded
// from; the zero Span if there is none.
func (s Span) In(src *Source) Span {
	for s.File != nil && s.File.Base() != src.Base() {
		s = s.File.origin
	}
	return s
}

// String returns "name:line:col", a form that editors understand.
func (s Span) String() string {
	if s.File == nil {
		return "-"
	}
	p := s.Pos()
	return fmt.Sprintf("%s:%d:%d", s.File.Name, p.Line, p.Col)
}

func (s Span) fileName() string {
	if s.File == nil {
		return ""
	}
	return s.File.Name
}
