// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
)

// Limits on symbol tables, whose sizes in the file are not trusted.
const (
	maxSymbols    = 1 << 23 // entries of one table
	maxNull       = 1 << 16 // entries of zeros in a row: a hole in a sparse file
	maxSymbolName = 1 << 14 // bytes; a longer name is treated as empty
)

// Symbol is an entry of a symbol table. It is valid until the next one is read.
type Symbol struct {
	Value, Size uint64
	Type        elf.SymType
	Section     elf.SectionIndex
	Hidden      bool // not the default one of several versions

	names *pages
	name  uint32
}

// Name returns the symbol's name, valid until the next call.
func (s *Symbol) Name() []byte { return s.names.text(uint64(s.name)) }

// Defined reports whether the file defines the symbol.
func (s *Symbol) Defined() bool { return s.Section != elf.SHN_UNDEF && s.Value != 0 }

// EachSymbol calls yield with the entries of both symbol tables, .symtab and .dynsym, until it returns false. It
// reads in small pieces, so its memory does not depend on sizes in the file. It reads at most the first maxSymbols
// entries of each table, and stops at an error or a hole.
func EachSymbol(f *elf.File, yield func(*Symbol) bool) (err error) {
	defer func() {
		if p := recover(); p != nil { // debug/elf may panic on damaged input
			err = fmt.Errorf("cannot read the symbol table: %v", p)
		}
	}()
	for _, kind := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		if sec := f.SectionByType(kind); sec != nil && !readTable(f, sec, yield) {
			break
		}
	}
	return nil
}

// readTable reports whether to continue with the next table.
func readTable(f *elf.File, sec *elf.Section, yield func(*Symbol) bool) bool {
	if sec.ReaderAt == nil || sec.Link == 0 || int(sec.Link) >= len(f.Sections) ||
		f.Sections[sec.Link].ReaderAt == nil {
		return true
	}
	size := 24
	if f.Class == elf.ELFCLASS32 {
		size = 16
	}
	var versions *pages
	if v := f.SectionByType(elf.SHT_GNU_VERSYM); v != nil && v.ReaderAt != nil && sec.Type == elf.SHT_DYNSYM {
		versions = &pages{r: v, size: v.FileSize}
	}
	s := Symbol{names: &pages{r: f.Sections[sec.Link], size: f.Sections[sec.Link].FileSize}}
	buf := make([]byte, size*2048)
	null := 0
	for n := uint64(0); n < min(sec.FileSize/uint64(size), maxSymbols) && null < maxNull; {
		got, err := sec.ReadAt(buf[:min(uint64(len(buf)), sec.FileSize-n*uint64(size))], int64(n)*int64(size))
		for b := buf[:got]; len(b) >= size; b, n = b[size:], n+1 {
			s.decode(f, b)
			if null++; s.Value|s.Size != 0 || s.name != 0 {
				null = 0
			}
			s.Hidden = versions != nil && f.ByteOrder.Uint16(versions.bytes(2*n, 2))&0x8000 != 0
			if n > 0 && !yield(&s) { // the first is a placeholder
				return false
			}
		}
		if err != nil || got < size {
			break
		}
	}
	return true
}

func (s *Symbol) decode(f *elf.File, b []byte) {
	order := f.ByteOrder
	s.name = order.Uint32(b)
	if f.Class == elf.ELFCLASS32 {
		s.Value, s.Size = uint64(order.Uint32(b[4:])), uint64(order.Uint32(b[8:]))
		s.Type, s.Section = elf.ST_TYPE(b[12]), elf.SectionIndex(order.Uint16(b[14:]))
		return
	}
	s.Type, s.Section = elf.ST_TYPE(b[4]), elf.SectionIndex(order.Uint16(b[6:]))
	s.Value, s.Size = order.Uint64(b[8:]), order.Uint64(b[16:])
}

const (
	pageSize = 16 << 10
	pageSets = 64
)

// pages reads small pieces of a section through a cache of pages, because most reads are near the previous one.
type pages struct {
	r    io.ReaderAt
	size uint64
	set  [pageSets]struct {
		number uint64 // plus 1; 0: empty
		data   []byte
	}
	spare []byte // for data that crosses pages
}

func (p *pages) page(number uint64) []byte {
	slot := &p.set[number%pageSets]
	if slot.number != number+1 {
		if slot.data == nil {
			slot.data = make([]byte, pageSize)
		}
		data := slot.data[:pageSize]
		n, _ := p.r.ReadAt(data[:min(pageSize, p.size-number*pageSize)], int64(number*pageSize))
		slot.number, slot.data = number+1, data[:n]
	}
	return slot.data
}

// bytes reads n bytes, with zeros for those past the end; n is at most pageSize.
func (p *pages) bytes(off uint64, n int) []byte {
	p.spare = p.spare[:0]
	for len(p.spare) < n && off < p.size {
		data := p.page(off / pageSize)
		at := min(int(off%pageSize), len(data))
		piece := data[at:min(len(data), at+n-len(p.spare))]
		if len(piece) == 0 {
			break
		}
		p.spare = append(p.spare, piece...)
		off += uint64(len(piece))
	}
	for len(p.spare) < n {
		p.spare = append(p.spare, 0)
	}
	return p.spare
}

// text reads a string up to its NUL; empty if there is none within maxSymbolName bytes.
func (p *pages) text(off uint64) []byte {
	if off >= p.size {
		return nil
	}
	data := p.page(off / pageSize)
	if at := int(off % pageSize); at < len(data) {
		if end := bytes.IndexByte(data[at:], 0); end >= 0 {
			return data[at : at+end]
		}
	}
	b := p.bytes(off, maxSymbolName)
	if end := bytes.IndexByte(b, 0); end >= 0 && off+uint64(end) < p.size {
		return b[:end]
	}
	return nil
}
