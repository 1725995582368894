// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"slices"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/unwind"
	"btc/ir"
)

// User stacks by unwind tables. The loader provides the tables (package internal/unwind has their form) in maps, and
// says so in the constant "unwind"; while that is 0, the verifier removes the call.
//
//	v1:i64 = dwustack @ustack_127 [v0] 127
//	->
//	v2:i64 = global.u64 @unwind+0
//	br ...                                                  ; 0: as ustack
//	v3:i64 = callsub unwind_dw_ustack_127(pc, sp, fp, lr)   ; of the context; 0, 0, 0, 0: those of the task
//	br ...                                                  ; -1: the process keeps frame pointers: by the helper
//
//	func @unwind_dw_ustack_127(i64, i64, i64, i64) global   ; finds the process, walks, counts why the walk ended,
//	                                                        ; stores the frames like ustack and returns their id
//	func @unwind_raw(i64, i64, i64) global                  ; sends the registers and the stack, where something is not known yet
//	func @unwind_step8(i64) global                          ; 8 steps
//	func @unwind_step(i64) global                           ; one frame: 0, or 1 + unwind.Reason
//
// ustack of a script (anyustack) does the same by unwind_any_ustack_127, with two differences: the constant must say so,
// and while a process or a table is not known yet, the helper is used instead of a stack that ends there. The loader
// removes the calls of functions that the constant does not permit, by their names.
//
// The functions are global: the verifier checks each once, not at each call, so that 128 frames cost it as much as one.
// They have no loop for the same reason, and so that the loader sees a bound of their time. Arguments of global
// functions are numbers (pointers to memory since 5.12): the state of a walk is in an element of unwindState, which the
// first function takes and whose index is the argument of the others. What is loaded from there is unknown to the
// verifier, so paths that meet are one state to it.

// Internal maps.
const (
	unwindTables = "unwind_tables" // file number -> unwindTable
	unwindTable  = "unwind_table"  // the table of a file: unwind.Table.Chunks
	unwindProcs  = "unwind_procs"  // tgid -> index of its first range, and their number in the upper half; 0: keeps frame pointers
	unwindRanges = "unwind_ranges" // start, end, bias (u64), file, flags (u32): code of a process, ascending by start
	unwindStats  = "unwind_stats"  // counts of walks by unwind.Reason
	unwindAsked  = "unwind_asked"  // {tgid, file} for which an event was sent
	unwindState  = "unwind_state"  // states of walks
	unwindRaw    = "unwind_raw"    // ring buffer of stacks that the loader unwinds (unwind.RawSize)
	unwindBudget = "unwind_budget" // how many of them may be sent (unwind.BudgetSize)
)

// Flags of a range.
const (
	rangeFrames  = 1 // all code keeps frame pointers
	rangeNoTable = 2 // the file has no table
)

// The constant "unwind": which walks use tables.
const (
	unwindOff = iota
	unwindDw  // those of dw_ustack
	unwindAll // those of ustack, too
)

const (
	bpfInnerMap = 1 << 12 // BPF_F_INNER_MAP (5.10): maps of another size may be elements
	// maxRangeSteps bounds the search for a range: a process has at most 1 << maxRangeSteps.
	maxRangeSteps = 12
	stepsAtOnce   = 8
)

// Offsets in the state of a walk. Each is a u64.
const (
	stateBusy = 8 * iota // count of users, see scratch.go
	statePC              // the registers of the current frame
	stateSP
	stateFP
	stateLR
	stateExact // 1: PC is an address of an instruction, and LR is known; 0: PC is a return address
	stateCount // frames found
	stateDepth // most frames
	stateFirst // index of the process's first range
	stateRanges
	stateStart // the range of the last frame
	stateSize
	stateBias
	stateFile // file and flags
	stateWord // words read from the stack
	stateWord2
	stateTgid
	stateFrames // the frames; before the first one, the task's registers
)

// byTables returns the id of the user stack as tables find it, or -1 if the frame pointers are to be followed.
func (l *lowering) byTables(v *ir.Value, stacks *ir.Map) *ir.Value {
	global(l.m, string(manifest.HostUnwind), ir.GlobalConst, 8)
	least := int64(unwindAll)
	if v.Op == ir.OpDwUstack {
		least = unwindDw
	}
	on := l.ICmp(ir.UGE, l.Global(ir.U64, string(manifest.HostUnwind), 0), ir.Const(least))
	return l.IfValue(on, ir.TI64, func() *ir.Value {
		return l.CallSub(l.unwindStack(stacks, v.Op == ir.OpAnyUstack), l.userRegs(v)...)
	}, func() *ir.Value { return ir.Const(-1) })
}

