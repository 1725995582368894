// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"btc/internal/elffile"
	"btc/internal/safefile"
	"btc/loader/format"
)

// process is a snapshot of a process's memory map, taken when the program reports the
// process for the first time, or when an address is resolved.
type process struct {
	maps      []mapping       // ascending
	earlier   [][]mapping     // what maps was before the process executed another program, or unmapped files; the latest first
	execs     uint64          // Watch.executed when maps were read
	bytes     int             // size of maps and earlier
	missed    map[uint64]bool // pages that were in no mapping when the map was read again for them
	parent    uint32          // process whose memory it started with, if it had exited when first seen
	used      uint64          // as Table.clock counts
	perf      *perfMap        // the functions in it are only for lookups
	perfBytes int             // size of perf, as counted in Table.symBytes
	user      uint32          // effective user when maps were read; root if the process hides itself from others
	read      time.Time       // when the map was last read because of an address in no mapping
	spent     allowance
}

// mapping is an executable part of a process's memory.
type mapping struct {
	start, end, off uint64
	path            string
	file            fileID
}

// fileID identifies a file, also under two names.
type fileID struct {
	dev, ino uint64
	process  uint32 // whose names of the file are only its own (fileSyms.private); 0: those of all
	later    bool   // only its build id, if it has one
}

// Snapshot reads a process's memory map now, so that its addresses can be resolved after it
// is gone. A newer snapshot replaces an older one only if it is not empty.
func (t *Table) Snapshot(tgid uint32) {
	t.mu.Lock()
	may := t.maySpend(tgid)
	t.mu.Unlock()
	var maps []mapping
	var user uint32
	cost, execs := time.Duration(0), t.executed(tgid)
	if may {
		cost = threadTime(func() { maps, user = readMaps(tgid) })
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.note(tgid, maps, user, execs)
	t.charge(tgid, cost-freeTime)
	t.Watch.Poll()
	if p := t.procs[tgid]; len(p.maps) == 0 {
		t.noteWatched(tgid, 0)
	}
	if len(t.procs) > t.sweepAt || t.mapBytes > maxMapBytes {
		t.forgetProcesses()
	}
}

// executed returns Watch.executed of a process, to be stored with a memory map that is read later.
func (t *Table) executed(tgid uint32) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Watch.Poll()
	return t.Watch.executed(tgid)
}

// note stores a process's memory map, and its user and Watch.executed at that time.
func (t *Table) note(tgid uint32, maps []mapping, user uint32, execs uint64) {
	t.clock++
	p := t.procs[tgid]
	if p == nil {
		p = &process{}
		t.procs[tgid] = p
	}
	p.used = t.clock
	if len(maps) > 0 {
		for i := range maps {
			maps[i].path = t.intern(maps[i].path)
		}
		kept := p.keepEarlier(maps)
		if p.execs != execs {
			p.missed = nil
		}
		p.maps, p.execs = maps, execs
		if t.recount(p); kept && t.mapBytes > maxMapBytes {
			for _, p := range t.procs {
				p.earlier = nil
				t.recount(p)
			}
		}
		if p.user != user && p.perf != nil { // another user may have written it
			t.symBytes -= p.perfBytes
			p.perf, p.perfBytes = nil, 0
		}
		p.user = user
	}
	tries := 0
	for i := range p.maps {
		if t.hold(&p.maps[i], tgid) {
			tries++
		}
		if tries > 2*maxHeld {
			break
		}
	}
}

// keepEarlier keeps the memory map that maps replace if they lack a part of it: stacks of that time may be printed later. It
// reports whether it did.
func (p *process) keepEarlier(maps []mapping) bool {
	if len(p.maps) > maxWatchedMaps || !slices.ContainsFunc(p.maps, func(m mapping) bool {
		now := findIn(maps, m.start)
		return now == nil || now.file != m.file || now.start-now.off != m.start-m.off
	}) {
		return false
	}
	p.earlier = slices.Insert(p.earlier, 0, p.maps)
	p.earlier = p.earlier[:min(len(p.earlier), maxEarlier)]
	return true
}

