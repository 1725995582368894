// Package ring reads a BPF ring buffer (BPF_MAP_TYPE_RINGBUF, Linux 5.8) where it
// lies: a record is not copied, and its room is given back to the kernel in
// batches, so that a record costs a few nanoseconds.
//
// It takes the map's file descriptor and gives the records in order. A wait ends
// by a wake-up from the programs, by its time, or by Wake; between wake-ups records
// gather, so that a burst costs one turn of the reader and not one for each.
package ring

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
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

// Reader reads one ring buffer. Only Wake may be called by other goroutines.
type Reader struct {
	cons, prod []byte // mapped pages: where we are, where the programs are (then the data)
	data       []byte
	size       uint64
	at         uint64 // the position behind the last record given
	told       uint64 // the position that the kernel knows
	limit      uint64 // the programs' position as seen last
	busy       bool   // the next record is being written
	wrapped    []byte // a record that goes over the end, put together

	epoll, event int // file descriptors
	lock         sync.Mutex
	closed       bool
}

// Open maps the ring buffer fd of size bytes, a power of two. fd stays the
// caller's. Without a ring buffer (fd < 0) there is nothing to read, and waiting
// still works.
func Open(fd, size int) (*Reader, error) {
	r := &Reader{size: uint64(size), epoll: -1, event: -1}
	if err := r.open(fd, size); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Reader) open(fd, size int) error {
	var err error
	if r.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create", err)
	}
	if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, r.event, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	if fd < 0 {
		return nil
	}
	page := os.Getpagesize()
	if size < page || size&(size-1) != 0 {
		return fmt.Errorf("a ring buffer of %d bytes", size)
	}
	if r.cons, err = unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	// The kernel offers the data twice in a row. Once is enough here: the second
	// mapping of a page would count as memory of this process, too.
	if r.prod, err = unix.Mmap(fd, int64(page), page+size, unix.PROT_READ, unix.MAP_SHARED); err != nil {
		return os.NewSyscallError("mmap", err)
	}
	r.data = r.prod[page:]
	r.at = atomic.LoadUint64(position(r.cons))
	r.told, r.limit = r.at, r.at
	// Edge-triggered: only a wake-up ends a wait, not what came without one.
	if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET}); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	return nil
}

// position is the word at the start of a mapped page: an unsigned long, of 64
// bits on the machines that we run on.
func position(page []byte) *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(page))) }

// Next gives the next record, nil when there is none. It is valid until the next
// call of a method.
func (r *Reader) Next() []byte {
	for r.data != nil {
		if r.at == r.limit {
			if r.limit = atomic.LoadUint64(position(r.prod)); r.at == r.limit {
				r.tell()
				return nil
			}
		}
		off := r.at & (r.size - 1)
		// Loaded atomically: the kernel sets it last.
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[off])))
		if r.busy = head&busyBit != 0; r.busy {
			r.tell()
			return nil
		}
		if r.at-r.told >= r.size/8 {
			r.tell()
		}
		n := uint64(head &^ (busyBit | discardBit))
		r.at += headerSize + (n+7)&^7
		if head&discardBit == 0 {
			return r.record((off+headerSize)&(r.size-1), n)
		}
	}
	return nil
}

// Busy tells whether Next gave none because a program still writes the next record.
func (r *Reader) Busy() bool { return r.busy }

// Waiting tells whether a record lies there, finished or not.
func (r *Reader) Waiting() bool {
	return r.data != nil && r.at != atomic.LoadUint64(position(r.prod))
}

// record is n bytes of the data at off; the end of the data goes on at its start.
func (r *Reader) record(off, n uint64) []byte {
	if n > r.size {
		return nil // no kernel writes that
	}
	if off+n <= r.size {
		return r.data[off : off+n : off+n]
	}
	r.wrapped = append(append(r.wrapped[:0], r.data[off:]...), r.data[:off+n-r.size]...)
	return r.wrapped
}

// tell gives the room of what was read back to the programs.
func (r *Reader) tell() {
	if r.told != r.at {
		atomic.StoreUint64(position(r.cons), r.at)
		r.told = r.at
	}
}

// busyWait is how long a wait takes when the next record is being written:
// programs do not tell when they have done.
const busyWait = time.Millisecond

// Wait waits until the programs wake us, at most the given time, or until Wake is
// called. Records may be there without any wake-up.
func (r *Reader) Wait(d time.Duration) error {
	if r.data != nil {
		r.tell()
	}
	switch {
	case r.busy:
		d = min(d, busyWait)
	case r.data != nil && atomic.LoadUint64(position(r.prod))-r.at >= r.size/8:
		d = 0 // a wake-up may have been given while we were busy elsewhere
	}
	ms := (d + time.Millisecond - 1) / time.Millisecond
	var events [2]unix.EpollEvent
	n, err := unix.EpollWait(r.epoll, events[:], int(ms))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("epoll_wait", err)
	}
	if n > 0 {
		var b [8]byte
		unix.Read(r.event, b[:]) // nothing there: it does not wait
	}
	return nil
}

// Wake ends a wait, now or the next one.
func (r *Reader) Wake() {
	r.lock.Lock()
	defer r.lock.Unlock()
	if !r.closed {
		unix.Write(r.event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// Close frees all; records given before are gone.
func (r *Reader) Close() {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	for _, m := range [][]byte{r.cons, r.prod} {
		if m != nil {
			unix.Munmap(m)
		}
	}
	r.data = nil
	for _, fd := range []int{r.epoll, r.event} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
