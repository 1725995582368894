// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"btc/internal/arch"
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
	if v.Op == ir.OpKstack || v.Op == ir.OpUstack {
		return l.helperStack(v, stacks)
	}
	id := l.byTables(v, stacks)
	return l.IfValue(l.ICmp(ir.EQ, id, ir.Const(-1)), ir.TI64, func() *ir.Value { return l.helperStack(v, stacks) }, func() *ir.Value { return id })
}

// helperStack returns the id of the stack that the kernel's helper finds.
func (l *lowering) helperStack(v *ir.Value, stacks *ir.Map) *ir.Value {
	size, flags := 8*int(v.Imm), int64(0)
	if v.Op != ir.OpKstack {
		flags = flagUserStack
	}
	// A long stack of an entry uprobe is written one word further, so that there is room for the caller.
	depth, room := int(v.Imm), 0
	entry := v.Op != ir.OpKstack && depth > 1 && l.Func().Prog.AtFunctionEntry()
	if entry && depth > unrolledFrames {
		room = 8
	}
	frames := l.Slot("frames", 8*stacks.Depth+room, 8)
	if depth > unrolledFrames {
		// ir.Verify knows the bounds of an offset but not its alignment.
		frames.Slot.Size = max(frames.Slot.Size, roundUp(size, 8*hashedAtOnce)+8*hashedAtOnce+room)
		frames.Slot.Class = ir.Scratch // the kernel requires constant offsets in the frame
	}
	if stacks.Depth > depth || wantsInitialized(l.Func().Prog) {
		l.zero(frames, 8*stacks.Depth+room)
	}
	walk := l.AddImm(frames, int64(room))
	// On success the helper zeroes the rest of the buffer.
	n := l.Call("get_stack", ir.TI64, v.Args[0], walk, ir.Const(int64(size)), ir.Const(flags))
	l.check("get_stack", n)
	return l.IfValue(l.ICmp(ir.SGT, n, ir.Const(0)), ir.TI64,
		func() *ir.Value {
			first, length := walk, n
			if entry {
				added := l.addCaller(v, frames, walk, depth, stacks.Depth)
				length = l.clamp(l.Add(n, added), size)
				if room > 0 {
					first = l.Add(frames, l.Sub(ir.Const(int64(room)), l.And(l.forget(added), ir.Const(8))))
				}
			}
			// The low bits of the id are the length, at most 1024 and never 0.
			hash := l.And(l.hashFrames(first, v.Imm), ir.Const(-1<<stackLenBits))
			id := l.Or(hash, l.LShr(length, ir.Const(3)))
			l.keepStack(stacks, id, first)
			return id
		},
		func() *ir.Value { return ir.Const(0) })
}

// addCaller adds the probed function's immediate caller as the second frame of the stack at walk,
// and returns the bytes by which the stack got longer: 8 or 0. The kernel follows frame pointers,
// and at a function's entry that register still is the caller's: the walk yields the function, then
// the caller's caller. (x86 since 6.11 reads the return address itself where the function begins with
// push %rbp or endbr64; push %rbp: is_uprobe_at_func_entry of arch/x86/events/core.c. riscv64 takes
// it from ra.) Nothing is added if the walk has it, or if it cannot be an address of code: 0 after
// an error of the read and where a thread begins, the argument count at _start.
//
// A stack that begins after frames now begins at frames. In a shorter one, in the frame, the words
// are moved.
func (l *lowering) addCaller(v, frames, walk *ir.Value, depth, slots int) *ir.Value {
	caller := l.returnAddress(v)
	none := func() *ir.Value { return ir.Const(0) }
	return l.IfValue(l.ICmp(ir.UGE, caller, ir.Const(lowestCode)), ir.TI64, func() *ir.Value {
		return l.IfValue(l.ICmp(ir.NE, l.Load(ir.U64, walk, 8), caller), ir.TI64, func() *ir.Value {
			if depth > unrolledFrames {
				l.Store(ir.U64, frames, 0, l.Load(ir.U64, walk, 0))
				if slots > depth { // the last frame is past the end
					l.Store(ir.U64, frames, 8*depth, ir.Const(0))
				}
			} else {
				for i := depth - 1; i > 1; i-- {
					l.Store(ir.U64, frames, 8*i, l.Load(ir.U64, frames, 8*(i-1)))
				}
			}
			l.Store(ir.U64, frames, 8, caller)
			return ir.Const(8)
		}, none)
	}, none)
}

// lowestCode is an address below which no process has code, unless vm.mmap_min_addr is set to less.
const lowestCode = 4096

// returnAddress returns the return address at a function's entry, 0 if it cannot be read. A register
// holds it without an authentication code: the function has not signed it yet. A compat process of
// arm64 has it in another register, and 0 in this one.
func (l *lowering) returnAddress(v *ir.Value) *ir.Value {
	served := l.m.Served()
	if len(served) < 2 {
		return l.returnAddressOn(l.arch(), v)
	}
	return l.byArch(func(a *arch.Arch) *ir.Value { return l.returnAddressOn(a, v) })
}

func (l *lowering) returnAddressOn(a *arch.Arch, v *ir.Value) *ir.Value {
	if a.Link != "" {
		return l.savedOn(a, "reg "+a.Link, v.Args[0])
	}
	word := l.Slot("caller", 8, 8)
	l.Store(ir.U64, word, 0, ir.Const(0))
	compat := l.ICmp(ir.EQ, l.savedOn(a, "reg cs", v.Args[0]), ir.Const(user32CS))
	n := l.Select(compat, ir.Const(4), ir.Const(8))
	l.Call("probe_read_user", ir.TI64, word, n, l.Cast(ir.TUAddr, l.savedOn(a, "reg sp", v.Args[0])))
	return l.Load(ir.U64, word, 0)
}

// user32CS is __USER32_CS of x86, the code segment of a process of 32 bits.
const user32CS = 0x23

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
	padded := int64(roundUp(int(n), hashedAtOnce))
	for i := n; i < padded; i++ {
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
	body.Br(l.ICmp(ir.ULT, next, ir.Const(8*padded)), ir.Edge{To: head, Args: []*ir.Value{next, mixed, last}},
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