// recount counts the size of a process's memory maps again.
func (t *Table) recount(p *process) {
	t.mapBytes -= p.bytes
	p.bytes = mappingBytes(p.maps)
	for _, maps := range p.earlier {
		p.bytes += mappingBytes(maps)
	}
	t.mapBytes += p.bytes
}

// noteWatched stores the watch's mappings of a process that has exited, and of the process whose memory it started
// with, before the watch drops them.
func (t *Table) noteWatched(tgid uint32, depth int) {
	programs, parent := t.Watch.programs(tgid), uint32(0)
	if len(programs) == 0 {
		t.note(tgid, nil, 0, 0)
	} else if parent = programs[0].origin(); parent == tgid || depth >= maxDepth {
		parent = 0
	}
	for _, g := range slices.Backward(programs) {
		if p := t.procs[tgid]; p == nil || len(p.maps) == 0 || p.execs < g.execs {
			t.note(tgid, g.ascending(), 0, g.execs) // its user is not known: only root may have written its perf map
		}
	}
	if t.procs[tgid].parent = parent; parent == 0 {
		return
	}
	if p := t.procs[parent]; p != nil && len(p.maps) > 0 {
		p.used = t.clock
		return
	}
	if maps, user := readMaps(parent); len(maps) > 0 {
		t.note(parent, maps, user, t.Watch.executed(parent))
		return
	}
	t.noteWatched(parent, depth+1)
}

// maxDepth bounds the chain of processes that started with the memory of another.
const maxDepth = 16

func mappingBytes(maps []mapping) (n int) {
	for i := range maps {
		n += int(unsafe.Sizeof(mapping{})) + len(maps[i].path)
	}
	return n
}

// forgetProcesses drops processes that have exited and that no map refers to, except the most recent, whose events
// may be pending. If too many are left, the oldest are dropped, too.
func (t *Table) forgetProcesses() {
	needed := map[uint32]bool{}
	if t.Referenced != nil {
		t.Referenced(func(tgid uint32) {
			for depth := 0; tgid != 0 && depth <= maxDepth; depth++ {
				needed[tgid] = true
				p := t.procs[tgid]
				if p == nil {
					break
				}
				tgid = p.parent
			}
		})
	}
	oldest := make([]uint32, 0, len(t.procs))
	for tgid := range t.procs {
		oldest = append(oldest, tgid)
	}
	sort.Slice(oldest, func(i, j int) bool { return t.procs[oldest[i]].used < t.procs[oldest[j]].used })
	old := max(len(oldest)-recentProcs, 0)
	for _, tgid := range oldest[:old] {
		if !needed[tgid] && unix.Kill(int(tgid), 0) == unix.ESRCH {
			t.forget(tgid)
		}
	}
	for _, tgid := range oldest[:max(len(oldest)-1, 0)] {
		if len(t.procs) <= maxProcs && t.mapBytes <= maxMapBytes {
			break
		}
		t.warn("WARNING: too many processes to keep the memory maps of all: the oldest have no symbols")
		t.forget(tgid)
	}
	t.sweepAt = min(max(minProcs, 2*len(t.procs)), maxProcs)
}

func (t *Table) forget(tgid uint32) {
	if p := t.procs[tgid]; p != nil {
		t.mapBytes -= p.bytes
		t.symBytes -= p.perfBytes
		delete(t.procs, tgid)
	}
	for id, f := range t.held {
		if id.process == tgid {
			f.Close()
			delete(t.held, id)
		}
	}
}

// maxHeld bounds the files kept open for processes that may be gone when their
// addresses are printed.
const maxHeld = 256

// hold opens a mapping's file while the process exists: later the file may be inaccessible, because it was deleted or
// is in a container. It reports whether it tried to.
func (t *Table) hold(m *mapping, tgid uint32) bool {
	if _, s := t.cached(m, tgid, t.Later); s != nil || m.path == vdsoPath {
		return false
	}
	return t.open(m, tgid)
}

