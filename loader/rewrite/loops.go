// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"
	"math"
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// A counted loop takes from the budget of its run at the start of its callback: bpf_loop at every loopStride-th
// iteration, for which its index is enough, and for_each_map_elem at each. When the budget is used up, the callback
// stops its loop, as a break does, and so do all other counted loops of the run.
//
// The budget is in a map that only the loader knows, and no register has its address when the code of the object
// runs. It is per CPU, because programs do not migrate. A program that starts while another one of the object
// runs on the CPU shares the budget of that one: it may have been triggered by it, and a fresh budget for each such
// run would multiply. So a run begins if none is in progress, for which the main function counts up at its start and
// down at its exits. A program that may take long itself ends the slice of the run that it was triggered by, which then
// reads the clock.
//
// The state is changed without locks. Programs can be preempted, and others may run on the CPU then, which is why the
// number of programs in progress is added to with an atomic instruction: a lost step would last.

const (
	// LoopNanos is the CPU time that the loops of a run may take.
	LoopNanos = 250_000_000
	// loopWork is LoopNanos in units of cost.
	loopWork = 3 * LoopNanos
	// The clock is shifted to units of about a millisecond. maxWall bounds what interrupts the loops of a run, and
	// those whose cost is underestimated.
	clockShift = 20
	maxElapsed = LoopNanos >> clockShift
	maxWall    = 10 * maxElapsed
	// A bpf_loop takes from the budget once in loopStride iterations, if these cost little.
	loopStride = 8
	// loopSlice is the cost after which the clock is read.
	loopSlice = 1 << 16
	// walkLoops is how many times loopWork the loops of an iterator may take for all its elements.
	walkLoops  = 40
	walkShift  = 10
	maxWalk    = walkLoops * (loopWork >> walkShift)
	maxPerLoop = math.MaxInt32 / loopStride
)

// Offsets in the state of a CPU.
const (
	stateLeft    = 0  // of the slice
	stateWork    = 8  // cost of the slices before
	stateStart   = 16 // clock at the end of the first slice
	stateDepth   = 24 // programs in progress
	stateTotal   = 32 // cost of all elements of an iterator
	stateStopped = 40 // bit set of programs with a stopped loop
	stateBegan   = 48 // clock when the element of an iterator began
	// LoopStateShift is the logarithm of the size.
	LoopStateShift = 6
)

// Budget is where the loops of an object's programs find their budget: the only value of an array map. It begins with
// a state for each CPU.
type Budget struct {
	Map      int // descriptor
	CPUs     int // states, a power of two
	Counters int // offset of the counters of stopped runs in the value; one of 8 bytes for each loop
	Program  int // number of the program
	Iterator bool
	// Timed means that the time of all elements of an iterator is limited, not only that of their loops. Counter is for
	// iterators that this stops.
	Timed   bool
	Counter int
}

// BoundLoops makes a program end in time; its loops have the counters that they name. The main function's first skip
// instructions, a prologue of the loader, are left alone. It returns how many slots of 8 bytes are inserted after
// them.
func (b *Budget) BoundLoops(insns asm.Instructions, bounds Bounds, skip int) (out asm.Instructions, slots int,
	err error) {
	insns, functions := b.replaceCalls(insns, bounds.Calls)
	loops := bounds.Loops
	end := 1
	for end < len(insns) && insns[end].Symbol() == "" {
		end++
	}
	main := insns[:end:end]
	if len(loops) > 0 || b.Timed || bounds.Most >= longRun || slices.ContainsFunc(bounds.Calls, Call.searches) {
		main, slots, err = b.boundMain(main, skip)
		if err != nil {
			return nil, 0, err
		}
	}
	out = append(out, main...)
	for start := end; start < len(insns); start = end {
		end = start + 1
		for end < len(insns) && insns[end].Symbol() == "" {
			end++
		}
		body := insns[start:end:end]
		for i := range loops {
			if loops[i].Callback == body[0].Symbol() {
				body = putInFront(b.charge(&loops[i]), body)
				break
			}
		}
		out = append(out, body...)
	}
	return append(out, functions...), slots, nil
}

