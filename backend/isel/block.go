// SPDX-License-Identifier: Apache-2.0

package isel

import (
	"math/bits"
	"slices"

	"btc/backend/mach"
	"btc/ir"
	"btc/targets/kernel"
)

// entry creates the registers of a block's parameters. Those of the function are in r1, r2, ...,
// and all are kept; other blocks keep only the parameters that are needed.
func (s *selector) entry() {
	for _, b := range s.order {
		mb := s.blocks[b.ID]
		if !s.params[b.ID] {
			continue
		}
		for _, p := range b.Params {
			if s.needed[p.ID] || b == s.f.Entry() {
				s.reg[p.ID] = s.out.NewVirt()
				mb.Params = append(mb.Params, s.reg[p.ID])
			}
		}
	}
}

func (s *selector) block(b *ir.Block) {
	s.cur = s.blocks[b.ID]
	s.cur.Insns = s.buf[:0]
	defer func() { // trim the block's slice to its length
		s.buf, s.cur.Insns = s.cur.Insns, slices.Clone(s.cur.Insns)
	}()
	s.forget()
	for _, v := range b.Values {
		if s.alias[v.ID] == nil && (s.needed[v.ID] || v.Op.Info().Effect == ir.Writes) && v.Op != ir.OpGlobalAddr {
			s.pos = v.Pos
			s.value(v)
		}
	}
	t := &b.Term
	s.pos = t.Pos
	switch succs := liveSuccs(b); {
	case t.Kind == ir.Ret:
		s.cur.Term = mach.Term{Kind: mach.Exit, Args: []mach.Operand{s.operand(t.Arg)}, Pos: t.Pos}
	case len(succs) == 1:
		s.cur.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{s.edge(t.Succs[succs[0]])}, Pos: t.Pos}
	case t.Kind == ir.Br:
		c, x, y, low := s.cond(t.Arg)
		s.cur.Term = mach.Term{Kind: mach.Br, Cond: c, W: low, Args: []mach.Operand{x, y},
			Succs: []mach.Edge{s.edge(t.Succs[0]), s.edge(t.Succs[1])}, Pos: t.Pos}
	default:
		panic("BUG: block without a terminator in " + s.f.Name)
	}
}

func (s *selector) edge(e ir.Edge) mach.Edge {
	out := mach.Edge{To: s.blocks[e.To.ID]}
	if !s.params[e.To.ID] {
		return out
	}
	for n, p := range e.To.Params {
		if s.needed[p.ID] || e.To == s.f.Entry() {
			out.Args = append(out.Args, s.operand(e.Args[n]))
		}
	}
	return out
}

// emit appends an instruction with a new result register.
func (s *selector) emit(i mach.Insn) mach.Reg {
	i.Dst = s.out.NewVirt()
	s.append(i)
	return i.Dst
}

func (s *selector) append(i mach.Insn) {
	i.Pos = s.pos
	s.cur.Insns = append(s.cur.Insns, i)
}

// operand returns v as a source; it emits nothing.
func (s *selector) operand(v *ir.Value) mach.Operand {
	v = s.resolve(v)
	switch v.Op {
	case ir.OpConst:
		return mach.ImmOp(v.Imm)
	case ir.OpSlotAddr:
		if v.Slot.Class != ir.Frame {
			panic("BUG: address of a slot that is not in the frame: " + v.Slot.Name)
		}
		return mach.FrameOp(int64(v.Slot.Off) + v.Imm)
	case ir.OpMapRef:
		return mach.Operand{Kind: mach.MapRef, Sym: v.Sym}
	case ir.OpFuncRef:
		return mach.Operand{Kind: mach.FuncRef, Sym: v.Sym}
	case ir.OpGlobalAddr:
		return mach.Operand{Kind: mach.GlobRef, Sym: v.Sym, Imm: v.Imm}
	}
	if r := s.reg[v.ID]; r != mach.NoReg {
		return mach.RegOp(r)
	}
	panic("BUG: " + s.f.Name + ": value of op " + v.Op.String() + " is used before it is selected")
}

