// SPDX-License-Identifier: Apache-2.0

package ehframe

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"

	"btc/internal/elffile"
	"btc/internal/unwind"
)

// pcln is .gopclntab, the table of functions of a Go program (runtime/symtab.go). It is hostile input.
type pcln struct {
	data         []byte
	addr         uint64
	text         uint64 // what the functions' addresses are relative to
	count        uint64
	names, table uint64 // offsets in data
	width        uint64 // bytes of a number in the table
	name, delta  uint64 // offsets in a function's data: of its name, and of its table of stack sizes
}

// goCode adds the code of a Go program: it keeps frame pointers. Where a goroutine or a thread starts, the stack ends.
// Functions of C that the Go linker has linked have no table of stack sizes, and are not described.
func (b *builder) goCode() {
	p := b.pcln()
	if p == nil {
		return
	}
	from, to := b.goText(p)
	if to <= from || to-from > unwind.NoPC {
		return
	}
	b.add(from, to, piece{section: fixed, kind: unwind.KindFrames})
	b.table.Frames = b.file.Section(".eh_frame") == nil
	if p.text == 0 && p.width == 4 {
		p.text = from
	}
	at, end := p.function(0)
	for i := uint64(1); i <= p.count; i++ {
		next, info := p.function(i)
		kind := p.kind(end)
		if kind != unwind.KindFrames && at >= from && next > at && next <= to {
			if !b.add(at, next, piece{section: fixed, kind: kind}) {
				return
			}
			b.add(next, to, piece{section: fixed, kind: unwind.KindFrames, at: 1}) // after a piece that begins there
		}
		at, end = next, info
	}
}

// pcln finds the table; nil if there is none that is understood.
func (b *builder) pcln() *pcln {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		s := readSection(b.file, name)
		if s == nil || len(s.data) < 72 {
			continue
		}
		p := &pcln{data: s.data, addr: s.addr, count: binary.LittleEndian.Uint64(s.data[8:])}
		word := func(i int) uint64 { return binary.LittleEndian.Uint64(s.data[8*i:]) }
		switch binary.LittleEndian.Uint32(s.data) {
		case 0xfffffffb: // Go 1.2
			p.names, p.table, p.width, p.name = 0, 16, 8, 8
		case 0xfffffffa: // Go 1.16
			p.names, p.table, p.width, p.name = word(3), word(7), 8, 8
		case 0xfffffff0, 0xfffffff1: // Go 1.18, 1.20
			p.text, p.names, p.table, p.width, p.name = word(3), word(4), word(8), 4, 4
		default:
			return nil
		}
		p.delta = p.name + 12
		if size := uint64(len(s.data)); s.data[7] != 8 || p.table > size || p.count > (size-p.table)/(2*p.width) {
			return nil
		}
		return p
	}
	return nil
}

// number reads a number of the table; 0 past the end.
func (p *pcln) number(at, width uint64) uint64 {
	if at > uint64(len(p.data)) || uint64(len(p.data))-at < width {
		return 0
	}
	if width == 4 {
		return uint64(binary.LittleEndian.Uint32(p.data[at:]))
	}
	return binary.LittleEndian.Uint64(p.data[at:])
}

// function returns the address of a function and the offset of its data. The one after the last is the end of the code.
func (p *pcln) function(i uint64) (addr, info uint64) {
	at := p.table + 2*p.width*i
	info = p.number(at+p.width, p.width)
	if p.width == 4 || p.names != 0 {
		info += p.table
	}
	addr = p.number(at, p.width)
	if p.width == 4 {
		addr += p.text
	}
	return addr, info
}

// kind returns the kind of the rows of a function.
func (p *pcln) kind(info uint64) uint8 {
	name := p.names + p.number(info+p.name, 4)
	if name >= uint64(len(p.data)) {
		return unwind.KindFrames
	}
	text := p.data[name:min(name+40, uint64(len(p.data)))]
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	switch s := strings.TrimSuffix(string(text), ".abi0"); {
	case s == "runtime.goexit", s == "runtime.rt0_go", s == "runtime.mstart", strings.HasPrefix(s, "_rt0_"):
		return unwind.KindEnd
	case s == "runtime.sigreturn__sigaction", s == "runtime.sigreturn":
		return unwind.KindSignal
	case p.number(info+p.delta, 4) == 0:
		return unwind.KindNone
	}
	return unwind.KindFrames
}

// goText returns where the Go code begins and ends. Since Go 1.26 the table does not say it, and in programs that are
// loaded anywhere never: then symbols say it, or the runtime's description of the program (moduledata), whose fields up
// to these have not changed since Go 1.16. In a program without C code it is the section .text.
func (b *builder) goText(p *pcln) (from, to uint64) {
	if first, _ := p.function(0); p.width == 8 && first != 0 {
		last, _ := p.function(p.count)
		return first, last
	}
	if p.width == 4 && p.text != 0 {
		last, _ := p.function(p.count)
		return p.text, last
	}
	if b.file.Section(".eh_frame") == nil {
		if text := b.file.Section(".text"); text != nil {
			return text.Addr, text.Addr + text.Size
		}
	}
	elffile.EachSymbol(b.file, func(s *elffile.Symbol) bool {
		if s.Defined() && (s.Type == elf.STT_FUNC || s.Type == elf.STT_NOTYPE) {
			switch string(s.Name()) {
			case "runtime.text":
				from = s.Value
			case "runtime.etext":
				to = s.Value
			}
		}
		return from == 0 || to == 0
	})
	if from != 0 && to != 0 {
		return from, to
	}
	return b.moduleText(p)
}

// Offsets in moduledata.
const (
	moduleText  = 176
	moduleEText = 184
)

// moduleText reads the addresses from moduledata, which begins with the address of the table: from the data of the
// program, or from its relocations.
func (b *builder) moduleText(p *pcln) (from, to uint64) {
	for _, name := range []string{".go.module", ".noptrdata", ".data", ".data.rel.ro"} {
		s := readSection(b.file, name)
		if s == nil {
			continue
		}
		for at := 0; at+moduleEText+8 <= len(s.data); at += 8 {
			if d := s.data[at:]; binary.LittleEndian.Uint64(d) == p.addr {
				return binary.LittleEndian.Uint64(d[moduleText:]), binary.LittleEndian.Uint64(d[moduleEText:])
			}
		}
	}
	s := readSection(b.file, ".rela.dyn")
	if s == nil {
		return 0, 0
	}
	each := func(yield func(offset, addend uint64)) {
		for d := s.data; len(d) >= 24; d = d[24:] {
			yield(binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[16:]))
		}
	}
	module := uint64(0)
	each(func(offset, addend uint64) {
		if addend == p.addr && module == 0 {
			module = offset
		}
	})
	each(func(offset, addend uint64) {
		switch offset - module {
		case moduleText:
			from = addend
		case moduleEText:
			to = addend
		}
	})
	if module == 0 {
		return 0, 0
	}
	return from, to
}
