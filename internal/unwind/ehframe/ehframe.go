// SPDX-License-Identifier: Apache-2.0

// Package ehframe makes unwind tables from ELF files: from .eh_frame and .debug_frame, and for Go programs from where
// their code is. A rule that rows cannot represent becomes unwind.KindUnknown, never another rule. The files are hostile
// input; memory and time are bounded by the size of their sections, which are bounded, too.
package ehframe

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"sort"

	"btc/internal/elffile"
	"btc/internal/unwind"
)

// Limits of one file.
const (
	maxSection = 64 << 20 // bytes of .eh_frame and of .debug_frame
	maxPieces  = 1 << 21
)

// ErrTooLarge is the error of a file whose table would have more rows than a map can hold.
var ErrTooLarge = fmt.Errorf("unwind table too large (max %d rows)", unwind.MaxRows)

// Build makes the table of a file. A file without unwind information has a table in which all code is of KindNone.
func Build(f *elf.File) (t *unwind.Table, err error) {
	defer func() {
		if p := recover(); p != nil { // debug/elf may panic on damaged input
			t, err = nil, fmt.Errorf("cannot read the unwind information: %v", p)
		}
	}()
	b := &builder{file: f, cpu: cpus[f.Machine], table: unwind.Table{Machine: f.Machine, BuildID: elffile.BuildID(f)}}
	if b.cpu == nil || f.Class != elf.ELFCLASS64 || f.ByteOrder.Uint16([]byte{1, 0}) != 1 {
		return nil, fmt.Errorf("stacks of %s, %s, are not supported", f.Machine, f.Class)
	}
	if len(b.table.BuildID) > 2*unwind.MaxBuildID { // not of any linker
		b.table.BuildID = ""
	}
	if err := b.layout(); err != nil {
		return nil, err
	}
	b.collect()
	if err := b.build(); err != nil {
		return nil, err
	}
	return &b.table, nil
}

// cpu is what differs between architectures. The numbers of registers are those of DWARF.
type cpu struct {
	sp, fp, ra uint64
	link       bool // the return address is in a register at a function's entry
	plt        int  // bytes of the first stub in .plt, which is different; only where the others need no memory
	sigreturn  []byte
}

var cpus = map[elf.Machine]*cpu{
	elf.EM_X86_64:  {sp: 7, fp: 6, ra: 16, sigreturn: []byte{0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05}},                    // mov $15, %rax; syscall
	elf.EM_AARCH64: {sp: 31, fp: 29, ra: 30, link: true, plt: 32, sigreturn: []byte{0x68, 0x11, 0x80, 0xd2, 1, 0, 0, 0xd4}}, // mov x8, 139; svc 0
	elf.EM_RISCV:   {sp: 2, fp: 8, ra: 1, link: true, plt: 32, sigreturn: []byte{0x93, 0x08, 0xb0, 0x08, 0x73, 0, 0, 0}},    // li a7, 139; ecall
}

// piece is a range of code that one entry of a section describes, or a row.
type piece struct {
	from, to uint32 // offsets
	at       uint32 // of the entry in its section
	section  uint8  // index in builder.sections; fixed: the row has no entry
	kind     uint8  // of the row, if fixed; of KindSP: the code has pushed nothing, and the return address is where a call leaves it
}

const fixed = 255

type builder struct {
	file     *elf.File
	cpu      *cpu
	table    unwind.Table
	sections []*section
	pieces   []piece
}

// layout finds the segments that contain code.
func (b *builder) layout() error {
	found := false
	for _, p := range b.file.Progs {
		if p.Type != elf.PT_LOAD {
			continue
		}
		if !found {
			b.table.Base, found = p.Vaddr&^4095, true
		}
		// Offsets have 32 bits; what is further away has no rows.
		if at := p.Vaddr - b.table.Base; p.Flags&elf.PF_X != 0 && p.Filesz > 0 && p.Vaddr >= b.table.Base && at < unwind.NoPC {
			b.table.Segments = append(b.table.Segments, unwind.Segment{Offset: p.Off, Addr: p.Vaddr, Size: min(p.Filesz, unwind.NoPC-at)})
		}
	}
	if len(b.table.Segments) == 0 {
		return errors.New("the file has no code")
	}
	if len(b.table.Segments) > unwind.MaxSegments {
		return errors.New("the file has too many segments of code")
	}
	for i := range b.table.Segments[1:] {
		if s, next := b.table.Segments[i], b.table.Segments[i+1]; next.Addr < s.Addr || next.Addr-s.Addr < s.Size {
			return errors.New("the segments of the file are not in order")
		}
	}
	return nil
}