// open is like hold, for a file of which something is known already.
func (t *Table) open(m *mapping, tgid uint32) bool {
	mine := m.file
	mine.process = tgid
	if m.path == vdsoPath || t.held[m.file] != nil || t.held[mine] != nil || len(t.held) >= maxHeld {
		return false
	}
	f := m.openFor(tgid)
	switch {
	case f == nil:
	case m.sure(f):
		t.held[m.file] = f
	case len(t.held) < maxHeld/2: // there may be one of each process
		t.held[mine] = f
	default:
		f.Close()
	}
	return true
}

// take returns the opened file of a mapping, nil if the process does not show it any more.
func (t *Table) take(m *mapping, tgid uint32) *os.File {
	mine := m.file
	mine.process = tgid
	for _, id := range []fileID{m.file, mine} {
		if f := t.held[id]; f != nil {
			delete(t.held, id)
			return f
		}
	}
	return nil
}

// openFor opens the file of a mapping as the process shows it; nil: it does not. Inodes are compared: device numbers of some
// file systems differ between stat and /proc/PID/maps.
func (m *mapping) openFor(tgid uint32) *os.File {
	f, err := safefile.OpenSame(fmt.Sprintf("/proc/%d/root", tgid), m.path, m.file.ino)
	if err != nil { // deleted files, too
		f, err = safefile.OpenSame("", fmt.Sprintf("/proc/%d/map_files/%x-%x", tgid, m.start, m.end), m.file.ino)
	}
	if err != nil {
		return nil
	}
	return f
}

// sure reports whether a file that was found by its path and inode is that of the mapping: in a file system of its own, a user
// can make a file with any inode. Where device numbers differ (btrfs, overlayfs), it must be one that only root has made.
func (m *mapping) sure(f *os.File) bool {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return false
	}
	dev := uint64(st.Dev)
	return uint64(unix.Major(dev))<<32|uint64(unix.Minor(dev)) == m.file.dev || st.Uid == 0 && st.Mode&0o022 == 0 && safefile.OnOwnMount(f)
}

// Limits of reading a memory map.
const (
	maxMappings = 1 << 16     // mappings that are kept of one process
	maxPathSum  = 16 << 20    // bytes of their paths
	mapsTime    = time.Second // CPU time of one reading
)

// readMaps reads the executable mappings of files of a process, and its user. It stops after mapsTime if it is called
// by threadTime.
func readMaps(tgid uint32) (maps []mapping, user uint32) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", tgid))
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return nil, 0
	}
	s := bufio.NewScanner(f)
	begin, paths := threadClock(), 0
	for lines := 1; s.Scan() && len(maps) < maxMappings && paths < maxPathSum; lines++ {
		if lines%1024 == 0 && threadClock()-begin > mapsTime {
			break
		}
		line := s.Bytes()
		if i := bytes.IndexByte(line, ' '); i < 0 || i+3 >= len(line) || line[i+3] != 'x' {
			continue // Java has tens of thousands of these
		}
		if m, ok := parseMapping(string(line)); ok {
			maps = append(maps, m)
			paths += len(m.path)
		}
	}
	return slices.Clip(maps), st.Uid
}

// intern returns a shared copy of a path; a substring would keep its line in memory.
func (t *Table) intern(path string) string {
	if kept, ok := t.paths[path]; ok {
		return kept
	}
	if len(t.paths) >= maxFiles {
		clear(t.paths)
	}
	path = strings.Clone(path)
	t.paths[path] = path
	return path
}

