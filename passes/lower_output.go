// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"math/bits"
	"slices"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/ir"
)

// lower-output lays out the events and replaces emit, join and divzero by records in the
// ring buffer. Records of constant size are reserved and built in place; those with strings
// are built in scratch and sent with their actual length.
//
// requires:    -
// establishes: Event.Fields[i].Off and Var, Event.Size and Tail; none of these ops is left
// invalidates: dominators, liveness (it adds blocks)
//
//	emit "exit0" 0
//	->
//	v1:ringbuf(16)? = call ringbuf_reserve(events, 16, 0)
//	...                                  ; null: the loss is counted
//	v2:ringbuf(16) = nonnull v1
//	store.u32 [v2+0], 3
//	store.u32 [v2+4], 16
//	store.u64 [v2+8], 0
//	call ringbuf_submit(v2, 2)
//
// A str, comm or strlit whose only use is the event is written directly into it.
func lowerOutput(m *ir.Module) []ir.Diag {
	for _, e := range m.Events {
		layoutEvent(e)
	}
	made := map[*ir.Slot]*ir.Value{}
	for _, f := range m.Funcs {
		takeProducers(f, made)
	}
	return rules{
		ir.OpEmit: func(l *lowering, v *ir.Value) *ir.Value {
			e := l.m.Event(v.Sym)
			if e == nil {
				panic("BUG: no event: " + v.Text())
			}
			l.sendFrom(e, v.Args, made)
			return nil
		},
		ir.OpJoin: lowerJoin,
		ir.OpDivZero: func(l *lowering, v *ir.Value) *ir.Value {
			l.send(l.ownEvent(ir.EvError, "index"), ir.Const(v.Imm))
			return nil
		},
		ir.OpFailed: func(l *lowering, v *ir.Value) *ir.Value {
			l.check(v.Sym, v.Args[0])
			return nil
		},
		ir.OpError: func(l *lowering, v *ir.Value) *ir.Value {
			l.send(l.ownEvent(ir.EvError, "index"), v.Args[0])
			return nil
		},
	}.apply(m)
}

// Sizes of the ring buffer and its records.
const (
	ringSize    = 256 << 10
	headerSize  = 8 // u32 id, u32 length
	wakeShift   = 16
	wakeAt      = 1 << wakeShift // unread bytes at which the reader is woken, and at each multiple
	inPlaceSize = 16             // longest string that a record holds at its full capacity
)

// layoutEvent assigns offsets to the fields: numbers take 8 bytes, longer strings and
// buffers {u16 offset, u16 length} into the tail.
func layoutEvent(e *ir.Event) {
	off := headerSize
	for i := range e.Fields {
		f := &e.Fields[i]
		f.Var = f.Kind == ir.LBuffer || f.Kind == ir.LString && f.Size > inPlaceSize
		size, align := valueSize(f.Layout), 8
		if f.Var {
			size, align = 4, 4
			e.Tail = true
		}
		f.Off = roundUp(off, align)
		off = f.Off + size
	}
	e.Size = roundUp(off, 8)
}

// ownEvent finds or creates the event of a kind that the lowerings need, with its numeric
// fields.
func (l *lowering) ownEvent(kind ir.EventKind, fields ...string) *ir.Event {
	for _, e := range l.m.Events {
		if e.Kind == kind {
			return e
		}
	}
	e := &ir.Event{ID: len(l.m.Events), Name: string(kind), Kind: kind, Pos: ir.NoPos}
	for _, name := range fields {
		e.Fields = append(e.Fields,
			ir.Field{Name: name, Layout: &ir.Layout{Kind: ir.LInt, Size: 8, Align: 8, Name: "uint64"}})
	}
	layoutEvent(e)
	l.m.Events = append(l.m.Events, e)
	return e
}