// inReg returns o in a register.
func (s *selector) inReg(o mach.Operand) mach.Operand {
	if o.IsReg() {
		return o
	}
	if o.Kind == mach.Imm && !o.IsImm32() || o.Kind == mach.GlobRef { // two instructions
		r, ok := s.large[o]
		if !ok {
			r = s.emit(mach.Insn{Op: mach.Mov, Args: []mach.Operand{o}})
			s.large[o] = r
		}
		return mach.RegOp(r)
	}
	return mach.RegOp(s.emit(mach.Insn{Op: mach.Mov, Args: []mach.Operand{o}}))
}

// base is the address of a byte in a section of globals, and the register that holds it.
type base struct {
	at  ir.GlobalOffset
	reg mach.Operand
}

// forget drops what is known of the contents of registers.
func (s *selector) forget() {
	clear(s.large)
	s.bases = s.bases[:0]
}

// nearGlobal returns o + off as a register and an offset that fits an access: one that holds an
// address in the same section, else a new one.
func (s *selector) nearGlobal(o mach.Operand, off int64) (mach.Operand, int64) {
	p, ok := s.offsets[o.Sym]
	p.Off += int(o.Imm)
	for _, b := range s.bases {
		if near := int64(p.Off-b.at.Off) + off; ok && b.at.Kind == p.Kind && near == int64(int16(near)) {
			return b.reg, near
		}
	}
	r := s.inReg(o)
	if ok {
		s.bases = append(s.bases, base{p, r})
	}
	return r, off
}

// regOrImm returns o in a register or as a 32-bit immediate.
func (s *selector) regOrImm(o mach.Operand) mach.Operand {
	if o.IsImm32() {
		return o
	}
	return s.inReg(o)
}

// cond returns a truth value as a comparison of a register with a register or a 32-bit
// immediate; low means that only their lower 32 bits are compared.
func (s *selector) cond(v *ir.Value) (c ir.Cond, a, b mach.Operand, low bool) {
	v = s.resolve(v)
	if v.Op != ir.OpICmp {
		return ir.NE, s.inReg(s.operand(v)), mach.ImmOp(0), false
	}
	x, low := s.compared(v)
	c, a, b = v.Cond, s.operand(x), s.operand(v.Args[1])
	if !a.IsReg() && b.IsReg() {
		c, a, b = c.Swap(), b, a
	}
	a, b = s.inReg(a), s.regOrImm(b)
	if c > ir.NE {
		s.bounds.compared(a)
		s.bounds.compared(b)
	}
	return c, a, b, low
}

// memory returns the address of an access as base register and offset.
func (s *selector) memory(v *ir.Value, off int64) (mach.Operand, int) {
	base, total := s.address(v, off)
	o := s.operand(base)
	if o.Kind == mach.FrameRef {
		if sum := o.Imm + total; sum == int64(int16(sum)) {
			return mach.RegOp(mach.R10), int(sum)
		}
	}
	if o.Kind == mach.GlobRef {
		o, total = s.nearGlobal(o, total)
	}
	o = s.inReg(o)
	if total != int64(int16(total)) {
		return s.arith(mach.Add, o, mach.ImmOp(total)), 0
	}
	return o, int(total)
}

func (s *selector) arith(op mach.Op, a, b mach.Operand) mach.Operand {
	return mach.RegOp(s.emit(mach.Insn{Op: op, Args: []mach.Operand{s.inReg(a), s.regOrImm(b)}}))
}

func (s *selector) define(v *ir.Value, o mach.Operand) {
	o = s.inReg(o)
	s.reg[v.ID] = o.Reg
}

// binary maps the ops with the trait Binary.
var binary = map[ir.Op]mach.Op{
	ir.OpAdd:  mach.Add,
	ir.OpSub:  mach.Sub,
	ir.OpMul:  mach.Mul,
	ir.OpUDiv: mach.Div,
	ir.OpUMod: mach.Mod,
	ir.OpAnd:  mach.And,
	ir.OpOr:   mach.Or,
	ir.OpXor:  mach.Xor,
	ir.OpShl:  mach.Lsh,
	ir.OpLShr: mach.Rsh,
	ir.OpAShr: mach.Arsh,
}

