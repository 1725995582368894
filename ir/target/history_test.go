package target

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
			t.Fatalf("no %s", c.event)
		}
		f, ok := ev.Field(c.field)
		if !ok {
			t.Fatalf("no field %s of %s", c.field, c.event)
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
			t.Errorf("%s.%s: %q, want %q", c.event, c.field, s, c.want)
		}
	}
	if _, ok := tgt.Struct("trace_event_raw_no_such_class"); ok {
		t.Error("a class out of nothing")
	}
}

// Each event whose class has another name elsewhere is in the target.
func TestOtherClassesKnown(t *testing.T) {
	tgt, err := Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range otherClasses {
		for _, e := range c.Events {
			category, event, _ := strings.Cut(e, ":")
			if ev, ok := tgt.Tracepoint(category, event); !ok || ev.Class == classPrefix+c.Other {
				t.Errorf("%s: not in the target, or of class %s there", e, c.Other)
			}
		}
	}
}
