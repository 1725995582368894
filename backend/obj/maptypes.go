// SPDX-License-Identifier: Apache-2.0

package obj

import (
	"fmt"
	"strings"

	"btc/ir"
)

// Map definitions in BTF form: each map is a global variable in DATASEC ".maps". The members of its
// struct type describe the map.

var mapTypeNumbers = map[string]int{ // enum bpf_map_type
	"hash": 1, "array": 2, "perf_event_array": 4, "percpu_hash": 5, "percpu_array": 6, "stack_trace": 7,
	"lru_hash": 9, "lru_percpu_hash": 10, "array_of_maps": 12, "ringbuf": 27,
}

// mapDef writes a map's definition struct and returns its type and size in bytes.
func (w *writer) mapDef(m *ir.Map) (typeID, int, error) {
	num, ok := mapTypeNumbers[m.BPF.Type]
	if !ok {
		return 0, 0, fmt.Errorf("map %s has the unknown type %q", m.Name, m.BPF.Type)
	}
	var ms []member
	put := func(name string, t typeID) { ms = append(ms, member{name: name, typ: t, bitOff: len(ms) * 64}) }
	put("type", w.uintMember(num))
	put("max_entries", w.uintMember(m.BPF.MaxEntries))
	if m.BPF.Flags != 0 {
		put("map_flags", w.uintMember(int(m.BPF.Flags)))
	}
	switch {
	case m.BPF.Type == "ringbuf":
	case m.BPF.Inner != "":
		// As libbpf's __array(values, struct inner): no elements are set.
		put("key_size", w.uintMember(m.BPF.KeySize))
		inner, _, err := w.mapDef(w.m.Map(m.BPF.Inner))
		if err != nil {
			return 0, 0, err
		}
		size := len(ms) * 8
		put("values", w.btf.array(w.btf.ptr(inner), 0))
		return w.btf.composite(kindStruct, "", size, ms), size, nil
	default:
		put("key", w.btf.ptr(w.keyType(m)))
		put("value", w.btf.ptr(w.valueType(m)))
	}
	if m.Record != nil {
		w.recordType(m)
	}
	size := len(ms) * 8
	return w.btf.composite(kindStruct, "", size, ms), size, nil
}

// uintMember returns the type of libbpf's __uint(name, n): a pointer to an array of n ints.
func (w *writer) uintMember(n int) typeID {
	return w.btf.ptr(w.btf.array(w.btf.int("int", 4, intSigned), n))
}

func (w *writer) u8() typeID  { return w.btf.int("unsigned char", 1, 0) }
func (w *writer) u32() typeID { return w.btf.int("unsigned int", 4, 0) }
func (w *writer) u64() typeID { return w.btf.int("unsigned long long", 8, 0) }
func (w *writer) i64() typeID { return w.btf.int("long long", 8, intSigned) }

// keyType returns the type of a key: a struct with a member for each part, named after the script's
// variables and fields. Arrays need a 32-bit integer (kernel: array_map_check_btf).
func (w *writer) keyType(m *ir.Map) typeID {
	if m.BPF.Taken {
		return w.takenKey(m)
	}
	if m.BPF.Type == "array" || m.BPF.Type == "percpu_array" || m.BPF.KeySize == 4 {
		return w.u32()
	}
	key, keyNames := m.Key, m.KeyNames
	if m.BPF.Parts {
		key, keyNames = partKey(m)
	}
	if key == nil {
		return w.sized(m.BPF.KeySize)
	}
	names := newNames(keyNames, "key")
	if key.Kind == ir.LTuple && key.Size == m.BPF.KeySize {
		if t, ok := w.tuple(key, m.BPF.Name+"_key", names); ok {
			return t
		}
	}
	return w.structOf(m.BPF.Name+"_key", m.BPF.KeySize,
		field{names.at(0, "key"), w.storedType(key, m.BPF.Name+"_key_0", m.BPF.KeySize)})
}

// partKey returns the key of an element that is part of a value, and the names of its fields.
func partKey(m *ir.Map) (*ir.Layout, []string) {
	last := ir.Field{
		Off:    m.BPF.KeySize - 8,
		Layout: &ir.Layout{Kind: ir.LInt, Size: 8, Align: 8, Name: "uint64"},
	}
	name := "part"
	switch m.Shape {
	case ir.ShapeHist, ir.ShapeLhist:
		name = "bucket"
	case ir.ShapeMin, ir.ShapeMax:
		name = "cpu"
	}
	key := &ir.Layout{Kind: ir.LTuple, Size: m.BPF.KeySize, Align: 8}
	names := make([]string, 0, len(m.KeyNames)+1)
	switch {
	case m.Key == nil:
	case m.Key.Kind == ir.LTuple:
		key.Fields = append(key.Fields, m.Key.Fields...)
		names = append(names, m.KeyNames...)
	default:
		key.Fields = append(key.Fields, ir.Field{Layout: m.Key})
		names = append(names, m.KeyNames...)
	}
	for len(names) < len(key.Fields) {
		names = append(names, "")
	}
	key.Fields = append(key.Fields, last)
	return key, append(names[:len(key.Fields)-1], name)
}

