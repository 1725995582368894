// SPDX-License-Identifier: Apache-2.0

// Package perfring reads the buffers of perf events: of one event (Ring), and of a perf event array, to which programs
// write with bpf_perf_event_output and bpf_skb_output (Output).
//
// It is our own code: with the reader of cilium/ebpf, btrun is 48 KB larger.
package perfring

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets in struct perf_event_mmap_page, and the length of struct perf_event_header
// (include/uapi/linux/perf_event.h).
const (
	dataHead   = 1024
	dataTail   = 1032
	headerSize = 8
)

// Ring is the buffer of one perf event.
type Ring struct {
	FD         int    // of the event
	page       []byte // the mapping: struct perf_event_mmap_page, then data
	data       []byte
	head, tail uint64 // what is left to read, as of Load
}

// Record is a record from the kernel.
type Record struct {
	Kind uint32 // PERF_RECORD_*
	Misc uint16
	Body []byte // what follows the header
}

// Open opens an event on a CPU, with a buffer of size bytes: a power of two of pages.
func Open(attr *unix.PerfEventAttr, cpu, size int) (*Ring, error) {
	attr.Size = uint32(unsafe.Sizeof(*attr))
	fd, err := unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("perf_event_open", err)
	}
	b, err := unix.Mmap(fd, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("mmap", err)
	}
	return &Ring{FD: fd, page: b, data: b[os.Getpagesize():]}, nil
}

// Load makes Next return the records that are in the buffer now.
func (r *Ring) Load() { r.head = atomic.LoadUint64(r.position(dataHead)) }

// Next copies the next record, using the space of buf for its body if that suffices, and releases its space in the
// buffer to the kernel. The error is io.EOF after the last record. If the buffer contains what no kernel writes,
// everything in it is skipped.
func (r *Ring) Next(buf []byte) (Record, error) {
	left := r.head - r.tail
	if left == 0 {
		return Record{}, io.EOF
	}
	var header [headerSize]byte
	h := header[:]
	size := uint64(0)
	if left <= uint64(len(r.data)) {
		h = r.copy(h[:0], r.tail, headerSize)
		size = uint64(binary.NativeEndian.Uint16(h[6:]))
	}
	if size < headerSize || size > left {
		r.release(r.head)
		return Record{}, fmt.Errorf("a record of %d bytes in a perf buffer with %d bytes of records", size, left)
	}
	body := r.copy(buf[:0], r.tail+headerSize, size-headerSize)
	r.release(r.tail + size)
	return Record{binary.NativeEndian.Uint32(h), binary.NativeEndian.Uint16(h[4:]), body}, nil
}

// copy appends n bytes at a position, at most all of the data.
func (r *Ring) copy(to []byte, at, n uint64) []byte {
	from := at % uint64(len(r.data))
	end := min(from+n, uint64(len(r.data)))
	to = append(to, r.data[from:end]...)
	return append(to, r.data[:n-(end-from)]...)
}

// release tells the kernel what has been read.
func (r *Ring) release(tail uint64) {
	r.tail = tail
	atomic.StoreUint64(r.position(dataTail), tail)
}

func (r *Ring) position(off int) *uint64 { return (*uint64)(unsafe.Pointer(&r.page[off])) }

// Close frees the event and its buffer.
func (r *Ring) Close() {
	unix.Munmap(r.page)
	unix.Close(r.FD)
}