// userRegs returns pc, sp, fp and the link register of the process if the program's context has them, else zeros.
func (l *lowering) userRegs(v *ir.Value) []*ir.Value {
	t, ctx := l.prog().Type(), v.Args[0]
	regs := make([]*ir.Value, len(unwindRegs))
	for i, r := range unwindRegs {
		regs[i] = ir.Const(0)
		if t.Program == probe.ProgPerfEvent || t.Program == probe.ProgKprobe && t.Space == probe.UserSpace {
			regs[i] = l.savedReg(r.name, ctx)
		}
	}
	if t.Program == probe.ProgPerfEvent {
		user := l.onArch(func(a *arch.Arch) *ir.Value { return l.Sub(ir.Const(0), l.savedOn(a, arch.SavedUsermode, ctx)) })
		for i := range regs {
			regs[i] = l.And(regs[i], user)
		}
	}
	return regs
}

// unwindRegs are the registers that a walk begins with.
var unwindRegs = []struct {
	word int // of the state
	name func(*arch.Arch) string
}{
	{statePC, func(a *arch.Arch) string { return a.IP.Name }},
	{stateSP, func(a *arch.Arch) string { return a.SP.Name }},
	{stateFP, func(a *arch.Arch) string { return a.FP }},
	{stateLR, func(a *arch.Arch) string { return a.Link }},
}

// savedReg reads a register from the registers at p; 0 on an architecture without one.
func (l *lowering) savedReg(name func(*arch.Arch) string, p *ir.Value) *ir.Value {
	return l.onArch(func(a *arch.Arch) *ir.Value {
		if name(a) == "" {
			return ir.Const(0)
		}
		return l.savedOn(a, "reg "+name(a), p)
	})
}

// onArch is byArch, also in objects for one architecture.
func (l *lowering) onArch(make func(*arch.Arch) *ir.Value) *ir.Value {
	if len(l.m.Served()) < 2 {
		return make(l.arch())
	}
	return l.byArch(make)
}

// perArch returns a constant of the architecture.
func (l *lowering) perArch(value func(*arch.Arch) int64) *ir.Value {
	return l.PerArch(l.m.Served(), value)
}

// globalFunc adds a global function with n parameters and returns its name. body ends it.
func (l *lowering) globalFunc(name string, n int, body func(l *lowering, params []*ir.Value)) string {
	if l.m.Func(name) != nil {
		return name
	}
	pos := l.Pos
	pos.Site = 0
	f := &ir.Func{Name: name, Global: true, Pos: pos}
	l.m.Funcs = append(l.m.Funcs, f)
	entry := f.NewBlock()
	for range n {
		f.Params = append(f.Params, ir.TI64)
		entry.AddParam(ir.TI64)
	}
	body(&lowering{Builder: ir.AtEnd(entry, pos), m: l.m}, entry.Params)
	return name
}

// stop ends a step of a walk.
func (l *lowering) stop(why unwind.Reason) { l.Ret(ir.Const(int64(why) + 1)) }

// stopIf ends a step if c holds.
func (l *lowering) stopIf(c *ir.Value, why unwind.Reason) { l.IfCold(c, func() { l.stop(why) }) }

func (l *lowering) equal(x *ir.Value, n int64) *ir.Value { return l.ICmp(ir.EQ, x, ir.Const(n)) }

// stateOf returns the state with an index; the step or walk ends if there is none.
func (l *lowering) stateOf(slot *ir.Value, otherwise int64) *ir.Value {
	p := l.lookup(unwindState, l.key32(slot))
	l.IfCold(l.IsNull(p), func() { l.Ret(ir.Const(otherwise)) })
	return l.NonNull(p)
}

// unwindMaps makes the maps. Their sizes are the loader's to set: an object that another loader loads takes no memory
// for them.
func (l *lowering) unwindMaps(depth int) {
	tables := intern(l.m, unwindTables, "array_of_maps", 4, 4, 1)
	tables.BPF.Inner = unwindTable
	table := intern(l.m, unwindTable, "array", 4, unwind.ChunkSize, 1)
	table.BPF.Template, table.BPF.Flags = true, bpfInnerMap
	intern(l.m, unwindProcs, "hash", 4, 8, 1)
	intern(l.m, unwindRanges, "array", 4, 32, 1)
	intern(l.m, unwindStats, "percpu_array", 4, 8, int(unwind.Reasons))
	intern(l.m, unwindAsked, "lru_hash", 8, 8, 1)
	regs := 0
	for _, a := range l.m.Served() {
		regs = max(regs, a.RegsSize)
	}
	size := stateFrames + max(regs, roundUp(8*max(depth, unwind.MaxFrames), 8*hashedAtOnce)+8*hashedAtOnce)
	state := intern(l.m, unwindState, "percpu_array", 4, size, 1)
	state.BPF.ValueSize = max(state.BPF.ValueSize, size)
}

