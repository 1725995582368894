// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
)

// TestNarrow checks that loads of a result are followed by an extension with the kernel's sign, and that jumps and the
// manifest's indices are moved.
func TestNarrow(t *testing.T) {
	for bits, want := range map[int]asm.ALUOp{-32: asm.ArSh, 32: asm.RSh} {
		insns := asm.Instructions{
			{OpCode: asm.JEq.Op(asm.ImmSource), Dst: asm.R1, Offset: 3},
			asm.LoadMem(asm.R7, asm.R1, 16, asm.DWord),
			asm.Mov.Imm(asm.R1, 9),
			{OpCode: asm.Ja.Op(asm.ImmSource), Offset: -4},
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		}
		insns[0] = insns[0].WithSymbol("f")
		m := &manifest.Manifest{
			Programs: []manifest.Program{{Name: "f", IDInsns: []int{2}, Code: &manifest.Code{Result: []int{1}, Forms: []manifest.Form{{Insn: 4}, {Function: "g", Insn: 4}}}}},
			Fields:   []manifest.FieldUse{{Program: "f", Insn: 4}},
		}
		p := &m.Programs[0]
		out := Narrow(m, p, insns, bits)
		if len(out) != 8 || out[2].OpCode.ALUOp() != asm.LSh || out[3].OpCode.ALUOp() != want || out[3].Dst != asm.R7 || out[3].Constant != 32 {
			t.Fatalf("%d bits: %v", bits, out)
		}
		if out[0].Offset != 5 || out[5].Offset != -6 || out[0].Symbol() != "f" {
			t.Errorf("jumps: %v", out)
		}
		if !slices.Equal(p.IDInsns, []int{4}) || !slices.Equal(p.Code.Result, []int{1}) || p.Code.Forms[0].Insn != 6 || p.Code.Forms[1].Insn != 4 || m.Fields[0].Insn != 6 {
			t.Errorf("indices: %+v", m)
		}
	}
}
