// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"testing"

	"btc/targets/targetfile"
)

// driver returns a module with a function and a tracepoint whose argument is a struct near, which
// points to second, which points to third, and so on.
func driver(t *testing.T) Module {
	t.Helper()
	base, err := parseBTF(kernel(t))
	if err != nil {
		t.Fatal(err)
	}
	s := &splitBTF{base: base, text: []byte{0}}
	integer := uint32(0)
	for id := range base.types {
		if base.types[id].kind == btfInt && base.types[id].name == "int" {
			integer = uint32(id)
		}
	}
	next := s.add(s.str("fifth"), btfStruct, 1, 4, s.str("x"), integer, 0)
	for _, name := range []string{"fourth", "third", "second", "near"} {
		pointer := s.add(0, btfPtr, 0, next)
		inside := s.add(s.str("in_"+name), btfStruct, 1, 8, s.str("to"), pointer, 0)
		next = s.add(s.str(name), btfStruct, 1, 8, s.str("inside"), inside, 0)
	}
	pointer := s.add(0, btfPtr, 0, next)
	proto := s.add(0, btfFuncProto, 1, 0, s.str("arg"), pointer)
	s.add(s.str("btf_trace_drive"), btfTypedef, 0, s.add(0, btfPtr, 0, proto))
	s.add(s.str("trace_event_raw_drive"), btfStruct, 1, 4, s.str("x"), integer, 0)
	s.add(s.str("drm_driver_create"), btfStruct, 1, 4, s.str("x"), integer, 0)
	s.add(s.str("unrelated"), btfStruct, 1, 4, s.str("x"), integer, 0)
	s.add(s.str("do_drive"), btfFunc, 0, proto)
	return Module{Name: "driver", BTF: s.raw()}
}

// TestBriefBesideWhole checks that types that are also described by a module captured as a whole are
// kept, whichever comes first.
func TestBriefBesideWhole(t *testing.T) {
	other := driver(t)
	other.Name = "other"
	src := Source{Tracefs: tracefs(), Modules: []Module{driver(t), other}}
	Abridge(&src, []string{"other"})
	_, file := build(t, src)
	for _, name := range []string{"near", "third", "unrelated"} {
		if refs, err := file.Named(targetfile.Struct, name); err != nil || len(refs) == 0 {
			t.Errorf("struct %s is missing: %v", name, err)
		}
	}
}

func TestBrief(t *testing.T) {
	fs := tracefs()
	fs["available_filter_functions"].Data = []byte("do_wake\ndo_drive [driver]\n")
	for _, brief := range []bool{false, true} {
		src := Source{Tracefs: fs, Modules: []Module{driver(t)}}
		if brief {
			Abridge(&src, []string{"ext4"})
		}
		_, file := build(t, src)
		has := func(kind targetfile.Kind, name string) bool {
			t.Helper()
			refs, err := file.Named(kind, name)
			if err != nil {
				t.Fatal(err)
			}
			return len(refs) > 0
		}
		for name, near := range map[string]bool{
			"trace_event_raw_drive": true, "drm_driver_create": true, "near": true, "in_near": true, "second": true, "in_second": true,
			"third": false, "in_third": false, "fourth": false, "fifth": false, "unrelated": false,
		} {
			if want := near || !brief; has(targetfile.Struct, name) != want {
				t.Errorf("brief %v: struct %s: %v", brief, name, !want)
			}
		}
		if !has(targetfile.Typedef, "btf_trace_drive") || !has(targetfile.Struct, "task_struct") {
			t.Errorf("brief %v: tracepoint or types of the kernel missing", brief)
		}
		if _, ok, err := file.Func("do_drive"); ok == brief || err != nil {
			t.Errorf("brief %v: function = %v, %v", brief, ok, err)
		}
		if _, ok, err := file.Func("do_wake"); !ok || err != nil {
			t.Errorf("brief %v: function of the kernel = %v, %v", brief, ok, err)
		}
	}
}