// replaceCalls returns a copy of a program with some calls of helpers replaced by calls of functions, and these. The
// number of slots remains the same.
func (b *Budget) replaceCalls(insns asm.Instructions, calls []Call) (out, functions asm.Instructions) {
	out = slices.Clone(insns)
	named := map[string]bool{}
	for i := range calls {
		c := &calls[i]
		helper := asm.Instructions{callHelper(c.Helper).instruction(), exit().instruction()}
		name := fmt.Sprintf("btc_limit_%d_%d", c.Helper, c.Size)
		if c.searches() {
			name = fmt.Sprintf("btc_search_%d", c.Insn)
			helper = append(b.charge(&Loop{Helper: c.Helper, Cost: c.Cost, Counter: c.Counter}), helper...)
		} else {
			helper = append(asm.Instructions{jump(asm.JLE, c.Size, unknownSize, 1).instruction(),
				movImm(c.Size, unknownSize).instruction()}, helper...)
		}
		call := asm.Call.Label(name)
		call.Metadata = out[c.Insn].Metadata
		out[c.Insn] = call.WithReference(name)
		if named[name] {
			continue
		}
		named[name] = true
		head := helper[0].WithSymbol(name)
		if c.Line != nil {
			head = head.WithSource(c.Line)
		}
		if btf.FuncMetadata(&insns[0]) != nil {
			number := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
			head = btf.WithFuncMetadata(head, &btf.Func{Name: name, Type: &btf.FuncProto{Return: number}})
		}
		helper[0] = head
		functions = append(functions, helper...)
	}
	return out, functions
}

// Slots returns the number of slots of 8 bytes of instructions.
func Slots(insns asm.Instructions) (n int) {
	for i := range insns {
		n += int(insns[i].Size()) / asm.InstructionSize
	}
	return n
}

// state sets r1 to the state of the CPU. It changes r0, and r2 to r5 cannot be read afterwards.
func (b *Budget) state(p *prologue) {
	p.emit(callHelper(asm.FnGetSmpProcessorId), aluImm(asm.And, asm.R0, int32(b.CPUs-1)), aluImm(asm.LSh, asm.R0, LoopStateShift))
	p.addMap(asm.R1, b.Map, 0)
	p.emit(aluReg(asm.Add, asm.R1, asm.R0))
}

// maxJump bounds the length of a jump in slots. The verifier makes several instructions of some, and the
// result must be in reach, too.
const maxJump = 30000

// boundMain adds the beginning and the end of a run to the main function.
func (b *Budget) boundMain(insns asm.Instructions, skip int) (asm.Instructions, int, error) {
	var begin, leave prologue
	begin.emit(mov(asm.R6, asm.R1))
	if b.Timed {
		begin.emit(callHelper(asm.FnKtimeGetNs), mov(asm.R7, asm.R0))
	}
	b.state(&begin)
	if b.Timed {
		begin.emit(load(asm.R2, asm.R1, stateTotal, asm.DWord), aluImm(asm.RSh, asm.R2, walkShift))
		begin.leave(asm.JLE, asm.R2, maxWalk)
		begin.addMap(asm.R1, b.Map, b.Counters+8*b.Counter)
		begin.emit(set(asm.R1, 0, 1), movImm(asm.R0, 0), exit())
		begin.land(begin.leaving)
		begin.leaving = nil
		begin.emit(store(asm.R1, stateBegan, asm.R7, asm.DWord))
	}
	begin.emit(load(asm.R2, asm.R1, stateDepth, asm.DWord))
	begin.leave(asm.JNE, asm.R2, 0)
	begin.emit(set(asm.R1, stateLeft, loopSlice))
	for _, at := range []int16{stateWork, stateStart, stateStopped} {
		begin.emit(set(asm.R1, at, 0))
	}
	first := begin.leaving
	begin.leaving = nil
	begin.leave(asm.Ja, 0, 0)
	begin.land(first)
	// End the slice, without the work that it has left.
	begin.emit(load(asm.R2, asm.R1, stateLeft, asm.DWord), load(asm.R3, asm.R1, stateWork, asm.DWord),
		aluReg(asm.Sub, asm.R3, asm.R2), store(asm.R1, stateWork, asm.R3, asm.DWord), set(asm.R1, stateLeft, 0))
	begin.land(begin.leaving)
	begin.emit(movImm(asm.R2, 1))
	begin.add(asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, stateDepth))
	begin.emit(mov(asm.R1, asm.R6))

	leave.emit(mov(asm.R6, asm.R0))
	if b.Timed {
		leave.emit(callHelper(asm.FnKtimeGetNs), mov(asm.R7, asm.R0))
	}
	b.state(&leave)
	if b.Timed {
		leave.emit(load(asm.R2, asm.R1, stateBegan, asm.DWord), aluReg(asm.Sub, asm.R7, asm.R2),
			aluImm(asm.Mul, asm.R7, loopWork/LoopNanos), load(asm.R2, asm.R1, stateTotal, asm.DWord),
			aluReg(asm.Add, asm.R2, asm.R7), store(asm.R1, stateTotal, asm.R2, asm.DWord))
	}
	leave.emit(movImm(asm.R2, -1))
	leave.add(asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, stateDepth))
	leave.emit(mov(asm.R0, asm.R6), exit())

	// Exits become jumps to the end, or to the start if that is too far.
	body := append(asm.Instructions(nil), insns[skip:]...)
	size, leaving := Slots(body), Slots(leave.insns)
	near, far := []int(nil), []int(nil)
	at := map[int]int{} // slot in the body
	n := 0
	for i := range body {
		if body[i].OpCode.JumpOp() == asm.Exit {
			switch at[i] = n; {
			case size-n < maxJump:
				near = append(near, i)
			case n+leaving < maxJump:
				far = append(far, i)
			default:
				return nil, 0, fmt.Errorf("%w: the program is too long", errLoop)
			}
		}
		n += int(body[i].Size()) / asm.InstructionSize
	}
	for _, i := range near {
		jump(asm.Ja, 0, 0, int16(size-at[i]-1)).to(&body[i])
	}
	if len(far) > 0 {
		begin.emit(jump(asm.Ja, 0, 0, int16(leaving)))
		begin.add(leave.insns...)
		for _, i := range far {
			jump(asm.Ja, 0, 0, int16(-leaving-at[i]-1)).to(&body[i])
		}
	}
	if len(near) > 0 {
		body = append(body, leave.insns...)
	}
	slots := Slots(begin.insns)
	if skip == 0 {
		return putInFront(begin.insns, body), slots, nil
	}
	out := append(asm.Instructions(nil), insns[:skip]...)
	return append(append(out, begin.insns...), body...), slots, nil
}

