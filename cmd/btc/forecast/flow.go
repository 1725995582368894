// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"maps"

	"github.com/cilium/ebpf/asm"
)

// flow finds the reachable instructions by constant propagation in registers: the result of a
// relocation is a constant, and a test of it guards an access. It is less precise than the kernel,
// so code that it finds unreachable is unreachable for the kernel, too.
type flow struct {
	insns asm.Instructions
	raw   []int       // index of each instruction as the kernel counts
	index map[int]int // and the reverse
	in    []*state
	work  []int
	// context is, for a load through the program's context, the offset of the byte after it; else 0.
	context map[int]int
}

// state is what is known before an instruction about r0 to r10 and about values saved on the stack,
// where registers are preserved across calls. It assumes that only direct stores modify a slot,
// which holds for btc's code.
type state struct {
	reg  [11]value
	slot map[int16]value // known words of the stack frame, and copies of the context
}

type value struct {
	known   bool
	v       uint64
	context bool // the program's context; not known
}

func newFlow(insns asm.Instructions) *flow {
	f := &flow{insns: insns, raw: make([]int, len(insns)), index: map[int]int{}, in: make([]*state, len(insns))}
	f.context = map[int]int{}
	n := 0
	for i := range insns {
		f.raw[i], f.index[n] = n, i
		n += int(insns[i].Size()) / asm.InstructionSize
	}
	return f
}

func (f *flow) reached(i int) bool { return f.in[i] != nil }

// run starts at the program and at each of its subprograms.
func (f *flow) run() {
	for i := range f.insns {
		if i == 0 || f.insns[i].Symbol() != "" {
			s := state{}
			s.reg[1].context = i == 0
			f.enter(i, s)
		}
	}
	for len(f.work) > 0 {
		i := f.work[len(f.work)-1]
		f.work = f.work[:len(f.work)-1]
		s := *f.in[i]
		s.slot = maps.Clone(s.slot)
		f.step(i, s)
	}
}

// enter merges the state of another path into that of an instruction.
func (f *flow) enter(i int, s state) {
	if i < 0 || i >= len(f.insns) {
		return
	}
	if f.in[i] == nil {
		s.slot = maps.Clone(s.slot)
		f.in[i] = &s
		f.work = append(f.work, i)
		return
	}
	changed := false // a merge only forgets, so that run ends
	for r := range s.reg {
		if have := &f.in[i].reg[r]; (have.known || have.context) && *have != s.reg[r] {
			*have, changed = value{}, true
		}
	}
	for at, v := range f.in[i].slot {
		if now, ok := s.slot[at]; !ok || now != v {
			delete(f.in[i].slot, at)
			changed = true
		}
	}
	if changed {
		f.work = append(f.work, i)
	}
}

func (f *flow) step(i int, s state) {
	ins := &f.insns[i]
	switch class := ins.OpCode.Class(); {
	case class == asm.JumpClass || class == asm.Jump32Class:
		f.jump(i, s)
		return
	case class == asm.ALU64Class || class == asm.ALUClass:
		s.reg[ins.Dst] = alu(ins, &s)
	case ins.OpCode.IsDWordLoad():
		s.reg[ins.Dst] = value{
			known: ins.Src == asm.R0 && ins.Reference() == "" && ins.Map() == nil,
			v:     uint64(ins.Constant),
		}
	case class == asm.LdXClass:
		if s.reg[ins.Src].context {
			f.context[i] = int(ins.Offset) + ins.OpCode.Size().Sizeof()
		}
		v := value{}
		if ins.Src == asm.R10 && ins.OpCode.Size() == asm.DWord {
			v = s.slot[ins.Offset]
		}
		s.reg[ins.Dst] = v
	case class == asm.StClass && ins.Dst == asm.R10:
		s.store(ins, value{known: true, v: uint64(ins.Constant)})
	case class == asm.StXClass && ins.OpCode.Mode() != asm.MemMode: // atomics fetch into the source register or r0
		s.reg[ins.Src], s.reg[0] = value{}, value{}
		fallthrough
	case class == asm.StXClass && ins.Dst == asm.R10:
		s.store(ins, s.reg[ins.Src])
	case class == asm.LdClass:
		s.reg[0] = value{}
	}
	f.enter(i+1, s)
}