// takeProducers removes each str, comm and literal whose only use is one event:
// nothing else touches its slot or uses its result, and it runs before each run
// of the emit.
func takeProducers(f *ir.Func, made map[*ir.Slot]*ir.Value) {
	type position struct {
		b *ir.Block
		i int
	}
	uses, d := ir.UseCounts(f), ir.Dominators(f)
	mentions, emits, makers := map[*ir.Slot]int{}, map[*ir.Slot]position{}, map[*ir.Slot]position{}
	f.Uses(func(v **ir.Value) {
		if (*v).Op == ir.OpSlotAddr {
			mentions[(*v).Slot]++
		}
	})
	for _, b := range d.Order {
		for i, v := range b.Values {
			for j, a := range v.Args {
				switch {
				case a.Op != ir.OpSlotAddr || a.Imm != 0 || mentions[a.Slot] != 2: // the producer and the event
				case v.Op == ir.OpEmit:
					emits[a.Slot] = position{b, i}
				case j == 0 && uses[v.ID] == 0 && (v.Op == ir.OpStr || v.Op == ir.OpComm || v.Op == ir.OpStrLit):
					makers[a.Slot] = position{b, i}
				}
			}
		}
	}
	for _, s := range f.Slots {
		e, mk := emits[s], makers[s]
		if e.b == nil || mk.b == nil || !d.Dominates(mk.b, e.b) || mk.b == e.b && mk.i > e.i {
			continue
		}
		made[s] = mk.b.Values[mk.i]
	}
	for _, b := range f.Blocks {
		b.Values = slices.DeleteFunc(b.Values, func(v *ir.Value) bool {
			return len(v.Args) > 0 && v.Args[0].Op == ir.OpSlotAddr && made[v.Args[0].Slot] == v
		})
	}
}

func (l *lowering) send(e *ir.Event, args ...*ir.Value) { l.sendFrom(e, args, nil) }

// sendFrom sends event e; made has the producers of arguments that have yet to run.
func (l *lowering) sendFrom(e *ir.Event, args []*ir.Value, made map[*ir.Slot]*ir.Value) {
	if len(args) != len(e.Fields) {
		panic("BUG: event " + e.Name + " has another number of fields")
	}
	if l.inPinned() && e.Kind == ir.EvPrintf {
		l.printSeq(e, args, made)
		return
	}
	if t := l.tracer(e); t != nil {
		own := l.ICmp(ir.NE, l.hostConst(manifest.HostOwnReader), ir.Const(0))
		l.If(own, func() { l.sendEvent(e, args, made) }, func() { l.trace(t, args, made) })
		return
	}
	l.sendEvent(e, args, made)
}

// sendEvent sends a record to btc's own reader.
func (l *lowering) sendEvent(e *ir.Event, args []*ir.Value, made map[*ir.Slot]*ir.Value) {
	events := intern(l.m, "events", "ringbuf", 0, 0, ringSize)
	needLoss(l.m, events)
	size := ir.Const(int64(e.Size))
	switch {
	case e.Tail:
		l.sendTail(events, e, args, made)
		return
	case l.inIterator():
		rec := l.Slot("record", e.Size, 8)
		l.Store(ir.U32, rec, 0, ir.Const(int64(e.ID)))
		l.Store(ir.U32, rec, 4, size)
		l.fill(rec, e, args, made)
		l.pad(rec, e)
		l.writeSeq(rec, size)
		return
	}
	r := l.Call("ringbuf_reserve", ir.TRingbuf(e.Size, true), ir.MapOperand("events"), size, ir.Const(0))
	l.IfElseCold(l.NotNull(r), func() {
		rec := l.NonNull(r)
		l.Store(ir.U32, rec, 0, ir.Const(int64(e.ID)))
		l.Store(ir.U32, rec, 4, size)
		l.fill(rec, e, args, made)
		l.Call("ringbuf_submit", ir.TVoid, rec, l.submitFlags(e, rec))
	}, func() { l.lose(events) })
}

// inIterator: records are written to where an iterator's reader finds them.
func (l *lowering) inIterator() bool {
	p := l.Func().Prog
	return p != nil && p.Kind == probe.Iter
}

// writeSeq passes a record to the reader of the iterator. Nothing is lost: when the
// kernel's buffer is full, the kernel calls the program again for the same object once the
// reader has consumed the buffer.
func (l *lowering) writeSeq(rec, size *ir.Value) {
	l.Call("seq_write", ir.TI64, l.seqFile(), rec, size)
}

// seqFile returns the kernel's file that the iterator writes to.
func (l *lowering) seqFile() *ir.Value {
	ctx := l.Func().Entry().Params[0]
	meta := l.LoadAs(ir.TBTF("struct bpf_iter_meta", false), ir.U64, ctx, 0)
	return l.LoadField(ir.TBTF("struct seq_file", false), ir.U64, meta,
		ir.CORERef{Type: "struct bpf_iter_meta", Path: "seq"})
}