// charge returns the start of a callback. The stack frame of a callback is free then.
func (b *Budget) charge(l *Loop) asm.Instructions {
	args := []asm.Register{asm.R1, asm.R2}
	if l.Helper == asm.FnForEachMapElem {
		args = append(args, asm.R3, asm.R4)
	}
	cost, stride := max(min(l.Cost, maxPerLoop), 1), int64(1)
	var p, slow prologue
	var every []int
	if l.Helper == asm.FnLoop && cost*loopStride <= loopSlice {
		stride = loopStride
		p.leave(asm.JSet, asm.R1, loopStride-1)
		every, p.leaving = p.leaving, nil
	}
	for i, r := range args {
		p.emit(mov(asm.R6+asm.Register(i), r))
	}
	b.state(&p)
	p.emit(load(asm.R2, asm.R1, stateLeft, asm.DWord), aluImm(asm.Add, asm.R2, int32(-cost*stride)),
		store(asm.R1, stateLeft, asm.R2, asm.DWord))
	p.leave(asm.JSGT, asm.R2, 0)
	done := p.leaving

	// The slice is used up: see what the run has taken.
	p.emit(callHelper(asm.FnKtimeGetNs), store(asm.RFP, -8, asm.R0, asm.DWord))
	b.state(&p)
	p.emit(load(asm.R0, asm.RFP, -8, asm.DWord), movImm(asm.R4, loopSlice),
		load(asm.R2, asm.R1, stateLeft, asm.DWord), aluReg(asm.Sub, asm.R4, asm.R2), set(asm.R1, stateLeft, loopSlice),
		load(asm.R3, asm.R1, stateWork, asm.DWord), aluReg(asm.Add, asm.R3, asm.R4),
		store(asm.R1, stateWork, asm.R3, asm.DWord), load(asm.R2, asm.R1, stateStart, asm.DWord),
		jump(asm.JNE, asm.R2, 0, 2), mov(asm.R2, asm.R0),
		store(asm.R1, stateStart, asm.R0, asm.DWord), aluReg(asm.Sub, asm.R0, asm.R2),
		aluImm(asm.RSh, asm.R0, clockShift))
	p.leaving = nil
	if b.Iterator && !b.Timed {
		p.emit(load(asm.R5, asm.R1, stateTotal, asm.DWord), aluReg(asm.Add, asm.R5, asm.R4),
			store(asm.R1, stateTotal, asm.R5, asm.DWord), aluImm(asm.RSh, asm.R5, walkShift))
		p.leave(asm.JGT, asm.R5, maxWalk)
	}
	p.leave(asm.JGT, asm.R0, maxWall)
	stop := p.leaving
	p.leaving = done
	p.leave(asm.JLE, asm.R0, maxElapsed)
	p.leave(asm.JLT, asm.R3, loopWork)
	done = p.leaving

	p.land(stop)
	slow.emit(set(asm.R1, stateLeft, 0), load(asm.R2, asm.R1, stateStopped, asm.DWord))
	bit := int32(1) << (b.Program % 31)
	slow.leave(asm.JSet, asm.R2, bit)
	slow.emit(aluImm(asm.Or, asm.R2, bit), store(asm.R1, stateStopped, asm.R2, asm.DWord))
	slow.addMap(asm.R1, b.Map, b.Counters+8*l.Counter)
	slow.emit(movImm(asm.R2, 1))
	slow.add(asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0))
	slow.land(slow.leaving)
	slow.emit(movImm(asm.R0, 1), exit())
	p.add(slow.insns...)

	p.land(done)
	for i, r := range args {
		p.emit(mov(r, asm.R6+asm.Register(i)))
	}
	p.land(every)
	return p.insns
}
