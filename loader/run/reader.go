// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"time"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/format"
)

// reader reads the events of a run and has them handled, until something ends the run.
type reader struct {
	*session
	events    *source
	poller    poller
	lookahead uint64 // position up to which the ring buffer was searched for exit()
}

// tickEvents is the number of consecutive events after which the run checks for other due work.
const tickEvents = 1024

// readEvents handles events as they come.
func (r *reader) readEvents() error {
	// With GOMAXPROCS 1, a wait begins and ends on one thread. With more, the runtime wakes other
	// threads to look for work, which costs several times as much.
	if _, ok := r.opts.ownProcess(); ok {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	onlyVirtual := len(r.links.all) == 0 && !hasKind(r.expansion, probe.Self)
	handled := 0 // since the last wait
	flushed := time.Now()
	for !r.end.stopped() && !r.replaced.Load() && !r.msg.printer.failed.Load() { // finish reports the failure
		n := r.batch()
		handled += n
		if n < tickEvents || time.Since(flushed) >= longRest { // also when events arrive without a pause
			r.front.Out.Idle()
			flushed = time.Now()
		}
		r.tick()
		if n == tickEvents || r.end.stopped() {
			continue
		}
		if err := r.poller.wait(r.events, handled, r.watches()); err != nil {
			return err
		}
		handled = 0
		if r.events.waiting() {
			continue
		}
		if onlyVirtual {
			r.child.Linger()
			return nil
		}
		if r.targets.unwatched && !r.targets.anyRuns() {
			return nil
		}
	}
	if !r.end.exited && r.snapshots.requested.Load() { // requested just before the end
		r.snapshot(time.Now())
	}
	return nil
}

// batch handles up to tickEvents records and returns their number. It handles none while the
// printer has no room for their output.
func (r *reader) batch() (n int) {
	defer r.recoverPanic()
	for n < tickEvents && !r.end.stopped() && r.awaitRoom(true) {
		record := r.events.next()
		if record == nil {
			return n
		}
		n++
		r.handle(record)
	}
	return n
}

// recoverPanic, when deferred, turns a panic into an error of the current event.
func (r *reader) recoverPanic() {
	if x := recover(); x != nil {
		pos := manifest.Pos{}
		if e := r.front.event.Event; e != nil {
			pos = e.Pos
		}
		r.msg.internalError(pos, fmt.Errorf("internal error: %v", x))
	}
}

// handle processes a record. Handlers must not retain the event or its values.
func (r *reader) handle(record []byte) {
	w := r.front
	e := &w.event
	if err := e.Read(r.manifest, record); err != nil {
		r.msg.warn(fmt.Sprintf("WARNING: %v", err))
		return
	}
	defer r.end.count(e.Kind, r.opts.MaxEvents)
	if showing[e.Kind] {
		r.reasons.heard()
	}
	if r.table.deferred[e.ID] {
		if e.Kind == "errorf" {
			r.end.errors++
		}
		w.postpone(e, record)
		return
	}
	r.table.handlers[e.ID](w, e)
}

// handleOne handles a record. A panic is reported as an error of that record.
func (r *reader) handleOne(record []byte) {
	defer r.recoverPanic()
	r.handle(record)
}

// isExit reports whether a record is an exit().
func (r *reader) isExit(record []byte) bool {
	if len(record) < 8 {
		return false
	}
	id := binary.NativeEndian.Uint32(record)
	return int64(id) < int64(len(r.manifest.Events)) && r.manifest.Events[id].Kind == "exit"
}

// awaitRoom waits while the printer has a backlog (backpressure). It acts at once on an exit() that
// arrives in the ring buffer in the meantime. It reports whether there is room; with stoppable it does
// not wait if the run is about to end.
func (r *reader) awaitRoom(stoppable bool) bool {
	for r.msg.printer.full() && !r.msg.printer.failed.Load() {
		if stoppable && r.end.interrupted() {
			return false
		}
		r.front.Out.Idle()
		r.lookahead = r.events.peek(r.lookahead, func(record []byte) bool {
			if r.isExit(record) {
				r.links.detach()
			}
			return true
		})
		r.msg.printer.blocked.Store(true)
		if r.msg.printer.full() {
			r.events.pause(longRest)
			r.tick()
		}
	}
	return true
}

// watches reports whether the run must poll something besides events and losses.
func (r *reader) watches() bool {
	return r.monitor.alarms == nil && (len(r.opts.PIDs) > 0 || r.names.watch() != nil) || r.opts.Why && r.child != nil
}

// exitPending reports whether the ring buffer has an exit. The programs of begin run on the calling
// thread, so their records are finished.
func (r *reader) exitPending() (found bool) {
	r.events.peek(0, func(record []byte) bool {
		found = r.isExit(record)
		return !found
	})
	return found
}

// exitAhead reports whether there is an exit among the pending events.
func (r *reader) exitAhead() bool {
	found := false
	r.events.ahead(0, func(record []byte) verdict {
		ev, err := format.DecodeEvent(r.manifest, record)
		if err != nil || ev.Kind != "exit" {
			return skipRecord
		}
		found = true
		return stopLooking
	})
	return found
}

// drain handles the records left in the buffer, up to an exit().
func (r *reader) drain() {
	for more := true; more; {
		more = r.drainBatch()
	}
}

// drainBatch handles some of the records. It reports whether there may be more after an error.
func (r *reader) drainBatch() (more bool) {
	defer r.recoverPanic()
	more = true
	for !r.end.exited && r.awaitRoom(false) {
		record := r.events.last()
		if record == nil {
			break
		}
		r.handle(record)
	}
	return false
}

// runEnd runs the end programs and handles their records. Records after an exit() are dropped:
// attached programs may still send some while they are being detached. Records of the end programs
// are dropped only after one of them calls exit() itself.
func (r *reader) runEnd() error {
	if !r.end.exited {
		r.drain()
	}
	r.events.discard()
	r.front.later(0, manifest.Pos{}, func(w *writer) { w.ending = true })
	exited := r.end.exited
	r.end.exited = false
	err := r.runVirtual(probe.End)
	r.drain()
	r.events.discard()
	r.end.exited = r.end.exited || exited
	return err
}
