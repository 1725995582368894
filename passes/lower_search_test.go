// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"strings"
	"testing"

	"btc/ir"
	"btc/ir/interp"
)

// TestSearchesFindWhatTheOpFinds checks that literals of each length are found, or not, as the op
// specifies: at the start, at the end, after a partial match, and in a string that fills its capacity.
func TestSearchesFindWhatTheOpFinds(t *testing.T) {
	texts := []string{
		"", "a", "abcdefghijklmnop", "ababababababababc", "abcabcdabcdeabcdefabc", "abcdefghijklmnopqrstuvwxyz",
		"\xff\xfeabc\xff",
	}
	words := []string{
		"", "a", "c", "abc", "abcde", "defabc", "abcdefgh", "abcdefghi", "ababababc", "bcdefghijklmnop", "uvwx",
		"\xff", "abcdefghijklmnopqrstuvwxyz",
	}
	for _, word := range words {
		for _, op := range []string{"v3:i64 = strfind %q(v2, 24)", "v3:i64 = strfindmem v2, 24, v5, 32"} {
			text := "func @p prog (kind kprobe) {\nb0(v0:ctx):\n  v1:i64 = load.u64 [v0+112]\n  v2:kaddr = cast v1\n" +
				"  v4:i64 = load.u64 [v0+104]\n  v5:kaddr = cast v4\n  " + op + "\n  ret v3\n}\n"
			if strings.Contains(op, "%q") {
				text = fmt.Sprintf(text, word)
			}
			before := ir.MustParse(text)
			after := before.Clone()
			if diags := lowerLibrary(after); len(diags) > 0 {
				t.Fatal(diags)
			}
			var inputs []interp.Input
			for _, in := range texts {
				more, err := interp.ParseInputs(
					fmt.Sprintf("run p ctx+112=0x2000 ctx+104=0x4000 kernel@0x2000=%q kernel@0x4000=%q", in+"\x00",
						word+"\x00"),
				)
				if err != nil {
					t.Fatal(err)
				}
				inputs = append(inputs, more...)
			}
			if err := interp.Equivalent(before, after, inputs); err != nil {
				t.Errorf("%q: %v", word, err)
			}
		}
	}
}

// TestStringLengths checks that the length of a string is counted up to the capacity, wherever its NUL
// is.
func TestStringLengths(t *testing.T) {
	before := ir.MustParse("func @p prog (kind kprobe) {\nb0(v0:ctx):\n  v1:i64 = load.u64 [v0+112]\n  v2:uaddr = cast v1\n  v3:i64 = strlen v2, #8\n  ret v3\n}\n")
	after := before.Clone()
	lowerLibrary(after)
	for n := range 12 {
		in, err := interp.ParseInputs(fmt.Sprintf("run p ctx+112=0x2000 user@0x2000=%q", "abcdefghijkl"[:n]+"\x00"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []*ir.Module{before, after} {
			if got, err := interp.New(m).Run(in[0]); err != nil || got != int64(min(n, 7)) {
				t.Errorf("length of %d characters = %d, %v", n, got, err)
			}
		}
	}
}
