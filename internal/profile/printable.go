// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable shows characters that cannot be printed, or that change the direction of text, as in Go: \x1b, \u202e.
func Printable(text string) string {
	quoted := strconv.Quote(text)
	if len(quoted) == len(text)+2 {
		return text
	}
	var out strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"):
			fmt.Fprintf(&out, `\x%02x`, text[i])
		case strconv.IsPrint(r):
			out.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			out.WriteString(q[1 : len(q)-1])
		}
	}
	return out.String()
}