// parseMapping reads an executable mapping of a file from a line of
// /proc/PID/maps: "start-end perms offset major:minor inode path".
func parseMapping(line string) (m mapping, ok bool) {
	var words [5]string
	rest := line
	for i := range words {
		rest = strings.TrimLeft(rest, " ")
		words[i], rest, _ = strings.Cut(rest, " ")
	}
	m.path = strings.TrimLeft(rest, " ")
	lo, hi, _ := strings.Cut(words[0], "-")
	major, minor, _ := strings.Cut(words[3], ":")
	var errs [6]error
	var maj, mnr uint64
	m.start, errs[0] = strconv.ParseUint(lo, 16, 64)
	m.end, errs[1] = strconv.ParseUint(hi, 16, 64)
	m.off, errs[2] = strconv.ParseUint(words[2], 16, 64)
	maj, errs[3] = strconv.ParseUint(major, 16, 32)
	mnr, errs[4] = strconv.ParseUint(minor, 16, 32)
	m.file.ino, errs[5] = strconv.ParseUint(words[4], 10, 64)
	for _, err := range errs {
		if err != nil {
			return m, false
		}
	}
	m.file.dev = maj<<32 | mnr
	return m, len(words[1]) > 2 && words[1][2] == 'x' && m.isCode()
}

// User finds the function at an address of a process, and the file it is in.
// Without a symbol, name is empty and file is still set.
func (t *Table) User(addr uint64, tgid uint32) (name, file string, off uint64) {
	f := format.Frame{Address: addr}
	t.renew(tgid)
	t.userFrame(&f, tgid, nil, false)
	return f.Sym, f.File, f.Offset
}

// userFrame sets what is known of a frame of a process, preferably from a memory map that the process had earlier, if in is
// not nil; later: without the name of the function, if the file has a build id.
func (t *Table) userFrame(f *format.Frame, tgid uint32, in []mapping, later bool) {
	t.payer = tgid
	m, addr := t.findPlain(f.Address, tgid, in)
	if m == nil {
		f.Sym, f.File, f.Offset = t.perfMapped(addr, tgid)
		return
	}
	f.File = m.path
	syms := t.symbols(m, tgid, later)
	if syms == nil {
		return
	}
	at := addr - m.start + m.off
	if f.BuildID = syms.buildID; f.BuildID != "" {
		f.FileOffset = at
	}
	if name, off, ok := syms.lookup(at); ok {
		f.Sym, f.Offset = t.show(name), off
	}
}

// maxMissed bounds the unknown pages of a process for which its map is read again.
const maxMissed = 1024

// renew reads the memory map of a process again if it has executed another program since.
func (t *Table) renew(tgid uint32) {
	execs := t.executed(tgid)
	t.mu.Lock()
	p := t.procs[tgid]
	stale := p != nil && len(p.maps) > 0 && p.execs < execs
	t.mu.Unlock()
	if !stale {
		return
	}
	t.spend(tgid, func() {
		maps, user := readMaps(tgid)
		t.mu.Lock()
		defer t.mu.Unlock()
		if len(maps) > 0 {
			t.note(tgid, maps, user, execs)
		} else {
			t.noteWatched(tgid, 0)
		}
	})
}

