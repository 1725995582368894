// SPDX-License-Identifier: Apache-2.0

package obj

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"btc/backend/emit"
	"btc/backend/mach"
	"btc/internal/probe"
	"btc/ir"
)

var update = flag.Bool("update", false, "rewrite testdata/object.txt")

// accesses have every kind of relocation, with paths through every kind of member.
var accesses = []struct {
	ref  ir.CORERef
	kind ir.COREKind
}{
	{ir.CORERef{Type: "struct task_struct", Path: "tgid"}, ir.FieldByteOffset},
	{ir.CORERef{Type: "struct task_struct", Path: "comm[3]"}, ir.FieldByteSize},
	{ir.CORERef{Type: "struct task_struct", Path: "in_execve"}, ir.FieldLShift},
	{ir.CORERef{Type: "struct task_struct", Path: "in_execve"}, ir.FieldRShift},
	{ir.CORERef{Type: "struct task_struct", Path: "pid"}, ir.FieldSigned},
	{ir.CORERef{Type: "struct sock", Path: "__sk_common.skc_family"}, ir.FieldByteOffset},
	{ir.CORERef{Type: "struct in6_addr", Path: "in6_u.u6_addr8[5]"}, ir.FieldByteOffset},
	{ir.CORERef{Type: "struct file", Path: "f_path.dentry"}, ir.FieldExists},
	{ir.CORERef{Type: "struct pt_regs___x86_64", Path: "di"}, ir.FieldExists},
	{ir.CORERef{Type: "enum bpf_func_id___loop", Path: "BPF_FUNC_loop"}, ir.EnumvalExists},
	{ir.CORERef{Type: "enum bpf_func_id", Path: "BPF_FUNC_get_func_ip"}, ir.EnumvalValue},
	{ir.CORERef{Type: "struct no_such_struct", Path: "x"}, ir.FieldExists},
	{ir.CORERef{Type: "struct task_struct"}, ir.TypeExists},
	{ir.CORERef{Type: "union sigval"}, ir.TypeSize},
	{ir.CORERef{Type: "u32"}, ir.TypeSize},
	{ir.CORERef{Type: "struct task_struct", Path: "pid_links[2].next"}, ir.FieldByteOffset},
	{ir.CORERef{Type: "struct task_struct", Path: "blocked.sig[0]"}, ir.FieldByteOffset},
	{ir.CORERef{Type: "sigset_t", Path: "sig[0]"}, ir.FieldByteSize},
	{ir.CORERef{Type: "struct lru_gen_folio", Path: "folios[7].next"}, ir.FieldByteOffset},
	{ir.CORERef{Type: "struct net_device", Path: "rtnl_link_state"}, ir.FieldByteOffset},
	{ir.CORERef{Type: "struct net_device", Path: "rtnl_link_state"}, ir.FieldLShift},
	{ir.CORERef{Type: "struct net_device", Path: "pcpu_stat_type"}, ir.FieldLShift},
	{ir.CORERef{Type: "struct task_struct", Path: "in_thrashing"}, ir.FieldByteOffset},
	{ir.CORERef{Type: "struct task_struct", Path: "in_thrashing"}, ir.FieldLShift},
	{ir.CORERef{Type: "struct sock", Path: "sk_use_task_frag"}, ir.FieldByteSize},
	{ir.CORERef{Type: "struct bio", Path: "bi_write_hint"}, ir.FieldByteSize},
	{ir.CORERef{Type: "struct request", Path: "state"}, ir.FieldSigned},
	{ir.CORERef{Type: "enum perf_event_state", Path: "PERF_EVENT_STATE_DEAD"}, ir.EnumvalValue},
	{ir.CORERef{Type: "enum perf_event_state", Path: "PERF_EVENT_STATE_OFF"}, ir.EnumvalValue},
	{ir.CORERef{Type: "enum no_such_enum"}, ir.TypeSize},
	{ir.CORERef{Type: "struct no_such_either"}, ir.TypeSize},
	{ir.CORERef{Type: "no_such_t"}, ir.TypeExists},
	{ir.CORERef{Type: "union no_such_union", Path: "y"}, ir.FieldExists},
}

