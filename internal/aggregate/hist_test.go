// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"math/bits"
	"testing"
)

// TestHistFirst checks that each bucket begins where the previous one ends, and that the function by
// which programs choose a bucket maps its first and last value to it.
func TestHistFirst(t *testing.T) {
	for k := range 6 {
		bucket := func(v uint64) int {
			q := bits.Len64(v>>k|1) - 1
			if k == 0 {
				return 1 + bits.Len64(v)
			}
			return 1 + q<<k + int(v>>q)
		}
		last := HistBuckets(k) - 1
		for i := 1; i <= last; i++ {
			if v := HistFirst(k, i); bucket(v) != i {
				t.Errorf("%d bits: bucket %d begins at %d, but this is in bucket %d", k, i, v, bucket(v))
			}
			if v := HistFirst(k, i) - 1; i > 1 && bucket(v) != i-1 {
				t.Errorf("%d bits: %d is in bucket %d, want %d", k, v, bucket(v), i-1)
			}
			if unit := uint64(1) << (10 * HistThousands(k, i)); HistFirst(k, i)%unit != 0 {
				t.Errorf("%d bits: bucket %d begins at %d, not a multiple of %d", k, i, HistFirst(k, i), unit)
			}
		}
	}
}

func TestBuckets(t *testing.T) {
	if n := HistBuckets(0); n != 66 {
		t.Errorf("buckets of hist(0) = %d, want 66", n)
	}
	if n := HistBuckets(5); n != 1+64+32*58 {
		t.Errorf("buckets of hist(5) = %d, want %d", n, 1+64+32*58)
	}
	if n := LhistBuckets(0, 100, 10); n != 12 {
		t.Errorf("buckets of lhist = %d, want 12", n)
	}
	if LhistBuckets(0, 1<<62, 1) != 0 || LhistBuckets(0, 10, 0) != 0 || LhistBuckets(5, 5, 1) != 0 {
		t.Error("no error for invalid bounds")
	}
}
