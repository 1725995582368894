// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// Join returns a program that calls several programs, one after the other, with its own context, and returns 0.
// Each becomes a static function (their subprograms stay what they are), so that its exits end only itself, and the kernel checks it where it is called,
// with the type of the context. Names of functions get the number of the program, because programs may have
// functions of the same name.
func Join(all []asm.Instructions) asm.Instructions {
	first := all[0][0]
	main := asm.Instructions{mov(asm.R6, asm.R1).instruction()}
	main[0] = btf.WithFuncMetadata(main[0], btf.FuncMetadata(&first)).WithSymbol(first.Symbol())
	if src := first.Source(); src != nil {
		main[0] = main[0].WithSource(src)
	}
	var functions asm.Instructions
	for n, insns := range all {
		rename := func(name string) string { return fmt.Sprintf("%s.%d", name, n) }
		if n > 0 {
			main = append(main, mov(asm.R1, asm.R6).instruction())
		}
		main = append(main, asm.Call.Label(rename(insns[0].Symbol())))
		for _, ins := range insns {
			if name := ins.Symbol(); name != "" {
				ins = ins.WithSymbol(rename(name))
			}
			if ins.IsFunctionReference() {
				ins = ins.WithReference(rename(ins.Reference()))
			}
			if f := btf.FuncMetadata(&ins); f != nil {
				renamed := *f
				if renamed.Name = ins.Symbol(); ins.Symbol() == rename(insns[0].Symbol()) {
					renamed.Linkage = btf.StaticFunc
				}
				ins = btf.WithFuncMetadata(ins, &renamed)
			}
			functions = append(functions, ins)
		}
	}
	return append(append(main, movImm(asm.R0, 0).instruction(), exit().instruction()), functions...)
}
