// SPDX-License-Identifier: Apache-2.0

package passes

import "btc/ir"

// copyString copies a string, of which capacity bytes are read, to a slot of at least
// size bytes in scratch; the slot's size is a power of two. It returns the slot's
// address and the string's length without the NUL.
func (l *lowering) copyString(from *ir.Value, capacity int64, name string, size int) (at, length *ir.Value) {
	at = l.scratch(name, powerOfTwo(max(size, int(capacity))))
	return at, l.readText(at, from, capacity)
}

// readText reads a string and returns its length without the NUL, as a number of
// which the kernel's verifier knows nothing.
func (l *lowering) readText(to, from *ir.Value, capacity int64) *ir.Value {
	n := l.Emit(ir.OpStr, ir.TI64, to, from, ir.Const(capacity))
	n.Imm = capacity
	return l.forget(l.Select(l.ICmp(ir.SGT, n, ir.Const(0)), l.AddImm(n, -1), ir.Const(0)))
}

// powerOfTwo is the smallest power of two that is at least n and 8.
func powerOfTwo(n int) int {
	room := 8
	for room < n {
		room *= 2
	}
	return room
}

// lowerStrLen counts what the kernel copies.
func lowerStrLen(l *lowering, v *ir.Value) *ir.Value {
	_, n := l.copyString(v.Args[0], v.Imm, "text", 0)
	return n
}

// lowerStrConcat writes both strings one after the other to scratch, where the
// second may begin anywhere, and what fits from there.
func lowerStrConcat(l *lowering, v *ir.Value) *ir.Value {
	both, n := l.copyString(v.Args[1], v.Args[2].Imm, "both", 2*int(v.Imm))
	room := both.Slot.Size / 2
	second, _ := l.copyString(v.Args[3], v.Args[4].Imm, "second", 0)
	at := l.Add(both, l.And(n, ir.Const(int64(room-1))))
	l.Call("probe_read_kernel_str", ir.TI64, at, ir.Const(int64(min(room, second.Slot.Size))), second)
	l.Emit(ir.OpStr, ir.TI64, v.Args[0], l.Cast(ir.TKAddr, both), ir.Const(v.Imm)).Imm = v.Imm
	return nil
}

// wordLength is the length of literals that a register holds.
const wordLength = 8

func lowerStrFind(l *lowering, v *ir.Value) *ir.Value {
	switch n := len(v.Sym); {
	case n == 0:
		return ir.Const(0)
	case n <= wordLength:
		text, length := l.copyString(v.Args[0], v.Args[1].Imm, "text", 0)
		return l.findWord(text, length, v.Sym)
	}
	size := len(v.Sym) + 1
	lit := l.Slot("str", size, 1)
	s := l.Emit(ir.OpStrLit, ir.TVoid, lit)
	s.Sym, s.Imm = v.Sym, int64(size)
	return l.findHash(v.Args[0], v.Args[1].Imm, l.Cast(ir.TKAddr, lit), int64(size))
}

