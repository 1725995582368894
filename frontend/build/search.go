package build

import (
	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/ir"
)

// textLength is strlen: what the kernel's copy counts, without the NUL.
func (f *fn) strlen(_ ast.Expr, c *check.Call) *ir.Value {
	_, n := f.copyText(c.Args[0], "text", 0)
	return n
}

// copyText copies a string to a slot of at least size bytes outside of the
// frame, where the kernel takes variable offsets; the size is a power of two. It
// gives the slot's address and the string's length without the NUL.
func (f *fn) copyText(x ast.Expr, name string, size int) (at, length *ir.Value) {
	if lit, ok := f.literal(x); ok {
		size = max(size, len(lit)+1)
	}
	capacity := f.body.Type(x).Size
	room := 8
	for room < max(size, capacity) {
		room *= 2
	}
	at = f.Slot(name, room, 8)
	at.Slot.Class = ir.Scratch
	limit := int64(capacity)
	n := f.Emit(ir.OpStr, ir.TI64, at, f.Cast(ir.TKAddr, f.addr(x)), ir.Const(limit))
	n.Imm = limit
	return at, f.Select(f.ICmp(ir.SGT, n, ir.Const(0)), f.AddImm(n, -1), ir.Const(0))
}

// concat writes one string and behind it another.
func (f *fn) concat(c *check.Call, dst *ir.Value, capacity int) {
	both, n := f.copyText(c.Args[0], "both", 2*capacity)
	room := both.Slot.Size / 2
	second, _ := f.copyText(c.Args[1], "second", 0)
	at := f.Add(both, f.And(n, ir.Const(int64(room-1))))
	f.Call("probe_read_kernel_str", ir.TI64, at, ir.Const(int64(min(room, second.Slot.Size))), second)
	f.Emit(ir.OpStr, ir.TI64, dst, f.Cast(ir.TKAddr, both), ir.Const(int64(capacity))).Imm = int64(capacity)
}

// memcmp is the difference of the first bytes that differ, 0 for none.
func (f *fn) memcmp(_ ast.Expr, c *check.Call) *ir.Value {
	if c.N == 0 {
		return ir.Const(0)
	}
	var at [2]*ir.Value
	for i, x := range c.Args {
		room := (int(c.N) + 7) / 8 * 8
		at[i] = f.Slot("bytes", room, 8)
		at[i].Slot.Class = ir.Scratch
		f.zero(at[i], room)
		f.bytesOf(x, at[i], min(int(c.N), f.body.Type(x).Size))
	}
	head, next, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head, ir.Const(0))
	k := head.AddParam(ir.TI64)
	f.start(head, false)
	diff := f.Sub(f.Load(ir.U8, f.Add(at[0], k), 0), f.Load(ir.U8, f.Add(at[1], k), 0))
	more := f.AddImm(k, 1)
	f.branch(f.ICmp(ir.EQ, diff, ir.Const(0)), next, rest)
	f.start(next, true)
	f.branch(f.ICmp(ir.ULT, more, ir.Const(c.N)), head, rest)
	again := next.Term.Succs
	again[0].Args = append(again[0].Args, more)
	f.seal(head)
	f.start(rest, true)
	return diff
}

func (f *fn) strstr(_ ast.Expr, c *check.Call) *ir.Value { return f.find(c.Args[0], c.Args[1]) }

func (f *fn) strcontains(_ ast.Expr, c *check.Call) *ir.Value {
	return f.BoolInt(f.ICmp(ir.SGE, f.find(c.Args[0], c.Args[1]), ir.Const(0)))
}

