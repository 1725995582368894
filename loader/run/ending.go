// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ending is what ends a run, and its status. There are external reasons (stop: the user, the timeout, the exit of a
// traced process, the budget), which any goroutine may have, and the script's exit(), which the event reader handles.
type ending struct {
	wake     func()                 // ends a wait of the event reader; nil before there is one
	events   atomic.Pointer[source] // what the reader waits for
	stopping chan struct{}
	once     sync.Once

	hurry   chan struct{} // closed when operations that block the printer are canceled
	hurried sync.Once
	expired atomic.Bool // no more commands are started
	// unwritten means that the last document could not be written.
	unwritten atomic.Bool
	// unstarted is the number of commands that came too late to start; the printer counts them.
	unstarted int

	// The event reader's.
	exited bool   // an exit event was handled
	early  bool   // a begin program called exit(), so that nothing else was attached
	status int    // of exit()
	errors int    // run-time errors and errorf() of the current test
	shown  uint64 // events with output
}

func newEnding() *ending {
	return &ending{stopping: make(chan struct{}), hurry: make(chan struct{})}
}

// stop ends the event loop; any goroutine may call it.
func (e *ending) stop() {
	e.once.Do(func() {
		close(e.stopping)
		if e.wake != nil {
			e.wake()
		}
	})
}

// wakes makes stop end the waits for a source.
func (e *ending) wakes(events *source) {
	if e.events.Swap(events) == nil {
		e.wake = func() { e.events.Load().wake() }
	}
}

// interrupted reports whether there is an external reason to end the run; any goroutine may call it.
func (e *ending) interrupted() bool {
	select {
	case <-e.stopping:
		return true
	default:
		return false
	}
}

// stopped reports whether the run is about to end.
func (e *ending) stopped() bool { return e.exited || e.interrupted() }

// exit is the script's exit().
func (e *ending) exit(status int) { e.exited, e.status = true, status }

// showing is the set of event kinds that write output.
var showing = map[string]bool{
	"printf":    true,
	"print":     true,
	"print_map": true,
	"time":      true,
	"join":      true,
	"cat":       true,
	"system":    true,
}

// count counts the events with output that were handled. The last one that the user asked for (0: no limit) ends the
// run as exit() does.
func (e *ending) count(kind string, most uint64) {
	if most == 0 || e.exited || !showing[kind] {
		return
	}
	if e.shown++; e.shown == most {
		e.exited = true
	}
}

// after stops the run after a time; 0 means never. The returned function cancels it.
func (e *ending) after(timeout time.Duration) (cancel func()) {
	if timeout == 0 {
		return func() {}
	}
	t := time.AfterFunc(timeout, e.stop)
	return func() { t.Stop() }
}

// commandTime is how long after the end of a run queued commands of system() are still started. A
// script that runs one at each context switch leaves thousands in the queue, and the user who ended
// the run waits for them. It is also how long a running command may still take, and how long cat()
// may block.
const commandTime = time.Second

// limitCommands starts no more commands after commandTime. With cancel it also cancels the operation that then blocks
// the printer.
func (e *ending) limitCommands(cancel bool) {
	time.AfterFunc(commandTime, func() {
		e.expired.Store(true)
		if cancel {
			e.cancel()
		}
	})
}

// cancel cancels operations that block the printer.
func (e *ending) cancel() { e.hurried.Do(func() { close(e.hurry) }) }

// howToEnd describes what ends the run.
func (s *session) howToEnd() string {
	text := "Ctrl-C ends the run"
	switch {
	case s.opts.Timeout > 0:
		text = fmt.Sprintf("ends after %v; Ctrl-C ends the run earlier", s.opts.Timeout)
	case s.opts.FollowForks:
		text = "ends with the last process that is followed; Ctrl-C ends the run earlier"
	case s.child != nil:
		text = "ends with the command; Ctrl-C ends the run earlier"
	case len(s.opts.PIDs) == 1:
		text = "ends with the process; Ctrl-C ends the run earlier"
	case len(s.opts.PIDs) > 1:
		text = "ends with the last of the processes; Ctrl-C ends the run earlier"
	case len(s.opts.Cgroups) > 0:
		text = "ends when the cgroup is removed; Ctrl-C ends the run earlier"
	}
	if s.manifest.Config.PrintMapsOnExit && len(s.maps.scripts()) > 0 {
		text += " and prints the maps"
	}
	return text
}