// value selects one placed value.
func (s *selector) value(v *ir.Value) {
	if c := s.coreOperand(v); c != nil {
		s.define(
			v,
			mach.RegOp(
				s.emit(mach.Insn{Op: binary[v.Op], Args: []mach.Operand{s.inReg(s.operand(v.Args[0])), mach.ImmOp(0)},
					CORE: c.CORE, Kind: c.Kind, Relocated: true}),
			),
		)
		return
	}
	if op, ok := binary[v.Op]; ok {
		s.define(v, s.binary(op, s.operand(v.Args[0]), s.operand(v.Args[1]), v))
		return
	}
	switch v.Op {
	case ir.OpBswap:
		s.define(v,
			mach.RegOp(s.emit(mach.Insn{Op: mach.Swap, Size: v.Mem.Size(), Args: []mach.Operand{s.inReg(s.operand(v.Args[0]))}})))
	case ir.OpZext, ir.OpSext:
		s.define(v, s.extend(s.operand(v.Args[0]), v.Mem))
	case ir.OpICmp:
		s.define(v, s.pick(v, mach.ImmOp(1), mach.ImmOp(0)))
	case ir.OpBoolInt:
		s.define(v, s.pick(v.Args[0], mach.ImmOp(1), mach.ImmOp(0)))
	case ir.OpSelect:
		s.define(v, s.pick(v.Args[0], s.operand(v.Args[1]), s.operand(v.Args[2])))
	case ir.OpOpaque:
		s.define(v, s.opaque(s.operand(v.Args[0])))
	case ir.OpLoad:
		s.define(v, s.load(v))
	case ir.OpGlobal:
		base, off := s.nearGlobal(mach.Operand{Kind: mach.GlobRef, Sym: v.Sym, Imm: v.Imm}, 0)
		s.define(v, s.loadFrom(base, int(off), v))
	case ir.OpStore, ir.OpAtomicAdd:
		s.store(v)
	case ir.OpCORE:
		s.define(v, mach.RegOp(s.emit(mach.Insn{Op: mach.CoreImm, CORE: v.CORE, Kind: v.Kind, Relocated: true})))
	case ir.OpAttachID:
		s.define(v, mach.RegOp(s.emit(mach.Insn{Op: mach.IDImm, Imm: v.Imm})))
	case ir.OpCall, ir.OpCallSub:
		s.call(v)
	default:
		panic("BUG: op " + v.Op.String() + " reached instruction selection")
	}
}

// binary selects arithmetic. If v is a pointer, it records the bounds of the number that is added
// to it.
func (s *selector) binary(op mach.Op, a, b mach.Operand, v *ir.Value) mach.Operand {
	if v.Type.IsPtr() {
		s.bounds.addend(b)
	}
	if op.Commutative() && !a.IsReg() && b.IsReg() && b.Reg != mach.R10 {
		a, b = b, a
	}
	if b.Kind == mach.Imm {
		if o, done := s.byConstant(op, a, b.Imm); done {
			return o
		}
	}
	return s.arith(op, a, b)
}

// byConstant selects the cases that a constant right operand makes cheaper, or that the
// kernel refuses in general form: division by 0, shifts by 64 or more.
func (s *selector) byConstant(op mach.Op, a mach.Operand, c int64) (mach.Operand, bool) {
	log, pow2 := int64(bits.TrailingZeros64(uint64(c))), c != 0 && c&(c-1) == 0
	switch op {
	case mach.Sub:
		if n := mach.ImmOp(-c); n.IsImm32() {
			return s.arith(mach.Add, a, n), true
		}
	case mach.Mul:
		if pow2 {
			return s.arith(mach.Lsh, a, mach.ImmOp(log)), true
		}
	case mach.Div:
		if c == 0 { // refused as a constant ("div by zero"); in a register the result is 0, of Mod the dividend
			return mach.ImmOp(0), true
		} else if pow2 {
			return s.arith(mach.Rsh, a, mach.ImmOp(log)), true
		}
	case mach.Mod:
		if c == 0 {
			return a, true
		} else if pow2 {
			return s.arith(mach.And, a, mach.ImmOp(c-1)), true
		}
	case mach.And:
		if c == 0xffffffff {
			return s.extend(a, ir.U32), true
		}
	case mach.Lsh, mach.Rsh, mach.Arsh: // 64 and more are refused as a constant; in a register the upper bits are ignored
		return s.arith(op, a, mach.ImmOp(c&63)), true
	}
	return mach.Operand{}, false
}

