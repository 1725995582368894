// SPDX-License-Identifier: Apache-2.0

package debuginfo

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Debug information is read from files that others made. debug/elf and debug/dwarf do not panic on most of them, but
// their memory and time depend on what a file claims, and on what it repeats by reference: a kilobyte can claim an
// array of 2^40 paths, compress a gigabyte, or use one long string, abbreviation table or line program a million
// times. The limits below are multiples of what real files have; what exceeds one is reported as damaged.
const (
	maxDebugBytes  = 4 << 30  // of all sections of a file and its split parts, uncompressed
	maxCompression = 100      // uncompressed size of a section / size in the file; real sections: at most 15
	minCompressed  = 16 << 20 // bytes up to which the ratio does not matter
	maxString      = 16 << 10 // bytes of a string in .debug_str; the rest is cut off
	maxPath        = 4 << 10  // of a path in a line table: PATH_MAX
	maxLineFiles   = 1 << 15  // directories or files of one line table
	maxAttributes  = 512      // of one abbreviation; DWARF 5 defines fewer
	entryCost      = 64       // of an entry, see part.next
	fieldCost      = 48       // of an attribute: size of dwarf.Field
	readFactor     = 256      // budget of entries and strings for each byte of .debug_info; real files need at most 60
	minBudget      = 64 << 20
	maxLEB         = 16        // bytes of a number
	maxNames       = 256 << 20 // bytes of names in symbol tables
	maxSectionName = 4 << 10
	maxSectionList = 16 << 20 // bytes of the names of sections
)

var (
	errRepeats = errors.New("it refers to the same data too often")
	errTable   = errors.New("an abbreviation has too many attributes")
	errLines   = errors.New("the line table has too many files, or too long paths")
)

