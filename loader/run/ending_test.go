// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestEnding checks what each reason does: external ones stop the run and wake the reader once, exit() and the last
// event with output end it where the reader is.
func TestEnding(t *testing.T) {
	for name, c := range map[string]struct {
		end         func(*ending)
		interrupted bool
		stopped     bool
		status      int
	}{
		"nothing":     {func(*ending) {}, false, false, 0},
		"stop":        {func(e *ending) { e.stop(); e.stop() }, true, true, 0},
		"timeout":     {func(e *ending) { e.after(time.Second); time.Sleep(2 * time.Second) }, true, true, 0},
		"no timeout":  {func(e *ending) { e.after(0); time.Sleep(time.Hour) }, false, false, 0},
		"canceled":    {func(e *ending) { e.after(time.Second)(); time.Sleep(time.Hour) }, false, false, 0},
		"exit":        {func(e *ending) { e.exit(3) }, false, true, 3},
		"last event":  {func(e *ending) { e.count("printf", 2); e.count("cat", 2) }, false, true, 0},
		"fewer":       {func(e *ending) { e.count("printf", 2); e.count("clear", 2) }, false, false, 0},
		"any number":  {func(e *ending) { e.count("printf", 0) }, false, false, 0},
		"before load": {func(e *ending) { e.wake = nil; e.stop() }, true, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnding()
				woken := 0
				e.wake = func() { woken++ }
				c.end(e)
				synctest.Wait()
				if e.interrupted() != c.interrupted || e.stopped() != c.stopped || e.status != c.status {
					t.Errorf("interrupted %t, stopped %t, status %d", e.interrupted(), e.stopped(), e.status)
				}
				if c.interrupted && e.wake != nil && woken != 1 {
					t.Errorf("reader woken %d times", woken)
				}
			})
		})
	}
}

// TestLimitCommands checks that commands are started for a second after the end, and that only cancel cancels running
// ones.
func TestLimitCommands(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnding()
			e.limitCommands(cancel)
			e.limitCommands(cancel)
			time.Sleep(commandTime / 2)
			if e.expired.Load() {
				t.Error("commands are no longer started")
			}
			time.Sleep(commandTime)
			canceled := false
			select {
			case <-e.hurry:
				canceled = true
			default:
			}
			if !e.expired.Load() || canceled != cancel {
				t.Errorf("expired %t, canceled %t, want %t", e.expired.Load(), canceled, cancel)
			}
		})
	}
}
