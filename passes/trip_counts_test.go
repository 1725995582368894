package passes

import (
	"fmt"
	"strings"
	"testing"

	"btc/ir"
)

// TestPlannedTurns: a loop alone that every kernel walks to its end has all its iterations in
// place, though what loops of unknown length share would give it fewer; with a body that is
// too much for that it has not.
func TestPlannedTurns(t *testing.T) {
	for _, test := range []struct {
		length   string
		branches int
		all      bool
		fewest   uint64
		most     uint64
	}{
		{"v1", 5, false, 300, 900},
		{"1000", 5, true, 1000, 1000},
		{"1000", 9, false, 100, 800}, // 9000 branches would wait for their other side
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
			t.Errorf("%s iterations of %d branches: %d, all of them %v; want %d to %d, %v", test.length, test.branches, n, all, test.fewest, test.most, test.all)
		}
		if p.never || len(m.Meta.Needs) > 0 {
			t.Errorf("%s iterations of %d branches: no form in place", test.length, test.branches)
		}
	}
}

// leavingLoop is a loop with so many branches in its body, one of which leaves it.
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
		fmt.Fprintf(&s, "b%d:\n  v%d:i64 = load.u64 [v0+%d]\n  v%d:i1 = icmp eq v%d, %d\n  br v%d, b%d, b%d\n", b, v, 8*i, v+1, v, i, v+1, way, b+2)
		if i > 0 {
			fmt.Fprintf(&s, "b%d:\n  store.u64 [v0+8], %d\n  jump b%d\n", way, i, b+2)
		}
	}
	fmt.Fprintf(&s, "b%d:\n  jump b1\n}\n", 4+2*branches)
	return s.String()
}
