// SPDX-License-Identifier: Apache-2.0

package cpp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"btc/frontend/diag"
)

// Kind is the kind of a token.
type Kind uint8

// The kinds of tokens.
const (
	End       Kind = iota // no token
	Word                  // identifier or keyword
	Number                // number as written, with its suffix
	StringLit             // string literal
	Char                  // character constant
	Punct                 // operator or other punctuation
	Pragma                // a #pragma line; its tokens are in Line
)

// Token is a token of C text.
type Token struct {
	Kind Kind
	// Text is the token as written.
	Text string
	// Value is the value of a string or character constant, escapes resolved.
	Value string
	// At is the token's position; for a token from a macro, the position where the macro is used.
	At diag.Span
	// Included marks a token of an included file.
	Included bool
	// Line is the rest of a #pragma line.
	Line []Token

	space bool  // space before it
	first bool  // first on its line
	hide  *hide // macros that may no longer replace it
}

// Is reports whether the token is this word or operator.
func (t Token) Is(s string) bool { return (t.Kind == Word || t.Kind == Punct) && t.Text == s }

// operators of more than one character, longest first.
var operators = [...]string{"...", "<<=", ">>=", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "##",
	"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^="}

// lexer splits a range of a source into tokens.
type lexer struct {
	src      *diag.Source
	pos, end int
	inLine   bool // stop at the end of the line
	bol      bool // at the beginning of a line
	included bool
	held     []Token // tokens of the line being read
}

var errOpenComment = errors.New("unterminated comment")

// next returns the next token; End at the end of the range, or, with inLine, of the line, whose newline is not
// consumed. An error does not stop the lexer from making progress.
func (x *lexer) next() (Token, error) {
	space, err := x.skipBlank()
	if err != nil {
		return Token{}, err
	}
	t := Token{space: space, first: x.bol, Included: x.included}
	x.bol = false
	rest := x.src.Text[x.pos:x.end]
	if rest == "" || rest[0] == '\n' {
		return t, nil
	}
	n := 1
	switch c := rest[0]; {
	case isDigit(c), c == '.' && len(rest) > 1 && isDigit(rest[1]):
		t.Kind, n = Number, numberLength(rest)
	case isWord(c):
		t.Kind, n = Word, run(rest, isWord)
	case c == '"' || c == '\'':
		t.Kind, n, err = quoted(rest)
		if err == nil {
			t.Value, err = unquote(rest[1:n-1], c)
		}
	default:
		t.Kind = Punct
		for _, op := range operators {
			if strings.HasPrefix(rest, op) {
				n = len(op)
				break
			}
		}
	}
	t.Text, t.At = rest[:n], x.src.Span(x.pos, x.pos+n)
	x.pos += n
	return t, err
}

// skipBlank skips spaces, comments and continued line ends.
func (x *lexer) skipBlank() (space bool, err error) {
	start := x.pos
	for x.pos < x.end {
		rest := x.src.Text[x.pos:x.end]
		switch {
		case rest[0] == '\n' && x.inLine:
			return x.pos > start, nil
		case rest[0] == '\n':
			x.bol = true
			x.pos++
		case strings.ContainsRune(" \t\r\f\v", rune(rest[0])):
			x.pos++
		case strings.HasPrefix(rest, "\\\n"):
			x.pos += 2
		case strings.HasPrefix(rest, "\\\r\n"):
			x.pos += 3
		case strings.HasPrefix(rest, "//"):
			x.pos += lineLength(rest)
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				x.pos = x.end
				return true, errOpenComment
			}
			x.pos += n + 4
		default:
			return x.pos > start, nil
		}
	}
	return x.pos > start, nil
}

// lineLength returns the length of a line up to its end, including continuation lines.
func lineLength(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] == '\n' && !strings.HasSuffix(strings.TrimSuffix(s[:i], "\r"), "\\") {
			return i
		}
	}
	return len(s)
}

// restOfLine returns the text up to the end of the line, without consuming it.
func (x *lexer) restOfLine() string {
	rest := x.src.Text[x.pos:x.end]
	n := lineLength(rest)
	x.pos += n
	return rest[:n]
}

