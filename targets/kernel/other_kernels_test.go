// SPDX-License-Identifier: Apache-2.0

package kernel

import "testing"

// TestElsewhere checks that tracepoints and fields that the default target lacks, but other kernels
// have, are described, each by the struct of its record.
func TestElsewhere(t *testing.T) {
	for _, arch := range []string{"x86_64", "arm64"} {
		tgt, err := Default(arch)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := tgt.Tracepoint("io_uring", "io_uring_submit_sqe"); ok {
			t.Fatal("default target has io_uring_submit_sqe: use another event in this test")
		}
		ev, ok := tgt.OnOtherKernels("io_uring", "io_uring_submit_sqe")
		if !ok {
			t.Fatal("io_uring_submit_sqe, renamed in 6.2, not found")
		}
		s, ok := tgt.ParseType("struct " + ev.Class)
		if !ok {
			t.Fatalf("no struct %s", ev.Class)
		}
		for field, want := range map[string]int{"opcode": 1, "user_data": 8, "flags": 4, "op_str": 4} {
			f, ok := ev.Field(field)
			if !ok {
				t.Errorf("no field %s", field)
				continue
			}
			if m, ok := s.Field(f.Member); !ok || m.Type.Size != want {
				t.Errorf("struct %s: member %s of field %s: %+v, found %v; want %d bytes", ev.Class, f.Member, field, m.Type, ok, want)
			}
		}
		if f, _ := ev.Field("op_str"); f != nil && !f.DataLoc {
			t.Error("op_str found, but it is data after the record")
		}
		if _, ok := ev.Field("nothing"); ok {
			t.Error("found a field that no kernel has")
		}

		// In 6.11, the pages of page_pool became net memory.
		hold, _ := tgt.Tracepoint("page_pool", "page_pool_state_hold")
		page, ok := hold.Field("page")
		if !ok {
			t.Fatal("page_pool_state_hold has no page")
		}
		if m, ok := hold.Struct().Field(page.Member); !ok || m.Type.Kind != Pointer {
			t.Errorf("page of the record = %+v, %v", m, ok)
		}
		if hold.Struct().Has("page") {
			t.Error("member of another kernel found in the target")
		}

		// It has a record of its own since 6.17, with one more field.
		exit, _ := tgt.Tracepoint("sched", "sched_process_exit")
		if f, ok := exit.Field("group_dead"); !ok || f.Class() != "trace_event_raw_sched_process_exit" {
			t.Errorf("group_dead of sched_process_exit = %+v, %v", f, ok)
		}
		if f, ok := exit.Field("pid"); !ok || f.Class() != exit.Class {
			t.Errorf("pid of sched_process_exit = %+v, %v", f, ok)
		}

		call, ok := tgt.OnOtherKernels("syscalls", "sys_enter_lookup_dcookie")
		if !ok || len(call.Fields) != 3 || !call.Fields[1].User || call.Fields[2].Offset != 32 {
			t.Errorf("lookup_dcookie, removed in 6.7 = %+v, %v", call, ok)
		}
		if _, ok := tgt.OnOtherKernels("sched", "sched_switch"); ok {
			t.Error("sched_switch reported as missing in the target")
		}
	}
}
