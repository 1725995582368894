// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"btc/loader/ring"
)

// source returns the records of the events ring buffer in order, with a lookahead for records that
// belong together.
type source struct {
	ring  *ring.Reader
	queue [][]byte // read ahead
}

// openSource opens m; it returns nil if the object sends no events.
func openSource(m *ebpf.Map) (*source, error) {
	fd, size := -1, 0
	if m != nil {
		fd, size = m.FD(), int(m.MaxEntries())
	}
	r, err := ring.Open(fd, size)
	if err != nil {
		return nil, fmt.Errorf("events ring buffer: %w", err)
	}
	return &source{ring: r}, nil
}

// next returns the next record, or nil if there is none. The record is valid until the next call.
func (s *source) next() []byte {
	for len(s.queue) > 0 {
		r := s.queue[0]
		s.queue = s.queue[1:]
		if r != nil { // nil: consumed by a lookahead
			return r
		}
	}
	return s.ring.Next()
}

// last returns the next record once no program runs any more.
func (s *source) last() []byte {
	for range 100 {
		if r := s.next(); r != nil {
			return r
		}
		if !s.ring.Busy() {
			return nil
		}
		s.wait(time.Second) // returns early while the ring is busy
	}
	return nil
}

// noEvents is the global asleep of programs that send no events; setting it does nothing.
type noEvents struct{}

func (noEvents) Set(any) error { return nil }

// peek passes on the unread records from a position on, and returns the position after the last.
func (s *source) peek(from uint64, look func([]byte) bool) uint64 {
	for _, r := range s.queue {
		if r != nil && !look(r) {
			return from
		}
	}
	return s.ring.Peek(from, look)
}

// pause waits like wait, even if records are available.
func (s *source) pause(d time.Duration) { s.ring.Pause(d) }

// waiting reports whether records are available.
func (s *source) waiting() bool { return len(s.queue) > 0 || s.ring.Waiting() }

// wait waits for records, until a program or wake ends it, for at most the given time.
func (s *source) wait(d time.Duration) error { return s.ring.Wait(d) }

// sleep waits for the next record, of programs that wake the reader.
func (s *source) sleep(d time.Duration) error { return s.ring.Sleep(d) }

// maxAhead bounds the records that a lookahead buffers.
const maxAhead = 1024

// verdict is the result of a lookahead for a record.
type verdict int

const (
	skipRecord  verdict = iota // continue with the next record
	takeRecord                 // found: remove this record from the queue
	stopLooking                // the wanted record cannot come before this one
)

// ahead passes the following records to decide, in order, and reports whether one was consumed. It
// waits for a short time for records that are still being written.
func (s *source) ahead(wait time.Duration, decide func([]byte) verdict) bool {
	for i, r := range s.queue {
		if r == nil {
			continue
		}
		switch decide(r) {
		case takeRecord:
			s.queue[i] = nil
			return true
		case stopLooking:
			return false
		}
	}
	for end := time.Now().Add(wait); len(s.queue) < maxAhead; {
		r := s.ring.Next()
		if r == nil {
			left := time.Until(end)
			if left <= 0 || s.wait(left) != nil {
				return false
			}
			continue
		}
		v := decide(r)
		if v == takeRecord {
			return true
		}
		s.queue = append(s.queue, append([]byte(nil), r...))
		if v == stopLooking {
			return false
		}
	}
	return false
}

// discard drops the content of the buffer.
func (s *source) discard() {
	s.queue = nil
	for s.ring.Next() != nil {
	}
}

// wake ends a wait.
func (s *source) wake() { s.ring.Wake() }

func (s *source) close() { s.ring.Close() }
