// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"

	tables "btc/internal/unwind"
)

func TestCutStacks(t *testing.T) {
	counts := make([]uint64, tables.Reasons)
	if got := cutStacks(nil) + cutStacks(counts); got != "" {
		t.Errorf("without stacks: %q", got)
	}
	if counts[tables.Whole] = 7; cutStacks(counts) != "" {
		t.Errorf("whole stacks: %q", cutStacks(counts))
	}
	counts[tables.NoTable], counts[tables.NotYetKnown] = 2, 1
	if got, want := cutStacks(counts), "WARNING: 3 of 10 user stacks are cut short (no table: 2, not yet known: 1)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
