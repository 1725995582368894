package run

import (
	"fmt"
	"time"

	"btc/loader/event"
)

// commandTime is how long after the end of a run commands of system() that wait
// for their turn are still started. A script that wants one at each context switch
// leaves thousands, and a user who has asked for the end waits for them.
const commandTime = time.Second

// drain handles what the programs have left in the buffer.
func (s *session) drain() {
	late := time.Now().Add(commandTime)
	left := 0
	for record := s.events.last(); record != nil; record = s.events.last() {
		if s.isCommand(record) && time.Now().After(late) {
			left++
			continue
		}
		s.handle(record)
	}
	if left > 0 {
		s.warn(fmt.Sprintf("WARNING: the run was ended before its turn came to %d commands of system(): they are left out", left))
	}
}

// isCommand tells whether a record is a call of system().
func (s *session) isCommand(record []byte) bool {
	e, err := event.Decode(s.manifest, record)
	return err == nil && e.Kind == "system"
}
