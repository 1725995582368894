// SPDX-License-Identifier: Apache-2.0

package elffile

import "testing"

func TestNamesOfCPP(t *testing.T) {
	for _, c := range []struct {
		pattern, symbol string
		want            bool
	}{
		{"over", "_Z4overi", true},
		{"over", "_Z4overd", true},
		{"ov*", "_Z4overd", true},
		{"over(int)", "_Z4overi", true},
		{"over(int)", "_Z4overd", false},
		{"over(*)", "_Z4overd", true},
		{"ov", "_Z4overi", false},
		{"over", "over", false},
		{"ns::f", "_ZN2ns1fEv", true},
		{"ns::f()", "_ZN2ns1fEv", true},
	} {
		if got := MatchesCPP(c.pattern, c.symbol); got != c.want {
			t.Errorf("%s matches %s: %v", c.pattern, c.symbol, got)
		}
	}
}
