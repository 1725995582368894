// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"
	"strconv"
	"strings"

	"btc/internal/spell"
	"btc/targets/targetfile"
)

// TraceEvent is one tracepoint, category:event.
type TraceEvent struct {
	Category string
	Event    string

	// Class is the name of the BTF struct that describes the record
	// (trace_event_raw_<class>, or syscall_trace_enter and syscall_trace_exit
	// for category syscalls). "" when BTF has none: fields then have the
	// offsets of this target and cannot be relocated.
	Class string

	// Fields are the event's own fields in order; the common_ fields, which BPF
	// may not read, are omitted.
	Fields []TraceField
}

// TraceField is one field of a tracepoint's record, as in its format file.
type TraceField struct {
	Name   string
	CType  string // the type in C: "char[16]", "const char *", "__data_loc char[]"
	Offset int    // in bytes from the start of the record
	Size   int    // in bytes
	Signed bool

	// Member is the field's name in the class struct: Name, or with the prefix
	// __data_loc_ or __rel_loc_. "" when there is no class struct.
	Member string

	// DataLoc: the 4 bytes are {u16 offset, u16 length} of the data, counted
	// from the start of the record (upper half is the length). RelLoc: counted
	// from the end of these 4 bytes (since 5.17).
	DataLoc, RelLoc bool

	// User: a pointer to user space (arguments of syscalls).
	User bool

	t     *Target
	event *TraceEvent
}

// Syscall is one system call that has tracepoints.
type Syscall struct {
	Name string
	Nr   int          // system call number on this architecture, -1 when the target does not say
	Args []TraceField // as in syscalls:sys_enter_<name>, without __syscall_nr
}

// Function is one function of the kernel.
type Function struct {
	Name      string
	Module    string // "" for the kernel itself
	Traceable bool   // in available_filter_functions
	Kfunc     bool   // BPF programs may call it
	Proto     *Type  // Kind Func; nil when BTF does not describe it
}

// The record that programs of system call tracepoints read is not the one of the format file: the
// kernel fills a struct syscall_tp_t for them (perf_call_bpf_enter and perf_call_bpf_exit in
// kernel/trace/trace_syscalls.c), which BTF has twice, with the arguments and with the result. Its
// first member is 8 bytes before 6.7, regardless of the length of struct trace_entry, and a struct
// trace_entry since. What is after "___" is not a part of a type's name for loaders.
const (
	SyscallEnter = "syscall_tp_t___enter"
	SyscallExit  = "syscall_tp_t___exit"

	// RecordNrMember is the number's member. It has 4 bytes since 6.7 and 8 before; all
	// architectures are little-endian.
	RecordNrMember = "syscall_nr"

	// Offsets with a struct trace_entry of 8 bytes: of the number, and of the arguments of 8 bytes each
	// or the result.
	RecordNr   = 8
	RecordArgs = 16

	// MaxSyscallArgs is how many arguments the record has.
	MaxSyscallArgs = 6
)

// syscallRecord makes the struct of a record of system calls, with the members that programs read.
func (t *Target) syscallRecord(name string) (*Type, bool) {
	size := map[string]int{SyscallEnter: RecordArgs + 8*MaxSyscallArgs, SyscallExit: RecordArgs + 8}[name]
	return &Type{Kind: Struct, Name: name, Size: size, t: t}, size > 0
}

// recordMember returns a member of syscallRecord's struct.
func (typ *Type) recordMember(name string) (Field, bool) {
	var text string
	off := RecordArgs
	switch {
	case typ.t == nil || typ.Kind != Struct || typ.Name != SyscallEnter && typ.Name != SyscallExit:
	case name == RecordNrMember:
		text, off = "unsigned int", RecordNr
	case name == "args" && typ.Name == SyscallEnter:
		text = "unsigned long[" + strconv.Itoa(MaxSyscallArgs) + "]"
	case name == "ret" && typ.Name == SyscallExit:
		text = "unsigned long"
	}
	if text == "" {
		return Field{}, false
	}
	t, ok := typ.t.ParseType(text)
	return Field{Name: name, Type: t, Offset: off}, ok
}

