// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

// otherKernelsText lists the tracepoints, tracepoint fields and system calls that other
// kernels have and the default target's kernel lacks. tools/maketarget generates it.
//
//go:embed other_kernels.txt
var otherKernelsText string

// otherEvent is the table by "category:event": events that the default target lacks are
// complete, others have only the fields that it lacks.
var otherEvent = sync.OnceValue(func() map[string]*TraceEvent {
	all := map[string]*TraceEvent{}
	for _, ev := range otherEvents() {
		all[ev.Category+":"+ev.Event] = ev
	}
	return all
})

// otherEvents is the table in file order.
var otherEvents = sync.OnceValue(func() []*TraceEvent { return parseOtherKernels(otherKernelsText) })

// parseOtherKernels reads lines "category:event class" and below each its fields,
// "\toffset size s|u name C-type". Other lines are comments.
func parseOtherKernels(text string) []*TraceEvent {
	var all []*TraceEvent
	var ev *TraceEvent
	for line := range strings.SplitSeq(text, "\n") {
		field, inEvent := strings.CutPrefix(line, "\t")
		if !inEvent {
			name, class, ok := strings.Cut(line, " ")
			category, event, isEvent := strings.Cut(name, ":")
			if ok && isEvent && !strings.HasPrefix(line, "#") {
				ev = &TraceEvent{Category: category, Event: event, Class: class}
				all = append(all, ev)
			}
			continue
		}
		parts := strings.SplitN(field, " ", 5)
		if ev == nil || len(parts) < 5 {
			continue
		}
		f := TraceField{Name: parts[3], CType: parts[4], Signed: parts[2] == "s", event: ev}
		f.Offset, _ = strconv.Atoi(parts[0])
		f.Size, _ = strconv.Atoi(parts[1])
		f.Member = MemberName(f.Name, f.CType)
		f.DataLoc = strings.HasPrefix(f.CType, "__data_loc ")
		f.RelLoc = strings.HasPrefix(f.CType, "__rel_loc ")
		if ev.Category == syscalls {
			f.Member, f.User = "args", strings.Contains(f.CType, "*")
		}
		ev.Fields = append(ev.Fields, f)
	}
	return all
}

// OnOtherKernels finds a tracepoint that other kernels have and this one lacks. Its record is
// relocated on the host, like any other.
func (t *Target) OnOtherKernels(category, event string) (*TraceEvent, bool) {
	ev, ok := otherEvent()[category+":"+event]
	if !ok {
		return nil, false
	}
	if _, here := t.Tracepoint(category, event); here {
		return nil, false
	}
	return ev.of(t), true
}

// of converts the event to one of a target.
func (ev *TraceEvent) of(t *Target) *TraceEvent {
	own := *ev
	own.Fields = append([]TraceField(nil), ev.Fields...)
	for i := range own.Fields {
		own.Fields[i].t, own.Fields[i].event = t, &own
	}
	return &own
}

// fieldOnOthers finds a field that the record has on other kernels only.
func (ev *TraceEvent) fieldOnOthers(name string) (*TraceField, bool) {
	if len(ev.Fields) == 0 {
		return nil, false
	}
	other, ok := otherEvent()[ev.Category+":"+ev.Event]
	if !ok {
		return nil, false
	}
	t := ev.Fields[0].t
	if other.Class != ev.Class { // on these kernels the event has a separate record
		ev = other.of(t)
	}
	for _, f := range other.Fields {
		if f.Name == name {
			f.t, f.event = t, ev
			return &f, true
		}
	}
	return nil, false
}

// Class returns the struct of the record that has the field, as TraceEvent.Class: on kernels that
// have the field the event may have a record of its own.
func (f *TraceField) Class() string { return f.event.Class }

// structOnOthers makes the struct of a record that only other kernels have. Its
// members come from memberOnOthers.
func (t *Target) structOnOthers(name string) (*Type, bool) {
	s := &Type{Kind: Struct, Name: name, t: t}
	for _, ev := range otherEvents() {
		if ev.Class != name || ev.Category == syscalls {
			continue
		}
		for _, f := range ev.Fields {
			s.Size = max(s.Size, f.Offset+f.Size)
		}
	}
	return s, s.Size > 0
}

// memberOnOthers makes a member that a record has on other kernels only.
func (typ *Type) memberOnOthers(name string) (Field, bool) {
	if typ.t == nil || typ.Kind != Struct || !strings.HasPrefix(typ.Name, classPrefix) {
		return Field{}, false
	}
	for _, ev := range otherEvents() {
		if ev.Class != typ.Name {
			continue
		}
		for _, f := range ev.Fields {
			if f.Member != name {
				continue
			}
			if t := f.typeIn(typ.t); t != nil {
				return Field{Name: name, Type: t, Offset: f.Offset}, true
			}
		}
	}
	return Field{}, false
}

// typeIn returns the member's type in the record, for an event that the target has.
func (f *TraceField) typeIn(t *Target) *Type {
	text := f.CType
	if f.DataLoc || f.RelLoc {
		text = "unsigned int"
	}
	if typ, ok := t.ParseType(text); ok && (typ.Size == f.Size || typ.Kind == Pointer) {
		return typ
	}
	text = map[int]string{1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long"}[f.Size]
	if f.Signed {
		text = map[int]string{1: "signed char", 2: "short", 4: "int", 8: "long"}[f.Size]
	}
	if text == "" {
		text = "unsigned char[" + strconv.Itoa(f.Size) + "]"
	}
	typ, _ := t.ParseType(text)
	return typ
}