// mapOf returns the memory map that a process had when a stack was taken: of those that it had since it was first seen, the
// one in which most of the addresses are, and of two such the later one. nil is the current one.
func (t *Table) mapOf(addrs []uint64, tgid uint32) (in []mapping) {
	if t.Watch == nil { // a new program shows itself by addresses that were not mapped before
		for _, addr := range addrs {
			t.findPlain(addr, tgid, nil) // reads the map again
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.procs[tgid]
	if p == nil || len(p.earlier) == 0 {
		return nil
	}
	found := func(maps []mapping) (n int) {
		for _, addr := range addrs {
			if m, _ := plainIn(addr, func(plain uint64) *mapping { return findIn(maps, plain) }); m != nil {
				n++
			}
		}
		return n
	}
	most := found(p.maps)
	for _, maps := range p.earlier {
		if n := found(maps); n > most {
			in, most = maps, n
		}
	}
	return in
}

// find returns the mapping of an address, nil if it is unknown or was of another process with the same ID.
func (t *Table) find(addr uint64, tgid uint32) *mapping {
	m := t.search(addr, tgid)
	t.mu.Lock()
	defer t.mu.Unlock()
	if m != nil && t.Watch.ambiguous(addr, tgid, m) {
		return nil
	}
	return m
}

// search returns the mapping of an address. For a process that maps a library after it was first seen, the map is read
// again, once for each unknown page and at most once a second; a process that has exited may have been watched.
func (t *Table) search(addr uint64, tgid uint32) *mapping {
	m, known, recent := t.known(addr, tgid)
	if known {
		return m
	}
	if !recent {
		recent = !t.spend(tgid, func() {
			execs := t.executed(tgid)
			maps, user := readMaps(tgid)
			t.mu.Lock()
			defer t.mu.Unlock()
			t.note(tgid, maps, user, execs)
			t.procs[tgid].read = time.Now()
		})
	}
	t.mu.Lock()
	p, by := t.procs[tgid], uint32(0)
	if p != nil {
		m, by = p.find(addr), p.parent
	}
	if m == nil && by == 0 {
		t.Watch.Poll()
		m, by = t.Watch.find(addr, tgid)
	}
	t.mu.Unlock()
	if m != nil {
		return m
	}
	if by != 0 && by != tgid { // a child that ran with the memory of an unknown process
		if m := t.find(addr, by); m != nil {
			return m
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p = t.procs[tgid]; p == nil || recent { // a newer one shares the pages; or the page may be known later
		return nil
	}
	if p.missed == nil {
		p.missed = map[uint64]bool{}
	}
	p.missed[addr>>12] = true
	return nil
}

// mapsPause is the time between two readings of the map of a process because of unknown pages.
const mapsPause = time.Second

// known returns the mapping of an address of a process that was seen before. known reports whether searching further
// is pointless, and recent whether the map was read a short time ago.
func (t *Table) known(addr uint64, tgid uint32) (m *mapping, known, recent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.procs[tgid]
	if p == nil {
		return nil, false, false
	}
	m = p.find(addr)
	return m, m != nil || p.missed[addr>>12] || len(p.missed) >= maxMissed, time.Since(p.read) < mapsPause
}

// find returns the mapping of an address, if there is none any more, that of an earlier time.
func (p *process) find(addr uint64) *mapping {
	if p == nil {
		return nil
	}
	m := findIn(p.maps, addr)
	for i := 0; m == nil && i < len(p.earlier); i++ {
		m = findIn(p.earlier[i], addr)
	}
	return m
}

func findIn(maps []mapping, addr uint64) *mapping {
	i, found := slices.BinarySearchFunc(maps, addr, func(m mapping, a uint64) int {
		switch {
		case m.end <= a:
			return -1
		case m.start > a:
			return 1
		}
		return 0
	})
	if !found {
		return nil
	}
	return &maps[i]
}

// symbols returns the symbols of a mapping's file, nil when it cannot be read; later: only its build id, if it has one.
func (t *Table) symbols(m *mapping, tgid uint32, later bool) *fileSyms {
	t.mu.Lock()
	t.clock++
	id, s := t.cached(m, tgid, later)
	if s != nil {
		s.used = t.clock
		t.mu.Unlock()
		return s.orNil()
	}
	t.mu.Unlock()
	if !t.spend(tgid, func() {
		t.mu.Lock()
		f := t.take(m, tgid)
		t.mu.Unlock()
		if f == nil && m.path != vdsoPath {
			f = m.openFor(tgid)
		}
		s = t.readSymbols(m, f, tgid, later)
	}) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.used = t.clock
	if s.private && id.process == 0 {
		t.files[id] = &fileSyms{used: t.clock, private: true}
		id.process = tgid
	}
	t.files[id] = s
	t.symBytes += s.bytes()
	t.forgetFiles()
	for f := t.take(m, tgid); f != nil; f = t.take(m, tgid) { // opened in the meantime
		f.Close()
	}
	return s.orNil()
}

// cached returns the symbols of a mapping's file that have been read, and their key; nil if there are none.
func (t *Table) cached(m *mapping, tgid uint32, later bool) (id fileID, s *fileSyms) {
	id = m.file
	id.later = later
	if s = t.files[id]; s != nil && s.private {
		s.used = t.clock
		id.process = tgid
		s = t.files[id]
	}
	return id, s
}

// orNil returns s, or nil if it is empty.
func (s *fileSyms) orNil() *fileSyms {
	if len(s.entries) == 0 && s.buildID == "" {
		return nil
	}
	return s
}

// readSymbols reads the symbols of a mapping's file; f is that file, nil when the process did
// not show it.
func (t *Table) readSymbols(m *mapping, f *os.File, tgid uint32, later bool) *fileSyms {
	if m.path == vdsoPath {
		if s := readVDSO(m.end - m.start); s != nil {
			return s
		}
		return &fileSyms{}
	}
	roots := rootsOf(tgid)
	if f == nil { // the process has exited: the path must still refer to the same file
		var err error
		if f, err = safefile.OpenSame("", m.path, m.file.ino); err != nil {
			return &fileSyms{private: true} // others may show it
		}
		roots = []string{"/"}
	}
	defer f.Close()
	private := !m.sure(f)
	if later {
		if answer, err := t.parser.call(&request{kind: askUnwind, flag: 1, files: []int{int(f.Fd())}}); err == nil && validBuildID(answer.text) {
			return &fileSyms{buildID: answer.text, private: private}
		}
	}
	s := t.readFileSyms(f, cleanPath(m.path), roots)
	s.private = s.private || private
	return s
}

// readFileSyms reads the symbol tables of a file and, if it was stripped, the separate file with its symbols: path is
// the file's name, relative to each of roots.
func (t *Table) readFileSyms(f *os.File, path string, roots []string) *fileSyms {
	answer, err := t.parser.call(&request{kind: askFile, files: []int{int(f.Fd())}})
	if err != nil || !answer.ok {
		return &fileSyms{}
	}
	id := answer.text
	private := false
	if answer.stripped {
		var more *reply
		if more, private = t.debugFile(f, answer, path, roots); more != nil {
			answer = more
		}
	}
	if answer.full {
		t.warn("WARNING: a file has too many symbols: some are not read")
	}
	return &fileSyms{table: answer.table, buildID: id, private: private}
}

// forgetFiles drops the symbols of the files that were not used for longest until the
// rest is within the bounds; the last one stays.
func (t *Table) forgetFiles() {
	for (t.symBytes > maxSymBytes || len(t.files) > maxFiles) && len(t.files) > 1 {
		var oldest fileID
		used := ^uint64(0)
		for id, s := range t.files {
			if s.used < used && (len(t.files) > maxFiles || s.bytes() > 0) {
				oldest, used = id, s.used
			}
		}
		if used == ^uint64(0) || used == t.clock {
			return
		}
		if t.symBytes > maxSymBytes {
			t.warn("WARNING: the symbols of all files take too much memory: they are read again on demand")
		}
		t.symBytes -= t.files[oldest].bytes()
		delete(t.files, oldest)
	}
}

// Usym returns the bare name of the function at addr in process tgid, or the address in hex.
func (t *Table) Usym(addr uint64, tgid uint32) string {
	if name, _, _ := t.User(addr, tgid); name != "" {
		return name
	}
	return hex(addr)
}

// show returns a name in the user's preferred form.
func (t *Table) show(name string) string {
	if !t.Demangle || !strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_R") {
		return name
	}
	shown, ok := t.readable[name]
	if ok {
		return shown
	}
	shown = name
	if len(name) <= elffile.MaxMangled {
		if !t.spend(t.payer, func() {
			if answer, err := t.parser.call(&request{kind: askDemangle, text: name}); err == nil && answer.ok {
				shown = answer.text
			}
		}) {
			return name
		}
	}
	if t.shown += len(name) + len(shown); t.shown > maxShownBytes {
		clear(t.readable)
		t.shown = len(name) + len(shown)
	}
	t.readable[name] = shown
	return shown
}
