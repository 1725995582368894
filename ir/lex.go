// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"strconv"
	"strings"
)

// token is a lexical element of the text form. kind is 'w' word, 'i' integer,
// 's' quoted string, 'r' the raw content of the parentheses after field, btf
// mapval or mapkey, or the punctuation character itself; 0 at the end of the line.
type token struct {
	kind byte
	text string
}

// logicalLine is a line joined with those that follow while brackets are open.
type logicalLine struct {
	number int // 1-based number of the first physical line
	tokens []token
}

// lexLines splits text into lines of tokens; empty lines and // comments are dropped.
func lexLines(text string) ([]logicalLine, error) {
	var lines []logicalLine
	var cur logicalLine
	depth := 0
	for i, s := range strings.Split(text, "\n") {
		tokens, err := lexLine(s)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if depth == 0 {
			cur = logicalLine{number: i + 1}
		}
		cur.tokens = append(cur.tokens, tokens...)
		for _, t := range tokens {
			switch t.kind {
			case '(', '[':
				depth++
			case ')', ']':
				depth--
			}
		}
		if depth <= 0 {
			depth = 0
			if len(cur.tokens) > 0 {
				lines = append(lines, cur)
			}
		}
	}
	if depth > 0 {
		return nil, fmt.Errorf("line %d: unclosed bracket", cur.number)
	}
	return lines, nil
}

func lexLine(s string) ([]token, error) {
	var out []token
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(s[i:], "//"):
			return out, nil
		case c == '"':
			q, err := strconv.QuotedPrefix(s[i:])
			if err != nil {
				return nil, fmt.Errorf("bad string at column %d", i+1)
			}
			t, _ := strconv.Unquote(q)
			out = append(out, token{'s', t})
			i += len(q)
		case wordByte(c, true):
			n := 1
			for i+n < len(s) && wordByte(s[i+n], false) {
				n++
			}
			out = append(out, token{'w', s[i : i+n]})
			i += n
			if raw, n := rawText(s[i-n:i], s[i:]); n > 0 {
				out = append(out, token{'r', raw})
				i += n
			}
		case isDigit(c) || (c == '-' || c == '+') && i+1 < len(s) && isDigit(s[i+1]):
			n := 1
			for i+n < len(s) && (isDigit(s[i+n]) || wordByte(s[i+n], true)) {
				n++
			}
			out = append(out, token{'i', s[i : i+n]})
			i += n
		default:
			out = append(out, token{c, string(c)})
			i++
		}
	}
	return out, nil
}

// rawText returns the content of the parentheses that follow word when it is not lexed; it also
// returns the number of bytes.
func rawText(word, rest string) (string, int) {
	if word != "field" && word != "btf" && word != "mapval" && word != "mapkey" || !strings.HasPrefix(rest, "(") {
		return "", 0
	}
	end := strings.IndexByte(rest, ')')
	if end < 0 {
		return "", 0
	}
	return rest[1:end], end + 1
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// parser reads one logical line after the other. Errors are panics of type
// parseError, which Parse recovers.
type parser struct {
	m     *Module
	lines []logicalLine
	line  int // index of the current line
	i     int // index of the next token in it

	f      *Func
	values map[int]*Value
	blocks map[int]*Block
	slots  map[int]*Slot
}

type parseError struct{ error }

func (p *parser) fail(format string, args ...any) {
	n := 0
	if p.line < len(p.lines) {
		n = p.lines[p.line].number
	} else if len(p.lines) > 0 {
		n = p.lines[len(p.lines)-1].number
	}
	panic(parseError{fmt.Errorf("line %d: "+format, append([]any{n}, args...)...)})
}

// peek returns the next token of the line.
func (p *parser) peek() token {
	if p.line < len(p.lines) && p.i < len(p.lines[p.line].tokens) {
		return p.lines[p.line].tokens[p.i]
	}
	return token{}
}

func (p *parser) next() token {
	t := p.peek()
	if t.kind != 0 {
		p.i++
	}
	return t
}

// is reports whether the next token is this punctuation or word.
func (p *parser) is(text string) bool {
	t := p.peek()
	return t.text == text && t.kind != 's' && t.kind != 'r' && t.kind != 0
}

func (p *parser) take(text string) bool {
	if p.is(text) {
		p.i++
		return true
	}
	return false
}

func (p *parser) want(text string) {
	if !p.take(text) {
		p.fail("expected %q, found %q", text, p.peek().text)
	}
}

func (p *parser) word(what string) string {
	t := p.next()
	if t.kind != 'w' {
		p.fail("expected %s, found %q", what, t.text)
	}
	return t.text
}

// text returns a word or a quoted string.
func (p *parser) text() string {
	t := p.next()
	if t.kind != 'w' && t.kind != 's' {
		p.fail("expected a word or a string, found %q", t.text)
	}
	return t.text
}

func (p *parser) int() int64 {
	t := p.next()
	n, err := strconv.ParseInt(t.text, 0, 64)
	if u, uerr := strconv.ParseUint(t.text, 0, 64); err != nil && uerr == nil {
		n, err = int64(u), nil // 0xffff... may be written unsigned
	}
	if t.kind != 'i' || err != nil {
		p.fail("expected an integer, found %q", t.text)
	}
	return n
}

func (p *parser) uint() uint64 {
	t := p.next()
	n, err := strconv.ParseUint(t.text, 0, 64)
	if t.kind != 'i' || err != nil {
		p.fail("expected an unsigned integer, found %q", t.text)
	}
	return n
}

// count returns an integer that is not negative and fits a small table.
func (p *parser) count(what string) int {
	n := p.int()
	if n < 0 || n > 1<<24 {
		p.fail("%s %d is out of range", what, n)
	}
	return int(n)
}

// id returns the number of v7, b3 or s0.
func (p *parser) id(letter byte) int {
	t := p.next()
	if n, ok := idOf(t, letter); ok {
		return n
	}
	p.fail("expected %c and a number, found %q", letter, t.text)
	return 0
}

func idOf(t token, letter byte) (int, bool) {
	if t.kind != 'w' || len(t.text) < 2 || t.text[0] != letter || !isDigit(t.text[1]) {
		return 0, false
	}
	n, err := strconv.Atoi(t.text[1:])
	return n, err == nil && n < 1<<24
}

// pos reads a position when there is one.
func (p *parser) pos() Pos {
	if !p.take("!") {
		return NoPos
	}
	pos := Pos{Stmt: -1}
	pos.Line = p.count("line")
	p.want(":")
	pos.Col = p.count("column")
	if p.take("#") {
		pos.Stmt = int(p.int())
	}
	if p.take("^") {
		pos.Site = p.count("site")
	}
	return pos
}

// endLine goes to the next line.
func (p *parser) endLine() {
	if t := p.peek(); t.kind != 0 {
		p.fail("unexpected %q", t.text)
	}
	p.line++
	p.i = 0
}
