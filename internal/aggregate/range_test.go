// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// chosen returns the bounds of a hist() that a range has.
func chosen(r Range, bits int) (list []int64) {
	b := Buckets{Bits: bits}
	for i := range b.Len() - 1 {
		if _, high := b.Bounds(i); r.Has(high) && high < math.MaxInt64 {
			list = append(list, high)
		}
	}
	return list
}

// TestRange checks which bounds ranges have: powers of two that contain both ends, and with a step the same ones in every
// range.
func TestRange(t *testing.T) {
	for _, c := range []struct {
		text string
		bits int
		want string // first, last and number of the bounds
	}{
		{"", 0, "-1 4611686018427387903 64"},
		{"1us..10s", 0, "511 17179869183 26"}, // 2^9..2^34
		{"512..17179869184", 0, "511 17179869183 26"},
		{"1us..10s/2", 0, "255 17179869183 14"}, // 2^8, 2^10, ..., 2^34
		{"1us..10s/3", 0, "511 68719476735 10"}, // 2^9, 2^12, ..., 2^36
		{"..1K", 0, "-1 1023 12"},
		{"0..1K", 0, "-1 1023 12"},
		{"0..1K/2", 0, "-1 1023 7"}, // -1, and 2^0, 2^2, ..., 2^10
		{"1..1K/2", 0, "0 1023 6"},
		{"1G..", 0, "1073741823 4611686018427387903 33"},
		{"/2", 0, "-1 4611686018427387903 33"},
		{"/1", 2, "-1 4611686018427387903 64"}, // powers of two only
		{"4K..8K", 2, "4095 8191 5"},           // with the bounds in between
		{"1..2", 0, "0 1 2"},
		{"7ms..7s/16", 0, "65535 281474976710655 3"}, // 2^16, 2^32, 2^48
	} {
		r, err := ParseRange(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		list := chosen(r, c.bits)
		if got := fmt.Sprint(list[0], list[len(list)-1], len(list)); got != c.want || r.String() != c.text {
			t.Errorf("%s: bounds %s (%v), want %s", c.text, got, list, c.want)
		}
	}
	for _, text := range []string{
		"1us", "1us..10x", "x..1s", "-1..5", "1s..1us", "1..1", "0..0", "1..2/0", "1..2/x", "1..2/17", "1/2", "/", "9223372036854775808..",
		"9000000000000s..", "1.5s..", "1us..2us..3us", "ns..1s", "1sn..2s", "1m..2M",
	} {
		if r, err := ParseRange(text); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%q: %v, %v", text, r, err)
		}
	}
}

// TestRangeSteps checks that the bounds of two ranges with one step are equal where both have some, and that each bound of
// any range is one of the histogram.
func TestRangeSteps(t *testing.T) {
	for step := 1; step <= 16; step++ {
		all, err := ParseRange(fmt.Sprintf("1../%d", step))
		part, err2 := ParseRange(fmt.Sprintf("1us..3s/%d", step))
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for k := range 6 {
			whole := chosen(all, k)
			for _, high := range chosen(part, k) {
				if !slices.Contains(whole, high) {
					t.Errorf("step %d, %d bits: %d is in %s only", step, k, high, part)
				}
			}
		}
	}
}
