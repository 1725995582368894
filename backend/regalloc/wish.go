package regalloc

import "btc/backend/mach"

// wishes says, while a block is walked from its end, in which register each
// value would be of use: at the next block, at a call, at the exit. It is a
// hint only.
type wishes struct {
	reg  []mach.Reg // by value
	list []int32
}

func newWishes(n int) wishes {
	w := wishes{reg: make([]mach.Reg, n)}
	for i := range w.reg {
		w.reg[i] = noReg
	}
	return w
}

func (w *wishes) set(v int32, r mach.Reg) {
	if r != noReg && w.reg[v] == noReg {
		w.list = append(w.list, v)
	}
	w.reg[v] = r
}

func (a *allocator) wishesAtEnd() {
	w := &a.wish
	for _, v := range w.list {
		w.reg[v] = noReg
	}
	w.list = w.list[:0]
	t := &a.b.Term
	if t.Kind == mach.Exit {
		a.wishArg(t.Args[0], mach.R0)
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
				a.wishArg(o, mach.Reg(r))
			}
		}
	}
}

func (a *allocator) wishArg(o mach.Operand, r mach.Reg) {
	if o.IsVirt() {
		a.wish.set(int32(o.Reg.Index()), r)
	}
}

// wishesBefore takes back the wish for i's result, gives it, and adds those for
// i's arguments.
func (a *allocator) wishesBefore(i *mach.Insn) mach.Reg {
	w := &a.wish
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
				a.wishArg(o, mach.R1+mach.Reg(n))
			}
		}
		return noReg
	}
	if i.Op.Tied() {
		a.wishIfNone(i.Args[0], want)
	}
	if i.Op.Commutative() {
		a.wishIfNone(i.Args[1], want)
	}
	if i.Op == mach.Select {
		a.wishIfNone(i.Args[2], want)
		a.wishIfNone(i.Args[3], want)
	}
	return want
}

// wishIfNone passes a result's wish to an argument that the result may take the
// register of: not one that lives on over calls.
func (a *allocator) wishIfNone(o mach.Operand, r mach.Reg) {
	if o.IsVirt() && a.wish.reg[o.Reg.Index()] == noReg && (r >= numCaller || !a.live.crosses[o.Reg.Index()]) {
		a.wishArg(o, r)
	}
}
