// SPDX-License-Identifier: Apache-2.0

package ir

import "slices"

// Builder emits values at a point of a function: a block and an index. New values are inserted
// before that point, which then moves past them, and have the position Pos.
//
// Rewrite expands high ops with a Builder:
//
//	p := b.Call("map_lookup_elem", TMapVal(m.Name, true), MapOperand(m.Name), key)
//	result := b.IfValue(b.NotNull(p), TI64,
//		func() *Value { return b.Load(U64, b.NonNull(p), 0) },
//		func() *Value { return Const(0) })
type Builder struct {
	Pos   Pos
	block *Block
	i     int
}

// At returns a builder that emits before b.Values[i].
func At(b *Block, i int, pos Pos) *Builder { return &Builder{Pos: pos, block: b, i: i} }

// AtEnd returns a builder that emits at the end of b, before its terminator.
func AtEnd(b *Block, pos Pos) *Builder { return &Builder{Pos: pos, block: b, i: len(b.Values)} }

// Func returns the function that the builder emits into.
func (b *Builder) Func() *Func { return b.block.Func }

// Block returns the block of the point; control flow moves the point to new blocks.
func (b *Builder) Block() *Block { return b.block }

// SetBlock moves the point to the end of blk.
func (b *Builder) SetBlock(blk *Block) { b.block, b.i = blk, len(blk.Values) }

// Emit inserts a new value. The caller sets fields other than op, type and arguments on the
// result.
func (b *Builder) Emit(op Op, t Type, args ...*Value) *Value {
	v := b.Func().NewValue(op, t, b.Pos, args...)
	b.block.Insert(b.i, v)
	b.i++
	return v
}

// Slot makes a new memory object and returns its address.
func (b *Builder) Slot(name string, size, align int) *Value {
	return SlotAddr(b.Func().NewSlot(name, size, align), 0)
}

// Binary emits an arithmetic op on two operands; the result has x's type.
func (b *Builder) Binary(op Op, x, y *Value) *Value { return b.Emit(op, x.Type, x, y) }

// Add returns x + y; x may be a pointer. Additions to slot addresses and of constants are folded.
func (b *Builder) Add(x, y *Value) *Value {
	if y.IsConst() {
		switch {
		case y.Imm == 0:
			return x
		case x.Op == OpSlotAddr:
			return SlotAddr(x.Slot, int(x.Imm+y.Imm))
		case x.IsConst():
			return &Value{ID: -1, Op: OpConst, Type: x.Type, Imm: x.Imm + y.Imm, Pos: NoPos}
		}
	}
	return b.Binary(OpAdd, x, y)
}

// AddImm returns x + n; see Add.
func (b *Builder) AddImm(x *Value, n int64) *Value { return b.Add(x, Const(n)) }

// Sub returns x - y.
func (b *Builder) Sub(x, y *Value) *Value { return b.Binary(OpSub, x, y) }

// Mul returns x * y.
func (b *Builder) Mul(x, y *Value) *Value { return b.Binary(OpMul, x, y) }

// And returns x & y.
func (b *Builder) And(x, y *Value) *Value { return b.Binary(OpAnd, x, y) }

// Or returns x | y.
func (b *Builder) Or(x, y *Value) *Value { return b.Binary(OpOr, x, y) }

// Shl returns x << y.
func (b *Builder) Shl(x, y *Value) *Value { return b.Binary(OpShl, x, y) }

// LShr returns x >> y, logical.
func (b *Builder) LShr(x, y *Value) *Value { return b.Binary(OpLShr, x, y) }

// AShr returns x >> y, arithmetic.
func (b *Builder) AShr(x, y *Value) *Value { return b.Binary(OpAShr, x, y) }

// Extend extends the low bits of x to 64 bits as a load of kind k would. For 8 bytes and
// MemNone it returns x itself.
func (b *Builder) Extend(k MemKind, x *Value) *Value {
	if k.Size() == 8 || k == MemNone {
		return x
	}
	op := OpZext
	if k.Signed() {
		op = OpSext
	}
	v := b.Emit(op, TI64, x)
	v.Mem = k
	return v
}

// ICmp compares.
func (b *Builder) ICmp(c Cond, x, y *Value) *Value {
	v := b.Emit(OpICmp, TI1, x, y)
	v.Cond = c
	return v
}

// IsNull returns p == null.
func (b *Builder) IsNull(p *Value) *Value { return b.ICmp(EQ, p, Null(p.Type)) }

// NotNull returns p != null.
func (b *Builder) NotNull(p *Value) *Value { return b.ICmp(NE, p, Null(p.Type)) }

// NonNull returns p as a non-nullable pointer; p must be known not to be null.
func (b *Builder) NonNull(p *Value) *Value { return b.Emit(OpNonNull, p.Type.NonNull(), p) }

