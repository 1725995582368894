// SPDX-License-Identifier: Apache-2.0

package obj

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"btc/backend/emit"
	"btc/internal/probe"
	"btc/ir"
	"btc/targets/kernel"
)

// insn encodes one instruction.
func insn(code, regs byte, off int16, imm int32) []byte {
	return []byte{code, regs, byte(off), byte(off >> 8), byte(imm), byte(imm >> 8), byte(imm >> 16), byte(imm >> 24)}
}

// sample is a module with at least one of everything: two programs that share a section, a subprogram,
// maps, globals of each kind, a relocated load, a relocated constant, and a bitfield.
func sample(t *testing.T) (*ir.Module, []*emit.Func) {
	t.Helper()
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	at := ir.Pos{Line: 1, Col: 3, Stmt: 0}
	m := &ir.Module{
		Name: "sample", File: "dir/sample.bt", Source: "x", Target: tgt,
		Stmts: []ir.Stmt{{Line: 1, Col: 3, Text: "@x[pid] = count()"}},
		Maps: []*ir.Map{
			{Name: "@x", Shape: ir.ShapeCount, Key: &ir.Layout{Kind: ir.LInt, Size: 8},
				BPF: ir.BPFMap{Name: "AT_x", Type: "percpu_hash", KeySize: 8, ValueSize: 8, MaxEntries: 4096, Present: -1, Loss: -1}},
			{Name: "events", Shape: ir.ShapeIntern, BPF: ir.BPFMap{Name: "events", Type: "ringbuf", MaxEntries: 4096, Loss: -1}},
		},
		Globals: []*ir.Global{
			{Name: "start_ns", Kind: ir.GlobalConst, Size: 8},
			{Name: "param_1_str", Kind: ir.GlobalParam, Size: 64, Param: &ir.Param{Name: "$1", Type: "string"}},
			{Name: "gen", Kind: ir.GlobalData, Size: 12},
		},
	}
	load := func(regs byte) []byte { return append(insn(0x18, regs, 0, 0), insn(0, 0, 0, 0)...) }
	var code []byte
	code = append(code, load(0x11)...)              // r1 = map @x
	code = append(code, load(0x01)...)              // r1 = start_ns
	code = append(code, insn(0xb7, 1, 0, 0)...)     // r1 = offset of task_struct.tgid
	code = append(code, insn(0x85, 0x10, 0, -1)...) // call twice
	code = append(code, insn(0xb7, 0, 0, 0)...)     // r0 = 0
	code = append(code, insn(0x95, 0, 0, 0)...)     // exit
	tgid := ir.CORERef{Type: "struct task_struct", Path: "tgid"}
	prog := func(name string) *emit.Func {
		return &emit.Func{
			Name: name, Prog: &ir.Prog{Kind: probe.Begin, Section: "raw_tp"}, Insns: bytes.Clone(code),
			Relocs: []emit.Reloc{{Insn: 0, Kind: emit.Map, Sym: "@x"}, {Insn: 2, Kind: emit.Global, Sym: "start_ns"}, {Insn: 5, Kind: emit.Call, Sym: "twice"}},
			CORE:   []emit.CORE{{Insn: 4, Ref: tgid, Kind: ir.FieldByteOffset, Pos: at}},
			Lines:  []emit.Line{{Insn: 0, Pos: at}, {Insn: 6, Pos: ir.Pos{Line: 2, Col: 1, Stmt: 0}}}, Pos: at,
		}
	}
	var sub []byte
	sub = append(sub, insn(0xbf, 0x10, 0, 0)...) // r0 = r1
	sub = append(sub, insn(0x95, 0, 0, 0)...)
	funcs := []*emit.Func{prog("one"), prog("two"), {Name: "twice", Insns: sub, Pos: at}}
	m.Funcs = []*ir.Func{{Name: "one"}, {Name: "two"}, {Name: "twice", Params: []ir.Type{ir.TI64}}}
	return m, funcs
}

func write(t *testing.T) []byte {
	t.Helper()
	m, funcs := sample(t)
	b, err := Write(m, funcs)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadBack(t *testing.T) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(write(t)))
	if err != nil {
		t.Fatal(err)
	}
	if len(spec.Programs) != 2 || spec.Programs["one"] == nil || spec.Programs["two"] == nil {
		t.Fatalf("programs: %v", spec.Programs)
	}
	p := spec.Programs["one"]
	if p.Type != ebpf.RawTracepoint || p.License != "GPL" {
		t.Errorf("type %s, license %q", p.Type, p.License)
	}
	x := spec.Maps["AT_x"]
	if x == nil || x.Type != ebpf.PerCPUHash || x.KeySize != 8 || x.ValueSize != 8 || x.MaxEntries != 4096 {
		t.Errorf("map AT_x: %v", x)
	}
	for name, off := range map[string]uint32{"start_ns": 0, "param_1_str": 0, "gen": 0} {
		if v := spec.Variables[name]; v == nil || v.Offset != off {
			t.Errorf("variable %s: %v", name, v)
		}
	}
	var lines []string
	var positions []string
	for _, ins := range p.Instructions {
		if src := ins.Source(); src != nil {
			lines = append(lines, src.String())
			if l, ok := src.(*btf.Line); ok {
				positions = append(positions, fmt.Sprintf("%s:%d:%d", l.FileName(), l.LineNumber(), l.LineColumn()))
			}
		}
	}
	if want := []string{"dir/sample.bt:1:3", "dir/sample.bt:2:1"}; len(positions) < 2 || !slices.Equal(positions[:2], want) {
		t.Errorf("positions %q, want %q", positions, want)
	}
	if len(lines) < 2 || lines[0] != "@x[pid] = count()" {
		t.Errorf("source lines: %q", lines)
	}
	var relo string
	for i := range p.Instructions {
		if r := btf.CORERelocationMetadata(&p.Instructions[i]); r != nil {
			relo = r.String()
		}
	}
	if !strings.Contains(relo, "task_struct") || !strings.Contains(relo, "byte_off") {
		t.Errorf("relocation %q", relo)
	}
}

