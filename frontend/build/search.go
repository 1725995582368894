package build

import (
	"strings"

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
	return at, f.forget(f.Select(f.ICmp(ir.SGT, n, ir.Const(0)), f.AddImm(n, -1), ir.Const(0)))
}

// forget gives x through memory whose content the kernel verifier does not track:
// it then walks what follows once, not for each way that x was computed.
func (f *fn) forget(x *ir.Value) *ir.Value {
	slot := f.Slot("known", 8, 8)
	slot.Slot.Class = ir.Scratch
	f.Store(ir.U64, slot, 0, x)
	return f.Load(ir.U64, slot, 0)
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
	if lit, ok := f.literal(needle); ok && len(cString(lit)) >= 1 && len(cString(lit)) <= 8 {
		return f.findWord(h, hn, cString(lit))
	}
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

// cString is a text up to its first NUL.
func cString(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return text
}

// findWord finds a word of 1 to 8 bytes: the bytes of the text are shifted
// through a register that is compared with it, without a branch but the loop's.
func (f *fn) findWord(text, length *ir.Value, word string) *ir.Value {
	var want, mask uint64
	for i := range len(word) {
		want, mask = want<<8|uint64(word[i]), mask<<8|0xff
	}
	head, body, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head, ir.Const(0), ir.Const(0), ir.Const(0), ir.Const(1))
	k, last, pos, going := head.AddParam(ir.TI64), head.AddParam(ir.TI64), head.AddParam(ir.TI64), head.AddParam(ir.TI64)
	f.start(head, false)
	stop := f.Binary(ir.OpXor, f.And(going, f.less(k, length)), ir.Const(1))
	f.branch(f.ICmp(ir.ULT, f.Or(k, f.Shl(stop, ir.Const(32))), ir.Const(int64(text.Slot.Size))), body, rest)
	f.start(body, true)
	at, w, n, on := f.Add(text, k), last, pos, going
	for i := range stepsOfRound {
		w = f.And(f.Or(f.Shl(w, ir.Const(8)), f.Load(ir.U8, at, i)), ir.Const(int64(mask)))
		on = f.And(on, f.notZero(f.Binary(ir.OpXor, w, ir.Const(int64(want)))))
		n = f.Add(n, on)
	}
	f.jump(head, f.AddImm(k, stepsOfRound), w, n, on)
	f.seal(head)
	f.start(rest, true)
	// pos is the place of the word's last byte, which may lie behind the text's end.
	found := f.And(f.Binary(ir.OpXor, going, ir.Const(1)), f.less(pos, length))
	return f.Select(f.ICmp(ir.NE, found, ir.Const(0)), f.AddImm(pos, -int64(len(word)-1)), ir.Const(-1))
}

// notZero is 1 when x is not 0, without a branch.
func (f *fn) notZero(x *ir.Value) *ir.Value {
	return f.LShr(f.Or(x, f.Sub(ir.Const(0), x)), ir.Const(63))
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
	going := f.going(state, most, full)
	// One branch for both ends: the kernel knows that it ends, for k grows.
	stop := f.Binary(ir.OpXor, going, ir.Const(1))
	f.branch(f.ICmp(ir.ULT, f.Or(k, f.Shl(stop, ir.Const(32))), ir.Const(int64(rounds))), body, rest)
	f.start(body, true)
	for range stepsOfRound {
		f.searchStep(state, text, needle, most, full, fail, fill)
	}
	f.jump(head, f.AddImm(k, stepsOfRound))
	f.seal(head)
	f.start(rest, true)
}

// stepsOfRound is how many steps of a search stand in the body of its loop: the
// kernel verifier of 5.10 takes a long time for loops of many rounds.
const stepsOfRound = 8

// going is 1 while i < most and j < full.
func (f *fn) going(state, most, full *ir.Value) *ir.Value {
	return f.And(f.less(f.Load(ir.U64, state, 0), most), f.less(f.Load(ir.U64, state, 8), full))
}

// searchStep is one step; it changes nothing behind the end.
func (f *fn) searchStep(state, text, needle, most, full, fail *ir.Value, fill bool) {
	going := f.Sub(ir.Const(0), f.going(state, most, full)) // all ones or zeros
	i, j := f.Load(ir.U64, state, 0), f.Load(ir.U64, state, 8)
	at := func(p, x *ir.Value) *ir.Value {
		return f.Load(ir.U8, f.Add(p, f.And(x, ir.Const(int64(p.Slot.Size-1)))), 0)
	}
	entry := func(x *ir.Value) *ir.Value {
		return f.Add(fail, f.And(f.Shl(x, ir.Const(1)), ir.Const(int64(fail.Slot.Size-2))))
	}
	same := f.isZero(f.Binary(ir.OpXor, at(text, i), at(needle, j)))
	start := f.isZero(j)
	back := f.Load(ir.U16, entry(f.AddImm(j, -1)), 0)
	taken := f.Sub(ir.Const(0), same)
	other := f.And(f.Binary(ir.OpXor, taken, ir.Const(-1)), f.Sub(start, ir.Const(1)))
	next := f.Or(f.And(taken, f.AddImm(j, 1)), f.And(other, back))
	if fill { // where i stays it is written again; behind the end no one reads it
		f.Store(ir.U16, entry(i), 0, next)
	}
	f.Store(ir.U64, state, 8, f.Or(f.And(going, next), f.And(f.Binary(ir.OpXor, going, ir.Const(-1)), j)))
	f.Store(ir.U64, state, 0, f.Add(i, f.And(going, f.Or(same, start))))
}

// less is 1 when x < y, else 0, for numbers below 2^32, without a branch.
func (f *fn) less(x, y *ir.Value) *ir.Value {
	return f.LShr(f.Sub(x, y), ir.Const(63))
}

// isZero is 1 when x, below 2^32, is 0, without a branch.
func (f *fn) isZero(x *ir.Value) *ir.Value {
	return f.LShr(f.AddImm(x, -1), ir.Const(63))
}
