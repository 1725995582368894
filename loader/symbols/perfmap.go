// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/safefile"
)

// perfMap holds the functions that a process's just-in-time compiler lists in the file
// /tmp/perf-PID.map: one line "START SIZE NAME" each, in hex.
type perfMap struct {
	path   string
	tables []table // by address; later tables are from later parts of the file
	ino    uint64
	read   int64 // bytes of the file
	full   bool  // no room for more
	tried  time.Time
}

const (
	perfMapPause = time.Second // between two readings of a file that grows
	maxPerfBytes = 64 << 20    // bytes of one process's functions
	// perfMapPiece bounds what one request reads, in bytes of the file.
	perfMapPiece = 16 << 20
	// maxPerfRead bounds what is read of one file, in bytes: one that has only holes never fills maxPerfBytes.
	maxPerfRead = 256 << 20
)

func (p *perfMap) bytes() (n int) {
	if p == nil {
		return 0
	}
	for i := range p.tables {
		n += p.tables[i].bytes()
	}
	return n
}

// lookup finds the function at an address: the one that was named last.
func (p *perfMap) lookup(addr uint64) (name string, off uint64, ok bool) {
	for i := len(p.tables) - 1; i >= 0 && !ok; i-- {
		name, off, ok = p.tables[i].lookup(addr)
	}
	return name, off, ok
}

// add appends a table, and merges the last ones so that there are few.
func (p *perfMap) add(t table) {
	for n := len(p.tables); n > 0 && len(p.tables[n-1].entries) <= 2*len(t.entries); n = len(p.tables) {
		t = merged(&p.tables[n-1], &t)
		p.tables = p.tables[:n-1]
	}
	p.tables = append(p.tables, t)
}

// merged returns the union of both tables. A later function replaces an earlier one at the same
// address.
func merged(old, new *table) (m table) {
	m.entries, m.names = make([]entry, 0, len(old.entries)+len(new.entries)), make([]byte, 0,
		len(old.names)+len(new.names))
	take := func(t *table, i int) {
		e := &t.entries[i]
		m.add(e.off, uint64(e.size), t.name(e))
	}
	i, j := 0, 0
	for i < len(old.entries) || j < len(new.entries) {
		switch {
		case j == len(new.entries) || i < len(old.entries) && old.entries[i].off < new.entries[j].off:
			take(old, i)
			i++
		default:
			if i < len(old.entries) && old.entries[i].off == new.entries[j].off {
				i++
			}
			take(new, j)
			j++
		}
	}
	return m
}

// perfMapped finds the function at an address that is in no file.
func (t *Table) perfMapped(addr uint64, tgid uint32) (name, file string, off uint64) {
	t.mu.Lock()
	proc := t.procs[tgid]
	if proc == nil { // forgotten
		t.mu.Unlock()
		return "", "", 0
	}
	if proc.perf == nil {
		proc.perf = &perfMap{}
	}
	p := proc.perf
	t.mu.Unlock()
	name, off, ok := p.lookup(addr)
	if !ok && (p.tried.IsZero() || time.Since(p.tried) >= perfMapPause) && t.spend(tgid, func() { t.refresh(p, tgid) }) {
		name, off, ok = p.lookup(addr)
		p.tried = time.Now()
		t.count(tgid, p)
	}
	if !ok {
		return "", "", 0
	}
	return t.show(name), p.path, off
}

// count brings the memory of a process's perf map into account.
func (t *Table) count(tgid uint32, p *perfMap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if proc := t.procs[tgid]; proc != nil && proc.perf == p { // not forgotten in the meantime
		t.symBytes += p.bytes() - proc.perfBytes
		proc.perfBytes = p.bytes()
		t.forgetFiles()
	}
}

// refresh reads the file from where the last reading ended; from its start if it was replaced or truncated.
func (t *Table) refresh(p *perfMap, tgid uint32) {
	f, st, name := t.openPerfMap(tgid)
	if f == nil {
		return
	}
	defer f.Close()
	if p.ino != st.Ino || st.Size < p.read {
		*p = perfMap{ino: st.Ino}
	}
	p.path = name
	for p.read < st.Size && !p.full && !t.overdue() {
		answer, err := t.parser.call(&request{kind: askPerfMap, off: uint64(p.read), files: []int{int(f.Fd())}})
		if err != nil || !answer.ok {
			return
		}
		if len(answer.entries) > 0 {
			p.add(answer.table)
		}
		p.full = answer.full || p.bytes() > maxPerfBytes
		end := int64(answer.off)
		if end <= p.read { // an incomplete line, to be read again when there is more
			break
		}
		p.read = end
		p.full = p.full || end >= maxPerfRead
	}
	if p.full {
		t.warn("WARNING: a perf map is too large: its last entries are not read")
	}
}

// openPerfMap opens a process's perf map; nil: there is none.
func (t *Table) openPerfMap(tgid uint32) (*os.File, *unix.Stat_t, string) {
	who := t.ownerOf(tgid)
	for _, c := range who.perfMaps(tgid) {
		f, err := safefile.OpenInNoFollow(c.root, c.name)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(int(f.Fd()), &st) == nil && who.trusts(&st) {
			return f, &st, c.name
		}
		f.Close()
	}
	return nil, nil, ""
}

// owner says who may name the functions of a process.
type owner struct {
	user, group uint32
	root        uint32 // root of its user namespace
	inner       string // its ID in its own PID namespace
}

