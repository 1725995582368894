// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"slices"

	"btc/backend/mach"
)

// plain allocates an instruction whose result may be in any register.
func (a *allocator) plain(i *mach.Insn, want mach.Reg) {
	n := *i
	n.Args = slices.Clone(i.Args)
	n.From = i
	var pinned regSet
	for k, o := range i.Args {
		n.Args[k] = a.ensure(o, &pinned)
	}
	a.popUses(i.Args)
	a.freeDead(i.Args)
	if i.Dst.IsVirt() {
		n.Dst = a.take(int32(i.Dst.Index()), want, a.held(i.Args))
	}
	a.emit(n)
	a.define(i.Dst, n.Dst)
}

// held returns the registers of those args that live on: they must not be evicted between their
// reload and the instruction.
func (a *allocator) held(args []mach.Operand) (s regSet) {
	a.pinHeld(args, &s)
	return s
}

// tied allocates arithmetic: the result takes the first operand's register, or
// a copy of it where it lives on.
func (a *allocator) tied(i *mach.Insn, want mach.Reg) {
	n := *i
	n.Args = slices.Clone(i.Args)
	n.From = i
	var pinned regSet
	x, y := i.Args[0], mach.Operand{}
	a.pinHeld(i.Args[:1], &pinned)
	if len(i.Args) > 1 {
		y = i.Args[1]
		n.Args[1] = a.ensure(y, &pinned)
	}
	a.popUses(i.Args)
	// BPF's arithmetic has two operands: dst is also the first source. What is in it is lost.
	if i.Op.Commutative() && y.IsVirt() && a.betterFirst(x, y, want) {
		x, y = y, x
		n.Args[1] = mach.RegOp(a.vals[y.Reg.Index()].reg)
	}
	// x's register is taken over where x dies here; else the result gets a register of its own, into which x is moved, or
	// loaded if it is spilled.
	xv := int32(x.Reg.Index())
	dst := a.vals[xv].reg
	if dst == noReg || !a.dead(xv) {
		avoid := pinned
		src := dst
		dst = a.take(int32(i.Dst.Index()), want, avoid)
		if src == noReg {
			a.emitReload(dst, xv)
		} else {
			a.emitMove(dst, mach.RegOp(src))
		}
	}
	a.freeDead(i.Args)
	n.Dst, n.Args[0] = dst, mach.RegOp(dst)
	a.emit(n)
	a.define(i.Dst, dst)
}

// betterFirst reports whether y should be overwritten instead of x: because it dies and x
// does not, or because it is in the register that is hinted for the result.
func (a *allocator) betterFirst(x, y mach.Operand, want mach.Reg) bool {
	xr, yr := a.vals[x.Reg.Index()].reg, a.vals[y.Reg.Index()].reg
	if xr == noReg || !a.dead(int32(y.Reg.Index())) {
		return false
	}
	return !a.dead(int32(x.Reg.Index())) || yr == want && xr != want
}

// selectInsn allocates "a Cond b ? c : e": the result takes c's register, and a
// branch skips the move of e into it. Where c is the compared value, the
// register that stays is the one compared, so that the kernel learns its bound.
func (a *allocator) selectInsn(i *mach.Insn, want mach.Reg) {
	var pinned regSet
	n := *i
	n.Args = slices.Clone(i.Args)
	n.From = i
	for k, o := range i.Args {
		n.Args[k] = a.ensure(o, &pinned)
	}
	a.popUses(i.Args)
	dies := func(k int) bool { return i.Args[k].IsVirt() && a.dead(int32(i.Args[k].Reg.Index())) }
	// The value that is kept should be one that dies in a register, so that nothing has to be moved into place: exchange
	// the two, and the condition, if that is the other one.
	c, e := 2, 3
	if (i.Args[e].IsReg() && !i.Args[c].IsReg()) || (i.Args[c].IsReg() && !dies(c) && dies(e)) {
		c, e = e, c
		n.Cond = n.Cond.Negate()
	}
	kept, other := n.Args[c], n.Args[e]
	dst := kept.Reg
	if !dies(c) {
		dst = a.take(int32(i.Dst.Index()), want, pinned)
		a.emitMove(dst, kept)
	}
	a.freeDead(i.Args)
	// The branch narrows the range of the registers that it compares (reg_set_min_max in kernel/bpf/verifier.c), and that of
	// their copies only if these were moved as 64 bits (find_equal_scalars): so it compares dst, the value from here on.
	for k := range 2 {
		if i.Args[k].IsReg() && i.Args[k] == i.Args[c] {
			n.Args[k] = mach.RegOp(dst)
		}
	}
	n.Dst, n.Args[2], n.Args[3] = dst, mach.RegOp(dst), other
	a.emit(n)
	a.define(i.Dst, dst)
}