// Select returns x when c is true, else y.
func (b *Builder) Select(c, x, y *Value) *Value { return b.Emit(OpSelect, x.Type, c, x, y) }

// BoolInt returns c as an integer.
func (b *Builder) BoolInt(c *Value) *Value { return b.Emit(OpBoolInt, TI64, c) }

// Cast returns x as type t, without an instruction.
func (b *Builder) Cast(t Type, x *Value) *Value {
	if x.Type == t {
		return x
	}
	return b.Emit(OpCast, t, x)
}

// Load reads an i64 at p + off.
func (b *Builder) Load(k MemKind, p *Value, off int) *Value { return b.LoadAs(TI64, k, p, off) }

// LoadAs reads a value of type t (i64, kaddr, uaddr, addr or btf) at p + off.
func (b *Builder) LoadAs(t Type, k MemKind, p *Value, off int) *Value {
	p, off = fold(p, off)
	v := b.Emit(OpLoad, t, p)
	v.Mem, v.Imm = k, int64(off)
	return v
}

// LoadField reads the field at its relocated offset in the object at p.
func (b *Builder) LoadField(t Type, k MemKind, p *Value, field CORERef) *Value {
	v := b.Emit(OpLoad, t, p)
	v.Mem, v.CORE = k, field
	return v
}

// Store writes the low bits of x at p + off.
func (b *Builder) Store(k MemKind, p *Value, off int, x *Value) {
	p, off = fold(p, off)
	v := b.Emit(OpStore, TVoid, p, x)
	v.Mem, v.Imm = k, int64(off)
}

// AtomicAdd adds x to the word at p + off.
func (b *Builder) AtomicAdd(k MemKind, p *Value, off int, x *Value) {
	p, off = fold(p, off)
	v := b.Emit(OpAtomicAdd, TVoid, p, x)
	v.Mem, v.Imm = k, int64(off)
}

// fold moves the offset of an access into a slot address, so that an access of a slot
// prints in one form.
func fold(p *Value, off int) (*Value, int) {
	if p.Op == OpSlotAddr && off != 0 {
		return SlotAddr(p.Slot, int(p.Imm)+off), 0
	}
	return p, off
}

// Zero stores zeros over n bytes at p, a multiple of p's alignment align (1, 2, 4, 8).
func (b *Builder) Zero(p *Value, n, align int) {
	for off := 0; off < n; {
		w := align
		for w > n-off {
			w /= 2
		}
		b.Store(MemKindOf(w, false), p, off, Const(0))
		off += w
	}
}

// Call calls a BPF helper by its name without "bpf_".
func (b *Builder) Call(helper string, result Type, args ...*Value) *Value {
	v := b.Emit(OpCall, result, args...)
	v.Sym = helper
	return v
}

// CallSub calls a static subprogram.
func (b *Builder) CallSub(name string, args ...*Value) *Value {
	v := b.Emit(OpCallSub, TI64, args...)
	v.Sym = name
	return v
}

// CORE returns a relocated constant.
func (b *Builder) CORE(k COREKind, ref CORERef) *Value {
	v := b.Emit(OpCORE, TI64)
	v.Kind, v.CORE = k, ref
	return v
}

// Global loads from a global.
func (b *Builder) Global(k MemKind, name string, off int) *Value {
	v := b.Emit(OpGlobal, TI64)
	v.Mem, v.Sym, v.Imm = k, name, int64(off)
	return v
}

// GlobalAddr returns the address of byte off of a global; t names its section: TMapVal(".bss", false).
func (b *Builder) GlobalAddr(t Type, name string, off int) *Value {
	v := b.Emit(OpGlobalAddr, t)
	v.Sym, v.Imm = name, int64(off)
	return v
}

// Jump ends the point's block, which must have no terminator.
func (b *Builder) Jump(to *Block, args ...*Value) {
	b.open()
	b.block.Jump(to, b.Pos, args...)
}

// Br ends the point's block with a branch without edge arguments.
func (b *Builder) Br(c *Value, yes, no *Block) {
	b.open()
	b.block.Br(c, Edge{To: yes}, Edge{To: no}, b.Pos)
}

// Ret ends the point's block with a return.
func (b *Builder) Ret(v *Value) {
	b.open()
	b.block.Ret(v, b.Pos)
}

func (b *Builder) open() {
	if b.block.Term.Kind != NoTerm || b.i != len(b.block.Values) {
		panic("BUG: builder ends a block with values after the point")
	}
}

// Split cuts the block at the point and leaves the point at the end of the
// first part, which has no terminator. It returns the second part.
func (b *Builder) Split() *Block {
	rest := SplitBlock(b.block, b.i)
	b.i = len(b.block.Values)
	return rest
}

// enter moves the point to the start of blk.
func (b *Builder) enter(blk *Block) { b.block, b.i = blk, 0 }

