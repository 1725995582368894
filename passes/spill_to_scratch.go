// SPDX-License-Identifier: Apache-2.0

package passes

import "btc/ir"

// spill-to-scratch spills long strings and other large objects from the stack frame to per-CPU
// scratch memory, before their accesses are lowered.
//
// requires:    high IR
// establishes: slots above 64 bytes that are not keys have the class Scratch
// invalidates: nothing
//
//	slot s0 "str" 100 align 8
//	->
//	slot s0 "str" 100 align 8 scratch 0
//
// Programs do not write the bytes after the end of a long string (keys are written as a
// whole). The kernel allows reading such bytes in scratch, but not on the frame.
func spillToScratch(m *ir.Module) []ir.Diag {
	for _, f := range m.Funcs {
		keys := keySlots(f)
		for _, s := range f.Slots {
			if s.Class == ir.Unplaced && s.Size > largestString && !keys[s] {
				s.Class = ir.Scratch
			}
		}
	}
	return nil
}

// largestString is the size of the longest string on the frame; frontend/irgen
// clears strings up to that size as a whole.
const largestString = 64

// keySlots finds the slots that are used as keys of maps.
func keySlots(f *ir.Func) map[*ir.Slot]bool {
	keys := map[*ir.Slot]bool{}
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			kinds := v.Op.Info().Args
			for j, a := range v.Args {
				if j < len(kinds) && kinds[j] == ir.KeyArg && a.Op == ir.OpSlotAddr {
					keys[a.Slot] = true
				}
			}
		}
	}
	return keys
}
