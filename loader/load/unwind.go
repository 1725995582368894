// SPDX-License-Identifier: Apache-2.0

package load

import (
	"os"
	"strings"

	"github.com/cilium/ebpf/asm"

	"btc/internal/manifest"
	"btc/loader/object"
	"btc/loader/rewrite"
)

// Unwind is which user stacks are unwound by tables: the value of manifest.HostUnwind.
type Unwind uint64

const (
	UnwindOff    Unwind = iota
	UnwindMarked        // those of dw_ustack
	UnwindAll           // and those of ustack
)

// unwindOf returns the least mode in which an instruction calls a function that walks a stack; UnwindOff: it calls none.
func unwindOf(ins *asm.Instruction) Unwind {
	switch to := ins.Reference(); {
	case !ins.IsFunctionCall():
	case strings.HasPrefix(to, manifest.UnwindMarked):
		return UnwindMarked
	case strings.HasPrefix(to, manifest.UnwindAny):
		return UnwindAll
	}
	return UnwindOff
}

// Walks returns which stacks the programs of an object can walk by tables.
func Walks(o *object.Object) (marked, others bool) {
	for _, s := range o.Spec.Programs {
		for i := range s.Instructions {
			switch unwindOf(&s.Instructions[i]) {
			case UnwindMarked:
				marked = true
			case UnwindAll:
				others = true
			}
		}
	}
	return marked, others
}

// DropWalks removes from programs the walks that a mode has no tables for, with their functions. The kernel would remove
// the calls, but verify the functions: this takes milliseconds.
func DropWalks(o *object.Object, mode Unwind) {
	for _, s := range o.Spec.Programs {
		dropped := false
		for i := range s.Instructions {
			ins := &s.Instructions[i]
			if walk := unwindOf(ins); walk == UnwindOff || walk <= mode {
				continue
			}
			dropped = true
			*ins = asm.Mov.Imm(asm.R0, -1).WithSymbol(ins.Symbol()).WithSource(ins.Source()) // the helper finds the stack
		}
		if dropped {
			s.Instructions = rewrite.DropUncalled(s.Instructions)
		}
	}
}

// Maps that programs unwind stacks with, by their names in a manifest.
const (
	UnwindTables = "unwind_tables"
	UnwindProcs  = "unwind_procs"
	UnwindRanges = "unwind_ranges"
	UnwindAsked  = "unwind_asked"
	UnwindStats  = "unwind_stats"
	UnwindRaw    = "unwind_raw"
	UnwindBudget = "unwind_budget"
	unwindState  = "unwind_state"
)

// rawRing is the size of the ring buffer of raw stacks: of 97.
const rawRing = 2 << 20

// InnerMap lets an array of another size than the declared one be an element of UnwindTables (BPF_F_INNER_MAP).
const InnerMap = 1 << 12

// sizeUnwind sets the sizes of these maps. Objects have them with one element, which is all that they take if nothing is
// unwound. raw means that there are raw stacks.
func sizeUnwind(o *object.Object, mode Unwind, raw bool) {
	sizes := map[string]uint32{UnwindRaw: uint32(os.Getpagesize())}
	if mode != UnwindOff {
		sizes = map[string]uint32{UnwindTables: 4096, UnwindProcs: 8192, UnwindRanges: 1 << 16, UnwindAsked: 8192, UnwindRaw: sizes[UnwindRaw], unwindState: manifest.UnwindStates}
		if raw {
			sizes[UnwindRaw] = rawRing
		}
	}
	for name, n := range sizes {
		if s := o.Spec.Maps[o.Manifest.MapSymbol(name)]; s != nil {
			s.MaxEntries = n
		}
	}
}
