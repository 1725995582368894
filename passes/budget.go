// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"

	"btc/ir"
)

// budget refuses what no kernel would load, with a position in the script, before the
// object is written.
//
// requires:    placed slots
// establishes: each function is within the estimates below
// invalidates: nothing; it changes nothing
func checkBudget(m *ir.Module) []ir.Diag { return overBudget(m, maxInsns) }

func overBudget(m *ir.Module, most int) []ir.Diag {
	var diags []ir.Diag
	for _, f := range m.Funcs {
		if n := instructions(f); n > most {
			diags = append(diags, ir.Diag{Pos: f.Pos,
				Text: fmt.Sprintf("this probe compiles to about %d instructions, the kernel accepts at most %d", n,
					most),
				Hint: "unroll less, or split the probe"})
		}
	}
	return diags
}

// maxInsns is BPF_COMPLEXITY_LIMIT_INSNS, the maximum number of instructions of a program, and of
// instructions that the kernel verifier walks (since 5.2).
const maxInsns = 1_000_000

// instructions estimates the length of f in 8-byte slots.
func instructions(f *ir.Func) int {
	n := 0
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			n += cost(v)
		}
		n += len(b.Term.Succs) + 1
	}
	return n
}

func cost(v *ir.Value) int {
	n := 1
	for _, a := range v.Args {
		switch {
		case a.Op == ir.OpMapRef, a.Op == ir.OpConst && a.Imm != int64(int32(a.Imm)):
			n += 2 // ld_imm64
		case v.Op == ir.OpCall:
			n++
		}
	}
	switch v.Op {
	case ir.OpSelect, ir.OpBoolInt:
		n += 2
	case ir.OpGlobal, ir.OpGlobalAddr:
		n += 2
	case ir.OpSext:
		n++
	}
	return n
}
