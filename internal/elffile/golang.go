// SPDX-License-Identifier: Apache-2.0

package elffile

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
)

// maxGoSection bounds a section of a Go program, in bytes.
const maxGoSection = 64 << 20

// GoTable is .gopclntab, the table of functions of a Go program (runtime/symtab.go), of Go 1.2, 1.16, 1.18 or 1.20. Programs
// need it to run, so that it remains in those that are stripped. It is hostile input.
type GoTable struct {
	From, To     uint64 // where the Go code begins and ends
	file         *elf.File
	data         []byte
	addr         uint64
	text         uint64 // what the functions' addresses are relative to
	count        uint64
	names, table uint64 // offsets in data
	width        uint64 // bytes of a number in the table
	name, delta  uint64 // offsets in a function's data: of its name, and of its table of stack sizes
}

// GoFunction is a function of a GoTable. C functions that the Go linker has linked have no table of stack sizes.
type GoFunction struct {
	Addr, End uint64 // End is where the next one begins
	Sized     bool   // it has a table of stack sizes
	name      uint64
	table     *GoTable
}

// ReadGoTable reads the table of a file; nil if there is none that is understood.
func ReadGoTable(f *elf.File) *GoTable {
	g := goTable(f)
	if g == nil {
		return nil
	}
	if g.From, g.To = g.code(); g.To <= g.From {
		return nil
	}
	if g.text == 0 && g.width == 4 {
		g.text = g.From
	}
	return g
}

// Each calls yield with the functions until it returns false. Those outside of the Go code are left out: the addresses of a
// program of Go 1.17 or before that is loaded anywhere are only in its relocations.
func (g *GoTable) Each(yield func(*GoFunction) bool) {
	at, end := g.function(0)
	for i := uint64(1); i <= g.count; i++ {
		next, info := g.function(i)
		if at >= g.From && next > at && next <= g.To {
			f := GoFunction{Addr: at, End: next, Sized: g.number(end+g.delta, 4) != 0, name: g.names + g.number(end+g.name, 4), table: g}
			if !yield(&f) {
				return
			}
		}
		at, end = next, info
	}
}

// Name returns the name of a function; nil if it has none, or one that is too long.
func (f *GoFunction) Name() []byte {
	data := f.table.data
	if f.name >= uint64(len(data)) {
		return nil
	}
	data = data[f.name:min(f.name+maxSymbolName, uint64(len(data)))]
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return data[:i]
	}
	return nil
}

func goTable(f *elf.File) *GoTable {
	for _, name := range []string{".gopclntab", ".data.rel.ro.gopclntab"} {
		data, addr := ReadSection(f, name, maxGoSection)
		if len(data) < 72 {
			continue
		}
		g := &GoTable{file: f, data: data, addr: addr, count: binary.LittleEndian.Uint64(data[8:])}
		word := func(i int) uint64 { return binary.LittleEndian.Uint64(data[8*i:]) }
		switch binary.LittleEndian.Uint32(data) {
		case 0xfffffffb: // Go 1.2
			g.names, g.table, g.width, g.name = 0, 16, 8, 8
		case 0xfffffffa: // Go 1.16
			g.names, g.table, g.width, g.name = word(3), word(7), 8, 8
		case 0xfffffff0, 0xfffffff1: // Go 1.18, 1.20
			g.text, g.names, g.table, g.width, g.name = word(3), word(4), word(8), 4, 4
		default:
			return nil
		}
		g.delta = g.name + 12
		if size := uint64(len(data)); data[7] != 8 || g.table > size || g.count > (size-g.table)/(2*g.width) {
			return nil
		}
		return g
	}
	return nil
}

// number reads a number of the table; 0 past the end.
func (g *GoTable) number(at, width uint64) uint64 {
	if at > uint64(len(g.data)) || uint64(len(g.data))-at < width {
		return 0
	}
	if width == 4 {
		return uint64(binary.LittleEndian.Uint32(g.data[at:]))
	}
	return binary.LittleEndian.Uint64(g.data[at:])
}

// function returns the address of a function and the offset of its data. The one after the last is the end of the code.
func (g *GoTable) function(i uint64) (addr, info uint64) {
	at := g.table + 2*g.width*i
	info = g.number(at+g.width, g.width)
	if g.width == 4 || g.names != 0 {
		info += g.table
	}
	addr = g.number(at, g.width)
	if g.width == 4 {
		addr += g.text
	}
	return addr, info
}

// code returns where the Go code begins and ends. Since Go 1.26 the table does not say it, and in programs that are
// loaded anywhere never: then symbols say it, or the runtime's description of the program (moduledata), whose fields up
// to these have not changed since Go 1.16. In a program without C code it is the section .text.
func (g *GoTable) code() (from, to uint64) {
	if first, _ := g.function(0); g.width == 8 && first != 0 {
		last, _ := g.function(g.count)
		return first, last
	}
	if g.width == 4 && g.text != 0 {
		last, _ := g.function(g.count)
		return g.text, last
	}
	if g.file.Section(".eh_frame") == nil {
		if text := g.file.Section(".text"); text != nil {
			return text.Addr, text.Addr + text.Size
		}
	}
	EachSymbol(g.file, func(s *Symbol) bool {
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
	return g.moduleText()
}

// Offsets in moduledata.
const (
	moduleText  = 176
	moduleEText = 184
)

// moduleText reads the addresses from moduledata, which begins with the address of the table: from the data of the
// program, or from its relocations.
func (g *GoTable) moduleText() (from, to uint64) {
	for _, name := range []string{".go.module", ".noptrdata", ".data", ".data.rel.ro"} {
		data, _ := ReadSection(g.file, name, maxGoSection)
		for at := 0; at+moduleEText+8 <= len(data); at += 8 {
			if d := data[at:]; binary.LittleEndian.Uint64(d) == g.addr {
				return binary.LittleEndian.Uint64(d[moduleText:]), binary.LittleEndian.Uint64(d[moduleEText:])
			}
		}
	}
	data, _ := ReadSection(g.file, ".rela.dyn", maxGoSection)
	each := func(yield func(offset, addend uint64)) {
		for d := data; len(d) >= 24; d = d[24:] {
			yield(binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[16:]))
		}
	}
	module := uint64(0)
	each(func(offset, addend uint64) {
		if addend == g.addr && module == 0 {
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

// ReadSection reads a section of at most limit bytes, and its address; nil if there is none that can be read.
func ReadSection(f *elf.File, name string, limit uint64) (data []byte, addr uint64) {
	sec := f.Section(name)
	if sec == nil || sec.Type == elf.SHT_NOBITS || sec.Size > limit || sec.FileSize > limit || sec.FileSize == 0 {
		return nil, 0
	}
	if sec.Flags&elf.SHF_COMPRESSED != 0 {
		data, err := sec.Data()
		if err != nil {
			return nil, 0
		}
		return data, sec.Addr
	}
	// elf.Section.Data allocates it in steps, which costs several times as much; here what the section does not have is
	// found before.
	if _, err := sec.ReadAt(make([]byte, 1), int64(sec.FileSize)-1); err != nil {
		return nil, 0
	}
	data = make([]byte, sec.FileSize)
	if _, err := io.ReadFull(sec.Open(), data); err != nil {
		return nil, 0
	}
	return data, sec.Addr
}
