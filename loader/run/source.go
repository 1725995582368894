package run

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
)

// source gives the records of the events ring buffer in order, with a look ahead
// for what belongs together.
type source struct {
	ring    *ringbuf.Reader // nil: the object sends no events
	queue   [][]byte        // read ahead
	rec     ringbuf.Record
	nothing chan struct{} // wakes a wait without a ring
}

func openSource(m *ebpf.Map) (*source, error) {
	s := &source{nothing: make(chan struct{}, 1)}
	if m == nil {
		return s, nil
	}
	var err error
	if s.ring, err = ringbuf.NewReader(m); err != nil {
		return nil, fmt.Errorf("events ring buffer: %w", err)
	}
	return s, nil
}

// next gives the next record, nil when none comes within the time or wake was
// called. The record is valid until the next call.
func (s *source) next(wait time.Duration) ([]byte, error) {
	if len(s.queue) > 0 {
		r := s.queue[0]
		s.queue = s.queue[1:]
		if r == nil { // taken by a look ahead
			return s.next(wait)
		}
		return r, nil
	}
	return s.read(wait)
}

func (s *source) read(wait time.Duration) ([]byte, error) {
	if s.ring == nil {
		if wait > 0 {
			select {
			case <-time.After(wait):
			case <-s.nothing:
			}
		}
		return nil, nil
	}
	s.ring.SetDeadline(time.Now().Add(wait))
	switch err := s.ring.ReadInto(&s.rec); {
	case err == nil:
		return s.rec.RawSample, nil
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, ringbuf.ErrFlushed):
		return nil, nil
	default:
		return nil, fmt.Errorf("reading events: %w", err)
	}
}

// maxAhead bounds the records that a look ahead keeps.
const maxAhead = 1024

// verdict is what a look ahead thinks of a record.
type verdict int

const (
	passBy verdict = iota // look on
	takeIt                // this is the one: take it out of the queue
	giveUp                // what is looked for cannot come before this one
)

// ahead shows the records that follow to judge, in order, and tells whether one
// was taken. It waits a short time for records that are on their way.
func (s *source) ahead(wait time.Duration, judge func([]byte) verdict) bool {
	for i, r := range s.queue {
		if r == nil {
			continue
		}
		switch judge(r) {
		case takeIt:
			s.queue[i] = nil
			return true
		case giveUp:
			return false
		}
	}
	for end := time.Now().Add(wait); len(s.queue) < maxAhead; {
		r, err := s.read(max(time.Until(end), 0))
		if err != nil || r == nil {
			return false
		}
		v := judge(r)
		if v == takeIt {
			return true
		}
		s.queue = append(s.queue, append([]byte(nil), r...))
		if v == giveUp {
			return false
		}
	}
	return false
}

// discard throws away what is in the buffer.
func (s *source) discard() {
	s.queue = nil
	for {
		if r, err := s.read(0); r == nil || err != nil {
			return
		}
	}
}

// wake ends a wait in next.
func (s *source) wake() {
	if s.ring != nil {
		s.ring.Flush()
		return
	}
	select {
	case s.nothing <- struct{}{}:
	default:
	}
}

func (s *source) close() {
	if s.ring != nil {
		s.ring.Close()
	}
}