// relocated returns an instruction for a kind of relocation, encoded as by backend/mach.
func relocated(kind ir.COREKind) []byte {
	i := mach.Insn{Op: mach.CoreImm, Dst: mach.R1, Kind: kind}
	var code []byte
	for _, r := range i.Encode() {
		code = r.Append(code)
	}
	return code
}

// TestObject checks a whole object: sections, symbols, types, lines and relocations.
func TestObject(t *testing.T) {
	m, funcs := sample(t)
	one := &emit.Func{Name: "one", Prog: &ir.Prog{Kind: probe.Kprobe, Section: "kprobe/f"}, Pos: ir.Pos{Line: 1, Col: 3}}
	for i, a := range accesses {
		one.CORE = append(one.CORE, emit.CORE{Insn: len(one.Insns) / 8, Ref: a.ref, Kind: a.kind})
		one.Insns = append(one.Insns, relocated(a.kind)...)
		pos := ir.Pos{Line: 1 + i/2, Col: 1 + 40*i, Stmt: i - 1}
		switch i {
		case 3: // the position stays the same
			pos = one.Lines[2].Pos
		case 5: // the position of the function
			pos = ir.Pos{}
		}
		one.Lines = append(one.Lines, emit.Line{Insn: one.CORE[i].Insn, Pos: pos})
	}
	for _, r := range []emit.Reloc{ // ld_imm64 and calls
		{Kind: emit.FuncAddr, Sym: "twice"}, {Kind: emit.FuncAddr, Sym: "thrice"}, {Kind: emit.Call, Sym: "thrice"},
		{Kind: emit.Global, Sym: "last"}, {Kind: emit.Global, Sym: "last", Addend: 2},
	} {
		r.Insn = len(one.Insns) / 8
		one.Relocs = append(one.Relocs, r)
		switch r.Kind {
		case emit.Call:
			one.Insns = append(one.Insns, insn(0x85, 0x10, 0, -1)...)
		default:
			regs := byte(0x01)
			if r.Kind == emit.FuncAddr {
				regs = 0x41
			}
			one.Insns = append(append(one.Insns, insn(0x18, regs, 0, 0)...), insn(0, 0, 0, 0)...)
		}
	}
	one.Insns = append(one.Insns, insn(0x95, 0, 0, 0)...)
	// Two subprograms; globals of all sizes.
	thrice := &emit.Func{Name: "thrice", Insns: bytes.Clone(funcs[2].Insns), Pos: ir.Pos{Line: 9}, Lines: []emit.Line{{Insn: 1, Pos: ir.Pos{Line: 10}}}}
	m.Funcs = append(m.Funcs, &ir.Func{Name: "thrice", Params: []ir.Type{ir.TCtx, ir.TI64}})
	funcs = []*emit.Func{one, funcs[1], funcs[2], thrice}
	for n, size := range []int{1, 4, 8, 12, 13} {
		m.Globals = append(m.Globals, &ir.Global{Name: fmt.Sprintf("init%d", size), Kind: ir.GlobalInit, Size: size, Init: []byte{byte(n + 1)}})
	}
	m.Globals = append(m.Globals, &ir.Global{Name: "last", Kind: ir.GlobalData, Size: 4})
	word, name := &ir.Layout{Kind: ir.LInt, Size: 8, Align: 8, Signed: true}, &ir.Layout{Kind: ir.LString, Size: 16, Align: 1}
	m.Maps = append(m.Maps,
		&ir.Map{Name: "@pair", Shape: ir.ShapePlain, Value: word,
			Key: &ir.Layout{Kind: ir.LTuple, Size: 24, Align: 8, Fields: []ir.Field{{Off: 0, Layout: word}, {Off: 8, Layout: name}}},
			BPF: ir.BPFMap{Name: "AT_pair", Type: "lru_hash", KeySize: 24, ValueSize: 16, ValueOff: 8, MaxEntries: 10, Flags: 1, Present: 0, Loss: -1}},
		&ir.Map{Name: "@h", Shape: ir.ShapeHist, Value: word,
			BPF: ir.BPFMap{Name: "AT_h", Type: "percpu_array", KeySize: 4, ValueSize: 8 * 66, MaxEntries: 1, Present: -1, Loss: -1}})
	b, err := Write(m, funcs)
	if err != nil {
		t.Fatal(err)
	}
	got := describe(t, b)
	const path = "testdata/object.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// describe prints an object as read by other packages.
func describe(t *testing.T, object []byte) string {
	t.Helper()
	var out strings.Builder
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "%v %v %v\n", f.Class, f.Type, f.Machine)
	for i, s := range f.Sections {
		fmt.Fprintf(&out, "section %d %q %v %v at %d size %d link %d info %d align %d entries of %d\n", i, s.Name, s.Type, s.Flags, s.Offset, s.Size, s.Link, s.Info, s.Addralign, s.Entsize)
		switch {
		case s.Type == elf.SHT_REL:
			data, code := content(t, s), content(t, f.Sections[s.Info])
			for ; len(data) > 0; data = data[16:] {
				off, info := binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:])
				fmt.Fprintf(&out, "\tat %d type %d symbol %d: %x\n", off, uint32(info), info>>32, code[off:off+8])
			}
		case s.Name == ".data" || s.Name == ".rodata.params":
			fmt.Fprintf(&out, "\t%x\n", content(t, s))
		}
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		fmt.Fprintf(&out, "symbol %q %v %v %v %d+%d\n", s.Name, elf.ST_BIND(s.Info), elf.ST_TYPE(s.Info), s.Section, s.Value, s.Size)
	}
	types, err := btf.LoadSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	for typ, err := range types.All() {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\n", address.ReplaceAllString(fmt.Sprintf("%+v", typ), ""))
		switch typ := typ.(type) {
		case *btf.Struct:
			members(&out, typ.Size, typ.Members)
		case *btf.Union:
			members(&out, typ.Size, typ.Members)
		case *btf.Enum:
			fmt.Fprintf(&out, "\tsize %d signed %t %v\n", typ.Size, typ.Signed, typ.Values)
		case *btf.Datasec:
			for _, v := range typ.Vars {
				fmt.Fprintf(&out, "\t%v at %d, %d bytes\n", v.Type, v.Offset, v.Size)
			}
		}
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"AT_h", "AT_pair", "AT_x", "events"} {
		s := spec.Maps[name]
		fmt.Fprintf(&out, "map %s %v key %d %v value %d %v entries %d flags %d\n", name, s.Type, s.KeySize, s.Key, s.ValueSize, s.Value, s.MaxEntries, s.Flags)
	}
	for _, name := range []string{"one", "two"} {
		p := spec.Programs[name]
		fmt.Fprintf(&out, "program %s %v %q\n", name, p.Type, p.AttachTo)
		for i := range p.Instructions {
			ins := &p.Instructions[i]
			fmt.Fprintf(&out, "\t%v", ins)
			if l, ok := ins.Source().(*btf.Line); ok {
				fmt.Fprintf(&out, " ; %s:%d:%d %q", l.FileName(), l.LineNumber(), l.LineColumn(), l.Line())
			}
			if fn := btf.FuncMetadata(ins); fn != nil {
				fmt.Fprintf(&out, " ; %v %v", fn, fn.Type)
			}
			if r := btf.CORERelocationMetadata(ins); r != nil {
				fmt.Fprintf(&out, " ; %v", r)
			}
			out.WriteByte('\n')
		}
	}
	return out.String()
}

func content(t *testing.T, s *elf.Section) []byte {
	t.Helper()
	data, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// address matches the address that the library prints for a type to distinguish it from others with the
// same name.
var address = regexp.MustCompile(`:[0-9a-f]{6,}\b`)

func members(out *strings.Builder, size uint32, all []btf.Member) {
	fmt.Fprintf(out, "\tsize %d\n", size)
	for _, m := range all {
		fmt.Fprintf(out, "\t%q %v at bit %d, %d bits\n", m.Name, m.Type, m.Offset, m.BitfieldSize)
	}
}
