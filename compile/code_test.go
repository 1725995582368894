// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"
	"testing"

	"btc/internal/manifest"
	"btc/targets/kernel"
)

// TestFacts checks the description of programs in the manifest, which saves loaders from analyzing
// instructions.
func TestFacts(t *testing.T) {
	for _, c := range []struct {
		text string
		want manifest.Code // of the first program, without Frame and Forms
	}{
		{"tracepoint:syscalls:sys_enter_read { @ = count(); } tracepoint:syscalls:sys_exit_* { @e = count(); }", manifest.Code{Context: "none", Share: true}},
		{"tracepoint:syscalls:sys_enter_read { @ = args.fd; } tracepoint:syscalls:sys_exit_* { @e = count(); }", manifest.Code{Context: "record", Share: true, RecordArgs: []int{0}}},
		{"tracepoint:syscalls:sys_enter_read { @ = args.count - args.fd; } tracepoint:syscalls:sys_exit_* { @e = count(); }", manifest.Code{Context: "record", Share: true, RecordArgs: []int{0, 2}}},
		{"tracepoint:syscalls:sys_enter_read { @[kstack] = count(); }", manifest.Code{Context: "record"}},
		{"tracepoint:syscalls:sys_enter_read { @ = args.__syscall_nr; } tracepoint:syscalls:sys_exit_* { @e = count(); }", manifest.Code{Context: "record", Share: true, RecordNr: true}},
		{"tracepoint:sched:sched_switch { @ = count(); }", manifest.Code{Context: "none", Raw: true}},
		{"tracepoint:sched:sched_switch { @ = args.next_pid; }", manifest.Code{Context: "record"}},
		{"kprobe:vfs_read { @ = arg0; }", manifest.Code{Context: "regs"}},
		{"fentry:vfs_read { @ = args.count; }", manifest.Code{Context: "args"}},
	} {
		m := compiled(t, c.text)
		got := *m.Programs[0].Code
		if got.Context != c.want.Context || got.Share != c.want.Share || got.Raw != c.want.Raw || got.RecordNr != c.want.RecordNr ||
			!slices.Equal(got.RecordArgs, c.want.RecordArgs) {
			t.Errorf("%s: %+v, want %+v", c.text, got, c.want)
		}
	}
}

// TestComparedFields checks that a field accessed through a typed pointer is loaded if its width is the
// same on the host, and read by a helper otherwise.
func TestComparedFields(t *testing.T) {
	const rightShift = 5 // BPF_CORE_FIELD_RSHIFT_U64
	m := compiled(t, "fentry:vfs_read { @ = args.file.f_inode.i_uid.val; }")
	compared, shifts := 0, 0
	for _, f := range m.Fields {
		switch {
		case f.Compared && f.Kind != rightShift:
			t.Errorf("relocation kind %d of %s is compared, want only right shifts", f.Kind, &f)
		case f.Compared:
			compared++
		case f.Kind == rightShift:
			shifts++
		}
	}
	if compared != 1 || shifts != 1 {
		t.Errorf("%d comparisons and %d shifts, want 1 and 1", compared, shifts)
	}
}

func compiled(t *testing.T, text string) *manifest.Manifest {
	t.Helper()
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := Compile(Input{Name: "x.bt", Text: text, Target: target, Compiler: "test", Verify: true})
	if out == nil {
		t.Fatal(diags.Err())
	}
	m, err := manifest.Parse(out.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