func lowerStrFindMem(l *lowering, v *ir.Value) *ir.Value {
	return l.findHash(v.Args[0], v.Args[1].Imm, v.Args[2], v.Args[3].Imm)
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
func (l *lowering) findHash(text *ir.Value, capacity int64, needle *ir.Value, needleCapacity int64) *ir.Value {
	n, nn := l.copyString(needle, needleCapacity, "needle", 0)
	before := n.Slot.Size // of zeros: what the first places of the text push out of the window
	whole, h, hn := l.copyTextBehind(text, capacity, before)
	b := l.forget(l.Or(l.random(), ir.Const(1)))

	hash := l.eachByte(
		n.Slot.Size,
		[]*ir.Value{ir.Const(0), ir.Const(1)},
		nn,
		func(k *ir.Value, i int, v []*ir.Value) []*ir.Value {
			// Behind the end nothing changes.
			in := l.AShr(l.Sub(l.AddImm(k, int64(i)), nn), ir.Const(63))
			c := l.Load(ir.U8, l.Add(n, k), i)
			h, p := l.Add(l.Binary(ir.OpMul, v[0], b), c), l.Binary(ir.OpMul, v[1], b)
			return []*ir.Value{l.Add(v[0], l.And(in, l.Sub(h, v[0]))), l.Add(v[1], l.And(in, l.Sub(p, v[1])))}
		},
	)
	want, power := l.forget(hash[0]), l.forget(hash[1])

	back := l.forget(l.Sub(ir.Const(int64(before)), nn))
	room := h.Slot.Size - 8 // of whole, a power of two
	var old *ir.Value       // where the bytes lie that leave the window
	state := l.eachByte(
		room-before,
		[]*ir.Value{ir.Const(0), ir.Const(0), ir.Const(1)},
		hn,
		func(k *ir.Value, i int, v []*ir.Value) []*ir.Value {
			if i == 0 {
				old = l.Add(whole, l.And(l.Add(k, back), ir.Const(int64(room-1))))
			}
			w := l.Add(l.Binary(ir.OpMul, v[0], b), l.Load(ir.U8, l.Add(h, k), i))
			w = l.Sub(w, l.Binary(ir.OpMul, l.Load(ir.U8, old, i), power))
			on := l.And(v[2], l.notZero(l.Binary(ir.OpXor, w, want)))
			return []*ir.Value{w, l.Add(v[1], on), on}
		},
		2,
	)
	last, on := l.forget(state[1]), l.forget(state[2])
	at := l.forget(l.AddImm(l.Sub(last, nn), 1)) // the first byte of the window

	from := l.forget(l.AddImm(l.And(at, ir.Const(int64(room-1))), int64(before)))
	differ := l.eachByte(
		n.Slot.Size,
		[]*ir.Value{ir.Const(0)},
		nn,
		func(k *ir.Value, i int, v []*ir.Value) []*ir.Value {
			if i == 0 {
				old = l.Add(whole, l.And(l.Add(from, k), ir.Const(int64(room-1))))
			}
			in := l.AShr(l.Sub(l.AddImm(k, int64(i)), nn), ir.Const(63))
			x := l.Binary(ir.OpXor, l.Load(ir.U8, old, i), l.Load(ir.U8, l.Add(n, k), i))
			return []*ir.Value{l.Or(v[0], l.And(x, in))}
		},
	)
	// Found before the text's end, at no place before its start, and really so.
	miss := l.Or(l.Or(on, differ[0]), l.Or(l.Binary(ir.OpXor, l.less(last, hn), ir.Const(1)), l.LShr(at, ir.Const(63))))
	place := l.Select(l.ICmp(ir.NE, miss, ir.Const(0)), ir.Const(-1), at)
	// Where the result has ranges, the verifiers of 5.10 and 6.1 walk each later
	// search once for each of them.
	return l.forget(l.Select(l.ICmp(ir.EQ, nn, ir.Const(0)), ir.Const(0), place))
}

// random is 64 random bits.
func (l *lowering) random() *ir.Value {
	high := l.Shl(l.Emit(ir.OpRand, ir.TI64), ir.Const(32))
	return l.Or(high, l.Emit(ir.OpRand, ir.TI64))
}

// copyTextBehind copies a string to a slot in scratch after some zero bytes, a power
// of two, with 8 more bytes at its end. It returns the slot's address, the string's,
// and its length. The size of the slot without the last 8 bytes is a power of two.
func (l *lowering) copyTextBehind(from *ir.Value, capacity int64, before int) (whole, at, length *ir.Value) {
	whole = l.scratch("text", powerOfTwo(before+int(capacity))+8)
	l.Emit(ir.OpMemZero, ir.TVoid, whole).Imm = int64(before)
	at = l.AddImm(whole, int64(before))
	return whole, at, l.readText(at, from, capacity)
}

// eachByte is a loop over the bytes of a text: up to length, which is less than
// size, in rounds of stepsOfRound. step makes of the values v, with the text's
// byte k + i at hand, those of the next step. With an index in until the loop
// ends when that value is 0.
func (l *lowering) eachByte(
	size int,
	v []*ir.Value,
	length *ir.Value,
	step func(k *ir.Value, i int, v []*ir.Value) []*ir.Value,
	until ...int,
) []*ir.Value {
	rest := l.Split()
	head := l.Func().NewBlockAfter(l.Block())
	body := l.Func().NewBlockAfter(head)
	l.Jump(head, append([]*ir.Value{ir.Const(0)}, v...)...)
	k := head.AddParam(ir.TI64)
	now := make([]*ir.Value, len(v))
	for i := range v {
		now[i] = head.AddParam(ir.TI64)
	}
	l.goOn(head)
	going := l.less(k, length)
	for _, i := range until {
		going = l.And(going, now[i])
	}
	// One branch for all ends: the kernel knows that it ends, for k grows.
	stop := l.Binary(ir.OpXor, going, ir.Const(1))
	l.Br(l.ICmp(ir.ULT, l.Or(k, l.Shl(stop, ir.Const(32))), ir.Const(int64(size))), body, rest)
	l.goOn(body)
	next := now
	for i := range stepsOfRound {
		next = step(k, i, next)
	}
	l.Jump(head, append([]*ir.Value{l.AddImm(k, stepsOfRound)}, next...)...)
	l.goOn(rest)
	return now
}

// findWord finds a word of 1 to 8 bytes: the bytes of the text are shifted
// through a register that is compared with it, without a branch but the loop's.
func (l *lowering) findWord(text, length *ir.Value, word string) *ir.Value {
	var want, mask uint64
	for i := range len(word) {
		want, mask = want<<8|uint64(word[i]), mask<<8|0xff
	}
	rest := l.Split()
	head := l.Func().NewBlockAfter(l.Block())
	body := l.Func().NewBlockAfter(head)
	l.Jump(head, ir.Const(0), ir.Const(0), ir.Const(0), ir.Const(1))
	k, last, pos, going := head.AddParam(
		ir.TI64,
	), head.AddParam(
		ir.TI64,
	), head.AddParam(
		ir.TI64,
	), head.AddParam(
		ir.TI64,
	)
	l.goOn(head)
	stop := l.Binary(ir.OpXor, l.And(going, l.less(k, length)), ir.Const(1))
	l.Br(l.ICmp(ir.ULT, l.Or(k, l.Shl(stop, ir.Const(32))), ir.Const(int64(text.Slot.Size))), body, rest)
	l.goOn(body)
	at, w, n, on := l.Add(text, k), last, pos, going
	for i := range stepsOfRound {
		w = l.And(l.Or(l.Shl(w, ir.Const(8)), l.Load(ir.U8, at, i)), ir.Const(int64(mask)))
		on = l.And(on, l.notZero(l.Binary(ir.OpXor, w, ir.Const(int64(want)))))
		n = l.Add(n, on)
	}
	l.Jump(head, l.AddImm(k, stepsOfRound), w, n, on)
	l.goOn(rest)
	// pos is the place of the word's last byte, which may be after the end of the text.
	found := l.And(l.Binary(ir.OpXor, going, ir.Const(1)), l.less(pos, length))
	return l.forget(l.Select(l.ICmp(ir.NE, found, ir.Const(0)), l.AddImm(pos, -int64(len(word)-1)), ir.Const(-1)))
}

// notZero is 1 when x is not 0, without a branch.
func (l *lowering) notZero(x *ir.Value) *ir.Value {
	return l.LShr(l.Or(x, l.Sub(ir.Const(0), x)), ir.Const(63))
}

// stepsOfRound is how many steps of a search are in the body of its loop: the
// kernel verifier of 5.10 takes a long time for loops of many rounds.
const stepsOfRound = 8

// less is 1 when x < y, else 0, for numbers below 2^32, without a branch.
func (l *lowering) less(x, y *ir.Value) *ir.Value {
	return l.LShr(l.Sub(x, y), ir.Const(63))
}