// field is a member of a struct without gaps.
type field struct {
	name string
	typ  typeID
}

// structOf returns a struct of words, or of the single member that fills it.
func (w *writer) structOf(name string, size int, fields ...field) typeID {
	var ms []member
	for i, f := range fields {
		ms = append(ms, member{name: f.name, typ: f.typ, bitOff: i * 64})
	}
	return w.btf.composite(kindStruct, name, size, ms)
}

// valueType returns the type of a value: a struct for each shape, whose members are listed in
// docs/layouts.md.
func (w *writer) valueType(m *ir.Map) typeID {
	size := m.BPF.ValueSize
	number := func() typeID { return w.number(m.Value) }
	if m.BPF.Taken {
		return w.takenValue(m)
	}
	switch {
	case m.BPF.Parts && (m.Shape == ir.ShapeMin || m.Shape == ir.ShapeMax):
		return w.structOf("btc_cpu_"+string(m.Shape), size, field{string(m.Shape), number()})
	case m.BPF.Parts:
		return w.structOf("btc_part", size, field{"value", w.u64()})
	}
	switch m.Shape {
	case ir.ShapeCount:
		if size == 8 {
			return w.structOf("btc_count", size, field{"count", w.u64()})
		}
	case ir.ShapeSum:
		if m.BPF.ValueOff == 8 {
			return w.structOf("btc_scalar_sum", size, field{"set", w.u64()}, field{"sum", number()})
		}
		return w.structOf("btc_sum", size, field{"sum", number()})
	case ir.ShapeMin, ir.ShapeMax:
		return w.structOf("btc_"+string(m.Shape), size, field{"set", w.u64()}, field{string(m.Shape), number()})
	case ir.ShapeAvg, ir.ShapeStats:
		return w.structOf("btc_stats", size, field{"count", w.u64()}, field{"total", number()})
	case ir.ShapeHist, ir.ShapeLhist:
		return w.structOf("btc_"+string(m.Shape), size, field{"slots", w.btf.array(w.u64(), size/8)})
	case ir.ShapeTseries:
		return w.structOf("btc_tseries", size, field{"value", number()}, field{"meta", w.u64()},
			field{"interval", w.u64()})
	case ir.ShapeStack:
		return w.structOf("btc_stack", size, field{"frames", w.btf.array(w.u64(), size/8)})
	case ir.ShapePlain:
		value := w.plainType(m, m.BPF.Name+"_part", size-m.BPF.ValueOff)
		if m.BPF.ValueOff == 8 {
			return w.structOf(m.BPF.Name+"_value", size, field{"set", w.u64()}, field{"value", value})
		}
		return w.structOf(m.BPF.Name+"_value", size, field{"value", value})
	}
	return w.sized(size)
}

// plainType returns the type of the value of a plain map, which has room bytes.
func (w *writer) plainType(m *ir.Map, name string, room int) typeID {
	if m.Value.Kind == ir.LTuple && m.Value.Size == room {
		if t, ok := w.tuple(m.Value, name, newNames(m.ValueNames, "f")); ok {
			return t
		}
	}
	return w.storedType(m.Value, name, room)
}

// number returns the type of an aggregation's values.
func (w *writer) number(l *ir.Layout) typeID {
	if l != nil && l.Signed {
		return w.i64()
	}
	return w.u64()
}

// storedType returns the type of an object that is stored in room bytes; numbers take 8.
func (w *writer) storedType(l *ir.Layout, name string, room int) typeID {
	switch {
	case room == 8 && isWord(l):
		return w.number(l)
	case l.Size == room:
		return w.layoutType(l, name)
	}
	return w.sized(room)
}

// names returns unique names for the members of a struct.
type names struct {
	given []string
	other string // for members without a name
	used  map[string]bool
}

func newNames(given []string, other string) *names {
	return &names{given, other, map[string]bool{}}
}

// at returns the name of member i, or own if it has none.
func (n *names) at(i int, own string) string {
	name := own
	if i < len(n.given) && n.given[i] != "" {
		name = n.given[i]
	}
	name = identifier(name)
	if name == "" {
		name = fmt.Sprintf("%s%d", n.other, i)
	}
	unique := name
	for k := 2; n.used[unique]; k++ {
		unique = fmt.Sprintf("%s_%d", name, k)
	}
	n.used[unique] = true
	return unique
}

// identifier turns a name into a C identifier; "" for one without letters.
func identifier(name string) string {
	name = ir.CIdentifier(name)
	switch {
	case strings.Trim(name, "_0123456789") == "":
		return ""
	case !ir.IsCName(name):
		return "_" + name
	}
	return name
}

// sized returns an anonymous object of n bytes: 8-byte words if they fit.
func (w *writer) sized(n int) typeID {
	switch {
	case n == 4:
		return w.u32()
	case n == 8:
		return w.u64()
	case n%8 == 0:
		return w.btf.array(w.u64(), n/8)
	}
	return w.btf.array(w.u8(), n)
}

