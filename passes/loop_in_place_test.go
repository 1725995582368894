// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"strings"
	"testing"

	"btc/ir"
)

// TestShortNests checks that, of nested loops, those that the kernel can verify together stay in place,
// and that the outer ones become bpf_loop calls.
func TestShortNests(t *testing.T) {
	for _, test := range []struct {
		length      string
		loops, left int // left for bpf_loop
	}{
		{"10", 2, 0},
		{"30", 2, 0},
		{"30", 3, 1}, // 27000 iterations
		{"v2", 1, 0}, // at most 15 iterations
		{"v2", 2, 0},
		{"v2", 3, 2}, // separate lengths
	} {
		m := parse(t, loopNest(test.length, test.loops))
		p := &planner{m: m}
		p.countShort(m.Funcs[0])
		left := 0
		for _, b := range m.Funcs[0].Blocks {
			for _, v := range b.Values {
				if v.Op == ir.OpRangeNext {
					left++
				}
			}
		}
		if left != test.left {
			t.Errorf("%d loops of %s iterations: %d are left to bpf_loop, want %d\n%s", test.loops, test.length, left,
				test.left, m.Funcs[0])
		}
	}
}

// loopNest returns n nested loops, with a branch in the innermost.
func loopNest(length string, loops int) string {
	var s strings.Builder
	s.WriteString(`func @p prog (kind kprobe) {
b0(v0:ctx):
  v1:i64 = load.u64 [v0+112]
  v2:i64 = and v1, 15
  jump b3
b1:
  ret 0
b2:
  store.u64 [v0+8], 1
`)
	fmt.Fprintf(&s, "  jump b%d\n", 3+3*loops)
	for i := range loops {
		b, v := 3+3*i, 10+4*i
		out := "b1"
		if i > 0 {
			out = fmt.Sprintf("b%d", b-2)
		}
		fmt.Fprintf(&s, "b%d:\n  v%d:i64 = rangeiter %s\n  jump b%d\n", b, v, length, b+1)
		fmt.Fprintf(&s, "b%d:\n  v%d:i64 = rangenext v%d\n  v%d:i1 = icmp ne v%d, 0\n  br v%d, b%d, %s\n", b+1, v+1,
			v, v+2, v+1, v+2, b+2, out)
		if i < loops-1 {
			fmt.Fprintf(&s, "b%d:\n  jump b%d\n", b+2, b+3)
		} else {
			fmt.Fprintf(&s, "b%d:\n  v%d:i64 = load.u64 [v0+0]\n  v%d:i1 = icmp eq v%d, 7\n  br v%d, b2, b%d\n", b+2, v+3, v+4, v+3, v+4, b+3)
		}
	}
	fmt.Fprintf(&s, "b%d:\n  jump b%d\n}\n", 3+3*loops, 3*loops+1)
	return s.String()
}