// clip returns the part of a range of addresses that is code, as offsets; it is empty if from is not code.
func (b *builder) clip(from, to uint64) (start, end uint32) {
	for _, s := range b.table.Segments {
		if from-s.Addr < s.Size && to > from {
			return uint32(from - b.table.Base), uint32(min(to, s.Addr+s.Size) - b.table.Base)
		}
	}
	return 0, 0
}

// code reads the code at an address, n bytes or what the segment has of them.
func (b *builder) code(addr uint64, n int) []byte {
	for _, p := range b.file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && addr-p.Vaddr < p.Filesz {
			code := make([]byte, min(uint64(n), p.Filesz-(addr-p.Vaddr)))
			n, _ := p.ReadAt(code, int64(addr-p.Vaddr))
			return code[:n]
		}
	}
	return nil
}

// add adds a range of code. It reports whether there is room for more.
func (b *builder) add(from, to uint64, p piece) bool {
	if p.from, p.to = b.clip(from, to); p.from < p.to {
		b.pieces = append(b.pieces, p)
	}
	return len(b.pieces) < maxPieces
}

// collect finds all pieces, sorted and without overlaps: what is found first holds.
func (b *builder) collect() {
	b.goCode()
	b.settle(0)
	b.entries(".eh_frame")
	b.starts()
	b.entries(".debug_frame")
	b.stubs()
	b.builtins()
}

type byAddress []piece

func (s byAddress) Len() int      { return len(s) }
func (s byAddress) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s byAddress) Less(i, j int) bool {
	return s[i].from < s[j].from || s[i].from == s[j].from && s[i].at < s[j].at
}

// settle sorts the pieces from an index on, which are of one source, cuts them at the next one's beginning, as the
// unwinders of C++ do, and removes what the pieces before the index cover.
func (b *builder) settle(old int) {
	before, add := b.pieces[:old], b.pieces[old:]
	sort.Sort(byAddress(add))
	kept := add[:0]
	at := 0
	for i := range add {
		p := add[i]
		if n := len(kept); n > 0 && kept[n-1].from == p.from {
			continue // two entries for code that the linker has merged
		}
		for at < len(before) && before[at].to <= p.from {
			at++
		}
		if at < len(before) {
			if before[at].from <= p.from {
				continue
			}
			p.to = min(p.to, before[at].from)
		}
		if n := len(kept); n > 0 {
			kept[n-1].to = min(kept[n-1].to, p.from)
		}
		kept = append(kept, p)
	}
	b.pieces = b.pieces[:old+len(kept)]
	sort.Sort(byAddress(b.pieces))
}

// entries adds those of a section.
func (b *builder) entries(name string) {
	old := len(b.pieces)
	s := readSection(b.file, name)
	if s == nil {
		return
	}
	b.sections = append(b.sections, s)
	index := uint8(len(b.sections) - 1)
	s.each(func(at uint32, from, to uint64) bool {
		if from == 0 { // a function that the linker has removed
			return true
		}
		return b.add(from, to, piece{at: at, section: index})
	})
	b.settle(old)
}