// find is the place of a string in another, -1 when it is not there, by the
// method of Knuth, Morris and Pratt: two loops whose number of rounds is linear
// in the capacities, without a branch inside. The positions live in memory,
// where the kernel verifier does not track them: each round then looks to it as
// the one before.
//
//	fail[0] = 0; i = 1; j = 0              while i < length of needle:
//	  needle[i] == needle[j]: j++, fail[i] = j, i++
//	  j == 0: fail[i] = 0, i++             else: j = fail[j-1]
//	i = 0; j = 0                           while i < length of text and j < length of needle:
//	  text[i] == needle[j]: i++, j++       j == 0: i++       else: j = fail[j-1]
func (f *fn) find(text, needle ast.Expr) *ir.Value {
	h, hn := f.copyText(text, "text", 0)
	n, nn := f.copyText(needle, "needle", 0)
	fail := f.Slot("fail", 2*n.Slot.Size, 8)
	state := f.Slot("place", 16, 8)
	fail.Slot.Class, state.Slot.Class = ir.Scratch, ir.Scratch

	f.Store(ir.U16, fail, 0, ir.Const(0))
	f.search(state, 1, 2*f.body.Type(needle).Size, n, n, nn, ir.Const(int64(2*n.Slot.Size)), fail, true)
	f.search(state, 0, 2*f.body.Type(text).Size, h, n, hn, nn, fail, false)
	i, j := f.Load(ir.U64, state, 0), f.Load(ir.U64, state, 8)
	return f.Select(f.ICmp(ir.EQ, j, nn), f.Sub(i, j), ir.Const(-1))
}

// search is one of the loops: it goes on while i < most and j < full, for at most
// rounds. fill says that it makes the table.
func (f *fn) search(state *ir.Value, first int64, rounds int, text, needle, most, full, fail *ir.Value, fill bool) {
	f.Store(ir.U64, state, 0, ir.Const(first))
	f.Store(ir.U64, state, 8, ir.Const(0))
	head, body, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head, ir.Const(0))
	k := head.AddParam(ir.TI64)
	f.start(head, false)
	i, j := f.Load(ir.U64, state, 0), f.Load(ir.U64, state, 8)
	going := f.And(f.less(i, most), f.less(j, full))
	// One branch for both ends: the kernel knows that it ends, for k grows.
	stop := f.Binary(ir.OpXor, going, ir.Const(1))
	f.branch(f.ICmp(ir.ULT, f.Or(k, f.Shl(stop, ir.Const(32))), ir.Const(int64(rounds))), body, rest)
	f.start(body, true)

	at := func(p, x *ir.Value) *ir.Value {
		return f.Load(ir.U8, f.Add(p, f.And(x, ir.Const(int64(p.Slot.Size-1)))), 0)
	}
	same := f.isZero(f.Binary(ir.OpXor, at(text, i), at(needle, j)))
	start := f.isZero(j)
	back := f.Load(ir.U16, f.Add(fail, f.And(f.Shl(f.AddImm(j, -1), ir.Const(1)), ir.Const(int64(fail.Slot.Size-2)))), 0)
	taken := f.Sub(ir.Const(0), same) // all ones or zeros
	other := f.And(f.Binary(ir.OpXor, taken, ir.Const(-1)), f.Sub(start, ir.Const(1)))
	next := f.Or(f.And(taken, f.AddImm(j, 1)), f.And(other, back))
	if fill { // harmless when i stays: it is written again
		f.Store(ir.U16, f.Add(fail, f.And(f.Shl(i, ir.Const(1)), ir.Const(int64(fail.Slot.Size-2)))), 0, next)
	}
	f.Store(ir.U64, state, 8, next)
	f.Store(ir.U64, state, 0, f.Add(i, f.Or(same, start)))
	f.jump(head, f.AddImm(k, 1))
	f.seal(head)
	f.start(rest, true)
}

// less is 1 when x < y, else 0, for numbers below 2^32, without a branch.
func (f *fn) less(x, y *ir.Value) *ir.Value {
	return f.LShr(f.Sub(x, y), ir.Const(63))
}

// isZero is 1 when x, below 2^32, is 0, without a branch.
func (f *fn) isZero(x *ir.Value) *ir.Value {
	return f.LShr(f.AddImm(x, -1), ir.Const(63))
}
