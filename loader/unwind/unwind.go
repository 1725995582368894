// SPDX-License-Identifier: Apache-2.0

// Package unwind gives the programs of an object what they need to walk the stacks of processes without frame pointers:
// which files each process has mapped where, and tables of these files.
//
// It takes what programs ask for (Ask), what the kernel reports of processes (PERF_RECORD_MMAP2, FORK, COMM and EXIT of
// one perf event per CPU) and /proc, and fills the maps of the object. Files are opened here and parsed by a Builder,
// in a process without privileges. A stack that a program walks before its process or a file is known is cut, and
// counted: a program never has to wait. What it finds is of its own process and the files that this has mapped, but for
// the short time until the kernel's record of an exec, or of another mapping at the same address, is read.
//
// What a process can make it do is bounded: the processes, mappings and bytes that are kept, the time for reading its
// mappings, and the CPU time of the builder. Processes and files that do not fit are those whose stacks are cut.
package unwind

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"btc/internal/unwind"
	"btc/loader/perfring"
)

// Table is what a Builder makes of a file.
type Table struct {
	unwind.Table          // without rows
	Chunks       [][]byte // of its rows: unwind.Table.Chunks; nil: it has none
}

// Builder makes tables. It is used by one goroutine at a time.
type Builder interface {
	// Build reads a file. The error is ErrNotELF if it is none; other errors mean that it has no table.
	Build(f *os.File) (*Table, error)
	// Used returns the CPU time that it has taken so far.
	Used() time.Duration
	// Close ends its process, which the next Build starts again. It may be called by another goroutine than a running
	// Build, which then fails soon.
	Close()
}

// ErrNotELF is the error of a file that is not an ELF file, such as the memory of a JIT compiler.
var ErrNotELF = errors.New("not an ELF file")

// Maps are the maps of an object.
type Maps struct {
	Tables Map // number of a table -> array of chunks
	Procs  Map // process ID -> first range and number of ranges
	Asked  Map // what programs have asked for: process ID, number of a table
	Ranges interface {
		BatchUpdate(keys, values any, opts *ebpf.BatchOptions) (int, error)
	}
	MaxTables, MaxProcs, MaxRanges uint32 // sizes
	// NewTable makes an array for Tables. It is closed once it is not used any more.
	NewTable func(chunks [][]byte) (Inner, error)
	Raw      *Raw // nil: programs send no stacks
}

// Map is what is used of an *ebpf.Map.
type Map interface {
	Put(key, value any) error
	Delete(key any) error
}

// Inner is an array in Maps.Tables: an *ebpf.Map.
type Inner interface {
	Lookup(key, value any) error
	Close() error
}

// Options of an Unwinder.
type Options struct {
	// PIDs are the processes to prepare for: all their files get tables. Child is the process of a command, which has not
	// begun: its files get tables when it maps them.
	PIDs  []int
	Child int // 0: none
	// Only means that other processes do not count, except those that they start if Follow is set, and those that ask.
	Only, Follow bool
	// MaxBytes bounds the tables in the kernel, which never take more than 64 MiB; 0: only that does.
	MaxBytes uint64
	Warn     func(text string)
}

// Records are what the kernel reports of processes: how they start and end, and what they map.
type Records struct {
	rings map[int]*perfring.Ring // by CPU
	held  []record               // read, but not handled yet
	size  int                    // of a ring
	epoll int
}

// Sizes of the kernel's buffers, in bytes for each CPU. A process that starts needs about 700.
const (
	ringBytes     = 128 << 10
	ringBytesMany = 32 << 10 // with more than manyCPUs
	manyCPUs      = 32
)

// OpenRecords makes the kernel report processes on the online CPUs. What Open does not take must be closed.
func OpenRecords(cpus []int) (*Records, error) {
	r := &Records{rings: map[int]*perfring.Ring{}, size: ringBytes}
	if len(cpus) > manyCPUs {
		r.size = ringBytesMany
	}
	var err error
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("epoll_create", err)
	}
	for _, cpu := range cpus {
		if err := r.open(cpu); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

func (r *Records) open(cpu int) error {
	ring, err := perfring.Open(&unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Sample_type: unix.PERF_SAMPLE_TIME,
		Bits: unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask |
			unix.PerfBitSampleIDAll | unix.PerfBitUseClockID,
		Clockid: unix.CLOCK_MONOTONIC, // that of raw stacks
		Wakeup:  1,                    // records: a process is to be known before its first stack
	}, cpu, r.size)
	if errors.Is(err, unix.ENODEV) { // it went offline
		return nil
	}
	if err != nil {
		return fmt.Errorf("following processes on CPU %d: %w", cpu, err)
	}
	r.rings[cpu] = ring
	return r.watch(ring.FD)
}

