// SPDX-License-Identifier: Apache-2.0

package passes

import "btc/ir"

// copyString copies a string, of which capacity bytes are read, to a slot of at least
// size bytes in scratch; the slot's size is a power of two. It returns the slot's
// address and the string's length without the NUL.
func (l *lowering) copyString(from *ir.Value, capacity int64, name string, size int) (at, length *ir.Value) {
	at = l.scratch(name, powerOfTwo(max(size, int(capacity))))
	return at, l.readLength(at, from, capacity)
}

// readLength reads a string and returns its length without the NUL, as a number that is unknown to
// the kernel's verifier.
func (l *lowering) readLength(to, from *ir.Value, capacity int64) *ir.Value {
	n := l.Emit(ir.OpStr, ir.TI64, to, from, ir.Const(capacity))
	n.Imm = capacity
	return l.forget(l.Select(l.ICmp(ir.SGT, n, ir.Const(0)), l.AddImm(n, -1), ir.Const(0)))
}

// powerOfTwo returns the smallest power of two that is at least n and 8.
func powerOfTwo(n int) int {
	room := 8
	for room < n {
		room *= 2
	}
	return room
}

// lowerStrLen has the kernel copy the string, which returns the length.
func lowerStrLen(l *lowering, v *ir.Value) *ir.Value {
	_, n := l.copyString(v.Args[0], v.Imm, "text", 0)
	return n
}

// lowerStrConcat concatenates the strings in scratch, where the second may begin at a variable
// offset, and copies the result, cut to its capacity.
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

// findHash emits a string search with a rolling hash (Rabin-Karp): it computes the hash of each
// window of the text that is as long as the needle, and compares the bytes of the first window
// with the needle's hash. The loops have no branches inside, so that the kernel verifier walks
// about 15 instructions a byte. The hash is a polynomial in a random odd number, modulo 1<<64. If
// another string has the needle's hash by chance, the comparison fails and the needle counts as
// not found.
//
//	b = random | 1; h = 0; p = 1      for each byte c of the needle: h = h*b + c, p = p*b
//	w = 0                             for each place i of the text: w = w*b + text[i] - text[i-length]*p
//	                                  until w == h
func (l *lowering) findHash(text *ir.Value, capacity int64, needle *ir.Value, needleCapacity int64) *ir.Value {
	n, nn := l.copyString(needle, needleCapacity, "needle", 0)
	before := n.Slot.Size // zero bytes before the text, which leave the window first
	buffer, h, hn := l.copyPadded(text, capacity, before)
	b := l.forget(l.Or(l.random(), ir.Const(1)))

	hash := l.eachByte(
		n.Slot.Size,
		[]*ir.Value{ir.Const(0), ir.Const(1)},
		nn,
		func(k *ir.Value, i int, v []*ir.Value) []*ir.Value {
			// Past the end nothing changes.
			in := l.AShr(l.Sub(l.AddImm(k, int64(i)), nn), ir.Const(63))
			c := l.Load(ir.U8, l.Add(n, k), i)
			h, p := l.Add(l.Binary(ir.OpMul, v[0], b), c), l.Binary(ir.OpMul, v[1], b)
			return []*ir.Value{l.Add(v[0], l.And(in, l.Sub(h, v[0]))), l.Add(v[1], l.And(in, l.Sub(p, v[1])))}
		},
	)
	want, power := l.forget(hash[0]), l.forget(hash[1])

	shift := l.forget(l.Sub(ir.Const(int64(before)), nn))
	room := h.Slot.Size - 8 // size of the text's slot, a power of two
	var old *ir.Value       // address of the bytes that leave the window
	state := l.eachByte(
		room-before,
		[]*ir.Value{ir.Const(0), ir.Const(0), ir.Const(1)},
		hn,
		func(k *ir.Value, i int, v []*ir.Value) []*ir.Value {
			if i == 0 {
				old = l.Add(buffer, l.And(l.Add(k, shift), ir.Const(int64(room-1))))
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
				old = l.Add(buffer, l.And(l.Add(from, k), ir.Const(int64(room-1))))
			}
			in := l.AShr(l.Sub(l.AddImm(k, int64(i)), nn), ir.Const(63))
			x := l.Binary(ir.OpXor, l.Load(ir.U8, old, i), l.Load(ir.U8, l.Add(n, k), i))
			return []*ir.Value{l.Or(v[0], l.And(x, in))}
		},
	)
	// A match must end before the text's end, begin at or after its start, and have equal bytes.
	miss := l.Or(l.Or(on, differ[0]), l.Or(l.Binary(ir.OpXor, l.less(last, hn), ir.Const(1)), l.LShr(at, ir.Const(63))))
	found := l.Select(l.ICmp(ir.NE, miss, ir.Const(0)), ir.Const(-1), at)
	// If the verifier knew ranges of the result, those of 5.10 and 6.1 would walk each later
	// search once for each range.
	return l.forget(l.Select(l.ICmp(ir.EQ, nn, ir.Const(0)), ir.Const(0), found))
}

