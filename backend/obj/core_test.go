// SPDX-License-Identifier: Apache-2.0

package obj

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"btc/backend/emit"
	"btc/internal/probe"
	"btc/ir"
	"btc/targets/kernel"
)

// TestAccessErrors checks that an access to a member that the target lacks is an error.
func TestAccessErrors(t *testing.T) {
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		typ, path string
		kind      ir.COREKind
		want      string
	}{
		{"struct sock", "__sk_common.nope", ir.FieldByteOffset, `no member "nope"`},
		{"struct sock", "__sk_common.nope", ir.FieldExists, ""},
		{"struct sock", "nope.x", ir.FieldExists, `"nope" is unknown`},
		{"struct sock", "nope[2]", ir.FieldExists, `"nope" is unknown`},
		{"struct task_struct", "pid.x", ir.FieldByteOffset, `"pid" is not a struct`},
		{"struct task_struct", "pid[0]", ir.FieldByteOffset, `"pid" is not an array`},
		{"struct task_struct", "comm[0][0]", ir.FieldByteOffset, `"comm" is not an array`},
		{"struct task_struct", "comm[x]", ir.FieldByteOffset, "bad index"},
		{"struct task_struct", "comm[-1]", ir.FieldByteOffset, "bad index"},
		{"struct task_struct", "comm[1", ir.FieldByteOffset, "bad index"},
		{"struct task_struct", "comm[0]", ir.FieldByteOffset, ""},
		{"struct task_struct", "pid", 99, "unknown kind 99"},
	} {
		a, err := newCoreTypes(tgt, newBuilder()).access(ir.CORERef{Type: c.typ, Path: c.path}, c.kind)
		if err == nil {
			_, err = a.local(c.kind)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s kind %d: error = %v, want %q", c.typ, c.path, c.kind, err, c.want)
		}
	}
}

// TestBitfieldUnit checks that the unit grows until it holds all bits, up to eight bytes.
func TestBitfieldUnit(t *testing.T) {
	for _, c := range []struct{ bitOff, bitSize, typeSize, off, size int }{
		{0, 1, 4, 0, 4}, {31, 1, 4, 0, 4}, {32, 1, 4, 4, 4}, {30, 2, 4, 0, 4}, {30, 3, 4, 0, 8}, {62, 2, 4, 4, 4},
		{7, 1, 1, 0, 1}, {7, 2, 1, 0, 2}, {15, 2, 1, 0, 4}, {8, 8, 1, 1, 1}, {63, 1, 8, 0, 8}, {64, 64, 8, 8, 8},
	} {
		if off, size := bitfieldUnit(c.bitOff, c.bitSize, c.typeSize); off != c.off || size != c.size {
			t.Errorf("%d bits at %d of a type of %d bytes: %d bytes at %d, want %d at %d", c.bitSize, c.bitOff, c.typeSize, size, off, c.size, c.off)
		}
	}
}

