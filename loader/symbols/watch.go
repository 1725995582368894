// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"btc/loader/perfring"
)

// Watch records the executable mappings of processes as the kernel reports them, so that addresses of processes that
// have exited can be resolved. It uses one perf event per CPU (PERF_RECORD_MMAP2, Linux 3.16).
type Watch struct {
	rings []*perfring.Ring
	procs map[uint32]*watched
	order []uint32 // keys of procs, oldest first
	bytes int      // size of the mappings in procs
	execs uint64   // how often a process executed a program
}

// watched holds the mappings of a process since it started or executed another program.
type watched struct {
	maps   []mapping // in the order of time
	parent uint32    // process whose memory it started with; 0: none, it has executed a program since
	before *watched  // process that had the ID before; nil if it is not known
	// earlier is the process until it executed its program, which was the execs-th of all processes; nil if it is not known.
	earlier *watched
	execs   uint64
}

// maxEarlier bounds the programs of one process that are known beside the one that it executed last.
const maxEarlier = 4

func (p *watched) bytes() int {
	if p == nil {
		return 0
	}
	return mappingBytes(p.maps) + p.before.bytes() + p.earlier.bytes()
}

// last returns what is known of the n programs of a process that it executed last.
func (p *watched) last(n int) *watched {
	if p == nil || n == 0 {
		return nil
	}
	return &watched{maps: p.maps, parent: p.parent, earlier: p.earlier.last(n - 1), execs: p.execs}
}

// origin returns the process whose memory a process started with, as watched.parent.
func (p *watched) origin() uint32 {
	for p.earlier != nil {
		p = p.earlier
	}
	return p.parent
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

// NewWatch starts watching all processes; cpus are the online CPUs. The caller must close it.
func NewWatch(cpus []int) (*Watch, error) {
	w := &Watch{procs: map[uint32]*watched{}}
	size := ringBytes
	if len(cpus) > manyCPUs {
		size = ringBytesMany
	}
	for _, cpu := range cpus {
		r, err := perfring.Open(&unix.PerfEventAttr{
			Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Sample_type: unix.PERF_SAMPLE_TIME,
			Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
				unix.PerfBitSampleIDAll,
		}, cpu, size)
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("watching processes on CPU %d: %w", cpu, err)
		}
		w.rings = append(w.rings, r)
	}
	return w, nil
}

// Close ends the watch; its records stay.
func (w *Watch) Close() {
	if w == nil {
		return
	}
	for _, r := range w.rings {
		r.Close()
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
		fds = append(fds, r.FD)
	}
	return fds
}

// record is a record from the kernel with its time, which follows the body.
type record struct {
	perfring.Record
	time uint64
}

// read appends the records that came since the last time.
func read(r *perfring.Ring, out []record) []record {
	r.Load()
	for {
		rec, err := r.Next(nil)
		if err != nil {
			return out
		}
		if n := len(rec.Body) - 8; n >= 0 {
			out = append(out, record{rec, binary.NativeEndian.Uint64(rec.Body[n:])})
			out[len(out)-1].Body = rec.Body[:n]
		}
	}
}

// Poll reads the kernel's reports since the last call. Call it regularly, because reports that do not fit in the
// kernel's buffers are lost.
func (w *Watch) Poll() {
	if w == nil {
		return
	}
	var records []record
	for _, r := range w.rings {
		records = read(r, records)
	}
	sort.SliceStable(records, func(i, j int) bool { return records[i].time < records[j].time })
	for i := range records {
		w.apply(&records[i])
	}
}

func (w *Watch) apply(r *record) {
	b := r.Body
	word := func(off int) uint32 { return binary.NativeEndian.Uint32(b[off:]) }
	long := func(off int) uint64 { return binary.NativeEndian.Uint64(b[off:]) }
	const execMap = 1 << 13 // PERF_RECORD_MISC_COMM_EXEC
	switch {
	case r.Kind == unix.PERF_RECORD_FORK && len(b) >= 16 && word(0) != word(4):
		w.begin(word(0), &watched{parent: word(4), before: w.procs[word(0)].last(1)})
	case r.Kind == unix.PERF_RECORD_COMM && len(b) >= 8 && r.Misc&execMap != 0:
		w.execs++
		p := &watched{earlier: w.procs[word(0)].last(maxEarlier), execs: w.execs}
		if old := w.procs[word(0)]; old != nil {
			p.before = old.before
		}
		w.begin(word(0), p)
	case r.Kind == unix.PERF_RECORD_MMAP2 && len(b) >= 64:
		name, _, _ := bytes.Cut(b[64:], []byte{0})
		m := mapping{start: long(8), end: long(8) + long(16), off: long(24), path: string(name),
			file: fileID{dev: uint64(word(32))<<32 | uint64(word(36)), ino: long(40)}}
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

// executed returns what watched.execs is for a process; 0 if it is not known.
func (w *Watch) executed(pid uint32) uint64 {
	if w == nil || w.procs[pid] == nil {
		return 0
	}
	return w.procs[pid].execs
}

// find returns the mapping of an address of a process, also of one before it executed its program, and which process made it.
func (w *Watch) find(addr uint64, pid uint32) (m *mapping, by uint32) {
	if w == nil {
		return nil, 0
	}
	for depth := 0; depth < maxDepth && pid != 0; depth++ {
		p := w.procs[pid]
		if p == nil {
			return nil, pid
		}
		for g := p; g != nil; g = g.earlier {
			for i := len(g.maps) - 1; i >= 0; i-- { // the latest counts
				if m := &g.maps[i]; m.start <= addr && addr < m.end {
					return m, pid
				}
			}
		}
		parent := p.origin()
		if parent == pid {
			return nil, pid
		}
		pid = parent
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

// programs returns what is known of the programs of a process, the one that it executed last first.
func (w *Watch) programs(pid uint32) (all []*watched) {
	if w == nil {
		return nil
	}
	for p := w.procs[pid]; p != nil; p = p.earlier {
		all = append(all, p)
	}
	return all
}

// ascending returns the mappings of a program, in the order of addresses.
func (p *watched) ascending() (maps []mapping) {
	for i := len(p.maps) - 1; i >= 0; i-- { // the latest counts
		m := p.maps[i]
		if !slices.ContainsFunc(maps, func(o mapping) bool { return m.start < o.end && o.start < m.end }) {
			maps = append(maps, m)
		}
	}
	sort.Slice(maps, func(i, j int) bool { return maps[i].start < maps[j].start })
	return maps
}

// isCode reports whether a mapping is one whose symbols can be known.
func (m *mapping) isCode() bool {
	return m.path == vdsoPath || strings.HasPrefix(m.path, "/") && !strings.HasPrefix(m.path, "//")
}
