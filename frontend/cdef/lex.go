package cdef

import (
	"fmt"
	"strconv"
	"strings"
)

// tokenKind is the kind of a C token.
type tokenKind uint8

const (
	end tokenKind = iota
	word
	number
	text // string literal, value in text
	char // character constant, value in text
	punct
)

type token struct {
	kind tokenKind
	text string
}

// operators of more than one character, longest first.
var operators = [...]string{"...", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "##"}

// lex splits C text into tokens; comments and line continuations are dropped.
func lex(s string) ([]token, error) {
	var all []token
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\\\r\n", ""), "\\\n", "")
	for {
		s = skipBlank(s)
		if s == "" {
			return all, nil
		}
		t, n, err := lexOne(s)
		if err != nil {
			return all, err
		}
		all = append(all, t)
		s = s[n:]
	}
}

func skipBlank(s string) string {
	for {
		s = strings.TrimLeft(s, " \t\r\n\f\v")
		switch {
		case strings.HasPrefix(s, "//"):
			_, s, _ = strings.Cut(s, "\n")
		case strings.HasPrefix(s, "/*"):
			_, s, _ = strings.Cut(s[2:], "*/")
		default:
			return s
		}
	}
}

func lexOne(s string) (token, int, error) {
	switch c := s[0]; {
	case isWord(c) && !isDigit(c):
		n := run(s, isWord)
		return token{word, s[:n]}, n, nil
	case isDigit(c):
		n := run(s, isWord)
		return token{number, s[:n]}, n, nil
	case c == '"' || c == '\'':
		return lexQuoted(s)
	}
	for _, op := range operators {
		if strings.HasPrefix(s, op) {
			return token{punct, op}, len(op), nil
		}
	}
	return token{punct, s[:1]}, 1, nil
}

func lexQuoted(s string) (token, int, error) {
	quote, kind := s[0], text
	if quote == '\'' {
		kind = char
	}
	for i := 1; i < len(s) && s[i] != '\n'; i++ {
		switch s[i] {
		case '\\':
			i++
		case quote:
			value, err := unquote(s[1:i], quote)
			return token{kind, value}, i + 1, err
		}
	}
	return token{}, 0, fmt.Errorf("missing %c", quote)
}

// unquote resolves C escapes.
func unquote(s string, quote byte) (string, error) {
	var b strings.Builder
	s = strings.ReplaceAll(s, `\0`, `\x00`)
	for s != "" {
		if s[0] == '"' || s[0] == '\'' {
			b.WriteByte(s[0])
			s = s[1:]
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

func isWord(c byte) bool {
	return c == '_' || c == '$' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func run(s string, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}
