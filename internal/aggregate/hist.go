// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"math"
	"math/bits"
)

// The buckets of histograms. With k bits and n = 1<<k, and q the position of the highest bit of
// (v >> k) | 1, hist() counts a value v >= 0 in bucket 1 + (q << k) + (v >> q); for v < 2n that is
// 1 + v. Without bits it is 1 + the number of bits of v. Negative values are in bucket 0.
//
// Programs compute the bucket of a value (lowerHist of passes); the inverse is here, for the compiler and the loader.
// The IR interpreter has its own implementation, as an oracle for tests.

// HistBuckets returns the number of buckets of a hist with the given sub-bucket bits (0..5).
func HistBuckets(bits int) int {
	n := 1 << bits
	return 1 + 2*n + n*(63-bits)
}

// LhistBuckets returns the number of buckets of an lhist; 0 if the bounds are invalid.
func LhistBuckets(lo, hi, step int64) int {
	if step <= 0 || hi <= lo {
		return 0
	}
	span := uint64(hi) - uint64(lo)
	n := span/uint64(step) + 2
	if bits.Len64(n) > 20 {
		return 0
	}
	return int(n)
}

// HistFirst returns the smallest value in bucket i >= 1 of a hist with the given sub-bucket bits (0..5).
func HistFirst(bits, i int) uint64 {
	n := 1 << bits
	i--
	if i < 2*n {
		return uint64(i)
	}
	return uint64(n+i&(n-1)) << histPower(bits, i)
}

// histPower returns the logarithm to base 2 of the width of bucket i, counted from 0.
func histPower(bits, i int) int { return max(i>>bits-1, 0) }

// HistThousands returns the power of 1024 by which the smallest value in bucket i >= 1 is divided for display; it
// divides without a remainder.
func HistThousands(bits, i int) int { return histPower(bits, i-1) / 10 }

// HistBucket returns the bucket of a value v >= 0.
func HistBucket(k int, v uint64) int {
	q := bits.Len64(v>>k|1) - 1
	return 1 + q<<k + int(v>>q)
}

// Buckets are the buckets of a histogram: those of hist(), or of lhist() if Step is not 0.
type Buckets struct {
	Bits           int
	Min, Max, Step int64
}

// Len returns the number of buckets.
func (x Buckets) Len() int {
	if x.Step != 0 {
		return LhistBuckets(x.Min, x.Max, x.Step)
	}
	return HistBuckets(x.Bits)
}

// Bounds returns the smallest and the largest number in bucket i. Bucket 0 has all numbers below bucket 1: negative ones
// in hist(), those below Min in lhist(). It begins at math.MinInt64. The last bucket of lhist() has all numbers from its
// first one on, and ends at math.MaxInt64. If Max is not a whole number of steps from Min, it begins at the last whole
// step. hist() counts signed numbers, and its buckets of others stay empty.
func (x Buckets) Bounds(i int) (low, high int64) {
	low, high = math.MinInt64, math.MaxInt64
	if i > 0 {
		low = x.First(i)
	}
	if !x.Open(i) {
		if next := x.First(i + 1); x.Step != 0 || next < math.MaxInt64 {
			high = next - 1
		}
	}
	return low, high
}

// First returns the smallest number in bucket i >= 1, at most math.MaxInt64.
func (x Buckets) First(i int) int64 {
	if x.Step != 0 {
		return x.Min + int64(i-1)*x.Step
	}
	return int64(min(HistFirst(x.Bits, i), math.MaxInt64))
}

// Open reports whether bucket i > 0 has no upper bound.
func (x Buckets) Open(i int) bool { return i >= x.Len()-1 }

// Find returns the bucket that begins at a number; false if none does. The first bucket begins nowhere.
func (x Buckets) Find(low int64) (i int, ok bool) {
	switch {
	case x.Step == 0 && low >= 0:
		i = HistBucket(x.Bits, uint64(low))
	case x.Step != 0 && low >= x.Min:
		steps := (uint64(low) - uint64(x.Min)) / uint64(x.Step)
		if steps >= uint64(x.Len()) {
			return 0, false
		}
		i = int(steps) + 1
	}
	if i <= 0 || i >= x.Len() {
		return 0, false
	}
	return i, x.First(i) == low
}
