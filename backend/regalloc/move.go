// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"slices"

	"btc/backend/mach"
)

// source is where a moved value comes from: a register, a constant, or the slot of a value.
type source struct {
	op   mach.Operand // None when the value is in its slot
	slot int          // number of the slot: that of the value
}

func (s source) inSlot() bool { return s.op.Kind == mach.None }

// source returns where operand o is now.
func (a *allocator) source(o mach.Operand) source {
	if !o.IsVirt() {
		return source{op: o}
	}
	v := o.Reg.Index()
	if r := a.vals[v].reg; r != noReg {
		return source{op: mach.RegOp(r)}
	}
	if !a.vals[v].spilled {
		panic("BUG: " + a.f.Name + ": " + o.String() + " is nowhere")
	}
	return source{slot: v}
}

// mover collects moves that happen at once (a parallel move) and emits them in an order
// that keeps every source until it is read.
type mover struct {
	a     *allocator
	regs  [numRegs]source // by destination
	dsts  regSet
	kept  regSet // registers that have their new values
	slots []slotMove
}

type slotMove struct {
	slot int
	src  source
}

func newMover(a *allocator) *mover { return &mover{a: a} }

// add requests that dst receive src.
func (m *mover) add(dst mach.Reg, src source) {
	m.regs[dst] = src
	m.dsts.add(dst)
}

// addSlot requests that the slot receive src.
func (m *mover) addSlot(slot int, src source) {
	if !src.inSlot() || src.slot != slot {
		m.slots = append(m.slots, slotMove{slot, src})
	}
}

// sources returns the set of registers that pending moves read.
func (m *mover) sources() (s regSet) {
	for r := range mach.Reg(numRegs) {
		if m.dsts.has(r) && m.regs[r].op.IsReg() {
			s.add(m.regs[r].op.Reg)
		}
	}
	for _, sm := range m.slots {
		if sm.src.op.IsReg() {
			s.add(sm.src.op.Reg)
		}
	}
	return s
}

func (m *mover) emit() {
	m.saveOverwritten()
	m.fillSlots()
	m.moveRegs()
	for r := range mach.Reg(numRegs) { // the remaining sources are not registers
		if !m.dsts.has(r) {
			continue
		}
		if src := m.regs[r]; src.inSlot() {
			m.a.load(r, src.slot)
		} else {
			m.a.emitMove(r, src.op)
		}
	}
}

// load reads a slot, which holds a value or is a temporary.
func (a *allocator) load(r mach.Reg, slot int) {
	if slot < len(a.vals) {
		a.emitReload(r, int32(slot))
		return
	}
	a.emit(slotLoad(r, slot))
}

func (a *allocator) tempSlot() int {
	a.temps++
	return len(a.vals) + a.temps - 1
}

// saveOverwritten copies slots that are both read and written by the moves to
// temporary ones, and reads those instead.
func (m *mover) saveOverwritten() {
	written := func(slot int) bool {
		return slices.ContainsFunc(m.slots, func(sm slotMove) bool { return sm.slot == slot })
	}
	var saved []slotMove
	save := func(src *source) {
		if !src.inSlot() || !written(src.slot) {
			return
		}
		n := slices.IndexFunc(saved, func(sm slotMove) bool { return sm.src.slot == src.slot })
		if n < 0 {
			n = len(saved)
			saved = append(saved, slotMove{m.a.tempSlot(), *src})
		}
		src.slot = saved[n].slot
	}
	for r := range mach.Reg(numRegs) {
		if m.dsts.has(r) {
			save(&m.regs[r])
		}
	}
	for n := range m.slots {
		save(&m.slots[n].src)
	}
	m.throughRegister(saved)
}

// fillSlots does the moves into slots.
func (m *mover) fillSlots() {
	var indirect []slotMove
	for _, sm := range m.slots {
		if sm.src.op.IsReg() || sm.src.op.IsImm32() {
			m.a.emit(slotStore(sm.slot, sm.src.op))
		} else {
			indirect = append(indirect, sm)
		}
	}
	m.slots = nil
	m.throughRegister(indirect)
}

// throughRegister emits moves that a single store cannot do. Where no register is free, r0
// is saved and restored.
func (m *mover) throughRegister(moves []slotMove) {
	if len(moves) == 0 {
		return
	}
	busy := m.kept | m.sources()
	for _, sm := range moves {
		if sm.src.op.IsReg() {
			busy.add(sm.src.op.Reg)
		}
	}
	// BPF has no move from memory to memory, and its ST only 32 bits of a constant.
	r, aside := mach.R0, -1
	for r < numRegs && busy.has(r) {
		r++
	}
	if r == numRegs {
		r, aside = mach.R0, m.a.tempSlot()
		m.a.emit(slotStore(aside, mach.RegOp(r)))
	}
	for _, sm := range moves {
		if sm.src.inSlot() {
			m.a.load(r, sm.src.slot)
		} else {
			m.a.emitMove(r, sm.src.op)
		}
		m.a.emit(slotStore(sm.slot, mach.RegOp(r)))
	}
	if aside >= 0 {
		m.a.load(r, aside)
	}
}

// moveRegs emits the moves from register to register.
func (m *mover) moveRegs() {
	for r := range mach.Reg(numRegs) {
		if m.dsts.has(r) && m.regs[r].op == mach.RegOp(r) {
			m.done(r)
		}
	}
	for {
		moved, pending := false, noReg
		for r := range mach.Reg(numRegs) {
			if !m.dsts.has(r) || !m.regs[r].op.IsReg() {
				continue
			}
			pending = r
			if !m.sources().has(r) { // no other move reads r any more
				m.a.emitMove(r, m.regs[r].op)
				m.done(r)
				moved = true
			}
		}
		if pending == noReg {
			return
		}
		if !moved { // what is left are cycles
			m.breakCycle(pending)
		}
	}
}

// done records that r has its new value.
func (m *mover) done(r mach.Reg) {
	m.dsts &^= setOf(r)
	m.kept.add(r)
}

// breakCycle saves the contents of r, which other moves still have to read.
func (m *mover) breakCycle(r mach.Reg) {
	aside := source{}
	busy := m.kept | m.sources()
	for t := range mach.Reg(numRegs) {
		if !busy.has(t) {
			m.a.emitMove(t, mach.RegOp(r))
			aside.op = mach.RegOp(t)
			break
		}
	}
	if aside.inSlot() {
		aside.slot = m.a.tempSlot()
		m.a.emit(slotStore(aside.slot, mach.RegOp(r)))
	}
	for d := range mach.Reg(numRegs) {
		if m.dsts.has(d) && m.regs[d].op == mach.RegOp(r) {
			m.regs[d] = aside
		}
	}
}
