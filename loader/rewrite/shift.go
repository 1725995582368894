// SPDX-License-Identifier: Apache-2.0

package rewrite

import "github.com/cilium/ebpf/asm"

// UnsignedShift turns the arithmetic shift at an index, counted as the kernel does, into a logical
// one. It returns false if there is no such shift.
func UnsignedShift(insns asm.Instructions, index int) bool {
	raw := 0
	for i := range insns {
		ins := &insns[i]
		if raw == index && ins.OpCode.Class() == asm.ALU64Class && ins.OpCode.ALUOp() == asm.ArSh &&
			ins.OpCode.Source() == asm.ImmSource {
			ins.OpCode = ins.OpCode.SetALUOp(asm.RSh)
			return true
		}
		raw += int(ins.Size()) / asm.InstructionSize
	}
	return false
}