// checkNames checks what elf.NewFile reads and copies: the names of sections.
func checkNames(r io.ReaderAt) error {
	var head [64]byte
	if n, _ := r.ReadAt(head[:], 0); n < 52 || string(head[:4]) != elf.ELFMAG {
		return nil // elf.NewFile reports it
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[elf.EI_DATA] == byte(elf.ELFDATA2MSB) {
		order = binary.BigEndian
	}
	wide := head[elf.EI_CLASS] == byte(elf.ELFCLASS64)
	table, size, from := uint64(order.Uint32(head[32:])), 40, uint64(order.Uint16(head[50:]))
	if wide {
		table, size, from = order.Uint64(head[40:]), 64, uint64(order.Uint16(head[62:]))
	}
	section := func(i uint64) (flags, off, n, link uint64, ok bool) {
		var b [64]byte
		if got, _ := r.ReadAt(b[:size], int64(table+i*uint64(size))); got < size {
			return 0, 0, 0, 0, false
		}
		if wide {
			return order.Uint64(b[8:]), order.Uint64(b[24:]), order.Uint64(b[32:]), uint64(order.Uint32(b[40:])), true
		}
		return uint64(order.Uint32(b[8:])), uint64(order.Uint32(b[16:])), uint64(order.Uint32(b[20:])), uint64(order.Uint32(b[24:])), true
	}
	if from == uint64(elf.SHN_XINDEX) {
		_, _, _, from, _ = section(0)
	}
	flags, off, n, _, ok := section(from)
	switch {
	case !ok || from == 0:
		return nil
	case flags&uint64(elf.SHF_COMPRESSED) != 0:
		return errors.New("the names of its sections are compressed")
	case n > maxSectionList:
		return fmt.Errorf("the names of its sections have %d bytes (max %d)", n, maxSectionList)
	}
	names := make([]byte, n)
	got, _ := r.ReadAt(names, int64(off))
	for rest := names[:got]; len(rest) > 0; {
		end := bytes.IndexByte(rest, 0)
		if end < 0 {
			end = len(rest) - 1
		}
		if end > maxSectionName {
			return fmt.Errorf("the name of a section is longer than %d bytes", maxSectionName)
		}
		rest = rest[end+1:]
	}
	return nil
}

// readSection returns the content of a section, uncompressed; nil if there is none of this name. total is what may still be
// read of a file.
func readSection(f *elf.File, name string, total *uint64) ([]byte, error) {
	for _, s := range f.Sections {
		if s.Name != ".debug_"+name && s.Name != ".zdebug_"+name || s.Type == elf.SHT_NOBITS {
			continue
		}
		s.Open() // sets the size of a .zdebug section
		if s.Size > minCompressed && s.Size/maxCompression > s.FileSize {
			return nil, fmt.Errorf("section %s claims %d bytes, compressed to %d", s.Name, s.Size, s.FileSize)
		}
		if s.Size > *total {
			return nil, fmt.Errorf("more than %d bytes of debug information", uint64(maxDebugBytes))
		}
		*total -= s.Size
		b, err := s.Data()
		if err != nil && uint64(len(b)) < s.Size {
			return nil, err
		}
		return b, nil
	}
	return nil, nil
}

// cut ends strings after limit bytes.
func cut(b []byte, limit int) {
	for len(b) > limit {
		end := bytes.IndexByte(b[:limit], 0)
		if end < 0 {
			end = limit - 1
			b[end] = 0
		}
		b = b[end+1:]
	}
}

// rawDebug are the sections that debug/dwarf and checkLines read.
type rawDebug struct {
	info, abbrev, str, line, lineStr, offsets, addrs, ranges, rnglists []byte

	order binary.ByteOrder
	units []unit
}

// readDebug reads the debug information of a file. Relocations are not applied: those in programs and libraries, which
// some linkers keep, are already.
func readDebug(f *elf.File, suffix string, total *uint64) (*rawDebug, error) {
	raw := &rawDebug{order: f.ByteOrder}
	for _, s := range []struct {
		name string
		to   *[]byte
	}{
		{"abbrev", &raw.abbrev}, {"info", &raw.info}, {"str", &raw.str}, {"line", &raw.line}, {"line_str", &raw.lineStr},
		{"str_offsets", &raw.offsets}, {"addr", &raw.addrs}, {"ranges", &raw.ranges}, {"rnglists", &raw.rnglists},
	} {
		var err error
		if *s.to, err = readSection(f, s.name+suffix, total); err != nil {
			return nil, err
		}
	}
	cut(raw.str, maxString)
	cut(raw.lineStr, maxPath)
	return raw, nil
}

// parse checks the sections and gives them to debug/dwarf.
func (raw *rawDebug) parse() (*dwarf.Data, error) {
	raw.units = unitsOf(raw.info, raw.order)
	if err := checkAbbrevs(raw.units, raw.abbrev); err != nil {
		return nil, err
	}
	for _, u := range raw.units {
		// debug/dwarf reads a number without an end as 0, and again and again.
		if u.end >= maxLEB && !slices.ContainsFunc(raw.info[u.end-maxLEB:u.end], func(c byte) bool { return c < 0x80 }) {
			return nil, errors.New("a number in it has no end")
		}
	}
	d, err := dwarf.New(raw.abbrev, nil, nil, raw.info, raw.line, nil, raw.ranges, raw.str)
	if err != nil {
		return nil, err
	}
	d.AddSection(".debug_line_str", raw.lineStr)
	d.AddSection(".debug_str_offsets", raw.offsets)
	d.AddSection(".debug_addr", raw.addrs)
	d.AddSection(".debug_rnglists", raw.rnglists)
	return d, nil
}

// unit is a unit of .debug_info.
type unit struct {
	first, end dwarf.Offset // of its entries
	abbrev     uint64
}

// unitsOf reads the headers of the units (DWARF 5, 7.5.1). What follows an error is left to debug/dwarf.
func unitsOf(info []byte, order binary.ByteOrder) (all []unit) {
	for at := uint64(0); at+4 <= uint64(len(info)); {
		b, word := info[at:], 4
		n, head := uint64(order.Uint32(b)), 4
		if n == 0 {
			at += 4
			continue
		}
		if n == 0xffffffff && len(b) >= 12 {
			n, head, word = order.Uint64(b[4:]), 12, 8
		}
		if n > uint64(len(b)-head) {
			return all
		}
		end := at + uint64(head) + n
		body := b[head : uint64(head)+n]
		if len(body) < 4+word {
			return all
		}
		size, from := 3+word, 2 // version, abbreviations, size of an address
		if order.Uint16(body) >= 5 {
			size, from = 4+word, 4
			switch body[2] {
			case 4, 5: // skeleton, split
				size += 8
			case 2, 6: // types
				size += 8 + word
			}
		}
		if len(body) < size {
			return all
		}
		u := unit{first: dwarf.Offset(at + uint64(head+size)), end: dwarf.Offset(end), abbrev: uint64(order.Uint32(body[from:]))}
		if word == 8 {
			u.abbrev = order.Uint64(body[from:])
		}
		all = append(all, u)
		at = end
	}
	return all
}

// leb skips a LEB128 number and returns its value, if it is unsigned. Like debug/dwarf, it reads nothing if the number
// does not end.
func leb(b []byte) (v uint64, rest []byte) {
	shift := 0
	for i, c := range b {
		v |= uint64(c&0x7f) << shift
		shift += 7
		if c < 0x80 {
			return v, b[i+1:]
		}
	}
	return 0, b
}

const formImplicitConst = 0x21

// checkAbbrevs checks the tables of abbreviations that the units refer to. debug/dwarf reads one for each different
// offset, up to its end.
func checkAbbrevs(units []unit, abbrev []byte) error {
	left := 2*len(abbrev) + 1<<16
	seen := map[uint64]bool{}
	for _, u := range units {
		if seen[u.abbrev] || u.abbrev >= uint64(len(abbrev)) {
			continue
		}
		seen[u.abbrev] = true
		b := abbrev[u.abbrev:]
		for size := len(b); ; {
			var id uint64
			if id, b = leb(b); uint32(id) == 0 {
				break
			}
			_, b = leb(b) // tag
			b = b[min(1, len(b)):]
			n := 0
			for ; ; n++ {
				var attr, form uint64
				attr, b = leb(b)
				if form, b = leb(b); attr == 0 && form == 0 {
					break
				}
				if form == formImplicitConst {
					_, b = leb(b)
				}
			}
			if n > maxAttributes {
				return errTable
			}
			if size-len(b) > left {
				return errRepeats
			}
		}
		left -= len(abbrev) - int(u.abbrev) - len(b)
	}
	return nil
}

// skip reads past the children of e, which next has returned last. dwarf.Reader.SkipChildren recurses: a file can
// nest entries as deep as it is long, which overflows the stack.
func (p *part) skip(r *dwarf.Reader, e *dwarf.Entry) {
	if !e.Children || seekSibling(r, e) {
		return
	}
	for depth := 1; depth > 0; {
		e, err := p.next(r)
		switch {
		case err != nil || e == nil:
			return
		case e.Tag == 0:
			depth--
		case e.Children && !seekSibling(r, e):
			depth++
		}
	}
}

func seekSibling(r *dwarf.Reader, e *dwarf.Entry) bool {
	next, ok := e.Val(dwarf.AttrSibling).(dwarf.Offset)
	if ok = ok && next > e.Offset; ok {
		r.Seek(next)
	}
	return ok
}

// next returns the next entry. Entries and their strings take from the budget: a null entry without an end
// is read again and again, and an entry of a byte can have hundreds of attributes or a string that others have.
func (p *part) next(r *dwarf.Reader) (*dwarf.Entry, error) {
	if *p.left <= 0 {
		return nil, errRepeats
	}
	e, err := r.Next()
	*p.left -= entryCost
	if e != nil {
		*p.left -= fieldCost * len(e.Field)
		for i := range e.Field {
			if s, ok := e.Field[i].Val.(string); ok {
				*p.left -= len(s)
			}
		}
	}
	return e, err
}

// checkLines checks the header of a line table (DWARF 5, 6.2.4), for which debug/dwarf makes lists as long as it says
// and joins all paths. It returns the bytes of the table with its program; an error of another kind is left to
// debug/dwarf.
func checkLines(data []byte, order binary.ByteOrder) (length int, err error) {
	if len(data) < 4 {
		return 0, nil
	}
	n, b, word := uint64(order.Uint32(data)), data[4:], 4
	if n == 0xffffffff && len(b) >= 8 {
		n, b, word = order.Uint64(b), b[8:], 8
	}
	if n > uint64(len(b)) || n < 2 {
		return 0, nil
	}
	b = b[:n]
	take := func(n uint64) []byte {
		x := b[:min(n, uint64(len(b)))]
		b = b[len(x):]
		return x
	}
	version := order.Uint16(take(2))
	fixed := uint64(word + 5) // length of the header, ..., opcode_base
	if version >= 4 {
		fixed++
	}
	if version >= 5 {
		fixed += 2
	}
	if x := take(fixed); uint64(len(x)) == fixed {
		take(uint64(max(x[fixed-1], 1)) - 1) // operands of opcodes
	}
	text := func() ([]byte, error) {
		end := bytes.IndexByte(b, 0)
		if end > maxPath {
			return nil, errLines
		}
		return take(uint64(end + 1)), nil
	}
	if version < 5 {
		for kind := range 2 { // directories, files
			for n := 0; ; n++ {
				s, err := text()
				if err != nil || n > maxLineFiles {
					return 0, errLines
				}
				if len(s) <= 1 {
					break
				}
				for range 3 * kind { // directory, time, size
					_, b = leb(b)
				}
			}
		}
		return int(n), nil
	}
	for range 2 {
		var forms []uint64
		formats := 0
		if x := take(1); len(x) > 0 {
			formats = int(x[0])
		}
		for range formats {
			var form uint64
			_, b = leb(b)
			form, b = leb(b)
			forms = append(forms, form)
		}
		var count uint64
		if count, b = leb(b); count > maxLineFiles {
			return 0, errLines
		}
		for range count {
			for _, form := range forms {
				switch form {
				case 0x08: // string
					if _, err := text(); err != nil {
						return 0, err
					}
				case 0x0e, 0x1f, 0x1d: // strp, line_strp, strp_sup
					take(uint64(word))
				case 0x0b, 0x25: // data1, strx1
					take(1)
				case 0x05, 0x26: // data2, strx2
					take(2)
				case 0x27: // strx3
					take(3)
				case 0x06, 0x28: // data4, strx4
					take(4)
				case 0x07: // data8
					take(8)
				case 0x1e: // data16
					take(16)
				case 0x0f, 0x1a: // udata, strx
					_, b = leb(b)
				case 0x09: // block
					var size uint64
					size, b = leb(b)
					take(size)
				}
			}
		}
	}
	return int(n), nil
}
