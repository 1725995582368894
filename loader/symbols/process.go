package symbols

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ianlancetaylor/demangle"
)

// process is what is known of a process's memory: taken when the program
// reports the process for the first time, or when an address is asked for.
type process struct {
	maps   []mapping
	missed map[uint64]bool // pages that no mapping held when the map was read for them
}

// mapping is an executable part of a process's memory.
type mapping struct {
	start, end, off uint64
	path            string
	file            fileID
}

// fileID tells files apart, and one file under two names is the same.
type fileID struct{ dev, ino uint64 }

// Snapshot reads a process's memory map now, so that its addresses can be
// resolved after it is gone. A newer snapshot replaces an older one only when it
// holds something.
func (t *Table) Snapshot(tgid uint32) {
	p := &process{maps: readMaps(tgid)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.procs[tgid]; old == nil {
		t.procs[tgid] = p
	} else if len(p.maps) > 0 {
		p.missed = old.missed
		t.procs[tgid] = p
	}
	for i := range p.maps {
		t.hold(&p.maps[i], tgid)
	}
}

// maxHeld bounds the files kept open for processes that may be gone when their
// addresses are printed.
const maxHeld = 256

// hold opens a mapping's file while the process shows it: it may be deleted, or
// lie in a container, and be out of reach later.
func (t *Table) hold(m *mapping, tgid uint32) {
	if m.path == vdsoPath {
		return
	}
	if _, known := t.files[m.file]; known || t.held[m.file] != nil || len(t.held) >= maxHeld {
		return
	}
	for _, name := range []string{
		fmt.Sprintf("/proc/%d/root%s", tgid, m.path),
		fmt.Sprintf("/proc/%d/map_files/%x-%x", tgid, m.start, m.end), // deleted files too
	} {
		if !sameFile(name, m.file) {
			continue
		}
		if f, err := os.Open(name); err == nil {
			t.held[m.file] = f
			return
		}
	}
}

// maxMappings bounds what is kept of one process.
const maxMappings = 1 << 16

func readMaps(tgid uint32) []mapping {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", tgid))
	if err != nil {
		return nil
	}
	defer f.Close()
	var maps []mapping
	s := bufio.NewScanner(f)
	for s.Scan() && len(maps) < maxMappings {
		if m, ok := parseMapping(s.Text()); ok {
			maps = append(maps, m)
		}
	}
	return maps
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
// Without a symbol, name is empty and file still says where the address lies.
func (t *Table) User(addr uint64, tgid uint32) (name, file string, off uint64) {
	m := t.find(addr, tgid)
	if m == nil {
		return t.perfMapped(addr, tgid)
	}
	syms := t.symbols(m, tgid)
	if syms == nil {
		return "", m.path, 0
	}
	name, off, ok := syms.lookup(addr - m.start + m.off)
	if !ok {
		return "", m.path, 0
	}
	return t.show(name), m.path, off
}

// find gives the mapping of an address. A process that maps a library after it
// was seen is read again, once for each page that is not known; one that is gone
// may have been watched.
func (t *Table) find(addr uint64, tgid uint32) *mapping {
	if m, known := t.known(addr, tgid); known {
		return m
	}
	t.Snapshot(tgid)
	t.mu.Lock()
	p := t.procs[tgid]
	m, by := p.find(addr), uint32(0)
	if m == nil {
		t.Watch.Poll()
		m, by = t.Watch.find(addr, tgid)
	}
	t.mu.Unlock()
	if m != nil {
		return m
	}
	if by != 0 && by != tgid { // a child that ran with the memory of a process that we do not know
		if m := t.find(addr, by); m != nil {
			return m
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p = t.procs[tgid]; p == nil { // a newer one shares the pages
		return nil
	}
	if p.missed == nil {
		p.missed = map[uint64]bool{}
	}
	p.missed[addr>>12] = true
	return nil
}

// known gives the mapping of an address of a process that was seen before; known says that
// there is no more to find.
func (t *Table) known(addr uint64, tgid uint32) (m *mapping, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.procs[tgid]
	m = p.find(addr)
	return m, m != nil || p != nil && p.missed[addr>>12]
}

func (p *process) find(addr uint64) *mapping {
	if p == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(p.maps, addr, func(m mapping, a uint64) int {
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
	return &p.maps[i]
}

// symbols gives the symbols of a mapping's file, nil when it cannot be read.
func (t *Table) symbols(m *mapping, tgid uint32) *fileSyms {
	t.mu.Lock()
	s, ok := t.files[m.file]
	if ok {
		t.mu.Unlock()
		return s
	}
	t.hold(m, tgid)
	f := t.held[m.file]
	delete(t.held, m.file)
	t.mu.Unlock()
	if m.path == vdsoPath {
		s = readVDSO(m.end - m.start)
	} else if f != nil {
		s = readFileSyms(f, cleanPath(m.path), rootsOf(tgid))
		f.Close()
	} else if sameFile(m.path, m.file) { // the process is gone: the path must still lead to the same file
		if f, err := os.Open(m.path); err == nil {
			s = readFileSyms(f, cleanPath(m.path), []string{""})
			f.Close()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files[m.file] = s
	if f := t.held[m.file]; f != nil { // opened meanwhile
		f.Close()
		delete(t.held, m.file)
	}
	return s
}

// sameFile compares inodes; device numbers of some file systems differ between
// stat and /proc/PID/maps.
func sameFile(name string, id fileID) bool {
	var st syscall.Stat_t
	return syscall.Stat(name, &st) == nil && st.Ino == id.ino
}

// Usym is the bare name of the function at addr in process tgid, or the address in hex.
func (t *Table) Usym(addr uint64, tgid uint32) string {
	if name, _, _ := t.User(addr, tgid); name != "" {
		return name
	}
	return hex(addr)
}

// show gives a name as the user wants to read it.
func (t *Table) show(name string) string {
	if !t.Demangle || !strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_R") {
		return name
	}
	shown, ok := t.readable[name]
	if !ok {
		shown = demangle.Filter(name)
		t.readable[name] = shown
	}
	return shown
}
