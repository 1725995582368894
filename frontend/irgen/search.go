package irgen

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/ir"
)

// textLength is strlen: what the kernel's copy counts, without the NUL.
func (f *fn) strlen(_ ast.Expr, c *check.Call) *ir.Value {
	more := 0
	if f.body.Type(c.Args[0]).Kind == types.Pointer {
		more = 1 // what is longer than a string counts one byte more
	}
	_, n := f.copyChars(c.Args[0], "text", 0, more)
	return n
}

// textRoom is the most bytes, with the NUL, that a string has, or one that a
// pointer leads to.
func (f *fn) textRoom(x ast.Expr) int {
	if t := f.body.Type(x); t.Kind != types.Pointer {
		return t.Size
	}
	return f.info.Config.MaxStrlen
}

// textAddr is where a string is, or what a pointer leads to.
func (f *fn) textAddr(x ast.Expr) *ir.Value {
	if f.body.Type(x).Kind == types.Pointer {
		return f.address(x)
	}
	return f.Cast(ir.TKAddr, f.addr(x))
}

// copyText copies a string to a slot of at least size bytes outside of the
// frame, where the kernel takes variable offsets; the size is a power of two. It
// gives the slot's address and the string's length without the NUL.
func (f *fn) copyText(x ast.Expr, name string, size int) (at, length *ir.Value) {
	return f.copyChars(x, name, size, 0)
}

// copyChars is copyText with a limit of so many bytes more.
func (f *fn) copyChars(x ast.Expr, name string, size, more int) (at, length *ir.Value) {
	if lit, ok := f.literal(x); ok {
		size = max(size, len(lit)+1)
	}
	capacity := f.textRoom(x) + more
	room := 8
	for room < max(size, capacity) {
		room *= 2
	}
	at = f.Slot(name, room, 8)
	at.Slot.Class = ir.Scratch
	limit := int64(capacity)
	n := f.Emit(ir.OpStr, ir.TI64, at, f.textAddr(x), ir.Const(limit))
	n.Imm = limit
	return at, f.forget(f.Select(f.ICmp(ir.SGT, n, ir.Const(0)), f.AddImm(n, -1), ir.Const(0)))
}

// forget returns x through memory whose content the kernel verifier does not track:
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

// memcmp is the difference of the first bytes (int8) that differ, 0 for none.
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
		if t := f.body.Type(x); t.Kind == types.String || t.Kind == types.Array || t.Kind == types.Struct {
			f.bytesOf(x, at[i], min(int(c.N), t.Size))
		} else {
			f.Store(ir.U64, at[i], 0, f.num(x)) // the lowest byte first
		}
	}
	head, next, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head, ir.Const(0))
	k := head.AddParam(ir.TI64)
	f.start(head, false)
	diff := f.Sub(f.Load(ir.S8, f.Add(at[0], k), 0), f.Load(ir.S8, f.Add(at[1], k), 0))
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

// find is the place of a string in another, -1 when it is not there.
func (f *fn) find(text, needle ast.Expr) *ir.Value {
	if lit, ok := f.literal(needle); ok && len(cString(lit)) >= 1 && len(cString(lit)) <= 8 {
		h, hn := f.copyText(text, "text", 0)
		return f.findWord(h, hn, cString(lit))
	}
	return f.findHash(text, needle)
}

// findHash finds a string by the method of Rabin and Karp: the hash of as many
// bytes as the needle has goes through the text, and where it is the needle's the
// bytes are compared. Each loop is as long as its text, without a branch inside,
// so that the kernel verifier walks about 15 instructions a byte. The hash is
// a polynomial in a random odd number, modulo 1<<64: what differs from the
// needle has its hash by chance only, and then the comparison fails and the text
// counts as one without the needle.
//
//	b = random | 1; h = 0; p = 1      for each byte c of the needle: h = h*b + c, p = p*b
//	w = 0                             for each place i of the text: w = w*b + text[i] - text[i-length]*p
//	                                  until w == h
func (f *fn) findHash(text, needle ast.Expr) *ir.Value {
	n, nn := f.copyText(needle, "needle", 0)
	before := n.Slot.Size // of zeros: what the first places of the text push out of the window
	whole, h, hn := f.copyTextBehind(text, before)
	b := f.forget(f.Or(f.random(), ir.Const(1)))

	hash := f.eachByte(n.Slot.Size, []*ir.Value{ir.Const(0), ir.Const(1)}, nn, func(k *ir.Value, i int, v []*ir.Value) []*ir.Value {
		// Behind the end nothing changes.
		in := f.AShr(f.Sub(f.AddImm(k, int64(i)), nn), ir.Const(63))
		c := f.Load(ir.U8, f.Add(n, k), i)
		h, p := f.Add(f.Binary(ir.OpMul, v[0], b), c), f.Binary(ir.OpMul, v[1], b)
		return []*ir.Value{f.Add(v[0], f.And(in, f.Sub(h, v[0]))), f.Add(v[1], f.And(in, f.Sub(p, v[1])))}
	})
	want, power := f.forget(hash[0]), f.forget(hash[1])

	back := f.forget(f.Sub(ir.Const(int64(before)), nn))
	room := h.Slot.Size - 8 // of whole, a power of two
	var old *ir.Value       // where the bytes lie that leave the window
	state := f.eachByte(room-before, []*ir.Value{ir.Const(0), ir.Const(0), ir.Const(1)}, hn, func(k *ir.Value, i int, v []*ir.Value) []*ir.Value {
		if i == 0 {
			old = f.Add(whole, f.And(f.Add(k, back), ir.Const(int64(room-1))))
		}
		w := f.Add(f.Binary(ir.OpMul, v[0], b), f.Load(ir.U8, f.Add(h, k), i))
		w = f.Sub(w, f.Binary(ir.OpMul, f.Load(ir.U8, old, i), power))
		on := f.And(v[2], f.notZero(f.Binary(ir.OpXor, w, want)))
		return []*ir.Value{w, f.Add(v[1], on), on}
	}, 2)
	last, on := f.forget(state[1]), f.forget(state[2])
	at := f.forget(f.AddImm(f.Sub(last, nn), 1)) // the first byte of the window

	from := f.forget(f.AddImm(f.And(at, ir.Const(int64(room-1))), int64(before)))
	differ := f.eachByte(n.Slot.Size, []*ir.Value{ir.Const(0)}, nn, func(k *ir.Value, i int, v []*ir.Value) []*ir.Value {
		if i == 0 {
			old = f.Add(whole, f.And(f.Add(from, k), ir.Const(int64(room-1))))
		}
		in := f.AShr(f.Sub(f.AddImm(k, int64(i)), nn), ir.Const(63))
		x := f.Binary(ir.OpXor, f.Load(ir.U8, old, i), f.Load(ir.U8, f.Add(n, k), i))
		return []*ir.Value{f.Or(v[0], f.And(x, in))}
	})
	// Found before the text's end, at no place before its start, and really so.
	miss := f.Or(f.Or(on, differ[0]), f.Or(f.Binary(ir.OpXor, f.less(last, hn), ir.Const(1)), f.LShr(at, ir.Const(63))))
	place := f.Select(f.ICmp(ir.NE, miss, ir.Const(0)), ir.Const(-1), at)
	// Where the result has ranges, the verifiers of 5.10 and 6.1 walk each later
	// search once for each of them.
	return f.forget(f.Select(f.ICmp(ir.EQ, nn, ir.Const(0)), ir.Const(0), place))
}

