// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
)

// Unwind is which user stacks are unwound by tables: the value of manifest.HostUnwind.
type Unwind uint64

const (
	UnwindOff    Unwind = iota
	UnwindMarked        // those of dw_ustack
	UnwindAll           // and those of ustack
)

// DropWalks removes from programs the walks that a mode has no tables for, with their functions, and returns what the others
// need. The kernel would remove the calls, but verify the functions: this takes milliseconds.
func DropWalks(all *ebpf.CollectionSpec, mode Unwind) (left Unwind) {
	for _, s := range all.Programs {
		dropped := false
		for i := range s.Instructions {
			ins, walk := &s.Instructions[i], UnwindOff
			switch {
			case !ins.IsFunctionCall():
			case strings.HasPrefix(ins.Reference(), manifest.UnwindMarked):
				walk = UnwindMarked
			case strings.HasPrefix(ins.Reference(), manifest.UnwindAny):
				walk = UnwindAll
			}
			if walk <= mode {
				left = max(left, walk)
				continue
			}
			dropped = true
			*ins = ins.WithReference("") // the helper finds the stack
			ins.OpCode, ins.Dst, ins.Src, ins.Constant = asm.Mov.Op(asm.ImmSource), asm.R0, 0, -1
		}
		if dropped {
			s.Instructions = DropUncalled(s.Instructions)
		}
	}
	return left
}
