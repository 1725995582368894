// SPDX-License-Identifier: Apache-2.0

package isel

import "btc/backend/mach"

// boundSet collects the registers that a branch bounds and those that are used in an
// address or as a helper's length; registers in both sets are mach.Func.Bounded. So are
// those used in an address that their own definition bounds.
type boundSet struct {
	comparedWith, usedAs map[mach.Reg]bool
	added                []mach.Reg
}

func (s *boundSet) compared(o mach.Operand) {
	if s.comparedWith == nil {
		s.comparedWith = map[mach.Reg]bool{}
	}
	if o.IsVirt() {
		s.comparedWith[o.Reg] = true
	}
}

func (s *boundSet) used(o mach.Operand) {
	if s.usedAs == nil {
		s.usedAs = map[mach.Reg]bool{}
	}
	if o.IsVirt() {
		s.usedAs[o.Reg] = true
	}
}

// addend records that o is added to an address.
func (s *boundSet) addend(o mach.Operand) {
	if o.IsVirt() {
		s.added = append(s.added, o.Reg)
	}
}

func (s *boundSet) result(n int) []bool {
	list := make([]bool, n)
	for r := range s.comparedWith {
		list[r.Index()] = s.usedAs[r]
	}
	for _, r := range s.added {
		list[r.Index()] = true
	}
	return list
}
