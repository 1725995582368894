// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"btc/backend/mach"
)

// Next uses are counted in instructions. An edge costs more than its length if it is
// unlikely to be taken, so that values needed only after it are evicted first.
const (
	edgeCost = 1
	exitCost = 64  // the edge leaves a loop
	coldCost = 512 // the edge leads to a cold block
)

// liveVal is a value live at the start of a block and the distance to its next use.
type liveVal struct{ v, dist int32 }

// distSet is a set of values with distances that is cheap to clear.
type distSet struct {
	at   []int32 // position in list plus 1, by value
	list []liveVal
}

func newDistSet(n int) *distSet { return &distSet{at: make([]int32, n)} }

func (s *distSet) clear() {
	for _, lv := range s.list {
		s.at[lv.v] = 0
	}
	s.list = s.list[:0]
}

// lower adds v or lowers its distance.
func (s *distSet) lower(v, dist int32) {
	if n := s.at[v]; n > 0 {
		s.list[n-1].dist = min(s.list[n-1].dist, dist)
		return
	}
	s.set(v, dist)
}

func (s *distSet) set(v, dist int32) {
	if n := s.at[v]; n > 0 {
		s.list[n-1].dist = dist
		return
	}
	s.list = append(s.list, liveVal{v, dist})
	s.at[v] = int32(len(s.list))
}

// remove drops v and returns its distance, or -1 when it was absent.
func (s *distSet) remove(v int32) int32 {
	n := s.at[v]
	if n == 0 {
		return -1
	}
	dist := s.list[n-1].dist
	last := s.list[len(s.list)-1]
	s.list[n-1] = last
	s.at[last.v] = n
	s.list = s.list[:len(s.list)-1]
	s.at[v] = 0
	return dist
}

// liveness is what is live at the start of each block, by Block.Index.
type liveness struct {
	in     [][]liveVal
	params [][]int32 // distance to the first use of each parameter, -1 if there is none
	// crosses reports, for each value, whether it, or a value that it becomes, lives across
	// a call that is not cold.
	crosses []bool
}

func computeLiveness(f *mach.Func) *liveness {
	l := &liveness{
		in:      make([][]liveVal, len(f.Blocks)),
		params:  make([][]int32, len(f.Blocks)),
		crosses: make([]bool, f.NVirt),
	}
	for _, b := range f.Blocks {
		l.params[b.Index] = make([]int32, len(b.Params))
		for n := range b.Params {
			l.params[b.Index][n] = -1
		}
	}
	set := newDistSet(f.NVirt)
	for changed := true; changed; {
		changed = false
		for n := len(f.Blocks) - 1; n >= 0; n-- {
			if l.block(f.Blocks[n], set) {
				changed = true
			}
		}
	}
	l.spread(f)
	return l
}

// spread propagates the hint for callee-saved registers backwards: a value that becomes one
// that lives across calls is in such a register from its definition on. Otherwise it would
// be moved there on each path.
func (l *liveness) spread(f *mach.Func) {
	for changed := true; changed; {
		changed = false
		becomes := func(a mach.Operand, v mach.Reg) {
			if a.IsVirt() && l.crosses[v.Index()] && !l.crosses[a.Reg.Index()] {
				l.crosses[a.Reg.Index()] = true
				changed = true
			}
		}
		for n := len(f.Blocks) - 1; n >= 0; n-- {
			b := f.Blocks[n]
			for _, e := range b.Term.Succs {
				for i, a := range e.Args {
					becomes(a, e.To.Params[i])
				}
			}
			for n := len(b.Insns) - 1; n >= 0; n-- {
				if i := &b.Insns[n]; i.Op.Tied() && i.Dst.IsVirt() {
					becomes(i.Args[0], i.Dst)
				}
			}
		}
	}
}

// out fills set with what is live at the end of b; distances count from there.
func (l *liveness) out(b *mach.Block, set *distSet) {
	set.clear()
	for _, e := range b.Term.Succs {
		cost := int32(edgeCost)
		if e.To.Cold && !b.Cold {
			cost = coldCost
		} else if e.To.Depth < b.Depth {
			cost = exitCost
		}
		for _, lv := range l.in[e.To.Index] {
			set.lower(lv.v, lv.dist+cost)
		}
		for n, a := range e.Args {
			if a.IsVirt() && l.params[e.To.Index][n] >= 0 {
				set.lower(int32(a.Reg.Index()), 0)
			}
		}
	}
}

// block computes what is live at the start of b and reports whether the set grew.
func (l *liveness) block(b *mach.Block, set *distSet) bool {
	l.out(b, set)
	end := int32(len(b.Insns))
	for n := range set.list {
		set.list[n].dist += end + 1
	}
	for _, a := range b.Term.Args {
		if a.IsVirt() {
			set.set(int32(a.Reg.Index()), end)
		}
	}
	for pos := end - 1; pos >= 0; pos-- {
		i := &b.Insns[pos]
		if i.Dst.IsVirt() {
			set.remove(int32(i.Dst.Index()))
		}
		if i.Op.IsCall() && !b.Cold {
			for _, lv := range set.list {
				l.crosses[lv.v] = true
			}
		}
		for _, a := range i.Args {
			if a.IsVirt() {
				set.set(int32(a.Reg.Index()), pos)
			}
		}
	}
	grew := false
	for n, p := range b.Params {
		d := set.remove(int32(p.Index()))
		grew = grew || (d >= 0) != (l.params[b.Index][n] >= 0)
		l.params[b.Index][n] = d
	}
	grew = grew || len(set.list) != len(l.in[b.Index])
	l.in[b.Index] = append(l.in[b.Index][:0], set.list...)
	return grew
}
