// SPDX-License-Identifier: Apache-2.0

package obj

import (
	"bytes"
	"debug/elf"

	"btc/internal/objfile"
)

// A minimal ELF64 relocatable writer for EM_BPF: sections in the order added,
// one string table, a symbol table with locals first, REL relocations.

type elfSection struct {
	name   string
	typ    elf.SectionType
	flags  elf.SectionFlag
	data   []byte
	size   int // SHT_NOBITS only
	align  int
	link   int
	info   int
	entry  int
	relocs []elfReloc
}

type elfSymbol struct {
	name    string
	bind    elf.SymBind
	typ     elf.SymType
	section int
	value   int
	size    int
}

type elfReloc struct {
	off  int // bytes
	sym  symRef
	kind uint32
}

// symRef identifies a symbol before the final order of symbols is known.
type symRef struct {
	local bool
	index int
}

// Relocation types of EM_BPF (LLVM's numbers).
const (
	relocBPF64_64 = 1  // ld_imm64
	relocBPF64_32 = 10 // call
)

type elfFile struct {
	sections []*elfSection // [0] is the null section
	locals   []elfSymbol
	globals  []elfSymbol
}

func newELF() *elfFile { return &elfFile{sections: []*elfSection{{}}} }

// section appends a section and returns its index.
func (f *elfFile) section(s *elfSection) int {
	f.sections = append(f.sections, s)
	return len(f.sections) - 1
}

func (f *elfFile) local(s elfSymbol) symRef {
	f.locals = append(f.locals, s)
	return symRef{true, len(f.locals) - 1}
}

func (f *elfFile) global(s elfSymbol) symRef {
	f.globals = append(f.globals, s)
	return symRef{false, len(f.globals) - 1}
}

// number returns a symbol's index in .symtab: null, locals, globals.
func (f *elfFile) number(r symRef) int {
	if r.local {
		return 1 + r.index
	}
	return 1 + len(f.locals) + r.index
}

// bytes returns the file: header, section data, section headers.
func (f *elfFile) bytes() []byte {
	strs := newStrtab()
	f.addTables(&strs)
	const headerSize, sectionHeaderSize = 64, 64
	var body bytes.Buffer
	body.Write(make([]byte, headerSize))
	offs := make([]int, len(f.sections))
	for i, s := range f.sections {
		if i == 0 {
			continue
		}
		pad(&body, max(1, s.align))
		offs[i] = body.Len()
		if s.typ != elf.SHT_NOBITS {
			body.Write(s.data)
		}
	}
	pad(&body, 8)
	shoff := body.Len()
	for i, s := range f.sections {
		size := len(s.data)
		if s.typ == elf.SHT_NOBITS {
			size = s.size
		}
		le(&body, strs.add(s.name), uint32(s.typ), uint64(s.flags), uint64(0), uint64(offs[i]), uint64(size),
			uint32(s.link), uint32(s.info), uint64(s.align), uint64(s.entry))
	}
	out := body.Bytes()
	var h bytes.Buffer
	h.Write([]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)})
	h.Write(make([]byte, 9))
	le(&h, uint16(elf.ET_REL), uint16(elf.EM_BPF), uint32(elf.EV_CURRENT), uint64(0), uint64(0), uint64(shoff),
		uint32(0), uint16(headerSize), uint16(0), uint16(0), uint16(sectionHeaderSize), uint16(len(f.sections)),
		uint16(1))
	copy(out, h.Bytes())
	return out
}

// addTables appends the relocation sections and the symbol table, and fills .strtab
// (section 1) last.
func (f *elfFile) addTables(strs *strtab) {
	symtab := len(f.sections)
	for _, s := range f.sections {
		if len(s.relocs) > 0 {
			symtab++
		}
	}
	for i, n := 1, len(f.sections); i < n; i++ {
		s := f.sections[i]
		if len(s.relocs) == 0 {
			continue
		}
		var b bytes.Buffer
		for _, r := range s.relocs {
			le(&b, uint64(r.off), uint64(f.number(r.sym))<<32|uint64(r.kind))
		}
		f.section(&elfSection{
			name: ".rel" + s.name, typ: elf.SHT_REL, flags: elf.SHF_INFO_LINK, data: b.Bytes(), align: 8,
			link: symtab, info: i, entry: 16,
		})
	}
	var b bytes.Buffer
	b.Write(make([]byte, 24))
	for _, syms := range [][]elfSymbol{f.locals, f.globals} {
		for _, s := range syms {
			le(&b, strs.add(s.name), uint8(s.bind)<<4|uint8(s.typ), uint8(0), uint16(s.section), uint64(s.value),
				uint64(s.size))
		}
	}
	f.section(&elfSection{
		name: ".symtab", typ: elf.SHT_SYMTAB, data: b.Bytes(), align: 8, link: 1, info: 1 + len(f.locals),
		entry: 24,
	})
	for _, s := range f.sections {
		strs.add(s.name)
	}
	strs.add(objfile.Section) // objfile.Join appends it
	f.sections[1].data = strs.buf
}

func pad(b *bytes.Buffer, align int) {
	for b.Len()%align != 0 {
		b.WriteByte(0)
	}
}
