// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"btc/internal/safefile"
	"btc/internal/unwind"
)

// keeper knows processes and files. Its methods are not safe for concurrent use.
type keeper struct {
	maps     Maps
	maxProcs int
	builder  Builder
	proc     string // where procfs is mounted
	warned   map[string]bool
	warning  func(string)
	only     bool // named processes and those that ask
	follow   bool
	pids     []int

	procs    map[uint32]*process
	mappings int // of all spaces
	ranges   pieces
	dirty    map[*space]bool // to be published
	leaving  schedule        // processes whose first thread has exited
	retries  schedule        // processes whose mappings are to be read again
	reads    []uint32        // processes whose mappings are to be read (again)
	clock    uint64
	execs    map[uint32]uint64 // when processes that do not count started a program, if children are followed

	files
	raws
}

// process is a process whose mappings are known.
type process struct {
	tgid  uint32
	owner owner
	*space
	named bool
	used  uint64    // as keeper.clock counts
	since uint64    // time of the record of its last exec, or of its fork
	again time.Time // when its mappings may be read again because a program asks
	retry bool      // they will be
}

// space is an address space: that of a process, and of those it has started that have not changed theirs since.
type space struct {
	maps      []mapping
	procs     []*process
	piece     piece
	published bool
	next      time.Time // when it may be published again
	shot      *shot     // of maps, as they are now
}

// schedule lists processes by the time at which something is due, ascending.
type schedule []due

type due struct {
	p  *process
	at time.Time
}

func (s *schedule) add(p *process, at time.Time) {
	i, _ := slices.BinarySearchFunc(*s, at, func(d due, at time.Time) int { return ifThen(d.at.After(at), 1, -1) })
	*s = slices.Insert(*s, i, due{p, at})
}

// take returns the next process that is due; nil: none.
func (s *schedule) take(now time.Time) *process {
	if len(*s) == 0 || now.Before((*s)[0].at) {
		return nil
	}
	p := (*s)[0].p
	*s = (*s)[1:]
	return p
}

// Limits of what is kept.
const (
	// maxTotal bounds the mappings of all processes. It is less than there are ranges (Maps.MaxRanges, 1<<16), because those
	// that were replaced are not usable for reuseAfter.
	maxTotal = 48 << 10
	// rangesRate is how many ranges of one process are written in a second: those that they replace are not usable for
	// reuseAfter.
	rangesRate = 4096
	// mapsShare is the share of time for which the mappings of one process are read because programs ask.
	mapsShare = 20
	mapsPause = time.Second
	maxExecs  = 4096
	lingering = 30 * time.Second // between two looks at a process whose first thread has exited
	// pace is the number of processes whose mappings are read without a look at what else there is to do.
	pace = 16
)

func (k *keeper) init(m Maps, b Builder, opts Options) {
	k.maps, k.builder, k.proc = m, b, "/proc"
	k.warning, k.warned = opts.Warn, map[string]bool{}
	k.only, k.follow, k.pids = opts.Only, opts.Follow, opts.PIDs
	k.procs, k.dirty, k.execs = map[uint32]*process{}, map[*space]bool{}, map[uint32]uint64{}
	k.ranges, k.maxProcs = newPieces(m.MaxRanges), int(m.MaxProcs)*15/16
	k.files.init(m.MaxTables)
	if opts.MaxBytes > 0 {
		k.room = int(min(opts.MaxBytes, maxBytes))
	}
}

func (k *keeper) warn(text string) {
	if !k.warned[text] && k.warning != nil {
		k.warned[text] = true
		k.warning(text)
	}
}

// name prepares for a process: all its files get tables.
func (k *keeper) name(tgid uint32) {
	p := k.add(tgid)
	p.named = true
	k.read(p)
}

// scan makes the mappings of all processes be read, by and by.
func (k *keeper) scan() {
	entries, _ := safefile.Entries(k.proc)
	for _, e := range entries {
		if tgid, err := strconv.ParseUint(e.Name(), 10, 32); err == nil && len(k.reads) < k.maxProcs/2 {
			k.reads = append(k.reads, uint32(tgid))
		}
	}
}

// add returns the record of a process, a new one if it was not known.
func (k *keeper) add(tgid uint32) *process {
	k.clock++
	p := k.procs[tgid]
	if p == nil {
		p = &process{tgid: tgid}
		k.procs[tgid] = p
		k.enter(p, &space{})
	}
	p.used = k.clock
	return p
}