// line returns the tokens up to the end of the line.
func (x *lexer) line() (all []Token, err error) {
	x.inLine = true
	defer func() { x.inLine = false }()
	x.held = x.held[:0]
	for {
		t, e := x.next()
		if err == nil {
			err = e
		}
		if t.Kind == End {
			return append(all, x.held...), err
		}
		x.held = append(x.held, t)
	}
}

// quoted returns the kind and length of a string or character constant.
func quoted(s string) (Kind, int, error) {
	kind := StringLit
	if s[0] == '\'' {
		kind = Char
	}
	for i := 1; i < len(s) && s[i] != '\n'; i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return kind, i + 1, nil
		}
	}
	return kind, min(lineLength(s), len(s)), fmt.Errorf("missing %c", s[0])
}

// unquote resolves C escapes.
func unquote(s string, quote byte) (string, error) {
	if !strings.Contains(s, "\\") {
		return s, nil
	}
	var b strings.Builder
	for s != "" {
		if s[0] != '\\' {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		if n := octal(s[1:]); n > 0 {
			v, _ := strconv.ParseUint(s[1:1+n], 8, 16)
			b.WriteByte(byte(v))
			s = s[1+n:]
			continue
		}
		switch {
		case strings.HasPrefix(s, "\\\n"):
			s = s[2:]
			continue
		case strings.HasPrefix(s, "\\'"), strings.HasPrefix(s, "\\\""), strings.HasPrefix(s, "\\?"):
			b.WriteByte(s[1])
			s = s[2:]
			continue
		case strings.HasPrefix(s, "\\e"):
			b.WriteByte(0x1b)
			s = s[2:]
			continue
		}
		c, multi, rest, err := strconv.UnquoteChar(s, quote)
		if err != nil {
			return "", fmt.Errorf("invalid escape in %q", s)
		}
		if multi {
			b.WriteRune(c)
		} else {
			b.WriteByte(byte(c))
		}
		s = rest
	}
	return b.String(), nil
}

// octal counts the octal digits of an escape, at most three.
func octal(s string) int {
	n := run(s, func(c byte) bool { return c >= '0' && c <= '7' })
	return min(n, 3)
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// numberLength returns the length of a preprocessing number, which includes an exponent's sign.
func numberLength(s string) int {
	n := 0
	for n < len(s) && (isWord(s[n]) || s[n] == '.' ||
		(s[n] == '+' || s[n] == '-') && strings.ContainsRune("pP", rune(s[n-1]))) {
		n++
	}
	return n
}

func run(s string, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

// Lex splits the text of a span into tokens. Invalid tokens are errors; the others are
// returned in any case.
func Lex(at diag.Span) (all []Token, err error) {
	x := &lexer{src: at.File, pos: at.Start, end: at.End, bol: true}
	for {
		t, e := x.next()
		if err == nil {
			err = e
		}
		if t.Kind == End {
			if x.pos >= x.end {
				return all, err
			}
			continue
		}
		all = append(all, t)
	}
}

// Join concatenates tokens to source text.
func Join(all []Token) string {
	var b strings.Builder
	for i, t := range all {
		if i > 0 && (t.space || glued(all[i-1], t)) {
			b.WriteByte(' ')
		}
		b.WriteString(t.Text)
	}
	return b.String()
}

// JoinLen returns an upper bound of the length of Join(all), computed without building it.
func JoinLen(all []Token) int {
	n := len(all)
	for i := range all {
		n += len(all[i].Text)
	}
	return n
}

// glued reports whether two tokens would lex differently without a space between them.
func glued(a, b Token) bool {
	wordy := func(t Token) bool { return t.Kind == Word || t.Kind == Number }
	return wordy(a) && wordy(b) ||
		a.Kind == Punct && b.Kind == Punct && !strings.ContainsAny(a.Text, "()[]{},;") &&
			!strings.ContainsAny(b.Text, "()[]{},;")
}
