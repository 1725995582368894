// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	cbtf "github.com/cilium/ebpf/btf"
	"github.com/google/go-cmp/cmp"

	"btc/internal/kernelfs"
	"btc/targets/targetfile"
)

// kernel returns the BTF of a toy kernel with three tracepoints: two of one class, and the third of
// another class with the same layout.
func kernel(t testing.TB) []byte {
	t.Helper()
	integer := &cbtf.Int{Name: "int", Size: 4, Encoding: cbtf.Signed}
	letter := &cbtf.Int{Name: "char", Size: 1}
	u32 := &cbtf.Typedef{Name: "u32", Type: &cbtf.Int{Name: "unsigned int", Size: 4}}
	task := &cbtf.Struct{Name: "task_struct", Size: 16, Members: []cbtf.Member{
		{Name: "pid", Type: integer},
		{Name: "flag", Type: u32, Offset: 35, BitfieldSize: 2},
	}}
	task.Members = append(task.Members, cbtf.Member{Name: "parent", Type: &cbtf.Pointer{Target: &cbtf.Const{Type: task}}, Offset: 64})
	entry := &cbtf.Struct{Name: "trace_entry", Size: 8, Members: []cbtf.Member{{Name: "pid", Type: integer, Offset: 32}}}
	class := func(name string) cbtf.Type {
		return &cbtf.Struct{Name: "trace_event_raw_" + name, Size: 32, Members: []cbtf.Member{
			{Name: "ent", Type: entry},
			{Name: "comm", Type: &cbtf.Array{Index: integer, Type: letter, Nelems: 16}, Offset: 64},
			{Name: "pid", Type: integer, Offset: 192},
			{Name: "__data_loc_text", Type: u32, Offset: 224},
			{Name: "__data", Type: &cbtf.Array{Index: integer, Type: letter}, Offset: 256},
		}}
	}
	proto := func(arg cbtf.Type) *cbtf.FuncProto {
		return &cbtf.FuncProto{Return: (*cbtf.Void)(nil), Params: []cbtf.FuncParam{{Type: &cbtf.Pointer{Target: (*cbtf.Void)(nil)}}, {Type: arg}}}
	}
	taskPtr := &cbtf.Pointer{Target: task}
	event := func(name string, arg cbtf.Type) cbtf.Type {
		return &cbtf.Typedef{Name: "btf_trace_" + name, Type: &cbtf.Pointer{Target: proto(arg)}}
	}
	probe := func(name string, arg cbtf.Type) cbtf.Type {
		return &cbtf.Func{Name: "trace_event_raw_event_" + name, Type: proto(arg)}
	}
	types := []cbtf.Type{
		task, class("wake_template"), class("other"),
		event("wake", taskPtr), event("wake_new", taskPtr), event("other", taskPtr),
		probe("wake_template", taskPtr), probe("other", taskPtr),
		&cbtf.Enum{Name: "state", Size: 4, Signed: true, Values: []cbtf.EnumValue{{Name: "DEAD", Value: ^uint64(0)}, {Name: "ALIVE", Value: 1}}},
		&cbtf.Func{Name: "do_wake", Type: &cbtf.FuncProto{Return: integer, Params: []cbtf.FuncParam{{Name: "p", Type: &cbtf.Pointer{Target: &cbtf.Const{Type: task}}}, {Name: "n", Type: u32}}}},
		&cbtf.Func{Name: "bpf_iter_task", Type: &cbtf.FuncProto{Return: integer, Params: []cbtf.FuncParam{{Name: "task", Type: taskPtr}}}},
		&cbtf.Func{Name: "inlined", Type: &cbtf.FuncProto{Return: integer}},
	}
	b, err := cbtf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

const wakeFormat = `name: wake
ID: 7
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;

	field:char comm[16];	offset:8;	size:16;	signed:0;
	field:int pid;	offset:24;	size:4;	signed:1;
	field:__data_loc char[] text;	offset:28;	size:4;	signed:0;
`

func tracefs() fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{
		"available_filter_functions":              file("do_wake\nin_module [ext4]\ndo_wake\n"),
		"events/sched/wake/format":                file(wakeFormat),
		"events/sched/wake_new/format":            file(wakeFormat),
		"events/sched/other/format":               file(wakeFormat),
		"events/sched/strange/format":             file("\tfield:int x;\toffset:8;\tsize:4;\tsigned:1;\n"),
		"events/syscalls/sys_enter_open/format":   file("\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:const char * name;\toffset:16;\tsize:8;\tsigned:0;\n"),
		"events/syscalls/sys_exit_open/format":    file("\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;\n"),
		"events/syscalls/sys_enter_umount/format": file("\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n"),
	}
}