// track opens rings for CPUs that came online, and closes those of CPUs that went offline, whose events do not come
// back with them. It reports whether there are new ones: what happened before on these CPUs was not reported.
func (r *Records) track(online []int) (added bool, err error) {
	for cpu, ring := range r.rings {
		if !slices.Contains(online, cpu) {
			ring.Close()
			delete(r.rings, cpu)
		}
	}
	for _, cpu := range online {
		if r.rings[cpu] == nil {
			added = true
			if err := r.open(cpu); err != nil {
				return true, err
			}
		}
	}
	return added, nil
}

func (r *Records) watch(fd int) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}))
}

// Close ends the reports. It may be called on nil.
func (r *Records) Close() {
	if r == nil {
		return
	}
	for _, ring := range r.rings {
		ring.Close()
	}
	unix.Close(r.epoll)
}

// Unwinder fills the maps of an object. Its state belongs to one goroutine; its methods may be called by others.
type Unwinder struct {
	keeper
	*Records
	event int // eventfd: what follows, and results

	mu      sync.Mutex
	scans   bool // Scan was called
	asks    []ask
	online  []int // CPUs, if they have changed
	built   *result
	waiters []waiter
	closed  bool

	running  sync.WaitGroup
	prepared chan struct{}
	over     chan struct{} // closed at the end
}

type ask struct {
	tgid uint32
	addr uint64
}

// maxAsks bounds the queue of what programs ask for.
const maxAsks = 4096

// Open starts following processes. It returns when the processes of the options are prepared: their mappings known, and
// the tables of all their files made. The records are closed with it.
func Open(m Maps, b Builder, r *Records, opts Options) (*Unwinder, error) {
	u := &Unwinder{Records: r, prepared: make(chan struct{}), over: make(chan struct{})}
	var err error
	if u.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	if err := r.watch(u.event); err != nil {
		unix.Close(u.event)
		return nil, err
	}
	u.keeper.init(m, b, opts)
	if m.Raw != nil {
		if err = u.raws.open(*m.Raw); err == nil {
			err = r.watch(m.Raw.FD)
		}
		if err != nil {
			u.raws.close()
			unix.Close(u.event)
			return nil, err
		}
	}
	for _, pid := range opts.PIDs {
		u.name(uint32(pid))
	}
	if opts.Child != 0 {
		u.add(uint32(opts.Child)).named = true
	}
	u.running.Go(u.loop)
	select {
	case <-u.prepared:
	case <-time.After(maxPreparing):
		opts.Warn("WARNING: the tables for stacks of the traced processes are not all made yet: the first stacks are cut")
	}
	return u, nil
}

// maxPreparing bounds how long the start of a run waits for tables.
const maxPreparing = 10 * time.Second

// Scan makes the mappings of all processes be read, unless only those of the options count. They are read in the background:
// call it when the programs are attached, which must not wait for that.
func (u *Unwinder) Scan() {
	if u == nil || u.only {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.scans = true
		u.wake()
	}
}

// Ask says that a program met code of a process that has no table, at an address.
func (u *Unwinder) Ask(tgid uint32, addr uint64) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.closed:
	case len(u.asks) >= maxAsks:
		u.maps.Asked.Delete(askKey(tgid)) // it will ask again
	default:
		u.asks = append(u.asks, ask{tgid, addr})
		u.wake()
	}
}

