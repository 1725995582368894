// SPDX-License-Identifier: Apache-2.0

package ehframe

import (
	"debug/elf"
	"encoding/binary"
	"math"

	"btc/internal/elffile"
)

// section is .eh_frame, as the Linux Standard Base defines it, or .debug_frame (DWARF 5, section 6.4): entries, and
// parts that are common to several of them.
type section struct {
	data   []byte
	addr   uint64 // of data
	debug  bool   // .debug_frame
	common map[uint32]*common
	budget int // instructions that may still be executed: a section that has its common parts read again and again has fewer
}

// readSection reads a section; nil if there is none that can be read.
func readSection(f *elf.File, name string) *section {
	data, addr := elffile.ReadSection(f, name, maxSection)
	if data == nil {
		return nil
	}
	return &section{data, addr, name == ".debug_frame", map[uint32]*common{}, 4*len(data) + 1<<16}
}

// common is the part that entries have in common (CIE).
type common struct {
	version    uint64
	wide       bool // entries have the size of an augmentation
	signal     bool
	coding     uint64 // of addresses
	codeFactor uint64
	dataFactor int64
	returns    uint64
	initial    []byte
	state      *state // after the initial instructions; nil: they have not been executed
	bad        bool   // they are not understood
}

// entry is the description of the code of one function, or of a part of it (FDE).
type entry struct {
	*common
	from, to uint64
	rules    []byte
}

// parts returns what an entry has after its length, and what a reference to a common part in it is relative to. isCommon
// is whether the entry is a common part, otherwise it belongs to the one at offset of. next is the offset of the next entry.
func (s *section) parts(at uint64) (r reader, isCommon bool, of, next uint64, ok bool) {
	d := s.data
	if at+4 > uint64(len(d)) {
		return
	}
	n, start := uint64(binary.LittleEndian.Uint32(d[at:])), at+4
	wide := n == math.MaxUint32
	if wide {
		if start+8 > uint64(len(d)) {
			return
		}
		n, start = binary.LittleEndian.Uint64(d[start:]), start+8
	}
	if n > uint64(len(d))-start {
		return
	}
	next = start + n
	if n < 4 { // the linker ends parts of the section with a length of 0
		return r, false, 0, next, n == 0
	}
	r = reader{data: d[start:next], addr: s.addr + start}
	size := 4
	if s.debug && wide {
		size = 8
	}
	id := r.fixed(size)
	if !s.debug {
		return r, id == 0, start - id, next, !r.bad && id <= start
	}
	return r, id == math.MaxUint64>>(64-8*size), id, next, !r.bad
}

// each calls yield with the offset of each entry and the addresses of its code.
func (s *section) each(yield func(at uint32, from, to uint64) bool) {
	const maxEnds = 1 << 10 // one after another: a hole in a sparse file
	ends := 0
	for at := uint64(0); ; {
		r, isCommon, of, next, ok := s.parts(at)
		if ends++; len(r.data) > 0 {
			ends = 0
		}
		if next <= at || ends > maxEnds {
			return
		}
		if ok && !isCommon && len(r.data) > 0 {
			if e := s.read(&r, of); e != nil && !yield(uint32(at), e.from, e.to) {
				return
			}
		}
		at = next
	}
}

// entry reads the entry at an offset; nil if it is not understood.
func (s *section) entry(at uint32) *entry {
	r, isCommon, of, _, ok := s.parts(uint64(at))
	if !ok || isCommon {
		return nil
	}
	return s.read(&r, of)
}

func (s *section) read(r *reader, of uint64) *entry {
	c := s.commonAt(of)
	if c == nil {
		return nil
	}
	e := &entry{common: c}
	e.from = r.pointer(c.coding)
	e.to = e.from + r.pointer(c.coding&0xf)
	if c.wide {
		r.bytes(r.uleb())
	}
	if r.bad || e.to <= e.from {
		return nil
	}
	e.rules = r.rest()
	return e
}

// maxCommon bounds the common parts of a section.
const maxCommon = 1 << 18