func build(t *testing.T, src Source) (*targetfile.Data, *targetfile.File) {
	t.Helper()
	src.Arch, src.Release, src.BTF = "x86_64", "toy", kernel(t)
	data, err := Make(src)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := targetfile.Write(data)
	if err != nil {
		t.Fatal(err)
	}
	file, err := targetfile.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	return data, file
}

func TestEvents(t *testing.T) {
	data, file := build(t, Source{Tracefs: tracefs()})
	if len(data.Meta.Gaps) != 0 {
		t.Errorf("unexpected gaps: %v", data.Meta.Gaps)
	}
	for event, class := range map[string]string{
		"wake": "trace_event_raw_wake_template", "wake_new": "trace_event_raw_wake_template",
		"other": "trace_event_raw_other", "strange": "",
	} {
		ev, ok, err := file.Event("sched", event)
		if !ok || err != nil || ev.Class != class {
			t.Errorf("%s: %+v, %v, want the class %q", event, ev, err, class)
		}
	}
	ev, _, _ := file.Event("sched", "wake")
	want := []targetfile.Field{
		{Name: "comm", CType: "char[16]", Offset: 8, Size: 16},
		{Name: "pid", CType: "int", Offset: 24, Size: 4, Signed: true},
		{Name: "text", CType: "__data_loc char[]", Offset: 28, Size: 4},
	}
	if diff := cmp.Diff(want, ev.Fields); diff != "" {
		t.Error(diff)
	}
}

func TestSyscalls(t *testing.T) {
	_, file := build(t, Source{Tracefs: tracefs(), Syscalls: map[string]int{"open": 2, "umount2": 166}})
	open, ok, err := file.Syscall("open")
	want := targetfile.Syscall{Name: "open", Nr: 2, Args: []targetfile.Arg{{Name: "name", CType: "const char *"}}, Exit: true}
	if diff := cmp.Diff(want, open); !ok || err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if umount, _, _ := file.Syscall("umount"); umount.Nr != 166 || umount.Exit {
		t.Errorf("umount = %+v", umount)
	}
}

// TestOddSyscallLayout checks that the different layout on kernels with a longer trace_entry is
// reported.
func TestOddSyscallLayout(t *testing.T) {
	tree := tracefs()
	tree["events/syscalls/sys_enter_open/format"].Data = []byte("\tfield:int __syscall_nr;\toffset:12;\tsize:4;\tsigned:1;\n\tfield:const char * name;\toffset:24;\tsize:8;\tsigned:0;\n")
	data, _ := build(t, Source{Tracefs: tree})
	if len(data.Meta.Gaps) != 1 || !strings.Contains(data.Meta.Gaps[0], "sys_enter_open") {
		t.Errorf("gaps = %v", data.Meta.Gaps)
	}
}

func TestFunctions(t *testing.T) {
	_, file := build(t, Source{Tracefs: tracefs()})
	wake, ok, err := file.Func("do_wake")
	if !ok || err != nil || !wake.Traceable || wake.Proto == nil || len(wake.Proto.Params) != 2 || wake.Proto.Params[1].Name != "n" {
		t.Errorf("do_wake = %+v, %v", wake, err)
	}
	if f, ok, _ := file.Func("in_module"); !ok || f.Module != "ext4" || f.Proto != nil {
		t.Errorf("in_module = %+v", f)
	}
	if f, ok, _ := file.Func("bpf_iter_task"); !ok || f.Traceable {
		t.Errorf("bpf_iter_task = %+v", f)
	}
	if _, ok, _ := file.Func("inlined"); ok {
		t.Error("untraceable function captured")
	}
}