// unwindStack returns the function that walks the stack for a map of stacks. Its arguments are the registers, or zeros
// for those that the task has saved. The result is the stack's id, 0 without a stack, -1 if the helper is to find it;
// with fallback, also where something is not known yet.
func (l *lowering) unwindStack(stacks *ir.Map, fallback bool) string {
	l.unwindMaps(stacks.Depth)
	l.globalFunc("unwind_step", 1, func(l *lowering, params []*ir.Value) { l.unwindStep(params[0]) })
	l.globalFunc("unwind_step8", 1, func(l *lowering, params []*ir.Value) {
		for range stepsAtOnce {
			r := l.CallSub("unwind_step", params[0])
			l.If(l.ICmp(ir.NE, r, ir.Const(0)), func() { l.Ret(r) }, nil)
		}
		l.Ret(ir.Const(0))
	})
	l.globalFunc("unwind_take", 0, func(l *lowering, _ []*ir.Value) { l.takeState() })
	l.globalFunc("unwind_regs", 1, func(l *lowering, params []*ir.Value) { l.taskRegs(params[0]) })
	l.globalFunc("unwind_raw", 3, func(l *lowering, params []*ir.Value) { l.sendRaw(params[0], params[1], params[2]) })
	prefix := manifest.UnwindMarked
	if fallback {
		prefix = manifest.UnwindAny
	}
	return l.globalFunc(prefix+stacks.BPF.Name, len(unwindRegs), func(l *lowering, params []*ir.Value) {
		l.unwindWalk(stacks, params, fallback)
	})
}

// takeState is the body of unwind_take: it takes a state and returns its index, -1 if none is free.
func (l *lowering) takeState() {
	for i := range int64(manifest.UnwindStates) {
		p := l.stateOf(ir.Const(i), -1)
		l.AtomicAdd(ir.U64, p, stateBusy, ir.Const(1))
		l.If(l.equal(l.Load(ir.U64, p, stateBusy), 1), func() { l.Ret(ir.Const(i)) }, nil)
		l.AtomicAdd(ir.U64, p, stateBusy, ir.Const(-1))
	}
	l.lose(l.m.Map(unwindState))
	l.Ret(ir.Const(-1))
}

// taskRegs is the body of unwind_regs: it copies the registers with which the current task has entered the kernel to a
// state, and returns 0 if they are not those of a process.
func (l *lowering) taskRegs(slot *ir.Value) {
	p := l.stateOf(slot, 0)
	at := l.IfValue(l.HasHelper("task_pt_regs"), ir.TI64,
		func() *ir.Value {
			task := l.Call("get_current_task_btf", ir.TKAddr)
			return l.Cast(ir.TI64, l.Call("task_pt_regs", ir.TKAddr, task))
		},
		func() *ir.Value { // before 5.15: task_pt_regs of each architecture
			task := l.Call("get_current_task", ir.TKAddr)
			stack := l.Emit(ir.OpRead, ir.TI64, task)
			stack.Mem, stack.CORE = ir.U64, ir.CORERef{Type: "struct task_struct", Path: "stack"}
			return l.Sub(l.AddImm(stack, threadSize), l.CORE(ir.TypeSize, ir.CORERef{Type: "struct pt_regs"}))
		})
	regs := l.AddImm(p, stateFrames)
	failed := l.Call("probe_read_kernel", ir.TI64, regs, l.perArch(func(a *arch.Arch) int64 { return int64(a.RegsSize) }), l.Cast(ir.TKAddr, at))
	l.IfCold(l.ICmp(ir.NE, failed, ir.Const(0)), func() { l.Ret(ir.Const(0)) })
	// A thread of the kernel has none: what is there looks like the kernel's, or is 0.
	user := l.onArch(func(a *arch.Arch) *ir.Value { return l.savedOn(a, arch.SavedUsermode, regs) })
	l.IfCold(l.equal(user, 0), func() { l.Ret(ir.Const(0)) })
	l.IfCold(l.equal(l.savedReg(unwindRegs[0].name, regs), 0), func() { l.Ret(ir.Const(0)) })
	for _, r := range unwindRegs {
		l.Store(ir.U64, p, r.word, l.savedReg(r.name, regs))
	}
	l.Ret(ir.Const(1))
}

// threadSize is THREAD_SIZE of the three architectures, with pages of 4 KiB and without KASAN.
const threadSize = 16 << 10

// unwindWalk is the body of the function for a map of stacks.
func (l *lowering) unwindWalk(stacks *ir.Map, regs []*ir.Value, fallback bool) {
	tgid := l.pid(ir.OpPid)
	proc := l.lookup(unwindProcs, l.key32(tgid))
	// What the process has: -1 if it is not known.
	ranges := l.IfValue(l.NotNull(proc), ir.TI64,
		func() *ir.Value { return l.Load(ir.U64, l.NonNull(proc), 0) },
		func() *ir.Value { return ir.Const(-1) })
	l.If(l.equal(ranges, 0), func() { l.Ret(ir.Const(-1)) }, nil)
	slot := l.CallSub("unwind_take")
	none := int64(0)
	if fallback {
		none = -1
	}
	l.IfCold(l.ICmp(ir.SLT, slot, ir.Const(0)), func() { l.Ret(ir.Const(none)) })
	p := l.stateOf(slot, 0)
	id := l.IfValue(l.equal(regs[0], 0),
		ir.TI64,
		func() *ir.Value { return l.CallSub("unwind_regs", slot) },
		func() *ir.Value {
			for i, r := range unwindRegs {
				l.Store(ir.U64, p, r.word, regs[i])
			}
			return ir.Const(1)
		})
	l.Store(ir.U64, p, stateTgid, tgid)
	id = l.IfValue(l.equal(id, 0), ir.TI64, func() *ir.Value { return ir.Const(0) }, func() *ir.Value { return l.unwindFrom(stacks, slot, p, ranges, fallback) })
	l.AtomicAdd(ir.U64, p, stateBusy, ir.Const(-1))
	l.Ret(id)
}

