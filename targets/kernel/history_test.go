// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"strings"
	"testing"
)

func TestOthers(t *testing.T) {
	tgt, err := Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ event, field, want string }{
		{"block:block_rq_complete", "dev", "trace_event_raw_block_rq_complete.dev"},
		{"kmem:kmalloc", "ptr", "trace_event_raw_kmem_alloc.ptr"},
		{"sched:sched_process_exit", "comm", "trace_event_raw_sched_process_exit.comm *trace_event_raw_sched_process_template.__data_loc_comm"},
		{"sched:sched_process_fork", "child_comm", "*trace_event_raw_sched_process_fork.__data_loc_child_comm"},
		{"sched:sched_process_fork", "child_pid", ""},
		{"sched:sched_switch", "next_comm", ""},
		{"syscalls:sys_enter_read", "fd", ""},
	} {
		category, event, _ := strings.Cut(c.event, ":")
		ev, ok := tgt.Tracepoint(category, event)
		if !ok {
			t.Fatalf("no event %s", c.event)
		}
		f, ok := ev.Field(c.field)
		if !ok {
			t.Fatalf("no field %s in %s", c.field, c.event)
		}
		var got []string
		for _, o := range f.Others() {
			mark := ""
			if o.DataLoc {
				mark = "*"
			}
			got = append(got, fmt.Sprintf("%s%s.%s", mark, o.Class, o.Member))
			typ, ok := tgt.Struct(o.Class)
			if !ok || typ.Name != o.Class {
				t.Errorf("%s: no struct %s", c.event, o.Class)
				continue
			}
			if m, ok := typ.Field(o.Member); !ok || o.DataLoc && m.Type.Size != 4 {
				t.Errorf("%s: no member %s in %s", c.event, o.Member, o.Class)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("other paths of %s.%s = %q, want %q", c.event, c.field, s, c.want)
		}
	}
	if _, ok := tgt.Struct("trace_event_raw_no_such_class"); ok {
		t.Error("found a class for an unknown event")
	}
}

// TestOtherClassesKnown checks that each event whose class has another name on other kernels is in the
// target.
func TestOtherClassesKnown(t *testing.T) {
	tgt, err := Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range otherClasses {
		for _, e := range c.Events {
			category, event, _ := strings.Cut(e, ":")
			if ev, ok := tgt.Tracepoint(category, event); !ok || ev.Class == classPrefix+c.Other {
				t.Errorf("%s: not in the target, or with class %s", e, c.Other)
			}
		}
	}
}

func TestRenamedMembers(t *testing.T) {
	tgt, err := Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	task, ok := tgt.Struct("task_struct")
	if !ok {
		t.Fatal("no struct task_struct")
	}
	older, ok := task.Field("state")
	newer, known := task.Field("__state")
	if !ok || !known || older.Offset != newer.Offset || older.Type != newer.Type || older.Name != "state" {
		t.Errorf("state = %+v, __state = %+v", older, newer)
	}
	if _, ok := task.Field("state_"); ok {
		t.Error("found a member that no kernel has")
	}
	if task.Has("state") || !task.Has("__state") {
		t.Error("want a target with __state and without state")
	}
	for _, c := range []struct{ tag, path, want string }{
		{"task_struct", "state", "__state"}, {"task_struct", "__state", "state"}, {"task_struct", "comm", ""}, {"file", "state", ""},
		{"request", "rq_disk", "q->disk"}, {"request", "q->disk", "rq_disk"}, {"request", "q", ""},
		{"inode", "__i_ctime.tv_sec", "i_ctime.tv_sec i_ctime_sec"},
	} {
		if got := strings.Join(OtherPaths(c.tag, c.path), " "); got != c.want {
			t.Errorf("%s.%s on other kernels = %q, want %q", c.tag, c.path, got, c.want)
		}
	}
	for _, c := range []struct {
		tag, path string
		want      bool
	}{{"request", "q", true}, {"request", "rq_disk", false}, {"inode", "i_ctime", true}, {"inode", "i_ctime_sec", false}, {"task_struct", "se", true}, {"task_struct", "s", false}} {
		if got := IsPathPrefix(c.tag, c.path); got != c.want {
			t.Errorf("IsPathPrefix(%s, %s) = %v", c.tag, c.path, got)
		}
	}
}

// TestSpelledMembers checks the type that a member has if the target has it at another path.
func TestSpelledMembers(t *testing.T) {
	tgt, err := Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ tag, member, want, successors string }{
		{"request", "rq_disk", "struct gendisk *", "q->disk"},
		{"bio", "bi_disk", "struct gendisk *", "bi_bdev->bd_disk"},
		{"request_queue", "backing_dev_info", "struct backing_dev_info *", "disk->bdi"},
		{"task_struct", "cpu", "u32", "thread_info.cpu"},
		{"inode", "i_ctime", "struct timespec64", "i_ctime_sec i_ctime_nsec"},
		{"sched_entity", "statistics", "struct sched_statistics", ""},
		{"dentry", "d_shortname", "union {...}", "d_iname"},
		{"kernfs_node", "__parent", "struct kernfs_node *", "parent"},
		{"request", "nothing", "", ""},
	} {
		s, ok := tgt.Struct(c.tag)
		if !ok {
			t.Fatalf("no struct %s", c.tag)
		}
		f, ok := s.Field(c.member)
		got := ""
		if ok {
			got = f.Type.String()
		}
		if got != c.want || ok && (s.Has(c.member) || f.Offset+f.Type.Size > s.Size) {
			t.Errorf("%s.%s = %q at %d, want %q", c.tag, c.member, got, f.Offset, c.want)
		}
		if got := strings.Join(s.Successors(c.member), " "); got != c.successors {
			t.Errorf("%s.%s: successors %q, want %q", c.tag, c.member, got, c.successors)
		}
	}
}

// TestSpellingsKnown checks that the target has at least one path for each spelling, so that its type
// is known.
func TestSpellingsKnown(t *testing.T) {
	tgt, err := Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range spellings {
		typ, ok := tgt.Struct(s.Tag)
		if !ok {
			t.Errorf("no struct %s", s.Tag)
			continue
		}
		known := 0
		for _, p := range s.Paths {
			if _, ok := typ.follow(p); ok {
				known++
			}
		}
		if known == 0 {
			t.Errorf("%s: none of %q in the target", s.Tag, s.Paths)
		}
	}
}
