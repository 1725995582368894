// SPDX-License-Identifier: Apache-2.0

package sites

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

func TestDeclare(t *testing.T) {
	integer := &btf.Int{Name: "int", Size: 4}
	file := &btf.Struct{Name: "file"}
	pointer := func(t btf.Type) btf.Type { return &btf.Pointer{Target: t} }
	proto := &btf.FuncProto{Return: &btf.Void{}, Params: []btf.FuncParam{{Name: "x", Type: integer}}}
	for _, tc := range []struct {
		t    btf.Type
		want string
	}{
		{integer, "int"},
		{pointer(file), "struct file *"},
		{pointer(&btf.Const{Type: &btf.Int{Name: "char"}}), "const char *"},
		{pointer(pointer(file)), "struct file **"},
		{&btf.Array{Type: integer, Nelems: 3}, "int [3]"},
		{pointer(proto), "void (*)(int)"},
		{&btf.Const{Type: pointer(file)}, "struct file * const"},
	} {
		if got := Declare(tc.t, ""); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
	var loop btf.Pointer
	loop.Target = &loop
	if got := Declare(&loop, ""); !strings.Contains(got, "...") {
		t.Errorf("self-referential pointer: %q", got)
	}
}

func TestArguments(t *testing.T) {
	h := look(t)
	if _, err := h.Types().Kernel(); err != nil {
		t.Skip("skipped: no kernel types: ", err)
	}
	for point, want := range map[string]string{
		"fexit:vmlinux:vfs_read":             "struct file * file, char * buf, size_t count, loff_t * pos, ssize_t retval",
		"kprobe:vfs_read":                    "struct file * arg0, char * arg1, size_t arg2, loff_t * arg3",
		"kretprobe:vfs_read":                 "ssize_t retval",
		"rawtracepoint:vmlinux:sched_wakeup": "struct task_struct * p",
		"iter:task":                          "struct bpf_iter_meta * meta, struct task_struct * task",
		"fentry:vmlinux:no_such_function":    "",
		"software:faults:":                   "",
		"tracepoint:no_such:tracepoint":      "",
	} {
		if got := strings.Join(Arguments(h, point), ", "); got != want {
			t.Errorf("%s: %q, want %q", point, got, want)
		}
	}
}
