// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Range selects the upper bounds of a hist() that is exported as a metric: those between two powers of two, and with a
// step every step-th power of two only. Numbers below and above are in the first and the last bucket, so counts stay
// exact. It depends on no data: bounds are equal on all hosts and at all times. The zero Range has all bounds.
type Range struct {
	text      string
	low, high uint64 // 0 or powers of two
	step      int    // of exponents; 0: all bounds of the histogram
}

// rangeUnits are the units of numbers in a range: times are in ns, sizes in bytes.
var rangeUnits = []struct {
	name string
	n    uint64
}{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"", 1}}

// ParseRange parses LOW..HIGH, LOW..HIGH/STEP or /STEP. LOW and HIGH may be missing. They are rounded to powers of two,
// LOW down and HIGH up, with a step to powers whose exponents it divides.
func ParseRange(text string) (Range, error) {
	r := Range{text: text, high: 1 << 63}
	if text == "" {
		return Range{}, nil
	}
	bad := fmt.Errorf("%q is not a range such as 1us..10s, 512..1M or 1us..10s/2", text)
	ends, step, stepped := strings.Cut(text, "/")
	if stepped {
		n, err := strconv.Atoi(step)
		if err != nil || n < 1 || n > 16 {
			return Range{}, fmt.Errorf("%q: the step is the number of powers of two from one bound to the next, 1 to 16", text)
		}
		r.step = n
	}
	low, high, isRange := strings.Cut(ends, "..")
	if !isRange && (ends != "" || !stepped) {
		return Range{}, bad
	}
	var ok bool
	if low != "" {
		if r.low, ok = parseEnd(low); !ok {
			return Range{}, bad
		}
	}
	if high != "" {
		if r.high, ok = parseEnd(high); !ok {
			return Range{}, bad
		}
	}
	if r.low >= r.high {
		return Range{}, fmt.Errorf("%q: its end is not above its beginning", text)
	}
	grain := max(r.step, 1)
	if r.low > 0 {
		e := bits.Len64(r.low) - 1
		r.low = 1 << (e - e%grain)
	}
	e := bits.Len64(r.high - 1)
	if e += (grain - e%grain) % grain; e > 63 {
		e = 63
	}
	r.high = 1 << e
	return r, nil
}

// parseEnd parses an end of a range.
func parseEnd(text string) (uint64, bool) {
	digits := strings.TrimRight(text, "numsKMG")
	n, err := strconv.ParseUint(digits, 10, 63)
	for _, u := range rangeUnits {
		if u.name == text[len(digits):] && err == nil && n <= 1<<63/u.n {
			return n * u.n, true
		}
	}
	return 0, false
}

// String returns what was parsed; "" for the zero Range.
func (r Range) String() string { return r.text }

// Has reports whether the bound of a bucket whose numbers are at most high is one of the range.
func (r Range) Has(high int64) bool {
	next := uint64(high) + 1 // the first number of the next bucket
	switch {
	case r.text == "":
		return true
	case high < -1 || next < r.low || next > r.high:
		return false
	case r.step == 0 || next == r.low:
		return true
	}
	return bits.OnesCount64(next) == 1 && (bits.Len64(next)-1)%r.step == 0
}