// store updates the words of the frame that an instruction writes to.
func (s *state) store(ins *asm.Instruction, v value) {
	if ins.Dst != asm.R10 {
		return
	}
	for at := range s.slot {
		if at < ins.Offset+8 && ins.Offset < at+8 {
			delete(s.slot, at)
		}
	}
	if (v.known || v.context) && ins.OpCode.Size() == asm.DWord && ins.OpCode.Mode() == asm.MemMode {
		if s.slot == nil {
			s.slot = map[int16]value{}
		}
		s.slot[ins.Offset] = v
	}
}

func alu(ins *asm.Instruction, s *state) value {
	op := ins.OpCode.ALUOp()
	a, b := s.reg[ins.Dst], value{known: true, v: uint64(ins.Constant)}
	if ins.OpCode.Source() == asm.RegSource {
		b = s.reg[ins.Src]
	}
	if op == asm.Mov {
		if b.context && ins.OpCode.Class() == asm.ALU64Class && ins.Offset == 0 {
			return b
		}
		a = value{known: true}
	}
	// With an offset it is a signed division or a move with sign extension (6.6).
	if !a.known || !b.known || ins.Offset != 0 {
		return value{}
	}
	wide := ins.OpCode.Class() == asm.ALU64Class
	x, y, width := a.v, b.v, uint64(63)
	if !wide {
		x, y, width = uint64(uint32(x)), uint64(uint32(y)), 31
	}
	switch op {
	case asm.Mov:
		x = y
	case asm.Add:
		x += y
	case asm.Sub:
		x -= y
	case asm.And:
		x &= y
	case asm.Or:
		x |= y
	case asm.Xor:
		x ^= y
	case asm.LSh:
		x <<= y & width
	case asm.RSh:
		x >>= y & width
	default:
		return value{}
	}
	if !wide {
		x = uint64(uint32(x))
	}
	return value{known: true, v: x}
}

func (f *flow) jump(i int, s state) {
	ins := &f.insns[i]
	target, known := f.index[f.raw[i]+1+int(ins.Offset)]
	switch op := ins.OpCode.JumpOp(); {
	case op == asm.Exit:
	case op == asm.Call:
		for r := range 6 {
			s.reg[r] = value{}
		}
		f.enter(i+1, s)
	case op == asm.Ja && ins.OpCode.Class() == asm.Jump32Class:
		if far, ok := f.index[f.raw[i]+1+int(ins.Constant)]; ok {
			f.enter(far, s)
		}
	case !known:
	case op == asm.Ja:
		f.enter(target, s)
	default:
		taken, decided := decide(ins, &s)
		if taken || !decided {
			f.enter(target, s)
		}
		if !taken || !decided {
			f.enter(i+1, s)
		}
	}
}

// decide evaluates a conditional jump between known values.
func decide(ins *asm.Instruction, s *state) (taken, decided bool) {
	a, b := s.reg[ins.Dst], value{known: true, v: uint64(ins.Constant)}
	if ins.OpCode.Source() == asm.RegSource {
		b = s.reg[ins.Src]
	}
	if !a.known || !b.known {
		return false, false
	}
	x, y := a.v, b.v
	sx, sy := int64(x), int64(y)
	if ins.OpCode.Class() == asm.Jump32Class {
		x, y = uint64(uint32(x)), uint64(uint32(y))
		sx, sy = int64(int32(x)), int64(int32(y))
	}
	switch ins.OpCode.JumpOp() {
	case asm.JEq:
		return x == y, true
	case asm.JNE:
		return x != y, true
	case asm.JGT:
		return x > y, true
	case asm.JGE:
		return x >= y, true
	case asm.JLT:
		return x < y, true
	case asm.JLE:
		return x <= y, true
	case asm.JSGT:
		return sx > sy, true
	case asm.JSGE:
		return sx >= sy, true
	case asm.JSLT:
		return sx < sy, true
	case asm.JSLE:
		return sx <= sy, true
	case asm.JSet:
		return x&y != 0, true
	}
	return false, false
}
