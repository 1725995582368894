// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"encoding/binary"
	"math/bits"

	"btc/ir"
)

// lower-strings replaces string ops by probe reads and compares by words.
//
// requires:    lower-output has run
// establishes: no string op is left
// invalidates: dominators, liveness (it adds blocks)
//
//	v1:i1 = streq s0+0 "bash" 16
//	->
//	v2:i64 = load.u64 [s0+0]
//	v3:i64 = and v2, 0xffffffffff       ; "bash" and its NUL
//	v4:i64 = xor v3, 0x68736162
//	v1:i1 = icmp eq v4, 0
func lowerStrings(m *ir.Module) []ir.Diag {
	filled := map[*ir.Slot]bool{}
	for _, f := range m.Funcs {
		zeroFilled(f, filled)
	}
	return rules{
		ir.OpStrLit:   lowerStrLit,
		ir.OpStr:      lowerStr,
		ir.OpStrEq:    lowerStrEq,
		ir.OpStrEqMem: lowerStrEqMem,
		ir.OpStrCopy: func(l *lowering, v *ir.Value) *ir.Value {
			return lowerStrCopy(l, v, filled)
		},
	}.apply(m)
}

// zeroFilled finds the slots that are written as a whole, by comm and strlit only: all
// bytes after the string are NUL there, so it can be copied by words.
func zeroFilled(f *ir.Func, filled map[*ir.Slot]bool) {
	other := map[*ir.Slot]bool{}
	note := func(v *ir.Value, ok bool) {
		if v.Op != ir.OpSlotAddr {
			return
		}
		if ok && v.Imm == 0 {
			filled[v.Slot] = true
		} else {
			other[v.Slot] = true
		}
	}
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			for i, a := range v.Args {
				writes := i == 0 && a.Slot != nil &&
					(v.Op == ir.OpComm && a.Slot.Size == commSize || v.Op == ir.OpStrLit && a.Slot.Size == int(v.Imm))
				reads := v.Op == ir.OpStrEq || v.Op == ir.OpStrEqMem || v.Op == ir.OpEmit ||
					i == 1 && v.Op == ir.OpStrCopy
				if !reads {
					note(a, writes)
				}
			}
		}
		b.Term.Uses(func(v **ir.Value) { note(*v, false) })
	}
	for s := range other {
		delete(filled, s)
	}
}

func lowerStrLit(l *lowering, v *ir.Value) *ir.Value {
	to, room := v.Args[0], int(v.Imm)
	text := make([]byte, min(roundUp(len(v.Sym)+1, 8), room))
	copy(text, v.Sym)
	steps(len(text), l.align(to, room), func(off, w int) {
		l.Store(ir.MemKindOf(w, false), to, off, ir.Const(word(text[off:off+w])))
	})
	if rest := room - len(text); rest > 0 {
		l.zero(l.AddImm(to, int64(len(text))), rest)
	}
	return nil
}

// word returns up to 8 bytes as a little-endian number.
func word(b []byte) int64 {
	var buf [8]byte
	copy(buf[:], b)
	return int64(binary.LittleEndian.Uint64(buf[:]))
}

// largeOnFrame is the size above which a string that is read with a variable length is kept
// off the frame.
const largeOnFrame = 64

func lowerStr(l *lowering, v *ir.Value) *ir.Value {
	to, bound := v.Args[0], v.Args[2]
	switch {
	case !bound.IsConst():
		// The kernel accepts a variable length only for initialized destinations; scratch
		// always is.
		switch s := to.Slot; {
		case s == nil || s.Class == ir.Scratch:
			l.Store(ir.U8, to, 0, ir.Const(0))
		case v.Imm <= largeOnFrame:
			l.zero(to, int(v.Imm))
		default:
			s.Class = ir.Scratch
			l.Store(ir.U8, to, 0, ir.Const(0))
		}
	case bound.Imm == 0: // a negative bound is a large one, as at run time
		l.Store(ir.U8, to, 0, ir.Const(0))
		return ir.Const(0)
	}
	if bound.IsConst() && uint64(bound.Imm) > uint64(v.Imm) && l.unused(v) && endsSlot(to, v.Imm) {
		// The NUL of a string that fills the room is written to a byte that nobody reads.
		to.Slot.Size++
		l.readString(to, v.Args[1], bound, v.Imm+1)
		return ir.Const(0)
	}
	n := l.fillString(to, v.Args[1], bound, v.Imm)
	return l.Select(l.ICmp(ir.SGT, n, ir.Const(0)), n, ir.Const(0))
}

