// SPDX-License-Identifier: Apache-2.0

package obj

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"btc/backend/emit"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/ir"
)

// TestMapTypes checks the key and value types of each shape of map, as other tools see them.
func TestMapTypes(t *testing.T) {
	word := &ir.Layout{Kind: ir.LInt, Size: 8, Align: 8}
	signed := &ir.Layout{Kind: ir.LInt, Size: 8, Align: 8, Signed: true}
	text := func(n int) *ir.Layout { return &ir.Layout{Kind: ir.LString, Size: n, Align: 1} }
	stack := &ir.Layout{Kind: ir.LUstack, Size: 16, Align: 8}
	inet := &ir.Layout{Kind: ir.LInet, Size: 24, Align: 4}
	usym := &ir.Layout{Kind: ir.LUsym, Size: 16, Align: 8}
	small, narrow := &ir.Layout{Kind: ir.LInt, Size: 4, Align: 4}, &ir.Layout{Kind: ir.LInt, Size: 4, Align: 8}
	at := func(off int, l *ir.Layout) ir.Field { return ir.Field{Off: off, Layout: l} }
	tuple := func(size int, fields ...ir.Field) *ir.Layout {
		return &ir.Layout{Kind: ir.LTuple, Size: size, Align: 8, Fields: fields}
	}
	for i, c := range []struct {
		shape          ir.MapShape
		names          []string
		key, value     *ir.Layout
		keySize, size  int
		off            int
		wantKey, wantV string
	}{
		{ir.ShapeCount, []string{"pid"}, word, word, 8, 8, 0, "k{pid@0 u64}", "btc_count{count@0 u64}"},
		{ir.ShapeCount, nil, word, word, 8, 16, 0, "k{key@0 u64}", "2 u64"},
		{ir.ShapeSum, nil, signed, signed, 8, 8, 0, "k{key@0 i64}", "btc_sum{sum@0 i64}"},
		{ir.ShapeSum, nil, nil, word, 8, 16, 8, "u64", "btc_scalar_sum{set@0 u64, sum@8 u64}"},
		{ir.ShapeMin, nil, text(16), signed, 16, 16, 0, "k{key@0 16 char}", "btc_min{set@0 u64, min@8 i64}"},
		{ir.ShapeAvg, nil, stack, word, 16, 16, 0, "k{key@0 btc_ustack{id@0 u64, tgid@8 u32, pad@12 u32}}", "btc_stats{count@0 u64, total@8 u64}"},
		{ir.ShapeHist, nil, inet, word, 24, 24, 0, "k{key@0 btc_inet{family@0 u32, address@4 16 u8, pad@20 u32}}", "btc_hist{slots@0 3 u64}"},
		{ir.ShapeTseries, nil, text(12), word, 12, 24, 0, "k{key@0 12 char}", "btc_tseries{value@0 u64, meta@8 u64, interval@16 u64}"},
		{ir.ShapePlain, []string{"a", "a", ""}, tuple(40, ir.Field{Off: 0, Layout: word}, ir.Field{Off: 8, Layout: word}, ir.Field{Off: 16, Layout: inet}),
			text(16), 40, 24, 8, "k{a@0 u64, a_2@8 u64, key2@16 btc_inet{family@0 u32, address@4 16 u8, pad@20 u32}}", "v{set@0 u64, value@8 16 char}"},
		{ir.ShapePlain, nil, &ir.Layout{Kind: ir.LInet, Size: 20}, &ir.Layout{Kind: ir.LUstack, Size: 24}, 20, 24, 0, "k{key@0 20 u8}", "v{value@0 3 u64}"},
		{ir.ShapePlain, []string{"9lives"}, tuple(8, ir.Field{Off: 0, BitSize: 3, Layout: word}), &ir.Layout{Kind: ir.LInt, Size: 4}, 8, 4, 0, "k{_9lives@0 u64}", "v{value@0 u32}"},
		{ir.ShapeMax, nil, nil, word, 4, 16, 0, "u32", "btc_max{set@0 u64, max@8 u64}"},
		{ir.ShapeStats, nil, nil, nil, 12, 16, 0, "12 u8", "btc_stats{count@0 u64, total@8 u64}"},
		{ir.ShapeLhist, nil, nil, word, 8, 80, 0, "u64", "btc_lhist{slots@0 10 u64}"},
		{ir.ShapeStack, nil, nil, nil, 24, 40, 0, "3 u64", "btc_stack{frames@0 5 u64}"},
		{ir.ShapeIntern, nil, text(8), word, 16, 20, 0, "k{key@0 2 u64}", "20 u8"},
		{ir.ShapePlain, []string{"_", "$"}, tuple(16, at(0, word), at(8, signed)), small, 16, 16, 8,
			"k{key0@0 u64, key1@8 i64}", "v{set@0 u64, value@8 u64}"},
		// Fields that overlap, are out of order, or extend into the next one or past the end; and no
		// fields.
		{ir.ShapePlain, nil, tuple(16, at(0, word), at(4, word)), tuple(16, at(8, word), at(0, word)), 16, 16, 0,
			"k{key@0 2 u64}", "v{value@0 2 u64}"},
		{ir.ShapePlain, nil, tuple(24, at(0, text(9)), at(8, word)), tuple(8, at(0, text(9))), 24, 8, 0, "k{key@0 3 u64}", "v{value@0 u64}"},
		{ir.ShapePlain, []string{"name"}, tuple(16), tuple(16, at(0, text(9)), at(9, text(7))), 16, 16, 0,
			"k{name@0 2 u64}", "v{value@0 p{name@0 9 char, f1@9 7 char}}"},
		// A narrow number occupies a word if it is aligned to one.
		{ir.ShapePlain, nil, tuple(16, at(0, narrow), at(8, small)), tuple(16, at(0, tuple(8, at(0, small), at(4, small))), at(8, narrow)), 16, 16, 0,
			"k{key0@0 u64, key1@8 u32}", "v{value@0 p{f0@0 p_0{f0@0 u32, f1@4 u32}, f1@8 u64}}"},
		// A record has the names of its fields; a record of the kernel is bytes.
		{ir.ShapePlain, nil, &ir.Layout{Kind: ir.LRecord, Size: 16, Align: 8, Fields: []ir.Field{{Name: "a", Layout: word}, {Name: "a", Off: 8, Layout: word}}},
			&ir.Layout{Kind: ir.LRecord, Size: 16, Align: 8, CORE: "struct x", Fields: []ir.Field{at(0, word)}}, 16, 16, 0,
			"k{key@0 k_0{a@0 u64, a_2@8 u64}}", "v{value@0 2 u64}"},
		// Numbers and arrays in a record are those of C.
		{ir.ShapePlain, nil, word, &ir.Layout{Kind: ir.LRecord, Size: 16, Align: 8, Fields: []ir.Field{
			{Name: "n", Layout: &ir.Layout{Kind: ir.LInt, Size: 4, Align: 4, Signed: true}},
			{Name: "b", Off: 4, Layout: &ir.Layout{Kind: ir.LBool, Size: 1, Align: 1}},
			{Name: "a", Off: 8, Layout: &ir.Layout{Kind: ir.LArray, Size: 8, Align: 4, Count: 2, Elem: small}}}}, 8, 16, 0,
			"k{key@0 u64}", "v{value@0 p{n@0 signed int, b@4 bool, a@8 2 u32}}"},
		{ir.ShapePlain, nil, usym, tuple(16, at(0, usym)), 16, 24, 0,
			"k{key@0 btc_usym{address@0 u64, tgid@8 u32, pad@12 u32}}", "v{value@0 3 u64}"},
		{ir.ShapePlain, nil, tuple(24, at(0, word)), usym, 16, 16, 0,
			"k{key@0 2 u64}", "v{value@0 btc_usym{address@0 u64, tgid@8 u32, pad@12 u32}}"},
	} {
		m, funcs := sample(t)
		name := fmt.Sprintf("m%d", i)
		m.Maps = append(m.Maps, &ir.Map{Name: "@" + name, Shape: c.shape, Key: c.key, Value: c.value, MapNames: manifest.MapNames{KeyNames: c.names}, MapSpec: ir.MapSpec{ValueNames: c.names},
			BPF: ir.BPFMap{Name: name, Type: "hash", KeySize: c.keySize, ValueSize: c.size, ValueOff: c.off, MaxEntries: 10, Present: -1, Loss: -1}})
		b, err := Write(m, funcs)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		for typ, want := range map[btf.Type]int{spec.Maps[name].Key: c.keySize, spec.Maps[name].Value: c.size} {
			if size, err := btf.Sizeof(typ); err != nil || size != want {
				t.Errorf("%d: %v has %d bytes, want %d: %v", i, typ, size, want, err)
			}
		}
		short := strings.NewReplacer(name+"_key", "k", name+"_value", "v", name+"_part", "p")
		if got := short.Replace(brief(spec.Maps[name].Key)); got != c.wantKey {
			t.Errorf("%d: the key is %s, want %s", i, got, c.wantKey)
		}
		if got := short.Replace(brief(spec.Maps[name].Value)); got != c.wantV {
			t.Errorf("%d: the value is %s, want %s", i, got, c.wantV)
		}
	}
}