// unwindFrom walks from the registers in the state at p, whose index is slot, in a process with ranges.
func (l *lowering) unwindFrom(stacks *ir.Map, slot, p, ranges *ir.Value, fallback bool) *ir.Value {
	depth := min(stacks.Depth, unwind.MaxFrames)
	l.Store(ir.U64, p, stateFirst, l.Extend(ir.U32, ranges))
	l.Store(ir.U64, p, stateRanges, l.LShr(ranges, ir.Const(32)))
	l.Store(ir.U64, p, stateExact, ir.Const(1))
	l.Store(ir.U64, p, stateDepth, ir.Const(int64(depth)))
	for _, word := range []int{stateCount, stateStart, stateSize, stateFile} {
		l.Store(ir.U64, p, word, ir.Const(0))
	}
	frames := l.AddImm(p, stateFrames)
	l.zero(frames, 8*stacks.Depth)
	l.Store(ir.U64, frames, 0, l.Load(ir.U64, p, statePC))
	result := l.IfValue(l.equal(ranges, -1), ir.TI64,
		func() *ir.Value { return ir.Const(int64(unwind.NotYetKnown) + 1) },
		func() *ir.Value { return l.steps(slot, depth) })
	why := l.AddImm(result, -1)
	unknown := l.ICmp(ir.ULE, l.AddImm(why, -int64(unwind.UnknownCode)), ir.Const(int64(unwind.NotYetKnown-unwind.UnknownCode)))
	raw := l.IfValue(unknown, ir.TI64,
		func() *ir.Value { return l.CallSub("unwind_raw", slot, why, ir.Const(int64(stacks.Depth))) },
		func() *ir.Value { return ir.Const(0) })
	id := l.IfValue(l.equal(raw, 0), ir.TI64, func() *ir.Value {
		l.ended(p, why, stacks.Depth)
		found := func() *ir.Value {
			// The frame that was interrupted is known even if nothing is known of the process.
			n := l.Load(ir.U64, p, stateCount)
			n = l.clamp(l.Select(l.equal(n, 0), ir.Const(1), n), depth)
			return l.Or(l.And(l.hashFrames(frames, int64(stacks.Depth)), ir.Const(-1<<stackLenBits)), n)
		}
		if !fallback {
			return found()
		}
		return l.IfValue(l.equal(why, int64(unwind.NotYetKnown)), ir.TI64, func() *ir.Value { return ir.Const(-1) }, found)
	}, func() *ir.Value { return raw })
	if !fallback {
		l.keepStack(stacks, id, frames)
		return id
	}
	l.If(l.ICmp(ir.NE, id, ir.Const(-1)), func() { l.keepStack(stacks, id, frames) }, nil)
	return id
}

// steps calls unwind_step8 until the walk ends, at most for depth frames and the step that finds the limit.
func (l *lowering) steps(slot *ir.Value, depth int) *ir.Value {
	done := l.Split()
	result := done.AddParam(ir.TI64)
	for n := 0; n <= depth; n += stepsAtOnce {
		r := l.CallSub("unwind_step8", slot)
		next := l.Func().NewBlockAfter(l.Block())
		l.Block().Br(l.ICmp(ir.NE, r, ir.Const(0)), ir.Edge{To: done, Args: []*ir.Value{r}}, ir.Edge{To: next}, l.Pos)
		l.continueAt(next)
	}
	l.Jump(done, ir.Const(int64(unwind.TooDeep)+1))
	l.continueAt(done)
	return result
}

