// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping is a part of a process's memory that contains code.
type mapping struct {
	start, end, off uint64
	kind            kind
	file            *file // of kind ofFile and vdso
}

type kind uint8

const (
	ofFile    kind = iota
	vdso           // code that the kernel maps into each process
	anonymous      // code without a file: a JIT compiler's, which keeps frame pointers
	special        // of the kernel, without tables: [uprobes]
)

// identity identifies a file that is mapped: the device and inode that the kernel reports of a mapping, and who maps it.
// What is mapped as that file is opened by the name that the process shows, and a process could exchange files
// meanwhile. So a table is only for processes of the user and the mount namespace of the one that it was opened by.
type identity struct {
	dev, ino uint64
	owner
}

// owner is who may choose what a process maps.
type owner struct {
	user  uint32
	space uint64 // inode of its mount namespace
}

// region is a mapping as the kernel reports it.
type region struct {
	start, end, off uint64
	dev, ino        uint64
	path            string // only of those that have a file, and valid until the next region
	kind            kind
}

// Limits of what is kept of a process.
const (
	maxMappings = 4096        // mappings with code
	mapsTime    = time.Second // CPU time of one reading
)

// eachRegion calls f with the mappings with code of a process, as /proc/PID/maps lists them: a consistent list of each
// few lines, not of all. It stops if f returns false, and after mapsTime of this thread.
func eachRegion(proc string, tgid uint32, f func(*region) bool) error {
	in, err := os.Open(fmt.Sprintf("%s/%d/maps", proc, tgid))
	if err != nil {
		return err
	}
	defer in.Close()
	s := bufio.NewScanner(in)
	begin := threadClock()
	for lines := 1; s.Scan(); lines++ {
		if lines%1024 == 0 && threadClock()-begin > mapsTime {
			return nil
		}
		line := s.Bytes()
		if i := bytes.IndexByte(line, ' '); i < 0 || i+3 >= len(line) || line[i+3] != 'x' {
			continue // Java has tens of thousands of these
		}
		if r, ok := parseRegion(line); ok && !f(&r) {
			return nil
		}
	}
	return s.Err()
}

// parseRegion reads a line of /proc/PID/maps: "start-end perms offset major:minor inode path". The kernel escapes
// newlines in path.
func parseRegion(line []byte) (r region, ok bool) {
	var words [5]string
	rest := line
	for i := range words {
		rest = bytes.TrimLeft(rest, " ")
		word, after, _ := bytes.Cut(rest, []byte(" "))
		words[i], rest = unsafe.String(unsafe.SliceData(word), len(word)), after
	}
	rest = bytes.TrimLeft(rest, " ")
	r.path = unsafe.String(unsafe.SliceData(rest), len(rest))
	ok = true
	number := func(word string, base int) uint64 {
		n, err := strconv.ParseUint(word, base, 64)
		ok = ok && err == nil
		return n
	}
	lo, hi := cut(words[0], '-')
	major, minor := cut(words[3], ':')
	r.start, r.end, r.off = number(lo, 16), number(hi, 16), number(words[2], 16)
	r.dev, r.ino = number(major, 16)<<32|number(minor, 16), number(words[4], 10)
	r.kind = kindOf(r.path, r.ino)
	return r, ok && r.start < r.end && r.end>>63 == 0 // not [vsyscall], which has no code since Linux 3.3
}

func cut(s string, sep byte) (before, after string) {
	for i := range len(s) {
		if s[i] == sep {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// kindOf classifies a mapping by its name: names in brackets are the kernel's, but for those that a process gives to
// its anonymous memory.
func kindOf(path string, ino uint64) kind {
	switch {
	case ino != 0:
		return ofFile
	case path == "[vdso]":
		return vdso
	case len(path) > 0 && path[0] == '[' && !hasPrefix(path, "[anon") && path != "[heap]" && !hasPrefix(path, "[stack"):
		return special
	}
	return anonymous
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

// normalize sorts mappings, drops those that overlap earlier ones, joins those of anonymous code, and bounds their
// number: first code without a file is dropped.
func normalize(all []mapping) []mapping {
	sort.Slice(all, func(i, j int) bool { return all[i].start < all[j].start }) // slices.SortFunc adds 20 KB to btrun
	out := all[:0]
	for _, m := range all {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if m.start < last.end {
				continue
			}
			if m.kind == last.kind && m.start == last.end && (m.kind == anonymous || m.file == last.file && m.file != nil && m.off == last.off+last.end-last.start) {
				last.end = m.end
				continue
			}
		}
		out = append(out, m)
	}
	if len(out) > maxMappings {
		out = slices.DeleteFunc(out, func(m mapping) bool { return m.kind == anonymous })
	}
	return slices.Clip(out[:min(len(out), maxMappings)])
}

// find returns the mapping of an address, nil if there is none.
func find(all []mapping, addr uint64) *mapping {
	i, found := slices.BinarySearchFunc(all, addr, func(m mapping, a uint64) int {
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
	return &all[i]
}

// replace returns what a mapping replaces: all[i:j] becomes the mappings in by, which are the parts of the old ones that
// are left, and the new one between them, joined with its neighbours.
func replace(all []mapping, m mapping) (i, j int, by []mapping) {
	i, _ = slices.BinarySearchFunc(all, m.start, func(o mapping, at uint64) int { return cmp.Compare(o.end, at+1) })
	for j = i; j < len(all) && all[j].start < m.end; j++ {
	}
	if i < j && all[i].start < m.start {
		left := all[i]
		left.end = m.start
		by = append(by, left)
	}
	by = append(by, m)
	if i < j && all[j-1].end > m.end {
		right := all[j-1]
		right.off += m.end - right.start
		right.start = m.end
		by = append(by, right)
	}
	if m.kind == anonymous {
		if i > 0 {
			i--
			by = append([]mapping{all[i]}, by...)
		}
		if j < len(all) {
			by = append(by, all[j])
			j++
		}
		by = normalize(by)
	}
	return i, j, by
}

// ownerOf returns who may choose what a process maps.
func ownerOf(proc string, tgid uint32) (o owner, ok bool) {
	var st unix.Stat_t
	if unix.Stat(fmt.Sprintf("%s/%d", proc, tgid), &st) != nil {
		return o, false
	}
	o.user = st.Uid
	if unix.Stat(fmt.Sprintf("%s/%d/ns/mnt", proc, tgid), &st) == nil {
		o.space = st.Ino
	}
	return o, true
}

// threadTime runs f and returns the CPU time that this took on its thread.
func threadTime(f func()) time.Duration {
	runtime.LockOSThread()
	begin := threadClock()
	f()
	cost := threadClock() - begin
	runtime.UnlockOSThread()
	return cost
}

func threadClock() time.Duration {
	var at unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at)
	return time.Duration(at.Nano())
}
