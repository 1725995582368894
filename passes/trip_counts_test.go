// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"strings"
	"testing"

	"btc/ir"
)

// TestPlannedTrips checks that a single loop that every kernel can verify completely keeps all its
// iterations in place, although the share for loops with unknown trip count is smaller, and that a loop
// with too large a body does not.
func TestPlannedTrips(t *testing.T) {
	for _, test := range []struct {
		length   string
		branches int
		all      bool
		fewest   uint64
		most     uint64
	}{
		{"v1", 5, false, 300, 900},
		{"1000", 5, true, 1000, 1000},
		{"1000", 9, false, 100, 800}, // 9000 branches would be pending
		{"3000", 1, false, 300, 2048},
	} {
		m := parse(t, leavingLoop(test.length, test.branches))
		p := planLoops(m)
		var next *ir.Value
		for _, b := range m.Funcs[0].Blocks {
			for _, v := range b.Values {
				if v.Op == ir.OpRangeNext {
					next = v
				}
			}
		}
		if n, all := p.trips[next], p.within[next]; all != test.all || n < test.fewest || n > test.most {
			t.Errorf("%s iterations of %d branches: %d in place, all = %v; want %d to %d, %v", test.length,
				test.branches, n, all, test.fewest, test.most, test.all)
		}
		if p.never || len(m.Meta.Needs) > 0 {
			t.Errorf("%s iterations of %d branches: no loop in place", test.length, test.branches)
		}
	}
}

// leavingLoop returns a loop with the given number of branches in its body, one of which leaves it.
func leavingLoop(length string, branches int) string {
	var s strings.Builder
	fmt.Fprintf(&s, `meta (errors [(text "stopped", pos !1:1)])
func @p prog (kind kprobe) {
b0(v0:ctx):
  v1:i64 = load.u64 [v0+112]
  v2:i64 = rangeiter %s
  jump b1
b1:
  v3:i64 = rangenext v2
  v4:i1 = icmp ne v3, 0
  br v4, b4, b2
b2:
  v5:i64 = rangecut v2, #0
  ret v5
b3:
  ret 1
`, length)
	for i := range branches {
		b, v := 4+2*i, 10+3*i
		way := b + 1
		if i == 0 {
			way = 3
		}
		fmt.Fprintf(&s, "b%d:\n  v%d:i64 = load.u64 [v0+%d]\n  v%d:i1 = icmp eq v%d, %d\n  br v%d, b%d, b%d\n", b, v,
			8*i, v+1, v, i, v+1, way, b+2)
		if i > 0 {
			fmt.Fprintf(&s, "b%d:\n  store.u64 [v0+8], %d\n  jump b%d\n", way, i, b+2)
		}
	}
	fmt.Fprintf(&s, "b%d:\n  jump b1\n}\n", 4+2*branches)
	return s.String()
}

// TestTripCounts checks how many iterations the kernel verifies, for a loop with its own counter, over
// a range, and over a map.
func TestTripCounts(t *testing.T) {
	counted := func(first, test, next string) string {
		return "  jump b1(" + first + ")\nb1(v2:i64):\n  v3:i1 = icmp " + test + "\n  br v3, b2, b3\nb2:\n  v4:i64 = " + next + "\n  jump b1(v4)\nb3:\n  ret 0\n"
	}
	ranged := func(length, leave string) string {
		return "  v5:i64 = and v1, 100\n  v6:i64 = rangeiter " + length + "\n  jump b1\nb1:\n  v7:i64 = rangenext v6\n  v8:i1 = icmp ne v7, 0\n  br v8, b2, b3\n" +
			"b2:\n  v9:i1 = icmp eq v1, 7\n  br v9, " + leave + ", b1\nb3:\n  ret 0\n"
	}
	for _, c := range []struct {
		body string
		want uint64
	}{
		{counted("0", "ult v2, 10", "add v2, 1"), 10},
		{counted("3", "ult v2, 10", "add v2, 1"), 7},
		{counted("0", "ult v2, 1", "add v2, 1"), 1},
		{counted("10", "ult v2, 10", "add v2, 1"), 64},     // none: a guess
		{counted("v1", "ult v2, 10", "add v2, 1"), 64},     // starts at an unknown number
		{counted("0", "ult v2, v1", "add v2, 1"), 64},      // ends at an unknown number
		{counted("0", "ult v2, 1000000", "add v2, 1"), 64}, // more than are kept in place
		{counted("0", "eq v1, 10", "add v2, 1"), 64},       // end does not depend on the counter
		{ranged("10", "b2"), 10},
		{ranged("1", "b1"), 1},
		{ranged("0", "b1"), 1},
		{ranged("8388608", "b1"), 8388608},
		{ranged("8388609", "b1"), 500},
		{ranged("1000", "b3"), 500}, // may be left early
		{ranged("400", "b3"), 400},
		{ranged("v5", "b1"), 100},
		{ranged("v1", "b1"), 500},
		{"  v5:i64 = mapiter @x\n  jump b1\nb1:\n  v6:mapval(@x)? = mapnext @x, v5\n  v7:i1 = icmp ne v6, null\n  br v7, b1, b2\nb2:\n  ret 0\n", 2},
		{"  jump b1(v1)\nb1(v5:i64):\n  v6:i64 = rangenext v5\n  v7:i1 = icmp ne v6, 0\n  br v7, b1(v5), b2\nb2:\n  ret 0\n", 500},
		{"  jump b1\nb1:\n  v5:i64 = load.u64 [v0+8]\n  jump b1\n", 64},
	} {
		f := parse(t, "map (name @x, key (kind int, size 8))\nfunc @p prog (kind kprobe) {\nb0(v0:ctx):\n  v1:i64 = load.u64 [v0+112]\n"+c.body+"}").Funcs[0]
		facts := newLoopFacts(f)
		var l *ir.Loop
		for _, x := range facts.nest.Loops {
			if x.Header.ID == 1 {
				l = x
			}
		}
		if l == nil {
			t.Fatalf("no loop in\n%s", f)
		}
		if got := facts.tripCount(l, 500); got != c.want {
			t.Errorf("%d iterations, want %d, in\n%s", got, c.want, f)
		}
	}
}
