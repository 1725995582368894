// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"strconv"
	"strings"

	"btc/ir"
)

func outputOps() map[ir.Op]opFunc {
	return map[ir.Op]opFunc{
		ir.OpEmit: emit,
		ir.OpJoin: join,
		ir.OpDivZero: func(fr *frame, v *ir.Value) int64 {
			fr.event(ir.EvError, "", []string{itoa(v.Imm)})
			return 0
		},
		ir.OpFailed: func(fr *frame, v *ir.Value) int64 {
			if code := int32(fr.arg(v, 0)); code < 0 && v.Pos.Site > 0 {
				fr.event(ir.EvHelperError, "", []string{v.Sym, itoa(int64(code))})
			}
			return 0
		},
		ir.OpError: func(fr *frame, v *ir.Value) int64 {
			fr.event(ir.EvError, "", []string{itoa(fr.arg(v, 0))})
			return 0
		},
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// event records an event. The compiler's own events are identified by kind: lowering
// chooses their names.
func (k *Machine) event(kind ir.EventKind, name string, fields []string) {
	if kind == ir.EvProc || kind == ir.EvUnwind || kind == ir.EvError || kind == ir.EvHelperError {
		name = string(kind)
	}
	k.Events = append(k.Events, name+"("+strings.Join(fields, ", ")+")")
}

func emit(fr *frame, v *ir.Value) int64 {
	e := fr.Module.Event(v.Sym)
	if e == nil || len(v.Args) != len(e.Fields) {
		fr.trap("event does not fit its declaration")
	}
	var fields []string
	for i, a := range v.Args {
		l := e.Fields[i].Layout
		if a.Type.IsPtr() {
			fields = append(fields, fr.decode(l, fr.bytes(fr.arg(v, i), fr.memSize(l, fr.arg(v, i)), false)))
			continue
		}
		var b [8]byte
		putUint(b[:], uint64(fr.arg(v, i)))
		fields = append(fields, fr.decode(l, b[:]))
	}
	fr.event(e.Kind, e.Name, fields)
	return 0
}

// join sends the strings that an array of pointers names.
func join(fr *frame, v *ir.Value) int64 {
	e, t := fr.Module.Event(v.Sym), v.Args[0].Type
	var text []byte
	for i := range v.Imm {
		p := fr.readable(t, fr.arg(v, 0)+8*i, 8)
		if p == nil || getUint(p) == 0 {
			break
		}
		s, ok := fr.mem.str(getUint(p), ir.JoinBytes, fr.user(t, int64(getUint(p))))
		if !ok {
			continue
		}
		text = append(append(text, s[:min(len(s), ir.JoinBytes-1)]...), 0)
	}
	fr.event(e.Kind, e.Name, []string{variable(e.Fields[0].Layout, text)})
	return 0
}

// memSize returns the size of the object at addr: a string may be in a smaller
// slot than the field has room for.
func (fr *frame) memSize(l *ir.Layout, addr int64) int {
	n := l.MemSize()
	if o := fr.mem.object(uint64(addr)); o != nil && l.Kind == ir.LString {
		n = min(n, max(0, len(o.data)-int((uint64(addr)-firstAddr)%stride)))
	}
	return n
}

// record decodes a ring-buffer record by the layout of its event.
func (fr *frame) record(b []byte) {
	if len(b) < 8 {
		fr.trap("record of %d bytes", len(b))
	}
	id, length := int(getUint(b[:4])), int(getUint(b[4:8]))
	if id >= len(fr.Module.Events) {
		fr.trap("record of event %d, which is not declared", id)
	}
	e := fr.Module.Events[id]
	if length > len(b) || length < e.Size {
		fr.trap("record of event %s says %d bytes, has %d", e.Name, length, len(b))
	}
	var fields []string
	for i := range e.Fields {
		f := &e.Fields[i]
		if !f.Var {
			fields = append(fields, fr.decode(f.Layout, b[f.Off:min(f.Off+f.Layout.MemSize(), length)]))
			continue
		}
		off, n := int(getUint(b[f.Off:f.Off+2])), int(getUint(b[f.Off+2:f.Off+4]))
		if off < e.Size || off+n > length {
			fr.trap("field %d of event %s is at %d+%d in %d bytes", i, e.Name, off, n, length)
		}
		fields = append(fields, variable(f.Layout, b[off:off+n]))
	}
	fr.event(e.Kind, e.Name, fields)
}

// variable formats a string or buffer in a record's tail.
func variable(l *ir.Layout, b []byte) string {
	if l.Kind == ir.LString {
		return strconv.Quote(string(cstring(b)))
	}
	return strconv.Quote(string(b))
}

// decode prints an object by its meaning. Bytes without meaning (after a string's NUL,
// padding) are not printed.
func (k *Machine) decode(l *ir.Layout, b []byte) string {
	switch l.Kind {
	case ir.LString:
		return strconv.Quote(string(cstring(b)))
	case ir.LBuffer:
		n := min(int(getUint(b[:4])), len(b)-4)
		return strconv.Quote(string(b[4 : 4+n]))
	case ir.LTuple, ir.LRecord:
		var parts []string
		for _, f := range l.Fields {
			parts = append(parts, k.decode(f.Layout, b[f.Off:]))
		}
		return "(" + strings.Join(parts, ", ") + ")"
	case ir.LArray:
		var parts []string
		for i := range l.Count {
			parts = append(parts, k.decode(l.Elem, b[i*l.Elem.Size:]))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case ir.LKstack:
		return k.frames(l, b)
	case ir.LUstack:
		return k.frames(l, b) + "@" + strconv.FormatUint(getUint(b[8:12]), 10)
	case ir.LUsym:
		return "0x" + strconv.FormatUint(getUint(b[:8]), 16) + "@" + strconv.FormatUint(getUint(b[8:12]), 10)
	case ir.LInet:
		n := 16
		if getUint(b[:4]) == 2 {
			n = 4
		}
		return strconv.Quote(string(b[4 : 4+n]))
	case ir.LMac:
		return strconv.Quote(string(b[:6]))
	}
	n := int64(getUint(b[:min(len(b), 8)]))
	n = extend(ir.MemKindOf(l.Size, l.Signed), n)
	if !l.Signed {
		return strconv.FormatUint(uint64(n), 10)
	}
	return itoa(n)
}

// frames prints the stack with an id.
func (k *Machine) frames(l *ir.Layout, b []byte) string {
	id := getUint(b[:8])
	m := k.maps[l.Stack]
	if id == 0 || m == nil {
		return "stack[]"
	}
	key := make([]byte, 8)
	putUint(key, id)
	addr := m.lookup(key, 0)
	if addr == 0 {
		return "stack[?]"
	}
	var parts []string
	for v := m.value(addr); len(v) >= 8 && getUint(v[:8]) != 0; v = v[8:] {
		parts = append(parts, strconv.FormatUint(getUint(v[:8]), 16))
	}
	return "stack[" + strings.Join(parts, " ") + "]"
}