// starts adds the code at which a process begins, if no entry of .eh_frame describes it: that of the dynamic linker.
func (b *builder) starts() {
	entry := b.file.Entry
	from, _ := b.clip(entry, entry+1)
	if len(b.pieces) == 0 || from == 0 {
		return
	}
	const most = 64 // bytes: the code calls a function and jumps to the program
	i := sort.Search(len(b.pieces), func(i int) bool { return b.pieces[i].from >= from })
	if i < len(b.pieces) && b.pieces[i].from == from {
		if p := &b.pieces[i]; elffile.IsProgram(b.file) {
			p.section, p.kind = fixed, unwind.KindEnd
		}
		return
	}
	if i > 0 && b.pieces[i-1].to > from {
		return
	}
	old := len(b.pieces)
	b.add(entry, entry+most, piece{section: fixed, kind: unwind.KindEnd})
	b.settle(old)
}

// stubs adds those of a procedure linkage table without an entry. They have pushed nothing when they jump.
func (b *builder) stubs() {
	old := len(b.pieces)
	for _, sec := range b.file.Sections {
		if sec.Type != elf.SHT_PROGBITS || sec.Flags&elf.SHF_EXECINSTR == 0 {
			continue
		}
		from := sec.Addr
		switch {
		case sec.Name == ".plt.got" || sec.Name == ".plt.sec" || sec.Name == ".iplt":
		case sec.Name == ".plt" && b.cpu.link:
			from += uint64(b.cpu.plt)
		default:
			continue
		}
		if sec.Size < math.MaxUint32 {
			b.add(from, sec.Addr+sec.Size, piece{section: fixed, kind: unwind.KindSP})
		}
	}
	b.settle(old)
}

// builtins adds V8's functions, in node for example: its own compiler has made them. They have no entries and keep frame
// pointers. They are only searched for in a file with much code that nothing describes.
func (b *builder) builtins() {
	const least = 64 << 10 // bytes of code without entries
	gap, at, old := false, uint32(0), len(b.pieces)
	for _, p := range b.pieces {
		gap = gap || p.from-at >= least && at != 0
		at = p.to
	}
	if !gap {
		return
	}
	from, to := ^uint64(0), uint64(0)
	elffile.EachSymbol(b.file, func(s *elffile.Symbol) bool {
		if s.Type == elf.STT_FUNC && s.Size > 0 && s.Defined() && bytes.HasPrefix(s.Name(), []byte("Builtins_")) {
			from, to = min(from, s.Value), max(to, s.Value+s.Size)
		}
		return true
	})
	b.add(from, to, piece{section: fixed, kind: unwind.KindFrames})
	b.settle(old)
}

// maxPadding is the largest number of bytes between functions that are there for alignment, plus 1.
const maxPadding = 16

// build makes the rows of all pieces and of the gaps between them.
func (b *builder) build() error {
	rest := b.pieces
	for _, s := range b.table.Segments {
		at := uint32(s.Addr - b.table.Base)
		end := at + uint32(s.Size)
		b.row(unwind.Row{PC: at})
		for len(rest) > 0 && rest[0].from < end {
			p := rest[0]
			rest = rest[1:]
			// Padding between functions is not executed. It continues the row before, which often equals the one after.
			if p.from > at && (p.from-at >= maxPadding || p.from%maxPadding != 0) {
				b.row(unwind.Row{PC: at})
			}
			b.describe(&p)
			at = p.to
			if len(b.table.Rows) > unwind.MaxRows {
				return ErrTooLarge
			}
		}
		if at < end {
			b.row(unwind.Row{PC: at})
		}
		if end < unwind.NoPC {
			b.row(unwind.Row{PC: end})
		}
	}
	if n := len(b.table.Rows); n > unwind.MaxRows {
		return ErrTooLarge
	}
	return nil
}

// row appends a row; an empty one before it is removed, and one that is equal to the one before is not needed.
func (b *builder) row(r unwind.Row) {
	rows := b.table.Rows
	if n := len(rows); n > 0 && rows[n-1].PC == r.PC {
		rows = rows[:n-1]
	}
	if n := len(rows); n > 0 {
		last := rows[n-1]
		if last.PC = r.PC; last == r {
			b.table.Rows = rows
			return
		}
	}
	b.table.Rows = append(rows, r)
}

