// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"btc/frontend/diag"
	"btc/grammar/parser"
)

// intValue is a parsed integer literal.
type intValue struct {
	value  uint64
	suffix string
}

// intSuffixes maps each suffix to the largest value it allows before it is multiplied by
// its unit. The C suffixes are range checks only.
var intSuffixes = map[string]struct {
	limit, unit uint64
}{
	"":    {math.MaxUint64, 1},
	"u":   {math.MaxUint32, 1},
	"l":   {math.MaxInt64, 1},
	"ll":  {math.MaxInt64, 1},
	"ul":  {math.MaxUint64, 1},
	"ull": {math.MaxUint64, 1},
	"ns":  {math.MaxUint64, 1},
	"us":  {math.MaxUint64, 1e3},
	"ms":  {math.MaxUint64, 1e6},
	"s":   {math.MaxUint64, 1e9},
	"m":   {math.MaxUint64, 60e9},
	"h":   {math.MaxUint64, 3600e9},
	"d":   {math.MaxUint64, 86400e9},
}

// literals evaluates the literals among the tokens and reports invalid ones.
func literals(src *diag.Source, tokens []*token, diags *diag.List) {
	for _, t := range tokens {
		switch t.kind {
		case parser.BtLexerINT:
			v, err := parseInt(t.text)
			if err != nil {
				d := diags.Add(diag.BadInteger, src.Span(t.start, t.end), "syntax: %s", err)
				if strings.Contains(err.Error(), "suffix") {
					d.Hint("durations end in ns, us, ms, s, m, h or d, C integers in u, l, ul, ll or ull")
				}
			}
			t.num = v
		case parser.BtLexerPARAM:
			n, err := strconv.ParseInt(t.text[1:], 10, strconv.IntSize)
			if err != nil || n < 1 {
				diags.Add(diag.BadParameter, src.Span(t.start, t.end),
					"syntax: param %s is out of integer range [1, %d]", t.text, math.MaxInt)
			}
			t.num.value = uint64(n)
		case parser.BtLexerSTRING:
			t.str = unquote(src, t, diags)
		case parser.BtLexerBADSTRING:
			diags.Add(diag.UnterminatedString, src.Span(t.start, t.end), "syntax: unterminated string")
		}
	}
}

// parseInt evaluates an INT token.
func parseInt(text string) (intValue, error) {
	if len(text) > 1 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') {
		return parseHex(text)
	}
	n := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '_' })
	if n < 0 {
		n = len(text)
	}
	digits, rest := text[:n], text[n:]
	if strings.HasSuffix(digits, "_") {
		return intValue{}, fmt.Errorf("trailing underscore in integer literal")
	}
	digits = strings.ReplaceAll(digits, "_", "")
	if strings.HasPrefix(rest, "e") || strings.HasPrefix(rest, "E") {
		return parseExponent(text, digits, rest[1:])
	}
	base := 10
	if len(digits) > 1 && digits[0] == '0' {
		base = 8
		if strings.ContainsAny(digits, "89") {
			return intValue{}, fmt.Errorf("invalid digit in octal integer literal: %s", text)
		}
	}
	return withSuffix(text, digits, base, rest)
}

func parseHex(text string) (intValue, error) {
	body := text[2:]
	n := strings.IndexFunc(body, func(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF_", r) })
	if n < 0 {
		n = len(body)
	}
	digits := body[:n]
	if strings.HasSuffix(digits, "_") {
		return intValue{}, fmt.Errorf("trailing underscore in integer literal")
	}
	digits = strings.ReplaceAll(digits, "_", "")
	if digits == "" {
		return intValue{}, fmt.Errorf("hexadecimal integer literal without digits: %s", text)
	}
	if suffix := body[n:]; intSuffixes[suffix].unit == 1 && suffix != "ns" {
		return withSuffix(text, digits, 16, suffix)
	}
	return intValue{}, fmt.Errorf("invalid integer suffix '%s'", body[n:])
}

// parseExponent evaluates "NeM": N is one digit, and the only suffix allowed after M is a unit of time.
func parseExponent(text, coefficient, rest string) (intValue, error) {
	n := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '_' })
	if n < 0 {
		n = len(rest)
	}
	digits := rest[:n]
	switch {
	case digits == "":
		return intValue{}, fmt.Errorf("exponent of integer literal has no digits: %s", text)
	case strings.HasSuffix(digits, "_"):
		return intValue{}, fmt.Errorf("trailing underscore in integer literal")
	case len(coefficient) != 1 || coefficient == "0":
		return intValue{}, fmt.Errorf("coefficient part of scientific literal must be 1-9: %s", text)
	}
	exponent, err := strconv.Atoi(strings.ReplaceAll(digits, "_", ""))
	if err != nil || exponent > 19 {
		return intValue{}, overflow(text)
	}
	return withSuffix(text, coefficient+strings.Repeat("0", exponent), 10, rest[n:])
}

func withSuffix(text, digits string, base int, suffix string) (intValue, error) {
	s, ok := intSuffixes[suffix]
	if !ok {
		return intValue{}, fmt.Errorf("invalid integer suffix '%s'", suffix)
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return intValue{}, overflow(text)
	}
	if v > s.limit {
		return intValue{}, fmt.Errorf("overflow error, maximum value is %d: %s", s.limit, text)
	}
	hi, lo := bits.Mul64(v, s.unit)
	if hi != 0 {
		return intValue{}, overflow(text)
	}
	return intValue{lo, suffix}, nil
}

func overflow(text string) error {
	return fmt.Errorf("overflow error, maximum value is %d: %s", uint64(math.MaxUint64), text)
}

var simpleEscapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '"': '"', '\\': '\\'}

// unquote resolves the escapes of a STRING token.
func unquote(src *diag.Source, t *token, diags *diag.List) string {
	body := t.text[1 : len(t.text)-1]
	if !strings.Contains(body, `\`) {
		return body
	}
	var b strings.Builder
	for i := 0; i < len(body); {
		if body[i] != '\\' {
			b.WriteByte(body[i])
			i++
			continue
		}
		value, n, err := escape(body[i+1:])
		at := t.start + 1 + i
		if err != nil {
			diags.Add(diag.BadEscape, src.Span(at, at+1+n), "syntax: %s", err)
		}
		b.WriteByte(value)
		i += 1 + n
	}
	return b.String()
}

// escape evaluates the escape that s begins with, after the backslash, and returns its
// length in bytes.
func escape(s string) (value byte, n int, err error) {
	c := s[0]
	if v, ok := simpleEscapes[c]; ok {
		return v, 1, nil
	}
	switch {
	case c >= '0' && c <= '7':
		for n = 1; n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7'; n++ {
		}
		v, _ := strconv.ParseUint(s[:n], 8, 16)
		if v > math.MaxUint8 {
			return 0, n, fmt.Errorf(`octal escape sequence out of range '\%s'`, s[:n])
		}
		return byte(v), n, nil
	case c == 'x' || c == 'X':
		for n = 1; n < 3 && n < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[n]) >= 0; n++ {
		}
		if n == 1 {
			return 0, 1, fmt.Errorf("invalid hex escape sequence")
		}
		v, _ := strconv.ParseUint(s[1:n], 16, 8)
		return byte(v), n, nil
	}
	r := []rune(s)[0]
	return 0, len(string(r)), fmt.Errorf(`invalid escape character '\%c'`, r)
}