// ended counts why a walk has ended, and asks the loader for what was missing. Fewer frames than there are are not a
// loss if the script wants no more.
func (l *lowering) ended(p, why *ir.Value, depth int) {
	if depth < defaultDepth {
		why = l.Select(l.equal(why, int64(unwind.TooDeep)), ir.Const(int64(unwind.Whole)), why)
	}
	count := l.lookup(unwindStats, l.key32(why))
	l.If(l.NotNull(count), func() { l.AtomicAdd(ir.U64, l.NonNull(count), 0, ir.Const(1)) }, nil)
	l.IfCold(l.equal(why, int64(unwind.NotYetKnown)), func() {
		key := l.Slot("asked", 8, 8)
		tgid, file := l.Load(ir.U64, p, stateTgid), l.Load(ir.U32, p, stateFile)
		l.Store(ir.U32, key, 0, tgid)
		l.Store(ir.U32, key, 4, file)
		l.If(l.IsNull(l.lookup(unwindAsked, key)), func() {
			one := l.Slot("one", 8, 8)
			l.Store(ir.U64, one, 0, ir.Const(1))
			l.update(unwindAsked, key, one, updateAny)
			l.send(l.ownEvent(ir.EvUnwind, "tgid", "file", "address"), tgid, file, l.Load(ir.U64, p, statePC))
		}, nil)
	})
}

// sendRaw is the body of unwind_raw: it sends the walk in the state, which has ended for the reason why, to the loader,
// which goes on. The result is the id of the stack, whose length is 0: the loader finds the frames. Without a budget or
// room for it the result is 0.
func (l *lowering) sendRaw(slot, why, depth *ir.Value) {
	intern(l.m, unwindRaw, "ringbuf", 0, 0, rawRing)
	intern(l.m, unwindBudget, "array", 4, unwind.BudgetSize, 1)
	p := l.stateOf(slot, 0)
	none := func() { l.Ret(ir.Const(0)) }
	b := l.lookup(unwindBudget, l.key32(ir.Const(0)))
	l.IfCold(l.IsNull(b), none)
	b = l.NonNull(b)
	now := l.Call("ktime_get_ns", ir.TI64)
	l.If(l.ICmp(ir.UGE, l.Sub(now, l.Load(ir.U64, b, unwind.BudgetSince)), ir.Const(1e9)), func() {
		l.Store(ir.U64, b, unwind.BudgetSince, now)
		l.Store(ir.U64, b, unwind.BudgetSent, ir.Const(0))
	}, nil)
	l.If(l.ICmp(ir.UGE, l.Load(ir.U64, b, unwind.BudgetSent), l.Load(ir.U64, b, unwind.BudgetSecond)), none, nil)
	tgid := l.Load(ir.U64, p, stateTgid)
	key, one := l.Slot("sent", 8, 8), l.Slot("one", 8, 8)
	l.Store(ir.U32, key, 0, tgid)
	l.Store(ir.U32, key, 4, ir.Const(unwind.SentKey))
	l.Store(ir.U64, one, 0, ir.Const(1))
	of := l.lookup(unwindAsked, key)
	l.IfElseCold(l.NotNull(of), func() {
		sent := l.NonNull(of)
		l.If(l.ICmp(ir.UGE, l.Load(ir.U64, sent, 0), l.Load(ir.U64, b, unwind.BudgetProcess)), none, nil)
		l.AtomicAdd(ir.U64, sent, 0, ir.Const(1))
	}, func() { l.update(unwindAsked, key, one, updateAny) })
	l.AtomicAdd(ir.U64, b, unwind.BudgetSent, ir.Const(1))

	r := l.Call("ringbuf_reserve", ir.TRingbuf(unwind.RawSize, true), ir.MapOperand(unwindRaw), ir.Const(unwind.RawSize), ir.Const(0))
	l.IfCold(l.IsNull(r), none)
	rec := l.NonNull(r)
	cpu := l.Shl(l.Call("get_smp_processor_id", ir.TI64), ir.Const(48)) // no other stack has the same time and CPU
	id := l.And(l.Mul(l.Binary(ir.OpXor, now, cpu), ir.Const(hashFactor)), ir.Const(-1<<stackLenBits))
	l.Store(ir.U64, rec, unwind.RawID, id)
	l.Store(ir.U64, rec, unwind.RawTime, now)
	l.Store(ir.U64, rec, unwind.RawDepth, depth)
	l.Store(ir.U64, rec, unwind.RawReason, why)
	for _, w := range []struct{ off, word int }{{unwind.RawTgid, stateTgid}, {unwind.RawPC, statePC}, {unwind.RawSP, stateSP}, {unwind.RawFP, stateFP},
		{unwind.RawLR, stateLR}, {unwind.RawExact, stateExact}, {unwind.RawCount, stateCount}} {
		l.Store(ir.U64, rec, w.off, l.Load(ir.U64, p, w.word))
	}
	l.Call("probe_read_kernel", ir.TI64, l.AddImm(rec, unwind.RawFrames), ir.Const(8*unwind.MaxFrames), l.Cast(ir.TKAddr, l.AddImm(p, stateFrames)))
	// A part of a page is readable if all of it is. The first one is at its offset in the page, and the last one completes
	// the size.
	from := l.AddImm(l.Load(ir.U64, p, stateSP), -unwind.RawBelow)
	off := l.And(from, ir.Const(unwind.RawPage-1))
	l.Store(ir.U64, rec, unwind.RawFrom, from)
	for i := range int64(unwind.RawPages) {
		to, n, addr := l.AddImm(rec, unwind.RawStack+i*unwind.RawPage), ir.Const(unwind.RawPage), l.AddImm(l.Sub(from, off), i*unwind.RawPage)
		switch i {
		case 0:
			to, n, addr = l.Add(to, off), l.Sub(ir.Const(unwind.RawPage), off), from
		case unwind.RawPages - 1:
			n = off
		}
		failed := l.Call("probe_read_user", ir.TI64, to, n, l.Cast(ir.TUAddr, addr))
		l.Store(ir.U64, rec, unwind.RawFailed+int(8*i), failed)
	}
	l.Call("ringbuf_submit", ir.TVoid, rec, ir.Const(forceWakeup))
	l.Ret(id)
}

