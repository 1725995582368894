// SPDX-License-Identifier: Apache-2.0

package load

import (
	"os"

	"btc/internal/manifest"
	"btc/loader/object"
	"btc/loader/rewrite"
)

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
func sizeUnwind(o *object.Object, mode rewrite.Unwind, raw bool) {
	sizes := map[string]uint32{UnwindRaw: uint32(os.Getpagesize())}
	if mode != rewrite.UnwindOff {
		sizes = map[string]uint32{UnwindTables: 4096, UnwindProcs: 8192, UnwindRanges: 1 << 16, UnwindAsked: 2048, UnwindRaw: sizes[UnwindRaw], unwindState: manifest.UnwindStates}
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
