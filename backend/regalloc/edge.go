// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"slices"

	"btc/backend/mach"
)

// chooseStart decides the register contents at the start of a block with several
// predecessors: the current ones, at the end of the first predecessor. Before a loop with
// calls, values that live around it move to callee-saved registers.
func (a *allocator) chooseStart(e mach.Edge) {
	s := &a.starts[e.To.Index]
	s.reset()
	dist := map[int32]int32{}
	for _, lv := range a.live.in[e.To.Index] {
		dist[lv.v] = lv.dist
		if r := a.vals[lv.v].reg; r != noReg {
			s.regs[r] = lv.v
		}
	}
	if e.To.LoopCall {
		clearCallerSaved(s)
	}
	byUse := a.paramsByUse(e.To)
	for _, n := range byUse { // parameters whose argument dies here keep its register
		p, arg := int32(e.To.Params[n].Index()), e.Args[n]
		if r := a.source(arg).op; r.IsReg() && s.regs[r.Reg] < 0 && !(e.To.LoopCall && r.Reg < numCaller) {
			s.regs[r.Reg] = p
			dist[p] = a.live.params[e.To.Index][n]
		}
	}
	for _, n := range byUse {
		p := int32(e.To.Params[n].Index())
		if slices.Contains(s.regs[:], p) {
			continue
		}
		dist[p] = a.live.params[e.To.Index][n]
		order := a.order(p)
		if e.To.LoopCall {
			order = &longOrder
		}
		placeParam(s, p, dist, order)
	}
}

// paramsByUse lists the indices of the parameters that are read, nearest use first.
func (a *allocator) paramsByUse(b *mach.Block) []int {
	var order []int
	dist := a.live.params[b.Index]
	for n := range b.Params {
		if dist[n] >= 0 {
			order = append(order, n)
		}
	}
	slices.SortFunc(order, func(x, y int) int { return int(dist[x] - dist[y]) })
	return order
}

// placeParam assigns p the first free register of order, or that of the value with the farthest
// next use, or none.
func placeParam(s *startState, p int32, dist map[int32]int32, order *[numRegs]mach.Reg) {
	worst := noReg
	for _, r := range order {
		if s.regs[r] < 0 {
			s.regs[r] = p
			return
		}
		if worst == noReg || dist[s.regs[r]] > dist[s.regs[worst]] {
			worst = r
		}
	}
	if dist[s.regs[worst]] > dist[p] {
		s.regs[worst] = p
	}
}

// clearCallerSaved moves the values in r0 to r5 to free callee-saved registers; those that
// find none will be in their slots.
func clearCallerSaved(s *startState) {
	for r := range numCaller {
		v := s.regs[r]
		if v < 0 {
			continue
		}
		s.regs[r] = -1
		for _, to := range longOrder[:numRegs-numCaller] {
			if s.regs[to] < 0 {
				s.regs[to] = v
				break
			}
		}
	}
}

// matchStart emits the moves that bring every value to where e's block expects it.
func (a *allocator) matchStart(e mach.Edge) {
	s := &a.starts[e.To.Index]
	argOf := map[int32]mach.Operand{}
	for n, p := range e.To.Params {
		if a.live.params[e.To.Index][n] >= 0 {
			argOf[int32(p.Index())] = e.Args[n]
		}
	}
	m := newMover(a)
	for r, v := range s.regs {
		if v < 0 {
			continue
		}
		arg, isParam := argOf[v]
		if !isParam {
			arg = mach.RegOp(mach.Virt(int(v)))
		}
		m.add(mach.Reg(r), a.source(arg))
	}
	for n, p := range e.To.Params {
		if v := int32(p.Index()); a.live.params[e.To.Index][n] >= 0 && !slices.Contains(s.regs[:], v) {
			m.addSlot(int(v), a.source(e.Args[n]))
		}
	}
	for _, lv := range a.live.in[e.To.Index] {
		if r := a.vals[lv.v].reg; r != noReg && !slices.Contains(s.regs[:], lv.v) {
			a.vals[lv.v].spilled = true
			a.vals[lv.v].left = append(a.vals[lv.v].left, point{a.b, len(a.out), r})
		}
	}
	m.emit()
}