// rawRing is the size of the ring buffer in an object, which the loader replaces: a page of any kernel.
const rawRing = 64 << 10

// defaultDepth is the number of frames of ustack without a limit.
const defaultDepth = 127

// unwindStep is the body of unwind_step: it adds the frame in the state to the stack, and replaces it by its caller's.
// The result is 0, or 1 + the unwind.Reason to stop.
func (l *lowering) unwindStep(slot *ir.Value) {
	p := l.stateOf(slot, int64(unwind.BadValue)+1)
	word := func(off int) *ir.Value { return l.Load(ir.U64, p, off) }
	n := word(stateCount)
	l.stopIf(l.ICmp(ir.UGE, n, word(stateDepth)), unwind.TooDeep)
	l.stopIf(l.ICmp(ir.UGE, n, ir.Const(unwind.MaxFrames)), unwind.TooDeep)
	pc, exact := word(statePC), word(stateExact)
	// A return address is after its call, which may be the last instruction of a function.
	at := l.AddImm(l.Add(pc, exact), -1)
	l.stopIf(l.ICmp(ir.NE, l.LShr(at, ir.Const(56)), ir.Const(0)), unwind.BadValue)
	l.If(l.ICmp(ir.UGE, l.Sub(at, word(stateStart)), word(stateSize)), func() { l.findRange(p, at) }, nil)
	l.Store(ir.U64, l.Add(p, l.Shl(n, ir.Const(3))), stateFrames, pc)
	l.Store(ir.U64, p, stateCount, l.AddImm(n, 1))

	flags := l.Load(ir.U32, p, stateFile+4)
	l.stopIf(l.ICmp(ir.NE, l.And(flags, ir.Const(rangeNoTable)), ir.Const(0)), unwind.NoTable)
	l.If(l.ICmp(ir.NE, l.And(flags, ir.Const(rangeFrames)), ir.Const(0)), func() { l.followFrame(p) }, nil)
	file := l.Load(ir.U32, p, stateFile)
	l.stopIf(l.equal(file, 0), unwind.NotYetKnown)
	off := l.Sub(at, word(stateBias))
	l.stopIf(l.ICmp(ir.NE, l.LShr(off, ir.Const(32)), ir.Const(0)), unwind.NoTable)
	row := l.findRow(file, off)

	kind := l.Load(ir.U8, row, 4)
	sp, fp := word(stateSP), word(stateFP)
	column := func(k ir.MemKind, off int) *ir.Value { return l.Shl(l.Load(k, row, off), ir.Const(3)) }
	fromRegister := l.ICmp(ir.ULE, l.AddImm(kind, -unwind.KindSP), ir.Const(unwind.KindFP-unwind.KindSP))
	base := func() *ir.Value { // kinds are odd with sp
		return l.Select(l.equal(l.And(kind, ir.Const(1)), 0), fp, sp)
	}
	cfa := l.IfValue(fromRegister, ir.TI64,
		func() *ir.Value { return l.Add(base(), column(ir.S16, 6)) },
		func() *ir.Value {
			l.stopIf(l.equal(kind, unwind.KindNone), unwind.NoTable)
			l.stopIf(l.equal(kind, unwind.KindEnd), unwind.Whole)
			l.IfCold(l.equal(kind, unwind.KindFrames), func() { l.followFrame(p) })
			l.IfCold(l.equal(kind, unwind.KindSignal), func() { l.signalFrame(p) })
			l.stopIf(l.ICmp(ir.UGT, kind, ir.Const(unwind.KindPLT)), unwind.Unrepresented)
			l.IfCold(l.equal(kind, unwind.KindPLT), func() {
				pushed := l.ICmp(ir.UGE, l.And(pc, ir.Const(15)), l.Load(ir.S16, row, 6))
				ret := l.Add(sp, l.Select(pushed, ir.Const(8), ir.Const(0)))
				l.toCaller(p, l.userWord(p, ret), l.AddImm(ret, 8), fp)
			})
			more := l.LShr(l.And(l.Load(ir.U8, row, 5), ir.Const(unwind.CFAPlus8)), ir.Const(1)) // 8 or 0
			return l.Add(l.userWord(p, l.Add(base(), column(ir.S16, 6))), more)
		})
	// The stack grows down. A function that has no frame yet has its caller's sp where the call pushes nothing.
	l.stopBad(l.ICmp(ir.ULE, l.Add(cfa, exact), sp), fp)

	how := l.Load(ir.U8, row, 5)
	ra := l.And(how, ir.Const(unwind.RAMask))
	l.stopIf(l.ICmp(ir.UGE, ra, ir.Const(unwind.RANone)), unwind.Whole)
	ret := l.IfValue(l.equal(ra, unwind.RASaved), ir.TI64,
		func() *ir.Value { return l.userWord(p, l.Add(cfa, column(ir.S16, 10))) },
		func() *ir.Value {
			l.stopIf(l.equal(exact, 0), unwind.BadValue)
			return word(stateLR)
		})
	mode := l.And(how, ir.Const(unwind.FPMask))
	saved := l.ICmp(ir.NE, l.And(mode, ir.Const(1)), ir.Const(0)) // FPSaved, FPAtFP
	callerFP := l.IfValue(saved, ir.TI64,
		func() *ir.Value {
			from := l.Select(l.equal(mode, unwind.FPSaved), cfa, fp)
			return l.userWord(p, l.Add(from, column(ir.S16, 8)))
		},
		func() *ir.Value { return l.Select(l.equal(mode, unwind.FPSame), fp, ir.Const(unwind.LostFP)) })
	l.toCaller(p, ret, cfa, callerFP)
}

