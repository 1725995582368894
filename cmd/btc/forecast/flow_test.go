// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// Jumps are given as distances, as in a program that is ready to be loaded.
func to(op asm.JumpOp, r asm.Register, imm int32, distance int16) asm.Instruction {
	i := op.Imm(r, imm, "x")
	i.Offset = distance
	return i.WithReference("")
}

func wide(op asm.JumpOp, a, b asm.Register, distance int16) asm.Instruction {
	i := op.Reg(a, b, "x")
	i.Offset = distance
	return i.WithReference("")
}

func TestFlow(t *testing.T) {
	for _, c := range []struct {
		name    string
		insns   asm.Instructions
		reached []int
	}{
		{"straight line", asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return(), asm.Mov.Imm(asm.R0, 1)}, []int{0, 1}},
		{"a relocated test is 0", asm.Instructions{asm.Mov.Imm(asm.R1, 0), to(asm.JEq, asm.R1, 0, 1), asm.FnGetCurrentPidTgid.Call(), asm.Return()}, []int{0, 1, 3}},
		{"a relocated test is 1", asm.Instructions{asm.Mov.Imm(asm.R1, 1), to(asm.JEq, asm.R1, 0, 1), asm.FnGetCurrentPidTgid.Call(), asm.Return()}, []int{0, 1, 2, 3}},
		{"unknown", asm.Instructions{asm.FnGetCurrentPidTgid.Call(), to(asm.JEq, asm.R0, 0, 1), asm.Mov.Imm(asm.R0, 1), asm.Return()}, []int{0, 1, 2, 3}},
		{"a call clobbers r1 to r5", asm.Instructions{asm.Mov.Imm(asm.R1, 0), asm.FnGetCurrentPidTgid.Call(), to(asm.JEq, asm.R1, 0, 1), asm.Mov.Imm(asm.R0, 1), asm.Return()}, []int{0, 1, 2, 3, 4}},
		{"a call keeps r6", asm.Instructions{asm.Mov.Imm(asm.R6, 0), asm.FnGetCurrentPidTgid.Call(), to(asm.JEq, asm.R6, 0, 1), asm.Mov.Imm(asm.R0, 1), asm.Return()}, []int{0, 1, 2, 4}},
		{"saved to the frame", asm.Instructions{
			asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R10, -8, asm.R1, asm.DWord), asm.FnGetCurrentPidTgid.Call(), asm.LoadMem(asm.R2, asm.R10, -8, asm.DWord),
			to(asm.JEq, asm.R2, 0, 1), asm.Mov.Imm(asm.R0, 1), asm.Return()}, []int{0, 1, 2, 3, 4, 6}},
		{"overwritten in the frame", asm.Instructions{
			asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R10, -8, asm.R1, asm.DWord), asm.StoreMem(asm.R10, -4, asm.R7, asm.Word), asm.LoadMem(asm.R2, asm.R10, -8, asm.DWord),
			to(asm.JEq, asm.R2, 0, 1), asm.Mov.Imm(asm.R0, 1), asm.Return()}, []int{0, 1, 2, 3, 4, 5, 6}},
		{"two paths with the same value", asm.Instructions{
			asm.Mov.Imm(asm.R6, 0), to(asm.JEq, asm.R7, 0, 1), asm.Mov.Imm(asm.R6, 0), to(asm.JEq, asm.R6, 0, 1), asm.Mov.Imm(asm.R0, 1), asm.Return()}, []int{0, 1, 2, 3, 5}},
		{"two paths with different values", asm.Instructions{
			asm.Mov.Imm(asm.R6, 0), to(asm.JEq, asm.R7, 0, 1), asm.Mov.Imm(asm.R6, 1), to(asm.JEq, asm.R6, 0, 1), asm.Mov.Imm(asm.R0, 1), asm.Return()}, []int{0, 1, 2, 3, 4, 5}},
		{"changed in a loop", asm.Instructions{
			asm.Mov.Imm(asm.R6, 0), to(asm.JEq, asm.R6, 9, 2), asm.Add.Imm(asm.R6, 1), to(asm.JNE, asm.R7, 0, -3), asm.Return()}, []int{0, 1, 2, 3, 4}},
		{"wide instructions count twice", asm.Instructions{
			asm.LoadImm(asm.R1, 1<<40, asm.DWord), to(asm.JEq, asm.R1, 0, 2), asm.LoadImm(asm.R2, 5, asm.DWord), asm.Return(), asm.FnGetCurrentPidTgid.Call()}, []int{0, 1, 2, 3}},
		{"arithmetic", asm.Instructions{
			asm.Mov.Imm(asm.R1, 6), asm.LSh.Imm(asm.R1, 2), asm.Mov.Imm(asm.R2, 24), wide(asm.JEq, asm.R1, asm.R2, 1), asm.FnGetCurrentPidTgid.Call(), asm.Return()}, []int{0, 1, 2, 3, 5}},
		{"32 bits", asm.Instructions{
			asm.Mov.Imm(asm.R1, -1), asm.Add.Imm32(asm.R1, 1), to(asm.JEq, asm.R1, 0, 1), asm.FnGetCurrentPidTgid.Call(), asm.Return()}, []int{0, 1, 2, 4}},
		{"subprograms", asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return(), asm.Mov.Imm(asm.R0, 1).WithSymbol("sub"), asm.Return()}, []int{0, 1, 2, 3}},
	} {
		f := newFlow(c.insns)
		f.run()
		var have []int
		for i := range c.insns {
			if f.reached(i) {
				have = append(have, i)
			}
		}
		if !slices.Equal(have, c.reached) {
			t.Errorf("%s: reached %v, want %v", c.name, have, c.reached)
		}
	}
}

// TestDecide checks that every comparison has the result that the CPU computes.
func TestDecide(t *testing.T) {
	const minus = -1
	for _, c := range []struct {
		op   asm.JumpOp
		a, b int32
		want bool
	}{
		{asm.JEq, 1, 1, true}, {asm.JNE, 1, 1, false}, {asm.JGT, minus, 1, true}, {asm.JGE, 1, 1, true}, {asm.JLT, minus, 1, false}, {asm.JLE, 1, 1, true},
		{asm.JSGT, minus, 1, false}, {asm.JSGE, 1, minus, true}, {asm.JSLT, minus, 1, true}, {asm.JSLE, 2, 1, false}, {asm.JSet, 6, 2, true}, {asm.JSet, 6, 1, false},
	} {
		s := &state{}
		s.reg[1] = value{known: true, v: uint64(int64(c.a))}
		ins := to(c.op, asm.R1, c.b, 0)
		if taken, decided := decide(&ins, s); !decided || taken != c.want {
			t.Errorf("%s: %v, %v, want %v", fmt.Sprint(c.op, c.a, c.b), taken, decided, c.want)
		}
		s.reg[1].known = false
		if _, decided := decide(&ins, s); decided {
			t.Errorf("%v of an unknown value decided", c.op)
		}
	}
}
