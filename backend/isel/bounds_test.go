// SPDX-License-Identifier: Apache-2.0

package isel

import (
	"fmt"
	"strings"
	"testing"

	"btc/ir"
)

// TestBounded checks which registers keep their bounds: those compared by a branch and used as an
// argument of a call, and those added to an address.
func TestBounded(t *testing.T) {
	for _, c := range []struct{ what, body, want string }{
		{"compared and passed to a call", "v1:i64 = load.u64 [v0]\n v2:i1 = icmp ult v1, 8\n br v2, b1, b2\nb1:\n v3:i64 = call get_current_comm(s0+0, v1)\n jump b2\nb2:", "v1"},
		{"compared as the right operand", "v1:i64 = load.u64 [v0]\n v4:i64 = load.u64 [v0+8]\n v2:i1 = icmp ult v4, v1\n br v2, b1, b2\nb1:\n v3:i64 = call get_current_comm(s0+0, v1)\n jump b2\nb2:", "v1"},
		{"compared for equality", "v1:i64 = load.u64 [v0]\n v2:i1 = icmp ne v1, 8\n br v2, b1, b2\nb1:\n v3:i64 = call get_current_comm(s0+0, v1)\n jump b2\nb2:", ""},
		{"compared, but not used", "v1:i64 = load.u64 [v0]\n v2:i1 = icmp ult v1, 8\n br v2, b1, b2\nb1:\n jump b2\nb2:", ""},
		{"used, but not compared", "v1:i64 = load.u64 [v0]\n v3:i64 = call get_current_comm(s0+0, v1)", ""},
		{"added to an address", "v1:i64 = load.u64 [v0]\n v2:i64 = and v1, 7\n v3:stack = add s0+0, v2\n store.u8 [v3], 1", "v2"},
		{"added to the address of a global", "v1:i64 = load.u64 [v0]\n v2:i64 = and v1, 7\n v4:mapval(.bss) = globaladdr g\n v3:mapval(.bss) = add v4, v2\n store.u8 [v3], 1", "v2"},
		{"added to a number", "v1:i64 = load.u64 [v0]\n v2:i64 = and v1, 7\n v3:i64 = add v1, v2\n store.u64 [s0+0], v3", ""},
	} {
		m := ir.MustParse("func @f prog (kind self, section \"raw_tp\") {\n slot s0 \"\" 16 align 8 frame -16\nb0(v0:ctx):\n " + c.body + "\n ret 0\n}\n")
		f, err := Select(m.Funcs[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for n, bounded := range f.Bounded {
			if bounded {
				got = append(got, fmt.Sprintf("v%d", n))
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %q keep their bounds, want %q in\n%s", c.what, got, c.want, f)
		}
	}
}