// stopBad ends a step if a value computed from the frame pointer is bad.
func (l *lowering) stopBad(bad, fp *ir.Value) {
	l.IfCold(bad, func() {
		l.IfCold(l.equal(fp, unwind.LostFP), func() { l.stop(unwind.Unrepresented) })
		l.stop(unwind.BadValue)
	})
}

// toCaller ends a step: the state becomes the caller's.
func (l *lowering) toCaller(p, pc, sp, fp *ir.Value) {
	pc = l.codeAddress(pc)
	l.stopIf(l.equal(pc, 0), unwind.BadValue)
	l.stopIf(l.ICmp(ir.NE, l.And(sp, ir.Const(7)), ir.Const(0)), unwind.BadValue)
	l.Store(ir.U64, p, statePC, pc)
	l.Store(ir.U64, p, stateSP, sp)
	l.Store(ir.U64, p, stateFP, fp)
	l.Store(ir.U64, p, stateExact, ir.Const(0))
	l.Ret(ir.Const(0))
}

// codeAddress removes an authentication code (arm64), which is above the 48 bits of an address of code.
func (l *lowering) codeAddress(pc *ir.Value) *ir.Value {
	signed := func(a *arch.Arch) bool { return a.Name == "aarch64" }
	if !slices.ContainsFunc(l.m.Served(), signed) {
		return pc
	}
	return l.And(pc, l.perArch(func(a *arch.Arch) int64 {
		if signed(a) {
			return 1<<48 - 1
		}
		return -1
	}))
}

// userWord reads a word of the process's memory; the step ends if the page is not resident.
func (l *lowering) userWord(p, addr *ir.Value) *ir.Value {
	l.readUser(p, 8, addr)
	return l.Load(ir.U64, p, stateWord)
}

// readUser reads at most two words to the state.
func (l *lowering) readUser(p *ir.Value, n int64, addr *ir.Value) {
	failed := l.Call("probe_read_user", ir.TI64, l.AddImm(p, stateWord), ir.Const(n), l.Cast(ir.TUAddr, addr))
	l.stopIf(l.ICmp(ir.NE, failed, ir.Const(0)), unwind.NotResident)
}

// followFrame ends a step in code that keeps frame pointers: fp is the address of the caller's fp and the return
// address; on riscv64, the address after them. A frame pointer of 0 ends the stack.
func (l *lowering) followFrame(p *ir.Value) {
	fp := l.Load(ir.U64, p, stateFP)
	l.stopIf(l.equal(fp, 0), unwind.Whole)
	record := l.Add(fp, l.perArch(func(a *arch.Arch) int64 {
		if a.Name == "riscv64" {
			return -16
		}
		return 0
	}))
	l.stopBad(l.ICmp(ir.NE, l.And(record, ir.Const(7)), ir.Const(0)), fp)
	// The next frame may be below: Go changes between stacks of goroutines and of threads.
	sp := l.AddImm(record, 16)
	l.stopIf(l.ICmp(ir.EQ, sp, l.Load(ir.U64, p, stateSP)), unwind.BadValue)
	l.readUser(p, 16, record)
	l.toCaller(p, l.Load(ir.U64, p, stateWord2), sp, l.Load(ir.U64, p, stateWord))
}

