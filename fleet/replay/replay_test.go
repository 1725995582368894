// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/output"
	"btc/loader/render"
)

const manifestText = `{
 "schema": "btc/1", "compiler": "btc test", "language": "0.27.1", "object": {"sha256": "169306c67da238b907b00e7c87e274fd7834a0e08716b5edc7833f55e8b15d2e", "size": 1},
 "script": {"file": "x.bt", "source": "kprobe:f,\nkprobe:g { f(1); }\n"},
 "programs": [], "maps": [], "events": [], "arches": ["x86_64"], "target": "6.1", "config": {"max_strlen": 64, "print_maps_on_exit": true, "str_trunc_trailer": "..", "cpp_demangle": true}
}`

var (
	integer = manifest.Layout{Kind: "int", Size: 8, Signed: true}
	word    = manifest.Layout{Kind: "int", Size: 8}
	short   = manifest.Layout{Kind: "string", Size: 8}
	kstack  = manifest.Layout{Kind: "kstack", Size: 8, Stack: "stacks", Depth: 4, Mode: "bpftrace"}
	ustack  = manifest.Layout{Kind: "ustack", Size: 16, Stack: "stacks", Depth: 4, Mode: "perf"}
)

// kind is a layout with the bytes of a value.
type kind struct {
	layout manifest.Layout
	bytes  []byte
}

// kinds has a layout of each kind.
var kinds = []kind{
	{integer, words(-3)},
	{manifest.Layout{Kind: "int", Size: 1, Signed: true}, []byte{0xfd}},
	{manifest.Layout{Kind: "int", Size: 2}, []byte{0xfd, 0xff}},
	{manifest.Layout{Kind: "int", Size: 8, IDOf: "cgroup"}, words(7)},
	{manifest.Layout{Kind: "ptr", Size: 8}, words(-1)},
	{manifest.Layout{Kind: "bool", Size: 1}, []byte{1}},
	{manifest.Layout{Kind: "none", Size: 0}, nil},
	{short, []byte("a b\x00\x00\x00\x00\x00")},
	{short, []byte("truncate")},
	{short, []byte("\xffb\x1b\n\x00\x00\x00\x00")},
	{manifest.Layout{Kind: "string", Size: 4, Count: 4}, []byte("full")},
	{manifest.Layout{Kind: "buffer", Size: 8}, append([]byte{3, 0, 0, 0}, "\xffa\x00\x00"...)},
	{manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{{Layout: integer}, {Off: 8, Layout: short}}}, append(words(4), "xy\x00\x00\x00\x00\x00\x00"...)},
	{manifest.Layout{Kind: "array", Size: 16, Count: 2, Elem: &integer}, words(4, -5)},
	{manifest.Layout{Kind: "record", Size: 16, Fields: []manifest.Field{
		{Name: "a", BitOff: 2, BitSize: 3, Layout: word}, {Name: "b", BitOff: 60, BitSize: 4, Layout: word}, {Name: "c", Off: 8, Layout: integer}}}, words(0x14-1<<62, 9)},
	{manifest.Layout{Kind: "record", Size: 0}, nil},
	{manifest.Layout{Kind: "enum", Size: 4, Enum: map[string]string{"3": "C"}}, []byte{3, 0, 0, 0}},
	{manifest.Layout{Kind: "timestamp", Size: 8, Format: "%H:%M:%S %f %Z", Clock: 1}, words(5e9 + 1234)},
	{manifest.Layout{Kind: "username", Size: 8}, words(1000)},
	{manifest.Layout{Kind: "cgroup_path", Size: 8}, words(7)},
	{manifest.Layout{Kind: "ksym", Size: 8}, words(64)},
	{manifest.Layout{Kind: "usym", Size: 16}, append(words(65), 5, 0, 0, 0, 0, 0, 0, 0)},
	{kstack, words(11)},
	{ustack, append(words(12), 5, 0, 0, 0, 0, 0, 0, 0)},
	{manifest.Layout{Kind: "inet", Size: 20}, append([]byte{2, 0, 0, 0, 10, 1, 2, 3}, make([]byte, 12)...)},
	{manifest.Layout{Kind: "inet", Size: 20}, append([]byte{10, 0, 0, 0, 0x20, 1}, append(make([]byte, 13), 7)...)},
	{manifest.Layout{Kind: "inet", Size: 20}, append([]byte{10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 1, 2, 3, 4)},
	{manifest.Layout{Kind: "mac", Size: 6}, []byte{1, 2, 3, 0xfd, 0xfe, 0xff}},
	{manifest.Layout{Kind: "probe", Size: 8}, words(2)},
}

