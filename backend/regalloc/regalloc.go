// SPDX-License-Identifier: Apache-2.0

// Package regalloc is register allocation: it assigns machine registers to virtual ones.
//
// It takes a mach.Func in SSA form and returns the same function in machine form: r0 to r10
// only, no block parameters, spills in the 512-byte frame below f.FrameUsed. It fails only
// if the frame is too small.
//
// The method is one forward walk over each block, in layout order, with the distance to
// every value's next use. A value gets a register where it is defined and keeps it until a
// call or register pressure moves it; the value with the farthest next use is evicted first
// (Belady). An evicted value is stored once, at the latest point that dominates every
// reload: where it was first evicted, or where it was defined. So a value is in a register
// or in its slot, and a reload puts it into any register. At joins, the first path seen
// decides the registers, and the others end with moves. r1 to r5 and r0 are fixed at calls;
// values that live across calls prefer r6 to r9.
//
// Two rules come from the kernel verifier. A spill keeps only what the kernel knows of the
// register at that moment (bounds of scalars since 5.10, pointers always), and only as
// eight aligned bytes: hence stores as late as possible, after the checks, and no narrower
// slots. And a comparison bounds the compared register and its copies: hence Select
// compares the register that it keeps.
package regalloc

import (
	"slices"

	"btc/backend/mach"
	"btc/ir"
)

// Options of Allocate.
type Options struct {
	// Check replays the allocation symbolically (see check.go) and panics when
	// an instruction would read the wrong value.
	Check bool
}

const (
	numRegs    = 10 // r0 to r9
	numCaller  = 6  // r0 to r5 do not survive calls
	noReg      = mach.NoReg
	frameLimit = 512
)

// value is the state of a virtual register.
type value struct {
	reg     mach.Reg // current register; noReg: none, or only in its slot
	use     int32    // head of the list of its uses in this block, -1 at the end
	spilled bool     // the value is also in its slot
	inSlot  bool     // a parameter that arrives in its slot
	def     point    // right after its definition
	left    []point  // points at which it was evicted for good
	reloads []point
}

// point is a position between instructions of the output: before b.Insns[index].
type point struct {
	b     *mach.Block
	index int
	reg   mach.Reg // the register that holds the value there
}

// use is an element of a list of uses.
type use struct{ pos, next int32 }

// startState is the register contents at the start of a block: indices of virtual
// registers, -1 for nothing.
type startState struct {
	set  bool
	regs [numRegs]int32
}

type allocator struct {
	f      *mach.Func
	live   *liveness
	vals   []value
	starts []startState // by Block.Index
	scan   *distSet

	// The current block.
	b    *mach.Block
	old  []mach.Insn
	out  []mach.Insn
	regs [numRegs]int32
	uses []use
	want []mach.Reg // by old instruction: the hint for its result
	hint hints
	pos  ir.Pos
	at   int32 // index of the current instruction

	temps int // numbered spill slots after those of values
}

// Allocate brings f into machine form. The error is an ir.Diag.
func Allocate(f *mach.Func, opt Options) error {
	f.Order()
	var before *snapshot
	if opt.Check {
		before = takeSnapshot(f)
	}
	a := &allocator{
		f:      f,
		live:   computeLiveness(f),
		vals:   make([]value, f.NVirt),
		starts: make([]startState, len(f.Blocks)),
		scan:   newDistSet(f.NVirt),
		hint:   newWishes(f.NVirt),
	}
	for n := range a.vals {
		a.vals[n].reg, a.vals[n].use = noReg, -1
	}
	for n := range a.regs {
		a.regs[n] = -1
	}
	a.startEntry()
	a.run()
	a.placeStores()
	if err := a.placeSlots(); err != nil {
		return err
	}
	if opt.Check {
		if err := before.check(f); err != nil {
			panic("BUG: register allocation of " + f.Name + ": " + err.Error() + "\n" + before.text + f.String())
		}
	}
	for _, b := range f.Blocks {
		b.Params = nil
		for n := range b.Term.Succs {
			b.Term.Succs[n].Args = nil
		}
	}
	return nil
}

// run allocates each block once, as soon as one of its predecessors is done.
func (a *allocator) run() {
	done := make([]bool, len(a.f.Blocks))
	for left := len(a.f.Blocks); left > 0; {
		before := left
		for _, b := range a.f.Blocks {
			if !done[b.Index] && a.starts[b.Index].set {
				a.block(b)
				done[b.Index] = true
				left--
			}
		}
		if left == before {
			panic("BUG: unreachable block in " + a.f.Name)
		}
	}
}

