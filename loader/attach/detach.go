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

// Detach stops the programs of links: when it returns none of them is running or will run. The kernel then frees the
// events, and free waits for that. For each tracepoint, kprobe and uprobe the kernel waits for two grace periods,
// tens of milliseconds each: when a program is detached (perf_event_detach_bpf_prog, 6.13) and, one event after
// another, when its event is freed (event_mutex and tracepoint_synchronize_unregister in perf_trace_destroy). A link
// to such an event (5.15) can be closed before the event, and many links at a time.
func Detach(links []io.Closer) (free func()) {
	var out sync.WaitGroup // programs that may still start
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
		free() // closing an event also waits
	}
	return free
}

// closeLink closes a link, and calls out when its program no longer starts: long before closing has finished, if the
// kernel reports which programs event has. event may be nil.
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
	for attempt := int64(1); runsAt(event, prog) && !isClosed(closed); attempt++ {
		// Not a Go timer, which may be delayed while the close occupies its processor.
		unix.Nanosleep(&unix.Timespec{Nsec: min(attempt, 20) * 50_000}, nil)
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
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, event.Fd(), unix.PERF_EVENT_IOC_QUERY_BPF,
		uintptr(unsafe.Pointer(&query)))
	return errno == 0 && slices.Contains(query.ids[:min(query.n, maxPrograms)], uint32(prog))
}

// maxPrograms is the maximum number of programs of an event (BPF_TRACE_MAX_PROGS).
const maxPrograms = 64

// CloseAll closes many at a time, because most of the time is spent waiting.
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

// eventOf returns the perf event of a link, which outlives the link, and the program; nil if the program is attached
// without a link (before 5.15), so that only closing the event detaches it.
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

// WaitForPrograms waits until no program runs that began before: membarrier with MEMBARRIER_CMD_GLOBAL (4.16) is
// synchronize_rcu. Kernels with nohz_full processors refuse it.
func WaitForPrograms() error {
	const global = 1
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
