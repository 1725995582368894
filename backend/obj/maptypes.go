package obj

import (
	"fmt"

	"btc/ir"
)

// Map definitions in BTF form: each map is a global variable in DATASEC
// ".maps" of a struct type whose members say what the map is.

var mapTypeNumbers = map[string]int{ // enum bpf_map_type
	"hash": 1, "array": 2, "perf_event_array": 4, "percpu_hash": 5, "percpu_array": 6, "stack_trace": 7,
	"lru_hash": 9, "lru_percpu_hash": 10, "ringbuf": 27,
}

// mapDef writes a map's definition struct and gives its type and size in bytes.
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
	if m.BPF.Type != "ringbuf" {
		put("key", w.btf.ptr(w.keyType(m)))
		put("value", w.btf.ptr(w.valueType(m)))
	}
	size := len(ms) * 8
	return w.btf.composite(kindStruct, "", size, ms), size, nil
}

// uintMember is libbpf's __uint(name, n): a pointer to an array of n ints.
func (w *writer) uintMember(n int) typeID {
	return w.btf.ptr(w.btf.array(w.btf.int("int", 4, intSigned), n))
}

func (w *writer) u8() typeID  { return w.btf.int("unsigned char", 1, 0) }
func (w *writer) u32() typeID { return w.btf.int("unsigned int", 4, 0) }
func (w *writer) u64() typeID { return w.btf.int("unsigned long long", 8, 0) }
func (w *writer) i64() typeID { return w.btf.int("long long", 8, intSigned) }

// keyType describes a key. Arrays need a 32-bit integer (kernel:
// array_map_check_btf).
func (w *writer) keyType(m *ir.Map) typeID {
	if m.BPF.Type == "array" || m.BPF.Type == "percpu_array" || m.BPF.KeySize == 4 {
		return w.u32()
	}
	if m.Key != nil && m.Key.Size == m.BPF.KeySize {
		return w.layoutType(m.Key, "key_"+m.BPF.Name)
	}
	return w.sized(m.BPF.KeySize)
}

func (w *writer) valueType(m *ir.Map) typeID {
	if m.Shape == ir.ShapePlain && m.Value != nil && m.BPF.ValueOff == 0 && m.Value.Size == m.BPF.ValueSize {
		return w.layoutType(m.Value, "val_"+m.BPF.Name)
	}
	return w.sized(m.BPF.ValueSize)
}

// sized is an anonymous object of n bytes: 8-byte words where they fit.
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

// layoutType is the BTF type of a storage layout, so that other tools can print
// our maps; whatever has no C counterpart becomes words or bytes.
func (w *writer) layoutType(l *ir.Layout, name string) typeID {
	switch l.Kind {
	case ir.LInt, ir.LBool, ir.LPtr, ir.LEnum:
		if l.Size == 8 {
			if l.Signed {
				return w.i64()
			}
			return w.u64()
		}
	case ir.LString:
		return w.btf.array(w.btf.int("char", 1, intSigned), l.Size)
	case ir.LTuple:
		var ms []member
		end := 0
		for i, f := range l.Fields {
			t := w.layoutType(f.Layout, fmt.Sprintf("%s_%d", name, i))
			ms = append(ms, member{name: fmt.Sprintf("f%d", i), typ: t, bitOff: f.Off * 8})
			end = f.Off + f.Size
		}
		if len(ms) > 0 && end <= l.Size {
			return w.btf.composite(kindStruct, name, l.Size, ms)
		}
	}
	return w.sized(l.Size)
}

// dataSection is .rodata, .rodata.params, .data or .bss: the globals of one kind.
type dataSection struct {
	name  string
	kind  ir.GlobalKind
	vars  []*ir.Global
	offs  map[string]int
	size  int
	bytes []byte // none for .bss, which is all zeros: tables in front of maps are large
}

func newDataSections(m *ir.Module) []*dataSection {
	var out []*dataSection
	places := ir.PlaceGlobals(m)
	for _, s := range []*dataSection{
		{name: ".rodata", kind: ir.GlobalConst},
		{name: ".rodata.params", kind: ir.GlobalParam},
		{name: ".data", kind: ir.GlobalInit},
		{name: ".bss", kind: ir.GlobalData},
	} {
		s.offs = map[string]int{}
		for _, g := range m.Globals {
			if g.Kind == s.kind {
				s.add(g, places[g.Name].Off)
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

// globalType is the BTF type of a global.
func (w *writer) globalType(g *ir.Global) typeID {
	if g.Param != nil && g.Param.Type == "string" {
		return w.btf.array(w.btf.int("char", 1, intSigned), g.Size)
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