func TestTypes(t *testing.T) {
	_, file := build(t, Source{})
	refs, err := file.Named(targetfile.Struct, "task_struct")
	if err != nil || len(refs) != 1 {
		t.Fatal(refs, err)
	}
	task, err := file.Type(refs[0])
	if err != nil || task.Size != 16 || len(task.Members) != 3 {
		t.Fatalf("task_struct = %+v, %v, want 16 bytes and 3 members", task, err)
	}
	if m := task.Members[1]; m.BitOffset != 35 || m.BitSize != 2 {
		t.Errorf("bitfield = %+v", m)
	}
	if m := task.Members[2]; m.Type.Pointers() != 1 || m.Type.Base() != refs[0] {
		t.Errorf("pointer to const: %+v, want a pointer to %v", m, refs[0])
	}
	refs, err = file.EnumOf("DEAD")
	if err != nil || len(refs) != 1 {
		t.Fatal(refs, err)
	}
	if e, _ := file.Type(refs[0]); e.Flags&targetfile.Signed == 0 || e.Enumerators[0].Value != -1 {
		t.Errorf("enum = %+v", e)
	}
}

// TestGaps checks that unreadable files are reported.
func TestGaps(t *testing.T) {
	data, file := build(t, Source{})
	if len(data.Meta.Gaps) != 2 || !strings.Contains(data.Meta.Gaps[0], "tracefs") || !strings.Contains(data.Meta.Gaps[1], "traceable") {
		t.Errorf("gaps = %v", data.Meta.Gaps)
	}
	if f, ok, _ := file.Func("inlined"); !ok || !f.Traceable {
		t.Errorf("without a list of functions, want those in the BTF: %+v", f)
	}
	symbols, err := kernelfs.ReadKallsyms(strings.NewReader("0000000000000000 t from_kallsyms\n" +
		"0000000000000000 t bpf_prog_f00d_mine\t[bpf]\n0000000000000000 t kprobe_insn_page\t[__builtin__kprobes]\n"))
	if err != nil {
		t.Fatal(err)
	}
	data, file = build(t, Source{Kallsyms: symbols})
	if _, ok, _ := file.Func("from_kallsyms"); !ok || len(data.Meta.Gaps) != 2 {
		t.Errorf("with kallsyms instead of available_filter_functions: gaps = %v", data.Meta.Gaps)
	}
	for _, made := range []string{"bpf_prog_f00d_mine", "kprobe_insn_page"} {
		if _, ok, _ := file.Func(made); ok {
			t.Errorf("captured %s, which is not a function of this kernel", made)
		}
	}
}

func TestDamagedBTF(t *testing.T) {
	good := kernel(t)
	for n := 0; n < len(good); n += 13 {
		if _, err := Make(Source{BTF: good[:n]}); err == nil {
			t.Errorf("no error for %d of %d bytes", n, len(good))
		}
	}
}

// TestCircularArray checks that an array of itself, which damaged BTF may have, does not cause endless
// recursion.
func TestCircularArray(t *testing.T) {
	raw := []byte{0x9f, 0xeb, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 48, 0, 0, 0, 48, 0, 0, 0, 3, 0, 0, 0}
	word := func(v uint32) { raw = binary.LittleEndian.AppendUint32(raw, v) }
	for _, v := range []uint32{0, btfArray << 24, 0, 1, 1, 4} { // [1] is an array of four [1]
		word(v)
	}
	for _, v := range []uint32{1, btfStruct<<24 | 1, 4, 0, 1, 0} { // [2] is a struct with a member of type [1]
		word(v)
	}
	raw = append(raw, 0, 's', 0)
	if _, err := Make(Source{BTF: raw}); err != nil {
		t.Error(err)
	}
}

func FuzzBTF(f *testing.F) {
	f.Add(kernel(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		data, err := Make(Source{BTF: b, Tracefs: tracefs()})
		if err == nil {
			_, _ = targetfile.Write(data)
		}
	})
}

// TestHost captures the running kernel, as far as this user may read.
func TestHost(t *testing.T) {
	raw, err := HostFile()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		t.Skip("skipped: no BTF of the running kernel: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := targetfile.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	funcs := 0
	if err := f.Funcs("", func(targetfile.Func) bool { funcs++; return true }); err != nil || funcs < 5000 || f.NumTypes() < 5000 {
		t.Errorf("only %d functions, %d types, %v", funcs, f.NumTypes(), err)
	}
	if _, err := kernelfs.Tracepoint("sched", "sched_switch"); err == nil {
		if _, ok, err := f.Event("sched", "sched_switch"); !ok || err != nil {
			t.Errorf("no sched_switch: %v, gaps %v", err, f.Meta.Gaps)
		}
	}
	t.Log("gaps: ", f.Meta.Gaps)
}