func words(n ...int64) []byte {
	var b []byte
	for _, v := range n {
		b = binary.NativeEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// script returns a manifest with a map and an event for each row of kinds, and a map of each shape.
func script(t testing.TB) *manifest.Manifest {
	m, err := manifest.Parse([]byte(manifestText))
	if err != nil {
		t.Fatal(err)
	}
	m.Programs = []manifest.Program{
		{Clause: 0, Pos: manifest.Pos{Line: 1, Col: 1}, Attach: manifest.Attach{Text: "kprobe:f"}},
		{Clause: 0, Pos: manifest.Pos{Line: 2, Col: 1}, Attach: manifest.Attach{Text: "kprobe:g"}},
	}
	add := func(e manifest.Event) {
		e.ID, e.Pos = len(m.Events), manifest.Pos{Line: 2, Col: 12, EndCol: 16}
		m.Events = append(m.Events, e)
	}
	for i := range kinds {
		l := &kinds[i].layout
		add(manifest.Event{Kind: "printf", Format: "%s|%20s|\n", Fields: []manifest.Field{{Layout: *l}, {Layout: *l}}})
		add(manifest.Event{Kind: "print", Fields: []manifest.Field{{Layout: *l}}})
		m.Maps = append(m.Maps, manifest.Map{Name: "@k" + string(rune('A'+i)), Shape: "count", Value: &word, Key: l, MapNames: manifest.MapNames{KeyNames: []string{"part"}}},
			manifest.Map{Name: "@v" + string(rune('A'+i)), Shape: "plain", Value: l, Key: &integer})
	}
	for _, kind := range []string{"time", "cat", "system", "join", "print_map"} {
		add(manifest.Event{Kind: kind, Fields: []manifest.Field{{Var: true, Layout: manifest.Layout{Kind: "string", Size: 64}}}})
	}
	two := &manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{{Layout: integer}, {Off: 8, Layout: short}}}
	for _, shape := range []string{"count", "sum", "min", "max", "avg", "stats", "hist", "lhist", "plain"} {
		x := manifest.Map{Name: "@" + shape, Shape: shape, Value: &integer, Key: two, MapParams: manifest.MapParams{Min: 0, Max: 30, Step: 10}, MapNames: manifest.MapNames{KeyNames: []string{"pid", ""}}}
		m.Maps = append(m.Maps, x)
		x.Name, x.Key, x.Present = x.Name+"_scalar", nil, -1
		m.Maps = append(m.Maps, x)
	}
	for _, agg := range []string{"", "avg", "max"} {
		slot := manifest.Field{Off: 8, Layout: word}
		m.Maps = append(m.Maps, manifest.Map{
			Name: "@t" + agg, Shape: "tseries", Value: &integer, MapParams: manifest.MapParams{Interval: 1e9, Intervals: 5, Agg: agg},
			Key: &manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{{Layout: integer}, slot}},
		})
	}
	return m
}

