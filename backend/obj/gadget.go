// SPDX-License-Identifier: Apache-2.0

package obj

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"btc/ir"
)

// Types of the maps from which Inspektor Gadget takes elements. It shows each member of the key's
// and the value's struct as a column, unless the name begins with "__". It recognizes some types by
// the names of typedefs (its include/gadget/types.h).

// takenKey returns the struct of a key. Its members are named differently from those of the value.
func (w *writer) takenKey(m *ir.Map) typeID {
	name := m.BPF.Name + "_key"
	key, keyNames := m.Key, m.KeyNames
	if m.BPF.Parts {
		key, keyNames = partKey(m)
	}
	if key == nil {
		return w.btf.composite(kindStruct, name, m.BPF.KeySize, []member{{name: "__key", typ: w.u32()}})
	}
	fields, names := []ir.Field{{Layout: key}}, newNames(visible(keyNames), "key")
	for _, f := range w.takenFields(m) {
		names.used[f.name] = true
	}
	if key.Kind == ir.LTuple {
		fields = key.Fields
	}
	var ms []member
	for i, f := range fields {
		next := m.BPF.KeySize
		if i+1 < len(fields) {
			next = fields[i+1].Off
		}
		ms = append(ms, w.column(names.at(i, ""), f, next-f.Off)...)
	}
	return w.btf.composite(kindStruct, name, m.BPF.KeySize, ms)
}

// visible removes leading underscores, which would hide a column, from names.
func visible(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = strings.TrimLeft(n, "_")
	}
	return out
}

// recordType returns the struct of a ring buffer record.
func (w *writer) recordType(m *ir.Map) {
	var given []string
	for _, f := range m.Record.Fields {
		given = append(given, f.Name)
	}
	names := newNames(visible(given), "arg")
	var ms []member
	for i, f := range m.Record.Fields {
		if strings.HasPrefix(f.Name, "__") {
			continue
		}
		next := m.Record.Size
		if i+1 < len(m.Record.Fields) {
			next = m.Record.Fields[i+1].Off
		}
		room := next - f.Off
		if isWord(f.Layout) && f.Size < 8 { // the upper bytes are not written
			ms = append(ms, member{name: names.at(i, ""), typ: w.narrow(f.Name, f.Layout), bitOff: f.Off * 8})
			continue
		}
		ms = append(ms, w.column(names.at(i, ""), f, room)...)
	}
	w.btf.composite(kindStruct, m.BPF.Name+"_event", m.Record.Size, ms)
}

// cInt returns the integer type of C for a number of 1, 2 or 4 bytes.
func (w *writer) cInt(l *ir.Layout) typeID {
	size, enc, kind := max(l.Size, 1), 0, "unsigned "
	if l.Signed {
		enc, kind = intSigned, "signed "
	}
	return w.btf.int(kind+map[int]string{1: "char", 2: "short", 4: "int"}[size], size, enc)
}

// narrow returns the type of a number of less than 8 bytes.
func (w *writer) narrow(name string, l *ir.Layout) typeID {
	size := max(l.Size, 1)
	if l.Kind == ir.LEnum && size == 4 {
		if t, ok := w.enumOf(l); ok {
			return t
		}
	}
	if l.Kind == ir.LBool {
		return w.btf.int("bool", 1, intBool)
	}
	t := w.cInt(l)
	if half := halves[name]; half != "" && size == 4 {
		t = w.btf.typedef(half, t)
	}
	return t
}

// halves are 32-bit builtins that keys store in 64 bits, with Inspektor Gadget's types for them.
var halves = map[string]string{"pid": "gadget_pid", "tid": "gadget_tid", "uid": "gadget_uid", "gid": "gadget_gid"}

// column returns the members for a part of a key that occupies room bytes. All supported machines
// are little-endian, so the first half of a number is the lower one.
func (w *writer) column(name string, f ir.Field, room int) []member {
	at := f.Off * 8
	pair := func(t typeID) []member {
		return []member{{name: name, typ: t, bitOff: at}, {name: "__" + name, typ: w.u32(), bitOff: at + 32}}
	}
	switch {
	case room >= 8 && f.Kind == ir.LInt && f.Layout.Name == "uint32":
		t := w.u32()
		if half := halves[name]; half != "" {
			t = w.btf.typedef(half, t)
		}
		return pair(t)
	case room >= 8 && f.Kind == ir.LEnum:
		if t, ok := w.enumOf(f.Layout); ok {
			return pair(t)
		}
	case f.Kind == ir.LString:
		t := w.btf.int("char", 1, intSigned)
		if name == "comm" {
			t = w.btf.typedef("gadget_comm", t)
		}
		return []member{{name: name, typ: w.btf.array(t, f.Size), bitOff: at}}
	}
	size := f.Size
	if isWord(f.Layout) {
		size = min(room, 8)
	}
	return []member{{name: name, typ: w.storedType(f.Layout, name+"_t", size), bitOff: at}}
}

// enumOf returns the enum of a layout, with the names that the target has. Inspektor Gadget prefers
// those of the host's kernel.
func (w *writer) enumOf(l *ir.Layout) (typeID, bool) {
	var es []enumerator
	for value, name := range l.Enum {
		if value < math.MinInt32 || value > math.MaxInt32 || !ir.IsCName(name) {
			return 0, false
		}
		es = append(es, enumerator{name, int32(value)})
	}
	slices.SortFunc(es, func(a, b enumerator) int { return cmp.Compare(a.value, b.value) })
	name := strings.TrimPrefix(l.Name, "enum ")
	if len(es) == 0 || !ir.IsCName(name) {
		return 0, false
	}
	return w.btf.enum(name, 4, l.Signed, es), true
}

// takenValue returns the struct of a value.
func (w *writer) takenValue(m *ir.Map) typeID {
	var ms []member
	at := 0
	for _, f := range w.takenFields(m) {
		ms = append(ms, member{name: f.name, typ: f.typ, bitOff: 64 * at})
		at += f.n
	}
	return w.btf.composite(kindStruct, m.BPF.Name+"_value", m.BPF.ValueSize, ms)
}

// words returns a member of n words.
type words struct {
	name string
	typ  typeID
	n    int
}

func (w *writer) takenFields(m *ir.Map) []words {
	counter := w.btf.typedef("gadget_counter__u64", w.u64())
	number := counter
	if m.Value != nil && m.Value.Signed {
		number = w.i64()
	}
	n := m.BPF.ValueSize / 8
	switch {
	case m.BPF.Parts: // min, max
		if number == counter {
			number = w.btf.typedef("gadget_gauge__u64", w.u64())
		}
		return []words{{string(m.Shape), number, 1}}
	case m.Shape == ir.ShapePlain:
		return []words{{"value", counter, 1}}
	case m.Shape == ir.ShapeCount:
		return []words{{"count", counter, 1}}
	case m.Shape == ir.ShapeSum:
		return []words{{"sum", number, 1}}
	case m.Shape == ir.ShapeAvg || m.Shape == ir.ShapeStats:
		return []words{{"count", counter, 1}, {"total", number, 1}}
	case m.BPF.Low:
		slot := w.btf.typedef("gadget_histogram_slot__u64", w.u64())
		return []words{{"__negative", w.u64(), 1}, {"__zero", w.u64(), 1},
			{"slots", w.btf.array(slot, n-3), n - 3}, {"__last", w.u64(), 1}}
	}
	return []words{{"slots", w.btf.array(w.u64(), n), n}} // hist and lhist
}
