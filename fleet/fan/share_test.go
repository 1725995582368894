// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"testing"
	"time"
)

// TestShares checks that a host with expensive output gets no more time than each of the others, and all the time when
// it is alone; and that a host that was silent does not hold up others when it speaks.
func TestShares(t *testing.T) {
	s := &shares{slots: 1}
	type host struct {
		used, took time.Duration // in all, of one turn
		turns      int
		waiting    chan time.Time
	}
	wait := func(h *host) {
		queued := len(s.queue)
		h.waiting = make(chan time.Time, 1)
		go func() { h.waiting <- s.begin(&h.used) }()
		for { // until it is in the queue
			s.mu.Lock()
			n := len(s.queue)
			s.mu.Unlock()
			if n > queued {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	hosts := []*host{{took: time.Second}, {took: 10 * time.Millisecond}, {took: 20 * time.Millisecond}, {took: 10 * time.Millisecond}}
	flooder, late := hosts[0], hosts[3]
	s.begin(&flooder.used)
	s.end(&flooder.used, time.Minute) // alone: nobody is kept waiting
	if s.busy != 0 {
		t.Fatal("the slot is not free")
	}
	var none time.Duration
	s.begin(&none)
	for _, h := range hosts[:3] {
		wait(h)
	}
	s.end(&none, 0)
	run := func(rounds int) {
		for range rounds {
			var h *host
			for h == nil {
				for _, x := range hosts {
					select {
					case <-x.waiting:
						h = x
					default:
					}
				}
			}
			h.turns++
			// The next output of the host is there at once. It must be in the queue before the turn ends.
			s.mu.Lock()
			h.used += h.took
			s.mu.Unlock()
			wait(h)
			s.end(&none, 0)
		}
	}
	run(500)
	if flooder.turns > 1 || hosts[1].turns < 300 || hosts[2].turns < 150 {
		t.Errorf("turns of 1 s: %d, of 10 ms: %d, of 20 ms: %d", flooder.turns, hosts[1].turns, hosts[2].turns)
	}
	// A host that begins to speak now does not get the time that the others have used so far.
	wait(late)
	before := hosts[1].turns
	run(100)
	if got := hosts[1].turns - before; got < 30 || late.turns < 30 {
		t.Errorf("turns of a late host: %d, of an early one: %d", late.turns, got)
	}
}
