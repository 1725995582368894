// Package rewrite changes the instructions of programs before they are loaded: it takes out what
// does not apply to this host, writes the numbers of attach points, and puts prologues in front.
//
// It takes programs as the reader of objects gives them, and goes by what the manifest says of them
// (manifest.Code): it recognises no instructions. It does not talk to the kernel.
package rewrite

import (
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// putInFront puts instructions before a function's first. The function's name,
// type and first line move to its new beginning.
func putInFront(head, insns asm.Instructions) asm.Instructions {
	first := insns[0]
	head[0] = btf.WithFuncMetadata(head[0], btf.FuncMetadata(&first)).WithSymbol(first.Symbol())
	if src := first.Source(); src != nil {
		head[0] = head[0].WithSource(src)
	}
	rest := append(asm.Instructions{btf.WithFuncMetadata(first, nil).WithSymbol("")}, insns[1:]...)
	return append(head, rest...)
}
