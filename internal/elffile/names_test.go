// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"strings"
	"testing"
	"time"
)

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

// TestDemangled checks names as in the source, and that hostile ones are returned in time as they are.
func TestDemangled(t *testing.T) {
	for name, want := range map[string]string{"_ZN3foo3barEi": "foo::bar(int)", "_RNvCs1234_7mycrate4main": "mycrate::main", "_ZN4core3fmt5write17h0123456789abcdefE": "core::fmt::write", "main": "main", "_Z": "_Z", "": ""} {
		if got := Demangled(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	begin := time.Now()
	for _, part := range []string{"P", "N", "I", "J", "S_I", "1aI", "F", "NS_", "L_Z", "cv", "X", "Dp", "T_"} {
		for _, prefix := range []string{"_Z1f", "_ZN", "_Z", "_RI", "_RNv"} {
			name := prefix + strings.Repeat(part, MaxMangled/len(part)-8)
			if got := Demangled(name); len(got) > max(len(name), 1<<maxShownShift) {
				t.Errorf("%s%s...: %d bytes of %d", prefix, part, len(got), len(name))
			}
		}
	}
	if long := "_Z" + strings.Repeat("N", 10<<20); Demangled(long) != long {
		t.Error("a name of 10 MB has changed")
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}
