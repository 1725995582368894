// SPDX-License-Identifier: Apache-2.0

package check

import "strings"

// directive is one conversion of a format: flags, width, precision, length, conversion.
type directive struct {
	start, end int    // byte offsets in the format
	conv       string // "d", "rx", "%"
}

// directives finds the conversions of a format in order, "%%" among them. As a regular
// expression:
//
//	%-?\+? ?#?0?(\*|\d+)?(\.(\*|\d+))?[hlLjzt]*(gr|g|rh|rx|r|[diouxXeEfFGaAcspn%])
//
// This is written by hand because compiling a regular expression would cost every run of
// btc a tenth of a millisecond.
func directives(format string) []directive {
	var all []directive
	for at := 0; ; {
		i := strings.IndexByte(format[at:], '%')
		if i < 0 {
			return all
		}
		d, ok := directiveAt(format, at+i)
		if ok {
			all = append(all, d)
			at = d.end
		} else {
			at += i + 1
		}
	}
}

// directiveAt returns the conversion that begins with the '%' at start.
func directiveAt(format string, start int) (directive, bool) {
	rest := format[start+1:]
	for _, flag := range "-+ #0" {
		if rest != "" && rune(rest[0]) == flag {
			rest = rest[1:]
		}
	}
	rest, _ = cutCount(rest)
	if after, isDot := strings.CutPrefix(rest, "."); isDot {
		if after, counted := cutCount(after); counted {
			rest = after
		}
	}
	rest = strings.TrimLeft(rest, "hlLjzt")
	for _, conv := range []string{"gr", "g", "rh", "rx", "r"} {
		if strings.HasPrefix(rest, conv) {
			return directive{start, len(format) - len(rest) + len(conv), conv}, true
		}
	}
	if rest == "" || strings.IndexByte("diouxXeEfFGaAcspn%", rest[0]) < 0 {
		return directive{}, false
	}
	return directive{start, len(format) - len(rest) + 1, rest[:1]}, true
}

// cutCount removes a width or a precision: '*' or digits.
func cutCount(s string) (rest string, ok bool) {
	if rest, ok := strings.CutPrefix(s, "*"); ok {
		return rest, true
	}
	rest = strings.TrimLeft(s, "0123456789")
	return rest, len(rest) < len(s)
}

// replaceDirectives replaces each conversion by the result of by.
func replaceDirectives(format string, by func(text string) string) string {
	var b strings.Builder
	at := 0
	for _, d := range directives(format) {
		b.WriteString(format[at:d.start])
		b.WriteString(by(format[d.start:d.end]))
		at = d.end
	}
	b.WriteString(format[at:])
	return b.String()
}

// noConversion returns the first substring that looks like a conversion but is not valid; "" if there is none.
func noConversion(format string) string {
	format = replaceDirectives(format, func(string) string { return "" })
	i := strings.IndexByte(format, '%')
	if i < 0 {
		return ""
	}
	text := format[i:]
	n := len(text) - len(strings.TrimLeft(text[1:], "-+ #0123456789.hlLjzt"))
	if n < len(text) && isLetter(text[n]) {
		n++
	}
	return text[:n]
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
