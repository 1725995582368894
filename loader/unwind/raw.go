// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"debug/elf"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/arch"
	"btc/internal/unwind"
	"btc/loader/ring"
)

// Raw are the maps for stacks that programs could not unwind because a process or a file was not known yet: they send the
// registers and a copy of the stack (unwind.Raw), and the Unwinder goes on. The copies are kept in memory that is not
// part of core dumps, until they are unwound or given up, and are then overwritten.
type Raw struct {
	FD, Size int // the ring buffer
	// Store stores the frames of a stack of a map with a depth.
	Store func(depth int, id uint64, frames []uint64)
}

// Limits of raw stacks.
const (
	maxRaws = 256 // that wait for tables
	// maxShots bounds the mappings that are kept for them, besides those of the processes as they are now.
	maxShots = 1 << 16
	// rawTime is how long one waits since the last table was made, rawMost how long at most and while its own is being made,
	// and showTime how long who wants to show it.
	rawTime  = 5 * time.Second
	rawMost  = 30 * time.Second
	showTime = 500 * time.Millisecond
	// maxRawChunks bounds the chunks of tables that are kept.
	maxRawChunks = 512
	rawBytes     = unwind.RawPage * (unwind.RawPages - 1)
)

// raws are the raw stacks of a run.
type raws struct {
	Raw
	ring    *ring.Reader // nil: none
	copies  []byte       // maxRaws of rawBytes
	free    []int        // numbers of copies
	waiting []*raw       // oldest first
	shots   int          // mappings that are kept
	tabled  time.Time    // when the last table was made
	chunks  map[chunk][]unwind.Row
	machine elf.Machine
	ended   [unwind.Reasons]atomic.Uint64
}

// chunk is an element of a table.
type chunk struct {
	of *content
	i  uint32
}

// raw is a stack.
type raw struct {
	*unwind.Raw
	copy int // number of the copy
	shot *shot
	file *file // whose table it waits for
	came time.Time
	read bool // the mappings were read again
}

// shot is the mappings of an address space at a time.
type shot struct {
	maps []mapping
	refs int // of raws
}

