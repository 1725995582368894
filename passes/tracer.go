// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"slices"
	"strings"

	"btc/ir"
)

// Records for Inspektor Gadget. It reads structs of one type from a ring buffer, so each printf has a
// ring buffer of its own, and strings have their full size. Programs send to it unless the constant
// manifest.HostOwnReader says that btc's own loader reads the events: the kernel's verifier removes the other side.

const lostSamples = "_lost_samples" // after a ring buffer's name: the map that counts what did not fit

// Sizes of a ring buffer for Inspektor Gadget, which it cannot change: room for tracedRecords, up to
// maxTraced bytes.
const (
	tracedRecords = 4096
	maxTraced     = 4 << 20
)

// tracer returns the ring buffer of a printf for Inspektor Gadget; nil for other events, for a printf
// without a value that it shows, and where Inspektor Gadget does not attach the program. The programs of a
// clause with several probes share the ring buffer of a printf.
func (l *lowering) tracer(e *ir.Event) *ir.Map {
	if p := l.Func().Prog; l.m.Meta.For != ForGadget || e.Kind != ir.EvPrintf ||
		p != nil && (l.inIterator() || !strings.Contains(p.Section, "/")) {
		return nil
	}
	if x := l.m.Map(e.Name); x != nil {
		return x
	}
	record := &ir.Layout{Kind: ir.LRecord, Align: 8}
	shown := false
	for i, f := range e.Fields {
		f.Var = false
		f.Off = roundUp(record.Size, 8)
		record.Size = f.Off + roundUp(valueSize(f.Layout), 8)
		f.Name = "__hidden"
		if isColumn(f.Layout) {
			shown = true
			f.Name = ""
			if i < len(e.Columns) {
				f.Name = strings.TrimLeft(e.Columns[i], "_")
			}
		}
		record.Fields = append(record.Fields, f)
	}
	if !shown || record.Size > ringSize/8 {
		return nil
	}
	for _, o := range l.m.Events {
		if x := l.m.Map(o.Name); x != nil && x.Record != nil && o.Pos.Line == e.Pos.Line && o.Pos.Col == e.Pos.Col &&
			sameRecord(x.Record, record) {
			return x
		}
	}
	x := intern(l.m, e.Name, "ringbuf", 0, 0, min(max(powerOfTwo(record.Size*tracedRecords), ringSize), maxTraced))
	x.Record = record
	intern(l.m, e.Name+lostSamples, "percpu_array", 4, 8, 1)
	global(l.m, "gadget_tracer_"+e.Name+"___"+e.Name+"___"+e.Name+"_event", ir.GlobalData, 8).Mark = true
	return x
}

// sameRecord reports whether two records have the same fields.
func sameRecord(a, b *ir.Layout) bool {
	return slices.EqualFunc(a.Fields, b.Fields, func(f, g ir.Field) bool {
		return f.Name == g.Name && f.Off == g.Off && f.Kind == g.Kind && f.Layout.Name == g.Layout.Name &&
			f.Layout.Size == g.Layout.Size && f.Signed == g.Signed
	})
}

// isColumn reports whether Inspektor Gadget can show a value.
func isColumn(l *ir.Layout) bool {
	switch l.Kind {
	case ir.LInt, ir.LBool, ir.LPtr, ir.LEnum, ir.LString, ir.LKsym, ir.LUsername, ir.LCgroup, ir.LTimestamp:
		return true
	}
	return false
}

// trace sends a record to a ring buffer of tracer.
func (l *lowering) trace(x *ir.Map, args []*ir.Value, made map[*ir.Slot]*ir.Value) {
	size := x.Record.Size
	r := l.Call("ringbuf_reserve", ir.TRingbuf(size, true), ir.MapOperand(x.Name), ir.Const(int64(size)), ir.Const(0))
	l.IfElseCold(l.NotNull(r), func() {
		rec := l.NonNull(r)
		l.fill(rec, &ir.Event{Fields: x.Record.Fields}, args, made)
		l.Call("ringbuf_submit", ir.TVoid, rec, ir.Const(0))
	}, func() {
		p := l.lookup(x.Name+lostSamples, l.key32(ir.Const(0)))
		l.If(l.NotNull(p), func() {
			p := l.NonNull(p)
			l.Store(ir.U64, p, 0, l.AddImm(l.Load(ir.U64, p, 0), 1))
		}, nil)
	})
}