// enter moves a process to an address space.
func (k *keeper) enter(p *process, s *space) {
	old := p.space
	p.space = s
	s.procs = append(s.procs, p)
	if old != nil {
		k.leave(p, old)
	}
}

func (k *keeper) leave(p *process, s *space) {
	s.procs = slices.DeleteFunc(s.procs, func(o *process) bool { return o == p })
	if len(s.procs) > 0 {
		return
	}
	k.setMaps(s, nil)
	k.ranges.release(s.piece, time.Now())
	s.piece = piece{}
	delete(k.dirty, s)
}

// setMaps replaces the mappings of an address space, which may share parts with the old ones.
func (k *keeper) setMaps(s *space, all []mapping) {
	old := s.maps
	for i := range all {
		all[i].file.hold()
	}
	s.maps, s.shot = all, nil
	k.mappings += len(all) - len(old)
	for i := range old {
		k.dropFile(old[i].file)
	}
	k.dirty[s] = true
}

// own gives a process an address space that no other process uses.
func (k *keeper) own(p *process) {
	if len(p.space.procs) == 1 {
		return
	}
	s := &space{}
	k.setMaps(s, slices.Clone(p.maps))
	k.enter(p, s)
}

// mappingOf returns what a region is to a process; false: nothing can be known of it.
func (k *keeper) mappingOf(r *region, o owner) mapping {
	m := mapping{start: r.start, end: r.end, off: r.off, kind: r.kind}
	switch {
	case r.kind == vdso && r.start>>32 == 0: // of a 32-bit process
		m.kind = special
	case r.kind == vdso: // all processes have the same
		m.file, m.off = k.file(identity{ino: r.end - r.start}, ""), 0
	case r.kind == ofFile:
		m.file = k.file(identity{r.dev, r.ino, o}, r.path)
	}
	return m
}

// read reads the mappings of a process. It reports whether it is still there.
func (k *keeper) read(p *process) bool {
	now := time.Now()
	var all []mapping
	var err error
	known := false
	cost := threadTime(func() {
		o, ok := ownerOf(k.proc, p.tgid)
		if !ok {
			err = os.ErrNotExist
			return
		}
		p.owner = o
		err = eachRegion(k.proc, p.tgid, func(r *region) bool {
			known = true
			all = append(all, k.mappingOf(r, o))
			return len(all) < 1<<16
		})
	})
	p.again = now.Add(max(mapsPause, mapsShare*cost))
	if err != nil || !known { // it has exited, is a kernel thread, or is hidden
		for i := range all {
			k.sweepFile(all[i].file)
		}
		return false
	}
	k.own(p)
	files := fileList(all)
	all = normalize(all)
	if misleads(p.maps, all) {
		k.hide(p.space)
	}
	k.setMaps(p.space, all)
	for _, f := range files { // those of mappings that were dropped
		k.sweepFile(f)
	}
	k.wantNamed(p)
	k.limit()
	return true
}

// fileList returns the files of mappings.
func fileList(all []mapping) []*file {
	seen := map[*file]bool{}
	var out []*file
	for i := range all {
		if f := all[i].file; f != nil && !seen[f] {
			seen[f] = true
			out = append(out, f)
		}
	}
	return out
}

// wantNamed asks for the tables of all files of a named process.
func (k *keeper) wantNamed(p *process) {
	if !p.named {
		return
	}
	for i := range p.maps {
		k.want(p.maps[i].file, p.tgid)
	}
}

// asked handles a question of a program.
func (k *keeper) asked(tgid uint32, addr uint64, now time.Time) {
	p := k.procs[tgid]
	fresh := p == nil
	p = k.add(tgid)
	if fresh && !k.read(p) {
		k.forget(p)
		return
	}
	m := find(p.maps, addr)
	if m == nil && !fresh {
		k.reread(p, now)
		m = find(p.maps, addr)
	}
	if m == nil {
		return
	}
	k.want(m.file, tgid)
	for i := range p.maps { // the outermost frames are in the program itself
		if f := p.maps[i].file; f != nil && f.ino != 0 {
			k.want(f, tgid)
			break
		}
	}
	if p.published && !k.dirty[p.space] && !m.file.waiting() { // the answer was published in the meantime
		k.maps.Asked.Delete(askKey(tgid))
	}
}

// reread reads the mappings of a process again because of an address in none of them, now or when that is due.
func (k *keeper) reread(p *process, now time.Time) {
	if !now.Before(p.again) {
		k.read(p)
	} else if !p.retry {
		p.retry = true
		k.retries.add(p, p.again)
	}
}