// random emits a value of 64 random bits.
func (l *lowering) random() *ir.Value {
	high := l.Shl(l.Emit(ir.OpRand, ir.TI64), ir.Const(32))
	return l.Or(high, l.Emit(ir.OpRand, ir.TI64))
}

// copyPadded copies a string to a slot in scratch, with before zero bytes (a power of two) in
// front of it and 8 more bytes at the slot's end. It returns the addresses of the slot and of the
// string, and the string's length. The size of the slot without the last 8 bytes is a power of
// two.
func (l *lowering) copyPadded(from *ir.Value, capacity int64, before int) (buffer, at, length *ir.Value) {
	buffer = l.scratch("text", powerOfTwo(before+int(capacity))+8)
	l.Emit(ir.OpMemZero, ir.TVoid, buffer).Imm = int64(before)
	at = l.AddImm(buffer, int64(before))
	return buffer, at, l.readLength(at, from, capacity)
}

// eachByte emits a loop over the bytes of a text up to length, which is less than size, unrolled
// by unrolledSteps. v are the initial values of the loop-carried variables; step returns their
// next values for byte k + i. The loop also ends when a variable whose index is in until is 0.
func (l *lowering) eachByte(size int, v []*ir.Value, length *ir.Value,
	step func(k *ir.Value, i int, v []*ir.Value) []*ir.Value, until ...int) []*ir.Value {
	rest := l.Split()
	head := l.Func().NewBlockAfter(l.Block())
	body := l.Func().NewBlockAfter(head)
	l.Jump(head, append([]*ir.Value{ir.Const(0)}, v...)...)
	k := head.AddParam(ir.TI64)
	now := make([]*ir.Value, len(v))
	for i := range v {
		now[i] = head.AddParam(ir.TI64)
	}
	l.continueAt(head)
	going := l.less(k, length)
	for _, i := range until {
		going = l.And(going, now[i])
	}
	// One branch for all exit conditions: the kernel sees that the loop terminates, because k
	// grows.
	stop := l.Binary(ir.OpXor, going, ir.Const(1))
	l.Br(l.ICmp(ir.ULT, l.Or(k, l.Shl(stop, ir.Const(32))), ir.Const(int64(size))), body, rest)
	l.continueAt(body)
	next := now
	for i := range unrolledSteps {
		next = step(k, i, next)
	}
	l.Jump(head, append([]*ir.Value{l.AddImm(k, unrolledSteps)}, next...)...)
	l.continueAt(rest)
	return now
}

// findWord finds a word of 1 to 8 bytes: the bytes of the text are shifted through a register that
// is compared with the word, without a branch other than the loop's.
func (l *lowering) findWord(text, length *ir.Value, word string) *ir.Value {
	var want, mask uint64
	for i := range len(word) {
		want, mask = want<<8|uint64(word[i]), mask<<8|0xff
	}
	rest := l.Split()
	head := l.Func().NewBlockAfter(l.Block())
	body := l.Func().NewBlockAfter(head)
	l.Jump(head, ir.Const(0), ir.Const(0), ir.Const(0), ir.Const(1))
	k, last, pos, going := head.AddParam(ir.TI64), head.AddParam(ir.TI64), head.AddParam(ir.TI64), head.AddParam(ir.TI64)
	l.continueAt(head)
	stop := l.Binary(ir.OpXor, l.And(going, l.less(k, length)), ir.Const(1))
	l.Br(l.ICmp(ir.ULT, l.Or(k, l.Shl(stop, ir.Const(32))), ir.Const(int64(text.Slot.Size))), body, rest)
	l.continueAt(body)
	at, w, n, on := l.Add(text, k), last, pos, going
	for i := range unrolledSteps {
		w = l.And(l.Or(l.Shl(w, ir.Const(8)), l.Load(ir.U8, at, i)), ir.Const(int64(mask)))
		on = l.And(on, l.notZero(l.Binary(ir.OpXor, w, ir.Const(int64(want)))))
		n = l.Add(n, on)
	}
	l.Jump(head, l.AddImm(k, unrolledSteps), w, n, on)
	l.continueAt(rest)
	// pos is the offset of the word's last byte, which may be past the end of the text.
	found := l.And(l.Binary(ir.OpXor, going, ir.Const(1)), l.less(pos, length))
	return l.forget(l.Select(l.ICmp(ir.NE, found, ir.Const(0)), l.AddImm(pos, -int64(len(word)-1)), ir.Const(-1)))
}

// notZero emits a value that is 1 if x is not 0, else 0, without a branch.
func (l *lowering) notZero(x *ir.Value) *ir.Value {
	return l.LShr(l.Or(x, l.Sub(ir.Const(0), x)), ir.Const(63))
}

// unrolledSteps is the unroll factor of the loops of a search: the kernel verifier of 5.10 takes a
// long time for loops with many iterations.
const unrolledSteps = 8

// less emits a value that is 1 if x < y, else 0, for numbers below 2^32, without a branch.
func (l *lowering) less(x, y *ir.Value) *ir.Value {
	return l.LShr(l.Sub(x, y), ir.Const(63))
}
