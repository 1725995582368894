// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// session records how signals control it.
type session struct {
	self  bool
	calls []string
}

func (s *session) RunSelf() bool {
	if s.self {
		s.calls = append(s.calls, "self")
	}
	return s.self
}
func (s *session) PrintMaps()       { s.calls = append(s.calls, "snapshot") }
func (s *session) Stop()            { s.calls = append(s.calls, "stop") }
func (s *session) RestoreTerminal() { s.calls = append(s.calls, "restore") }

// TestHandleSignals: SIGUSR1 waits for the attachment, and is not lost if a signal to end follows at
// once. A copy of that signal does nothing.
func TestHandleSignals(t *testing.T) {
	for _, c := range []struct {
		self     bool
		attached string // "before" or "during" the signals, or "never"
		signals  []os.Signal
		want     []string
	}{
		{false, "before", []os.Signal{unix.SIGUSR1, unix.SIGUSR1, unix.SIGINT, unix.SIGINT}, []string{"snapshot", "snapshot", "stop"}},
		{true, "before", []os.Signal{unix.SIGUSR1, unix.SIGTERM, unix.SIGHUP}, []string{"self", "stop"}},
		{false, "during", []os.Signal{unix.SIGUSR1, unix.SIGINT}, []string{"snapshot", "stop"}},
		{false, "never", []os.Signal{unix.SIGUSR1, unix.SIGINT}, []string{"stop"}},
	} {
		for range 100 { // each order in which a select may see the channels
			s, signals, attached := &session{self: c.self}, make(chan os.Signal), make(chan struct{})
			if c.attached == "before" {
				close(attached)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				handleSignals(s, signals, attached, nil)
			}()
			for _, sig := range c.signals {
				if c.attached == "during" && sig == unix.SIGINT {
					close(attached)
				}
				signals <- sig
			}
			close(signals)
			<-done
			if got := s.calls; !slices.Equal(got, c.want) {
				t.Fatalf("%v, attached %s: %q, want %q", c.signals, c.attached, got, c.want)
			}
		}
	}
}