// cares reports whether processes that nobody named count.
func (k *keeper) cares() bool { return !k.only }

// forked handles the start of a process. Records of one CPU are in order, those of two may come late: the child may already
// have been seen to start another program.
func (k *keeper) forked(child, parent uint32, at uint64) {
	from := k.procs[parent]
	counts := from != nil && (!k.only || k.follow && from.named)
	if old := k.procs[child]; old != nil && at < old.since {
		old.named = old.named || counts && from.named
		k.wantNamed(old)
		return
	} else if old != nil {
		k.forget(old)
	}
	k.maps.Asked.Delete(sentKey(child))
	late := at < k.execs[child]
	delete(k.execs, child)
	if !counts {
		return
	}
	if late {
		p := k.add(child)
		p.named = from.named
		k.reads = append(k.reads, child)
		return
	}
	k.clock++
	p := &process{tgid: child, owner: from.owner, named: from.named, used: k.clock, since: at}
	k.procs[child] = p
	k.enter(p, from.space)
	if from.published {
		k.point(p)
	}
	k.limit()
}

// executed handles the start of another program: none of the mappings are left.
func (k *keeper) executed(tgid uint32, at uint64) {
	p := k.procs[tgid]
	if p == nil && !k.cares() {
		if k.follow { // it may be the child of a named one
			if len(k.execs) >= maxExecs {
				clear(k.execs)
			}
			k.execs[tgid] = at
		}
		return
	}
	named := p != nil && p.named
	p = k.add(tgid)
	p.named, p.since = named, at
	if o, ok := ownerOf(k.proc, tgid); ok {
		p.owner = o
	}
	p.again = time.Time{}
	k.unpublish(p) // until its first mapping, which follows
	k.maps.Asked.Delete(sentKey(tgid))
	k.enter(p, &space{})
	k.limit()
}

func (k *keeper) mapped(tgid uint32, r *region) {
	p := k.procs[tgid]
	if p == nil { // its other mappings are not known, either: they are read when a program asks
		return
	}
	k.own(p)
	m := k.mappingOf(r, p.owner)
	m.file.hold()
	if p.named {
		k.want(m.file, tgid)
	}
	i, j, by := replace(p.maps, m)
	if len(p.maps)+len(by)-(j-i) > maxMappings { // no room for it, but what it replaces is gone
		by = slices.DeleteFunc(slices.Clone(p.maps[i:j]), func(o mapping) bool { return o.start < m.end && m.start < o.end })
	}
	if len(by) > 0 || i < j {
		old := slices.Clone(p.maps[i:j])
		if misleads(old, by) {
			k.hide(p.space)
		}
		for n := range by {
			by[n].file.hold()
		}
		p.space.maps, p.space.shot = slices.Replace(p.maps, i, j, by...), nil
		k.mappings += len(by) - len(old)
		for n := range old {
			k.dropFile(old[n].file)
		}
		k.dirty[p.space] = true
	}
	k.dropFile(m.file)
	k.limit()
}

// exited handles the end of a process's first thread. Programs may run in the process for a short time yet.
func (k *keeper) exited(tgid uint32) {
	if p := k.procs[tgid]; p != nil {
		k.leaving.add(p, time.Now().Add(reuseAfter))
	}
}

// lost handles lost records: the mappings of all processes are read again.
func (k *keeper) lost() {
	k.reads = k.reads[:0]
	for tgid := range k.procs {
		k.reads = append(k.reads, tgid)
	}
	if k.cares() {
		k.scanNew()
	}
}

// scanNew adds the processes that are not known to those whose mappings are read.
func (k *keeper) scanNew() {
	known := len(k.reads)
	k.scan()
	k.reads = append(k.reads[:known], slices.DeleteFunc(k.reads[known:], func(tgid uint32) bool { return k.procs[tgid] != nil })...)
}

// tick does what is due.
func (k *keeper) tick(now time.Time) {
	for n := 0; n < pace && len(k.reads) > 0; n++ {
		tgid := k.reads[0]
		k.reads = k.reads[1:]
		if p := k.add(tgid); !k.read(p) {
			k.forget(p)
		}
	}
	for p := k.leaving.take(now); p != nil; p = k.leaving.take(now) {
		switch {
		case k.procs[p.tgid] != p: // the ID is that of another one
		case hasExited(k.proc, p.tgid):
			k.forget(p)
		default: // other threads go on
			k.leaving.add(p, now.Add(lingering))
		}
	}
	for p := k.retries.take(now); p != nil; p = k.retries.take(now) {
		if p.retry = false; k.procs[p.tgid] == p {
			k.read(p)
		}
	}
	k.files.tick(k, now)
	for s := range k.dirty {
		if !now.Before(s.next) {
			delete(k.dirty, s)
			k.publish(s, now)
		}
	}
}

