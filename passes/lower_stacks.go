// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"btc/ir"
)

// The stack builtins of lower-builtins.
//
//	v1:i64 = kstack @kstack_127 [v0] 127
//	->
//	v2:i64 = call get_stack(v0, s0+0, 1016, 0)
//	...                               ; 0 when that failed
//	...                               ; v1: hash of the frames, in a bounded loop
//	store.u64 [s1+0], v1
//	v3 = call map_lookup_elem(@kstack_127, s1+0)
//	...                               ; a miss: update NOEXIST
//
// Hashing in the program instead of get_stackid: that helper loses stacks whose hashes
// collide, and its map has one depth and cannot be cleared while in use. Two stacks with
// the same length and the same 53-bit hash would be printed as one: with 10^5 different
// stacks the odds of any collision are below 10^-6.

const flagUserStack = 1 << 8 // BPF_F_USER_STACK

// eexist is what map_update_elem returns when another CPU was first.
const eexist = -17

func lowerStack(l *lowering, v *ir.Value) *ir.Value {
	stacks := l.m.Map(v.Sym)
	if stacks == nil {
		panic("BUG: no stack map: " + v.Text())
	}
	size, flags := 8*int(v.Imm), int64(0)
	if v.Op == ir.OpUstack {
		flags = flagUserStack
	}
	frames := l.Slot("frames", 8*stacks.Depth, 8)
	if v.Imm > unrolledFrames {
		// ir.Verify knows the bounds of an offset but not its alignment.
		frames.Slot.Size = max(frames.Slot.Size, roundUp(size, 8*hashedAtOnce)+8*hashedAtOnce)
		frames.Slot.Class = ir.Scratch // the kernel requires constant offsets in the frame
	}
	if stacks.Depth > int(v.Imm) || wantsInitialized(l.Func().Prog) {
		l.zero(frames, 8*stacks.Depth)
	}
	// On success the helper zeroes the rest of the buffer.
	n := l.Call("get_stack", ir.TI64, v.Args[0], frames, ir.Const(int64(size)), ir.Const(flags))
	l.check("get_stack", n)
	return l.IfValue(l.ICmp(ir.SGT, n, ir.Const(0)), ir.TI64,
		func() *ir.Value {
			// The low bits of the id are the length, at most 1024 and never 0.
			hash := l.And(l.hashFrames(frames, v.Imm), ir.Const(-1<<stackLenBits))
			id := l.Or(hash, l.LShr(n, ir.Const(3)))
			l.keepStack(stacks, id, frames)
			return id
		},
		func() *ir.Value { return ir.Const(0) })
}

// wantsInitialized reports whether get_stack accepts only initialized memory in a program:
// before 5.11 it does for programs with the helpers of raw tracepoints.
func wantsInitialized(p *ir.Prog) bool {
	return p != nil && classOf(p.Kind).name == "scratch_t"
}

// stackLenBits is the number of low bits of an id that hold the number of frames.
const stackLenBits = 11

func lowerStackLen(l *lowering, v *ir.Value) *ir.Value {
	return l.And(v.Args[0], ir.Const(1<<stackLenBits-1))
}

// unrolledFrames is the depth up to which the hash is written out.
const unrolledFrames = 8

// hashedAtOnce is the number of words that an iteration of the loop hashes: the kernel
// verifies each iteration. It is even, because words are hashed in pairs.
const hashedAtOnce = 8

// hashFrames hashes the n words at p; those after the last frame are 0. A long loop stops after
// the iteration with the last frame. (It looks at the words, not at the number of frames: after a
// comparison with that number the verifier would know it, and verify what depends on it for each
// number.) The upper bits of the hash are the best.
func (l *lowering) hashFrames(p *ir.Value, n int64) *ir.Value {
	if n <= unrolledFrames {
		h, _ := l.hashWords(p, ir.Const(hashFactor), n)
		if n%2 == 0 {
			h = l.Mul(h, ir.Const(hashFactor))
		}
		return h
	}
	whole := int64(roundUp(int(n), hashedAtOnce))
	for i := n; i < whole; i++ {
		l.Store(ir.U64, p, int(8*i), ir.Const(0))
	}
	done := l.Split()
	result := done.AddParam(ir.TI64)
	head := l.Func().NewBlockAfter(l.Block())
	off, h, before := head.AddParam(ir.TI64), head.AddParam(ir.TI64), head.AddParam(ir.TI64)
	body := l.Func().NewBlockAfter(head)
	l.Jump(head, ir.Const(0), ir.Const(hashFactor), ir.Const(1))
	// The loop is left by a jump from the head: the kernel then checks at the jump's destination
	// whether it has seen that state before, and verifies what follows the loop once instead of
	// once per iteration.
	l.continueAt(head)
	head.Br(l.ICmp(ir.EQ, before, ir.Const(0)), ir.Edge{To: done, Args: []*ir.Value{h}}, ir.Edge{To: body}, l.Pos)
	l.continueAt(body)
	mixed, last := l.hashWords(l.Add(p, off), h, hashedAtOnce)
	next := l.AddImm(off, 8*hashedAtOnce)
	body.Br(l.ICmp(ir.ULT, next, ir.Const(8*whole)), ir.Edge{To: head, Args: []*ir.Value{next, mixed, last}},
		ir.Edge{To: done, Args: []*ir.Value{mixed}}, l.Pos)
	l.continueAt(done)
	return l.Mul(result, ir.Const(hashFactor))
}

const hashFactor = -0x61c8864680b583eb // odd, 2^64 / golden ratio

// hashWords mixes n words at p into h; it also returns the last word. Of two words the
// second is mixed by the multiplication that follows, so an even number of words needs
// another one.
func (l *lowering) hashWords(p, h *ir.Value, n int64) (hash, last *ir.Value) {
	for i := range n {
		last = l.Load(ir.U64, p, int(8*i))
		if i%2 == 1 {
			h = l.Binary(ir.OpXor, h, last)
		} else {
			h = l.Mul(l.Add(h, last), ir.Const(hashFactor))
		}
	}
	return h, last
}

// keepStack puts the frames into the stack map unless they are already there.
func (l *lowering) keepStack(stacks *ir.Map, id, frames *ir.Value) {
	key := l.Slot("stackid", 8, 8)
	l.Store(ir.U64, key, 0, id)
	known := l.lookup(stacks.Name, key)
	l.IfCold(l.IsNull(known), func() {
		r := l.update(stacks.Name, key, frames, updateNoExist)
		l.IfCold(l.ICmp(ir.SLT, r, ir.Const(0)), func() {
			l.IfCold(l.ICmp(ir.NE, r, ir.Const(eexist)), func() { l.lose(stacks) })
		})
	})
}

// lowerSeenProc reports a process to the loader once, as long as the process stays among
// the most recent ones.
func lowerSeenProc(l *lowering, _ *ir.Value) *ir.Value {
	intern(l.m, "seen", "lru_hash", 4, 8, 4096)
	pid := l.pid(ir.OpPid)
	key := l.Slot("tgid", 4, 4)
	l.Store(ir.U32, key, 0, pid)
	known := l.lookup("seen", key)
	l.IfCold(l.IsNull(known), func() {
		one := l.Slot("one", 8, 8)
		l.Store(ir.U64, one, 0, ir.Const(1))
		l.update("seen", key, one, updateAny)
		l.send(l.procEvent(), pid)
	})
	return nil
}

// procEvent finds or makes the event that names a process.
func (l *lowering) procEvent() *ir.Event {
	return l.ownEvent(ir.EvProc, "tgid")
}