// endsSlot reports whether room bytes at p are the last of a short slot.
func endsSlot(p *ir.Value, room int64) bool {
	return p.Op == ir.OpSlotAddr && p.Slot.Class != ir.Scratch && p.Slot.Size <= largeOnFrame &&
		p.Imm+room == int64(p.Slot.Size)
}

// The helpers that read strings and memory of a fixed size, by address space.
func readHelpers(from *ir.Value) (str, mem string) {
	if from.Type.Kind == ir.UAddr {
		return "probe_read_user_str", "probe_read_user"
	}
	return "probe_read_kernel_str", "probe_read_kernel"
}

// readString reads at most bound bytes, and at most room, with the NUL. The result is the
// helper's: the length with the NUL, or a negative error; on errors the helper zeroes the
// destination (all versions).
func (l *lowering) readString(to, from, bound *ir.Value, room int64) *ir.Value {
	return l.bySpace(from, func(from *ir.Value) *ir.Value {
		helper, _ := readHelpers(from)
		n := l.Call(helper, ir.TI64, to, l.clamp(bound, int(room)), from)
		if from.Type.IsForeign() {
			l.check(helper, n)
		}
		return n
	})
}

// fillString is like readString, but a string of room bytes or more fills the room and has no NUL,
// by which the reader of the value sees that it was truncated. The helper puts a NUL into the last
// byte, so that byte is read apart.
func (l *lowering) fillString(to, from, bound *ir.Value, room int64) *ir.Value {
	n := l.readString(to, from, bound, room)
	if bound.IsConst() && uint64(bound.Imm) <= uint64(room) {
		return n
	}
	full := ir.Const(room)
	if !bound.IsConst() { // n is never room+1
		full = l.Select(l.ICmp(ir.UGT, bound, full), full, ir.Const(room+1))
	}
	l.IfCold(l.ICmp(ir.EQ, n, full), func() {
		l.bySpace(from, func(from *ir.Value) *ir.Value {
			_, helper := readHelpers(from)
			return l.Call(helper, ir.TI64, l.AddImm(to, room-1), ir.Const(1), l.AddImm(from, room-1))
		})
	})
	return n
}

// lowerStrCopy pads with NULs: the destination may be part of a key.
func lowerStrCopy(l *lowering, v *ir.Value, filled map[*ir.Slot]bool) *ir.Value {
	to, from := v.Args[0], v.Args[1]
	if from.Op == ir.OpSlotAddr && from.Imm == 0 && filled[from.Slot] && v.Imm == int64(from.Slot.Size) && l.unused(v) {
		l.copy(to, from, int(v.Imm))
		return ir.Const(0)
	}
	l.zero(to, int(v.Imm))
	n := l.fillString(to, from, ir.Const(v.Imm+1), v.Imm)
	return l.Select(l.ICmp(ir.SGT, n, ir.Const(0)), n, ir.Const(0))
}

// unused reports whether v, which has been removed from its block, has no use.
func (l *lowering) unused(v *ir.Value) bool { return ir.UseCounts(l.Func())[v.ID] == 0 }

// lowerStrEq compares the literal and its NUL; later bytes do not matter.
func lowerStrEq(l *lowering, v *ir.Value) *ir.Value {
	p, room := v.Args[0], int(v.Imm)
	text := append([]byte(v.Sym), 0)
	switch {
	case len(v.Sym) > room:
		return ir.Bool(false)
	case len(text) > room: // fills the storage: there is no NUL
		text = text[:room]
	}
	var diff *ir.Value
	l.words(p, len(text), room, func(off int, x *ir.Value, w int) {
		d := l.Binary(ir.OpXor, x, ir.Const(word(text[off:off+w])))
		if diff == nil {
			diff = d
		} else {
			diff = l.Or(diff, d)
		}
	})
	return l.ICmp(ir.EQ, diff, ir.Const(0))
}

