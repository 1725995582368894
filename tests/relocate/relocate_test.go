// SPDX-License-Identifier: Apache-2.0

// Package relocate runs objects with kernel types that were changed on purpose: a script must read what
// the changed types describe, or its object must be rejected with the position in the script. The
// changed types describe other bytes of real structures, so that the right result is known and a wrong
// offset is noticed.
package relocate

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"btc/compile"
	"btc/loader/kerneltypes"
	"btc/loader/object"
	"btc/loader/options"
	"btc/loader/run"
	"btc/targets/kernel"
)

// names are the types that the scripts use, and the type that shows which helpers exist.
var names = []string{"task_struct", "signal_struct", "rlimit", "pid_type", "bpf_func_id"}

// changedKernel holds the types of this kernel while a test changes them.
type changedKernel struct {
	t    *testing.T
	spec *btf.Spec
}

func (k *changedKernel) structure(name string) *btf.Struct {
	k.t.Helper()
	var s *btf.Struct
	if err := k.spec.TypeByName(name, &s); err != nil {
		k.t.Fatal(err)
	}
	return s
}

func (k *changedKernel) member(structure, name string) *btf.Member {
	k.t.Helper()
	s := k.structure(structure)
	i := slices.IndexFunc(s.Members, func(m btf.Member) bool { return m.Name == name })
	if i < 0 {
		k.t.Skipf("skipped: this kernel's struct %s has no direct member %s", structure, name)
	}
	return &s.Members[i]
}

func (k *changedKernel) task(name string) *btf.Member { return k.member("task_struct", name) }

func integer(size uint32, signed bool) *btf.Int {
	i := &btf.Int{Name: "changed", Size: size}
	if signed {
		i.Encoding = btf.Signed
	}
	return i
}

// self holds the known values of the thread that runs the programs.
type self struct {
	pid, tid int
	comm     string
	nofile   unix.Rlimit
}

