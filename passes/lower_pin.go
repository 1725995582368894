// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"strings"

	"btc/internal/probe"
	"btc/ir"
)

// inPinned: a pinned iterator, which other programs read, emits text, formatted by the
// kernel.
func (l *lowering) inPinned() bool {
	p := l.Func().Prog
	return p != nil && p.Kind == probe.Iter && p.Attach.Target != ""
}

// printSeq writes a printf's output to the reader of the iterator (bpf_seq_printf, 5.7).
// Its arguments are words; strings follow them, and their words hold addresses.
func (l *lowering) printSeq(e *ir.Event, args []*ir.Value, made map[*ir.Slot]*ir.Value) {
	data, size := ir.Const(0), int64(8*len(args))
	total := int(size)
	for i := range args {
		if e.Fields[i].Kind == ir.LString {
			total += roundUp(e.Fields[i].Layout.Size+1, 8)
		}
	}
	if len(args) > 0 {
		data = l.Slot("words", total, 8)
	}
	if total > int(size) {
		// Not in the frame: 5.10 does not accept a frame that holds addresses as a helper's
		// argument.
		data.Slot.Class = ir.Scratch
	}
	at := int(size)
	for i, f := range e.Fields {
		a := args[i]
		if f.Kind == ir.LString {
			to := l.AddImm(data, int64(at))
			if p := producer(a, made); p != nil {
				l.produce(p, to, int64(f.Layout.Size))
			} else {
				l.copy(to, a, valueSize(f.Layout))
			}
			at += roundUp(f.Layout.Size+1, 8)
			a = to
		}
		if a.Type.IsPtr() {
			a = l.Cast(ir.TI64, a)
		}
		l.Store(ir.U64, data, 8*i, a)
	}
	text := kernelFormat(e) + "\x00"
	name := fmt.Sprintf("format_%d", e.ID)
	if l.m.Global(name) == nil {
		l.m.Globals = append(l.m.Globals,
			&ir.Global{Name: name, Kind: ir.GlobalConst, Size: len(text), Init: []byte(text)})
	}
	format := l.GlobalAddr(ir.TMapVal(".rodata", false), name, 0)
	l.Call("seq_printf", ir.TI64, l.seqFile(), format, ir.Const(int64(len(text))), data, ir.Const(size))
}

// kernelFormat returns a printf's format in the kernel's syntax: each number is a word of 64
// bits.
func kernelFormat(e *ir.Event) string {
	var out strings.Builder
	for i := 0; i < len(e.Format); i++ {
		if e.Format[i] != '%' {
			out.WriteByte(e.Format[i])
			continue
		}
		flags := i + 1
		for flags < len(e.Format) && strings.IndexByte("0123456789+- #", e.Format[flags]) >= 0 {
			flags++
		}
		end := flags
		for end < len(e.Format) && strings.IndexByte("hlzjt", e.Format[end]) >= 0 {
			end++
		}
		if end >= len(e.Format) {
			out.WriteString(e.Format[i:])
			break
		}
		head := strings.ReplaceAll(e.Format[i:flags], "#", "")
		switch conv := e.Format[end]; conv {
		case 'd', 'i', 'u', 'x':
			out.WriteString(head + "ll" + string(conv))
		case 'p': // the kernel would hash the address
			out.WriteString("0x" + head + "llx")
		default:
			out.WriteString(head + string(conv))
		}
		i = end
	}
	return out.String()
}