// brief prints a type on one line.
func brief(t btf.Type) string {
	switch t := t.(type) {
	case *btf.Int:
		names := map[string]string{"unsigned char": "u8", "unsigned int": "u32", "unsigned long long": "u64", "long long": "i64"}
		if names[t.Name] != "" {
			return names[t.Name]
		}
		return t.Name
	case *btf.Array:
		return fmt.Sprintf("%d %s", t.Nelems, brief(t.Type))
	case *btf.Struct:
		var ms []string
		end := uint32(0)
		for i, m := range t.Members {
			size, _ := btf.Sizeof(m.Type)
			if m.Offset%8 != 0 || m.Offset.Bytes() < end && i > 0 {
				return fmt.Sprintf("%s has %s at bit %d", t.Name, m.Name, m.Offset)
			}
			end = m.Offset.Bytes() + uint32(size)
		}
		if strings.HasPrefix(t.Name, "btc_") && end != t.Size || end > t.Size {
			return fmt.Sprintf("%s has %d bytes, its members %d", t.Name, t.Size, end)
		}
		for _, m := range t.Members {
			ms = append(ms, fmt.Sprintf("%s@%d %s", m.Name, m.Offset/8, brief(m.Type)))
		}
		return t.Name + "{" + strings.Join(ms, ", ") + "}"
	}
	return fmt.Sprint(t)
}

