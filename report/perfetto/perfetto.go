// SPDX-License-Identifier: Apache-2.0

// Package perfetto writes traces for Perfetto: its user interface and its trace processor.
//
// It takes tracks, events with arguments, and values of counters, and passes packets of the protobuf format on: messages
// TracePacket of perfetto/trace/trace_packet.proto. Strings that repeat are written once, and names of any content stay
// text. Memory is bounded, apart from a few words for each track and each of the last slices on it.
package perfetto

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
)

// Writer writes a trace.
type Writer struct {
	write   func([]byte)
	base    int64 // wall-clock time of the trace's own clock at 0, in nanoseconds
	packet  []byte
	body    []byte // message in the packet
	tables  [tables]map[string]uint64
	defined []byte // strings that the current packet defines
	tracks  uint64 // number of tracks
}

// The kinds of strings that are written once, with the number of their list in the message InternedData.
const (
	category = iota
	eventName
	argName
	argValue
	tables
)

var tableField = [tables]int{category: 1, eventName: 2, argName: 3, argValue: 29}

// Limits of what is kept to be written once: other strings are written where they occur.
const (
	maxStrings   = 1 << 16 // of a kind
	maxStringLen = 128
)

// Numbers of clocks, and of the sequence of the packets: all have the same.
const (
	realtime    = 1
	boottime    = 6 // the clock of traces
	ownClock    = 64
	sequence    = 1
	stateClear  = 1 // sequence flags: no string is defined yet
	stateNeeded = 2
)

// before is how much earlier than the start a time can be.
const before = int64(24 * time.Hour)

// New returns a writer of the trace of a run that began at a time. write receives whole packets, which are valid until it
// returns.
func New(start time.Time, write func([]byte)) *Writer {
	w := &Writer{base: start.UnixNano() - before, write: write}
	for i := range w.tables {
		w.tables[i] = map[string]uint64{}
	}
	// Times are relative to the start, which makes them short.
	var clocks []byte
	for _, c := range [][2]uint64{{ownClock, uint64(before)}, {boottime, uint64(start.UnixNano())}, {realtime, uint64(start.UnixNano())}} {
		clocks = field(clocks, 1, number(number(nil, 1, c[0]), 2, c[1]))
	}
	w.packet = field(w.packet, 6, clocks)
	w.packet = field(w.packet, 59, number(nil, 58, ownClock)) // defaults
	w.end(stateClear)
	return w
}

// Resume makes write receive the packets from now on.
func (w *Writer) Resume(write func([]byte)) { w.write = write }

// Track is a row of a trace: a process, a thread, a counter, or something else with a name.
type Track struct {
	uuid uint64
	// slices are the outermost slices, which do not overlap, in order. Those that end before floor are forgotten.
	slices []span
	floor  int64
	lane   *Track // for a slice that overlaps others and is not inside of one
	like   Description
}

type span struct{ begin, end int64 }

// Description describes a track.
type Description struct {
	Parent *Track // nil: none
	Name   string // of the process, thread, counter or track
	PID    int32  // of a process or thread; 0: neither
	TID    int32  // 0: not a thread
	// Counter means that it shows numbers, in a unit, if that is known.
	Counter bool
	Unit    string
}

// Track defines a track.
func (w *Writer) Track(d *Description) *Track {
	w.tracks++
	t := &Track{uuid: w.tracks, floor: math.MinInt64, like: *d}
	b := number(w.body[:0], 1, t.uuid)
	if d.Parent != nil {
		b = number(b, 5, d.Parent.uuid)
	}
	name := valid(d.Name)
	switch {
	case d.TID != 0:
		b = field(b, 4, text(number(number(nil, 1, uint64(d.PID)), 2, uint64(d.TID)), 5, name))
	case d.PID != 0:
		b = field(b, 3, text(number(nil, 1, uint64(d.PID)), 6, name))
	default:
		b = text(b, 2, name)
	}
	if d.Counter {
		b = field(b, 8, text(nil, 6, valid(d.Unit)))
	}
	w.packet = field(w.packet, 60, b)
	w.body = b
	w.end(0)
	return t
}

// Arg is a named value of an event.
type Arg struct {
	Name    string
	Text    string
	Int     int64
	Uint    uint64
	Pointer uint64
	Type    ArgType
}

// ArgType is which member of an Arg is its value.
type ArgType int

// The types of values. Bool is true if Uint is not 0.
const (
	Text ArgType = iota
	Int
	Uint
	Pointer
	Bool
)

// Event is what happened at a time.
type Event struct {
	Track    *Track
	At       time.Time
	Category string
	Name     string
	Args     []Arg
}

// Types of events.
const (
	sliceBegin = 1
	sliceEnd   = 2
	instant    = 3
	counter    = 4
)

// Instant writes an event without a duration.
func (w *Writer) Instant(e *Event) { w.event(instant, e, e.At.UnixNano(), e.Track) }

// maxLanes bounds the number of slices of a track that overlap.
const maxLanes = 256

