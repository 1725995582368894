package target

import (
	"slices"
	"strings"
)

// Records of tracepoints change between kernels in two ways that a field's name
// does not show: an event moves to another class, and so to another struct, or
// a character array becomes data behind the record. Both are told by existence
// tests at load time, so an object carries each form that it may meet.

// otherClass says that events, whose class in the target is another, have a
// record of class Other on some kernels. The fields have the same names.
type otherClass struct {
	Other   string
	Events  []string // category:event; the first is one that lends its fields to the struct
	Kernels string
}

var otherClasses = []otherClass{
	{"block_rq_complete", []string{"block:block_rq_complete"}, "before 5.16"},
	{"block_bio_merge", []string{"block:block_bio_backmerge", "block:block_bio_frontmerge"}, "before 5.12"},
	{"block_bio_queue", []string{"block:block_bio_queue"}, "before 5.12"},
	{"block_get_rq", []string{"block:block_getrq"}, "before 5.12"},
	{"kmem_alloc", []string{"kmem:kmem_cache_alloc", "kmem:kmalloc"}, "before 6.1"},
	{"kmem_free", []string{"kmem:kmem_cache_free", "kmem:kfree"}, "before 5.12"},
	{"exceptions", []string{"exceptions:page_fault_user", "exceptions:page_fault_kernel"}, "since 6.16"},
	{"tcp_retransmit_skb", []string{"tcp:tcp_retransmit_skb"}, "since 6.18"},
	{"sched_process_exit", []string{"sched:sched_process_exit"}, "since 6.17"},
}

// In category sched the names of threads, character arrays of the record, became
// data behind it in 6.17. The events of the hot paths kept them.
var keptNames = []string{"sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new"}

func (f *TraceField) nameMoved() bool {
	return f.event.Category == "sched" && strings.HasPrefix(f.CType, "char[") && !slices.Contains(keptNames, f.event.Event)
}

const (
	classPrefix   = "trace_event_raw_"
	dataLocPrefix = "__data_loc_"
)

// OtherField is a form that a tracepoint's field has on some kernels.
type OtherField struct {
	Class   string // struct of the record, as TraceEvent.Class
	Member  string
	DataLoc bool // as TraceField.DataLoc
}

// Others lists the forms that the field has on other kernels than the target's.
func (f *TraceField) Others() []OtherField {
	if f.event == nil || f.Member == "" || f.DataLoc || f.RelLoc || f.event.Category == syscalls {
		return nil
	}
	var all []OtherField
	for _, c := range otherClasses {
		if slices.Contains(c.Events, f.event.Category+":"+f.event.Event) {
			all = append(all, OtherField{Class: classPrefix + c.Other, Member: f.Member})
		}
	}
	if f.nameMoved() {
		all = append(all, OtherField{Class: f.event.Class, Member: dataLocPrefix + f.Name, DataLoc: true})
	}
	return all
}

// otherStruct makes the struct of a class that the target's kernel does not
// have, with the members that it has there under another name.
func (t *Target) otherStruct(name string) (*Type, bool) {
	class, ok := strings.CutPrefix(name, classPrefix)
	if !ok {
		return nil, false
	}
	for _, c := range otherClasses {
		if c.Other != class {
			continue
		}
		category, event, _ := strings.Cut(c.Events[0], ":")
		ev, ok := t.Tracepoint(category, event)
		if !ok || ev.Class == "" || ev.Class == name {
			return nil, false
		}
		own, ok := t.Struct(ev.Class)
		if !ok {
			return nil, false
		}
		other := *own
		other.Name = name
		return &other, true
	}
	return nil, false
}

// otherMember makes the member that says where a name that has moved behind the
// record lies.
func (typ *Type) otherMember(name string) (Field, bool) {
	if typ.t == nil || !strings.HasPrefix(typ.Name, classPrefix) || !strings.HasPrefix(name, dataLocPrefix) {
		return Field{}, false
	}
	u32, ok := typ.t.Base("unsigned int")
	return Field{Name: name, Type: u32}, ok
}