var cases = []struct {
	name, script string
	change       func(k *changedKernel)
	want         func(s *self) string // the expected output
	refused      []string             // or else parts of the expected error message
}{
	{name: "unchanged", script: `begin { printf("%d %d %s", curtask->tgid, curtask->pid, curtask->comm); exit() }`, change: func(*changedKernel) {},
		want: func(s *self) string { return fmt.Sprintf("%d %d %s", s.pid, s.tid, s.comm) }},
	{name: "fields moved", script: `begin { printf("%d %d", curtask->tgid, curtask->pid); exit() }`,
		change: func(k *changedKernel) {
			a, b := k.task("pid"), k.task("tgid")
			a.Offset, b.Offset = b.Offset, a.Offset
		},
		want: func(s *self) string { return fmt.Sprintf("%d %d", s.tid, s.pid) }},
	{name: "one unsigned byte", script: `begin { printf("%d", curtask->tgid); exit() }`, change: func(k *changedKernel) { k.task("tgid").Type = integer(1, false) },
		want: func(s *self) string { return fmt.Sprint(uint8(s.pid)) }},
	{name: "one signed byte", script: `begin { printf("%d", curtask->tgid); exit() }`, change: func(k *changedKernel) { k.task("tgid").Type = integer(1, true) },
		want: func(s *self) string { return fmt.Sprint(int8(s.pid)) }},
	{name: "narrower and signed, in an unsigned integer", script: "begin {\n  printf(\"%d\", curtask->flags); exit() }", change: func(k *changedKernel) { k.task("flags").Type = integer(2, true) },
		refused: []string{"x.bt:2:", "field flags in struct task_struct is a signed integer of 16 bits on this kernel, and the script was compiled for unsigned 32 bits"}},
	{name: "narrower and signed, in 64 bits", script: "begin {\n  printf(\"%d\", curtask->utime); exit() }", change: func(k *changedKernel) { k.task("utime").Type = integer(4, true) },
		refused: []string{"x.bt:2:", "field utime in struct task_struct is a signed integer of 32 bits on this kernel, and the script was compiled for unsigned 64 bits"}},
	{name: "narrower in 64 bits", script: `begin { printf("%d", curtask->utime); exit() }`,
		change: func(k *changedKernel) {
			m := k.task("utime")
			m.Type, m.Offset = integer(2, false), k.task("tgid").Offset
		},
		want: func(s *self) string { return fmt.Sprint(uint16(s.pid)) }},
	{name: "two signed bytes", script: `begin { printf("%d", curtask->tgid); exit() }`, change: func(k *changedKernel) { k.task("tgid").Type = integer(2, true) },
		want: func(s *self) string { return fmt.Sprint(int16(s.pid)) }},
	{name: "bitfield moved and wider", script: `begin { printf("%d", curtask->in_execve); exit() }`,
		change: func(k *changedKernel) {
			m := k.task("in_execve")
			m.Offset, m.BitfieldSize = k.task("tgid").Offset+3, 5
		},
		want: func(s *self) string { return fmt.Sprint(s.pid >> 3 & 31) }},
	{name: "bitfield became an integer", script: `begin { printf("%d", curtask->in_execve); exit() }`,
		change: func(k *changedKernel) {
			m := k.task("in_execve")
			m.Offset, m.BitfieldSize, m.Type = k.task("tgid").Offset, 0, integer(2, false)
		},
		want: func(s *self) string { return fmt.Sprint(uint16(s.pid)) }},
	{name: "integer became a bitfield", script: `begin { printf("%d", curtask->tgid); exit() }`,
		change: func(k *changedKernel) {
			m := k.task("tgid")
			m.Offset, m.BitfieldSize, m.Type = m.Offset+1, 6, integer(4, true)
		},
		want: func(s *self) string { return fmt.Sprint(int8(s.pid>>1<<2) >> 2) }},
	{name: "string moved", script: `begin { printf("%s", curtask->comm); exit() }`, change: func(k *changedKernel) { k.task("comm").Offset += 2 * 8 },
		want: func(s *self) string { return s.comm[2:] }},
	{name: "pointers moved", script: `begin { printf("%d", curtask->real_parent->tgid); exit() }`, change: func(k *changedKernel) { k.task("real_parent").Offset = k.task("group_leader").Offset },
		want: func(s *self) string { return fmt.Sprint(s.pid) }},
	// Kernels that track the type of the task pointer accept direct loads through it.
	{name: "through a pointer, fields moved", script: `begin { printf("%d %d", curtask->group_leader->tgid, curtask->group_leader->exit_state); exit() }`,
		change: func(k *changedKernel) {
			a, b := k.task("exit_state"), k.task("tgid")
			a.Offset, b.Offset = b.Offset, a.Offset
		},
		want: func(s *self) string { return fmt.Sprintf("0 %d", s.pid) }},
	{name: "through a pointer, not a pointer to the kernel", script: `begin { printf("%d %d", curtask->group_leader->tgid == 0, curtask->real_parent->tgid); exit() }`,
		change: func(k *changedKernel) {
			k.task("group_leader").Offset, k.task("real_parent").Offset = k.task("utime").Offset, k.task("group_leader").Offset
		},
		want: func(s *self) string { return fmt.Sprintf("1 %d", s.pid) }},
	{name: "through a pointer, one unsigned byte", script: `begin { printf("%d", curtask->group_leader->tgid); exit() }`, change: func(k *changedKernel) { k.task("tgid").Type = integer(1, false) },
		want: func(s *self) string { return fmt.Sprint(uint8(s.pid)) }},
	{name: "through a pointer, one signed byte", script: `begin { printf("%d", curtask->group_leader->tgid); exit() }`, change: func(k *changedKernel) { k.task("tgid").Type = integer(1, true) },
		want: func(s *self) string { return fmt.Sprint(int8(s.pid)) }},
	{name: "through a pointer, integer became a bitfield", script: `begin { printf("%d", curtask->group_leader->tgid); exit() }`,
		change: func(k *changedKernel) {
			m := k.task("tgid")
			m.Offset, m.BitfieldSize, m.Type = m.Offset+1, 6, integer(4, true)
		},
		want: func(s *self) string { return fmt.Sprint(int8(s.pid>>1<<2) >> 2) }},
	{name: "through a pointer, field became a struct", script: "begin {\n  printf(\"%d\", curtask->group_leader->tgid); exit() }",
		change: func(k *changedKernel) {
			k.task("tgid").Type = &btf.Struct{Name: "group", Size: 4, Members: []btf.Member{{Name: "n", Type: integer(4, true)}}}
		},
		refused: []string{"x.bt:2:", "tgid in struct task_struct"}},
	{name: "through a pointer, field renamed", script: "begin {\n  printf(\"%d\", curtask->group_leader->tgid); exit() }", change: func(k *changedKernel) { k.task("tgid").Name = "thread_group" },
		refused: []string{"x.bt:2:", "this kernel has no field tgid in struct task_struct"}},
	{name: "into an anonymous union", script: `begin { printf("%d", curtask->tgid); exit() }`,
		change: func(k *changedKernel) {
			m := k.task("tgid")
			m.Type = &btf.Union{Size: 4, Members: []btf.Member{{Name: "other", Type: integer(4, false)}, {Name: "tgid", Type: m.Type}}}
			m.Name = ""
		},
		want: func(s *self) string { return fmt.Sprint(s.pid) }},
	{name: "elements of an array", script: fmt.Sprintf(`begin { printf("%%d", curtask->signal->rlim[%d].rlim_cur); exit() }`, unix.RLIMIT_NOFILE),
		change: func(k *changedKernel) {
			a, b := k.member("rlimit", "rlim_cur"), k.member("rlimit", "rlim_max")
			a.Offset, b.Offset = b.Offset, a.Offset
		},
		want: func(s *self) string { return fmt.Sprint(s.nofile.Max) }},
	{name: "enumerators renumbered", script: `begin { printf("%d", PIDTYPE_TGID); exit() }`,
		change: func(k *changedKernel) {
			var e *btf.Enum
			if err := k.spec.TypeByName("pid_type", &e); err != nil {
				k.t.Fatal(err)
			}
			for i := range e.Values {
				e.Values[i].Value += 70
			}
		},
		want: func(*self) string { return "71" }},
	{name: "size of a struct", script: `begin { printf("%d", sizeof(struct rlimit)); exit() }`, change: func(k *changedKernel) { k.structure("rlimit").Size = 48 },
		want: func(*self) string { return "16|48" }},
	{name: "field renamed", script: "begin {\n  printf(\"%d\", curtask->tgid); exit() }", change: func(k *changedKernel) { k.task("tgid").Name = "thread_group" },
		refused: []string{"x.bt:2:", "this kernel has no field tgid in struct task_struct"}},
	{name: "field became a struct", script: "begin {\n  printf(\"%d\", curtask->tgid); exit() }",
		change: func(k *changedKernel) {
			k.task("tgid").Type = &btf.Struct{Name: "group", Size: 4, Members: []btf.Member{{Name: "n", Type: integer(4, true)}}}
		},
		refused: []string{"x.bt:2:", "tgid in struct task_struct"}},
	{name: "struct renamed", script: "begin {\n  printf(\"%d\", curtask->tgid); exit() }", change: func(k *changedKernel) { k.structure("task_struct").Name = "thread" },
		refused: []string{"x.bt:2:", "this kernel has no field tgid in struct task_struct"}},
	{name: "enumerator missing", script: "begin {\n  printf(\"%d\", PIDTYPE_TGID); exit() }",
		change: func(k *changedKernel) {
			var e *btf.Enum
			if err := k.spec.TypeByName("pid_type", &e); err != nil {
				k.t.Fatal(err)
			}
			e.Values = slices.DeleteFunc(e.Values, func(v btf.EnumValue) bool { return v.Name == "PIDTYPE_TGID" })
		},
		refused: []string{"x.bt:2:", "PIDTYPE_TGID"}},
	{name: "missing, through a pointer", script: "begin {\n  printf(\"%d\", curtask->tgid);\n  printf(\"%d\", curtask->signal->rlim[1].rlim_max); exit() }",
		change: func(k *changedKernel) { k.member("rlimit", "rlim_max").Name = "rlim_high" }, refused: []string{"x.bt:3:", "rlim_max"}},
}