// If runs then in a block taken when c is true and els (may be nil) in one taken when it is
// false; the point moves to the join. A branch that ends its block itself (Ret, Jump) does
// not reach the join; when neither does, the point is in an unreachable block.
func (b *Builder) If(c *Value, then, els func()) { b.cond(c, then, els, false, false) }

// IfCold is like If, but lays the true side out last: for paths that are rarely taken.
func (b *Builder) IfCold(c *Value, then func()) { b.cond(c, then, nil, true, false) }

// IfElseCold is like If, but lays the false side out last.
func (b *Builder) IfElseCold(c *Value, then, els func()) { b.cond(c, then, els, false, true) }

func (b *Builder) cond(c *Value, then, els func(), thenCold, elsCold bool) {
	rest := b.Split()
	from := b.block
	yes := Edge{To: b.Func().NewBlockAfter(from)}
	yes.To.Cold = yes.To.Cold || thenCold
	no := Edge{To: rest}
	if els != nil {
		no.To = b.Func().NewBlockAfter(yes.To)
		no.To.Cold = no.To.Cold || elsCold
	}
	from.Br(c, yes, no, b.Pos)
	b.arm(yes.To, rest, then)
	if els != nil {
		b.arm(no.To, rest, els)
	}
	b.enter(rest)
}

func (b *Builder) arm(blk, rest *Block, body func()) {
	b.enter(blk)
	body()
	if b.block.Term.Kind == NoTerm {
		b.Jump(rest)
	}
}

// IfValue is like If, and returns a value of type t: a parameter of the block where both sides
// meet.
func (b *Builder) IfValue(c *Value, t Type, then, els func() *Value) *Value {
	var yes, no *Value
	var yesEnd, noEnd *Block
	b.cond(c, func() { yes = then(); yesEnd = b.block }, func() { no = els(); noEnd = b.block }, false, false)
	p := b.block.AddParam(t)
	b.pass(yesEnd, yes)
	b.pass(noEnd, no)
	return p
}

// pass passes the result of an arm that ended in from to the join; an arm that ended itself
// passes none.
func (b *Builder) pass(from *Block, result *Value) {
	for i := range from.Term.Succs {
		if e := &from.Term.Succs[i]; e.To == b.block {
			e.Args = append(slices.Clone(e.Args), result)
		}
	}
}

// Loop runs body n times (n constant, at least 1) with the counter as its
// argument: a bounded loop, which the kernel accepts since 5.3.
func (b *Builder) Loop(n int64, body func(i *Value)) {
	rest := b.Split()
	head := b.Func().NewBlockAfter(b.block)
	i := head.AddParam(TI64)
	b.Jump(head, Const(0))
	b.enter(head)
	body(i)
	if b.block.Term.Kind == NoTerm {
		next := b.AddImm(i, 1)
		c := b.ICmp(ULT, next, Const(n))
		b.block.Br(c, Edge{To: head, Args: []*Value{next}}, Edge{To: rest}, b.Pos)
	}
	b.enter(rest)
}

// longBlock is a number of values.
const longBlock = 64

// Rewrite offers each placed value of f to lower, in order of f.Blocks, with a builder at
// the value and with its position. When lower replaces the value (true), the value is
// dropped and its uses become uses of the result (nil for void ops). What lower emits is
// not offered again. Operands of the offered value that were replaced before are already
// substituted. lower does not look at what follows the value in its block.
func Rewrite(f *Func, lower func(b *Builder, v *Value) (result *Value, taken bool)) {
	subst := Subst{}
	for _, blk := range slices.Clone(f.Blocks) {
		b := &Builder{block: blk}
		// Inserting into a long block, or splitting it, moves all that follows, so the
		// values are moved one by one.
		var waiting []*Value
		if len(blk.Values) > longBlock {
			waiting, blk.Values = blk.Values, nil
		}
		for {
			if len(waiting) > 0 && b.i == len(b.block.Values) {
				b.block.AppendValue(waiting[0])
				waiting = waiting[1:]
			}
			if b.i == len(b.block.Values) {
				break
			}
			v := b.block.Values[b.i]
			for j := range v.Args {
				v.Args[j] = subst.Of(v.Args[j])
			}
			at, i := b.block, b.i
			b.Pos = v.Pos
			result, taken := lower(b, v)
			if !taken {
				if b.block != at || b.i != i {
					panic("BUG: lowering emitted code for a value it did not replace: " + v.Text())
				}
				b.i++
				continue
			}
			if b.i >= len(b.block.Values) || b.block.Values[b.i] != v {
				panic("BUG: lowering moved the point away from the value it replaced: " + v.Text())
			}
			b.block.Remove(b.i) // the code for it was inserted before it
			if result != nil {
				subst[v] = result
			}
		}
	}
	subst.Apply(f)
}