// open prepares for raw stacks.
func (r *raws) open(maps Raw) (err error) {
	r.Raw, r.machine, r.chunks = maps, arch.Host().Machine, map[chunk][]unwind.Row{}
	if r.ring, err = ring.Open(maps.FD, maps.Size); err != nil {
		return err
	}
	r.copies, err = unix.Mmap(-1, 0, maxRaws*rawBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil {
		err = unix.Madvise(r.copies, unix.MADV_DONTDUMP)
	}
	for i := range maxRaws {
		r.free = append(r.free, i)
	}
	return err
}

// close frees the memory. What still waits stays as programs have left it.
func (r *raws) close() {
	for len(r.waiting) > 0 {
		r.finish(r.waiting[0], nil, unwind.NotYetKnown)
	}
	if r.ring != nil {
		r.ring.Close()
		unix.Munmap(r.copies)
	}
}

// pollRaws returns copies of the records that came since the last time, and whether there are more.
func (k *keeper) pollRaws() (all []*raw, more bool) {
	if k.ring == nil {
		return nil, false
	}
	for len(all) < maxRaws {
		b := k.ring.Next()
		if b == nil {
			return all, k.ring.Busy()
		}
		x, ok := unwind.ParseRaw(b)
		if !ok {
			continue
		}
		next := k.keepCopy(x)
		if next == nil { // all are in this batch
			return all, true
		}
		all = append(all, next)
	}
	return all, true
}

// keepCopy copies a stack out of the ring buffer. If there is no room, the one that has waited for longest is given up;
// nil: none waits.
func (k *keeper) keepCopy(x *unwind.Raw) *raw {
	if len(k.free) == 0 {
		if len(k.waiting) == 0 {
			return nil
		}
		k.finish(k.waiting[0], nil, unwind.NotYetKnown)
	}
	n := k.free[len(k.free)-1]
	k.free = k.free[:len(k.free)-1]
	to := k.copies[n*rawBytes:][:rawBytes]
	x.Stack = to[:copy(to, x.Stack)]
	return &raw{Raw: x, copy: n}
}

// came takes the mappings of a stack's process, which are those of the time when it was sent, and unwinds it if that is
// possible.
func (k *keeper) came(x *raw, now time.Time) {
	x.came = now
	tgid := uint32(x.Tgid)
	p := k.procs[tgid]
	if p == nil {
		if p = k.add(tgid); !k.read(p) {
			k.forget(p)
			k.finish(x, nil, unwind.NotYetKnown)
			return
		}
	}
	if !k.shoot(x, p.space) {
		k.finish(x, nil, unwind.NotYetKnown)
		return
	}
	k.waiting = append(k.waiting, x)
	k.try(x, now)
}

// shoot keeps the mappings of an address space for a stack.
func (k *keeper) shoot(x *raw, s *space) bool {
	if s.shot == nil || s.shot.refs == 0 {
		if k.shots+len(s.maps) > maxShots {
			return false
		}
		s.shot = &shot{maps: slices.Clone(s.maps)}
		k.shots += len(s.maps)
		for i := range s.maps {
			s.maps[i].file.hold()
		}
	}
	s.shot.refs++
	k.unshoot(x.shot)
	x.shot = s.shot
	return true
}

func (k *keeper) unshoot(s *shot) {
	if s == nil {
		return
	}
	if s.refs--; s.refs > 0 {
		return
	}
	k.shots -= len(s.maps)
	for i := range s.maps {
		k.dropFile(s.maps[i].file)
	}
}

// try unwinds a stack, or asks for what is missing.
func (k *keeper) try(x *raw, now time.Time) {
	depth := min(x.Depth, unwind.MaxFrames)
	m := rawMemory{Raw: x.Raw, k: k, maps: x.shot.maps, narrow: narrow(x.shot.maps)}
	frames, why := unwind.Walk(k.machine, x.Registers, &m, max(depth-len(x.Frames), 0))
	p := k.procs[uint32(x.Tgid)]
	if why == unwind.UnknownCode && !x.read && p != nil && p.since <= x.Time && !now.Before(p.again) {
		if x.read = true; k.read(p) && k.shoot(x, p.space) { // no record was lost, but one may not have come yet
			k.try(x, now)
			return
		}
	}
	if x.file = m.missing; x.file != nil {
		k.want(x.file, uint32(x.Tgid))
		if i := slices.IndexFunc(x.shot.maps, func(m mapping) bool { return m.file != nil && m.file.ino != 0 }); i >= 0 {
			k.want(x.shot.maps[i].file, uint32(x.Tgid)) // the outermost frames are in the program itself
		}
		if x.file.queued && !slices.Contains(k.failed, x.file) {
			return
		}
	}
	frames = append(slices.Clip(x.Frames), frames...)
	switch {
	case why == unwind.UnknownCode && len(frames) > 1: // as in programs
		frames = frames[:len(frames)-1]
	case why == unwind.TooDeep && x.Depth < defaultDepth: // no more are wanted
		why = unwind.Whole
	case why == unwind.NotResident && len(x.Stack) == rawBytes:
		why = unwind.TooDeep
	}
	k.finish(x, frames, why)
}

// defaultDepth is the number of frames of a stack without a limit.
const defaultDepth = 127

// finish ends the work for a stack. Without frames it stays as it is.
func (r *raws) finish(x *raw, frames []uint64, why unwind.Reason) {
	clear(r.copies[x.copy*rawBytes:][:rawBytes])
	r.free = append(r.free, x.copy)
	x.Stack = nil
	r.waiting = slices.DeleteFunc(r.waiting, func(o *raw) bool { return o == x })
	if len(frames) > 0 {
		r.Store(x.Depth, x.ID, frames)
	}
	r.ended[why].Add(1)
	if len(r.waiting) == 0 && len(r.free) == maxRaws {
		unix.Madvise(r.copies, unix.MADV_DONTNEED)
	}
}

// finish also drops the mappings.
func (k *keeper) finish(x *raw, frames []uint64, why unwind.Reason) {
	k.unshoot(x.shot)
	x.shot = nil
	k.raws.finish(x, frames, why)
}

// settleRaws unwinds the stacks whose tables have been made, and gives up those that have waited too long.
func (k *keeper) settleRaws(now time.Time) {
	for _, x := range slices.Clone(k.waiting) {
		switch {
		case x.file.done() || slices.Contains(k.failed, x.file):
			k.try(x, now)
		case !now.Before(k.until(x)):
			k.finish(x, nil, unwind.NotYetKnown)
		}
	}
}

// until returns how long a stack waits: not for ever while other tables are made, which a process can ask for without end.
func (k *keeper) until(x *raw) time.Time {
	most, since := x.came.Add(rawMost), x.came
	if k.building == x.file {
		return most
	}
	if k.tabled.After(since) {
		since = k.tabled
	}
	if at := since.Add(rawTime); at.Before(most) {
		return at
	}
	return most
}

// rawMemory is what the walk of a raw stack reads.
type rawMemory struct {
	*unwind.Raw
	k       *keeper
	maps    []mapping
	narrow  bool
	missing *file // the walk has ended because there is no table of it yet
}

var framesTable = unwind.Table{Frames: true}

func (m *rawMemory) Find(addr uint64) (*unwind.Table, uint64, unwind.Reason) {
	x := find(m.maps, addr)
	if x == nil {
		return nil, 0, unwind.UnknownCode
	}
	s := spanOf(x, m.narrow)
	switch {
	case s.Flags == rangeFrames:
		return &framesTable, x.start, 0
	case s.Flags != 0:
		return nil, 0, unwind.NoTable
	case s.Table == 0:
		m.missing = x.file
		return nil, 0, unwind.NotYetKnown
	}
	off := addr - s.Bias
	if off >= unwind.NoPC {
		return nil, 0, unwind.NoTable
	}
	rows := m.k.rows(x.file.built.content, 0)
	i, _ := slices.BinarySearchFunc(rows, uint32(off), func(r unwind.Row, pc uint32) int { return ifThen(r.PC <= pc, -1, 1) })
	if i == 0 {
		return nil, 0, unwind.NoTable
	}
	return &unwind.Table{Rows: m.k.rows(x.file.built.content, uint32(i))}, s.Bias, 0
}

// rows returns the rows in an element of a table. Element 0 has only the offset of the first row of each other.
func (r *raws) rows(of *content, i uint32) []unwind.Row {
	key := chunk{of, i}
	rows, ok := r.chunks[key]
	if !ok {
		var b []byte
		if of.table.Lookup(i, &b) != nil {
			return nil
		}
		if len(r.chunks) >= maxRawChunks {
			clear(r.chunks)
		}
		rows = unwind.ChunkContent(b, i == 0)
		r.chunks[key] = rows
	}
	return rows
}

// forgetChunks drops what is kept of a table.
func (r *raws) forgetChunks(of *content) {
	for key := range r.chunks {
		if key.of == of {
			delete(r.chunks, key)
		}
	}
}

// Ended returns how many stacks that programs have not unwound ended for each reason.
func (u *Unwinder) Ended() (all [unwind.Reasons]uint64) {
	for i := range all {
		if u != nil {
			all[i] = u.ended[i].Load()
		}
	}
	return all
}

// waiter waits for a stack.
type waiter struct {
	id    uint64 // 0: all
	until time.Time
	done  chan struct{}
}

// Await waits until the stack with an id, which a program has sent before, or all for 0, is unwound, or has waited for showTime.
func (u *Unwinder) Await(id uint64) { u.await(id, showTime) }

// Settle waits until all stacks that programs have sent are unwound or given up, for a limited time.
func (u *Unwinder) Settle() { u.await(0, rawMost) }

func (u *Unwinder) await(id uint64, most time.Duration) {
	if u == nil || u.ring == nil {
		return
	}
	w := waiter{id, time.Now().Add(most), make(chan struct{})}
	u.mu.Lock()
	if u.closed {
		u.mu.Unlock()
		return
	}
	u.waiters = append(u.waiters, w)
	u.wake()
	u.mu.Unlock()
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-w.done:
	case <-t.C:
	case <-u.over:
	}
}

// answer ends the waits for what is done. It returns the others.
func (u *Unwinder) answer(all []waiter, more bool, now time.Time) []waiter {
	if len(all) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(w waiter) bool {
		wait := more
		for _, x := range u.waiting {
			wait = wait || w.id == 0 || x.ID == w.id && now.Before(x.came.Add(showTime))
		}
		if wait && now.Before(w.until) {
			return false
		}
		close(w.done)
		return true
	})
}

func ifThen(c bool, a, b int) int {
	if c {
		return a
	}
	return b
}