// extend selects the extension of a's low bits.
func (s *selector) extend(a mach.Operand, kind ir.MemKind) mach.Operand {
	switch kind {
	case ir.U8:
		return s.arith(mach.And, a, mach.ImmOp(0xff))
	case ir.U16:
		return s.arith(mach.And, a, mach.ImmOp(0xffff))
	case ir.U32:
		return mach.RegOp(s.emit(mach.Insn{Op: mach.Mov, W: true, Args: []mach.Operand{s.inReg(a)}}))
	case ir.U64:
		return a
	}
	n := mach.ImmOp(int64(64 - 8*kind.Size()))
	return s.arith(mach.Arsh, s.arith(mach.Lsh, a, n), n)
}

// pick selects "c ? yes : no".
func (s *selector) pick(c *ir.Value, yes, no mach.Operand) mach.Operand {
	if c = s.resolve(c); c.IsConst() {
		if c.Imm != 0 {
			return yes
		}
		return no
	}
	cond, a, b, _ := s.cond(c)
	return mach.RegOp(s.emit(mach.Insn{Op: mach.Select, Cond: cond, Args: []mach.Operand{a, b, yes, no}}))
}

// opaque adds and subtracts the lower half of the frame's address: to the verifier the
// result is an unknown 32-bit number, a different one each time.
func (s *selector) opaque(a mach.Operand) mach.Operand {
	any := s.extend(mach.RegOp(mach.R10), ir.U32)
	return s.arith(mach.Sub, s.arith(mach.Add, a, any), any)
}

func (s *selector) load(v *ir.Value) mach.Operand {
	base, off := s.memory(v.Args[0], v.Imm)
	if v.CORE.Type != "" && off != 0 {
		base, off = s.arith(mach.Add, base, mach.ImmOp(int64(off))), 0
	}
	return s.loadFrom(base, off, v)
}

func (s *selector) loadFrom(base mach.Operand, off int, v *ir.Value) mach.Operand {
	i := mach.Insn{Op: mach.Load, Size: v.Mem.Size(), Args: []mach.Operand{base}, Off: off}
	if v.Op == ir.OpLoad && v.CORE.Type != "" {
		i.CORE, i.Kind, i.Relocated = v.CORE, v.Kind, true
	} else if v.Op != ir.OpLoad || v.Args[0].Type.Kind != ir.Ctx {
	} else if i.Result = i.Size == 8 && s.f.Prog.LongResult(off); i.Result {
	} else if field, ok := s.f.Prog.RecordField(off); ok {
		// The record of a system call has one layout until here: passes need not know that it moves.
		i.CORE, i.Kind, i.Relocated, i.Off = field, ir.FieldByteOffset, true, 0
	}
	o := mach.RegOp(s.emit(i))
	if v.Mem.Signed() && !s.plain[v.ID] {
		return s.extend(o, v.Mem)
	}
	return o
}

func (s *selector) store(v *ir.Value) {
	base, off := s.memory(v.Args[0], v.Imm)
	o := s.operand(v.Args[1])
	i := mach.Insn{Op: mach.Store, Size: v.Mem.Size(), Off: off, Dst: mach.NoReg}
	if v.Op == ir.OpAtomicAdd {
		i.Op = mach.XAdd
		o = s.inReg(o)
	} else if o.Kind == mach.Imm && i.Size < 8 {
		o.Imm = int64(int32(o.Imm)) // the store keeps only the low bits
	}
	i.Args = []mach.Operand{base, s.regOrImm(o)}
	s.append(i)
}

func (s *selector) call(v *ir.Value) {
	i := mach.Insn{Op: mach.CallSub, Sym: v.Sym, Dst: mach.NoReg}
	if v.Op == ir.OpCall {
		s.forget() // across calls it would take a register that others need
		h := kernel.HelperByName(v.Sym)
		if h == nil {
			s.fail(v.Pos, "no helper %q", v.Sym)
			return
		}
		i.Op, i.Imm = mach.Call, int64(h.ID)
	}
	if len(v.Args) > 5 {
		panic("BUG: call of " + v.Sym + " with more than 5 arguments")
	}
	for _, a := range v.Args {
		o := s.operand(a)
		s.bounds.used(o)
		i.Args = append(i.Args, o)
	}
	if s.needed[v.ID] {
		i.Dst = s.out.NewVirt()
		s.reg[v.ID] = i.Dst
	}
	s.append(i)
}