// words loads the first n bytes at p in as few pieces as alignment and room allow: a last
// word that extends past n is masked.
func (l *lowering) words(p *ir.Value, n, room int, do func(off int, x *ir.Value, w int)) {
	w := l.align(p, room)
	for off := 0; off < n; {
		for w > room-off || w > 1 && w/2 >= n-off {
			w /= 2
		}
		x, used := l.Load(ir.MemKindOf(w, false), p, off), min(w, n-off)
		if used < w {
			x = l.And(x, ir.Const(1<<(8*used)-1))
		}
		do(off, x, used)
		off += used
	}
}

// unrolledBytes is the length up to which two strings are compared without a loop.
const unrolledBytes = 16

// lowerStrEqMem compares word by word up to the first one that differs or holds a NUL.
func lowerStrEqMem(l *lowering, v *ir.Value) *ir.Value {
	p, q, n := v.Args[0], v.Args[1], int(v.Imm)
	done := l.Split()
	equal := done.AddParam(ir.TI1)
	if n > unrolledBytes {
		for _, a := range v.Args {
			if a.Op == ir.OpSlotAddr {
				a.Slot.Class = ir.Scratch // the kernel requires constant offsets in the frame
			}
		}
	}
	w := min(l.align(p, n), l.align(q, n))
	rest := n
	if n > unrolledBytes {
		head := l.Func().NewBlockAfter(l.Block())
		i := head.AddParam(ir.TI64)
		l.Jump(head, ir.Const(0))
		l.continueAt(head)
		l.sameWord(p, q, l.shift(ir.OpShl, i, int64(bits.TrailingZeros(uint(w)))), w, done)
		next := l.AddImm(i, 1)
		rest = n % w
		after := l.Func().NewBlockAfter(l.Block())
		l.Block().
			Br(l.ICmp(ir.ULT, next, ir.Const(int64(n/w))), ir.Edge{To: head, Args: []*ir.Value{next}}, ir.Edge{To: after}, l.Pos)
		l.continueAt(after)
	}
	steps(rest, min(w, 8), func(off, w int) { l.sameWord(p, q, ir.Const(int64(n-rest+off)), w, done) })
	l.Jump(done, ir.Bool(true))
	l.continueAt(done)
	return equal
}

// sameWord compares the w bytes at off and continues when the strings may still differ;
// otherwise it jumps to done with the result. Bytes after a NUL do not count.
func (l *lowering) sameWord(p, q, off *ir.Value, w int, done *ir.Block) {
	k, f := ir.MemKindOf(w, false), l.Func()
	x, y := l.Load(k, l.Add(p, off), 0), l.Load(k, l.Add(q, off), 0)
	ones := int64(0x0101010101010101) >> (8 * (8 - w)) // 1 in each byte
	// The lowest bit set is the top bit of the first byte that is 0.
	nul := l.And(l.And(l.Sub(x, ir.Const(ones)), l.Binary(ir.OpXor, x, ir.Const(-1))), ir.Const(ones<<7))
	upToNul := l.Binary(ir.OpXor, nul, l.AddImm(nul, -1))
	differ := l.And(l.Binary(ir.OpXor, x, y), upToNul)
	same := f.NewBlockAfter(l.Block())
	next := f.NewBlockAfter(same)
	l.Block().
		Br(l.ICmp(ir.EQ, differ, ir.Const(0)), ir.Edge{To: same}, ir.Edge{To: done, Args: []*ir.Value{ir.Bool(false)}}, l.Pos)
	l.continueAt(same)
	same.Br(l.ICmp(ir.EQ, nul, ir.Const(0)), ir.Edge{To: next}, ir.Edge{To: done, Args: []*ir.Value{ir.Bool(true)}},
		l.Pos)
	l.continueAt(next)
}
