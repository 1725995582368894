// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"math/rand/v2"
	"testing"

	"btc/backend/mach"
)

// locations holds the contents of registers and slots.
type locations struct {
	regs  [numRegs]int64
	slots map[int]int64
}

// value returns the contents of an operand or slot.
func (p *locations) value(s source) int64 {
	switch {
	case s.inSlot():
		return p.slots[s.slot]
	case s.op.IsReg():
		return p.regs[s.op.Reg]
	}
	return s.op.Imm
}

// run executes moves.
func (p *locations) run(insns []mach.Insn) {
	for _, i := range insns {
		switch i.Op {
		case mach.Mov:
			p.regs[i.Dst] = p.value(source{op: i.Args[0]})
		case mach.Load:
			p.regs[i.Dst] = p.slots[i.Spill-1]
		case mach.Store:
			p.slots[i.Spill-1] = p.value(source{op: i.Args[1]})
		}
	}
}

// TestParallelMoves checks that each destination gets the old contents of its source, and that no other
// live location changes. The number of instructions is fixed, as in TestCost.
func TestParallelMoves(t *testing.T) {
	const slots = 5
	total := 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 5))
		a := &allocator{f: &mach.Func{Name: "f"}, b: &mach.Block{}, vals: make([]value, slots)}
		before := locations{slots: map[int]int64{}}
		for n := range before.regs {
			before.regs[n] = 100 + int64(n)
		}
		for n := range a.vals {
			a.vals[n].spilled = true
			before.slots[n] = 200 + int64(n)
		}
		used := 1 + r.IntN(numRegs) // registers
		from := func() source {
			switch r.IntN(8) {
			case 0:
				return source{op: mach.ImmOp(int64(r.IntN(90)))}
			case 1:
				return source{op: mach.ImmOp(1<<40 + int64(r.IntN(90)))}
			case 2, 3:
				return source{slot: r.IntN(slots)}
			}
			return source{op: mach.RegOp(mach.Reg(r.IntN(used)))}
		}
		m := newMover(a)
		var regs [numRegs]*source
		moved := map[int]source{}
		dense := r.IntN(4)
		for n := range used {
			if r.IntN(4) <= dense {
				s := from()
				regs[n] = &s
				m.add(mach.Reg(n), s)
			}
		}
		for n := range r.IntN(2) * slots {
			if r.IntN(2) == 0 {
				moved[n] = from()
				m.addSlot(n, moved[n])
			}
		}
		m.emit()
		after := locations{regs: before.regs, slots: map[int]int64{}}
		for n, v := range before.slots {
			after.slots[n] = v
		}
		after.run(a.out)
		total += len(a.out)
		for n, s := range regs {
			switch {
			case s != nil && after.regs[n] != before.value(*s):
				t.Errorf("seed %d: r%d = %d, want %d", seed, n, after.regs[n], before.value(*s))
			case s == nil && len(moved) == 0 && regs[0] == nil && n > 0 && after.regs[n] != before.regs[n]:
				t.Errorf("seed %d: r%d changed to %d", seed, n, after.regs[n]) // a call's
			}
		}
		for n := range slots {
			want := before.slots[n]
			if s, ok := moved[n]; ok {
				want = before.value(s)
			}
			if after.slots[n] != want {
				t.Errorf("seed %d: slot %d = %d, want %d", seed, n, after.slots[n], want)
			}
		}
		if t.Failed() {
			for _, i := range a.out {
				t.Log(i.String())
			}
			return
		}
	}
	if want := 15815; total != want {
		t.Errorf("%d instructions in total, want %d", total, want)
	}
}