// env is the host of the recorded run.
func env(f *output.Format) *format.Env {
	cet := time.FixedZone("CET", 3600)
	return &format.Env{
		Trailer: "..", Escape: !f.JSON, Names: true,
		Ksym:  func(uint64) string { return "vfs_read" },
		Usym:  func(uint64, uint32) string { return "main.f\xff" },
		User:  func(uint64) string { return "me" },
		Probe: func(uint64) string { return "kprobe:f" },
		Cgroup: func(uint64, string) format.Cgroup {
			return format.Cgroup{Path: "unified:/a b", Container: format.Container{Label: "shop/web", Namespace: "shop", Pod: "web", Name: "c"}}
		},
		Clock: func(ns uint64, _ int) time.Time { return time.Unix(1700000000, int64(ns)).In(cet) },
		Local: func(at time.Time) time.Time { return at.In(cet) },
		Stack: func(l *manifest.Layout, id uint64, pid uint32) []format.Frame {
			return []format.Frame{{Address: 1, Sym: "f<a b>;\"", Offset: id, File: "/usr/lib/x y.so", BuildID: "ab", FileOffset: 3}, {Address: id}, {Address: 1, Sym: "main\xff"}, {Address: format.UnwindFailure}}
		},
	}
}

// written is what a run writes on its output, its error output and in its recording.
type written struct{ out, err, rec strings.Builder }

func record(m *manifest.Manifest, f *output.Format, report func(*output.Run, output.Sink)) *written {
	w := &written{}
	r := &output.Run{Manifest: m, Env: env(f), Object: "reads", Host: "vm", Started: time.Unix(1700000000, 5), Rate: true}
	r.Out = output.NewWriter("line", func(b []byte, _ bool) []byte { w.out.Write(b); return b[:0] })
	r.Message = func(line string) { w.err.WriteString(line + "\n") }
	r.MessageNow = r.Message
	r.Losses = func() []output.Loss { return []output.Loss{{Cause: "events", N: 3}, {Cause: "map"}} }
	r.Detachments = func() []output.Detachment { return nil }
	r.Costs = func() []output.Cost {
		return []output.Cost{{Probe: "kprobe:f", Attached: true, Covered: 12345678901, Used: 123456789}}
	}
	r.Frames = func(l *manifest.Layout, id uint64) (all []uint64) {
		for _, f := range r.Env.Stack(l, id, 0) {
			all = append(all, f.Address)
		}
		return all
	}
	rec := r.Silent(output.NewWriter("line", func(b []byte, _ bool) []byte { w.rec.Write(b); return b[:0] }))
	head := strings.Replace(string(r.AppendHead(nil, &output.Head{Format: "text", Kernel: "6.1", Manifest: []byte(manifestText), Top: render.Top{Order: render.Descending}})),
		`"zone": [`, `"zone": [{"from": 0, "name": "CET", "offset": 3600}], "was": [`, 1)
	w.rec.WriteString(head)
	if f.Records {
		w.out.WriteString(strings.Replace(head, `"format": "text"`, `"format": "json2"`, 1))
	}
	rec.Env.Escape = false
	sink := output.Tee(r, f.New(r), rec, output.Recording.New(rec))
	report(r, sink)
	r.Out.Flush(true)
	rec.Out.Flush(true)
	return w
}

// replayed replays a recording with the manifest m, which need not be valid.
func replayed(m *manifest.Manifest, f *output.Format, recording string) (out, errOut string, err error) {
	var o, e bytes.Buffer
	p := &player{opts: Options{Format: f, Out: &o, Err: &e, Escape: true}, maxBytes: maxHead}
	for i, line := range strings.SplitAfter(recording, "\n") {
		if err := p.line([]byte(line)); err != nil {
			return o.String(), e.String(), err
		}
		if i == 0 {
			p.manifest, p.run.Manifest = m, m
			p.sink = f.New(p.run)
		}
	}
	err = p.flush()
	p.run.Out.Flush(true)
	return o.String(), e.String(), err
}