// startEntry puts the function's parameters in r1, r2, ...
func (a *allocator) startEntry() {
	entry := a.f.Blocks[0]
	s := &a.starts[0]
	s.reset()
	for n, p := range entry.Params {
		if a.live.params[0][n] >= 0 {
			s.regs[n+1] = int32(p.Index())
		}
	}
}

func (s *startState) reset() {
	s.set = true
	for n := range s.regs {
		s.regs[n] = -1
	}
}

func (a *allocator) block(b *mach.Block) {
	a.b, a.old, a.out = b, b.Insns, a.out[:0]
	a.pos = b.Term.Pos
	if len(a.old) > 0 {
		a.pos = a.old[0].Pos
	}
	a.enter()
	a.findUses()
	for n := range a.old {
		i := &a.old[n]
		a.pos, a.at = i.Pos, int32(n)
		switch {
		case i.Op.IsCall():
			a.call(i)
		case i.Op == mach.Select:
			a.selectInsn(i, a.want[n])
		case i.Op.Tied():
			a.tied(i, a.want[n])
		default:
			a.plain(i, a.want[n])
		}
	}
	a.pos, a.at = b.Term.Pos, int32(len(a.old))
	a.terminator()
	b.Insns = slices.Clone(a.out)
}

// enter sets the registers to the state at the start of the block.
func (a *allocator) enter() {
	for r, v := range a.regs {
		if v >= 0 {
			a.vals[v].reg = noReg
			a.regs[r] = -1
		}
	}
	for r, v := range a.starts[a.b.Index].regs {
		if v >= 0 {
			a.regs[r] = v
			a.vals[v].reg = mach.Reg(r)
		}
	}
	for n, p := range a.b.Params {
		v := &a.vals[p.Index()]
		v.def = point{a.b, 0, v.reg}
		if v.reg == noReg && a.live.params[a.b.Index][n] >= 0 {
			v.spilled, v.inSlot = true, true
		}
	}
}

// findUses builds the lists of uses and of hints by a walk from the end.
func (a *allocator) findUses() {
	for _, lv := range a.scan.list { // the values live at the block's end, as left by the last scan
		a.vals[lv.v].use = -1
	}
	a.uses = a.uses[:0]
	end := int32(len(a.old))
	a.live.out(a.b, a.scan)
	for _, lv := range a.scan.list {
		a.pushUse(lv.v, end+1+lv.dist)
	}
	for _, o := range a.b.Term.Args {
		if o.IsVirt() {
			a.pushUse(int32(o.Reg.Index()), end)
		}
	}
	a.want = slices.Grow(a.want[:0], len(a.old))[:len(a.old)]
	a.wishesAtEnd()
	for pos := end - 1; pos >= 0; pos-- {
		i := &a.old[pos]
		a.want[pos] = a.hintsBefore(i)
		for _, o := range i.Args {
			if o.IsVirt() {
				a.pushUse(int32(o.Reg.Index()), pos)
			}
		}
	}
}

func (a *allocator) pushUse(v, pos int32) {
	a.uses = append(a.uses, use{pos, a.vals[v].use})
	a.vals[v].use = int32(len(a.uses) - 1)
}

// popUses drops the uses of i's operands at the current instruction.
func (a *allocator) popUses(args []mach.Operand) {
	for _, o := range args {
		if o.IsVirt() {
			v := &a.vals[o.Reg.Index()]
			v.use = a.uses[v.use].next
		}
	}
}

func (a *allocator) dead(v int32) bool { return a.vals[v].use < 0 }

// nextUse returns the distance to v's next use; bounded values look nearer than they are.
func (a *allocator) nextUse(v int32) int32 {
	u := a.vals[v].use
	if u < 0 {
		return 1 << 30
	}
	if int(v) < len(a.f.Bounded) && a.f.Bounded[v] {
		return (a.uses[u].pos - a.at) / 16
	}
	return a.uses[u].pos - a.at
}

// freeDead frees the registers of operands that are not read any more.
func (a *allocator) freeDead(args []mach.Operand) {
	for _, o := range args {
		if !o.IsVirt() {
			continue
		}
		if v := int32(o.Reg.Index()); a.dead(v) && a.vals[v].reg != noReg {
			a.regs[a.vals[v].reg] = -1
			a.vals[v].reg = noReg
		}
	}
}

