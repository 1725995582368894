// SPDX-License-Identifier: Apache-2.0

// Package tty shows a run on a terminal: a live view below its output, and the progress of slow steps. It writes what it
// is passed, and knows nothing of events and maps.
package tty

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"btc/internal/blocks"
	"btc/internal/snippet"
)

// Screen is a terminal whose last lines are a live view that is redrawn while other output scrolls
// above it. Both outputs of a run are written through it, so that nothing the script prints is
// overwritten. It is safe for concurrent use.
type Screen struct {
	out   io.Writer
	color bool
	size  func() (rows, columns int)

	mu    sync.Mutex
	view  [][]byte // the lines of the view; empty: not shown
	open  []byte   // the last line of the output, if it is not complete yet
	over  bool     // the view is no longer drawn
	away  bool     // the view is hidden until Show(true)
	frame []byte   // write buffer, kept for reuse
}

// Control sequences of terminals.
const (
	eraseLine  = "\x1b[K" // to its end
	eraseBelow = "\x1b[J" // to the end of the screen
)

// New returns a screen for the terminal out. Heat maps have colors if color is set.
func New(out io.Writer, color bool) *Screen {
	return &Screen{out: out, color: color, size: func() (int, int) { return screenSize(out) }}
}

// Write writes output above the view.
func (s *Screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.view) == 0 {
		s.note(text)
		return s.out.Write(text)
	}
	s.begin()
	s.frame = append(append(s.frame, s.open...), text...)
	s.note(text)
	if err := s.end(); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Around removes the view and calls f, which writes whole lines to the terminal itself. A run
// without a view has no screen, so the receiver may be nil.
func (s *Screen) Around(f func()) {
	if s == nil {
		f()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.view) == 0 {
		f()
		return
	}
	s.begin()
	if len(s.open) > 0 {
		s.frame = append(append(s.frame, s.open...), "\r\n"...)
		s.open = s.open[:0]
	}
	s.out.Write(s.frame)
	f()
	s.frame = s.frame[:0]
	s.end()
}

// Columns returns the width of the screen.
func (s *Screen) Columns() int { return s.columns() }

// Paint draws the view: the lines that view returns for a number of rows.
func (s *Screen) Paint(view func(rows int) []blocks.Line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.away {
		return nil
	}
	s.begin()
	s.frame = append(s.frame, s.open...)
	rows, columns := s.size()
	lines := view(max(rows-1-height(s.open, columns), 1))
	for i := range lines {
		lines[i].Text = cut(lines[i].Text, columns-1)
	}
	s.view = blocks.Draw(lines, columns-1, s.color)
	return s.end()
}

// Leave removes the view for good.
func (s *Screen) Leave() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.remove()
}

// Show removes the view until it is called with true. Then the next one that is painted is drawn.
func (s *Screen) Show(shown bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away = !shown; s.away {
		s.remove()
	}
}

// remove erases the view.
func (s *Screen) remove() {
	if len(s.view) > 0 {
		s.begin()
		s.frame = append(s.frame, s.open...)
		s.view = s.view[:0]
		s.end()
	}
}

// begin starts a frame: it moves the cursor to the end of the output, and erases everything below.
func (s *Screen) begin() {
	s.frame = s.frame[:0]
	if len(s.view) == 0 {
		if len(s.open) > 0 {
			s.frame = append(s.frame, '\r')
			s.up(height(s.open, s.columns()) - 1)
		}
		return
	}
	columns, n := s.columns(), height(s.open, s.columns())
	for _, line := range s.view {
		n += max(height(line, columns), 1) // lines have wrapped if the terminal became narrower
	}
	s.frame = append(s.frame, '\r')
	s.up(n - 1)
	if n == 1 { // some terminals keep what is erased when it is the whole screen
		s.frame = append(s.frame, eraseLine...)
		return
	}
	s.frame = append(s.frame, eraseBelow...)
}

func (s *Screen) columns() int {
	_, columns := s.size()
	return columns
}

// up moves the cursor n lines up.
func (s *Screen) up(n int) {
	if n > 0 {
		s.frame = fmt.Appendf(s.frame, "\x1b[%dA", n)
	}
}

// end appends the view to a frame and writes it. Lines that no longer fit below the output are left out.
func (s *Screen) end() error {
	rows, columns := s.size()
	s.view = s.view[:min(len(s.view), max(rows-height(s.open, columns), 0))]
	for i, line := range s.view {
		if i > 0 || len(s.open) > 0 {
			s.frame = append(s.frame, "\r\n"...)
		}
		s.frame = append(append(s.frame, line...), eraseLine...)
	}
	_, err := s.out.Write(s.frame)
	return err
}

// note remembers the incomplete last line of the output. Of one that has wrapped it remembers the last two rows.
func (s *Screen) note(text []byte) {
	if i := bytes.LastIndexByte(text, '\n'); i >= 0 {
		s.open, text = s.open[:0], text[i+1:]
	}
	s.open = append(s.open, text...)
	columns := s.columns()
	for n := height(s.open, columns); n > 2; n-- {
		s.open = s.open[row(s.open, columns):]
	}
}

// height returns how many rows a line takes on the screen; 0 if it is empty.
func height(line []byte, columns int) int {
	n := 0
	for ; len(line) > 0; n++ {
		line = line[row(line, columns):]
	}
	return n
}

// row returns how many bytes of a line are in its first row, at least one character's.
func row(line []byte, columns int) int {
	column, end := 0, 0
	for end < len(line) {
		n, width := character(line[end:], column, columns)
		if column+width > columns && end > 0 {
			break
		}
		column, end = column+width, end+n
	}
	return end
}

// character returns how many bytes the first character, or control sequence, of a line has, and how many columns a
// terminal shows it in.
func character(line []byte, column, columns int) (n, width int) {
	r, n := utf8.DecodeRune(line)
	switch {
	case r == '\t': // it never wraps
		return n, min(8-column%8, max(columns-1-column, 0))
	case r == 0x1b && len(line) > 1 && line[1] == '[':
		for n = 2; n < len(line) && line[n] < '@'; n++ {
		}
		return min(n+1, len(line)), 0
	case control(r):
		return n, 0
	}
	return n, snippet.RuneColumns(r)
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// cut truncates a line to the width of the screen. Control characters become question marks: the names of a traced
// process may have them.
func cut(line []byte, columns int) []byte {
	line = bytes.Map(func(r rune) rune {
		if control(r) {
			return '?'
		}
		return r
	}, line)
	if columns < 1 {
		return nil
	}
	return line[:row(line, columns)]
}

// Messages returns a writer for whole lines, which w shows above the view.
func (s *Screen) Messages(w io.Writer) io.Writer { return messages{s, w} }

type messages struct {
	screen *Screen
	w      io.Writer
}

func (m messages) Write(text []byte) (n int, err error) {
	m.screen.Around(func() { n, err = m.w.Write(text) })
	return n, err
}
