// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"btc/frontend/diag"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/format"
	"btc/loader/output"
	"btc/loader/render"
	"btc/report/perfetto"
)

// Timeline is the name of the format of Perfetto.
const Timeline = "perfetto"

// NewTimeline returns the format of Perfetto for one replay. What the script printed is an event: on the track of the
// thread, process or CPU that it names with tid, pid or cpu, and as long as a duration that is one of its values. Maps are
// counters.
func NewTimeline() *output.Format {
	t := &timeline{tracks: map[string]*perfetto.Track{}, counters: map[string]*number64{}, ofMap: map[string][]*number64{}}
	return &output.Format{Name: Timeline, Binary: true, New: func(r *output.Run) output.Sink {
		t.Run, t.host, t.calls, t.parsed = r, r.Host, nil, false
		t.plain = *r.Env
		t.plain.Escape = false
		if t.w == nil {
			t.w = perfetto.New(r.Started, r.Out.Write)
		}
		t.w.Resume(r.Out.Write) // of another object: the trace goes on
		return t
	}}
}

// timeline is the sink of Perfetto's format.
type timeline struct {
	*output.Run
	w        *perfetto.Writer
	host     string // of the run; events of a merged report may be of others
	plain    format.Env
	parsed   bool
	calls    map[diag.Position]*call
	tracks   map[string]*perfetto.Track
	counters map[string]*number64 // by their names
	ofMap    map[string][]*number64
	round    int // number of times that maps were shown
	piece    []byte
	text     []byte
	mode     string // of tests
}

// number64 is a counter.
type number64 struct {
	track *perfetto.Track
	last  string // its value, as written
	at    uint64 // the interval of a time series
	round int    // when it was last shown
}

// track returns a track, which is made the first time.
func (t *timeline) track(key string, d func() *perfetto.Description) *perfetto.Track {
	x := t.tracks[key]
	if x == nil {
		x = t.w.Track(d())
		t.tracks[key] = x
	}
	return x
}

// named returns the track with a name, below that of a host if it is not the host of the run.
func (t *timeline) named(name string) *perfetto.Track {
	var parent *perfetto.Track
	host := ""
	if t.Host != t.host {
		host = t.Host
		parent = t.track("\x00host\x00"+host, func() *perfetto.Description { return &perfetto.Description{Name: host} })
	}
	return t.track(host+"\x00"+name, func() *perfetto.Description { return &perfetto.Description{Parent: parent, Name: name} })
}

// values is what an event reports, with the parts of tuples and records by themselves.
func values(e *format.Event) []format.Value {
	if e.Kind != "print" || len(e.Values) != 1 {
		return e.Values
	}
	v := e.Values[0]
	if v.Layout.Kind != "tuple" && v.Layout.Kind != "record" || len(v.Layout.Fields) == 0 {
		return e.Values
	}
	var all []format.Value
	for i := range v.Layout.Fields {
		f := &v.Layout.Fields[i]
		if f.BitSize > 0 || f.Off > len(v.Bytes) {
			return e.Values
		}
		all = append(all, format.Value{Layout: &f.Layout, Bytes: v.Bytes[f.Off:]})
	}
	return all
}

// event writes an event with what it printed.
func (t *timeline) event(e *format.Event, text []byte) {
	if !t.parsed {
		t.calls, t.parsed = callsOf(t.Manifest), true
	}
	all := values(e)
	c := t.calls[diag.Position{Line: e.Pos.Line, Col: e.Pos.Col}]
	if c != nil && len(c.names) != len(all) {
		c = nil
	}
	x := &perfetto.Event{At: t.At, Category: e.Kind, Name: e.Kind}
	if probes := output.ProbesAt(t.Manifest, e.Pos); len(probes) > 0 {
		x.Name = shortened(strings.Join(probes, ", "))
	}
	for i, v := range all {
		name := ""
		if c != nil {
			name = c.names[i]
		}
		if name == "" && e.Kind == "print" && len(e.Values[0].Layout.Fields) > i {
			name = e.Values[0].Layout.Fields[i].Name
		}
		if name == "" {
			name = "arg" + strconv.Itoa(i+1)
		}
		if v.Layout.Kind == "probe" && len(v.Bytes) >= 8 {
			x.Name = string(t.plain.Append(nil, v))
		}
		x.Args = append(x.Args, t.argument(name, v))
	}
	if e.Kind != "print" || len(all) != 1 {
		x.Args = append(x.Args, perfetto.Arg{Name: "text", Text: strings.TrimSuffix(string(text), "\n")})
	}
	x.Track = t.place(c, all, x.Name)
	if took := c.duration(all); took >= 0 {
		t.w.Slice(x, took)
		return
	}
	t.w.Instant(x)
}

