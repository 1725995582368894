// SPDX-License-Identifier: Apache-2.0

// Package rewrite changes the instructions of programs before they are loaded: it removes code that
// does not apply to this host, patches the numbers of attach points, and adds prologues. It takes
// programs from the object reader and relies on their description in the manifest (manifest.Code),
// rather than analyzing instructions. It does not talk to the kernel.
package rewrite

import (
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// putInFront inserts instructions at the start of a function. The function's name, type and first
// line move to the new start.
func putInFront(head, insns asm.Instructions) asm.Instructions {
	first := insns[0]
	head[0] = btf.WithFuncMetadata(head[0], btf.FuncMetadata(&first)).WithSymbol(first.Symbol())
	if src := first.Source(); src != nil {
		head[0] = head[0].WithSource(src)
	}
	rest := append(asm.Instructions{btf.WithFuncMetadata(first, nil).WithSymbol("")}, insns[1:]...)
	return append(head, rest...)
}