func TestChangedTypes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	if _, err := os.Stat(kerneltypes.Path); err != nil {
		t.Skip("skipped: this kernel has no BTF")
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			spec := running(t, names)
			c.change(&changedKernel{t, spec})
			path := filepath.Join(t.TempDir(), "changed.btf")
			if err := os.WriteFile(path, marshal(t, spec), 0o666); err != nil {
				t.Fatal(err)
			}
			out, err := trace(t, c.script, path)
			if c.want != nil {
				want := c.want(thread(t))
				if trimmed := strings.TrimSpace(out); err != nil || !slices.Contains(strings.Split(want, "|"), trimmed) {
					t.Errorf("output %q, error %v, want %q", trimmed, err, want)
				}
				return
			}
			if err == nil {
				t.Fatalf("not rejected; output %q", out)
			}
			for _, word := range c.refused {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q not found in the error:\n%v", word, err)
				}
			}
		})
	}
}

// running returns some types of the running kernel.
func running(t *testing.T, names []string) *btf.Spec {
	t.Helper()
	blob, missing, err := kerneltypes.Subset(kerneltypes.Path, names)
	if err != nil || len(missing) > 0 {
		t.Fatal(missing, err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(blob))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func marshal(t *testing.T, spec *btf.Spec) []byte {
	t.Helper()
	b, err := btf.NewBuilder(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Add(typ); err != nil {
			t.Fatal(err)
		}
	}
	blob, err := b.Marshal(nil, &btf.MarshalOptions{Order: binary.NativeEndian})
	if err != nil {
		t.Fatal(err)
	}
	return blob
}

// compiled compiles a script for a target.
func compiled(t *testing.T, script string, tg *kernel.Target) *object.Object {
	t.Helper()
	o, err := object.Read(writeObject(t, script, tg))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// writeObject compiles a script for a target and returns the path of the object.
func writeObject(t *testing.T, script string, tg *kernel.Target) string {
	t.Helper()
	out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: script, Target: tg})
	if out == nil {
		t.Fatalf("cannot compile the script: %v", diags)
	}
	path := filepath.Join(t.TempDir(), "x.o")
	for name, content := range map[string][]byte{path: out.Object, object.ManifestPath(path): out.Manifest} {
		if err := os.WriteFile(name, content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func embedded(t *testing.T) *kernel.Target {
	t.Helper()
	tg, err := kernel.Default(runtime.GOARCH)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	return tg
}

// trace compiles the script for the embedded types and runs it with the types in a file.
func trace(t *testing.T, script, types string) (string, error) {
	t.Helper()
	return traced(t, compiled(t, script, embedded(t)), types)
}

func traced(t *testing.T, o *object.Object, types string) (string, error) {
	t.Helper()
	var text bytes.Buffer
	s, err := run.Load(o, run.Options{Run: options.Run{BTF: types}, Report: options.Report{Out: &text, Buffer: "full", Quiet: true}})
	if err != nil {
		return "", err
	}
	defer s.Close()
	if err := s.Attach(); err != nil {
		return text.String(), err
	}
	if err := s.Serve(); err != nil {
		return text.String(), err
	}
	_, err = s.Finish()
	return text.String(), err
}

func thread(t *testing.T) *self {
	t.Helper()
	s := &self{pid: os.Getpid(), tid: unix.Gettid()}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/comm", s.tid))
	if err != nil {
		t.Fatal(err)
	}
	s.comm = strings.TrimSpace(string(comm))
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &s.nofile); err != nil {
		t.Fatal(err)
	}
	return s
}
