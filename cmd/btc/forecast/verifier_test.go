package forecast

import (
	"testing"

	"github.com/cilium/ebpf/asm"
)

// elements looks up n elements, tests each for null and keeps them all in the frame up
// to a second test.
func elements(n int) asm.Instructions {
	var insns asm.Instructions
	for i := range n {
		insns = append(insns, asm.FnMapLookupElem.Call(), asm.StoreMem(asm.R10, int16(-8*(i+1)), asm.R0, asm.DWord),
			asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.JEq), Dst: asm.R0, Offset: 1},
			asm.Mov.Imm(asm.R6, 1), asm.Mov.Imm(asm.R6, 2), asm.Mov.Imm(asm.R6, 3), asm.Mov.Imm(asm.R6, 4))
	}
	for i := range n {
		insns = append(insns, asm.LoadMem(asm.R0, asm.R10, int16(-8*(i+1)), asm.DWord),
			asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.JEq), Dst: asm.R0, Offset: 1}, asm.Mov.Imm(asm.R6, 1))
	}
	return append(insns, asm.Mov.Imm(asm.R0, 0), asm.Return())
}

func TestEstimateDoubles(t *testing.T) {
	four, eight := newFlow(elements(4)).estimate(verifierLimit), newFlow(elements(8)).estimate(verifierLimit)
	if four < 16*4 || eight < 8*four {
		t.Errorf("4 elements that live across joins: %d instructions, 8: %d; want 2^n states", four, eight)
	}
	if n := newFlow(elements(12)).estimate(20_000); n != 20_001 {
		t.Errorf("12 elements: %d instructions, want the limit to be passed", n)
	}
}
