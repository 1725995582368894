// SPDX-License-Identifier: Apache-2.0

// Package unwind describes how code finds its callers: compact tables made from the unwind information of ELF files,
// in the form in which programs in the kernel read them.
//
// A Table is what the package ehframe below makes of a file, what a pack stores, and what the loader puts into the maps
// of an object. Walk unwinds a captured stack with the same rows and by the same rules as the program in the kernel. The
// package imports nothing of this module and never opens a file.
package unwind

import (
	"debug/elf"
	"sort"
)

// Row is how code from PC to the next row's PC finds its caller. In memory and in packs it is RowSize bytes: PC, Kind,
// Flags, CFA, FP, RA, in this order.
//
// The canonical frame address (CFA) is the stack pointer that the caller has after the call. The caller's pc is the
// return address. The pc of a caller is after its call, which may be the last instruction of a function: tables are
// searched for pc-1, except for the innermost frame and for the frame that a signal has interrupted.
type Row struct {
	PC    uint32 // offset: virtual address - Table.Base
	Kind  uint8
	Flags uint8
	CFA   int16 // in words of 8 bytes, see the kinds
	FP    int16 // where the caller's frame pointer is, in words, see FPMask
	RA    int16 // where the return address is, in words from the CFA, see RAMask
}

// Kinds of rows: how the CFA is found. sp and fp are the registers of the frame: rsp and rbp on x86_64, sp and x29 on
// arm64, sp and s0 on riscv64.
const (
	KindNone    = 0  // no table describes this code
	KindSP      = 1  // sp + 8*CFA
	KindFP      = 2  // fp + 8*CFA
	KindDerefSP = 3  // the word at sp + 8*CFA
	KindDerefFP = 4  // the word at fp + 8*CFA: functions that align their stack
	KindPLT     = 5  // x86_64: sp + 8, and 8 more if pc & 15 >= CFA; fp is unchanged, the return address is at CFA - 8
	KindSignal  = 6  // all registers are in the context at sp, see SignalContext
	KindFrames  = 7  // code that keeps frame pointers: words at fp are the caller's fp and the return address; sp = fp + 16. fp 0: the stack ends here
	KindEnd     = 8  // the stack ends here: it is whole
	KindUnknown = 9  // a rule that rows cannot represent
	KindReg     = 16 // + n: DWARF register n + 8*CFA; only in a frame whose registers are all known: the innermost one
)

// Parts of Row.Flags.
const (
	FPMask  = 3
	FPSame  = 0 // the caller's frame pointer is in its register
	FPSaved = 1 // it is at CFA + 8*FP
	FPLost  = 2 // it cannot be found: only frames that do not need it can follow
	FPAtFP  = 3 // it is at fp + 8*FP: functions that align their stack

	RAMask  = 3 << 2
	RASaved = 0 << 2 // the return address is at CFA + 8*RA
	RALink  = 1 << 2 // it is in the link register: in the innermost frame, and in one that a signal has interrupted
	RANone  = 2 << 2 // there is none: KindEnd

	CFAPlus8 = 1 << 4 // the CFA is 8 bytes more: of KindDerefSP and KindDerefFP, where a function has saved its sp
)

// Sizes of the form in which the kernel has a table: see Table.Chunks.
const (
	RowSize   = 12
	ChunkRows = 640
	ChunkSize = ChunkRows * RowSize
	MaxChunks = ChunkSize / 4
	MaxRows   = MaxChunks * ChunkRows
	NoPC      = 1<<32 - 1 // of unused elements
)

// LostFP stands for a frame pointer that cannot be found: no frame begins at this address.
const LostFP = 1

// MaxFrames bounds a walk.
const MaxFrames = 128

// Reason is why a walk has ended.
type Reason uint8

const (
	Whole         Reason = iota // the stack is whole
	NoTable                     // no table describes the code
	NotResident                 // a page of the stack cannot be read
	TooDeep                     // more frames than the limit
	UnknownCode                 // the address is in no mapping
	NotYetKnown                 // the process or the table is being made
	Unrepresented               // a rule that rows cannot represent
	BadValue                    // the CFA does not grow, or an address is not one of user space
	Reasons                     // their number
)

var reasons = [Reasons]string{"whole", "no table", "page not resident", "too deep", "unknown code", "not yet known", "rule not supported", "bad value"}

func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return "unknown"
}

