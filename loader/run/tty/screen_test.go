// SPDX-License-Identifier: Apache-2.0

package tty

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"btc/internal/blocks"
)

// grid is a small terminal emulator. It supports the control sequences that Screen uses, and keeps the
// rows that scroll out.
type grid struct {
	rows, columns int
	lines         []string // all rows; those that scrolled out come first
	row, column   int      // cursor; row is an index into lines
}

func (g *grid) top() int { return max(len(g.lines)-g.rows, 0) }

func (g *grid) Write(text []byte) (int, error) {
	for i := 0; i < len(text); i++ {
		if text[i] >= utf8.RuneSelf {
			i += g.wide(text[i:]) - 1
			continue
		}
		for len(g.lines) <= g.row {
			g.lines = append(g.lines, "")
		}
		switch c := text[i]; {
		case c == '\r':
			g.column = 0
		case c == '\n': // the terminal driver adds a carriage return
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
			case 'm': // a color
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

// wide shows a character of two columns and returns its bytes. The second column is shown as an underscore.
func (g *grid) wide(text []byte) int {
	r, n := utf8.DecodeRune(text)
	if r >= 0x2580 && r <= 0x259f { // a block has one column
		g.Write([]byte("#"))
		return n
	}
	if g.column+2 > g.columns {
		g.row, g.column = g.row+1, 0
	}
	for len(g.lines) <= g.row {
		g.lines = append(g.lines, "")
	}
	// A letter stands for the character, so that columns are bytes.
	letter := string(rune('a' + r%26))
	g.lines[g.row] = g.lines[g.row][:min(g.column, len(g.lines[g.row]))] + letter + "_"
	g.column += 2
	return n
}

func (g *grid) String() string { return strings.TrimRight(strings.Join(g.lines, "\n"), "\n") }

// view returns a view of lines, of which as many are shown as fit.
func view(lines ...string) func(rows int) []blocks.Line {
	return shown(blocks.Split([]byte(strings.Join(lines, "\n"))))
}

func shown(lines []blocks.Line) func(rows int) []blocks.Line {
	return func(rows int) []blocks.Line { return slices.Clone(lines[:min(rows, len(lines))]) }
}

// TestScreen checks that all output is above the view, whether its lines are complete, wide or many.
func TestScreen(t *testing.T) {
	for _, rows := range []int{4, 6, 30} {
		for _, step := range []int{1, 3, 7, 1000} {
			g := &grid{rows: rows, columns: 10}
			s := New(g, false)
			s.size = func() (int, int) { return g.rows, g.columns }
			text := "one\ntwo\nthree is a wide line\nfour\n\nfive and six "
			for i := 0; i < len(text); i += step {
				s.Write([]byte(text[i:min(i+step, len(text))]))
				s.Paint(view("head", "1", fmt.Sprint("frame ", i)))
			}
			s.Around(func() { g.Write([]byte("a warning\n")) })
			s.Paint(view("head", "2"))
			s.Write([]byte("seven\n"))
			shown := g.String()
			s.Leave()
			s.Paint(view("too late"))
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

// TestTallView checks that a view has at most one row less than the screen.
func TestTallView(t *testing.T) {
	g := &grid{rows: 5, columns: 20}
	s := New(g, false)
	s.size = func() (int, int) { return g.rows, g.columns }
	s.Write([]byte("above\n"))
	for i := range 3 {
		s.Paint(view(fmt.Sprint("head ", i), "1", "2", "a line that is wider than the screen", "4", "5"))
	}
	if want := "above\nhead 2\n1\n2\na line that is wide"; g.String() != want {
		t.Errorf("%q, want %q", g, want)
	}
}

// TestWideCharacters: characters of two columns are counted as two, in the output and in the view.
func TestWideCharacters(t *testing.T) {
	g := &grid{rows: 8, columns: 9}
	s := New(g, false)
	s.size = func() (int, int) { return g.rows, g.columns }
	s.Write([]byte("above\n"))
	for range 3 {
		s.Paint(view("head", "\u4e2d\u4e2d\u4e2d\u4e2d\u4e2d\u4e2d", "x"))
	}
	s.Write([]byte("\u4e2d\u4e2d\u4e2d\u4e2d\u4e2d"))
	s.Paint(view("head", "x"))
	s.Write([]byte("\u4e2d\n"))
	s.Leave()
	s.Write([]byte("end\n"))
	w := string(rune('a'+0x4e2d%26)) + "_"
	if want := "above\n" + strings.Repeat(w, 4) + "\n" + w + w + "\nend"; g.String() != want {
		t.Errorf("%q, want %q", g, want)
	}
}

// TestEndlessLine: a line that never ends is shown once, and is not kept.
func TestEndlessLine(t *testing.T) {
	g := &grid{rows: 6, columns: 10}
	s := New(g, false)
	s.size = func() (int, int) { return g.rows, g.columns }
	for range 100 {
		s.Write([]byte("."))
		s.Paint(view("head", "1"))
	}
	if len(s.open) > 20 {
		t.Errorf("%d bytes of the line are kept", len(s.open))
	}
	s.Leave()
	if want := strings.TrimSuffix(strings.Repeat("..........\n", 10), "\n"); g.String() != want {
		t.Errorf("%q, want %q", g, want)
	}
}

// TestSmallScreen: on a screen of any size the output is whole, and nothing of the view is left.
func TestSmallScreen(t *testing.T) {
	for rows := 1; rows < 5; rows++ {
		for _, columns := range []int{1, 2, 5, 40} {
			g := &grid{rows: rows, columns: columns}
			s := New(g, false)
			s.size = func() (int, int) { return g.rows, g.columns }
			for i := range 9 {
				s.Paint(view("head", "12", "345"))
				s.Write(fmt.Appendf(nil, "%d", i)) // below it, there is less room
				s.Write([]byte("\n"))
			}
			s.Leave()
			if want := "0\n1\n2\n3\n4\n5\n6\n7\n8"; g.String() != want {
				t.Errorf("%d rows, %d columns: %q", rows, columns, g)
			}
		}
	}
}

// TestBlocks: lines with block characters fit in the screen, in colors too, and nothing of them is left when the screen has become
// smaller and at the end.
func TestBlocks(t *testing.T) {
	for _, color := range []bool{false, true} {
		for _, columns := range []int{80, 40, 12, 200} {
			g := &grid{rows: 8, columns: 100}
			s := New(g, color)
			s.size = func() (int, int) { return g.rows, g.columns }
			s.Write([]byte("above\n"))
			for i := range 50 {
				lines := view("head", "@x: 1", "@y[a]: 12", "[1K, 2K)  |")(9)
				for j := range lines[1:] {
					lines[j+1].Values = make([]float32, 300)
					for k := range lines[j+1].Values {
						lines[j+1].Values[k] = float32(k%7 + 1)
					}
				}
				lines[3].Kind = blocks.Heat
				s.Paint(shown(lines))
				if i == 25 {
					g.columns = columns
					s.view = s.view[:0] // as tests/terminal sees: a terminal decides itself what becomes of its lines
					g.lines, g.row, g.column = g.lines[:1], 1, 0
				}
			}
			for _, line := range g.lines {
				if len(line) >= columns {
					t.Errorf("%d columns: a line of %d: %q", columns, len(line), line)
				}
			}
			if n := strings.Count(g.String(), "#"); columns >= 40 && n < columns {
				t.Errorf("%d columns: %d blocks\n%s", columns, n, g)
			}
			s.Leave()
			if g.String() != "above" {
				t.Errorf("%d columns: left %q", columns, g)
			}
		}
	}
}

// TestControlCharacters: a name with an escape sequence does not reach the terminal as one.
func TestControlCharacters(t *testing.T) {
	if got := string(cut([]byte("a\x1b[2Jb\tc\rd\x7f"), 40)); got != "a?[2Jb?c?d?" {
		t.Errorf("cut() = %q", got)
	}
}
