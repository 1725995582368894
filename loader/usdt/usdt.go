// SPDX-License-Identifier: Apache-2.0

// Package usdt reads the statically defined probes of a program or library: the notes of
// its section .note.stapsdt, with the location of each argument at the probe.
//
// It is our own code and adds 14 KB to btrun: no Go library parses these notes and the assembler operands in them.
//
// It takes an ELF file, which is not trusted, and returns probes with offsets in the file and arguments in the form
// that programs interpret.
package usdt

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"

	"btc/internal/elffile"
)

// Location is one location of a probe; a probe that was inlined has many.
type Location struct {
	Provider, Name string
	Addr, Offset   uint64 // of the probe's instruction: virtual address, and offset in the file
	Semaphore      uint64 // offset in the file of its counter, 0: none
	Text           string // arguments as in the note
	Args           []Arg
}

// Kind is the kind of an argument's location.
type Kind uint8

// The kinds, as programs interpret them (docs/layouts.md).
const (
	Absent   Kind = iota // in a form that cannot be read
	Const                // Value
	Register             // the register at Reg
	Memory               // Reg + Index<<Scale + Value
)

// NoIndex means no index register.
const NoIndex = 0xffff

// Arg is the location of one argument.
type Arg struct {
	Kind   Kind
	Value  int64  // the constant, or the displacement of a memory operand
	Reg    uint16 // offset in struct pt_regs
	Index  uint16 // offset of the index register, or NoIndex
	Scale  uint8  // shift of the index
	Size   uint8  // bytes: 1, 2, 4, 8
	Signed bool
}

// MaxArgs is the maximum number of arguments of a probe.
const MaxArgs = 12

// ArgSize is the size of an argument's encoding, in bytes.
const ArgSize = 16

// Encode returns the form of arguments that programs read, MaxArgs of ArgSize each.
func Encode(args []Arg) []byte {
	out := make([]byte, 0, MaxArgs*ArgSize)
	for _, a := range args[:min(len(args), MaxArgs)] {
		out = binary.NativeEndian.AppendUint64(out, uint64(a.Value))
		out = binary.NativeEndian.AppendUint16(out, a.Reg)
		out = binary.NativeEndian.AppendUint16(out, a.Index)
		signed := byte(0)
		if a.Signed {
			signed = 1
		}
		out = append(out, byte(a.Kind), a.Scale, a.Size, signed)
	}
	return append(out, make([]byte, MaxArgs*ArgSize-len(out))...)
}

// Limits on a file.
const (
	maxNotes = 64 << 20 // bytes, and of the names of symbols
	maxName  = 1 << 12

	maxSymbols = 1 << 20 // data symbols
)

// Read lists the probes of a file; none is not an error. An invalid note is skipped and
// reported by the error; truncated notes end the list.
func Read(f *elf.File) (all []Location, err error) {
	defer func() {
		if p := recover(); p != nil { // debug/elf may panic on damaged input
			err = fmt.Errorf("USDT notes: %v", p)
		}
	}()
	section := f.Section(".note.stapsdt")
	if section == nil {
		return nil, nil
	}
	if section.Size > maxNotes {
		return nil, fmt.Errorf("USDT notes too large: %d bytes (max %d)", section.Size, maxNotes)
	}
	data, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("USDT notes: %w", err)
	}
	r := reader{file: f, table: tableOf(f.Machine)}
	if base := f.Section(".stapsdt.base"); base != nil {
		r.base = base.Addr
	}
	var first error
	for len(data) > 0 {
		desc, rest, err := r.note(data)
		if err != nil {
			return all, err
		}
		data = rest
		if desc == nil {
			continue
		}
		l, err := r.location(desc)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		all = append(all, l)
	}
	return all, first
}

type reader struct {
	file    *elf.File
	table   *table
	base    uint64            // address of .stapsdt.base, 0: the file has none
	symbols map[string]uint64 // data symbols, read when an argument names one
}

