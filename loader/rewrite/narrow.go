// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"slices"

	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
)

// Narrow makes a program extend the result of 64 bits that it loads from 32 bits, negative for signed ones: the upper
// half of a register that holds an int is undefined. It updates the manifest's indices.
func Narrow(m *manifest.Manifest, p *manifest.Program, insns asm.Instructions, bits int) asm.Instructions {
	c, ok := newCode(insns)
	if !ok || p.Code == nil {
		return insns
	}
	c.extend = map[int]asm.Instructions{}
	for i := range c.next {
		if ins := &insns[i]; slices.Contains(p.Code.Result, c.raw[i]) && ins.OpCode.Class() == asm.LdXClass {
			right := asm.RSh
			if bits < 0 {
				right = asm.ArSh
			}
			c.extend[i] = asm.Instructions{asm.LSh.Imm(ins.Dst, 32), right.Imm(ins.Dst, 32)}
		}
	}
	out, at := c.compact()
	left := slices.Clone(p.Code.Forms)
	for i := range left {
		if f := &left[i]; f.Function == "" && f.Insn < len(at) {
			f.Insn = at[f.Insn]
		}
	}
	Renumber(m, p.Name, at, left)
	return out
}
