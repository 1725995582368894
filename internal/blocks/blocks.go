// SPDX-License-Identifier: Apache-2.0

// Package blocks draws numbers with the block characters of Unicode: sparklines, and the rows of heat maps. It takes lines of
// text with numbers, and returns lines for a terminal.
package blocks

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"btc/internal/snippet"
)

// Line is a line of a view: text, and after it a character for each number, the latest last. A number that is not one (NaN)
// is a space.
type Line struct {
	Text   []byte
	Values []float32
	Kind   Kind
	Tint   int // of Bars: the height whose color the line has; 0: each character that of its height
}

// Kind says how numbers become characters.
type Kind byte

// The kinds. The numbers of consecutive lines of heat have one scale, others one for each line.
const (
	Rate  Kind = iota // heights, from 0 to the greatest number
	Level             // heights, from the least to the greatest number
	Heat              // densities or colors, from 0 to the greatest number; 0 is a space
	Bars              // the numbers are heights, from 1 to Height; less is a space
)

// Height is the number of heights of a character.
const Height = 8

// colors are those of the heights: blue, cyan, green, yellow, red.
const colors = "44662331"

// least is the number of characters below which none are drawn.
const least = 4

// Possible reports whether the variables of an environment are those of a terminal with block characters.
func Possible(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := getenv(name); locale != "" {
			locale = strings.ToUpper(locale)
			return (strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")) && getenv("TERM") != "dumb"
		}
	}
	return false
}

// Split returns the lines of a text.
func Split(text []byte) (lines []Line) {
	for _, line := range bytes.Split(text, []byte("\n")) {
		lines = append(lines, Line{Text: line})
	}
	return lines
}

// Draw returns lines of at most so many columns. Characters of consecutive lines that belong to the same time are below each
// other. Texts have no control characters.
func Draw(lines []Line, columns int, color bool) [][]byte {
	out := make([][]byte, len(lines))
	var at int
	var heat span
	for i := range lines {
		l := &lines[i]
		out[i] = l.Text
		if len(l.Values) == 0 {
			continue
		}
		if i == 0 || len(lines[i-1].Values) == 0 { // the first of several
			at, heat = 0, span{}
			for j := i; j < len(lines) && len(lines[j].Values) > 0; j++ {
				at = max(at, width(lines[j].Text))
			}
			at = min(at, columns*2/3)
			for j := i; j < len(lines) && len(lines[j].Values) > 0; j++ {
				heat.add(last(lines[j].Values, columns-at-1))
			}
		}
		out[i] = l.draw(at, columns, heat, color)
	}
	return out
}

// draw returns a line whose characters begin after a column, or later if the text is longer: then the first ones are left out.
func (l *Line) draw(at, columns int, heat span, color bool) []byte {
	w := width(l.Text)
	values := last(l.Values, columns-at-1)
	room := columns - max(at, w) - 1
	if room < min(least, len(l.Values)) {
		return l.Text
	}
	values = last(values, room)
	scale := heat
	if l.Kind != Heat {
		scale = span{}
		scale.add(values)
	}
	dst := append(bytes.Clone(l.Text), strings.Repeat(" ", max(at-w, 0)+1)...)
	now := byte(0) // the color
	for _, v := range values {
		n := scale.height(v, l.Kind)
		r := rune(' ')
		switch {
		case n == 0:
		case l.Kind != Heat:
			r = 0x2580 + rune(n) // lower blocks of one to eight eighths
		case color || n > 6:
			r = 0x2588 // full block
		default:
			r = 0x2590 + rune(n+1)/2 // light, medium and dark shade
		}
		if n > 0 && color && l.Kind >= Heat {
			if l.Tint > 0 {
				n = l.Tint
			}
			if c := colors[n-1]; c != now {
				now = c
				dst = append(append(dst, "\x1b[3"...), c, 'm')
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
	if now != 0 {
		dst = append(dst, "\x1b[m"...)
	}
	return dst
}

// last returns the last n numbers.
func last(values []float32, n int) []float32 {
	return values[max(len(values)-max(n, 0), 0):]
}

// span is from the least to the greatest of some numbers.
type span struct {
	lo, hi float32
	any    bool
}

func (s *span) add(values []float32) {
	for _, v := range values {
		if v != v {
			continue
		}
		if !s.any {
			s.lo, s.hi, s.any = v, v, true
		}
		s.lo, s.hi = min(s.lo, v), max(s.hi, v)
	}
}

// height returns the height of a number, 0 for a space.
func (s *span) height(v float32, kind Kind) int {
	lo, n := s.lo, float32(Height-1)
	switch {
	case v != v:
		return 0
	case kind == Bars:
		return int(min(max(v, 0), Height))
	case kind != Level:
		lo = min(lo, 0)
	}
	switch {
	case kind == Heat && v <= 0:
		return 0
	case s.hi > lo:
		return 1 + int((v-lo)/(s.hi-lo)*n)
	case v == 0:
		return 1
	}
	return Height / 2 // all are equal
}

// width returns the number of columns of a text.
func width(text []byte) (n int) {
	for _, r := range string(text) {
		n += snippet.RuneColumns(r)
	}
	return n
}
