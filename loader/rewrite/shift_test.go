// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"testing"

	"github.com/cilium/ebpf/asm"
)

func TestUnsignedShift(t *testing.T) {
	insns := asm.Instructions{
		asm.LoadImm(asm.R1, 1, asm.DWord), // occupies two slots
		asm.ArSh.Imm(asm.R1, 48),
		asm.ArSh.Reg(asm.R1, asm.R2),
		asm.ArSh.Imm32(asm.R1, 16),
	}
	for index, want := range map[int]bool{0: false, 1: false, 3: false, 4: false, 5: false} {
		if got := UnsignedShift(insns, index); got != want {
			t.Errorf("instruction %d: error = %v", index, got)
		}
	}
	if !UnsignedShift(insns, 2) || insns[1].OpCode != asm.RSh.Imm(asm.R1, 48).OpCode {
		t.Errorf("instruction 2 = %v", insns[1])
	}
}
