// SPDX-License-Identifier: Apache-2.0

// Package perfetto reads traces of Perfetto as its trace processor does, for tests: packets in order of time, the end of a
// slice ends the innermost one, and strings are found by their numbers.
package perfetto

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Trace is a trace. Tracks are identified by their names, with those of their parents before them, separated by "/": the
// name of a process or thread ends in its numbers.
type Trace struct {
	Events   []*Event // that are not values of counters, in the order of their begins
	Counters map[string][]Value
}

// Event is a slice, or an instant if it has no end.
type Event struct {
	Track, Category, Name string
	Begin, End            int64 // nanoseconds since 1970
	Args                  map[string]string
	Depth                 int
}

// Value is a value of a counter.
type Value struct {
	At    int64
	Value float64
}

// fields has the fields of a message: numbers, and bytes, by the number of the field.
type fields struct {
	n map[protowire.Number]uint64
	b map[protowire.Number][][]byte
}

func parse(b []byte) (f fields, err error) {
	f = fields{map[protowire.Number]uint64{}, map[protowire.Number][][]byte{}}
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return f, protowire.ParseError(n)
		}
		b = b[n:]
		switch kind {
		case protowire.VarintType:
			f.n[number], n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			f.n[number], n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			var x []byte
			x, n = protowire.ConsumeBytes(b)
			f.b[number] = append(f.b[number], x)
		default:
			return f, fmt.Errorf("field %d has the type %d", number, kind)
		}
		if n < 0 {
			return f, protowire.ParseError(n)
		}
		b = b[n:]
	}
	return f, nil
}

// text returns a string, which must be UTF-8.
func (f *fields) text(n protowire.Number) string {
	if len(f.b[n]) == 0 {
		return ""
	}
	return string(f.b[n][0])
}

func (f *fields) message(n protowire.Number) (fields, error) {
	if len(f.b[n]) == 0 {
		return fields{}, nil
	}
	return parse(f.b[n][0])
}

type packet struct {
	at    int64
	event fields
}

type reader struct {
	offset  int64 // of the trace's own clock
	strings map[protowire.Number]map[uint64]string
	tracks  map[uint64]string
	counter map[uint64]bool
	packets []packet
}

// Read reads a trace.
func Read(data []byte) (*Trace, error) {
	r := &reader{strings: map[protowire.Number]map[uint64]string{}, tracks: map[uint64]string{}, counter: map[uint64]bool{}}
	all, err := parse(data)
	if err != nil {
		return nil, err
	}
	for _, b := range all.b[1] {
		p, err := parse(b)
		if err == nil {
			err = r.packet(&p)
		}
		if err != nil {
			return nil, err
		}
	}
	return r.trace()
}

func (r *reader) packet(p *fields) error {
	if p.n[10] == 0 {
		return fmt.Errorf("a packet without a sequence")
	}
	clocks, err := p.message(6)
	if err != nil {
		return err
	}
	at := map[uint64]int64{}
	for _, b := range clocks.b[1] {
		c, err := parse(b)
		if err != nil {
			return err
		}
		at[c.n[1]] = int64(c.n[2])
	}
	if len(at) > 0 {
		r.offset = at[6] - at[64]
	}
	interned, err := p.message(12)
	if err != nil {
		return err
	}
	for table, list := range interned.b {
		for _, b := range list {
			x, err := parse(b)
			if err != nil {
				return err
			}
			if r.strings[table] == nil {
				r.strings[table] = map[uint64]string{}
			}
			if _, have := r.strings[table][x.n[1]]; have || !utf8.Valid(x.b[2][0]) {
				return fmt.Errorf("string %d %q is defined twice, or not UTF-8", x.n[1], x.b[2][0])
			}
			r.strings[table][x.n[1]] = x.text(2)
		}
	}
	if len(p.b[60]) > 0 {
		return r.track(p)
	}
	if len(p.b[11]) > 0 {
		e, err := p.message(11)
		r.packets = append(r.packets, packet{int64(p.n[8]) + r.offset, e})
		return err
	}
	return nil
}

