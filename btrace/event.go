// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"time"

	"btc/loader/format"
	"btc/loader/output"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	Printf       Kind = "printf"        // printf(): Values are the arguments
	Print        Kind = "print"         // print() of a value, which is in Values
	PrintMap     Kind = "map"           // print() of a map: Map is its content at that time
	TimeOfDay    Kind = "time"          // time()
	Join         Kind = "join"          // join(): Values are the strings
	Cat          Kind = "cat"           // a piece of the file of cat()
	System       Kind = "system"        // a piece of the output of system()
	Errorf       Kind = "errorf"        // errorf()
	Warnf        Kind = "warnf"         // warnf()
	RuntimeError Kind = "runtime_error" // a run-time error in the script, such as a division by zero
	HelperError  Kind = "helper_error"  // a helper call failed, such as an update of a full map
	Lost         Kind = "lost"          // events did not fit in the kernel's buffer; Values has their number
	Detached     Kind = "detached"      // the budget detached a probe: Values are its name and the ns that its data covers
	Message      Kind = "message"       // a message of the session: a warning or an error
)

// Event is an output of the script or a message about it.
type Event struct {
	Kind Kind
	// ID identifies the call in the script, in source order: two calls of printf() have two IDs. It
	// is -1 if the event does not come from a call.
	ID int
	// Time is when the event was read from the kernel's buffer. The script's own nsecs says
	// when it happened.
	Time time.Time
	// Line and Column are the position in the script, counted from 1; 0: unknown.
	Line, Column int
	// Text is what btrun prints: with the newline for printf() and print(), without one for
	// messages.
	Text string
	// Values are the arguments; see Value.
	Values []Value
	// Map is the content of a printed map.
	Map *Snapshot
}

// Scan copies Values to the variables that dst points to, like the function Scan.
func (e *Event) Scan(dst ...any) error { return Scan(e.Values, dst...) }

// sink converts the output and messages of a run into events.
type sink struct {
	*output.Run
	queue *queue
}

func (k *sink) decoder() decoder { return decoder{k.Env, k.Frames} }

// put sends an event after the previous ones.
func (k *sink) put(e *Event) {
	const size = 512
	if e.Time = k.At; e.Time.IsZero() {
		e.Time = time.Now()
	}
	k.Post(size+len(e.Text), func() { k.queue.put(e) })
}

func (k *sink) event(kind Kind, e *format.Event, text []byte) *Event {
	x := &Event{Kind: kind, ID: -1, Text: string(text)}
	if e != nil && e.Event != nil {
		x.ID, x.Line, x.Column = e.ID, e.Pos.Line, e.Pos.Col
	}
	return x
}

func (k *sink) values(e *format.Event) []Value {
	d := k.decoder()
	out := make([]Value, len(e.Values))
	for i, v := range e.Values {
		out[i] = d.value(v)
	}
	return out
}

func (*sink) Attached(int)  {}
func (*sink) Pinned(string) {}

func (k *sink) Printf(e *format.Event, f *format.Format) {
	x := k.event(Printf, e, k.Env.Printf(nil, f, e.Values))
	x.Values = k.values(e)
	k.put(x)
}

func (k *sink) Print(e *format.Event) {
	x := k.event(Print, e, append(k.Env.Append(nil, e.Values[0]), '\n'))
	x.Values = k.values(e)
	k.put(x)
}

func (k *sink) Time(e *format.Event, text []byte) { k.put(k.event(TimeOfDay, e, text)) }

func (k *sink) Join(e *format.Event, parts [][]byte, separator string) {
	x := k.event(Join, e, nil)
	for i, p := range parts {
		if i > 0 {
			x.Text += separator
		}
		x.Text += string(p)
		x.Values = append(x.Values, string(p))
	}
	x.Text += "\n"
	k.put(x)
}

func (k *sink) Piece(e *format.Event, piece []byte, _, _ bool) {
	if len(piece) > 0 {
		k.put(k.event(Kind(e.Kind), e, piece))
	}
}

func (k *sink) Map(m *output.Map) {
	x := k.event(PrintMap, &format.Event{Event: m.Event}, nil)
	x.Map = k.decoder().snapshot(m.Map, m.Elements, m.Top)
	k.put(x)
}

func (k *sink) Diagnostic(d *output.Diagnostic) {
	if d.Muted {
		return
	}
	x := &Event{Kind: Kind(d.Kind), ID: -1, Line: d.Pos.Line, Column: d.Pos.Col, Text: d.Text}
	k.put(x)
}

func (k *sink) Lost(n uint64) { k.put(&Event{Kind: Lost, ID: -1, Values: []Value{n}}) }

func (k *sink) Detached(d *output.Detachment) {
	k.put(&Event{
		Kind: Detached, ID: -1, Line: d.Pos.Line, Column: d.Pos.Col, Text: d.Text(),
		Values: []Value{d.Probe, d.To.Sub(d.From).Nanoseconds()},
	})
}

func (*sink) BeginTrials(string, []string)          {}
func (*sink) Trial(*output.Trial)                   {}
func (*sink) EndTrials()                            {}
func (*sink) Snapshot(func(show func(*output.Map))) {}
func (*sink) End(func(show func(*output.Map)))      {}

var _ output.Sink = (*sink)(nil)