// signalFrame ends a step in the code that returns from a signal handler: all registers are in the frame at sp.
func (l *lowering) signalFrame(p *ir.Value) {
	sp := l.Load(ir.U64, p, stateSP)
	read := func(off func(c unwind.Context) int) *ir.Value {
		return l.userWord(p, l.Add(sp, l.perArch(func(a *arch.Arch) int64 { return int64(off(unwind.SignalContext(a.Machine))) })))
	}
	pc := read(func(c unwind.Context) int { return c.PC })
	fp := read(func(c unwind.Context) int { return c.FP })
	next := read(func(c unwind.Context) int { return c.SP })
	link := slices.ContainsFunc(l.m.Served(), func(a *arch.Arch) bool { return a.Link != "" })
	if link { // elsewhere this is another word, which nothing uses
		l.Store(ir.U64, p, stateLR, read(func(c unwind.Context) int { return c.LR }))
	}
	l.stopIf(l.equal(pc, 0), unwind.BadValue)
	l.Store(ir.U64, p, statePC, pc)
	l.Store(ir.U64, p, stateSP, next)
	l.Store(ir.U64, p, stateFP, fp)
	l.Store(ir.U64, p, stateExact, ir.Const(1))
	l.Ret(ir.Const(0))
}

// findRange finds the range of an address by binary search and puts it into the state; the step ends if there is none.
func (l *lowering) findRange(p, at *ir.Value) {
	key := l.Slot("range", 4, 4)
	element := func(i *ir.Value) *ir.Value {
		l.Store(ir.U32, key, 0, i)
		r := l.lookup(unwindRanges, key)
		l.stopIf(l.IsNull(r), unwind.NotYetKnown)
		return l.NonNull(r)
	}
	done := l.Split()
	found := done.AddParam(ir.TI64)
	lo, n := l.Load(ir.U64, p, stateFirst), l.Load(ir.U64, p, stateRanges)
	after := l.AddImm(at, 1)
	for range maxRangeSteps {
		next := l.Func().NewBlockAfter(l.Block())
		l.Block().Br(l.ICmp(ir.ULE, n, ir.Const(1)), ir.Edge{To: done, Args: []*ir.Value{lo}}, ir.Edge{To: next}, l.Pos)
		l.continueAt(next)
		half := l.LShr(n, ir.Const(1))
		start := l.Load(ir.U64, element(l.Add(lo, half)), 0)
		lo = l.Add(lo, l.Mul(l.LShr(l.Sub(start, after), ir.Const(63)), half))
		n = l.Sub(n, half)
	}
	l.Jump(done, lo)
	l.continueAt(done)
	r := element(found)
	start := l.Load(ir.U64, r, 0)
	size := l.Sub(l.Load(ir.U64, r, 8), start)
	l.stopIf(l.ICmp(ir.UGE, l.Sub(at, start), size), unwind.UnknownCode)
	l.Store(ir.U64, p, stateStart, start)
	l.Store(ir.U64, p, stateSize, size)
	l.Store(ir.U64, p, stateBias, l.Load(ir.U64, r, 16))
	l.Store(ir.U64, p, stateFile, l.Load(ir.U64, r, 24))
}

// findRow finds the row of an offset in a file's table; the step ends if there is none.
func (l *lowering) findRow(file, off *ir.Value) *ir.Value {
	key := l.Slot("row", 4, 4)
	l.Store(ir.U32, key, 0, file)
	table := l.lookup(unwindTables, key)
	l.stopIf(l.IsNull(table), unwind.NotYetKnown)
	table = l.NonNull(table)
	element := func(i *ir.Value) *ir.Value {
		l.Store(ir.U32, key, 0, i)
		chunk := l.Call("map_lookup_elem", ir.TMapVal(unwindTable, true), table, key)
		l.stopIf(l.IsNull(chunk), unwind.NoTable)
		return l.NonNull(chunk)
	}
	after := l.AddImm(off, 1)
	index := l.lastBelow(element(ir.Const(0)), unwind.MaxChunks, 4, after)
	chunk := element(l.AddImm(l.LShr(index, ir.Const(2)), 1))
	row := l.Add(chunk, l.lastBelow(chunk, unwind.ChunkRows, unwind.RowSize, after))
	l.stopIf(l.ICmp(ir.UGE, l.Load(ir.U32, row, 0), after), unwind.NoTable) // before the first row
	return row
}

// lastBelow returns the offset of the last of n elements that is less than x, or of the first one. They are ascending
// u32 at the start of elements of size bytes. The search has no branches: the verifier walks it once, and knows from the
// constants that the offset is inside. It multiplies by 0 or 1, because a verifier (6.18) that sees a mask of 0 or -1
// walks on once for each.
func (l *lowering) lastBelow(p *ir.Value, n, size int64, x *ir.Value) *ir.Value {
	at := ir.Const(0)
	for n > 1 {
		half := n / 2
		less := l.LShr(l.Sub(l.Load(ir.U32, l.Add(p, at), int(half*size)), x), ir.Const(63))
		at = l.Add(at, l.Mul(less, ir.Const(half*size)))
		n -= half
	}
	return at
}
