// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseOffsets(t *testing.T) {
	got := parseOffsets("bad 1\nboottime x 1\nboottime 1 y\nmonotonic         -86400         5\nboottime      604800         0\nbad 1\nboottime x y\n")
	if want := [4]time.Duration{604800 * time.Second, -86400*time.Second + 5}; got != want {
		t.Errorf("offsets = %v, want %v", got, want)
	}
	if got := parseOffsets("1 1 0\n7 2 0\n"); got[0] != 2*time.Second || got[1] != time.Second {
		t.Errorf("offsets by number = %v", got)
	}
}

// TestWallAfterClockStep checks that a change of the wall clock takes effect from then on, and that
// other clocks are unaffected.
func TestWallAfterClockStep(t *testing.T) {
	h, err := Probe()
	if err != nil {
		t.Fatal(err)
	}
	start, taiAhead := h.Start, h.SoftTAI()
	near := func(what string) {
		t.Helper()
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
			t.Fatal(err)
		}
		kernel := ts.Nano() - int64(h.namespaceOffsets()[0])
		if d := time.Since(h.Wall(uint64(kernel), 0)); d.Abs() > time.Minute {
			t.Errorf("%s: off by %v", what, d)
		}
	}
	near("at first")
	// As if the clock had been an hour behind when the offsets were read.
	h.wall -= int64(time.Hour)
	for i := range h.offsets {
		h.offsets[i] -= time.Hour
	}
	near("after a step")
	if h.Start != start || time.Duration(h.SoftTAI()-taiAhead).Abs() > time.Second {
		t.Errorf("Start = %d, was %d; SoftTAI = %d, was %d", h.Start, start, h.SoftTAI(), taiAhead)
	}
}

func TestSoftTAI(t *testing.T) {
	h := Host{offsets: [4]time.Duration{1000, 200, 30, 4}}
	if got := h.SoftTAI(); got != 970 {
		t.Errorf("offset of TAI from the boot clock = %d, want that of clock 0 less that of clock 2, 970", got)
	}
}
