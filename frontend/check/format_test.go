// SPDX-License-Identifier: Apache-2.0

package check

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
)

// TestDirectives compares directives and noConversion with the equivalent regular expressions, on
// random formats.
func TestDirectives(t *testing.T) {
	directive := regexp.MustCompile(`%(-?)(\+?)( ?)(#?)(0?)(\*|\d+)?(?:\.(\*|\d+))?([hlLjzt]*)(gr|g|rh|rx|r|[diouxXeEfFGaAcspn%])`)
	leftOver := regexp.MustCompile(`%[-+ #0-9.hlLjzt]*[A-Za-z]?`)
	rnd := rand.New(rand.NewPCG(1, 2))
	parts := []string{"%", "%", "%", "-", "+", " ", "#", "0", "0", "17", "*", ".", ".3", ".*", "l", "ll", "h", "z", "g", "r", "rh", "rx", "gr", "d", "s", "p", "n", "k", "y", "é", "\xff", "\n"}
	found := 0
	for range 20_000 {
		format := ""
		for range rnd.IntN(14) {
			format += parts[rnd.IntN(len(parts))]
		}
		var convs []string
		for _, m := range directive.FindAllStringSubmatch(format, -1) {
			if m[9] != "%" {
				convs = append(convs, m[9])
			}
		}
		if got := conversions(format); !slices.Equal(got, convs) {
			t.Fatalf("%q: conversions %q, want %q", format, got, convs)
		}
		found += len(convs)
		bracket := func(s string) string { return "[" + s + "]" }
		if got, want := replaceDirectives(format, bracket), directive.ReplaceAllStringFunc(format, bracket); got != want {
			t.Fatalf("%q: directives %q, want %q", format, got, want)
		}
		if got, want := noConversion(format), leftOver.FindString(directive.ReplaceAllString(format, "")); got != want {
			t.Fatalf("%q: left over %q, want %q", format, got, want)
		}
	}
	if found < 2_000 {
		t.Errorf("only %d conversions found", found)
	}
}
