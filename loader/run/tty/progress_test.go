// SPDX-License-Identifier: Apache-2.0

package tty

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress checks that a short step is not reported, that a longer one is reported with its counter, and that the
// last call clears the line.
func TestProgress(t *testing.T) {
	for _, c := range []struct {
		took time.Duration
		want []string
	}{
		{patience / 2, nil},
		{patience + progressPeriod/2, []string{"attaching 70 probes (1 s)", ""}},
		{patience + progressPeriod + progressPeriod/2, []string{"attaching 70 probes (1 s)", "attaching 7 of 70 probes (1 s)", ""}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var p Progress
			var got []string
			p.Start(func(text string) { got = append(got, text) })
			made := p.Step("attaching", 70)
			time.AfterFunc(patience+progressPeriod/4, func() { made.Add(7) })
			time.Sleep(c.took)
			p.Stop()
			p.Stop()
			if len(got) != len(c.want) {
				t.Fatalf("after %v: %q, want %q", c.took, got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("after %v: %q, want %q", c.took, got, c.want)
				}
			}
		})
	}
}