// producer returns the op that takeProducers removed for an argument, or nil if there is none.
func producer(arg *ir.Value, made map[*ir.Slot]*ir.Value) *ir.Value {
	if arg.Op != ir.OpSlotAddr {
		return nil
	}
	return made[arg.Slot]
}

// pad zeroes the bytes of a record on the stack that fill does not write: kernels before
// 6.3 refuse to read them.
func (l *lowering) pad(rec *ir.Value, e *ir.Event) {
	for i := range e.Fields {
		f := &e.Fields[i]
		end, next := f.Off+written(f), e.Size
		if i+1 < len(e.Fields) {
			next = e.Fields[i+1].Off
		}
		if next > end {
			l.zero(l.AddImm(rec, int64(end)), next-end)
		}
	}
}

// written returns the number of bytes of a fixed field that fill writes.
func written(f *ir.Field) int {
	if f.Var {
		return 4
	}
	return min(valueSize(f.Layout), max(numberSize(f.Layout), f.Layout.Size))
}

// numberSize returns the number of bytes that are written for a number. The reader extends it from
// its size; the upper bytes are not written.
func numberSize(l *ir.Layout) int {
	if k := l.Kind; (k == ir.LInt || k == ir.LEnum || k == ir.LBool) && l.Size < 8 {
		return max(l.Size, 1)
	}
	return 8
}

// fill writes the fixed fields.
func (l *lowering) fill(rec *ir.Value, e *ir.Event, args []*ir.Value, made map[*ir.Slot]*ir.Value) {
	for i, f := range e.Fields {
		a := args[i]
		switch {
		case f.Var:
		case !a.Type.IsPtr():
			l.Store(ir.MemKindOf(numberSize(f.Layout), false), rec, f.Off, a)
		case producer(a, made) != nil:
			l.produce(made[a.Slot], l.AddImm(rec, int64(f.Off)), int64(f.Layout.Size))
		default:
			l.copy(l.AddImm(rec, int64(f.Off)), a, valueSize(f.Layout))
		}
	}
}

// produce runs the op that takeProducers removed, with another destination that has room
// bytes.
func (l *lowering) produce(v, to *ir.Value, room int64) {
	switch v.Op {
	case ir.OpComm:
		l.Call("get_current_comm", ir.TI64, to, ir.Const(commSize))
		return
	case ir.OpStrLit:
		l.literal(to, v, room)
		return
	}
	l.Store(ir.U8, to, 0, ir.Const(0)) // used when the bound is 0
	l.at(v, func() { l.fillString(to, v.Args[1], v.Args[2], min(room, v.Imm)) })
}

// literal writes as much of a strlit as room holds, without the padding after its NUL.
func (l *lowering) literal(to, v *ir.Value, room int64) {
	s := l.Emit(ir.OpStrLit, ir.TVoid, to)
	s.Imm = min(v.Imm, room, int64(roundUp(len(v.Sym)+1, 8)))
	s.Sym = v.Sym[:min(len(v.Sym), int(s.Imm))]
}

// The wake-up flags of the ring buffer helpers.
const (
	noWakeup    = 1 // BPF_RB_NO_WAKEUP
	forceWakeup = 2 // BPF_RB_FORCE_WAKEUP

	recordHeader = 8 // BPF_RINGBUF_HDR_SZ
)

// wakeFlags returns the wake-up flags of a record. A sleeping reader is woken by the next event; a
// polling reader is woken at once only for events that it must act on, and when much was sent. A
// wake-up interrupts the CPU, which costs up to 10 us on virtual machines: only the record that
// carries the sum of lengths past a multiple of wakeAt wakes. length is the record's, less than
// wakeAt. Two CPUs that add to the sum at the same time may set it back, and wake the reader twice.
func (l *lowering) wakeFlags(e *ir.Event, length *ir.Value) *ir.Value {
	if actsAtOnce(e) {
		return ir.Const(forceWakeup)
	}
	global(l.m, "sent", ir.GlobalData, 2)
	sent := l.GlobalAddr(ir.TMapVal(".bss", false), "sent", 0)
	sum := l.Add(l.Load(ir.U16, sent, 0), length)
	l.Store(ir.U16, sent, 0, sum)
	return l.unlessAsleep(l.AddImm(l.LShr(sum, ir.Const(wakeShift)), noWakeup)) // noWakeup and the carry
}

