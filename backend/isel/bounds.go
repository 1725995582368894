package isel

import "btc/backend/mach"

// boundSet collects the registers that a branch bounds and those that an
// address or a helper's length uses; who is in both is mach.Func.Bounded.
type boundSet struct {
	comparedWith, usedAs map[mach.Reg]bool
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

func (s *boundSet) result(n int) []bool {
	list := make([]bool, n)
	for r := range s.comparedWith {
		list[r.Index()] = s.usedAs[r]
	}
	return list
}
