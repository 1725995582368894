// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestStringsByWords compares strings of all lengths, with bytes after their NULs that must be
// ignored, in slots of many sizes.
func TestStringsByWords(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 33, 64} {
		text := fmt.Sprintf(`
func @p prog (kind kprobe) {
  slot s0 "a" %[1]d align 1
  slot s1 "b" %[1]d align 1
b0(v0:ctx):
  readmem s0+0, 0x1000:kaddr, #%[1]d
  readmem s1+0, 0x2000:kaddr, #%[1]d
  v1:i1 = streqmem s0+0, s1+0, #%[1]d
  v2:i64 = boolint v1
  ret v2
}`, size)
		var lines strings.Builder
		for range 60 {
			a, b := make([]byte, size), make([]byte, size)
			for i := range a {
				a[i] = "\x00\x01\x7f\x80\xffab"[r.IntN(7)]
				if b[i] = a[i]; r.IntN(2*size) == 0 {
					b[i] = byte(r.IntN(256))
				}
			}
			if r.IntN(2) == 0 { // equal up to the NUL, and nothing after it
				n := r.IntN(size)
				copy(b, a[:n])
				a[n], b[n] = 0, 0
				for i := n + 1; i < size; i++ {
					b[i] = byte(r.IntN(256))
				}
			}
			fmt.Fprintf(&lines, "run p kernel@0x1000=%s kernel@0x2000=%s\n", escaped(a), escaped(b))
		}
		if err := sameMeaning(t, text, lines.String()); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
}

func escaped(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		fmt.Fprintf(&s, `\x%02x`, c)
	}
	return `"` + s.String() + `"`
}

// TestBuckets puts random numbers, and those around each power of two, into histograms of all
// widths, from values of each size, because known bounds of a value shorten the code.
func TestBuckets(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for bits := range 6 {
		for _, kind := range []string{"u8", "u16", "u32", "s8", "s32", "u64"} {
			text := fmt.Sprintf(`
map (name @, shape hist, bits %d, value (kind int, size 8, signed))
func @p prog (kind tracepoint) {
b0(v0:ctx):
  v1:i64 = load.%s [v0+8]
  hist @, v1
  ret 0
}`, bits, kind)
			var lines strings.Builder
			for range 100 {
				fmt.Fprintf(&lines, "run p ctx+8=%d\n", int64(r.Uint64()>>r.IntN(64)))
			}
			for p := range 64 {
				for d := int64(-1); d <= 1; d++ {
					fmt.Fprintf(&lines, "run p ctx+8=%d\n", int64(1)<<p+d)
				}
			}
			if err := sameMeaning(t, text, lines.String()); err != nil {
				t.Fatalf("bits %d of %s: %v", bits, kind, err)
			}
		}
	}
}
