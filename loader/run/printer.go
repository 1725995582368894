// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"btc/loader/output"
)

// printer writes the output and runs slow jobs (system(), cat(), symbolization, whole maps) on a
// goroutine of its own, in script order, so that the event reader does not wait for them. The queue
// of output and jobs is bounded by the reader, which stops reading while full reports true. Then
// events queue up in the ring buffer (backpressure), and records that do not fit there are counted
// as lost.
type printer struct {
	w       io.Writer
	fd      uintptr
	regular bool // w is a regular file, which accepts writes without blocking
	pipe    int  // capacity of the pipe w; 0: not a pipe

	mu     sync.Mutex
	cond   sync.Cond
	items  []item
	size   int    // size of the items
	busy   bool   // an item is being processed
	closed bool   // no more items will come
	err    error  // first write error; nothing is written after it
	queued uint64 // items queued so far
	done   uint64 // items done so far
	ended  chan struct{}

	failed  atomic.Bool // err is set
	writing atomic.Bool // the output has not yet accepted a text
	blocked atomic.Bool // the reader waits for room
	wake    func()      // ends the reader's wait
}

// item is output to write or a job to run.
type item struct {
	text []byte
	job  func()
	size int
}

// Limits of the queue.
const (
	maxQueued      = 4 << 20 // bytes
	maxQueuedItems = 4096
	itemOverhead   = 64
	kickItems      = 64 // number of items at which the printer is woken at the latest
)

// pipeSize is the capacity of an output pipe. The default of 64 KiB holds a millisecond of output
// at full speed, and its reader may not be scheduled for longer than that.
const pipeSize = 1 << 20

// newPrinter starts a printer. It calls wake to end the wait of an event reader that waits for
// room.
func newPrinter(w io.Writer, wake func()) *printer {
	p := &printer{w: w, wake: wake, ended: make(chan struct{})}
	p.cond.L = &p.mu
	if f, ok := w.(*os.File); ok {
		var st unix.Stat_t
		p.fd = f.Fd()
		p.regular = unix.Fstat(int(p.fd), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
		unix.FcntlInt(p.fd, unix.F_SETPIPE_SZ, pipeSize) // fails unless w is a pipe
		if n, err := unix.FcntlInt(p.fd, unix.F_GETPIPE_SZ, 0); err == nil {
			p.pipe = n
		}
	}
	go p.run()
	return p
}

// put queues output and returns a buffer for more. kick also wakes the printer.
func (p *printer) put(text []byte, kick bool) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(text) > 0 && len(p.items) == 0 && !p.busy && p.ready(len(text)) {
		p.writeNow(text)
		return text[:0]
	}
	next := text[:0]
	last := len(p.items) - 1
	switch {
	case len(text) == 0:
	case last >= 0 && p.items[last].job == nil && len(p.items[last].text)+len(text) <= output.Fill:
		p.items[last].text = append(p.items[last].text, text...)
		p.items[last].size += len(text)
		p.size += len(text)
	case len(text) >= output.Fill/4:
		p.add(item{text: text, size: len(text)})
		next = make([]byte, 0, output.Fill+4096)
	default:
		p.add(item{text: append([]byte(nil), text...), size: len(text)})
	}
	if len(p.items) > 0 && (kick || len(p.items) >= kickItems) {
		p.cond.Signal()
	}
	return next
}

// do queues a job that holds size bytes of memory.
func (p *printer) do(size int, job func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(item{job: job, size: size})
	if len(p.items) >= kickItems {
		p.cond.Signal()
	}
}

func (p *printer) add(x item) {
	x.size += itemOverhead
	p.size += x.size
	p.items = append(p.items, x)
	p.queued++
}

// full reports whether the queue is full.
func (p *printer) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size > maxQueued || len(p.items) > maxQueuedItems
}

// progress returns the numbers of items queued and done so far.
func (p *printer) progress() (queued, done uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queued, p.done
}

// run processes the items in order.
func (p *printer) run() {
	defer close(p.ended)
	for {
		p.mu.Lock()
		p.busy = false
		for len(p.items) == 0 {
			if p.items = nil; p.closed {
				p.mu.Unlock()
				return
			}
			p.cond.Wait()
		}
		x := p.items[0]
		p.items[0] = item{}
		p.items, p.busy = p.items[1:], true
		p.mu.Unlock()
		if x.job != nil {
			x.job()
		} else {
			p.write(x.text)
		}
		p.mu.Lock()
		p.size -= x.size
		p.done++
		room := p.size <= maxQueued/2 && len(p.items) <= maxQueuedItems/2
		p.mu.Unlock()
		if room && p.blocked.Swap(false) {
			p.wake()
		}
	}
}

// ready reports whether n bytes can be written without blocking.
func (p *printer) ready(n int) bool {
	if p.err != nil || n > output.Fill/2 {
		return false
	}
	if p.regular || p.pipe == 0 {
		return p.regular
	}
	unread := int32(-1)
	unix.RawSyscall(unix.SYS_IOCTL, p.fd, unix.TIOCINQ, uintptr(unsafe.Pointer(&unread)))
	return unread == 0 && n <= p.pipe // an empty pipe has room, regardless of its page count
}

// writeNow writes as much as w accepts without blocking. The raw system call avoids the runtime's
// preparation for a blocking call, which would wake its monitor thread each time.
func (p *printer) writeNow(text []byte) {
	for len(text) > 0 && p.err == nil {
		n, _, errno := unix.RawSyscall(unix.SYS_WRITE, p.fd, uintptr(unsafe.Pointer(unsafe.SliceData(text))),
			uintptr(len(text)))
		switch {
		case errno == 0:
			text = text[n:]
		case errno != unix.EINTR:
			p.fail(os.NewSyscallError("write", errno))
		}
	}
}

// write writes all of b, however long that takes.
func (p *printer) write(text []byte) {
	if p.failed.Load() || len(text) == 0 {
		return
	}
	p.writing.Store(true)
	_, err := p.w.Write(text)
	p.writing.Store(false)
	if err != nil {
		p.mu.Lock()
		p.fail(err)
		p.mu.Unlock()
	}
}

func (p *printer) fail(err error) {
	if p.err == nil {
		p.err = err
		p.failed.Store(true)
		p.wake()
	}
}

// close waits until all items are done and returns the first write error.
func (p *printer) close() error {
	p.mu.Lock()
	p.closed = true
	p.cond.Signal()
	p.mu.Unlock()
	<-p.ended
	return p.err
}

// guard runs f; a panic in it is reported as an error of that item.
func guard(report func(error), f func()) {
	defer func() {
		if x := recover(); x != nil {
			report(fmt.Errorf("internal error: %v", x))
		}
	}()
	f()
}
