// SPDX-License-Identifier: Apache-2.0

// Package ring reads a BPF ring buffer (BPF_MAP_TYPE_RINGBUF, Linux 5.8) in place: records are not copied, and their
// space is released to the kernel in batches, so that a record costs a few nanoseconds. Only a window of the data is
// mapped, because mapped pages count as memory of the process.
//
// It is our own code and adds 5 KB to btrun: the reader of cilium/ebpf adds 20 KB, copies each record, releases each
// record separately, and has no wake-up on demand.
//
// It takes the map's file descriptor and returns the records in order. A wait ends with a wake-up by the programs,
// after a timeout, or by Wake.
package ring

import (
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Parts of a record's first word and the length of its header
// (include/uapi/linux/bpf.h).
const (
	busyBit    = 1 << 31
	discardBit = 1 << 30
	headerSize = 8
)

// windowSize is the size of the mapped window in bytes.
const windowSize = 1 << 20

// Reader reads one ring buffer. Only Wake may be called by other goroutines.
type Reader struct {
	fd         int    // descriptor of the map; -1: nothing to read
	cons, prod []byte // mapped pages: the positions of the reader and of the programs
	size       uint64
	window     []byte // the mapped part of the data
	start      uint64 // offset of the window in the data
	span       uint64 // usual length of the window
	at         uint64 // the position after the last record returned
	released   uint64 // the position up to which space was released to the programs
	limit      uint64 // the programs' position when last read
	busy       bool   // the next record is being written
	err        error  // error of mapping a window

	file   *os.File // an epoll instance with the ring buffer, timer and event
	conn   syscall.RawConn
	epoll  int
	timer  int
	event  int // eventfd that Wake writes to
	lock   sync.Mutex
	closed bool
}

// Open maps the ring buffer fd of size bytes, a power of two. fd stays the caller's. Without a ring buffer (fd < 0)
// there is nothing to read, but waiting still works.
func Open(fd, size int) (*Reader, error) {
	r := &Reader{fd: fd, size: uint64(size), span: windowSize, epoll: -1, timer: -1, event: -1}
	if err := r.open(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Reader) open() error {
	if err := r.openPoll(); err != nil || r.fd < 0 {
		return err
	}
	page, size := os.Getpagesize(), int(r.size)
	if size < page || size&(size-1) != 0 {
		return fmt.Errorf("a ring buffer of %d bytes", size)
	}
	var err error
	if r.cons, err = unix.Mmap(r.fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	if r.prod, err = unix.Mmap(r.fd, int64(page), page, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	r.at = atomic.LoadUint64(position(r.cons))
	r.released, r.limit = r.at, r.at
	return r.move(r.at&(r.size-1), headerSize)
}

// openPoll creates the descriptor for waiting. It is an epoll instance in the runtime's poller, so that a wait does
// not occupy a thread. The timeout is a kernel timer, because a timer of the Go runtime would keep waking the
// runtime's monitor thread.
func (r *Reader) openPoll() error {
	var err error
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create", err)
	}
	if err := unix.SetNonblock(r.epoll, true); err != nil { // required for the runtime to poll it
		return os.NewSyscallError("fcntl", err)
	}
	r.file = os.NewFile(uintptr(r.epoll), "ring buffer")
	if r.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	if r.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	for _, fd := range []int{r.event, r.timer, r.fd} {
		if fd < 0 {
			continue
		}
		// Edge-triggered: only a wake-up ends a wait, not the mere presence of records, and the event and the timer
		// need not be read.
		edge := &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}
		if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, edge); err != nil {
			return os.NewSyscallError("epoll_ctl", err)
		}
	}
	r.conn, err = r.file.SyscallConn()
	return err
}

// woken consumes pending wake-ups, and reports whether there were any. The system call does
// not block, and bypasses the runtime.
func (r *Reader) woken() bool {
	var events [3]unix.EpollEvent
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(r.epoll), uintptr(unsafe.Pointer(&events[0])),
		uintptr(len(events)), 0, 0, 0)
	return errno == 0 && n > 0
}

// setTimer makes the timer end a wait.
func (r *Reader) setTimer(d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(d), 1))}
	at := uintptr(unsafe.Pointer(&spec))
	if _, _, errno := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(r.timer), 0, at, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("timerfd_settime", errno)
	}
	return nil
}

// position returns the word at the start of a mapped page: an unsigned long, of 64
// bits on the machines that we run on.
func position(page []byte) *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(page))) }