// describe appends the rows of a piece.
func (b *builder) describe(p *piece) {
	if p.section == fixed {
		r := unwind.Row{PC: p.from, Kind: p.kind}
		if p.kind == unwind.KindSP {
			if r.CFA, r.RA = 1, -1; b.cpu.link {
				r.CFA, r.RA, r.Flags = 0, 0, unwind.RALink
			}
		}
		b.row(r)
		return
	}
	s := b.sections[p.section]
	e := s.entry(p.at)
	if e == nil {
		b.row(unwind.Row{PC: p.from, Kind: unwind.KindUnknown})
		return
	}
	from := uint32(e.from - b.table.Base)
	if e.signal {
		b.signal(p, e)
		return
	}
	s.run(e, b.cpu, func(advance uint64, st *state) bool {
		if advance >= uint64(p.to-from) {
			return false
		}
		r := b.cpu.row(st)
		r.PC = from + uint32(advance)
		b.row(r)
		return true
	})
}

// signal appends the rows of code that returns from a signal handler. Its caller is what the signal has interrupted.
// The entry may begin before the code, because unwinders search for the address before the return address.
func (b *builder) signal(p *piece, e *entry) {
	code := b.code(e.from, int(min(p.to-p.from, 256)))
	i := bytes.Index(code, b.cpu.sigreturn)
	if i < 0 {
		b.row(unwind.Row{PC: p.from, Kind: unwind.KindUnknown})
		return
	}
	at := p.from + uint32(i) - 1
	if n := len(b.table.Rows); i == 0 && (n == 0 || p.from <= b.table.Rows[n-1].PC+1) { // an instruction ends there
		at = p.from
	}
	if at > p.from {
		b.row(unwind.Row{PC: p.from, Kind: unwind.KindUnknown})
	}
	b.row(unwind.Row{PC: at, Kind: unwind.KindSignal})
}

// row represents a state.
func (c *cpu) row(st *state) unwind.Row {
	unknown := unwind.Row{Kind: unwind.KindUnknown}
	if st.ra.kind == undefined {
		return unwind.Row{Kind: unwind.KindEnd}
	}
	r, ok := unwind.Row{}, true
	r.CFA = words(st.cfa.offset, &ok)
	switch reg := st.cfa.reg; {
	case st.cfa.kind == cfaPLT:
		r.Kind = unwind.KindPLT
		r.CFA = int16(st.cfa.offset)
		ok = c.sp == 7
	case st.cfa.kind == cfaReg && reg == c.sp:
		r.Kind = unwind.KindSP
	case st.cfa.kind == cfaReg && reg == c.fp:
		r.Kind = unwind.KindFP
	case st.cfa.kind == cfaReg && reg < 256-unwind.KindReg:
		r.Kind = unwind.KindReg + uint8(reg)
	case st.cfa.kind == cfaDeref && (reg == c.sp || reg == c.fp) && (st.cfa.add == 0 || st.cfa.add == 8):
		if r.Kind = unwind.KindDerefSP; reg == c.fp {
			r.Kind = unwind.KindDerefFP
		}
		if st.cfa.add == 8 {
			r.Flags |= unwind.CFAPlus8
		}
	default:
		return unknown
	}
	switch st.ra.kind {
	case saved:
		r.RA = words(st.ra.offset, &ok)
	case unsaved:
		r.Flags |= unwind.RALink
		ok = ok && c.link
	default:
		return unknown
	}
	fpOK := true
	switch {
	case st.fp.kind == unsaved:
	case st.fp.kind == saved:
		r.FP = words(st.fp.offset, &fpOK)
		r.Flags |= unwind.FPSaved
	case st.fp.kind == expression && st.fp.reg == c.fp:
		r.FP = words(st.fp.offset, &fpOK)
		r.Flags |= unwind.FPAtFP
	default:
		fpOK = false
	}
	if !fpOK {
		r.FP, r.Flags = 0, r.Flags&^unwind.FPMask|unwind.FPLost
	}
	if !ok {
		return unknown
	}
	return r
}

// words converts bytes to words; ok becomes false if the result cannot be represented.
func words(n int64, ok *bool) int16 {
	w := n / 8
	if n%8 != 0 || w != int64(int16(w)) {
		*ok = false
	}
	return int16(w)
}