// Context is where a signal frame has the registers that a walk needs, in bytes from the sp of the code that returns
// from the signal handler.
type Context struct{ PC, SP, FP, LR int }

// SignalContext returns the layout of an architecture's signal frame: struct rt_sigframe of the kernel, which is part
// of its ABI. LR is 0 on a machine without a link register.
func SignalContext(m elf.Machine) Context {
	switch m {
	case elf.EM_X86_64: // ucontext: flags, link, stack; then r8 to r15, di, si, bp, bx, dx, ax, cx, sp, ip
		return Context{PC: 168, SP: 160, FP: 120}
	case elf.EM_AARCH64: // siginfo, ucontext with 128 bytes of mask; then the fault address, x0 to x30, sp, pc
		return Context{PC: 568, SP: 560, FP: 544, LR: 552}
	case elf.EM_RISCV: // siginfo, ucontext with 128 bytes of mask; then pc, x1 to x31
		return Context{PC: 304, SP: 320, FP: 368, LR: 312}
	}
	return Context{}
}

// Table is the unwind table of a file.
type Table struct {
	Machine elf.Machine
	BuildID string // in hex; empty if the file has none
	// Base is the virtual address of the first segment that is loaded, rounded down to a page. Offsets of rows are
	// relative to it.
	Base     uint64
	Segments []Segment // those that contain code
	// Frames reports whether all code of the file keeps frame pointers: Go programs without C code.
	Frames bool
	Rows   []Row // ascending by PC; the last one ends the code
}

// Segment is a part of a file that is mapped as code.
type Segment struct{ Offset, Addr, Size uint64 }

// Bias returns what to subtract from an address in a mapping of the file to get the offset that rows use. The mapping
// begins at start, with the file's content at offset.
func (t *Table) Bias(start, offset uint64) (bias uint64, ok bool) {
	for _, s := range t.Segments {
		// A mapping of a segment begins at the page that contains its first byte.
		if from := s.Offset &^ (pageSize - 1); offset >= from && offset < s.Offset+s.Size {
			return start - (s.Addr - s.Offset + offset - t.Base), true
		}
	}
	return 0, false
}

const pageSize = 4096

// Lookup returns the row for an offset.
func (t *Table) Lookup(pc uint32) Row {
	i := sort.Search(len(t.Rows), func(i int) bool { return t.Rows[i].PC > pc })
	if i == 0 {
		return Row{}
	}
	return t.Rows[i-1]
}

// Chunks returns the elements of the table's array in the kernel, each of ChunkSize bytes. The first is an index: for
// each of the others the PC of its first row, NoPC for those that do not exist. Each of the others has ChunkRows rows;
// the last one is padded with rows of PC NoPC and KindNone. All supported architectures are little-endian.
func (t *Table) Chunks() [][]byte {
	n := (len(t.Rows) + ChunkRows - 1) / ChunkRows
	index := make([]byte, 0, ChunkSize)
	out := append(make([][]byte, 0, 1+n), nil)
	for rows := t.Rows; len(rows) > 0; {
		chunk := make([]byte, 0, ChunkSize)
		index = le.AppendUint32(index, rows[0].PC)
		k := min(len(rows), ChunkRows)
		for i := range rows[:k] {
			chunk = rows[i].append(chunk)
		}
		for end := (Row{PC: NoPC}); len(chunk) < ChunkSize; {
			chunk = end.append(chunk)
		}
		out, rows = append(out, chunk), rows[k:]
	}
	for len(index) < ChunkSize {
		index = le.AppendUint32(index, NoPC)
	}
	out[0] = index
	return out
}

// ChunkContent returns the rows in an element of Chunks; of the index, rows with a PC only.
func ChunkContent(b []byte, index bool) (rows []Row) {
	size := RowSize
	if index {
		size = 4
	}
	for ; len(b) >= size && le.Uint32(b) != NoPC; b = b[size:] {
		r := Row{PC: le.Uint32(b)}
		if !index {
			half := func(at int) int16 { return int16(le.Uint16(b[at:])) }
			r.Kind, r.Flags, r.CFA, r.FP, r.RA = b[4], b[5], half(6), half(8), half(10)
		}
		rows = append(rows, r)
	}
	return rows
}

func (r *Row) append(b []byte) []byte {
	b = append(le.AppendUint32(b, r.PC), r.Kind, r.Flags)
	for _, v := range [...]int16{r.CFA, r.FP, r.RA} {
		b = le.AppendUint16(b, uint16(v))
	}
	return b
}
