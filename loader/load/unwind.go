// SPDX-License-Identifier: Apache-2.0

package load

import (
	"btc/loader/object"
)

// Unwind is which user stacks are unwound by tables: the value of manifest.HostUnwind.
type Unwind uint64

const (
	UnwindOff    Unwind = iota
	UnwindMarked        // those of dw_ustack
	UnwindAll
)

// Maps that programs unwind stacks with, by their names in a manifest.
const (
	UnwindTables = "unwind_tables"
	UnwindProcs  = "unwind_procs"
	UnwindRanges = "unwind_ranges"
	UnwindAsked  = "unwind_asked"
	UnwindStats  = "unwind_stats"
)

// InnerMap lets an array of another size than the declared one be an element of UnwindTables (BPF_F_INNER_MAP).
const InnerMap = 1 << 12

// sizeUnwind sets the sizes of these maps. Objects have them with one element, which is all that they take if nothing is
// unwound.
func sizeUnwind(o *object.Object, mode Unwind) {
	if mode == UnwindOff {
		return
	}
	for name, n := range map[string]uint32{UnwindTables: 4096, UnwindProcs: 8192, UnwindRanges: 1 << 16, UnwindAsked: 8192} {
		if s := o.Spec.Maps[o.Manifest.MapSymbol(name)]; s != nil {
			s.MaxEntries = n
		}
	}
}