const (
	syscalls  = "syscalls"
	sysEnter  = "sys_enter_"
	sysExit   = "sys_exit_"
	enterType = "syscall_trace_enter"
	exitType  = "syscall_trace_exit"
)

// Tracepoint finds an event.
func (t *Target) Tracepoint(category, event string) (*TraceEvent, bool) {
	if category == syscalls {
		return t.syscallEvent(event)
	}
	rec, ok := t.eventRecord(category, event)
	if !ok {
		return nil, false
	}
	ev := &TraceEvent{Category: category, Event: event, Class: rec.Class}
	for _, f := range rec.Fields {
		field := TraceField{
			Name:   f.Name,
			CType:  f.CType,
			Offset: f.Offset,
			Size:   f.Size,
			Signed: f.Signed,
			t:      t,
			event:  ev,
		}
		field.DataLoc = strings.HasPrefix(f.CType, "__data_loc ")
		field.RelLoc = strings.HasPrefix(f.CType, "__rel_loc ")
		if ev.Class != "" {
			field.Member = MemberName(f.Name, f.CType)
		}
		ev.Fields = append(ev.Fields, field)
	}
	return ev, true
}

// HasEvent reports whether the target itself has an event; Tracepoint may also return one
// of another target, see ProbesOf.
func (t *Target) HasEvent(category, event string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ok bool
	var err error
	if name, isEnter := strings.CutPrefix(event, sysEnter); category == syscalls && isEnter {
		_, ok, err = t.file.Syscall(name)
	} else if name, isExit := strings.CutPrefix(event, sysExit); category == syscalls && isExit {
		_, ok, err = t.file.Syscall(name)
	} else {
		_, ok, err = t.file.Event(category, event)
	}
	t.fail(err)
	return ok
}

func (t *Target) eventRecord(category, event string) (targetfile.Event, bool) {
	t.mu.Lock()
	rec, ok, err := t.file.Event(category, event)
	t.fail(err)
	t.mu.Unlock()
	if !ok && t.probes != nil {
		return t.probes.eventRecord(category, event)
	}
	return rec, ok
}

func (t *Target) syscallInfo(name string) (targetfile.Syscall, bool) {
	t.mu.Lock()
	rec, ok, err := t.file.Syscall(name)
	t.fail(err)
	t.mu.Unlock()
	if !ok && t.probes != nil {
		return t.probes.syscallInfo(name)
	}
	return rec, ok
}

// MemberName returns the name, in a tracepoint's BTF struct, of the field that the
// format file calls name and gives the type ctype.
func MemberName(name, ctype string) string { return targetfile.MemberName(name, ctype) }

// syscallEvent makes the events of category syscalls. Their layout is fixed:
// 8 bytes of common fields, the number, then 8 bytes an argument, or the result.
func (t *Target) syscallEvent(event string) (*TraceEvent, bool) {
	name, enter := strings.CutPrefix(event, sysEnter)
	if !enter {
		name, _ = strings.CutPrefix(event, sysExit)
		if name == event {
			return nil, false
		}
	}
	rec, ok := t.syscallInfo(name)
	if !ok || !enter && !rec.Exit {
		return nil, false
	}
	ev := &TraceEvent{Category: syscalls, Event: event, Class: exitType}
	nr := TraceField{
		Name:   "__syscall_nr",
		CType:  "int",
		Offset: RecordNr,
		Size:   4,
		Signed: true,
		Member: "nr",
		t:      t,
		event:  ev,
	}
	if !enter {
		ev.Fields = []TraceField{
			nr,
			{Name: "ret", CType: "long", Offset: RecordArgs, Size: 8, Signed: true, Member: "ret", t: t, event: ev},
		}
		return ev, true
	}
	ev.Class = enterType
	ev.Fields = append([]TraceField{nr}, t.syscallArgs(rec, ev)...)
	return ev, true
}