// TestRelocatedInstructions checks that the local value is in the field that loaders relocate.
func TestRelocatedInstructions(t *testing.T) {
	field := ir.CORERef{Type: "struct task_struct", Path: "comm[%d]"}
	state := ir.CORERef{Type: "enum perf_event_state", Path: "PERF_EVENT_STATE_DEAD"}
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	task, _ := tgt.Struct("task_struct")
	comm, _ := task.Field("comm")
	at := func(offset int) ir.CORERef {
		return ir.CORERef{Type: field.Type, Path: fmt.Sprintf(field.Path, offset-comm.Offset)}
	}
	for _, c := range []struct {
		code byte
		ref  ir.CORERef
		kind ir.COREKind
		want string
	}{
		{0x79, at(32767), ir.FieldByteOffset, "7900ff7f00000000"},
		{0x62, at(4096), ir.FieldByteOffset, "6200001000000000"},
		{0x7b, at(4096), ir.FieldByteOffset, "7b00001000000000"},
		{0x79, at(32768), ir.FieldByteOffset, "offset 32768 of its type: too far"},
		{0xb7, at(32768), ir.FieldByteOffset, "b700000000800000"},
		{0x07, at(4096), ir.FieldByteOffset, "0700000000100000"},
		{0x18, state, ir.EnumvalValue, "18000000fcffffff00000000ffffffff"},
	} {
		m, funcs := sample(t)
		f := &emit.Func{Name: "one", Prog: &ir.Prog{Kind: probe.Begin, Section: "raw_tp"}, Insns: insn(0xbf, 0, 0, 0)}
		f.Insns = append(append(f.Insns, insn(c.code, 0, 0, 0)...), insn(0, 0, 0, 0)...)
		f.CORE = []emit.CORE{{Insn: 1, Ref: c.ref, Kind: c.kind, Pos: ir.Pos{Line: 4}}}
		b, err := Write(m, []*emit.Func{f, funcs[2]})
		if err != nil {
			if d, ok := err.(ir.Diag); !ok || d.Pos.Line != 4 || !strings.Contains(d.Text, c.want) {
				t.Errorf("%#x: %v, want %q", c.code, err, c.want)
			}
			continue
		}
		o, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		code := content(t, o.Section("raw_tp"))
		if got := fmt.Sprintf("%x", code[8:8+len(c.want)/2]); got != c.want || binary.LittleEndian.Uint64(code) != 0xbf {
			t.Errorf("%#x: %s, want %s", c.code, got, c.want)
		}
	}
}

// TestLoadersAgree checks that the values in the instructions are those that a loader computes from the
// local types, because loaders verify this.
func TestLoadersAgree(t *testing.T) {
	m, funcs := sample(t)
	one := &emit.Func{Name: "one", Prog: &ir.Prog{Kind: probe.Kprobe, Section: "kprobe/f"}}
	for _, a := range accesses {
		one.CORE = append(one.CORE, emit.CORE{Insn: len(one.Insns) / 8, Ref: a.ref, Kind: a.kind})
		one.Insns = append(one.Insns, relocated(a.kind)...)
	}
	funcs[0] = one
	b, err := Write(m, funcs)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	code := spec.Programs["one"].Instructions
	var relos []*btf.CORERelocation
	for i := range accesses {
		relos = append(relos, btf.CORERelocationMetadata(&code[i]))
	}
	fixups, err := btf.CORERelocate(relos, []*btf.Spec{spec.Types}, binary.LittleEndian, spec.Types.TypeID)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range fixups {
		before := code[i].Constant
		if err := f.Apply(&code[i]); err != nil || code[i].Constant != before {
			t.Errorf("%s, kind %d: from %d to %d, error %v", accesses[i].ref, accesses[i].kind, before, code[i].Constant, err)
		}
	}
}

// TestNothing checks that a module without maps and globals has no sections for them, and that a map of
// unknown type is an error.
func TestNothing(t *testing.T) {
	code := append(insn(0xb7, 0, 0, 0), insn(0x95, 0, 0, 0)...)
	f := &emit.Func{Name: "one", Prog: &ir.Prog{Kind: probe.Begin, Section: "raw_tp"}, Insns: code}
	m := &ir.Module{Funcs: []*ir.Func{{Name: "one"}}}
	b, err := Write(m, []*emit.Func{f})
	if err != nil {
		t.Fatal(err)
	}
	o, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range o.Sections {
		names = append(names, s.Name)
	}
	if got, want := strings.Join(names, " "), " .strtab raw_tp license .BTF .BTF.ext .symtab"; got != want {
		t.Errorf("sections%s, want%s", got, want)
	}
	m.Maps = []*ir.Map{{Name: "@x", Pos: ir.Pos{Line: 3}, BPF: ir.BPFMap{Name: "AT_x", Type: "bloom"}}}
	_, err = Write(m, []*emit.Func{f})
	if d, ok := err.(ir.Diag); !ok || d.Pos.Line != 3 || d.Text != `map @x has the unknown type "bloom"` {
		t.Errorf("map of unknown type: error = %v", err)
	}
}