// shortened returns the beginning of a name that is long.
func shortened(name string) string {
	const limit = 120
	if len(name) <= limit {
		return name
	}
	return strings.ToValidUTF8(name[:limit], "") + " ..."
}

// argument returns a value of an event.
func (t *timeline) argument(name string, v format.Value) perfetto.Arg {
	a := perfetto.Arg{Name: name}
	whole := !v.Var && len(v.Bytes) >= v.Layout.Size && v.Layout.Size > 0
	switch {
	case whole && v.Layout.Kind == "int" && v.Layout.Signed:
		a.Type, a.Int = perfetto.Int, int64(format.Uint(v.Layout, v.Bytes))
	case whole && v.Layout.Kind == "int":
		a.Type, a.Uint = perfetto.Uint, format.Uint(v.Layout, v.Bytes)
	case whole && v.Layout.Kind == "ptr":
		a.Type, a.Pointer = perfetto.Pointer, format.Uint(v.Layout, v.Bytes)
	case whole && v.Layout.Kind == "bool":
		a.Type, a.Uint = perfetto.Bool, format.Uint(v.Layout, v.Bytes)
	default:
		a.Text = string(t.plain.Append(nil, v))
	}
	return a
}

// id returns a value that is the number of a process, thread or CPU, or -1.
func id(all []format.Value, i int) int32 {
	if i < 0 || all[i].Var || all[i].Layout.Kind != "int" || len(all[i].Bytes) < all[i].Layout.Size {
		return -1
	}
	n := int64(format.Uint(all[i].Layout, all[i].Bytes))
	if n < 0 || n > math.MaxInt32 {
		return -1
	}
	return int32(n)
}

// place returns the track of an event: of its thread, its process or its CPU, or that of its probe.
func (t *timeline) place(c *call, all []format.Value, probe string) *perfetto.Track {
	if c == nil {
		return t.named(probe)
	}
	pid, tid, cpu, comm := id(all, c.pid), id(all, c.tid), id(all, c.cpu), ""
	if c.comm >= 0 {
		comm = string(t.plain.Append(nil, all[c.comm]))
	}
	own := t.Host == t.host
	switch {
	case own && pid > 0 && tid > 0:
		return t.track(fmt.Sprintf("\x00thread\x00%d %d", pid, tid), func() *perfetto.Description { return &perfetto.Description{Name: comm, PID: pid, TID: tid} })
	case own && pid > 0:
		return t.track(fmt.Sprintf("\x00process\x00%d", pid), func() *perfetto.Description { return &perfetto.Description{Name: comm, PID: pid} })
	case tid >= 0:
		return t.named(fmt.Sprintf("thread %d", tid))
	case pid >= 0:
		return t.named(fmt.Sprintf("process %d", pid))
	case cpu >= 0:
		return t.named(fmt.Sprintf("CPU %d", cpu))
	case comm != "":
		return t.named(comm)
	}
	return t.named(probe)
}

// duration returns what an event says about how long something took; -1: nothing.
func (c *call) duration(all []format.Value) time.Duration {
	if c == nil || c.took < 0 {
		return -1
	}
	v := all[c.took]
	if v.Var || v.Layout.Kind != "int" || len(v.Bytes) < v.Layout.Size {
		return -1
	}
	n := format.Uint(v.Layout, v.Bytes)
	if n > uint64(math.MaxInt64)/uint64(c.unit) { // or negative
		return -1
	}
	return time.Duration(n) * c.unit
}