func TestSameBytes(t *testing.T) {
	if !bytes.Equal(write(t), write(t)) {
		t.Error("writing the same module twice gives different objects")
	}
}

// TestKernelAccepts loads the unmodified object.
func TestKernelAccepts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: loading a BPF object needs root")
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(write(t)))
	if err != nil {
		t.Fatal(err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	coll.Close()
}

// TestOtherTools runs bpftool and llvm-objdump on the object.
func TestOtherTools(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sample.o")
	if err := os.WriteFile(path, write(t), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tool := range [][]string{
		{"bpftool", "gen", "skeleton", path},
		{"bpftool", "btf", "dump", "file", path},
		{"bpftool", "gen", "object", filepath.Join(t.TempDir(), "linked.o"), path},
		{"llvm-objdump", "-d", "-r", path},
	} {
		t.Run(strings.Join(tool[:min(3, len(tool))], " "), func(t *testing.T) {
			bin, err := exec.LookPath(tool[0])
			if err != nil {
				if bin, err = exec.LookPath("/usr/sbin/" + tool[0]); err != nil {
					t.Skipf("skipped: %s is not installed", tool[0])
				}
			}
			out, err := exec.Command(bin, tool[1:]...).CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if strings.Contains(string(out), "libbpf: ") {
				t.Errorf("error from libbpf: %s", out)
			}
		})
	}
}

func TestCOREValues(t *testing.T) {
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	sock, _ := tgt.Struct("sock_common")
	family, _ := sock.Field("skc_family")
	for _, c := range []struct {
		typ, path string
		kind      ir.COREKind
		want      int64
	}{
		{"struct sock", "__sk_common.skc_family", ir.FieldByteOffset, int64(family.Offset)},
		{"struct sock", "__sk_common.skc_family", ir.FieldByteSize, 2},
		{"struct sock", "__sk_common.skc_family", ir.FieldSigned, 0},
		{"struct sock", "__sk_common.skc_family", ir.FieldLShift, 48},
		{"struct sock", "__sk_common.skc_family", ir.FieldRShift, 48},
		{"struct task_struct", "comm[3]", ir.FieldByteSize, 1},
		{"struct task_struct", "pid", ir.FieldSigned, 1},
		{"struct no_such_struct", "x", ir.FieldExists, 1},
		{"enum bpf_func_id", "BPF_FUNC_get_func_ip", ir.EnumvalValue, 173},
		{"struct task_struct", "", ir.TypeExists, 1},
		{"union sigval", "", ir.TypeSize, 8},
	} {
		ct := newCoreTypes(tgt, newBuilder())
		a, err := ct.access(ir.CORERef{Type: c.typ, Path: c.path}, c.kind)
		if err != nil {
			t.Errorf("%s %s: error = %v", c.typ, c.path, err)
			continue
		}
		got, err := a.local(c.kind)
		if err != nil || got != c.want {
			t.Errorf("%s %s kind %d: got %d, %v; want %d", c.typ, c.path, c.kind, got, err, c.want)
		}
	}
	ct := newCoreTypes(tgt, newBuilder())
	if _, err := ct.access(ir.CORERef{Type: "struct sock", Path: "nope"}, ir.FieldByteOffset); err == nil {
		t.Error("no error for an unknown member")
	}
}

// TestReferenceInsideGlobal checks that a reference to the middle of a global keeps its offset:
// cilium/ebpf ignores the addend of a reference to an object symbol.
func TestReferenceInsideGlobal(t *testing.T) {
	m, funcs := sample(t)
	funcs[0].Relocs[1] = emit.Reloc{Insn: 2, Kind: emit.Global, Sym: "gen", Addend: 8}
	b, err := Write(m, funcs)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	ins := spec.Programs["one"].Instructions[1]
	if off := uint64(ins.Constant) >> 32; ins.Reference() != ".bss" || off != 8 {
		t.Errorf("reference to %s+%d, want .bss+8", ins.Reference(), off)
	}
}

// TestLicense checks that the license is that of the config block, or GPL by default.
func TestLicense(t *testing.T) {
	for _, set := range []string{"", "Dual MIT/GPL"} {
		m, funcs := sample(t)
		m.Meta.Config = map[string]string{"license": set}
		data, err := Write(m, funcs)
		if err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		have, err := f.Section("license").Data()
		if err != nil {
			t.Fatal(err)
		}
		want := set
		if set == "" {
			want = "GPL"
		}
		if string(have) != want+"\x00" {
			t.Errorf("license %q: object has %q", set, have)
		}
	}
}