// Slice writes an event that ended at its time and took a while. One that overlaps others of its track without being
// inside of them, or around them, is on a track of its own; with too many of these, it is an instant.
func (w *Writer) Slice(e *Event, took time.Duration) {
	s := span{max(e.At.UnixNano()-int64(took), w.base), max(e.At.UnixNano(), w.base)}
	t := e.Track
	for n := 0; !t.fits(s); n++ {
		if t.lane == nil {
			if n == maxLanes {
				w.Instant(e)
				return
			}
			t.lane = w.Track(t.overflow(e.Track))
		}
		t = t.lane
	}
	w.event(sliceBegin, e, s.begin, t)
	w.packet = number(w.packet, 8, w.time(s.end))
	w.packet = field(w.packet, 11, number(number(nil, 9, sliceEnd), 11, t.uuid))
	w.end(stateNeeded)
}

// overflow describes the next track for slices that overlap those of t. The first one is a child of the track.
func (t *Track) overflow(first *Track) *Description {
	name := first.like.Name
	if name == "" {
		name = "overlapping"
	}
	return &Description{Parent: first, Name: name}
}

// maxSpans is how many slices of a track are remembered.
const maxSpans = 1024

// fits reports whether a slice overlaps none that is not inside of it, and remembers it then. Readers end the innermost
// slice first, and of two slices that begin at one time take the one that was written last for the inner one.
func (t *Track) fits(s span) bool {
	n := len(t.slices)
	if s.begin < t.floor || n > 0 && s.end < t.slices[n-1].end {
		return false
	}
	for n > 0 && t.slices[n-1].begin > s.begin {
		n--
	}
	if n > 0 && t.slices[n-1].end > s.begin {
		return false
	}
	if n == maxSpans {
		t.floor = t.slices[maxSpans/2-1].end
		n = copy(t.slices, t.slices[maxSpans/2:n])
	}
	t.slices = append(t.slices[:n], s)
	return true
}

// event writes an event of a type.
func (w *Writer) event(kind uint64, e *Event, at int64, t *Track) {
	b := number(number(w.body[:0], 9, kind), 11, t.uuid)
	b = w.string(b, category, 3, 22, e.Category)
	b = w.string(b, eventName, 10, 23, e.Name)
	var arg []byte
	for i := range e.Args {
		a := &e.Args[i]
		arg = w.string(arg[:0], argName, 1, 10, a.Name)
		switch a.Type {
		case Int:
			arg = number(arg, 4, uint64(a.Int))
		case Uint:
			arg = number(arg, 3, a.Uint)
		case Pointer:
			arg = number(arg, 7, a.Pointer)
		case Bool:
			arg = number(arg, 2, min(a.Uint, 1))
		default:
			arg = w.string(arg, argValue, 17, 6, a.Text)
		}
		b = field(b, 4, arg)
	}
	w.packet = number(w.packet, 8, w.time(at))
	w.packet = field(w.packet, 11, b)
	w.body = b
	w.end(stateNeeded)
}

// Counter writes a value of a counter at a time.
func (w *Writer) Counter(t *Track, at time.Time, value int64) {
	w.count(t, at, number(w.body[:0], 30, uint64(value)))
}

// Float is like Counter, for a value that an int64 cannot represent.
func (w *Writer) Float(t *Track, at time.Time, value float64) {
	b := binary.AppendUvarint(w.body[:0], 44<<3|1)
	w.count(t, at, binary.LittleEndian.AppendUint64(b, math.Float64bits(value)))
}

func (w *Writer) count(t *Track, at time.Time, b []byte) {
	b = number(number(b, 9, counter), 11, t.uuid)
	w.packet = number(w.packet, 8, w.time(at.UnixNano()))
	w.packet = field(w.packet, 11, b)
	w.body = b
	w.end(stateNeeded)
}

// time returns a time on the trace's own clock.
func (w *Writer) time(ns int64) uint64 { return uint64(max(ns-w.base, 0)) }

// string appends a string: in a field with its number in a table, or, if it is too long or too many are there, in a field
// with itself.
func (w *Writer) string(dst []byte, table, byNumber, bySelf int, s string) []byte {
	s = valid(s)
	if s == "" && table != argValue {
		return dst
	}
	n, known := w.tables[table][s]
	if !known {
		if len(s) > maxStringLen || len(w.tables[table]) == maxStrings {
			return field(dst, bySelf, []byte(s))
		}
		s = strings.Clone(s)
		n = uint64(len(w.tables[table]) + 1)
		w.tables[table][s] = n
		w.defined = field(w.defined, tableField[table], field(number(nil, 1, n), 2, []byte(s)))
	}
	return number(dst, byNumber, n)
}

// end ends a packet and passes it on.
func (w *Writer) end(flags uint64) {
	if len(w.defined) > 0 {
		w.packet = field(w.packet, 12, w.defined)
		w.defined = w.defined[:0]
	}
	w.packet = number(w.packet, 10, sequence)
	if flags != 0 {
		w.packet = number(w.packet, 13, flags)
	}
	var head [12]byte
	w.write(binary.AppendUvarint(append(head[:0], 1<<3|2), uint64(len(w.packet))))
	w.write(w.packet)
	w.packet = w.packet[:0]
}

// valid returns text for a string of protobuf, which is UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// number appends a field with an integer.
func number(dst []byte, field int, n uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(field)<<3), n)
}

// field appends a field with a string or a message.
func field(dst []byte, number int, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(number)<<3|2)
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// text appends a field with a string, if it is not empty.
func text(dst []byte, number int, s string) []byte {
	if s == "" {
		return dst
	}
	return field(dst, number, []byte(s))
}