func (t *timeline) Attached(n int) {
	t.message("attached_probes", perfetto.Arg{Name: "probes", Type: perfetto.Int, Int: int64(n)})
}

func (t *timeline) Pinned(path string) { t.message("pinned", perfetto.Arg{Name: "path", Text: path}) }

// message writes an event of the run itself.
func (t *timeline) message(name string, args ...perfetto.Arg) {
	t.w.Instant(&perfetto.Event{Track: t.named("messages"), At: t.At, Category: "message", Name: name, Args: args})
}

func (t *timeline) Printf(e *format.Event, f *format.Format) {
	t.text = t.plain.Printf(t.text[:0], f, e.Values)
	t.event(e, t.text)
}

func (t *timeline) Print(e *format.Event) {
	t.text = t.plain.Append(t.text[:0], e.Values[0])
	t.event(e, t.text)
}

func (t *timeline) Time(e *format.Event, text []byte) { t.event(&format.Event{Event: e.Event}, text) }

func (t *timeline) Join(e *format.Event, parts [][]byte, separator string) {
	var text []byte
	for i, part := range parts {
		if i > 0 {
			text = append(text, separator...)
		}
		text = append(text, part...)
	}
	t.event(&format.Event{Event: e.Event}, text)
}

func (t *timeline) Piece(e *format.Event, piece []byte, first, last bool) {
	if first {
		t.piece = t.piece[:0]
	}
	t.piece = append(t.piece, piece...)
	if last {
		t.event(e, t.piece)
	}
}

func (t *timeline) Diagnostic(d *output.Diagnostic) {
	if d.Muted {
		return
	}
	args := []perfetto.Arg{{Name: "text", Text: d.Text}, {Name: "line", Type: perfetto.Int, Int: int64(d.Pos.Line)}}
	if d.Helper != "" {
		args = append(args, perfetto.Arg{Name: "helper", Text: d.Helper}, perfetto.Arg{Name: "retcode", Type: perfetto.Int, Int: int64(d.Code)})
	}
	t.message(d.Kind, args...)
}

func (t *timeline) Detached(d *output.Detachment) {
	t.message("detached", perfetto.Arg{Name: "probe", Text: d.Probe}, perfetto.Arg{Name: "text", Text: d.Text()})
}

func (t *timeline) Lost(n uint64) {
	t.message("lost_events", perfetto.Arg{Name: "events", Type: perfetto.Uint, Uint: n})
}

func (t *timeline) BeginTrials(mode string, _ []string) { t.mode = mode }

func (t *timeline) Trial(x *output.Trial) {
	e := &perfetto.Event{Track: t.named(x.Mode), At: t.At, Category: x.Mode, Name: x.Name}
	took := x.Took
	if x.Mode == probe.Bench {
		e.Args = []perfetto.Arg{{Name: "average_ns", Type: perfetto.Int, Int: int64(x.Took)}, {Name: "iterations", Type: perfetto.Int, Int: int64(x.Iterations)}}
		took *= time.Duration(min(max(x.Iterations, 1), int(math.MaxInt64/max(int64(x.Took), 1))))
	} else {
		passed := perfetto.Arg{Name: "passed", Type: perfetto.Bool}
		if x.Passed {
			passed.Uint = 1
		}
		e.Args = []perfetto.Arg{passed, {Name: "output", Text: string(x.Output)}}
	}
	t.w.Slice(e, took)
}

func (t *timeline) EndTrials() {}

func (t *timeline) Map(x *output.Map) { t.round++; t.counts(x) }

func (t *timeline) Snapshot(maps func(show func(*output.Map))) {
	t.round++
	maps(t.counts)
}

func (t *timeline) End(maps func(show func(*output.Map))) { t.Snapshot(maps) }

