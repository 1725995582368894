package isel

import "btc/backend/mach"

// boundSet collects the registers that a branch bounds and those that an
// address or a helper's length uses; who is in both is mach.Func.Bounded. So is
// what an address takes that its own definition bounds.
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

// addend notes that o is added to an address.
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
