// SPDX-License-Identifier: Apache-2.0

// Package emit turns a module of core IR into BPF bytes with the records that
// an object needs around them.
//
// It takes an ir.Module whose functions hold core ops only and whose slots are
// placed, drives isel (machine code with virtual registers) and regalloc
// (machine registers), lays the blocks out and encodes them. It returns one Func
// for each ir.Func, in the same order. The bytes decode on Linux 5.10.
package emit

import (
	"btc/ir"
)

// Func is one encoded function: a BPF program or a static subprogram.
// Instruction counts and offsets are in 8-byte slots (ld_imm64 takes two).
type Func struct {
	Name  string
	Prog  *ir.Prog // nil for a subprogram
	Insns []byte   // 8 bytes a slot, little endian

	Relocs []Reloc // sorted by Insn
	CORE   []CORE  // sorted by Insn
	// Lines maps instructions to positions in the script, sorted by Insn. The first entry
	// is at instruction 0; further ones where the position changes. A Pos may be ir.NoPos
	// only at instruction 0.
	Lines []Line
	// IDInsns are the marked immediates of attachid (`r1 = N`, mov imm32): the
	// loader writes the attach point's number there in each clone.
	IDInsns []int
	// Result are the loads of a result of 64 bits.
	Result []int
	// Forms are the tests for an architecture or a helper, sorted by Insn.
	Forms []Form
	// Context is what a program does with its context.
	Context ir.ContextUse
	// Global marks a global function, see ir.Func.
	Global bool
	// StackSize is the number of bytes of the 512-byte frame in use.
	StackSize int
	// Calls names the subprograms that are called or whose address is taken,
	// sorted, each once.
	Calls []string
	Pos   ir.Pos
}

// NumInsns returns the length in slots.
func (f *Func) NumInsns() int { return len(f.Insns) / 8 }

// RelocKind is what a relocation's symbol is.
type RelocKind uint8

// Relocation kinds.
const (
	// ld_imm64 of map Sym (its name in the language, ir.Map.Name); src is 1 (BPF_PSEUDO_MAP_FD), imm 0
	Map      RelocKind = iota
	Global             // ld_imm64 of the address of global Sym + Addend; src and imm are 0, obj writes them
	FuncAddr           // ld_imm64 of subprogram Sym (callback, kernel 5.13); src is 4 (BPF_PSEUDO_FUNC), imm 0
	Call               // call of subprogram Sym; src is 1 (BPF_PSEUDO_CALL), imm -1
)

var relocNames = [...]string{Map: "map", Global: "global", FuncAddr: "funcaddr", Call: "call"}

func (k RelocKind) String() string { return relocNames[k] }

// Reloc is a reference to a symbol of the object.
type Reloc struct {
	Insn   int
	Kind   RelocKind
	Sym    string
	Addend int64
}

// CORE is a CO-RE relocation. The instruction's immediate (mov imm32) or, for
// FieldByteOffset on a load, its offset holds 0: obj writes the local value
// there. An access through ir's load with both Imm and CORE is selected as an
// addition, so that the instruction's field is the relocated value alone.
type CORE struct {
	Insn int
	Ref  ir.CORERef
	Kind ir.COREKind
	// Compared: the value is put into a register instead of being part of an access.
	Compared bool
	Pos      ir.Pos
}

// Form is an instruction that moves the result of a test into a register.
type Form struct {
	Insn         int
	Arch, Helper string // the test: one of them is not empty
}

// Line is a line record.
type Line struct {
	Insn int
	Pos  ir.Pos
}
