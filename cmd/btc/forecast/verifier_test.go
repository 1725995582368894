// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"testing"

	"github.com/cilium/ebpf/asm"
)

// elements looks up n elements, tests each for NULL and keeps all of them in the frame until a
// second test.
func elements(n int) asm.Instructions {
	var insns asm.Instructions
	for i := range n {
		insns = append(insns, asm.FnMapLookupElem.Call(), asm.StoreMem(asm.R10, int16(-8*(i+1)), asm.R0, asm.DWord),
			asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.JEq), Dst: asm.R0, Offset: 1},
			asm.Mov.Imm(asm.R6, 1), asm.Mov.Imm(asm.R6, 2), asm.Mov.Imm(asm.R6, 3), asm.Mov.Imm(asm.R6, 4))
	}
	for i := range n {
		insns = append(insns, asm.LoadMem(asm.R0, asm.R10, int16(-8*(i+1)), asm.DWord),
			asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.JEq), Dst: asm.R0, Offset: 1},
			asm.Mov.Imm(asm.R6, 1))
	}
	return append(insns, asm.Mov.Imm(asm.R0, 0), asm.Return())
}

func TestEstimateDoubles(t *testing.T) {
	four, _ := newFlow(elements(4)).estimate(verifierLimit)
	eight, _ := newFlow(elements(8)).estimate(verifierLimit)
	if four < 16*4 || eight < 8*four {
		t.Errorf("4 elements that live across joins: %d instructions, 8: %d; want 2^n states", four, eight)
	}
	if n, _ := newFlow(elements(12)).estimate(20_000); n != 20_001 {
		t.Errorf("12 elements: %d instructions, want more than the limit", n)
	}
}

// flags is a loop that tests n unknown numbers per iteration, and does an addition for each.
func flags(n, iterations int) asm.Instructions {
	insns := asm.Instructions{asm.Mov.Reg(asm.R9, asm.R1), asm.Mov.Imm(asm.R6, 0), asm.Mov.Imm(asm.R7, 0)}
	start := len(insns)
	for range n {
		insns = append(insns, asm.FnGetPrandomU32.Call(),
			asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.JEq), Dst: asm.R0, Offset: 1},
			asm.Add.Imm(asm.R7, 1))
	}
	insns = append(insns, asm.Add.Imm(asm.R6, 1))
	back := start - len(insns) - 1
	return append(
		insns,
		asm.Instruction{
			OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.JLT), Dst: asm.R6, Constant: int64(iterations),
			Offset: int16(back),
		},
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	)
}

// TestEstimatePending checks the limit of 8192 pending branches on a path, which does not depend on the
// number of instructions.
func TestEstimatePending(t *testing.T) {
	for _, c := range []struct {
		n, iterations int
		crowded       bool
	}{{40, 200, false}, {41, 199, false}, {41, 200, true}, {1, 8192, false}, {1, 8193, true}} {
		f := newFlow(flags(c.n, c.iterations))
		if _, crowded := f.estimate(verifierLimit); crowded != c.crowded {
			t.Errorf("%d flags in %d iterations: too many pending branches = %t, want %t", c.n, c.iterations, crowded, c.crowded)
		}
	}
}
