// SPDX-License-Identifier: Apache-2.0

package run

import (
	"btc/internal/manifest"
	"btc/internal/probe"
)

// drain handles the records left in the buffer, up to an exit().
func (s *session) drain() {
	for more := true; more; {
		more = s.drainBatch()
	}
}

// drainBatch handles some of the records. It reports whether there may be more after an error.
func (s *session) drainBatch() (more bool) {
	defer s.recoverPanic()
	more = true
	for !s.exited && s.awaitRoom(false) {
		record := s.events.last()
		if record == nil {
			break
		}
		s.handle(record)
	}
	return false
}

// end runs the end programs and handles their records. Records after an exit() are dropped:
// attached programs may still send some while they are being detached. Records of the end programs
// are dropped only after one of them calls exit() itself.
func (s *session) end() error {
	if !s.exited {
		s.drain()
	}
	s.events.discard()
	s.front.later(0, manifest.Pos{}, func(w *writer) { w.ending = true })
	exited := s.exited
	s.exited = false
	err := s.runVirtual(probe.End)
	s.drain()
	s.events.discard()
	s.exited = s.exited || exited
	return err
}