// layoutType returns the BTF type of a storage layout other than a word, so that other tools can
// print the maps. A layout without a C counterpart becomes words or bytes.
func (w *writer) layoutType(l *ir.Layout, name string) typeID {
	switch l.Kind {
	case ir.LString:
		return w.btf.array(w.btf.int("char", 1, intSigned), l.Size)
	case ir.LInt, ir.LEnum:
		if l.Size == 8 {
			return w.number(l)
		}
		return w.cInt(l)
	case ir.LBool:
		if l.Size == 1 {
			return w.btf.int("bool", 1, intBool)
		}
	case ir.LArray:
		if l.Elem != nil && l.Elem.Size*l.Count == l.Size {
			return w.btf.array(w.layoutType(l.Elem, name+"_elem"), l.Count)
		}
	case ir.LTuple, ir.LRecord:
		if l.CORE != "" { // has the target's offsets, and the kernel may have others
			break
		}
		if t, ok := w.tuple(l, name, newNames(nil, "f")); ok {
			return t
		}
	case ir.LUstack, ir.LUsym:
		if l.Size == 16 {
			return w.btf.composite(
				kindStruct,
				"btc_"+string(l.Kind),
				16,
				[]member{{name: pairName[l.Kind], typ: w.u64()},
					{name: "tgid", typ: w.u32(), bitOff: 64}, {name: "pad", typ: w.u32(), bitOff: 96}},
			)
		}
	case ir.LInet:
		if l.Size == 24 {
			return w.btf.composite(kindStruct, "btc_inet", 24, []member{{name: "family", typ: w.u32()},
				{name: "address", typ: w.btf.array(w.u8(), 16), bitOff: 32}, {name: "pad", typ: w.u32(), bitOff: 160}})
		}
	}
	return w.sized(l.Size)
}

// pairName is the name of the word before the process ID.
var pairName = map[ir.LayoutKind]string{ir.LUstack: "id", ir.LUsym: "address"}

// tuple returns a struct with the fields of a tuple or record, or false if they have no C form.
func (w *writer) tuple(l *ir.Layout, name string, names *names) (typeID, bool) {
	var ms []member
	end := 0
	for i, f := range l.Fields {
		next := l.Size
		if i+1 < len(l.Fields) {
			next = l.Fields[i+1].Off
		}
		if f.Off < end || next < f.Off || f.BitSize != 0 {
			return 0, false
		}
		room := f.Size
		if isWord(f.Layout) && f.Align == 8 {
			room = 8
		}
		end = f.Off + room
		if end > next {
			return 0, false
		}
		ms = append(ms, member{
			name: names.at(i, f.Name), typ: w.storedType(f.Layout, fmt.Sprintf("%s_%d", name, i), room),
			bitOff: f.Off * 8,
		})
	}
	if len(ms) == 0 {
		return 0, false
	}
	return w.btf.composite(kindStruct, name, l.Size, ms), true
}

// isWord reports whether a layout is stored as a number of 8 bytes.
func isWord(l *ir.Layout) bool {
	return l.Kind == ir.LInt || l.Kind == ir.LBool || l.Kind == ir.LPtr || l.Kind == ir.LEnum
}

// dataSection returns .rodata, .rodata.params, .data or .bss: the globals of one kind.
type dataSection struct {
	name  string
	kind  ir.GlobalKind
	vars  []*ir.Global
	offs  map[string]int
	size  int
	bytes []byte // none for .bss, which is all zeros: per-CPU caches are large
}

func newDataSections(m *ir.Module) []*dataSection {
	var out []*dataSection
	offsets := ir.LayoutGlobals(m)
	for _, s := range []*dataSection{
		{name: ".rodata", kind: ir.GlobalConst},
		{name: ".rodata.params", kind: ir.GlobalParam},
		{name: ".data", kind: ir.GlobalInit},
		{name: ".bss", kind: ir.GlobalData},
	} {
		s.offs = map[string]int{}
		for _, g := range m.Globals {
			if g.Kind == s.kind {
				s.add(g, offsets[g.Name].Off)
			}
		}
		if len(s.vars) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func (s *dataSection) add(g *ir.Global, off int) {
	s.offs[g.Name] = off
	s.vars = append(s.vars, g)
	s.size = off + g.Size
	if s.kind != ir.GlobalData {
		s.bytes = append(s.bytes, make([]byte, s.size-len(s.bytes))...)
		copy(s.bytes[s.offs[g.Name]:], g.Init)
	}
}

// globalType returns the BTF type of a global.
func (w *writer) globalType(g *ir.Global) typeID {
	if g.Param != nil && g.Param.Type == "string" {
		return w.btf.array(w.btf.int("char", 1, intSigned), g.Size)
	}
	if g.Param != nil && g.Param.Type == "int" && g.Size == 8 && w.m.Meta.For != "" { // it is read as a number
		return w.i64()
	}
	if g.Mark {
		return w.btf.ptr(w.btf.constant(0))
	}
	switch g.Size {
	case 1:
		return w.u8()
	case 4:
		return w.u32()
	case 8:
		return w.u64()
	}
	if g.Size%4 == 0 {
		return w.btf.array(w.u32(), g.Size/4)
	}
	return w.btf.array(w.u8(), g.Size)
}