// random is 64 random bits.
func (f *fn) random() *ir.Value {
	high := f.Shl(f.Emit(ir.OpRand, ir.TI64), ir.Const(32))
	return f.Or(high, f.Emit(ir.OpRand, ir.TI64))
}

// copyTextBehind copies a string to a slot behind some zero bytes, a power of
// two, with 8 more bytes at its end. It gives the slot's address, the string's,
// and its length. The slot without the last 8 bytes has a power of two.
func (f *fn) copyTextBehind(x ast.Expr, before int) (whole, at, length *ir.Value) {
	capacity := f.textRoom(x)
	if lit, ok := f.literal(x); ok {
		capacity = max(capacity, len(lit)+1)
	}
	room := 8
	for room < before+capacity {
		room *= 2
	}
	whole = f.Slot("text", room+8, 8)
	whole.Slot.Class = ir.Scratch
	f.zero(whole, before)
	at = f.AddImm(whole, int64(before))
	limit := int64(f.textRoom(x))
	n := f.Emit(ir.OpStr, ir.TI64, at, f.textAddr(x), ir.Const(limit))
	n.Imm = limit
	return whole, at, f.forget(f.Select(f.ICmp(ir.SGT, n, ir.Const(0)), f.AddImm(n, -1), ir.Const(0)))
}

// eachByte is a loop over the bytes of a text: up to length, which is less than
// size, in rounds of stepsOfRound. step makes of the values v, with the text's
// byte k + i at hand, those of the next step. With an index in until the loop
// ends when that value is 0.
func (f *fn) eachByte(size int, v []*ir.Value, length *ir.Value, step func(k *ir.Value, i int, v []*ir.Value) []*ir.Value, until ...int) []*ir.Value {
	head, body, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head, append([]*ir.Value{ir.Const(0)}, v...)...)
	k := head.AddParam(ir.TI64)
	now := make([]*ir.Value, len(v))
	for i := range v {
		now[i] = head.AddParam(ir.TI64)
	}
	f.start(head, false)
	going := f.less(k, length)
	for _, i := range until {
		going = f.And(going, now[i])
	}
	// One branch for all ends: the kernel knows that it ends, for k grows.
	stop := f.Binary(ir.OpXor, going, ir.Const(1))
	f.branch(f.ICmp(ir.ULT, f.Or(k, f.Shl(stop, ir.Const(32))), ir.Const(int64(size))), body, rest)
	f.start(body, true)
	next := now
	for i := range stepsOfRound {
		next = step(k, i, next)
	}
	f.jump(head, append([]*ir.Value{f.AddImm(k, stepsOfRound)}, next...)...)
	f.seal(head)
	f.start(rest, true)
	return now
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
	// pos is the place of the word's last byte, which may be behind the text's end.
	found := f.And(f.Binary(ir.OpXor, going, ir.Const(1)), f.less(pos, length))
	return f.forget(f.Select(f.ICmp(ir.NE, found, ir.Const(0)), f.AddImm(pos, -int64(len(word)-1)), ir.Const(-1)))
}

// notZero is 1 when x is not 0, without a branch.
func (f *fn) notZero(x *ir.Value) *ir.Value {
	return f.LShr(f.Or(x, f.Sub(ir.Const(0), x)), ir.Const(63))
}

// stepsOfRound is how many steps of a search are in the body of its loop: the
// kernel verifier of 5.10 takes a long time for loops of many rounds.
const stepsOfRound = 8

// less is 1 when x < y, else 0, for numbers below 2^32, without a branch.
func (f *fn) less(x, y *ir.Value) *ir.Value {
	return f.LShr(f.Sub(x, y), ir.Const(63))
}
