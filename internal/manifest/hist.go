// SPDX-License-Identifier: Apache-2.0

package manifest

import "math/bits"

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
