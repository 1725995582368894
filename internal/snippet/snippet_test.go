// SPDX-License-Identifier: Apache-2.0

package snippet

import (
	"strings"
	"testing"
)

func TestMark(t *testing.T) {
	for _, c := range []struct {
		name, line string
		from, to   int
		want       Line
	}{
		{"a word", "a bcd e", 2, 5, Line{"a bcd e", 2, 3}},
		{"a tab before", "\tabc", 1, 4, Line{"    abc", 4, 3}},
		{"a tab inside", "a\tb", 1, 2, Line{"a   b", 1, 3}},
		{"wide characters", "\u4f60\u597dx", 3, 6, Line{"\u4f60\u597dx", 2, 2}},
		{"a combining character", "e\u0301x", 3, 4, Line{"e\u0301x", 1, 1}},
		{"control characters", "a\x1b[2Jb", 0, 1, Line{"a\ufffd[2Jb", 0, 1}},
		{"an invalid byte", "a\xffb", 2, 3, Line{"a\ufffdb", 2, 1}},
		{"the end", "abc", 3, 4, Line{"abc", 3, 0}},
		{"outside", "abc", -5, 99, Line{"abc", 0, 3}},
		{"backwards", "abc", 2, 1, Line{"abc", 2, 0}},
		{"nothing", "", 7, 9, Line{"", 0, 0}},
	} {
		if got := Mark(c.line, c.from, c.to); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestMarkLongLine checks that a long line is cut around the marker, which must remain visible.
func TestMarkLongLine(t *testing.T) {
	line := strings.Repeat("x", 10_000) + "MARK" + strings.Repeat("y", 10_000)
	got := Mark(line, 10_000, 10_004)
	if n := columns(got.Text); n > maxColumns+2*len(ellipsis) || got.Width != 4 || got.Text[got.Column:got.Column+4] != "MARK" {
		t.Errorf("%d columns, marker at %d+%d", n, got.Column, got.Width)
	}
}

func FuzzMark(f *testing.F) {
	f.Add("a\tb\xff", 1, 2)
	f.Fuzz(func(t *testing.T, line string, from, to int) {
		got := Mark(line, from, to)
		if strings.ContainsAny(got.Text, "\x1b\n\r\x00") || got.Column < 0 || got.Width < 0 || got.Column+got.Width > columns(got.Text) {
			t.Errorf("Mark(%q, %d, %d) = %+v", line, from, to, got)
		}
	})
}
