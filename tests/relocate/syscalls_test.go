// SPDX-License-Identifier: Apache-2.0

package relocate

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/loader/adapt"
)

const syscallFields = `tracepoint:syscalls:sys_enter_openat { @e = args.__syscall_nr; @a = args.dfd; @b = args.mode }
tracepoint:syscalls:sys_exit_openat { @x = args.__syscall_nr; @r = args.ret }`

// syscallRecords returns the two record types of a kernel in which the first member has first bytes and
// the system call number nr bytes.
func syscallRecords(t *testing.T, first, nr uint32) *btf.Spec {
	t.Helper()
	long := integer(8, false)
	args := (first + nr + 7) / 8 * 8
	record := func(name string, typ btf.Type, size uint32) *btf.Struct {
		return &btf.Struct{Name: adapt.SyscallRecord, Size: args + size, Members: []btf.Member{
			{Name: "first", Type: &btf.Array{Type: integer(1, false), Index: integer(4, false), Nelems: first}},
			{Name: "syscall_nr", Type: integer(nr, false), Offset: btf.Bits(8 * first)},
			{Name: name, Type: typ, Offset: btf.Bits(8 * args)},
		}}
	}
	b, err := btf.NewBuilder([]btf.Type{record("ret", long, 8),
		record("args", &btf.Array{Type: long, Index: integer(4, false), Nelems: 6}, 48)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.Spec()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// loads returns the offsets that the programs read from their context after relocation for a kernel.
func loads(t *testing.T, spec *btf.Spec) string {
	t.Helper()
	o := compiled(t, syscallFields, embedded(t))
	var all []string
	for _, name := range slices.Sorted(maps.Keys(o.Spec.Programs)) {
		var relos []*btf.CORERelocation
		var at []*asm.Instruction
		insns := o.Spec.Programs[name].Instructions
		for i := range insns {
			if r := btf.CORERelocationMetadata(&insns[i]); r != nil {
				relos, at = append(relos, r), append(at, &insns[i])
			}
		}
		local, err := btf.NewBuilder(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		fixups, err := btf.CORERelocate(relos, []*btf.Spec{spec}, o.Spec.ByteOrder, local.Add)
		if err != nil {
			t.Fatal(err)
		}
		for i := range fixups {
			if err := fixups[i].Apply(at[i]); err != nil {
				t.Fatal(err)
			}
			if at[i].OpCode.Class() == asm.LdXClass {
				all = append(all, fmt.Sprint(at[i].Offset))
			} else {
				all = append(all, "poison")
			}
		}
	}
	return strings.Join(all, " ")
}

// TestSyscallRecord checks that programs of system call tracepoints read the record that the kernel
// makes for them, whatever struct trace_entry is. A kernel whose types lack it must reject them.
func TestSyscallRecord(t *testing.T) {
	for _, c := range []struct {
		name  string
		types *btf.Spec
		want  string // enter: number, first and last argument; exit: number, result
	}{
		{"before 6.7", syscallRecords(t, 8, 8), "8 16 40 8 16"},
		{"since 6.7", syscallRecords(t, 8, 4), "8 16 40 8 16"},
		{"a longer trace_entry", syscallRecords(t, 12, 4), "12 16 40 12 16"},
		{"an even longer one", syscallRecords(t, 16, 4), "16 24 48 16 24"},
		{"no such type", running(t, []string{"task_struct"}), "poison poison poison poison poison"},
	} {
		if have := loads(t, c.types); have != c.want {
			t.Errorf("%s: loads() = %s, want %s", c.name, have, c.want)
		}
	}
}

// TestSyscallRecordOfKernels checks the kernels of tests/kernels, including those with a longer struct
// trace_entry: all of them have both records.
func TestSyscallRecordOfKernels(t *testing.T) {
	files, _ := filepath.Glob("../../build/kernels/*/vmlinux.btf")
	if len(files) == 0 {
		t.Skip("skipped: no kernels (tests/kernels/getkernels.sh fetches them)")
	}
	for _, file := range files {
		spec, err := btf.LoadSpec(file)
		if err != nil {
			t.Fatal(err)
		}
		if have := loads(t, spec); have != "8 16 40 8 16" {
			t.Errorf("%s: loads() = %s, want 8 16 40 8 16", file, have)
		}
	}
}

// TestSyscallRecordWithoutType checks that without the type, btrun reads the offsets of mainline
// kernels, and not only on kernels whose BTF it can read.
func TestSyscallRecordWithoutType(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	path := filepath.Join(t.TempDir(), "some.btf")
	if err := os.WriteFile(path, marshal(t, running(t, []string{"task_struct"})), 0o666); err != nil {
		t.Fatal(err)
	}
	startProcesses(t)
	out, err := trace(t, `tracepoint:syscalls:sys_enter_execve { $n = str(args.filename); if ($n == "/bin/true") { printf("right"); exit() } }`, path)
	if err != nil || strings.TrimSpace(out) != "right" {
		t.Errorf("output %q, error %v, want output \"right\"", out, err)
	}
}