// move maps a window with at least n bytes of the data from offset off. The kernel maps the data twice in a row, so
// that a window may extend past the end.
func (r *Reader) move(off, n uint64) error {
	page := uint64(os.Getpagesize())
	start := off &^ (page - 1)
	length := min(max(r.span, (off-start+n+page-1)&^(page-1)), 2*r.size-start)
	if r.window != nil {
		unix.Munmap(r.window)
		r.window = nil
	}
	w, err := unix.Mmap(r.fd, int64(2*page+start), int(length), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	r.window, r.start = w, start
	return nil
}

// view returns n bytes of the data at a position; nil after an error.
func (r *Reader) view(at, n uint64) []byte {
	off := at & (r.size - 1)
	rel := (off - r.start) & (r.size - 1)
	if rel+n > uint64(len(r.window)) {
		if n > r.size { // no kernel writes such a length
			return nil
		}
		if r.err = r.move(off, n); r.err != nil {
			return nil
		}
		rel = off - r.start
	}
	return r.window[rel : rel+n : rel+n]
}

// head returns the first word of the record at a position. It is loaded atomically: the
// kernel sets it last.
func (r *Reader) head(at uint64) (uint32, bool) {
	b := r.view(at, headerSize)
	if b == nil {
		return 0, false
	}
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b)))), true
}

// Next returns the next record, or nil if there is none. It is valid until the next
// call of a method.
func (r *Reader) Next() []byte {
	for r.prod != nil && r.err == nil {
		if r.at == r.limit {
			if r.limit = atomic.LoadUint64(position(r.prod)); r.at == r.limit {
				r.release()
				return nil
			}
		}
		head, ok := r.head(r.at)
		if r.busy = head&busyBit != 0; r.busy || !ok {
			r.release()
			return nil
		}
		if r.at-r.released >= r.size/8 {
			r.release()
		}
		n := uint64(head &^ (busyBit | discardBit))
		from := r.at + headerSize
		r.at = from + (n+7)&^7
		if head&discardBit == 0 {
			return r.view(from, n)
		}
	}
	return nil
}

// Peek shows the finished records that Next has not returned yet, from a position on, until
// look returns false; it returns where they end. Position 0 is where Next is.
func (r *Reader) Peek(from uint64, look func([]byte) bool) (to uint64) {
	from = max(from, r.at)
	if r.prod == nil {
		return from
	}
	for limit := atomic.LoadUint64(position(r.prod)); from != limit && r.err == nil; {
		head, ok := r.head(from)
		if !ok || head&busyBit != 0 {
			break
		}
		n := uint64(head &^ (busyBit | discardBit))
		if head&discardBit == 0 && !look(r.view(from+headerSize, n)) {
			break
		}
		from += headerSize + (n+7)&^7
	}
	return from
}

// Busy reports whether Next returned nil because a program still writes the next record.
func (r *Reader) Busy() bool { return r.busy }

// Waiting reports whether there is a record, finished or not.
func (r *Reader) Waiting() bool {
	return r.prod != nil && r.at != atomic.LoadUint64(position(r.prod))
}

// release releases the space of consumed records to the programs.
func (r *Reader) release() {
	if r.released != r.at {
		atomic.StoreUint64(position(r.cons), r.at)
		r.released = r.at
	}
}

// busyWait is how long to wait if the next record is being written, because programs may not wake the reader when it
// is finished.
const busyWait = time.Millisecond

// Wait waits until the programs wake the reader, at most the given time, or until Wake is
// called. Records may be available without a wake-up.
func (r *Reader) Wait(d time.Duration) error { return r.wait(d, r.size/8) }

// Sleep is like Wait, for programs that wake the reader when a record becomes the first unread
// one: it does not wait if a finished record is available.
func (r *Reader) Sleep(d time.Duration) error { return r.wait(d, 1) }

// Pause is like Wait, for a reader that does not consume records, however many there are.
func (r *Reader) Pause(d time.Duration) error { return r.wait(d, math.MaxUint64) }

// wait does not block if enough bytes of records are available, because the previous wait may have consumed their
// wake-up.
func (r *Reader) wait(d time.Duration, enough uint64) error {
	if r.prod != nil {
		r.release()
	}
	if r.err != nil {
		return r.err
	}
	if r.busy {
		d = min(d, busyWait)
	}
	if err := r.setTimer(d); err != nil {
		return err
	}
	return r.conn.Read(func(uintptr) bool { return r.woken() || r.prod != nil && r.unread() >= enough })
}

// unread returns the length of the records that Next has not returned; 0 when the first
// of them is being written.
func (r *Reader) unread() uint64 {
	n := atomic.LoadUint64(position(r.prod)) - r.at
	if n == 0 {
		return 0
	}
	if head, ok := r.head(r.at); !ok || head&busyBit != 0 {
		return 0
	}
	return n
}

// Wake ends a wait, now or the next one.
func (r *Reader) Wake() {
	r.lock.Lock()
	defer r.lock.Unlock()
	if !r.closed {
		unix.Write(r.event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// Close frees all resources; records returned before become invalid.
func (r *Reader) Close() {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	for _, m := range [][]byte{r.cons, r.prod, r.window} {
		if m != nil {
			unix.Munmap(m)
		}
	}
	r.cons, r.prod, r.window = nil, nil, nil
	if r.file != nil {
		r.file.Close()
	}
	for _, fd := range []int{r.timer, r.event} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
