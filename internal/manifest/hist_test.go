// SPDX-License-Identifier: Apache-2.0

package manifest

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
