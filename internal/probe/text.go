// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"iter"
	"strconv"
	"strings"
)

// Part is a piece of an attach point between two ':'.
type Part struct {
	// Text is the part without quotes and their escapes; it may contain parameters, "$1".
	Text string
	// Wildcard: Text contains an unquoted "*".
	Wildcard bool
	// Quoted: the part contained double quotes.
	Quoted bool
	// Params are the numbers of the unquoted "$N" in the text, in order.
	Params []int
	// Location: the part is the FILE:LINE[:COL] of a uprobe.
	Location bool
	// Start and End are the byte range of the part in the attach point's text.
	Start, End int
}

// Split splits an attach point at each ':' that is not in quotes. There is at least one part; the first is the kind
// as written. "BINARY@FILE:LINE" of a uprobe becomes two parts, the binary and the location.
func Split(text string) []Part {
	var parts []Part
	start := 0
	for i := range Unquoted(text, ':') {
		parts = append(parts, newPart(text, start, i))
		start = i + 1
	}
	parts = append(parts, newPart(text, start, len(text)))
	if t := Find(parts[0].Text); t != nil && t.Form == UserCode {
		return joinLocation(text, parts)
	}
	return parts
}

// joinLocation rejoins "BINARY@FILE:LINE[:COL]" of a uprobe, which was split at ':', to the binary and one location.
func joinLocation(text string, parts []Part) []Part {
	if len(parts) < 3 {
		return parts
	}
	binary, last := parts[1], parts[len(parts)-1]
	i := strings.IndexByte(text[binary.Start:binary.End], '@')
	if i <= 0 || binary.Quoted || strings.Trim(parts[2].Text, "0123456789") != "" {
		return parts
	}
	location := newPart(text, binary.Start+i+1, last.End)
	location.Location = true
	return []Part{parts[0], newPart(text, binary.Start, binary.Start+i), location}
}

// Unquoted yields the indices of a character in text outside double quotes.
func Unquoted(text string, want byte) iter.Seq[int] {
	return func(yield func(int) bool) {
		quoted := false
		for i := 0; i < len(text); i++ {
			switch c := text[i]; {
			case c == '\\' && quoted:
				i++
			case c == '"':
				quoted = !quoted
			case c == want && !quoted && !yield(i):
				return
			}
		}
	}
}

// newPart removes quotes, and finds wildcards and parameters outside them.
func newPart(text string, start, end int) Part {
	part := Part{Start: start, End: end}
	text = text[start:end]
	var b strings.Builder
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			quoted = !quoted
			part.Quoted = true
			continue
		case quoted:
			if c == '\\' && i+1 < len(text) {
				i++
				c = text[i]
			}
		case c == '*':
			part.Wildcard = true
		case c == '$':
			if v, err := strconv.Atoi(text[i+1 : digits(text, i+1)]); err == nil && v > 0 {
				part.Params = append(part.Params, v)
			}
		}
		b.WriteByte(c)
	}
	part.Text = b.String()
	return part
}

// digits returns the index after the decimal digits at i.
func digits(text string, i int) int {
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	return i
}

// maxText bounds the text of a part with the values of its parameters, in bytes.
const maxText = 64 << 10

// Substitute replaces each "$N" of a part by the Nth value. It is an error if a value is not given (N past the end,
// or empty).
func Substitute(text string, values []string) (string, error) {
	var b strings.Builder
	for {
		head, rest, found := strings.Cut(text, "$")
		b.WriteString(head)
		if !found {
			return b.String(), nil
		}
		n := digits(rest, 0)
		number, err := strconv.Atoi(rest[:n])
		switch {
		case err != nil || number == 0:
			b.WriteString("$" + rest[:n])
		case number > len(values) || values[number-1] == "":
			return "", &Error{Part: -1, Text: "parameter $" + rest[:n] + " is not given"}
		case b.Len()+len(values[number-1]) > maxText:
			return "", &Error{Part: -1, Text: "string too long with parameter $" + rest[:n]}
		default:
			b.WriteString(values[number-1])
		}
		text = rest[n:]
	}
}