// hasExited reports whether no thread of a process is left.
func hasExited(proc string, tgid uint32) bool {
	b, err := os.ReadFile(fmt.Sprintf("%s/%d/stat", proc, tgid))
	if err != nil {
		return true
	}
	// "pid (name) state ...": the number of threads is the 18th word after the name.
	words := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	return len(words) < 18 || (words[0] == "Z" || words[0] == "X") && words[17] <= "1"
}

// timeout returns how long to wait for something to happen, in milliseconds; -1: there is nothing to do until then.
func (k *keeper) timeout(now time.Time, waiters []waiter) int {
	var at time.Time
	due := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if len(k.reads) > 0 {
		return 0
	}
	for _, s := range []schedule{k.leaving, k.retries} {
		if len(s) > 0 {
			due(s[0].at)
		}
	}
	for s := range k.dirty {
		due(s.next)
	}
	if t, ok := k.files.due(now); ok {
		due(t)
	}
	for _, x := range k.waiting {
		due(k.until(x))
		for _, w := range waiters {
			if w.id == x.ID {
				due(x.came.Add(showTime))
			}
		}
	}
	if at.IsZero() {
		return -1
	}
	return int(min(max(at.Sub(now)+time.Millisecond-1, 0), time.Minute) / time.Millisecond)
}

// idle reports whether nothing is left of what the named processes need.
func (k *keeper) idle() bool {
	for _, pid := range k.pids {
		if p := k.procs[uint32(pid)]; p != nil && k.dirty[p.space] {
			return false
		}
	}
	return len(k.pids) == 0 || k.settled()
}

// forget drops a process.
func (k *keeper) forget(p *process) {
	if k.procs[p.tgid] == p {
		delete(k.procs, p.tgid)
		k.unpublish(p)
	}
	k.leave(p, p.space)
}

// limit drops the processes that were used the longest time ago, a part of them at once, until the rest is within the
// bounds.
func (k *keeper) limit() {
	if len(k.procs) <= k.maxProcs && k.mappings <= maxTotal {
		return
	}
	k.evict(len(k.procs)/8 + 1)
}

// evict drops processes, named ones last; not all of them.
func (k *keeper) evict(n int) {
	all := make([]*process, 0, len(k.procs))
	for _, p := range k.procs {
		all = append(all, p)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if a.named != b.named {
			return b.named
		}
		return a.used < b.used
	})
	k.warn("WARNING: too many processes to keep the mappings of all: stacks of the oldest are cut, and counted")
	for i, p := range all[:max(len(all)-1, 0)] {
		if i >= n && len(k.procs) <= k.maxProcs && k.mappings <= maxTotal {
			break
		}
		k.forget(p)
	}
}

// Flags of a range.
const (
	rangeFrames  = 1 // all of its code keeps frame pointers
	rangeNoTable = 2
)

// span is an element of the map of ranges. Its offset for a table is the address minus Bias. Without a table and flags
// it waits for its table.
type span struct {
	Start, End, Bias uint64
	Table, Flags     uint32
}

// spanOf returns the range of a mapping. narrow is what narrow returns of all of them.
func spanOf(m *mapping, narrow bool) span {
	s := span{Start: m.start, End: m.end}
	f := m.file
	switch {
	case m.kind == anonymous && narrow:
		s.Flags = rangeNoTable
	case m.kind == anonymous:
		s.Flags = rangeFrames
	case m.kind == special || f == nil:
		s.Flags = rangeNoTable
	case !f.done():
	case f.built.frames:
		s.Flags = rangeFrames
	case f.built.content == nil:
		s.Flags = rangeNoTable
	default:
		bias, ok := f.built.shape.Bias(m.start, m.off)
		if !ok {
			s.Flags = rangeNoTable
			break
		}
		s.Bias, s.Table = bias, f.built.content.number
	}
	return s
}