// submitFlags returns the wake-up flags of a record that was built in place, computed from its
// address: a record that ends at or crosses a multiple of wakeAt wakes the reader. This needs no
// helper and no branch, and reads no memory that the reader writes often. (A 32-bit copy of a
// pointer is a number to the verifier for programs that may see addresses, which all tracing
// programs may; masking the pointer is refused.)
func (l *lowering) submitFlags(e *ir.Event, rec *ir.Value) *ir.Value {
	if actsAtOnce(e) {
		return ir.Const(forceWakeup)
	}
	at := l.And(l.Emit(ir.OpZext, ir.TI64, l.Cast(ir.TI64, rec)), ir.Const(wakeAt-1))
	at.Args[0].Mem = ir.U32
	// The header of the next record follows the record. noWakeup*wakeAt is added so that the shift
	// yields noWakeup (1) if the record ends before the next multiple of wakeAt, else forceWakeup
	// (2).
	end := l.AddImm(at, int64(min(roundUp(e.Size, 8)+recordHeader, wakeAt))+noWakeup*wakeAt)
	return l.unlessAsleep(l.LShr(end, ir.Const(wakeShift)))
}

// unlessAsleep clears noWakeup in flags if the global asleep is 1: while the reader sleeps, and
// with a loader that does not know the global, whose initial value is 1. Without a flag the kernel
// wakes the reader for a record if all earlier ones were consumed: for the first one, and not
// again until the reader has run.
func (l *lowering) unlessAsleep(flags *ir.Value) *ir.Value {
	global(l.m, "asleep", ir.GlobalInit, 8).Init = []byte{noWakeup}
	return l.Binary(ir.OpXor, flags, l.Load(ir.U64, l.GlobalAddr(ir.TMapVal(".data", false), "asleep", 0), 0))
}

// actsAtOnce reports whether the reader must act on the event at once.
func actsAtOnce(e *ir.Event) bool {
	switch e.Kind {
	case ir.EvExit, ir.EvPrintMap, ir.EvClear, ir.EvZero, ir.EvProc, ir.EvUnwatch, ir.EvUnwind:
		return true
	}
	return false
}

// sendTail builds a record with variable strings in scratch: each string starts at the end
// of the one before it.
func (l *lowering) sendTail(events *ir.Map, e *ir.Event, args []*ir.Value, made map[*ir.Slot]*ir.Value) {
	most := e.Size
	for _, f := range e.Fields {
		if f.Var {
			most += tailRoom(f)
		}
	}
	rec := l.Slot("record", roundUp(most, 8), 8)
	rec.Slot.Class = ir.Scratch
	l.Store(ir.U32, rec, 0, ir.Const(int64(e.ID)))
	l.fill(rec, e, args, made)
	at, limit := ir.Const(int64(e.Size)), e.Size
	for i, f := range e.Fields {
		if !f.Var {
			continue
		}
		n := l.tailField(l.Add(rec, l.clamp(at, limit)), f, args[i], made)
		length := n
		if f.Kind == ir.LString {
			length = l.AddImm(n, -1)
		}
		l.Store(ir.U16, rec, f.Off, at)
		l.Store(ir.U16, rec, f.Off+2, length)
		at = l.Add(n, at)
		limit += tailRoom(f)
		if len(e.Fields) > manyFields {
			// The kernel verifier does not track the content of scratch: it verifies the
			// following code once, not for each combination of earlier lengths.
			l.Store(ir.U32, rec, 4, at)
			at = l.Load(ir.U32, rec, 4)
		}
	}
	l.sendRecord(events, e, rec, at, limit)
}

// sendRecord sends a record that was built in scratch: at is its length, which is at most
// limit.
func (l *lowering) sendRecord(events *ir.Map, e *ir.Event, rec, at *ir.Value, limit int) {
	l.Store(ir.U32, rec, 4, at)
	if l.inIterator() {
		l.writeSeq(rec, l.clamp(at, limit))
		return
	}
	flags := l.wakeFlags(e, at)
	r := l.Call("ringbuf_output", ir.TI64, ir.MapOperand("events"), rec, l.clamp(at, limit), flags)
	l.IfCold(l.ICmp(ir.SLT, r, ir.Const(0)), func() { l.lose(events) })
}

