// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/internal/manifest"
)

// TestCachedValues checks caches of two CPUs with two slots of {set, value, key}: a slot that was not
// in use in the first read is ignored, and a key on both CPUs has both values.
func TestCachedValues(t *testing.T) {
	m := &manifest.Map{KeySize: 8, ValueSize: 8,
		Cache: &manifest.PerCPUCache{CPUs: 2, Slots: 2, SlotSize: 24, ValueOff: 8, KeyOff: 16}}
	words := func(n ...uint64) (b []byte) {
		for _, w := range n {
			b = binary.NativeEndian.AppendUint64(b, w)
		}
		return b
	}
	taken := words(1, 9, 7, 0, 0, 0, 1, 0, 0, 1, 5, 8)
	tables := words(1, 10, 7, 1, 3, 6, 1, 2, 7, 1, 5, 8)
	got := cachedValues(m, taken, tables)
	want := map[string][][]byte{
		string(words(7)): {words(10), words(2)},
		string(words(8)): {words(5)},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestCachedBuckets checks that a slot of a hist has one bucket, and that one beyond the histogram is
// ignored.
func TestCachedBuckets(t *testing.T) {
	m := &manifest.Map{Shape: "hist", KeySize: 8, ValueSize: 24,
		Cache: &manifest.PerCPUCache{CPUs: 2, Slots: 2, SlotSize: 24, KeyOff: 8}}
	words := func(n ...uint64) (b []byte) {
		for _, w := range n {
			b = binary.NativeEndian.AppendUint64(b, w)
		}
		return b
	}
	tables := words(5, 7, 0, 2, 7, 2, 3, 7, 0, 1, 8, 3)
	want := map[string][][]byte{string(words(7)): {words(8, 0, 2)}, string(words(8)): {words(0, 0, 0)}}
	if d := cmp.Diff(want, cachedValues(m, tables, tables)); d != "" {
		t.Error(d)
	}
}
