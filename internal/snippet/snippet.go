// SPDX-License-Identifier: Apache-2.0

// Package snippet shows a line of source text with a mark below it, on a terminal.
//
// It takes a line and a range of its bytes, and returns text that is safe to print, shortened around the mark, and
// the columns of the mark. It writes nothing.
package snippet

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	tabWidth   = 4   // columns of a tab
	maxColumns = 160 // longer lines are shortened around the mark
	leadIn     = 40  // columns kept before the mark in a shortened line
	ellipsis   = "..."
)

// Line is a line as it is shown.
type Line struct {
	Text   string
	Column int // start of the mark, in columns from 0
	Width  int // width of the mark, in columns; 0 for an empty range
}

// Mark shows a line with the bytes from..to marked. The range is clamped to the line.
func Mark(line string, from, to int) Line {
	from = min(max(from, 0), len(line))
	to = min(max(to, from), len(line))
	before := display(near(line[:from], false), 0)
	marked := display(near(line[from:to], true), columns(before))
	after := display(near(line[to:], true), columns(before)+columns(marked))
	before, marked, after = cut(before, marked, after)
	return Line{before + marked + after, columns(before), columns(marked)}
}

// near returns the part of a long string that may be visible, its first or last bytes, so that the rest need not be
// scanned.
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

// head keeps at most room columns of s and returns the remaining room.
func head(s string, room int) (string, int) {
	used := 0
	for i, r := range s {
		n := RuneColumns(r)
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

// display makes a string safe for a terminal, with known width: tabs become
// spaces up to the next stop, invalid bytes and control characters become the
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
		column += RuneColumns(r)
	}
	return b.String()
}

func columns(s string) int {
	n := 0
	for _, r := range s {
		n += RuneColumns(r)
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

// RuneColumns returns how many columns a terminal shows a printable character in: 0, 1 or 2.
func RuneColumns(r rune) int {
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