func (s *section) commonAt(at uint64) *common {
	if at > math.MaxUint32 {
		return nil
	}
	if c, ok := s.common[uint32(at)]; ok {
		return c
	}
	if len(s.common) >= maxCommon {
		return nil
	}
	c := s.readCommon(at)
	s.common[uint32(at)] = c
	return c
}

func (s *section) readCommon(at uint64) *common {
	r, isCommon, _, _, ok := s.parts(at)
	if !ok || !isCommon {
		return nil
	}
	c := &common{version: r.fixed(1)}
	words := r.text()
	if c.version != 1 && c.version != 3 && (c.version != 4 || !s.debug) {
		return nil
	}
	if c.version == 4 && (r.fixed(1) != 8 || r.fixed(1) != 0) { // size of an address, of a segment's number
		return nil
	}
	c.codeFactor, c.dataFactor = r.uleb(), r.sleb()
	if c.returns = uint64(0); c.version == 1 {
		c.returns = r.fixed(1)
	} else {
		c.returns = r.uleb()
	}
	if words != "" && words[0] == 'z' {
		c.wide = true
		rest := reader{addr: 0, data: r.bytes(r.uleb())}
		rest.addr = r.addr + uint64(r.at-len(rest.data))
		for _, w := range words[1:] {
			switch w {
			case 'R':
				c.coding = rest.fixed(1)
			case 'P':
				rest.pointer(rest.fixed(1) &^ 0x80)
			case 'L':
				rest.fixed(1)
			case 'S':
				c.signal = true
			case 'B', 'G': // arm64: the key that signs return addresses, tags of memory
			default:
				return nil // what follows is of unknown size
			}
		}
		if rest.bad {
			return nil
		}
	} else if words != "" {
		return nil
	}
	if r.bad {
		return nil
	}
	c.initial = r.rest()
	return c
}

// reader reads values; past the end they are 0 and bad is set.
type reader struct {
	data []byte
	addr uint64 // of data
	at   int
	bad  bool
}

func (r *reader) rest() []byte { return r.data[r.at:] }

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.data)-r.at) {
		r.at, r.bad = len(r.data), true
		return nil
	}
	b := r.data[r.at:][:n]
	r.at += int(n)
	return b
}

func (r *reader) fixed(n int) (v uint64) {
	for i, b := range r.bytes(uint64(n)) {
		v |= uint64(b) << (8 * i)
	}
	return v
}

const maxNumber = 16 // bytes of a number, and of an augmentation

func (r *reader) uleb() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := r.fixed(1)
		v |= b & 0x7f << shift
		if b < 0x80 {
			return v
		}
		if shift >= 7*maxNumber {
			r.bad = true
			return v
		}
	}
}

func (r *reader) sleb() int64 {
	from := r.at
	v := r.uleb()
	if bits := 7 * (r.at - from); bits > 0 && bits < 64 && !r.bad && r.data[r.at-1]&0x40 != 0 {
		v |= ^uint64(0) << bits
	}
	return int64(v)
}

func (r *reader) text() string {
	from := r.at
	for r.fixed(1) != 0 {
		if r.at-from > maxNumber {
			r.bad = true
			break
		}
	}
	return string(r.data[from:max(r.at-1, from)])
}

// pointer reads a value in a coding of DW_EH_PE.
func (r *reader) pointer(coding uint64) (v uint64) {
	here := r.addr + uint64(r.at)
	switch coding & 0xf {
	case 0, 4, 12:
		v = r.fixed(8)
	case 1:
		v = r.uleb()
	case 2:
		v = r.fixed(2)
	case 3:
		v = r.fixed(4)
	case 9:
		v = uint64(r.sleb())
	case 10:
		v = uint64(int64(int16(r.fixed(2))))
	case 11:
		v = uint64(int64(int32(r.fixed(4))))
	default:
		r.bad = true
	}
	switch coding & 0xf0 {
	case 0:
	case 0x10: // relative to its own address
		v += here
	default: // relative to data or to the function; aligned; indirect; none
		r.bad = true
	}
	return v
}
