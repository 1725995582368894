// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"sync"
	"time"
)

// shares divides the time of this program fairly between the hosts whose output has arrived. At most slots goroutines
// handle output at the same time; when more are ready, that of the host which has used the least time is next. So a
// host that floods waits, and with it its connection, while others have something to say; by itself it has all.
type shares struct {
	slots int

	mu    sync.Mutex
	busy  int
	floor time.Duration // what the host that had the last turn has used: a host that was silent does not save up
	queue []*turn
}

// turn is the account of a host in shares; the goroutines for its output and its error output share it.
type turn struct {
	used  time.Duration
	ready chan struct{}
}

// begin waits for a turn of the host with the given account, and returns when it began.
func (s *shares) begin(used *time.Duration) time.Time {
	s.mu.Lock()
	*used = max(*used, s.floor)
	if s.busy < s.slots {
		s.busy++
		s.mu.Unlock()
		return time.Now()
	}
	t := &turn{*used, make(chan struct{})}
	s.queue = append(s.queue, t)
	s.mu.Unlock()
	<-t.ready
	return time.Now()
}

// end ends a turn that took some time.
func (s *shares) end(used *time.Duration, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*used += took
	if len(s.queue) == 0 {
		s.busy--
		return
	}
	least := 0
	for i, t := range s.queue {
		if t.used < s.queue[least].used {
			least = i
		}
	}
	next := s.queue[least]
	s.queue = append(s.queue[:least], s.queue[least+1:]...)
	s.floor = max(s.floor, next.used)
	close(next.ready) // it has the slot
}