// ownerOf returns the owner of a process; of one that has exited, its user when its memory map was read.
func (t *Table) ownerOf(tgid uint32) owner {
	t.mu.Lock()
	user := uint32(0)
	if p := t.procs[tgid]; p != nil {
		user = p.user
	}
	t.mu.Unlock()
	dir := "/proc/" + strconv.FormatUint(uint64(tgid), 10)
	b, err := os.ReadFile(dir + "/status")
	if err != nil {
		return owner{user: user}
	}
	status := string(b)
	b, _ = os.ReadFile(dir + "/uid_map") // lines: first user inside, first user outside, count
	return owner{
		user: id(words(status, "\nUid:"), 1), group: id(words(status, "\nGid:"), 1), // the effective ones
		root: id(words("\n"+string(b), "\n         0 "), 0), inner: last(words(status, "\nNSpid:")),
	}
}

// words returns the words of the line that begins with name.
//
//go:noinline
func words(text, name string) []string {
	_, rest, _ := strings.Cut(text, name)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(line)
}

// id returns a user or group ID; 0 if it is missing.
//
//go:noinline
func id(words []string, i int) uint32 {
	if i >= len(words) {
		return 0
	}
	n, _ := strconv.ParseUint(words[i], 10, 32)
	return uint32(n)
}

//go:noinline
func last(words []string) string {
	if len(words) < 2 {
		return "" // it is in the same namespace
	}
	return words[len(words)-1]
}

// trusts reports whether only the process's user or a root can have written a file, as perf requires. The group of
// the process may write, too (umask 002). A hard link may be to another file of the user.
func (o *owner) trusts(st *unix.Stat_t) bool {
	return (st.Uid == 0 || st.Uid == o.user || st.Uid == o.root) && st.Nlink <= 1 && st.Mode&unix.S_IWOTH == 0 &&
		(st.Mode&unix.S_IWGRP == 0 || st.Gid == o.group)
}

type perfMapName struct{ root, name string }

// perfMaps returns the candidate files of a process: it names them by its process ID in its own PID namespace, in
// its own /tmp.
func (o *owner) perfMaps(tgid uint32) (out []perfMapName) {
	name := func(pid string) string { return "/tmp/perf-" + pid + ".map" }
	outer := strconv.FormatUint(uint64(tgid), 10)
	root := "/proc/" + outer + "/root"
	if o.inner != "" {
		out = append(out, perfMapName{root, name(o.inner)})
	}
	return append(out, perfMapName{root, name(outer)}, perfMapName{"/", name(outer)})
}

// parsePerfMap reads the valid lines from an offset on, up to perfMapPiece bytes or the end
// of the last whole line; end is the offset after the data read.
func parsePerfMap(r io.ReaderAt, from int64) (t table, end int64, full bool) {
	end = from
	buf := make([]byte, perfMapLine)
	kept := 0 // bytes in buf of an incomplete line
	for end-from < perfMapPiece && !full {
		n, err := r.ReadAt(buf[kept:], end+int64(kept))
		b := buf[:kept+n]
		if n > 0 && len(b) == len(buf) && bytes.IndexByte(b, '\n') < 0 { // longer than any line that counts
			end += int64(len(b))
			kept = 0
			continue
		}
		for !full {
			line, rest, whole := bytes.Cut(b, []byte{'\n'})
			if !whole {
				break
			}
			end += int64(len(line)) + 1
			full = !addPerfLine(&t, line)
			b = rest
		}
		kept = copy(buf, b)
		if err != nil || n == 0 {
			addPerfLine(&t, buf[:kept]) // possibly incomplete; later data replaces it
			break
		}
	}
	t.sortByTime()
	return t, end, full
}

// perfMapLine is the longest line, in bytes.
const perfMapLine = 1 << 20

// addPerfLine reports whether the table has room.
func addPerfLine(t *table, line []byte) bool {
	start, rest, _ := strings.Cut(string(line), " ")
	size, name, _ := strings.Cut(rest, " ")
	from, err1 := strconv.ParseUint(strings.TrimPrefix(start, "0x"), 16, 64)
	n, err2 := strconv.ParseUint(strings.TrimPrefix(size, "0x"), 16, 64)
	if err1 != nil || err2 != nil || n == 0 || name == "" || strings.IndexByte(name, 0) >= 0 {
		return true
	}
	return t.add(from, n, []byte(name[:min(len(name), maxPerfName)]))
}

// maxPerfName is the maximum length of a name that is kept, in bytes.
const maxPerfName = 4096

// sortByTime orders functions for lookup; of several at one address the last is kept.
func (t *table) sortByTime() {
	sort.Sort((*byTime)(t))
	kept := t.entries[:0]
	for _, e := range t.entries {
		if n := len(kept); n > 0 && kept[n-1].off == e.off {
			kept = kept[:n-1]
		}
		kept = append(kept, e)
	}
	t.entries = kept
}

type byTime table

func (s *byTime) Len() int      { return len(s.entries) }
func (s *byTime) Swap(i, j int) { s.entries[i], s.entries[j] = s.entries[j], s.entries[i] }
func (s *byTime) Less(i, j int) bool {
	a, b := &s.entries[i], &s.entries[j]
	return a.off < b.off || a.off == b.off && a.name < b.name // names are in the order of time
}

// rootsOf returns the directories below which a process's files are searched: that of this process, then that of the
// process, unless it is the same.
func rootsOf(tgid uint32) []string {
	for _, link := range []string{"root", "ns/mnt"} {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", tgid, link))
		if err != nil {
			break
		}
		if own, err := os.Readlink("/proc/self/" + link); err != nil || own != theirs {
			return []string{"/", fmt.Sprintf("/proc/%d/root", tgid)}
		}
	}
	return []string{"/"}
}

// The directory of a mapped file, as the process names it.
func cleanPath(path string) string {
	return filepath.Clean(strings.TrimSuffix(path, " (deleted)"))
}
