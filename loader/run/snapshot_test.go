// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"
	"time"

	"btc/internal/manifest"
	"btc/loader/output"
)

// TestSnapshotIsShown checks that a snapshot is written when it is taken: nothing else may happen for long.
func TestSnapshotIsShown(t *testing.T) {
	s, out := testSession(t)
	s.stopPrinter()
	s.maps = &mapTable{manifest: s.manifest}
	s.opts.Sink = output.Find(output.Lossless)
	s.startPrinter()
	p := s.msg.printer
	ran := make(chan struct{})
	s.front.later(0, manifest.Pos{}, func(*writer) { close(ran) })
	s.front.Out.Idle()
	<-ran
	for waits := false; !waits; time.Sleep(time.Millisecond) { // for something to write
		p.mu.Lock()
		waits = !p.busy && len(p.items) == 0
		p.mu.Unlock()
	}
	s.snapshots.requested.Store(true)
	s.snapshot(time.Now())
	for begun := time.Now(); s.snapshots.pending.Load(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 30*time.Second {
			t.Fatal("the snapshot is not written until something else happens")
		}
	}
	s.stopPrinter()
	if n := strings.Count(out.String(), `{"type": "snapshot"`); n != 1 {
		t.Errorf("%d snapshots\n%s", n, out)
	}
}

// TestSkipWarning checks that skipped snapshots are counted in one warning every ten seconds, however short their interval is.
func TestSkipWarning(t *testing.T) {
	var c snapshots
	start := time.Now()
	var got []string
	for i := range 70 { // every 300 ms
		if i > 0 {
			c.skipped++
		}
		if text := c.skipWarning(start.Add(time.Duration(i)*300*time.Millisecond), false); text != "" {
			text, _, _ = strings.Cut(text, ": the one")
			got = append(got, text)
		}
	}
	want := "WARNING: 1 snapshot was skipped; WARNING: 34 snapshots were skipped; WARNING: 34 snapshots were skipped"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("%s, want %s", text, want)
	}
}

// TestLastSkipWarning checks that snapshots that were skipped before the end of a run are reported.
func TestLastSkipWarning(t *testing.T) {
	s, out := testSession(t)
	s.maps = &mapTable{manifest: s.manifest}
	s.snapshots.warned, s.snapshots.skipped = time.Now(), 2
	if _, err := s.finish(); err != nil || !strings.Contains(out.String(), "WARNING: 2 snapshots were skipped") {
		t.Errorf("%v, output %q", err, out)
	}
}
