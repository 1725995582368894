// SPDX-License-Identifier: Apache-2.0

package perfring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Output reads what programs write to a perf event array. Flush and Stop may be called by other goroutines than
// the one that reads.
type Output struct {
	Lost uint64 // records that did not fit in the buffers, as far as Next has seen

	rings  []*Ring
	left   int    // rings that have not been read since the last wait
	buf    []byte // the last record
	last   bool   // Flush was called before the last wait ended
	state  atomic.Uint32
	epoll  int
	event  int // eventfd that ends waiting
	lock   sync.Mutex
	closed bool
}

// States of an Output.
const (
	reading = iota
	flushed
	stopped
)

// OpenOutput gives each online CPU a buffer of size bytes in a map of type BPF_MAP_TYPE_PERF_EVENT_ARRAY, which must
// stay open until Close.
func OpenOutput(m *ebpf.Map, size int) (*Output, error) {
	o := &Output{epoll: -1, event: -1}
	if err := o.open(m, size); err != nil {
		o.Close()
		return nil, err
	}
	return o, nil
}

func (o *Output) open(m *ebpf.Map, size int) error {
	var err error
	if o.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create", err)
	}
	if o.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	if err := o.poll(o.event); err != nil {
		return err
	}
	for cpu := range int(m.MaxEntries()) {
		r, err := Open(&unix.PerfEventAttr{
			Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_BPF_OUTPUT, Sample_type: unix.PERF_SAMPLE_RAW,
			Bits: unix.PerfBitWatermark, Wakeup: 1, // each record wakes the reader
		}, cpu, size)
		if errors.Is(err, unix.ENODEV) { // the CPU is offline
			continue
		}
		if err != nil {
			return fmt.Errorf("CPU %d: %w", cpu, err)
		}
		o.rings = append(o.rings, r)
		if err := o.poll(r.FD); err != nil {
			return err
		}
		// The kernel takes the entry of the CPU's number (BPF_F_CURRENT_CPU).
		if err := m.Put(uint32(cpu), uint32(r.FD)); err != nil {
			return fmt.Errorf("CPU %d: %w", cpu, err)
		}
	}
	return nil
}

func (o *Output) poll(fd int) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(o.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}))
}

// Next returns the next sample, waiting for one. It is valid until the next call, and may end with up to 7 bytes of
// padding. The error is io.EOF after Stop, and after Flush when the buffers are empty.
func (o *Output) Next() ([]byte, error) {
	for o.state.Load() != stopped {
		for o.left > 0 {
			rec, err := o.rings[o.left-1].Next(o.buf)
			if err == io.EOF {
				o.left--
				continue
			}
			if err != nil {
				return nil, err
			}
			o.buf = rec.Body
			if s := o.sample(&rec); s != nil {
				return s, nil
			}
		}
		if o.last {
			break
		}
		if err := o.wait(); err != nil {
			return nil, err
		}
		o.last = o.state.Load() == flushed
		for _, r := range o.rings {
			r.Load()
		}
		o.left = len(o.rings)
	}
	return nil, io.EOF
}

// sample returns the data of a PERF_RECORD_SAMPLE, and counts losses: reported ones, and records whose length did not
// fit in the 16 bits of their header.
func (o *Output) sample(r *Record) []byte {
	switch {
	case r.Kind == unix.PERF_RECORD_LOST && len(r.Body) >= 16: // the event's ID and the number
		o.Lost += binary.NativeEndian.Uint64(r.Body[8:])
	case r.Kind == unix.PERF_RECORD_SAMPLE:
		if len(r.Body) >= 4 {
			if n := uint64(binary.NativeEndian.Uint32(r.Body)); n <= uint64(len(r.Body)-4) {
				return r.Body[4 : 4+n]
			}
		}
		o.Lost++
	}
	return nil
}

// wait waits for a record, Flush or Stop. The wait occupies a thread: in the runtime's poller, an epoll instance of
// perf events would miss wake-ups, because polling an event clears its readiness.
func (o *Output) wait() error {
	var events [8]unix.EpollEvent // readiness of others ends the next wait
	for {
		if _, err := unix.EpollWait(o.epoll, events[:], -1); err != unix.EINTR {
			return os.NewSyscallError("epoll_wait", err)
		}
	}
}

// Flush makes Next return what is in the buffers, and then io.EOF.
func (o *Output) Flush() { o.end(flushed) }

// Stop makes Next return io.EOF.
func (o *Output) Stop() { o.end(stopped) }

func (o *Output) end(state uint32) {
	o.lock.Lock()
	defer o.lock.Unlock()
	if !o.closed {
		o.state.Store(max(state, o.state.Load()))
		unix.Write(o.event, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// Close frees the buffers. Next may not be running.
func (o *Output) Close() {
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.closed {
		return
	}
	o.closed = true
	o.state.Store(stopped)
	for _, r := range o.rings {
		r.Close()
	}
	for _, fd := range []int{o.epoll, o.event} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
