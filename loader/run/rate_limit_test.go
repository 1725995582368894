// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"
	"time"
)

func TestRateLimit(t *testing.T) {
	var f rateLimits
	now := time.Unix(1000, 0)
	shown := 0
	for range 20 {
		if f.admit(3, now) {
			shown++
		}
	}
	if shown != shownAtOnce || !f.admit(4, now) {
		t.Errorf("%d messages shown, want %d of one kind and the first of another", shown, shownAtOnce)
	}
	due := func(at time.Time, final bool) (n uint64) {
		f.due(at, final, func(i int, k uint64) { n += k })
		return n
	}
	if n := due(now.Add(time.Second/2), false); n != 0 {
		t.Errorf("%d reported too early", n)
	}
	if n := due(now.Add(time.Second), false); n != 15 {
		t.Errorf("%d reported, want 15", n)
	}
	if n := due(now.Add(3*time.Second), true); n != 0 {
		t.Errorf("%d reported twice", n)
	}
	f.admit(3, now)
	if n := due(now.Add(1100*time.Millisecond), true); n != 1 {
		t.Errorf("%d at the end, want 1", n)
	}
}

// TestRateLimitBacksOff checks that a message that repeats for a day is shown rarely, and that the
// totals are complete.
func TestRateLimitBacksOff(t *testing.T) {
	var f rateLimits
	now := time.Unix(1e9, 0)
	shown, reports, sum := uint64(0), 0, uint64(0)
	report := func(_ int, n uint64) { reports++; sum += n }
	const day = 24 * 3600
	for range day {
		for range 10 {
			if f.admit(3, now) {
				shown++
			}
		}
		f.due(now, false, report)
		now = now.Add(time.Second)
	}
	if shown != shownAtOnce || reports < 1000 || reports > 1400 {
		t.Errorf("%d shown, %d reports", shown, reports)
	}
	now = now.Add(10 * backoffMost) // a quiet period
	f.admit(3, now)
	f.due(now, false, report)
	f.admit(3, now)
	now, reports = now.Add(backoffFirst), 0
	if f.due(now, false, report); reports != 1 {
		t.Error("message after a quiet period not reported soon")
	}
	f.admit(3, now)
	f.due(now, true, report)
	if shown+sum != 10*day+3 {
		t.Errorf("counted %d messages, want %d", shown+sum, 10*day+3)
	}
}