// lowerJoin reads the strings into the tail in a loop. The current end of the tail is kept
// in the record: the kernel verifier does not track the content of scratch, so it verifies
// an iteration once for all lengths of the earlier strings.
func lowerJoin(l *lowering, v *ir.Value) *ir.Value {
	e, at := l.m.Event(v.Sym), v.Args[0]
	events := intern(l.m, "events", "ringbuf", 0, 0, ringSize)
	needLoss(l.m, events)
	field := e.Fields[0]
	most := e.Size + int(v.Imm)*ir.JoinBytes
	// last is a mask that covers the offset of the last string. A branch instead of a mask would cost the verifier
	// another path in each iteration.
	last := 1<<bits.Len(uint(most-ir.JoinBytes)) - 1
	rec := l.Slot("record", roundUp(last+ir.JoinBytes, 8), 8)
	rec.Slot.Class = ir.Scratch
	l.Store(ir.U32, rec, 0, ir.Const(int64(e.ID)))
	l.Store(ir.U16, rec, field.Off, ir.Const(int64(e.Size)))
	l.Store(ir.U32, rec, 4, ir.Const(int64(e.Size)))
	done := l.Split()
	f := l.Func()
	head := f.NewBlockAfter(l.Block())
	i := head.AddParam(ir.TI64)
	l.Jump(head, ir.Const(0))
	l.continueAt(head)
	read := l.Emit(ir.OpRead, at.Type, l.Add(at, l.Shl(i, ir.Const(3))))
	read.Mem = ir.U64
	some := f.NewBlockAfter(head)
	l.Br(l.ICmp(ir.NE, read, constOf(at.Type, 0)), some, done)
	l.continueAt(some)
	end := l.Load(ir.U32, rec, 4)
	n := l.readString(l.Add(rec, l.And(end, ir.Const(int64(last)))), read, ir.Const(ir.JoinBytes), ir.JoinBytes)
	n = l.And(n, l.Binary(ir.OpXor, l.AShr(n, ir.Const(63)), ir.Const(-1))) // 0 for a string that cannot be read
	l.Store(ir.U32, rec, 4, l.Add(n, end))
	next := l.AddImm(i, 1)
	l.Block().
		Br(l.ICmp(ir.ULT, next, ir.Const(v.Imm)), ir.Edge{To: head, Args: []*ir.Value{next}}, ir.Edge{To: done}, l.Pos)
	l.continueAt(done)
	end = l.Load(ir.U32, rec, 4)
	l.Store(ir.U16, rec, field.Off+2, l.AddImm(end, int64(-e.Size)))
	l.sendRecord(events, e, rec, end, most)
	return nil
}

// manyFields is the number of fields above which the current end of the tail is kept in
// memory.
const manyFields = 8

// tailRoom returns the maximum size of a string or buffer in the tail; a string that fills its
// capacity is followed by its NUL.
func tailRoom(f ir.Field) int {
	if f.Kind == ir.LString {
		return f.Layout.Size + 1
	}
	return f.Layout.Size
}

// tailField writes one string or buffer and returns its length in bytes: for a string with
// the NUL, at least 1.
func (l *lowering) tailField(to *ir.Value, f ir.Field, arg *ir.Value, made map[*ir.Slot]*ir.Value) *ir.Value {
	room := int64(tailRoom(f))
	if f.Kind == ir.LBuffer {
		n := l.clamp(l.Load(ir.U32, arg, 0), int(room)-4)
		l.Call("probe_read_kernel", ir.TI64, to, n, l.AddImm(arg, 4))
		return n
	}
	var n *ir.Value
	switch str := producer(arg, made); {
	case str == nil:
		n = l.readString(to, arg, ir.Const(room), room)
	case str.Op == ir.OpStrLit:
		l.literal(to, str, room)
		return ir.Const(min(int64(len(str.Sym)), str.Imm) + 1)
	case str.Op == ir.OpComm: // in a wider string: the other branch of an expression
		l.produce(str, arg, room)
		n = l.readString(to, arg, ir.Const(commSize), commSize)
	default:
		l.at(str, func() { n = l.readString(to, str.Args[1], str.Args[2], min(room, str.Imm+1)) })
	}
	return l.Select(l.ICmp(ir.SGT, n, ir.Const(0)), n, ir.Const(1))
}

// clamp bounds x, an unsigned number, where it is used: before 5.11 the kernel forgets the bounds
// of a number that is spilled.
func (l *lowering) clamp(x *ir.Value, most int) *ir.Value {
	top := ir.Const(int64(most))
	if x.IsConst() {
		return ir.Const(int64(min(uint64(x.Imm), uint64(most))))
	}
	return l.Select(l.ICmp(ir.UGT, x, top), top, x)
}
