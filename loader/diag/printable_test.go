// SPDX-License-Identifier: Apache-2.0

package diag

import "testing"

func TestPrintable(t *testing.T) {
	const text = "bad name \x1b[2J\x84 in\n\tx.o: ü"
	if have, want := Printable(text), "bad name \uFFFD[2J\uFFFD in\n\tx.o: ü"; have != want {
		t.Errorf("Printable() = %q, want %q", have, want)
	}
}
