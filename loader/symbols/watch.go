// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Watch records the executable mappings of processes as the kernel reports them, so that addresses of processes that
// have exited can be resolved. It uses one perf event per CPU (PERF_RECORD_MMAP2, Linux 3.16).
type Watch struct {
	rings []*perfRing
	procs map[uint32]*watched
	order []uint32 // keys of procs, oldest first
	bytes int      // size of the mappings in procs
}

// watched holds the mappings of a process since it started or executed another program.
type watched struct {
	maps   []mapping // in the order of time
	parent uint32    // process whose memory it started with; 0: none, it has executed a program since
	before *watched  // process that had the ID before; nil if it is not known
}

func (p *watched) bytes() int {
	if p == nil {
		return 0
	}
	return mappingBytes(p.maps) + p.before.bytes()
}

// Limits of the records.
const (
	maxWatched     = 8192 // processes
	maxWatchedMaps = 1024 // mappings of one
	maxWatchBytes  = 16 << 20
	ringBytes      = 64 << 10
	ringBytesMany  = 16 << 10 // for each CPU when there are more than manyCPUs
	manyCPUs       = 32
)

// perfRing is the buffer of one perf event.
type perfRing struct {
	fd   int
	page []byte // struct perf_event_mmap_page
	data []byte
}

// Offsets in struct perf_event_mmap_page (include/uapi/linux/perf_event.h).
const (
	dataHead = 1024
	dataTail = 1032
)

// NewWatch starts watching all processes; cpus are the online CPUs. The caller must close it.
func NewWatch(cpus []int) (*Watch, error) {
	w := &Watch{procs: map[uint32]*watched{}}
	size := ringBytes
	if len(cpus) > manyCPUs {
		size = ringBytesMany
	}
	for _, cpu := range cpus {
		r, err := openPerfRing(cpu, size)
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("watching processes on CPU %d: %w", cpu, err)
		}
		w.rings = append(w.rings, r)
	}
	return w, nil
}

func openPerfRing(cpu, size int) (*perfRing, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Sample_type: unix.PERF_SAMPLE_TIME,
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitSampleIDAll,
	}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("perf_event_open", err)
	}
	b, err := unix.Mmap(fd, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("mmap", err)
	}
	return &perfRing{fd: fd, page: b, data: b[os.Getpagesize():]}, nil
}

// Close ends the watch; its records stay.
func (w *Watch) Close() {
	if w == nil {
		return
	}
	for _, r := range w.rings {
		unix.Munmap(r.page)
		unix.Close(r.fd)
	}
	w.rings = nil
}

// FDs returns the descriptors that are readable when the buffers are half full.
func (w *Watch) FDs() []int {
	if w == nil {
		return nil
	}
	var fds []int
	for _, r := range w.rings {
		fds = append(fds, r.fd)
	}
	return fds
}

// record is a record from the kernel, without its header.
type record struct {
	time uint64
	kind uint32
	misc uint16
	body []byte
}

// read appends the records that came since the last time.
func (r *perfRing) read(out []record) []record {
	head := (*uint64)(unsafe.Pointer(&r.page[dataHead]))
	tail := (*uint64)(unsafe.Pointer(&r.page[dataTail]))
	to, at := atomic.LoadUint64(head), *tail
	for to-at >= 8 {
		h := r.bytes(at, 8)
		size := uint64(binary.NativeEndian.Uint16(h[6:]))
		if size < 16 || size > to-at {
			break // no kernel writes that
		}
		b := r.bytes(at+8, size-8)
		out = append(out, record{
			kind: binary.NativeEndian.Uint32(h), misc: binary.NativeEndian.Uint16(h[4:]),
			body: b[:len(b)-8], time: binary.NativeEndian.Uint64(b[len(b)-8:]),
		})
		at += size
	}
	atomic.StoreUint64(tail, to)
	return out
}

// bytes copies n bytes at a position.
func (r *perfRing) bytes(at, n uint64) []byte {
	out := make([]byte, n)
	from := at % uint64(len(r.data))
	copy(out[copy(out, r.data[from:]):], r.data)
	return out
}

// Poll reads the kernel's reports since the last call. Call it regularly, because reports that do not fit in the
// kernel's buffers are lost.
func (w *Watch) Poll() {
	if w == nil {
		return
	}
	var records []record
	for _, r := range w.rings {
		records = r.read(records)
	}
	sort.SliceStable(records, func(i, j int) bool { return records[i].time < records[j].time })
	for i := range records {
		w.apply(&records[i])
	}
}