// call allocates a call: it moves arguments to r1 to r5 and live values out of r0 to r5,
// all in one parallel move.
func (a *allocator) call(i *mach.Insn) {
	m := newMover(a)
	for k, o := range i.Args {
		m.add(mach.R1+mach.Reg(k), a.source(o))
	}
	a.popUses(i.Args)
	a.freeDead(i.Args)
	// After a call r1 to r5 cannot be read and r0 is the result (caller_saved in kernel/bpf/verifier.c; the JIT does not
	// save them). What lives on goes to r6 to r9, the values used first before the others, or to the frame.
	var staying []mach.Reg
	for r := range mach.Reg(numCaller) {
		if a.regs[r] >= 0 {
			staying = append(staying, r)
		}
	}
	slices.SortFunc(staying, func(x, y mach.Reg) int { return int(a.nextUse(a.regs[x]) - a.nextUse(a.regs[y])) })
	var taken regSet
	for _, r := range staying {
		to := a.shelter(r, taken)
		if to == noReg {
			a.evict(r)
			continue
		}
		taken.add(to)
		v := a.regs[r]
		m.add(to, source{op: mach.RegOp(r)})
		a.regs[r], a.regs[to] = -1, v
		a.vals[v].reg = to
	}
	m.emit() // r0 is not a destination, so that it is free for a cycle
	n := *i
	n.From = i
	n.Args = nil
	for k := range i.Args {
		n.Args = append(n.Args, mach.RegOp(mach.R1+mach.Reg(k)))
	}
	n.Dst = mach.R0
	a.emit(n)
	a.define(i.Dst, mach.R0)
}

// shelter finds a callee-saved register for the value in r, which lives across a call. A
// value with a much farther next use is evicted.
func (a *allocator) shelter(r mach.Reg, taken regSet) mach.Reg {
	worst := noReg
	for _, to := range longOrder[:numRegs-numCaller] {
		if taken.has(to) {
			continue
		}
		if a.regs[to] < 0 {
			return to
		}
		if worst == noReg || a.nextUse(a.regs[to]) > a.nextUse(a.regs[worst]) {
			worst = to
		}
	}
	if worst == noReg || a.nextUse(a.regs[worst]) < 2*a.nextUse(a.regs[r])+8 {
		return noReg
	}
	a.evict(worst)
	return worst
}

// terminator allocates the block's terminator.
func (a *allocator) terminator() {
	t := &a.b.Term
	switch t.Kind {
	case mach.Exit: // the kernel reads the result from r0
		m := newMover(a)
		m.add(mach.R0, a.source(t.Args[0]))
		m.emit()
		t.Args = []mach.Operand{mach.RegOp(mach.R0)}
	case mach.Br:
		var pinned regSet
		args := slices.Clone(t.Args)
		for k, o := range t.Args {
			args[k] = a.ensure(o, &pinned)
		}
		a.popUses(t.Args)
		a.freeDead(t.Args)
		t.Args = args
		for _, e := range t.Succs { // their targets have one predecessor each: critical edges are split
			a.passOn(e.To)
		}
	case mach.Jump:
		to := t.Succs[0].To
		if len(to.Preds) == 1 && len(to.Params) == 0 {
			a.passOn(to)
			return
		}
		// The first jump to a join decides where its live values are; later ones move theirs there.
		if !a.starts[to.Index].set {
			a.chooseStart(t.Succs[0])
		}
		a.matchStart(t.Succs[0])
	default:
		panic("BUG: " + a.f.Name + ": block without a terminator")
	}
}

// passOn makes the current state the start of the only successor of this edge.
func (a *allocator) passOn(to *mach.Block) {
	s := &a.starts[to.Index]
	s.reset()
	for _, lv := range a.live.in[to.Index] {
		if r := a.vals[lv.v].reg; r != noReg {
			s.regs[r] = lv.v
		}
	}
}