func (r *reader) track(p *fields) error {
	d, err := p.message(60)
	if err != nil {
		return err
	}
	name := d.text(2)
	if len(d.b[4]) > 0 {
		x, err := d.message(4)
		if err != nil || int32(x.n[1]) <= 0 || int32(x.n[2]) <= 0 {
			return fmt.Errorf("a thread without numbers: %v", err)
		}
		name = fmt.Sprintf("%s [%d/%d]", x.text(5), x.n[1], x.n[2])
	} else if len(d.b[3]) > 0 {
		x, err := d.message(3)
		if err != nil || int32(x.n[1]) <= 0 {
			return fmt.Errorf("a process without a number: %v", err)
		}
		name = fmt.Sprintf("%s [%d]", x.text(6), x.n[1])
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%q is not UTF-8", name)
	}
	if parent, ok := r.tracks[d.n[5]]; ok {
		name = parent + "/" + name
	}
	if _, have := r.tracks[d.n[1]]; have || d.n[1] == 0 {
		return fmt.Errorf("track %d is described twice", d.n[1])
	}
	r.tracks[d.n[1]], r.counter[d.n[1]] = name, len(d.b[8]) > 0
	return nil
}

// named returns a string: one with a number in a table, or one in a field.
func (r *reader) named(f *fields, table, byNumber, bySelf protowire.Number) (string, error) {
	n, ok := f.n[byNumber]
	if !ok {
		s := f.text(bySelf)
		if !utf8.ValidString(s) {
			return "", fmt.Errorf("%q is not UTF-8", s)
		}
		return s, nil
	}
	s, ok := r.strings[table][n]
	if !ok {
		return "", fmt.Errorf("string %d of table %d is not defined", n, table)
	}
	return s, nil
}

func (r *reader) trace() (*Trace, error) {
	t := &Trace{Counters: map[string][]Value{}}
	slices.SortStableFunc(r.packets, func(a, b packet) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	open := map[uint64][]*Event{}
	for _, p := range r.packets {
		f, id := p.event, p.event.n[11]
		track, ok := r.tracks[id]
		if kind := f.n[9]; !ok || r.counter[id] != (kind == 4) {
			return nil, fmt.Errorf("an event of type %d on track %d", kind, id)
		}
		switch f.n[9] {
		case 4:
			v := Value{At: p.at, Value: float64(int64(f.n[30]))}
			if x, ok := f.n[44]; ok {
				v.Value = math.Float64frombits(x)
			}
			t.Counters[track] = append(t.Counters[track], v)
		case 2:
			stack := open[id]
			if len(stack) == 0 {
				return nil, fmt.Errorf("the end of a slice on track %s, which has none", track)
			}
			stack[len(stack)-1].End = p.at
			open[id] = stack[:len(stack)-1]
		default:
			e, err := r.event(&f)
			if err != nil {
				return nil, err
			}
			e.Track, e.Begin, e.Depth = track, p.at, len(open[id])
			t.Events = append(t.Events, e)
			if f.n[9] == 1 {
				open[id] = append(open[id], e)
			}
		}
	}
	for id, stack := range open {
		if len(stack) > 0 {
			return nil, fmt.Errorf("a slice on track %s does not end", r.tracks[id])
		}
	}
	return t, nil
}

func (r *reader) event(f *fields) (*Event, error) {
	e := &Event{Args: map[string]string{}}
	var err error
	if e.Category, err = r.named(f, 1, 3, 22); err != nil {
		return nil, err
	}
	if e.Name, err = r.named(f, 2, 10, 23); err != nil {
		return nil, err
	}
	for _, b := range f.b[4] {
		a, err := parse(b)
		if err != nil {
			return nil, err
		}
		name, err := r.named(&a, 3, 1, 10)
		if err != nil {
			return nil, err
		}
		if strings.Contains(name, "\x00") {
			return nil, fmt.Errorf("the name %q", name)
		}
		switch {
		case has(a.n, 2):
			e.Args[name] = fmt.Sprint(a.n[2] == 1)
		case has(a.n, 3):
			e.Args[name] = fmt.Sprint(a.n[3])
		case has(a.n, 4):
			e.Args[name] = fmt.Sprint(int64(a.n[4]))
		case has(a.n, 7):
			e.Args[name] = fmt.Sprintf("%#x", a.n[7])
		default:
			if e.Args[name], err = r.named(&a, 29, 17, 6); err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}

func has(m map[protowire.Number]uint64, n protowire.Number) bool { _, ok := m[n]; return ok }
