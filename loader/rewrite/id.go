// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
)

// A link with many attach sites can assign a cookie to each of them, which programs can read
// (kprobe.multi 5.18, uprobe.multi 6.6). The cookie is the number of the attach point. So one
// program can run at all sites of a pattern even if it needs that number, for the builtin probe or
// for the argument locations of a usdt probe.

// IDFromCookie makes a program read the attach point's number from its link and store it in the
// stack frame, below the part in use.
func IDFromCookie(spec *ebpf.ProgramSpec, mp *manifest.Program) error {
	body := spec.Instructions
	at, err := belowFrame(mp, 8)
	if err != nil {
		return err
	}
	if err := idFromFrame(body, mp, at); err != nil {
		return err
	}
	var p prologue
	p.emit(mov(asm.R6, asm.R1), callHelper(asm.FnGetAttachCookie), store(asm.RFP, at, asm.R0, asm.DWord), mov(asm.R1, asm.R6))
	spec.Instructions = putInFront(p.insns, body)
	return nil
}

// belowFrame returns the offset from the top of the frame of size bytes below the part that the
// main function uses.
func belowFrame(mp *manifest.Program, size int) (int16, error) {
	if mp.Code == nil {
		return 0, fmt.Errorf("program %s has no frame size: it was made by an older btc", mp.Name)
	}
	at := (mp.Code.Frame+7)&^7 + size
	if at > manifest.MaxFrame {
		return 0, fmt.Errorf("no room in the frame of %s", mp.Name)
	}
	return int16(-at), nil
}

// PatchID writes an attach point's number into the marked instructions.
func PatchID(insns asm.Instructions, mp *manifest.Program, id int) error {
	return eachID(insns, mp, func(ins *asm.Instruction) { ins.Constant = int64(id) })
}

// eachID visits the marked instructions, which load the attach point's number into a register.
// Indices count as the kernel does: a 64-bit immediate is two instructions.
func eachID(insns asm.Instructions, mp *manifest.Program, change func(*asm.Instruction)) error {
	marked := map[int]bool{}
	for _, i := range mp.IDInsns {
		marked[i] = true
	}
	raw, done := 0, 0
	for i := range insns {
		size := int(insns[i].Size()) / asm.InstructionSize
		if marked[raw] {
			if op := insns[i].OpCode; op.Class() != asm.ALUClass && op.Class() != asm.ALU64Class ||
				op.ALUOp() != asm.Mov ||
				op.Source() != asm.ImmSource {
				return fmt.Errorf("program %s: instruction %d does not load an attach point number", mp.Name, raw)
			}
			change(&insns[i])
			done++
		}
		raw += size
	}
	if done != len(marked) {
		return fmt.Errorf("program %s has no instruction for its attach point number", mp.Name)
	}
	return nil
}

// idFromFrame makes the marked instructions load the attach point's number from
// the frame.
func idFromFrame(insns asm.Instructions, mp *manifest.Program, at int16) error {
	return eachID(insns, mp, func(ins *asm.Instruction) {
		of := load(ins.Dst, asm.RFP, at, asm.DWord).instruction()
		ins.OpCode, ins.Src, ins.Offset, ins.Constant = of.OpCode, of.Src, of.Offset, 0
	})
}
