// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"
	"time"
)

// TestSkipWarning checks that skipped snapshots are counted in one warning every ten seconds, however short their interval is.
func TestSkipWarning(t *testing.T) {
	var c snapshots
	start := time.Now()
	var got []string
	for i := range 70 { // every 300 ms
		if i > 0 {
			c.skipped++
		}
		if text := c.skipWarning(start.Add(time.Duration(i) * 300 * time.Millisecond)); text != "" {
			text, _, _ = strings.Cut(text, ",")
			got = append(got, text)
		}
	}
	want := "WARNING: 1 snapshot was skipped; WARNING: 34 snapshots were skipped; WARNING: 34 snapshots were skipped"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
