// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// grid is a small terminal emulator: it knows the control sequences that screen uses, and keeps the
// rows that scroll out.
type grid struct {
	rows, columns int
	lines         []string // all rows, those that scrolled out first
	row, column   int      // of the cursor; row counts from the first of lines
}

func (g *grid) top() int { return max(len(g.lines)-g.rows, 0) }

func (g *grid) Write(text []byte) (int, error) {
	for i := 0; i < len(text); i++ {
		for len(g.lines) <= g.row {
			g.lines = append(g.lines, "")
		}
		switch c := text[i]; {
		case c == '\r':
			g.column = 0
		case c == '\n': // the terminal's driver adds a carriage return
			g.row, g.column = g.row+1, 0
		case c == 0x1b:
			end := i + 2 + bytes.IndexFunc(text[i+2:], func(r rune) bool { return r >= '@' })
			n, _ := strconv.Atoi(string(text[i+2 : end]))
			switch text[end] {
			case 'A':
				g.row = max(g.row-n, g.top())
			case 'K':
				g.lines[g.row] = g.lines[g.row][:min(g.column, len(g.lines[g.row]))]
			case 'J':
				g.lines[g.row] = g.lines[g.row][:min(g.column, len(g.lines[g.row]))]
				g.lines = g.lines[:g.row+1]
				for g.top() > 0 && len(g.lines) < g.rows {
					g.lines = append(g.lines, "")
				}
			default:
				return 0, fmt.Errorf("unknown sequence %q", text[i:end+1])
			}
			i = end
		default:
			if g.column == g.columns {
				g.row, g.column = g.row+1, 0
				for len(g.lines) <= g.row {
					g.lines = append(g.lines, "")
				}
			}
			line := g.lines[g.row]
			line += strings.Repeat(" ", max(g.column-len(line), 0))
			g.lines[g.row] = line[:g.column] + string(c) + line[min(g.column+1, len(line)):]
			g.column++
		}
	}
	return len(text), nil
}

func (g *grid) String() string { return strings.TrimRight(strings.Join(g.lines, "\n"), "\n") }

// view returns the lines of a view.
func view(lines ...string) [][]byte {
	var all [][]byte
	for _, l := range lines {
		all = append(all, []byte(l))
	}
	return all
}

// TestScreen: all output is above the view, whether its lines are complete, wide or many.
func TestScreen(t *testing.T) {
	for _, rows := range []int{4, 6, 30} {
		for _, step := range []int{1, 3, 7, 1000} {
			g := &grid{rows: rows, columns: 10}
			s := newScreen(g)
			s.size = func() (int, int) { return g.rows, g.columns }
			text := "one\ntwo\nthree is a wide line\nfour\n\nfive and six "
			for i := 0; i < len(text); i += step {
				s.Write([]byte(text[i:min(i+step, len(text))]))
				s.paint(view("head", "1", fmt.Sprint("frame ", i)))
			}
			s.around(func() { g.Write([]byte("a warning\n")) })
			s.paint(view("head", "2"))
			s.Write([]byte("seven\n"))
			shown := g.String()
			s.leave()
			s.paint(view("too late"))
			s.Write([]byte("the end\n"))
			const want = "one\ntwo\nthree is a\n wide line\nfour\n\nfive and s\nix \na warning\nseven"
			if want+"\nhead\n2" != shown {
				t.Errorf("%d rows, %d bytes at a time: %q with the view, want\n%q", rows, step, shown, want+"\nhead\n2")
			}
			if got := g.String(); got != want+"\nthe end" {
				t.Errorf("%d rows, %d bytes at a time: %q at the end, want\n%q", rows, step, got, want+"\nthe end")
			}
		}
	}
}

// TestTallView: a view has at most one row less than the screen.
func TestTallView(t *testing.T) {
	g := &grid{rows: 5, columns: 20}
	s := newScreen(g)
	s.size = func() (int, int) { return g.rows, g.columns }
	s.Write([]byte("above\n"))
	for i := range 3 {
		s.paint(view(fmt.Sprint("head ", i), "1", "2", "a line that is wider than the screen", "4", "5"))
	}
	if want := "above\nhead 2\n1\n2\n... and 3 more line"; g.String() != want {
		t.Errorf("%q, want %q", g, want)
	}
}
