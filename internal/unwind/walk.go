// SPDX-License-Identifier: Apache-2.0

package unwind

import "debug/elf"

// Registers are those with which a walk begins. Other are those of the innermost frame by their DWARF numbers, as far as
// they are known.
type Registers struct {
	PC, SP, FP, LR uint64
	Other          []uint64
	// Caller means that they are those of a caller: PC is a return address, and LR is not known.
	Caller bool
}

// Memory is what a walk reads: the stack, and which table describes an address.
type Memory interface {
	// Word reads the word at an address; ok is false if it is not resident.
	Word(addr uint64) (value uint64, ok bool)
	// Find returns the table for the code at an address, and what to subtract from the address to search it. Without a
	// table, reason is why.
	Find(addr uint64) (t *Table, bias uint64, reason Reason)
}

const (
	// pacMask removes the signature and the tag that arm64 keeps above the 48 bits of an address of code.
	pacMask = 1<<48 - 1
	// maxUser is above all addresses of user space: with five levels of page tables they have 56 bits.
	maxUser = 1 << 56
)

// walk is the state of Walk between two frames.
type walk struct {
	machine elf.Machine
	r       Registers
	mem     Memory
	exact   bool // pc is that of an instruction, not after a call; and lr is known
	lost    bool // fp is not known
}

// Walk returns the addresses of a stack, innermost first, at most limit of them, and why it has ended. The first one is
// that of the interrupted instruction, the others are return addresses.
func Walk(m elf.Machine, r Registers, mem Memory, limit int) (stack []uint64, reason Reason) {
	w := walk{machine: m, r: r, mem: mem, exact: !r.Caller, lost: r.Caller && r.FP == LostFP}
	for {
		if w.r.PC == 0 || w.r.PC >= maxUser {
			return stack, BadValue
		}
		if len(stack) == limit {
			return stack, TooDeep
		}
		stack = append(stack, w.r.PC)
		if more, reason := w.step(); !more {
			return stack, reason
		}
		w.r.Other = nil
	}
}

// step goes to the caller. If there is none, or it is not found, more is false.
func (w *walk) step() (more bool, reason Reason) {
	at := w.r.PC
	if !w.exact {
		at--
	}
	t, bias, reason := w.mem.Find(at)
	if t == nil {
		return false, reason
	}
	if at-bias >= NoPC {
		return false, NoTable
	}
	row := t.Lookup(uint32(at - bias))
	if t.Frames && row.Kind == KindNone {
		row.Kind = KindFrames
	}
	var cfa uint64
	switch {
	case row.Kind == KindNone:
		return false, NoTable
	case row.Kind == KindEnd:
		return false, Whole
	case row.Kind == KindSignal:
		return w.signal()
	case row.Kind == KindFrames:
		return w.frameRecord()
	case row.Kind == KindSP || row.Kind == KindDerefSP:
		cfa = w.r.SP + uint64(8*int64(row.CFA))
	case row.Kind == KindFP || row.Kind == KindDerefFP:
		if w.lost {
			return false, Unrepresented
		}
		cfa = w.r.FP + uint64(8*int64(row.CFA))
	case row.Kind == KindPLT:
		if cfa = w.r.SP + 8; w.r.PC&15 >= uint64(row.CFA) {
			cfa += 8
		}
		row.RA, row.Flags = -1, RASaved|FPSame
	case row.Kind >= KindReg && int(row.Kind-KindReg) < len(w.r.Other):
		cfa = w.r.Other[row.Kind-KindReg] + uint64(8*int64(row.CFA))
	default:
		return false, Unrepresented
	}
	ok := true
	if row.Kind == KindDerefSP || row.Kind == KindDerefFP {
		if cfa, ok = w.mem.Word(cfa); !ok {
			return false, NotResident
		}
		if row.Flags&CFAPlus8 != 0 {
			cfa += 8
		}
	}
	pc, fp := uint64(0), w.r.FP
	switch row.Flags & RAMask {
	case RASaved:
		if pc, ok = w.mem.Word(cfa + uint64(8*int64(row.RA))); !ok {
			return false, NotResident
		}
	case RALink:
		if !w.exact {
			return false, BadValue
		}
		pc = w.r.LR
	default:
		return false, Whole
	}
	switch row.Flags & FPMask {
	case FPSaved:
		fp, ok = w.mem.Word(cfa + uint64(8*int64(row.FP)))
	case FPLost:
		w.lost = true
	case FPAtFP:
		if w.lost {
			return false, Unrepresented
		}
		fp, ok = w.mem.Word(w.r.FP + uint64(8*int64(row.FP)))
	}
	if !ok {
		return false, NotResident
	}
	if row.Flags&FPMask == FPSaved || row.Flags&FPMask == FPAtFP {
		w.lost = false
	}
	return w.to(pc, cfa, fp)
}

// to continues in the caller. Its frame is above this one; only the innermost function may have none.
func (w *walk) to(pc, sp, fp uint64) (more bool, reason Reason) {
	if sp < w.r.SP || sp == w.r.SP && !w.exact || sp&7 != 0 {
		return false, BadValue
	}
	w.set(pc, sp, fp)
	return true, Whole
}

func (w *walk) set(pc, sp, fp uint64) {
	if w.machine == elf.EM_AARCH64 {
		pc &= pacMask
	}
	w.r.PC, w.r.SP, w.r.FP, w.exact = pc, sp, fp, false
}

// frameRecord continues in the caller by the frame pointer.
func (w *walk) frameRecord() (more bool, reason Reason) {
	if w.lost {
		return false, Unrepresented
	}
	at, sp := w.r.FP, w.r.FP+16
	if w.machine == elf.EM_RISCV { // s0 is the CFA there, and the record is below it
		at, sp = w.r.FP-16, w.r.FP
	}
	if w.r.FP == 0 {
		return false, Whole
	}
	if sp == w.r.SP || sp&7 != 0 { // Go changes between two stacks with one chain: sp may become less
		return false, BadValue
	}
	fp, ok := w.mem.Word(at)
	pc, ok2 := w.mem.Word(at + 8)
	if !ok || !ok2 {
		return false, NotResident
	}
	w.set(pc, sp, fp)
	return true, Whole
}

// signal continues in the code that a signal has interrupted. Its stack may be another one.
func (w *walk) signal() (more bool, reason Reason) {
	c, ok, ok2, ok3, ok4 := SignalContext(w.machine), true, true, true, true
	var r Registers
	r.PC, ok = w.mem.Word(w.r.SP + uint64(c.PC))
	r.SP, ok2 = w.mem.Word(w.r.SP + uint64(c.SP))
	r.FP, ok3 = w.mem.Word(w.r.SP + uint64(c.FP))
	if c.LR != 0 {
		r.LR, ok4 = w.mem.Word(w.r.SP + uint64(c.LR))
	}
	if !ok || !ok2 || !ok3 || !ok4 {
		return false, NotResident
	}
	w.r, w.exact, w.lost = r, true, false
	return true, Whole
}
