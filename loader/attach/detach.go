// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"io"
	"os"
	"slices"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Detach ends the programs of links: when it returns none of them runs, or will.
// The kernel goes on to free, and free waits for that: of each tracepoint, kprobe
// and uprobe it waits for two grace periods, tens of milliseconds each: when a
// program is taken out (perf_event_detach_bpf_prog, 6.13) and, one event after
// another, when its event is freed (event_mutex and
// tracepoint_synchronize_unregister in perf_trace_destroy). A link to such an event
// (5.15) can be closed before it, and this many at a time.
func Detach(links []io.Closer) (free func()) {
	var out sync.WaitGroup // the programs that may still begin
	var mu sync.Mutex
	var events []io.Closer
	freed := make(chan struct{})
	out.Add(len(links))
	go func() {
		defer close(freed)
		closeAll(links, func(l io.Closer) {
			event, prog := eventOf(l)
			if event != nil {
				mu.Lock()
				events = append(events, event)
				mu.Unlock()
			}
			closeLink(l, event, prog, out.Done)
		})
		CloseAll(events)
	}()
	free = func() { <-freed }
	out.Wait() // all events are known then
	if len(events) > 0 && WaitForPrograms() != nil {
		free() // closing an event waits, too
	}
	return free
}

// closeLink closes a link to an event, or to nil, and calls out when the program
// does not begin any more: long before the end, where the kernel tells what
// programs an event has.
func closeLink(l io.Closer, event *os.File, prog ebpf.ProgramID, out func()) {
	if event == nil || !runsAt(event, prog) {
		l.Close()
		out()
		return
	}
	closed := make(chan struct{})
	go func() {
		l.Close()
		close(closed)
	}()
	for turn := int64(1); runsAt(event, prog) && !isClosed(closed); turn++ {
		// Not a Go timer: it may be delayed while the close holds its processor.
		unix.Nanosleep(&unix.Timespec{Nsec: min(turn, 20) * 50_000}, nil)
	}
	out()
	<-closed
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// runsAt reports whether a program is among those of a tracepoint's event (4.16). The
// kernel reports nothing about other events.
func runsAt(event *os.File, prog ebpf.ProgramID) bool {
	var query struct { // struct perf_event_query_bpf
		room, n uint32
		ids     [maxPrograms]uint32
	}
	query.room = maxPrograms
	_, _, errno := unix.Syscall(
		unix.SYS_IOCTL,
		event.Fd(),
		unix.PERF_EVENT_IOC_QUERY_BPF,
		uintptr(unsafe.Pointer(&query)),
	)
	return errno == 0 && slices.Contains(query.ids[:min(query.n, maxPrograms)], uint32(prog))
}

// maxPrograms is how many an event may have (BPF_TRACE_MAX_PROGS).
const maxPrograms = 64

// CloseAll closes many at a time: most of that is waiting.
func CloseAll(all []io.Closer) { closeAll(all, func(c io.Closer) { c.Close() }) }

func closeAll(all []io.Closer, shut func(io.Closer)) {
	const parallel = 32
	var wg sync.WaitGroup
	room := make(chan struct{}, parallel)
	for _, c := range all {
		wg.Add(1)
		room <- struct{}{}
		go func() {
			defer wg.Done()
			shut(c)
			<-room
		}()
	}
	wg.Wait()
}

// eventOf is the perf event of a link, which lives on when the link is closed, and
// the program, or nil: of a program that is not linked to its event but a part of
// it (before 5.15) closing the event is the only end.
func eventOf(l io.Closer) (*os.File, ebpf.ProgramID) {
	pe, ok := l.(link.PerfEvent)
	if !ok {
		return nil, 0
	}
	info, err := l.(link.Link).Info()
	if err != nil {
		return nil, 0
	}
	f, err := pe.PerfEvent()
	if err != nil {
		return nil, 0
	}
	return f, info.Program
}

// WaitForPrograms waits until no program runs that began before: membarrier with
// MEMBARRIER_CMD_GLOBAL (4.16) is synchronize_rcu. Kernels with processors that
// take no ticks refuse it.
func WaitForPrograms() error {
	const global = 1
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
