// SPDX-License-Identifier: Apache-2.0

package permit

import "github.com/cilium/ebpf/asm"

// emitted reports whether an instruction is one that the compiler makes. Others are unknown to some analysis here or in
// rewrite: new kinds of calls, jumps and loops, and atomics that change registers. Kernels refuse fields that an
// instruction does not use; they are refused here, too, because a later kernel may give them a meaning. Calls of kernel
// functions and of other kinds have their own messages.
func emitted(ins *asm.Instruction) bool {
	op := ins.OpCode
	if op > 0xff && op.Class() != asm.StXClass { // the library's numbers for signed divisions and moves (cpu v4)
		return false
	}
	unused := func(src, off, imm bool) bool {
		return (!src || ins.Src == 0) && (!off || ins.Offset == 0) && (!imm || ins.Constant == 0)
	}
	code := uint8(op)
	switch class := op.Class(); class {
	case asm.LdClass:
		// Src says what the constant is, see object.checkInstructions.
		return op.IsDWordLoad() && ins.Offset == 0
	case asm.LdXClass:
		return op.Mode() == asm.MemMode && unused(false, false, true)
	case asm.StClass:
		return op.Mode() == asm.MemMode && unused(true, false, false)
	case asm.StXClass:
		if op.Mode() == asm.MemMode {
			return op <= 0xff && unused(false, false, true)
		}
		size := op.Size()
		return op.Mode() == asm.AtomicMode && op.AtomicOp() == asm.AddAtomic && ins.Constant == 0 &&
			(size == asm.Word || size == asm.DWord)
	case asm.ALUClass, asm.ALU64Class:
		reg := code&0x08 != 0
		switch kind := code & 0xf0; {
		case kind > 0xd0:
			return false
		case kind == 0xd0: // to big endian; to little endian and bswap are not used
			return class == asm.ALUClass && reg && unused(true, true, false)
		case kind == 0x80: // negation
			return !reg && unused(true, true, true)
		}
		return unused(!reg, true, reg)
	}
	// jumps
	reg, wide := code&0x08 != 0, op.Class() == asm.JumpClass
	switch kind := code & 0xf0; {
	case kind == 0x00:
		return wide && !reg && ins.Dst == 0 && unused(true, false, true)
	case kind == 0x80:
		return wide && !reg && ins.Dst == 0 && ins.Offset == 0 || ins.IsKfuncCall()
	case kind == 0x90:
		return wide && !reg && ins.Dst == 0 && unused(true, true, true)
	case kind > 0xd0: // may_goto and what may come
		return false
	}
	return unused(!reg, false, reg)
}