// elements returns elements for a map.
func elements(m *manifest.Map, i int) []render.Element {
	key := func(n int64) []byte { return append(words(n), "ab\x00\x00\x00\x00\x00\x00"...) }
	state := func(n int64) render.Element {
		el := render.Element{Set: true, State: aggregate.State{Value: uint64(n), Count: 2}}
		switch m.Shape {
		case "hist", "lhist":
			el.State, el.Buckets = aggregate.State{Count: 7}, []uint64{1, 0, 2, 0, 4}
		case "plain":
			el.State, el.Bytes = aggregate.State{}, words(n)
		case "count", "sum", "min", "max":
			el.Count = 0
		case "tseries":
			el.State = aggregate.State{}
			at := uint64(1700000000)
			for j := range uint64(3) {
				p := aggregate.Point{N: at + 2*j, Value: uint64(n) + j, Total: uint64(n) + j, Meta: 1}
				if m.Agg == "max" {
					p.Meta = 0
				}
				el.Points = append(el.Points, p)
			}
			el.Window(m, at+5, at+5)
		}
		return el
	}
	switch {
	case strings.HasPrefix(m.Name, "@k"):
		el := render.Element{Set: true, Key: kinds[i/2].bytes, State: aggregate.State{Value: 5}}
		return []render.Element{el}
	case strings.HasPrefix(m.Name, "@v"):
		return []render.Element{{Set: true, Key: words(1), Bytes: kinds[i/2].bytes}}
	case m.Scalar():
		return []render.Element{state(-30)}
	case m.Shape == "tseries":
		a, b := state(1), state(7)
		a.Key, b.Key = words(1), words(2)
		return []render.Element{a, b}
	}
	a, b, c := state(1), state(70), state(-3)
	a.Key, b.Key, c.Key = key(1), key(-2), key(3)
	return []render.Element{a, b, c}
}