// narrow reports whether a process may be a 32-bit one, in which no compiler is known to keep frame pointers of 8 bytes: all
// its code is below 4 GiB. In a 64-bit process, the vDSO is above, and libraries are.
func narrow(all []mapping) bool { return len(all) > 0 && all[len(all)-1].end>>32 == 0 }

// publish writes the ranges of an address space, and then makes its processes use them.
func (k *keeper) publish(s *space, now time.Time) {
	if len(s.procs) == 0 {
		return
	}
	spans := make([]span, 0, len(s.maps))
	low := narrow(s.maps)
	for i := range s.maps {
		x := spanOf(&s.maps[i], low)
		if n := len(spans); n > 0 && x.Table == 0 && x.Flags != 0 {
			if last := &spans[n-1]; last.End == x.Start && last.Table == 0 && last.Flags == x.Flags {
				last.End = x.End
				continue
			}
		}
		spans = append(spans, x)
	}
	old := s.piece
	if onlyFrames(s.maps) {
		spans = nil
	}
	var ok bool
	s.piece, ok = k.ranges.take(uint32(len(spans)), now)
	if ok && len(spans) > 0 {
		keys := make([]uint32, len(spans))
		for i := range keys {
			keys[i] = s.piece.first + uint32(i)
		}
		_, err := k.maps.Ranges.BatchUpdate(keys, spans, nil)
		if err != nil {
			k.warn("WARNING: cannot write the map of mappings: " + err.Error() + "; stacks are cut")
			k.ranges.release(s.piece, now)
			ok = false
		}
	}
	if !ok {
		s.piece = piece{}
	}
	s.published = ok
	for _, p := range s.procs {
		if ok {
			k.point(p)
		} else {
			k.unpublish(p)
		}
	}
	k.ranges.release(old, time.Now()) // programs may have read where it is until just now
	s.next = now.Add(time.Duration(len(spans)) * time.Second / rangesRate)
	if !ok { // others release theirs
		s.next = now.Add(reuseAfter)
		k.dirty[s] = true
		k.warn("WARNING: too many mappings of all processes: some stacks are cut, and counted")
	}
}

// onlyFrames reports whether all files that a process has mapped keep frame pointers. Programs then follow these, as for
// a process without ranges.
func onlyFrames(all []mapping) bool {
	files, low := false, narrow(all)
	for i := range all {
		switch m := &all[i]; {
		case m.kind == anonymous && low:
			return false
		case m.kind != ofFile:
		case !m.file.done() || !m.file.built.frames:
			return false
		default:
			files = true
		}
	}
	return files
}

// misleads reports whether the ranges of old mappings are wrong where those that replace them are: programs would take
// what is there now for what was there. Both are ascending.
func misleads(old, now []mapping) bool {
	for i := range old {
		a := spanOf(&old[i], false)
		if a.Table == 0 && a.Flags != rangeFrames { // stacks are cut there
			continue
		}
		at := a.Start
		for ; len(now) > 0 && now[0].end <= at; now = now[1:] {
		}
		for n := 0; at < a.End; n++ {
			if n == len(now) || now[n].start > at {
				return true
			}
			b := spanOf(&now[n], false)
			if a.Table != b.Table || a.Flags != b.Flags || a.Bias != b.Bias {
				return true
			}
			at = b.End
		}
	}
	return false
}

// hide makes the processes of an address space unknown to programs until it is published, which may be later: see
// space.next.
func (k *keeper) hide(s *space) {
	s.published = false
	for _, p := range s.procs {
		k.unpublish(p)
	}
}

// point makes programs use the ranges of a process, and ask again for what is not there.
func (k *keeper) point(p *process) {
	err := k.maps.Procs.Put(p.tgid, uint64(p.piece.first)|uint64(p.piece.count)<<32)
	if err != nil {
		k.warn("WARNING: cannot write the map of processes: " + err.Error() + "; stacks are cut")
		k.unpublish(p) // it may have ranges that are released
		return
	}
	k.maps.Asked.Delete(askKey(p.tgid))
}

// unpublish makes a process unknown to programs.
func (k *keeper) unpublish(p *process) {
	k.maps.Procs.Delete(p.tgid)
	k.maps.Asked.Delete(askKey(p.tgid))
}

// askKey is the key in Maps.Asked of what has no table yet.
func askKey(tgid uint32) [2]uint32 { return [2]uint32{tgid, 0} }

// sentKey is the key in Maps.Asked of the number of raw stacks of a process.
func sentKey(tgid uint32) [2]uint32 { return [2]uint32{tgid, unwind.SentKey} }