// regSet is a set of machine registers.
type regSet uint16

func (s regSet) has(r mach.Reg) bool { return r != noReg && s&(1<<r) != 0 }
func (s *regSet) add(r mach.Reg)     { *s |= 1 << r }
func setOf(list ...mach.Reg) (s regSet) {
	for _, r := range list {
		if r != noReg {
			s.add(r)
		}
	}
	return s
}

// Orders of preference: values that live across calls prefer r6 to r9; short-lived ones
// avoid the argument registers, which calls fill.
var (
	longOrder  = [numRegs]mach.Reg{6, 7, 8, 9, 0, 5, 4, 3, 2, 1}
	shortOrder = [numRegs]mach.Reg{0, 5, 4, 3, 2, 1, 9, 8, 7, 6}
)

func (a *allocator) order(v int32) *[numRegs]mach.Reg {
	if a.live.crosses[v] {
		return &longOrder
	}
	return &shortOrder
}

// take finds a register for v outside avoid and evicts its value; the caller assigns it.
func (a *allocator) take(v int32, want mach.Reg, avoid regSet) mach.Reg {
	if want != noReg && a.regs[want] < 0 && !avoid.has(want) {
		return want
	}
	for _, r := range a.order(v) {
		if a.regs[r] < 0 && !avoid.has(r) {
			return r
		}
	}
	best := noReg
	for r := range mach.Reg(numRegs) {
		if !avoid.has(r) && (best == noReg || a.nextUse(a.regs[r]) > a.nextUse(a.regs[best])) {
			best = r
		}
	}
	a.evict(best)
	return best
}

// evict drops the value in r from its register; its slot will hold it.
func (a *allocator) evict(r mach.Reg) {
	v := &a.vals[a.regs[r]]
	v.spilled = true
	v.left = append(v.left, point{a.b, len(a.out), r})
	v.reg = noReg
	a.regs[r] = -1
}

func (a *allocator) emit(i mach.Insn) {
	i.Pos = a.pos
	a.out = append(a.out, i)
}

func (a *allocator) emitMove(dst mach.Reg, src mach.Operand) {
	a.emit(mach.Insn{Op: mach.Mov, Dst: dst, Args: []mach.Operand{src}})
}

// emitReload loads v from its slot into r.
func (a *allocator) emitReload(r mach.Reg, v int32) {
	if !a.vals[v].spilled {
		panic("BUG: " + a.f.Name + ": " + mach.Virt(int(v)).String() + " is nowhere")
	}
	a.vals[v].reloads = append(a.vals[v].reloads, point{a.b, len(a.out), r})
	a.emit(slotLoad(r, int(v)))
}

func slotLoad(r mach.Reg, slot int) mach.Insn {
	return mach.Insn{Op: mach.Load, Size: 8, Dst: r, Args: []mach.Operand{mach.RegOp(mach.R10)}, Spill: slot + 1}
}

func slotStore(slot int, src mach.Operand) mach.Insn {
	return mach.Insn{
		Op:    mach.Store,
		Size:  8,
		Dst:   noReg,
		Args:  []mach.Operand{mach.RegOp(mach.R10), src},
		Spill: slot + 1,
	}
}

// ensure puts v into a register, which it adds to pinned.
func (a *allocator) ensure(o mach.Operand, pinned *regSet) mach.Operand {
	if !o.IsVirt() {
		return o
	}
	v := int32(o.Reg.Index())
	r := a.vals[v].reg
	if r == noReg {
		r = a.take(v, noReg, *pinned)
		a.emitReload(r, v)
		a.regs[r] = v
		a.vals[v].reg = r
	}
	pinned.add(r)
	return mach.RegOp(r)
}

// define records that the instruction just emitted left dst's value in r.
func (a *allocator) define(dst, r mach.Reg) {
	if !dst.IsVirt() {
		return
	}
	v := int32(dst.Index())
	if a.dead(v) {
		return
	}
	a.regs[r] = v
	a.vals[v].reg = r
	a.vals[v].def = point{a.b, len(a.out), r}
}

// pinHeld adds the registers of args to avoid.
func (a *allocator) pinHeld(args []mach.Operand, avoid *regSet) {
	for _, o := range args {
		if o.IsVirt() && a.vals[o.Reg.Index()].reg != noReg {
			avoid.add(a.vals[o.Reg.Index()].reg)
		}
	}
}
