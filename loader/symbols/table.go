// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"math"
	"sort"
	"unsafe"
)

// table maps offsets in a file, or addresses, to functions, compactly: a file may have
// millions. Its contents may come from the parser process and are not trusted.
type table struct {
	entries []entry // ascending by off
	names   []byte  // each ends in NUL
}

type entry struct {
	off  uint64
	size uint32
	name uint32 // start of the name in names
}

// Bounds of one table.
const (
	entrySize  = int(unsafe.Sizeof(entry{}))
	maxEntries = 1 << 22 // entries
	maxNames   = 1 << 27 // bytes
)

// bytes returns the memory of the table.
func (t *table) bytes() int { return len(t.entries)*entrySize + len(t.names) }

// add appends a function. It reports whether there is room for it.
func (t *table) add(off, size uint64, name []byte) bool {
	if len(t.entries) >= maxEntries || len(t.names)+len(name) >= maxNames {
		return false
	}
	t.entries = append(t.entries, entry{off, uint32(min(size, math.MaxUint32)), uint32(len(t.names))})
	t.names = append(append(t.names, name...), 0)
	return true
}

func (t *table) name(e *entry) []byte {
	if uint64(e.name) >= uint64(len(t.names)) {
		return nil
	}
	b := t.names[e.name:]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return b
}

// sort orders functions for lookup and drops those that occur twice. Of several at one offset the shortest name is
// last, because lookup tries the last first.
func (t *table) sort() {
	sort.Sort((*byOffset)(t))
	kept := t.entries[:0]
	for i := range t.entries {
		e := t.entries[i]
		if n := len(kept); n > 0 && kept[n-1].off == e.off && kept[n-1].size == e.size &&
			bytes.Equal(t.name(&kept[n-1]), t.name(&e)) {
			continue
		}
		kept = append(kept, e)
	}
	t.entries = kept
}

type byOffset table

func (s *byOffset) Len() int      { return len(s.entries) }
func (s *byOffset) Swap(i, j int) { s.entries[i], s.entries[j] = s.entries[j], s.entries[i] }
func (s *byOffset) Less(i, j int) bool {
	a, b := &s.entries[i], &s.entries[j]
	if a.off != b.off {
		return a.off < b.off
	}
	x, y := (*table)(s).name(a), (*table)(s).name(b)
	if len(x) != len(y) {
		return len(x) > len(y)
	}
	return bytes.Compare(x, y) > 0
}

// lookup finds the function at an offset. A function without a size reaches to the next.
func (t *table) lookup(off uint64) (name string, in uint64, ok bool) {
	i := sort.Search(len(t.entries), func(i int) bool { return t.entries[i].off > off }) - 1
	// An outer function may surround a smaller one that ended before.
	for n := 0; i >= 0 && n < 8; i, n = i-1, n+1 {
		e := &t.entries[i]
		if off-e.off < uint64(e.size) || e.size == 0 && n == 0 {
			return string(t.name(e)), off - e.off, true
		}
	}
	return "", 0, false
}

// raw returns the memory of the entries, for sending and receiving them.
func raw(e []entry) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(e))), len(e)*entrySize)
}