// reports has what a run can report.
var reports = map[string]func(r *output.Run, s output.Sink){
	"attached": func(_ *output.Run, s output.Sink) { s.Attached(2); s.Pinned("/sys/fs/bpf/x") },
	"values": func(r *output.Run, s output.Sink) {
		for i := range kinds {
			v := format.Value{Layout: &r.Manifest.Events[2*i].Fields[0].Layout, Bytes: kinds[i].bytes}
			e := &r.Manifest.Events[2*i]
			s.Printf(&format.Event{Event: e, Values: []format.Value{v, v}}, format.ParseFormat(e.Format))
			s.Print(&format.Event{Event: &r.Manifest.Events[2*i+1], Values: []format.Value{v}})
		}
	},
	"functions": func(r *output.Run, s output.Sink) {
		call := func(kind string) *format.Event {
			for i := range r.Manifest.Events {
				if e := &r.Manifest.Events[i]; e.Kind == kind {
					return &format.Event{Event: e, Values: []format.Value{{Layout: &e.Fields[0].Layout, Bytes: []byte("/a\xffb"), Var: true}}}
				}
			}
			return nil
		}
		s.Time(&format.Event{Event: call("time").Event}, []byte("12:00:00\xff\uFFFD\n"))
		s.Join(call("join"), [][]byte{[]byte("ls"), []byte("a\x1bb")}, ", ")
		s.Piece(call("cat"), []byte("one\x1b\xff\uFFFD\xfe\n"), true, false)
		s.Piece(call("cat"), nil, false, true)
		s.Piece(call("cat"), nil, true, true)
		s.Piece(call("system"), []byte("two\n"), true, false)
		s.Piece(call("system"), nil, false, true)
	},
	"print of maps": func(r *output.Run, s output.Sink) {
		e := &r.Manifest.Events[len(r.Manifest.Events)-1]
		for i := range r.Manifest.Maps {
			m := &r.Manifest.Maps[i]
			s.Map(&output.Map{Event: e, Map: m, Elements: elements(m, i), Top: render.Top{Order: render.Descending}})
			s.Map(&output.Map{Event: e, Map: m, Elements: elements(m, i), Top: render.Top{Keep: 1, Div: 3, Order: render.Descending}})
			s.Map(&output.Map{Event: e, Map: m, Top: render.Top{Order: render.Descending}})
		}
	},
	"snapshots": func(r *output.Run, s output.Sink) {
		all := func(show func(*output.Map)) {
			for i := range r.Manifest.Maps {
				m := &r.Manifest.Maps[i]
				show(&output.Map{Map: m, Elements: elements(m, i), Top: render.Top{Order: render.Descending, Keep: 2}})
			}
		}
		r.At = time.Unix(1700000001, 5)
		s.Snapshot(all)
		s.Snapshot(func(func(*output.Map)) {})
		s.Snapshot(all)
		r.At = time.Unix(1700000003, 7)
		s.Snapshot(func(show func(*output.Map)) {
			for i := range r.Manifest.Maps {
				m := &r.Manifest.Maps[i]
				show(&output.Map{Map: m, Elements: elements(m, i), Top: render.Top{Order: render.Descending, Keep: 1}})
			}
		})
		r.At = time.Unix(1700000004, 9)
		s.Snapshot(all)
		s.End(all)
	},
	"nothing at the end": func(r *output.Run, s output.Sink) {
		s.End(func(show func(*output.Map)) {
			for i := range r.Manifest.Maps {
				show(&output.Map{Map: &r.Manifest.Maps[i], Top: render.Top{Order: render.Descending}})
			}
		})
	},
	"messages": func(_ *output.Run, s output.Sink) {
		pos := manifest.Pos{Line: 2, Col: 12, EndCol: 16}
		s.Diagnostic(&output.Diagnostic{Kind: "errorf", Severity: "ERROR", Pos: pos, Text: "no \"x\"\xff"})
		s.Diagnostic(&output.Diagnostic{Kind: "helper_error", Severity: "WARNING", Pos: pos, Text: "Can't", Helper: "map_update_elem", Code: -7, Source: true})
		s.Diagnostic(&output.Diagnostic{Kind: "runtime_error", Severity: "WARNING", Pos: pos, Chain: []manifest.Location{{File: "lib.bt", Line: 7, Col: 2, EndCol: 4, Text: "x y"}, {Line: 2, Col: 12, EndCol: 16}}, Text: "zero", Source: true})
		s.Diagnostic(&output.Diagnostic{Kind: "warnf", Severity: "WARNING", Pos: pos, Text: "w", Muted: true})
		s.Diagnostic(&output.Diagnostic{Kind: "runtime_error", Severity: "WARNING", Pos: pos, Text: "zero", Muted: true})
		s.Lost(7)
		from := time.Unix(1700000000, 0)
		s.Detached(&output.Detachment{Probe: "kprobe:f", Pos: pos, From: from, To: from.Add(20*time.Second + 1), Run: 35 * time.Second, Budget: 0.01, Share: [2]float64{0.0312345678, 0.0325}, All: [2]float64{0.04, 0.0415}})
	},
	"tests": func(_ *output.Run, s output.Sink) {
		s.BeginTrials("test", []string{"a", "b"})
		s.Trial(&output.Trial{Name: "a", Mode: "test", Passed: true, Took: 1500, Iterations: 1, Output: []byte("hidden\n")})
		s.Trial(&output.Trial{Name: "b", Mode: "test", Took: 2 * time.Second, Iterations: 1, Output: []byte("shown\xff\n\n")})
		s.EndTrials()
		s.BeginTrials("bench", []string{"a", "b"})
		s.Trial(&output.Trial{Name: "a", Mode: "bench", Passed: true, Took: 15, Iterations: 1000})
		s.EndTrials()
	},
}

// TestReplayIsTheRun checks that what a run writes in each format is what a replay of its recording writes, whatever the
// run reports.
func TestReplayIsTheRun(t *testing.T) {
	m := script(t)
	for name, report := range reports {
		for _, f := range output.Formats {
			if f.Profile { // needs a map with a stack: tests/output replays profiles
				continue
			}
			t.Run(name+"/"+f.Name, func(t *testing.T) {
				w := record(m, f, report)
				out, errOut, err := replayed(m, f, w.rec.String())
				if err != nil {
					t.Fatalf("%v\n%s", err, w.rec.String())
				}
				for what, x := range map[string][2]string{"output": {out, w.out.String()}, "error output": {errOut, w.err.String()}} {
					got, want := strings.Split(x[0], "\n"), strings.Split(x[1], "\n")
					for i := range min(len(got), len(want)) {
						if got[i] != want[i] {
							t.Fatalf("%s, line %d:\n%.600s\nwant\n%.600s", what, i+1, got[i], want[i])
						}
					}
					if len(got) != len(want) {
						t.Errorf("%s: %d lines, want %d", what, len(got), len(want))
					}
				}
			})
		}
	}
}
