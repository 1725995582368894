// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
)

// common returns the lines at the start of every format file, for a header of 8 or (longer) 12 bytes.
const (
	common = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n" +
		"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
	longer = common + "\tfield:unsigned char common_preempt_lazy_count;\toffset:8;\tsize:1;\tsigned:0;\n"
)

// events returns a function that reads format files from strings.
func events(t *testing.T, texts map[string]string) formatOf {
	return func(group, event string) (*kernelfs.Format, error) {
		text, ok := texts[group+":"+event]
		if !ok {
			t.Fatalf("unexpected lookup of %s:%s", group, event)
		}
		return kernelfs.ParseFormat([]byte("name: " + event + "\nID: 1\nformat:\n" + text))
	}
}

var program = &manifest.Program{Name: "p", Kind: "tracepoint"}

func points(names ...string) []Event {
	var all []Event
	for _, n := range names {
		group, event, _ := strings.Cut(n, ":")
		all = append(all, Event{group, event})
	}
	return all
}

var (
	i32 = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	u64 = &btf.Int{Name: "unsigned long", Size: 8}
)

// record returns the BTF of a record: int pid at 8, unsigned long when at 16, char comm[16] at 24.
func record(t *testing.T) *btf.Spec {
	t.Helper()
	char := &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	b, err := btf.NewBuilder([]btf.Type{
		&btf.Struct{Name: recordPrefix + "wake", Size: 40, Members: []btf.Member{
			{Name: "ent", Type: &btf.Struct{Name: "trace_entry", Size: 8}},
			{Name: "pid", Type: i32, Offset: 8 * 8}, {Name: "when", Type: u64, Offset: 16 * 8},
			{Name: "comm", Type: &btf.Array{Type: char, Index: i32, Nelems: 16}, Offset: 24 * 8},
		}},
		&btf.Struct{Name: "task_struct", Size: 4, Members: []btf.Member{{Name: "pid", Type: i32}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Spec()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRecordTypes(t *testing.T) {
	const same = common + "\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:unsigned long when;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:char comm[16];\toffset:24;\tsize:16;\tsigned:0;\n"
	for _, c := range []struct {
		name, format string
		want         string // member@offset+size, sorted by offset; "" if unchanged
	}{
		{"agrees", same, ""},
		{"an additional field at the start", longer + "\tfield:int pid;\toffset:12;\tsize:4;\tsigned:1;\n\tfield:unsigned long when;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:char comm[16];\toffset:24;\tsize:16;\tsigned:0;\n",
			"ent@0+8 pid@12+4 when@16+8 comm@24+16"},
		{"moved and retyped", common + "\tfield:unsigned int when;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:short pid;\toffset:12;\tsize:2;\tsigned:1;\n\tfield:char comm[32];\toffset:14;\tsize:32;\tsigned:0;\n",
			"ent@0+8 when@8+4 pid@12+2 comm@14+32"},
		{"became data after the record", common + "\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:unsigned long when;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:__data_loc char[] comm;\toffset:24;\tsize:4;\tsigned:0;\n",
			"ent@0+8 pid@8+4 when@16+8 __not_in_the_format_comm@24+16"},
	} {
		m := &manifest.Manifest{Fields: []manifest.FieldUse{{Program: "p", Type: "struct trace_event_raw_wake", Path: "pid"}, {Program: "p", Type: "struct task_struct", Path: "pid"}}}
		types := record(t)
		have, err := recordTypes(m, program, points("sched:wake"), types, events(t, map[string]string{"sched:wake": c.format}))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.want == "" {
			if have != types {
				t.Errorf("%s: types changed", c.name)
			}
			continue
		}
		var s, task *btf.Struct
		if err := have.TypeByName(recordPrefix+"wake", &s); err != nil {
			t.Fatal(err)
		}
		if err := have.TypeByName("task_struct", &task); err != nil {
			t.Errorf("%s: other types missing: %v", c.name, err)
		}
		if text := layout(s); text != c.want {
			t.Errorf("%s: got %s\nwant %s", c.name, text, c.want)
		}
	}
}

func layout(s *btf.Struct) string {
	var all []string
	for _, m := range s.Members {
		n, _ := btf.Sizeof(m.Type)
		all = append(all, fmt.Sprintf("%s@%d+%d", m.Name, m.Offset/8, n))
	}
	return strings.Join(all, " ")
}

// TestRetypedSign checks that a field with another width gets its sign from the format file.
func TestRetypedSign(t *testing.T) {
	f := &kernelfs.FormatField{Name: "x", CType: "short", Size: 2, Signed: true}
	if i, ok := ofSize(i32, f).(*btf.Int); !ok || i.Size != 2 || i.Encoding != btf.Signed {
		t.Errorf("got %v", ofSize(i32, f))
	}
	f = &kernelfs.FormatField{Name: "x", CType: "struct timespec64", Size: 16}
	if _, ok := ofSize(u64, f).(*btf.Array); !ok {
		t.Errorf("integer in place of a struct = %v", ofSize(u64, f))
	}
}

// TestRecordsDisagree checks that one program cannot be attached to two events with different records.
func TestRecordsDisagree(t *testing.T) {
	m := &manifest.Manifest{Fields: []manifest.FieldUse{{Program: "p", Type: "struct trace_event_raw_wake", Path: "pid"}}}
	_, err := recordTypes(m, program, points("sched:wake", "sched:new"), record(t), events(t, map[string]string{
		"sched:wake": common + "\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n",
		"sched:new":  common + "\tfield:int pid;\toffset:12;\tsize:4;\tsigned:1;\n",
	}))
	if err == nil || !strings.Contains(err.Error(), "sched:wake and tracepoint:sched:new have different records") {
		t.Errorf("error = %v", err)
	}
}

// TestCheckRecord checks that fields without a type are either read at their old offset or rejected.
func TestCheckRecord(t *testing.T) {
	const agrees = common + "\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:1;\n"
	for _, c := range []struct{ name, old, new, want string }{
		{"agrees", "", "", ""},
		{"an additional field", "offset:12", "offset:12", ""},
		{"moved", "offset:8;", "offset:28;", "pid is 4 bytes at byte 28, not 4 at byte 8"},
		{"wider", "size:4;\tsigned:1;\n\tfield:char", "size:8;\tsigned:1;\n\tfield:char", "pid is 8 bytes at byte 8, not 4 at byte 8"},
		{"a different sign", "size:4;\tsigned:1;\n\tfield:char", "size:4;\tsigned:0;\n\tfield:char", "pid is unsigned, not signed"},
		{"renamed", "int pid;", "int tid;", "it has no field pid"},
		{"an array has no sign", "size:16;\tsigned:1", "size:16;\tsigned:0", ""},
		{"a longer array", "size:16", "size:32", "comm is 32 bytes at byte 12, not 16 at byte 12"},
	} {
		p := *program
		p.Record = []manifest.RecordUse{{Name: "pid", Offset: 8, Size: 4, Sign: "signed"}, {Name: "comm", Offset: 12, Size: 16}}
		if !strings.Contains(agrees, c.old) {
			t.Fatalf("%s: nothing changed", c.name)
		}
		format := agrees
		if c.old != "" {
			format = strings.Replace(agrees, c.old, c.new, 1)
		}
		err := checkRecord(&manifest.Manifest{}, &p, points("mod:wake"), events(t, map[string]string{"mod:wake": format}))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want %q", c.name, err, c.want)
		}
	}
}

func TestSyscallRecords(t *testing.T) {
	nr := func(at string) string { return "\tfield:int __syscall_nr;\toffset:" + at + ";\tsize:4;\tsigned:1;\n" }
	arg := func(name, at, size string) string {
		return "\tfield:int " + name + ";\toffset:" + at + ";\tsize:" + size + ";\tsigned:0;\n"
	}
	arguments, number := &manifest.Code{RecordArgs: []int{0}}, &manifest.Code{RecordNr: true}
	const texts = "\tfield:__data_loc char[] __filename_val;\toffset:32;\tsize:4;\tsigned:0;\n"
	for _, c := range []struct {
		name, format string
		code         *manifest.Code
		want         string
	}{
		{"usual", common + nr("8") + arg("fd", "16", "8") + arg("nr", "24", "8"), number, ""},
		{"strings after the record (6.19)", common + nr("8") + arg("dfd", "16", "8") + arg("filename", "24", "8") + texts, number, ""},
		{"longer common part, arguments only", longer + nr("12") + arg("fd", "16", "8"), arguments, ""},
		{"longer common part, the number", longer + nr("12") + arg("fd", "16", "8"), number, "__syscall_nr is at byte 12, not 8"},
		{"longer common part, an object without the information", longer + nr("12") + arg("fd", "16", "8"), nil, "__syscall_nr is at byte 12, not 8"},
		{"arguments moved", longer + nr("16") + arg("fd", "24", "8"), arguments, "fd is 8 bytes at byte 24, not 8 at byte 16"},
		{"narrow arguments", common + nr("8") + arg("fd", "16", "4"), arguments, "fd is 4 bytes at byte 16"},
	} {
		m := &manifest.Manifest{}
		p := *program
		p.Code = c.code
		err := checkSyscallRecords(m, &p, points("syscalls:sys_enter_x"), events(t, map[string]string{"syscalls:sys_enter_x": c.format}))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want %q", c.name, err, c.want)
		}
	}
}

// TestRelocatedSyscallRecord checks that a program with relocated accesses needs no comparison, and
// that one without relocations, as in older objects or after FixRecord, does.
func TestRelocatedSyscallRecord(t *testing.T) {
	m := &manifest.Manifest{Fields: []manifest.FieldUse{{Program: "p", Insn: 2, Type: "struct " + SyscallRecord + "___enter", Path: "args[0]"}}}
	load := asm.LoadMem(asm.R0, asm.R1, 16, asm.DWord)
	relocated := btf.WithCORERelocationMetadata(load, &btf.CORERelocation{})
	const moved = longer + "\tfield:int __syscall_nr;\toffset:16;\tsize:4;\tsigned:1;\n\tfield:int fd;\toffset:24;\tsize:8;\tsigned:0;\n"
	read := events(t, map[string]string{"syscalls:sys_enter_x": moved})
	for _, c := range []struct {
		name  string
		insns asm.Instructions
		ok    bool
	}{
		{"relocated", asm.Instructions{asm.LoadImm(asm.R2, 1, asm.DWord), relocated}, true},
		{"not relocated", asm.Instructions{asm.LoadImm(asm.R2, 1, asm.DWord), load}, false},
		{"another instruction", asm.Instructions{relocated, asm.LoadImm(asm.R2, 1, asm.DWord)}, false},
	} {
		if _, err := Tracepoint(m, program, c.insns, points("syscalls:sys_enter_x"), nil, read); (err == nil) != c.ok {
			t.Errorf("%s: error = %v", c.name, err)
		}
		if fixed := FixRecord(m, "p", c.insns); fixed != c.ok {
			t.Errorf("%s: fixed = %v", c.name, fixed)
		}
		if _, err := Tracepoint(m, program, c.insns, points("syscalls:sys_enter_x"), nil, read); err == nil {
			t.Errorf("%s: no error without relocations", c.name)
		}
	}
}