func (w *Watch) apply(r *record) {
	b := r.body
	word := func(off int) uint32 { return binary.NativeEndian.Uint32(b[off:]) }
	long := func(off int) uint64 { return binary.NativeEndian.Uint64(b[off:]) }
	const execMap = 1 << 13 // PERF_RECORD_MISC_COMM_EXEC
	switch {
	case r.kind == unix.PERF_RECORD_FORK && len(b) >= 16 && word(0) != word(4):
		p := &watched{parent: word(4), before: w.procs[word(0)]}
		if p.before != nil {
			w.bytes -= p.before.before.bytes()
			p.before.before = nil
		}
		w.begin(word(0), p)
	case r.kind == unix.PERF_RECORD_COMM && len(b) >= 8 && r.misc&execMap != 0:
		p := &watched{}
		if old := w.procs[word(0)]; old != nil {
			p.before = old.before
		}
		w.begin(word(0), p)
	case r.kind == unix.PERF_RECORD_MMAP2 && len(b) >= 64:
		name, _, _ := bytes.Cut(b[64:], []byte{0})
		m := mapping{start: long(8), end: long(8) + long(16), off: long(24), path: string(name),
			file: fileID{uint64(word(32))<<32 | uint64(word(36)), long(40)}}
		if !m.isCode() {
			return
		}
		p := w.procs[word(0)]
		if p == nil {
			p = &watched{parent: word(0)} // the process has more mappings, from before
			w.begin(word(0), p)
		}
		if len(p.maps) < maxWatchedMaps {
			p.maps = append(p.maps, m)
			w.bytes += mappingBytes(p.maps[len(p.maps)-1:])
		}
		for w.bytes > maxWatchBytes && len(w.order) > 1 {
			w.forgetOldest()
		}
	}
}

// begin makes p the record of a process.
func (w *Watch) begin(pid uint32, p *watched) {
	if w.procs[pid] == nil {
		w.order = append(w.order, pid)
		if len(w.order) > maxWatched {
			w.forgetOldest()
		}
	}
	w.bytes += p.bytes() - w.procs[pid].bytes()
	w.procs[pid] = p
}

func (w *Watch) forgetOldest() {
	oldest := w.order[0]
	w.bytes -= w.procs[oldest].bytes()
	delete(w.procs, oldest)
	w.order = w.order[1:]
}

// find returns the mapping of an address of a process, and which process made it.
func (w *Watch) find(addr uint64, pid uint32) (m *mapping, by uint32) {
	if w == nil {
		return nil, 0
	}
	for depth := 0; depth < maxDepth && pid != 0; depth++ {
		p := w.procs[pid]
		if p == nil {
			return nil, pid
		}
		for i := len(p.maps) - 1; i >= 0; i-- { // the latest counts
			if m := &p.maps[i]; m.start <= addr && addr < m.end {
				return m, pid
			}
		}
		if p.parent == pid {
			return nil, pid
		}
		pid = p.parent
	}
	return nil, 0
}

// ambiguous reports whether an address was in another file than m, or elsewhere in it, in an earlier process with the
// same ID. Stacks hold no start time, so that such an address may be of either process.
func (w *Watch) ambiguous(addr uint64, pid uint32, m *mapping) bool {
	if w == nil || w.procs[pid] == nil || w.procs[pid].before == nil {
		return false
	}
	earlier := w.procs[pid].before
	for i := len(earlier.maps) - 1; i >= 0; i-- { // the latest counts
		if o := &earlier.maps[i]; o.start <= addr && addr < o.end {
			return o.file != m.file || o.start-o.off != m.start-m.off
		}
	}
	if earlier.parent == pid {
		return false
	}
	o, _ := w.find(addr, earlier.parent)
	return o != nil && (o.file != m.file || o.start-o.off != m.start-m.off)
}

// known returns the mappings of a process, ascending, and the process whose memory it began
// with; itself if that is unknown, 0 when it began with none.
func (w *Watch) known(pid uint32) (maps []mapping, parent uint32) {
	if w == nil || w.procs[pid] == nil {
		return nil, 0
	}
	p := w.procs[pid]
	for i := len(p.maps) - 1; i >= 0; i-- { // the latest counts
		m := p.maps[i]
		if !slices.ContainsFunc(maps, func(o mapping) bool { return m.start < o.end && o.start < m.end }) {
			maps = append(maps, m)
		}
	}
	sort.Slice(maps, func(i, j int) bool { return maps[i].start < maps[j].start })
	return maps, p.parent
}

// isCode reports whether a mapping is one whose symbols can be known.
func (m *mapping) isCode() bool {
	return m.path == vdsoPath || strings.HasPrefix(m.path, "/") && !strings.HasPrefix(m.path, "//")
}
