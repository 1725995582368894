// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os/exec"
	"testing"
	"time"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/resolve"
)

// TestWatchFiles checks that the event reader does not wait for the mappings of processes to be read, which are read for at
// most a tenth of the time.
func TestWatchFiles(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("skipped: no sleep(1)")
	}
	c := exec.Command(sleep, "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	s, _ := testSession(t)
	prog := &manifest.Program{Kind: probe.Uprobe}
	for _, path := range []string{sleep, sleep, "/none"} {
		s.expansion.Plans = append(s.expansion.Plans, resolve.Plan{Prog: prog, Matches: []resolve.Match{{Path: path}}})
	}
	r := &s.reasons
	running := &look{done: make(chan struct{}), found: []string{"/found"}, took: time.Second}
	r.look = running
	now := time.Now()
	s.watchFiles(now)
	if r.look != running || r.looks != 0 {
		t.Error("another look while one is in progress")
	}
	close(running.done)
	s.watchFiles(now)
	if !r.mapped["/found"] || r.look != nil || r.next.Sub(now) < 9*time.Second {
		t.Errorf("%v; the next look is after %v", r.mapped, r.next.Sub(now))
	}
	s.watchFiles(r.next)
	if r.look == nil {
		t.Fatal("no look")
	}
	<-r.look.done
	s.watchFiles(r.next)
	if !r.mapped[sleep] || r.mapped["/none"] {
		t.Errorf("mapped: %v", r.mapped)
	}
	r.endLook()
	ended := &look{done: make(chan struct{})}
	r.look = ended
	go func() {
		for !ended.stop.Load() {
			time.Sleep(time.Millisecond)
		}
		close(ended.done)
	}()
	if r.endLook(); r.look != nil {
		t.Error("the look goes on")
	}
}