func (t *Target) syscallArgs(rec targetfile.Syscall, ev *TraceEvent) []TraceField {
	var all []TraceField
	for i, a := range rec.Args {
		all = append(all, TraceField{
			Name: a.Name, CType: a.CType, Offset: RecordArgs + 8*i, Size: 8, Member: "args",
			User: strings.Contains(a.CType, "*"), t: t, event: ev,
		})
	}
	return all
}

// Syscall finds a system call by name: "openat".
func (t *Target) Syscall(name string) (*Syscall, bool) {
	t.mu.Lock()
	rec, ok, err := t.file.Syscall(name)
	t.fail(err)
	t.mu.Unlock()
	if !ok {
		return nil, false
	}
	return &Syscall{Name: name, Nr: rec.Nr, Args: t.syscallArgs(rec, nil)}, true
}

// Syscalls lists the system calls that match a pattern; see Funcs.
func (t *Target) Syscalls(pattern string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	t.fail(t.file.Syscalls(literal(pattern), func(name string) bool {
		if matches(pattern, name) {
			all = append(all, name)
		}
		return true
	}))
	return all
}

// Tracepoints lists the events "category:event" whose category and event match
// a pattern each, sorted.
func (t *Target) Tracepoints(category, event string) []string {
	if t.probes != nil {
		return t.probes.Tracepoints(category, event)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	prefix := literal(category)
	if prefix == category {
		prefix += ":" + literal(event)
	}
	see := func(name string) bool {
		c, e, _ := strings.Cut(name, ":")
		if matches(category, c) && matches(event, e) {
			all = append(all, name)
		}
		return true
	}
	t.fail(t.file.Events(prefix, see))
	if matches(category, syscalls) {
		for _, name := range t.syscallEvents() {
			see(name)
		}
	}
	slices.Sort(all)
	return all
}

// syscallEvents lists both events of every system call. The caller holds t.mu.
func (t *Target) syscallEvents() []string {
	var calls, all []string
	t.fail(t.file.Syscalls("", func(name string) bool {
		calls = append(calls, name)
		return true
	}))
	for _, name := range calls {
		all = append(all, syscalls+":"+sysEnter+name)
		rec, _, err := t.file.Syscall(name)
		t.fail(err)
		if rec.Exit {
			all = append(all, syscalls+":"+sysExit+name)
		}
	}
	return all
}

// Struct returns the event's class struct, nil when BTF has none.
func (ev *TraceEvent) Struct() *Type {
	if ev.Class == "" || len(ev.Fields) == 0 {
		return nil
	}
	typ, _ := ev.Fields[0].t.Struct(ev.Class)
	return typ
}

// Field finds a field by name, also one that the record has on other kernels only.
func (ev *TraceEvent) Field(name string) (*TraceField, bool) {
	for i := range ev.Fields {
		if ev.Fields[i].Name == name {
			return &ev.Fields[i], true
		}
	}
	return ev.fieldOnOthers(name)
}

// SuggestField returns the field that a misspelt name most probably means, or "".
func (ev *TraceEvent) SuggestField(name string) string {
	var names []string
	for _, f := range ev.Fields {
		names = append(names, f.Name)
	}
	return spell.Nearest(name, names)
}

// Type returns the type of the field's value: that of the class struct's member, or the type in
// the format file. For DataLoc and RelLoc fields it is an array of the element type with
// Len 0 (the length comes with the data). It is nil when neither names a type that the
// target has.
func (f *TraceField) Type() *Type {
	text := f.CType
	if f.DataLoc || f.RelLoc {
		_, text, _ = strings.Cut(text, " ")
	} else if f.event != nil && f.event.Category != syscalls {
		if s := f.event.Struct(); s != nil {
			if m, ok := s.Field(f.Member); ok {
				return m.Type
			}
		}
	}
	typ, ok := f.t.ParseType(text)
	if !ok {
		return nil
	}
	return typ
}