// counts writes the numbers of a map.
func (t *timeline) counts(x *output.Map) {
	m := x.Map
	signed, div := m.Signed(), uint64(max(x.Top.Div, 1))
	l := render.KeyLayout(m)
	for i := range x.Elements {
		el := &x.Elements[i]
		name := m.Name
		if !m.Scalar() {
			name += "[" + t.key(l, el.Key) + "]"
		}
		one := func(what string, n uint64, signed bool) {
			if signed {
				n = uint64(int64(n) / int64(div))
			} else {
				n /= div
			}
			t.count(m, name+what, t.At, n, signed)
		}
		switch m.Shape {
		case "plain":
			t.numbers(m, name, format.Value{Layout: m.Value, Bytes: el.Bytes}, one)
		case "avg":
			one("", m.Rule().Mean(el.Value, el.Count), signed)
		case "stats":
			t.count(m, name+".count", t.At, el.Count, false)
			one(".average", m.Rule().Mean(el.Value, el.Count), signed)
			t.count(m, name+".total", t.At, el.Value, signed)
		case "hist", "lhist":
			t.count(m, name+".count", t.At, el.Count, false)
		case "tseries":
			for j := range el.Points {
				p := &el.Points[j]
				c := t.counter(m, name)
				if c.round = t.round; p.N >= c.at {
					t.count(m, name, render.Start(m, p.N), p.Value, signed)
					c.at = p.N
				}
			}
		default:
			one("", el.Value, signed)
		}
	}
	if x.Top.Keep == 0 && m.Shape != "tseries" {
		t.absent(m)
	}
}

// numbers writes the numbers of an assigned value: itself, or the parts of a tuple or record.
func (t *timeline) numbers(m *manifest.Map, name string, v format.Value, one func(what string, n uint64, signed bool)) {
	var walk func(what string, v format.Value)
	walk = func(what string, v format.Value) {
		switch v.Layout.Kind {
		case "int", "bool":
			if len(v.Bytes) >= v.Layout.Size && v.Layout.Size > 0 {
				one(what, format.Uint(v.Layout, v.Bytes), v.Layout.Signed)
			}
		case "tuple", "record":
			for i := range v.Layout.Fields {
				f := &v.Layout.Fields[i]
				part := f.Name
				if part == "" {
					part = strconv.Itoa(i)
				}
				if f.BitSize == 0 && f.Off <= len(v.Bytes) {
					walk(what+"."+part, format.Value{Layout: &f.Layout, Bytes: v.Bytes[f.Off:]})
				}
			}
		}
	}
	walk("", v)
}

// key returns the text of a key, in one line.
func (t *timeline) key(l *manifest.Layout, b []byte) string {
	fields := []manifest.Field{{Layout: *l}}
	if l.Kind == "tuple" {
		fields = l.Fields
	}
	var parts []string
	for i := range fields {
		f := &fields[i]
		text := "?"
		if f.Off <= len(b) {
			text = string(t.plain.Append(nil, format.Value{Layout: &f.Layout, Bytes: b[f.Off:]}))
		}
		if f.Layout.Kind == "kstack" || f.Layout.Kind == "ustack" {
			text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\t' }), ";")
			text = strings.ReplaceAll(text, "        ", "")
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// counter returns the counter of a number of a map.
func (t *timeline) counter(m *manifest.Map, name string) *number64 {
	c := t.counters[name]
	if c == nil {
		parent := t.named(m.Name)
		c = &number64{track: t.w.Track(&perfetto.Description{Parent: parent, Name: name, Counter: true, Unit: m.Unit})}
		t.counters[name] = c
		t.ofMap[m.Name] = append(t.ofMap[m.Name], c)
	}
	return c
}

// count writes a number if it is not that of before.
func (t *timeline) count(m *manifest.Map, name string, at time.Time, n uint64, signed bool) {
	c := t.counter(m, name)
	c.round = t.round
	var b [9]byte
	binary.LittleEndian.PutUint64(b[:], n)
	if signed {
		b[8] = 1
	}
	if c.last == string(b[:]) {
		return
	}
	c.last = string(b[:])
	if !signed && n > math.MaxInt64 {
		t.w.Float(c.track, at, float64(n))
		return
	}
	t.w.Counter(c.track, at, int64(n))
}

// absent writes zero for the elements of a map that are not there any more.
func (t *timeline) absent(m *manifest.Map) {
	for _, c := range t.ofMap[m.Name] {
		if c.round != t.round && c.last != "" {
			c.last = ""
			t.w.Counter(c.track, t.At, 0)
		}
	}
}
