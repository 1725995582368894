package attach

import (
	"io"
	"sync"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Detach ends the programs of links: when it returns none of them runs, or will.
// What it gives is left to close, which may take long: the kernel frees the perf
// events of tracepoints, kprobes and uprobes one after another, and waits for a
// grace period, tens of milliseconds, with each (event_mutex and
// tracepoint_synchronize_unregister in perf_trace_destroy). A link to such an
// event (5.15) can be closed before it, and this many at a time.
func Detach(links []io.Closer) (events []io.Closer) {
	var mu sync.Mutex
	closeAll(links, func(l io.Closer) {
		event := eventOf(l)
		l.Close()
		if event != nil {
			mu.Lock()
			events = append(events, event)
			mu.Unlock()
		}
	})
	if len(events) > 0 && waitForPrograms() != nil {
		CloseAll(events) // which waits for them, too
		return nil
	}
	return events
}

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

// eventOf is the perf event of a link, which lives on when the link is closed, or
// nil: of a program that is not linked to its event but a part of it (before
// 5.15) closing the event is the only end.
func eventOf(l io.Closer) io.Closer {
	pe, ok := l.(link.PerfEvent)
	if !ok {
		return nil
	}
	if _, err := l.(link.Link).Info(); err != nil {
		return nil
	}
	f, err := pe.PerfEvent()
	if err != nil {
		return nil
	}
	return f
}

// waitForPrograms waits until no program runs that began before: membarrier with
// MEMBARRIER_CMD_GLOBAL (4.16) is synchronize_rcu. Kernels with processors that
// take no ticks refuse it.
func waitForPrograms() error {
	const global = 1
	if _, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
