// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Processes choose how long it takes to name their addresses: by the number of their memory mappings, by their files
// and their perf maps. An allowance bounds this time for each process, and another one for all processes of a run. It
// counts CPU time, of this process and of the parser, and time during which a file does not respond.
type allowance struct {
	used time.Duration
	at   time.Time // when used was last reduced
}

// Limits of these times.
const (
	processTime = 6 * time.Second
	runTime     = 30 * time.Second
	regain      = 20 // one second is regained in so many
	// At the end of a run a person waits: endTime is what is left then of runTime, and endWait is the wall clock time.
	endTime = 8 * time.Second
	endWait = 30 * time.Second
	// freeTime is what one reading of a memory map costs nothing: there may be thousands of processes a second.
	freeTime = 2 * time.Millisecond
)

// add adds a cost, and reports whether less than limit is used.
//
//go:noinline
func (a *allowance) add(cost, limit time.Duration, now time.Time) bool {
	if a.used > 0 {
		a.used = max(a.used-now.Sub(a.at)/regain, 0)
	}
	a.at = now
	a.used += cost
	return a.used < limit
}

// maySpend reports whether there is time left for a process. The caller holds t.mu.
func (t *Table) maySpend(tgid uint32) bool {
	now, p := time.Now(), t.procs[tgid]
	which := ""
	switch {
	case !t.ended.IsZero() && (now.Sub(t.ended) > endWait || t.endUsed > endTime):
		which = "processes after the end of the run"
	case !t.spent.add(0, runTime, now):
		which = "all processes"
	case p != nil && !p.spent.add(0, processTime, now):
		which = "a process"
	default:
		return true
	}
	t.warn("WARNING: reading the symbols of " + which + " takes too long: some addresses have no names")
	return false
}

// spend runs f on behalf of a process, and counts the time. It reports whether it ran f. The caller does not hold t.mu.
func (t *Table) spend(tgid uint32, f func()) bool {
	t.mu.Lock()
	may := t.maySpend(tgid)
	t.mu.Unlock()
	if may {
		before := t.parser.used
		cost := threadTime(f)
		t.mu.Lock()
		t.charge(tgid, cost+t.parser.used-before)
		t.mu.Unlock()
	}
	return may
}

// charge counts time that was spent on behalf of a process. The caller holds t.mu.
func (t *Table) charge(tgid uint32, cost time.Duration) {
	if cost <= 0 {
		return
	}
	now := time.Now()
	t.spent.add(cost, 0, now)
	t.endUsed += cost
	if p := t.procs[tgid]; p != nil {
		p.spent.add(cost, 0, now)
	}
}

// threadTime runs f and returns the CPU time that this took on its thread.
//
//go:noinline
func threadTime(f func()) time.Duration {
	runtime.LockOSThread()
	begin := threadClock()
	f()
	cost := threadClock() - begin
	runtime.UnlockOSThread()
	return cost
}

//go:noinline
func threadClock() time.Duration {
	var at unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at)
	return time.Duration(at.Nano())
}

// End limits the time for names from now on, because the run has ended and its user waits. Any goroutine may call it.
func (t *Table) End() {
	if t == nil {
		return
	}
	t.mu.Lock()
	if t.ended.IsZero() {
		t.ended, t.endUsed = time.Now(), 0
	}
	t.mu.Unlock()
}

// overdue reports whether the run ended so long ago that a request must not go on.
func (t *Table) overdue() bool {
	t.mu.Lock()
	ended := t.ended
	t.mu.Unlock()
	return !ended.IsZero() && time.Since(ended) > endWait
}
