// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"btc/targets/targetfile"
)

// splitBTF builds BTF that extends the kernel's.
type splitBTF struct {
	base  *btf
	text  []byte
	types []byte
	n     int
}

func (s *splitBTF) str(name string) uint32 {
	at := len(s.base.strings) + len(s.text)
	s.text = append(append(s.text, name...), 0)
	return uint32(at)
}

// add appends a record and returns its ID.
func (s *splitBTF) add(name, kind, vlen, link uint32, extra ...uint32) uint32 {
	for _, w := range append([]uint32{name, kind<<24 | vlen, link}, extra...) {
		s.types = binary.LittleEndian.AppendUint32(s.types, w)
	}
	s.n++
	return uint32(len(s.base.types) + s.n - 1)
}

func (s *splitBTF) raw() []byte {
	out := []byte{0x9f, 0xeb, 1, 0, 24, 0, 0, 0}
	for _, w := range []uint32{0, uint32(len(s.types)), uint32(len(s.types)), uint32(len(s.text))} {
		out = binary.LittleEndian.AppendUint32(out, w)
	}
	return append(append(out, s.types...), s.text...)
}

// module returns the BTF of a module with a struct shared (the same in all modules), a struct NAME_own
// with pointers to the kernel's task_struct and to a shared, and a function in_module that takes both.
func module(t testing.TB, name string) Module {
	t.Helper()
	base, err := parseBTF(kernel(t))
	if err != nil {
		t.Fatal(err)
	}
	find := func(name string, kind uint8) uint32 {
		i := slices.IndexFunc(base.types, func(b btfType) bool { return b.name == name && b.kind == kind })
		if i < 0 {
			t.Fatalf("no %s in the kernel", name)
		}
		return uint32(i)
	}
	s := &splitBTF{base: base, text: []byte{0}}
	integer := find("int", btfInt)
	task := s.add(0, btfPtr, 0, find("task_struct", btfStruct))
	shared := s.add(s.str("shared"), btfStruct, 2, 8, s.str("a"), integer, 0, s.str("b"), integer, 32)
	own := s.add(s.str(name+"_own"), btfStruct, 2, 16, s.str("task"), task, 0, s.str("both"), shared, 64)
	array := s.add(0, btfArray, 0, 0, own, integer, 3)
	s.add(s.str(name+"_list"), btfTypedef, 0, array)
	s.add(s.str(name+"_mode"), btfEnum, 1, 4, s.str(strings.ToUpper(name)+"_ON"), 7)
	pointer := s.add(0, btfPtr, 0, own)
	proto := s.add(0, btfFuncProto, 1, integer, s.str("p"), pointer)
	s.add(s.str("in_module"), btfFunc, 0, proto)
	return Module{Name: name, BTF: s.raw()}
}

func TestModules(t *testing.T) {
	data, file := build(t, Source{Tracefs: tracefs(), Modules: []Module{module(t, "ext3"), module(t, "ext4")}})
	if len(data.Meta.Gaps) != 0 {
		t.Errorf("unexpected gaps: %v", data.Meta.Gaps)
	}
	one := func(kind targetfile.Kind, name string) targetfile.Type {
		t.Helper()
		refs, err := file.Named(kind, name)
		if err != nil || len(refs) != 1 {
			t.Fatalf("Named(%s) = %v, %v, want one type", name, refs, err)
		}
		typ, err := file.Type(refs[0])
		if err != nil {
			t.Fatal(err)
		}
		return typ
	}
	name := func(r targetfile.Ref) string {
		typ, err := file.Type(r)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(r.Pointers(), typ.Name)
	}
	if one(targetfile.Struct, "task_struct").Flags&targetfile.InModule != 0 || one(targetfile.Struct, "shared").Flags&targetfile.InModule == 0 {
		t.Error("types of the kernel and of modules confused")
	}
	for _, mod := range []string{"ext3", "ext4"} {
		own := one(targetfile.Struct, mod+"_own")
		if len(own.Members) != 2 || own.Members[0].Name != "task" || name(own.Members[0].Type) != "1task_struct" ||
			own.Members[1].Name != "both" || own.Members[1].BitOffset != 64 || name(own.Members[1].Type) != "0shared" {
			t.Errorf("%s: own = %+v", mod, own)
		}
		list := one(targetfile.Typedef, mod+"_list")
		if array, err := file.Type(list.Elem); err != nil || array.Len != 3 || name(array.Elem) != "0"+mod+"_own" {
			t.Errorf("%s: array = %+v, %v", mod, array, err)
		}
		if refs, err := file.EnumOf(strings.ToUpper(mod) + "_ON"); err != nil || len(refs) != 1 || name(refs[0]) != "0"+mod+"_mode" {
			t.Errorf("%s: enumerator = %v, %v", mod, refs, err)
		}
	}
	// available_filter_functions lists the module of each function.
	f, ok, err := file.Func("in_module")
	if !ok || err != nil || f.Module != "ext4" || f.Proto == nil || len(f.Proto.Params) != 1 || name(f.Proto.Params[0].Type) != "1ext4_own" {
		t.Errorf("in_module = %+v, %v", f, err)
	}
}

// TestDamagedModule checks that a module with damaged types is left out and reported.
func TestDamagedModule(t *testing.T) {
	bad := module(t, "ext3")
	bad.BTF = bad.BTF[:len(bad.BTF)/2]
	data, file := build(t, Source{Tracefs: tracefs(), Modules: []Module{bad, module(t, "ext4")}})
	if len(data.Meta.Gaps) != 1 || !strings.Contains(data.Meta.Gaps[0], "ext3") {
		t.Errorf("gaps = %v", data.Meta.Gaps)
	}
	if refs, err := file.Named(targetfile.Struct, "ext4_own"); err != nil || len(refs) != 1 {
		t.Errorf("other module: %v, %v", refs, err)
	}
}

// TestLimit checks that if a file would be too large, the types of the largest modules are left out.
func TestLimit(t *testing.T) {
	src := Source{Arch: "x86_64", Release: "toy", BTF: kernel(t), Tracefs: tracefs(), Modules: []Module{module(t, "ext3"), module(t, "ext4")}}
	whole, err := file(&src, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	cut, err := file(&src, len(whole)-1)
	if err != nil || len(cut) >= len(whole) {
		t.Fatalf("%d bytes of %d, %v", len(cut), len(whole), err)
	}
	f, err := targetfile.Open(cut)
	if err != nil || len(f.Meta.Gaps) != 1 || !strings.Contains(f.Meta.Gaps[0], "were too large") {
		t.Errorf("gaps = %v, %v", f.Meta.Gaps, err)
	}
}

func FuzzModule(f *testing.F) {
	f.Add(module(f, "ext4").BTF)
	f.Fuzz(func(t *testing.T, b []byte) {
		data, err := Make(Source{BTF: kernel(t), Tracefs: tracefs(), Modules: []Module{{Name: "fuzz", BTF: b}, module(t, "ext4")}})
		if err == nil {
			_, _ = targetfile.Write(data)
		}
	})
}
