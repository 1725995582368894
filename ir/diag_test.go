// SPDX-License-Identifier: Apache-2.0

package ir

import "testing"

func TestDiagText(t *testing.T) {
	for want, d := range map[string]Diag{
		"3:4: too large": {Pos: Pos{Line: 3, Col: 4}, Text: "too large"},
		"too large":      {Pos: NoPos, Text: "too large"},
	} {
		if got := d.Error(); got != want {
			t.Errorf("Error() = %q, want %q", got, want)
		}
	}
}
