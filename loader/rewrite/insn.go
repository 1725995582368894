// SPDX-License-Identifier: Apache-2.0

package rewrite

import "github.com/cilium/ebpf/asm"

// insn is an instruction in the kernel's encoding (struct bpf_insn): from the low bits opcode, destination, source,
// offset and constant. An asm.Instruction has nine times the size, and calls that make it by value would be most of
// the code of this package.
type insn uint64

func encode(op asm.OpCode, dst, src asm.Register, off int16, imm int32) insn {
	return insn(op) | insn(dst)<<8 | insn(src)<<12 | insn(uint16(off))<<16 | insn(uint32(imm))<<32
}

func mov(dst, src asm.Register) insn          { return aluReg(asm.Mov, dst, src) }
func movImm(dst asm.Register, imm int32) insn { return aluImm(asm.Mov, dst, imm) }
func aluReg(op asm.ALUOp, dst, src asm.Register) insn {
	return encode(op.Op(asm.RegSource), dst, src, 0, 0)
}
func aluImm(op asm.ALUOp, dst asm.Register, imm int32) insn {
	return encode(op.Op(asm.ImmSource), dst, 0, 0, imm)
}

// load and store access memory by a register and an offset; set stores a constant of 8 bytes.
func load(dst, src asm.Register, off int16, size asm.Size) insn {
	return encode(asm.LoadMemOp(size), dst, src, off, 0)
}
func store(dst asm.Register, off int16, src asm.Register, size asm.Size) insn {
	return encode(asm.StoreMemOp(size), dst, src, off, 0)
}
func set(dst asm.Register, off int16, imm int32) insn {
	return encode(asm.StoreImmOp(asm.DWord), dst, 0, off, imm)
}

func jump(op asm.JumpOp, dst asm.Register, imm int32, off int16) insn {
	return encode(op.Op(asm.ImmSource), dst, 0, off, imm)
}
func callHelper(f asm.BuiltinFunc) insn { return jump(asm.Call, 0, int32(f), 0) }
func exit() insn                        { return jump(asm.Exit, 0, 0, 0) }

// to changes an instruction, but not its metadata.
func (w insn) to(ins *asm.Instruction) {
	ins.OpCode, ins.Dst, ins.Src = asm.OpCode(w&0xff), asm.Register(w>>8&15), asm.Register(w>>12&15)
	ins.Offset, ins.Constant = int16(w>>16), int64(int32(w>>32))
}

func (w insn) instruction() (ins asm.Instruction) {
	w.to(&ins)
	return ins
}

// prologue is code with forward jumps.
type prologue struct {
	insns   asm.Instructions
	leaving []int // jumps that leave the prologue's checks
}

func (p *prologue) emit(insns ...insn) {
	for _, w := range insns {
		p.insns = append(p.insns, asm.Instruction{})
		w.to(&p.insns[len(p.insns)-1])
	}
}

func (p *prologue) add(insns ...asm.Instruction) { p.insns = append(p.insns, insns...) }

// addMap emits a load of a map's value at an offset.
func (p *prologue) addMap(reg asm.Register, fd, off int) {
	p.add(asm.LoadMapValue(reg, fd, uint32(off)))
}

// leave emits a jump out if the comparison holds.
func (p *prologue) leave(op asm.JumpOp, reg asm.Register, imm int32) {
	p.leaving = append(p.leaving, len(p.insns))
	p.emit(jump(op, reg, imm, 0))
}

// land makes the jumps lead to the next instruction.
func (p *prologue) land(jumps []int) {
	for _, j := range jumps {
		p.insns[j].Offset = int16(Slots(p.insns[j+1:]))
	}
}