// TestMapLimit checks that a program may use 64 maps, including those of the subprograms that it calls.
// The globals of one section count as one map.
func TestMapLimit(t *testing.T) {
	for _, c := range []struct {
		own, called, uncalled, globals int
		want                           string
	}{
		{63, 0, 0, 0, ""}, {64, 0, 0, 0, ""}, {65, 0, 0, 0, "65 maps"},
		{63, 0, 0, 9, ""}, {64, 0, 0, 9, "65 maps"},
		{40, 24, 0, 0, ""}, {40, 25, 0, 0, "65 maps"}, {40, 24, 0, 2, "65 maps"},
		{40, 20, 30, 0, ""},
	} {
		m := &ir.Module{}
		use := func(f *emit.Func, n int) {
			for range n {
				name := fmt.Sprintf("@m%d", len(m.Maps))
				m.Maps = append(m.Maps, &ir.Map{Name: name})
				f.Relocs = append(f.Relocs, emit.Reloc{Kind: emit.Map, Sym: name})
			}
		}
		prog := &emit.Func{Name: "p", Prog: &ir.Prog{Kind: probe.Begin}, Calls: []string{"sub", "gone"}, Pos: ir.Pos{Line: 7}}
		sub, deep, other := &emit.Func{Name: "sub", Calls: []string{"deep"}}, &emit.Func{Name: "deep", Calls: []string{"sub"}}, &emit.Func{Name: "other"}
		use(prog, c.own)
		use(sub, c.called/2)
		use(deep, c.called-c.called/2)
		use(other, c.uncalled)
		prog.Relocs = append(prog.Relocs, prog.Relocs...) // duplicates count once
		for i := range c.globals {
			name := fmt.Sprintf("g%d", i)
			m.Globals = append(m.Globals, &ir.Global{Name: name, Kind: ir.GlobalData, Size: 8})
			prog.Relocs = append(prog.Relocs, emit.Reloc{Kind: emit.Global, Sym: name})
		}
		err := mapLimit(m, []*emit.Func{sub, deep, other, prog})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error = %v", c, err)
		}
	}
}

// TestRecords checks the words of each kind of type record (Documentation/bpf/btf.rst of the kernel).
func TestRecords(t *testing.T) {
	b := newBuilder()
	for _, name := range []string{"a", "bb"} { // at offsets 1 and 3
		b.strings.add(name)
	}
	for i, c := range []struct {
		make func() typeID
		want []uint32 // name, info, size or type, ...
	}{
		{func() typeID { return b.int("a", 2, 1) }, []uint32{1, 1 << 24, 2, 1<<24 | 16}},
		{func() typeID { return b.ptr(7) }, []uint32{0, 2 << 24, 7}},
		{func() typeID { return b.composite(kindStruct, "a", 8, []member{{name: "bb", typ: 5, bitOff: 32}}) }, []uint32{1, 4<<24 | 1, 8, 3, 5, 32}},
		{func() typeID {
			return b.composite(kindUnion, "", 4, []member{{name: "bb", typ: 5, bitOff: 3, bitSize: 2}, {typ: 6}})
		},
			[]uint32{0, 1<<31 | 5<<24 | 2, 4, 3, 5, 2<<24 | 3, 0, 6, 0}},
		{func() typeID { return b.enum("a", 4, true, []enumerator{{"bb", -1}}) }, []uint32{1, 1<<31 | 6<<24 | 1, 4, 3, 0xffffffff}},
		{func() typeID { return b.typedef("bb", 9) }, []uint32{3, 8 << 24, 9}},
		{func() typeID { return b.fn("a", 4, 1) }, []uint32{1, 12<<24 | 1, 4}},
		{func() typeID { return b.funcProto(3, param{"a", 2}) }, []uint32{0, 13<<24 | 1, 3, 1, 2}},
		{func() typeID { return b.variable("a", 4, 1) }, []uint32{1, 14 << 24, 4, 1}},
		{func() typeID { return b.datasec("bb", 24, []secvar{{4, 8, 16}}) }, []uint32{3, 15<<24 | 1, 24, 4, 8, 16}},
	} {
		from, before := b.types.Len(), b.n
		if id := c.make(); id != before+1 {
			t.Errorf("%d: ID %d after %d", i, id, before)
		}
		var got []uint32
		for raw := b.types.Bytes()[from:]; len(raw) > 0; raw = raw[4:] {
			got = append(got, binary.LittleEndian.Uint32(raw))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d: %#x, want %#x", i, got, c.want)
		}
		if again := c.make(); again != before+1 || b.n != before+1 {
			t.Errorf("%d: duplicate record for an equal type", i)
		}
	}
}
