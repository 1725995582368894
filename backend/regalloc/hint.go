// SPDX-License-Identifier: Apache-2.0

package regalloc

import "btc/backend/mach"

// hints records, while a block is walked backwards, the register in which each value is
// wanted: by the next block, a call, or the exit. Hints are never binding.
type hints struct {
	reg  []mach.Reg // by value
	list []int32
}

func newWishes(n int) hints {
	w := hints{reg: make([]mach.Reg, n)}
	for i := range w.reg {
		w.reg[i] = noReg
	}
	return w
}

func (w *hints) set(v int32, r mach.Reg) {
	if r != noReg && w.reg[v] == noReg {
		w.list = append(w.list, v)
	}
	w.reg[v] = r
}

func (a *allocator) wishesAtEnd() {
	w := &a.hint
	for _, v := range w.list {
		w.reg[v] = noReg
	}
	w.list = w.list[:0]
	t := &a.b.Term
	if t.Kind == mach.Exit {
		a.hintArg(t.Args[0], mach.R0)
	}
	if t.Kind != mach.Jump {
		return
	}
	s := &a.starts[t.Succs[0].To.Index]
	if !s.set {
		return
	}
	for r, v := range s.regs {
		if v >= 0 {
			w.set(v, mach.Reg(r))
		}
	}
	for n, o := range t.Succs[0].Args {
		p := int32(t.Succs[0].To.Params[n].Index())
		for r, v := range s.regs {
			if v == p {
				a.hintArg(o, mach.Reg(r))
			}
		}
	}
}

func (a *allocator) hintArg(o mach.Operand, r mach.Reg) {
	if o.IsVirt() {
		a.hint.set(int32(o.Reg.Index()), r)
	}
}

// hintsBefore removes and returns the hint for i's result, and adds those for i's
// arguments.
func (a *allocator) hintsBefore(i *mach.Insn) mach.Reg {
	w := &a.hint
	want := noReg
	if i.Dst.IsVirt() {
		want = w.reg[i.Dst.Index()]
		w.set(int32(i.Dst.Index()), noReg)
	}
	if i.Op.IsCall() {
		for _, v := range w.list {
			if w.reg[v] < numCaller {
				w.reg[v] = noReg
			}
		}
		for n, o := range i.Args {
			if o.IsVirt() && !a.live.crosses[o.Reg.Index()] {
				a.hintArg(o, mach.R1+mach.Reg(n))
			}
		}
		return noReg
	}
	if i.Op.Tied() {
		a.hintIfNone(i.Args[0], want)
	}
	if i.Op.Commutative() {
		a.hintIfNone(i.Args[1], want)
	}
	if i.Op == mach.Select {
		a.hintIfNone(i.Args[2], want)
		a.hintIfNone(i.Args[3], want)
	}
	return want
}

// hintIfNone passes a result's hint to an argument whose register the result may take: not
// one that lives on across calls.
func (a *allocator) hintIfNone(o mach.Operand, r mach.Reg) {
	if o.IsVirt() && a.hint.reg[o.Reg.Index()] == noReg && (r >= numCaller || !a.live.crosses[o.Reg.Index()]) {
		a.hintArg(o, r)
	}
}