func (u *Unwinder) wake() { unix.Write(u.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// Online says which CPUs are online, if that has changed. Call it about once a second.
func (u *Unwinder) Online(cpus []int) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.closed {
		u.online = cpus
		u.wake()
	}
}

// Close ends the work. The maps stay as they are. It may be called on nil.
func (u *Unwinder) Close() {
	if u == nil {
		return
	}
	u.mu.Lock()
	was := u.closed
	u.closed = true
	u.mu.Unlock()
	if was {
		return
	}
	u.wake()
	u.running.Wait()
	u.raws.close()
	u.Records.Close()
	unix.Close(u.event)
}

// A process is to be known before its first stack, so the kernel's records are read as they come; where they come
// without an end, in groups: after maxTurns readings within turnTime the loop rests for the remainder of that time.
const (
	turnTime = 10 * time.Millisecond
	maxTurns = 40
)

func (u *Unwinder) loop() {
	var events [8]unix.EpollEvent // readiness of others ends the next wait
	var drain [8]byte
	var waiters []waiter
	preparing, more := true, true // the first time, one does not wait
	turns, since := 0, time.Now()
	for {
		timeout := u.timeout(time.Now(), waiters)
		if more {
			timeout = 0
		}
		n, err := unix.EpollWait(u.epoll, events[:], timeout)
		if err != nil && err != unix.EINTR {
			close(u.over)
			return
		}
		for range max(n, 0) {
			unix.Read(u.event, drain[:])
		}
		u.mu.Lock()
		asks, online, built, scans, closed := u.asks, u.online, u.built, u.scans, u.closed
		waiters = append(waiters, u.waiters...)
		u.asks, u.online, u.built, u.waiters, u.scans = nil, nil, nil, nil, false
		u.mu.Unlock()
		if closed {
			close(u.over)
			u.builder.Close()
			u.builds.Wait()
			u.release()
			return
		}
		if scans {
			u.scanNew()
		}
		if online != nil {
			added, err := u.track(online)
			if err != nil {
				u.warn("WARNING: " + err.Error() + ": stacks may be cut")
			}
			if added {
				u.lost()
			}
		}
		records, left := u.inputs()
		more = left
		now := time.Now()
		for i := range records {
			if r := &records[i]; r.raw != nil {
				u.came(r.raw, now)
			} else {
				u.apply(r)
			}
		}
		now = time.Now()
		for _, a := range asks {
			u.asked(a.tgid, a.addr, now)
		}
		if built != nil {
			u.finishBuild(built, now)
		}
		u.tick(now)
		u.build(now, func(r *result) {
			u.mu.Lock()
			u.built = r
			u.mu.Unlock()
			u.wake()
		})
		u.settleRaws(now)
		waiters = u.answer(waiters, more, now)
		if preparing && u.idle() {
			preparing = false
			close(u.prepared)
		}
		if now.Sub(since) >= turnTime {
			turns, since = 0, now
		}
		if turns++; turns >= maxTurns && len(records) > 0 {
			time.Sleep(turnTime - now.Sub(since))
		}
	}
}

// inputs returns what came since the last time, in the order of time: a raw stack is after what the kernel reported of its
// process before, and before what it reported later. more means that there is more.
func (u *Unwinder) inputs() (all []record, more bool) {
	// What was reported later than one of these stacks may be there by now, but no stack that was sent before that.
	all = append(u.held, u.poll()...)
	u.held = nil
	stacks, more := u.pollRaws()
	if len(stacks) > 0 { // what was reported before they were sent is there by now
		last := uint64(0)
		for _, x := range stacks {
			last = max(last, x.Time)
		}
		for _, r := range u.poll() {
			if r.time <= last {
				all = append(all, r)
			} else { // after stacks that have not been read
				u.held, more = append(u.held, r), true
			}
		}
		for _, x := range stacks {
			all = append(all, record{time: x.Time, raw: x})
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].time < all[j].time })
	return all, more
}

// record is a record from the kernel with its time, which follows the body, or a raw stack.
type record struct {
	perfring.Record
	time uint64
	raw  *raw
}

// poll returns the records that came since the last time.
func (r *Records) poll() (all []record) {
	for _, ring := range r.rings {
		ring.Load()
		for {
			rec, err := ring.Next(nil)
			if err != nil {
				break
			}
			if n := len(rec.Body) - 8; n >= 0 {
				all = append(all, record{Record: rec, time: binary.NativeEndian.Uint64(rec.Body[n:])})
				all[len(all)-1].Body = rec.Body[:n]
			}
		}
	}
	return all
}

// apply decodes a record.
func (k *keeper) apply(r *record) {
	b := r.Body
	word := func(off int) uint32 { return binary.NativeEndian.Uint32(b[off:]) }
	long := func(off int) uint64 { return binary.NativeEndian.Uint64(b[off:]) }
	const execs = 1 << 13 // PERF_RECORD_MISC_COMM_EXEC
	switch {
	case r.Kind == unix.PERF_RECORD_FORK && len(b) >= 16 && word(0) != word(4):
		k.forked(word(0), word(4), r.time)
	case r.Kind == unix.PERF_RECORD_EXIT && len(b) >= 16 && word(0) == word(8): // the first thread
		k.exited(word(0))
	case r.Kind == unix.PERF_RECORD_COMM && len(b) >= 8 && r.Misc&execs != 0:
		k.executed(word(0), r.time)
	case r.Kind == unix.PERF_RECORD_MMAP2 && len(b) >= 64:
		name := b[64:]
		if i := slices.Index(name, 0); i >= 0 {
			name = name[:i]
		}
		m := region{start: long(8), end: long(8) + long(16), off: long(24), dev: uint64(word(32))<<32 | uint64(word(36)), ino: long(40), path: string(name)}
		m.kind = kindOf(m.path, m.ino)
		if m.start < m.end {
			k.mapped(word(0), &m)
		}
	case r.Kind == unix.PERF_RECORD_LOST:
		k.lost()
	}
}