// note splits off the first note; desc is nil if it is not a note of a probe.
func (r *reader) note(data []byte) (desc, rest []byte, err error) {
	if len(data) < 12 {
		return nil, nil, fmt.Errorf("USDT notes: %d bytes after the last note", len(data))
	}
	order := r.file.ByteOrder
	nameSize, descSize := uint64(order.Uint32(data)), uint64(order.Uint32(data[4:]))
	kind := order.Uint32(data[8:])
	pad := func(n uint64) uint64 { return (n + 3) &^ 3 }
	end := 12 + pad(nameSize) + descSize
	if end > uint64(len(data)) {
		return nil, nil, fmt.Errorf("USDT notes: a note of %d bytes in the last %d", end, len(data))
	}
	name := data[12 : 12+nameSize]
	desc = data[12+pad(nameSize) : end]
	rest = data[min(pad(end), uint64(len(data))):]
	if kind != 3 || string(bytes.TrimRight(name, "\x00")) != "stapsdt" {
		return nil, rest, nil
	}
	return desc, rest, nil
}

// location reads {pc, base, semaphore} in the file's word size, then three strings.
func (r *reader) location(desc []byte) (Location, error) {
	size := 8
	if r.file.Class == elf.ELFCLASS32 {
		size = 4
	}
	if len(desc) < 3*size {
		return Location{}, fmt.Errorf("USDT notes: a note of %d bytes is too short", len(desc))
	}
	word := func(i int) uint64 {
		if size == 4 {
			return uint64(r.file.ByteOrder.Uint32(desc[4*i:]))
		}
		return r.file.ByteOrder.Uint64(desc[8*i:])
	}
	pc, base, semaphore := word(0), word(1), word(2)
	var parts [3]string
	rest := desc[3*size:]
	for i := range parts {
		text, tail, ok := bytes.Cut(rest, []byte{0})
		if !ok || len(text) > maxName {
			return Location{}, fmt.Errorf("USDT notes: the strings of a probe are truncated")
		}
		parts[i], rest = string(text), tail
	}
	// A prelinked file was relocated after its notes were written.
	if r.base != 0 {
		pc += r.base - base
		if semaphore != 0 {
			semaphore += r.base - base
		}
	}
	l := Location{Provider: parts[0], Name: parts[1], Addr: pc, Text: parts[2]}
	var ok bool
	if l.Offset, ok = r.fileOffset(pc, elf.PF_X); !ok {
		return Location{}, fmt.Errorf("USDT notes: %s:%s has no code at address %#x", clip(l.Provider), clip(l.Name),
			pc)
	}
	if semaphore != 0 {
		if l.Semaphore, ok = r.fileOffset(semaphore, elf.PF_W); !ok {
			return Location{}, fmt.Errorf("USDT notes: %s:%s has no counter at address %#x", clip(l.Provider),
				clip(l.Name), semaphore)
		}
	}
	l.Args = r.args(l.Text, pc)
	return l, nil
}

func clip(s string) string { return s[:min(len(s), 64)] }

// fileOffset finds an address in the segments with a permission.
func (r *reader) fileOffset(addr uint64, flag elf.ProgFlag) (uint64, bool) {
	for _, p := range r.file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&flag != 0 && p.Vaddr <= addr && addr-p.Vaddr < p.Filesz {
			return addr - p.Vaddr + p.Off, true
		}
	}
	return 0, false
}

// symbol returns the address of a data symbol.
func (r *reader) symbol(name string) (uint64, bool) {
	if r.symbols == nil {
		r.symbols = map[string]uint64{}
		size := 0 // size of the names
		elffile.EachSymbol(r.file, func(s *elffile.Symbol) bool {
			if s.Defined() && s.Type != elf.STT_FUNC && s.Type != elf.STT_SECTION {
				if name := s.Name(); len(name) > 0 {
					size += len(name)
					r.symbols[string(name)] = s.Value
				}
			}
			return len(r.symbols) < maxSymbols && size < maxNotes
		})
	}
	addr, ok := r.symbols[name]
	return addr, ok
}
