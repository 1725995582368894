// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strconv"
	"strings"
)

// tokenKind is the kind of a C++ token, to the detail that the extraction needs.
type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenNumber
	tokenString // text is the unquoted value
	tokenPunct  // one byte, or "::"
)

type token struct {
	kind tokenKind
	text string
	line int
}

// is reports whether a token is the given name or punctuation.
func (t token) is(text string) bool {
	return t.text == text && (t.kind == tokenName || t.kind == tokenPunct)
}

// tokenize splits C++ source into tokens. It drops comments and preprocessor directives: all branches
// of a condition are read.
func tokenize(src string) ([]token, error) {
	var out []token
	line := 1
	for i := 0; i < len(src); {
		c := src[i]
		rest := src[i:]
		switch {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case strings.HasPrefix(rest, "//"), c == '#' && startsLine(src, i):
			i += lineEnd(rest)
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 {
				return nil, fmt.Errorf("line %d: unterminated comment", line)
			}
			line += strings.Count(rest[:n], "\n")
			i += n + 2
		case strings.HasPrefix(rest, `R"`):
			text, n, ok := rawString(rest)
			if !ok {
				return nil, fmt.Errorf("line %d: unterminated raw string", line)
			}
			out = append(out, token{tokenString, text, line})
			line += strings.Count(rest[:n], "\n")
			i += n
		case c == '"', c == '\'':
			text, n, err := quoted(rest)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			kind := tokenString
			if c == '\'' {
				kind = tokenNumber
			}
			out = append(out, token{kind, text, line})
			i += n
		case isWord(c):
			n := 1
			for n < len(rest) && isWord(rest[n]) {
				n++
			}
			kind := tokenName
			if c >= '0' && c <= '9' {
				kind = tokenNumber
			}
			out = append(out, token{kind, rest[:n], line})
			i += n
		default:
			n := 1
			if strings.HasPrefix(rest, "::") {
				n = 2
			}
			out = append(out, token{tokenPunct, rest[:n], line})
			i += n
		}
	}
	return out, nil
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func startsLine(src string, i int) bool {
	for i--; i >= 0 && src[i] != '\n'; i-- {
		if src[i] != ' ' && src[i] != '\t' {
			return false
		}
	}
	return true
}

func lineEnd(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n
	}
	return len(s)
}

// rawString reads R"mark(...)mark".
func rawString(s string) (text string, n int, ok bool) {
	open := strings.IndexByte(s, '(')
	if open < 0 {
		return "", 0, false
	}
	end := ")" + s[2:open] + `"`
	n = strings.Index(s[open:], end)
	if n < 0 {
		return "", 0, false
	}
	return s[open+1 : open+n], open + n + len(end), true
}

var simpleEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '"': '"', '\'': '\'', '\\': '\\', 'a': 7, 'b': 8, 'f': 12, 'v': 11, '?': '?'}

// quoted reads a quoted string or character.
func quoted(s string) (text string, n int, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		c := s[i]
		switch {
		case c == s[0]:
			return b.String(), i + 1, nil
		case c == '\n':
			return "", 0, fmt.Errorf("unterminated quote")
		case c != '\\' || i+1 == len(s):
			b.WriteByte(c)
			continue
		}
		i++
		if e, ok := simpleEscapes[s[i]]; ok {
			b.WriteByte(e)
			continue
		}
		if s[i] == '\n' { // line continuation
			continue
		}
		if s[i] == 'u' && i+5 <= len(s) {
			r, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", 0, fmt.Errorf("escape \\%s: %w", s[i:i+5], err)
			}
			b.WriteRune(rune(r))
			i += 4
			continue
		}
		v, used, err := numericEscape(s[i:])
		if err != nil {
			return "", 0, err
		}
		b.WriteByte(v)
		i += used - 1
	}
	return "", 0, fmt.Errorf("unterminated quote")
}

// numericEscape reads the part after the backslash of \x41 or \101.
func numericEscape(s string) (v byte, used int, err error) {
	digits, base, start := "01234567", 8, 0
	if s[0] == 'x' {
		digits, base, start = "0123456789abcdefABCDEF", 16, 1
	}
	end := start
	for end < len(s) && strings.IndexByte(digits, s[end]) >= 0 && (base == 16 || end < 3) {
		end++
	}
	n, err := strconv.ParseUint(s[start:end], base, 8)
	if err != nil {
		return 0, 0, fmt.Errorf("escape \\%s: %w", s[:min(end, len(s))], err)
	}
	return byte(n), end, nil
}
