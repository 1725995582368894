// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/binary"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/render"
)

var update = flag.Bool("update", false, "write testdata")

var (
	integer  = manifest.Layout{Kind: "int", Size: 8, Signed: true}
	unsigned = manifest.Layout{Kind: "int", Size: 8}
	name     = manifest.Layout{Kind: "string", Size: 16}
	script   = manifest.Manifest{
		Script: manifest.Script{File: "x.bt", Source: "kprobe:f,\nkprobe:g { f(1); }\n"},
		Programs: []manifest.Program{
			{Clause: 0, Pos: manifest.Pos{Line: 1, Col: 1}, Attach: manifest.Attach{Text: "kprobe:f"}},
			{Clause: 0, Pos: manifest.Pos{Line: 2, Col: 1}, Attach: manifest.Attach{Text: "kprobe:g"}},
		},
		Compiler: "btc test", Object: manifest.Object{SHA256: "ab"},
		Maps: []manifest.Map{
			{Name: "events", Shape: "intern"},
			{Name: "@", Shape: "lhist", Key: &integer, Value: &integer, MapParams: manifest.MapParams{Min: 0, Max: 30, Step: 10}, MapNames: manifest.MapNames{Help: "By \"cpu\" \\ line.", KeyNames: []string{"le"}}},
			{Name: "@calls", Shape: "count", Value: &unsigned, MapNames: manifest.MapNames{KeyNames: []string{"pid", "comm"}},
				Key: &manifest.Layout{Kind: "tuple", Size: 24, Fields: []manifest.Field{{Layout: integer}, {Layout: name, Off: 8}}}},
			{Name: "@level", Shape: "plain", Value: &integer},
			{Name: "@least", Shape: "min", Value: &integer},
			{Name: "@name", Shape: "plain", Value: &name},
			{Name: "@size", Shape: "hist", Value: &integer, MapNames: manifest.MapNames{Unit: "bytes", Help: "Sizes."}},
			{Name: "@took", Shape: "stats", Value: &integer, MapNames: manifest.MapNames{Unit: "ns"}},
		},
	}
)

// words encodes a sequence of integers.
func words(n ...int64) []byte {
	var b []byte
	for _, v := range n {
		b = binary.NativeEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// call returns the event of a function with an integer and a string argument.
func call(kind string) *format.Event {
	return &format.Event{
		Event: &manifest.Event{Kind: kind, Pos: manifest.Pos{Line: 2, Col: 12, EndCol: 16}},
		Values: []format.Value{
			{Layout: &integer, Bytes: words(-3)},
			{Layout: &name, Bytes: []byte("a \"b\"\x1b\x00"), Var: true},
		},
	}
}

// mapOf returns a map of a shape. The parts of its keys are adjacent.
func mapOf(shape string, parts []manifest.Layout, elems ...render.Element) *Map {
	m := &manifest.Map{Name: "@m", Shape: shape, Value: &integer}
	if len(parts) > 0 {
		m.Key = &manifest.Layout{Kind: "tuple"}
		for _, p := range parts {
			m.Key.Fields = append(m.Key.Fields, manifest.Field{Layout: p, Off: m.Key.Size})
			m.Key.Size += p.Size
		}
		if len(parts) == 1 {
			m.Key = &parts[0]
		}
	}
	return &Map{Event: &manifest.Event{Kind: "print_map", Pos: manifest.Pos{Line: 2, Col: 12}}, Map: m, Elements: elems}
}

func atEnd(maps ...*Map) func(Sink) {
	for _, x := range maps {
		x.Event = nil
	}
	return func(s Sink) {
		s.End(func(show func(*Map)) {
			for _, x := range maps {
				show(x)
			}
		})
	}
}

// reports has a row for each kind of report and for each difference between formats.
var reports = []struct {
	name string
	make func(Sink)
}{
	{"attached", func(s Sink) { s.Attached(2) }},
	{"attached, one", func(s Sink) { s.Attached(1) }},
	{"pinned", func(s Sink) { s.Pinned("/sys/fs/bpf/x") }},
	{"printf", func(s Sink) { s.Printf(call("printf"), format.ParseFormat("%d %s\n")) }},
	{"print", func(s Sink) { s.Print(call("print")) }},
	{"time", func(s Sink) { e := call("time"); e.Values = nil; s.Time(e, []byte("12:00:00\n")) }},
	{"join", func(s Sink) { s.Join(call("join"), [][]byte{[]byte("ls"), []byte("a\x1bb")}, ", ") }},
	{"cat", func(s Sink) { stream(s, "cat", "one\x1b\n", "two") }},
	{"cat of an empty file", func(s Sink) { stream(s, "cat") }},
	{"system", func(s Sink) { stream(s, "system", "one\x1b\n", "two\n") }},
	{"map", func(s Sink) {
		s.Map(mapOf("count", []manifest.Layout{integer, name}, render.Element{Key: append(words(1), "x y\x00............"...), State: aggregate.State{Value: 5}, Set: true},
			render.Element{Key: append(words(2), "z\x00.............."...), State: aggregate.State{Value: 3}, Set: true}))
	}},
	{"map, last value divided", func(s Sink) {
		x := mapOf("sum", []manifest.Layout{integer}, render.Element{Key: words(1), State: aggregate.State{Value: 5}, Set: true}, render.Element{Key: words(2), State: aggregate.State{Value: 30}, Set: true})
		x.Top = render.Top{Keep: 1, Div: 10}
		s.Map(x)
	}},
	{"map without elements", func(s Sink) { s.Map(mapOf("count", []manifest.Layout{integer})) }},
	{"stats without elements", func(s Sink) { s.Map(mapOf("stats", []manifest.Layout{integer})) }},
	{"scalar", func(s Sink) { s.Map(mapOf("plain", nil, render.Element{Bytes: words(-1), Set: true})) }},
	{"scalar, never assigned", func(s Sink) { s.Map(mapOf("plain", nil, render.Element{})) }},
	{"stats", func(s Sink) {
		s.Map(mapOf("stats", nil, render.Element{State: aggregate.State{Count: 2, Value: 12}, Set: true}))
	}},
	{"stats, never assigned", func(s Sink) { s.Map(mapOf("stats", nil, render.Element{})) }},
	{"hist", func(s Sink) {
		s.Map(mapOf("hist", nil, render.Element{Buckets: []uint64{0, 1, 2}, State: aggregate.State{Count: 3}, Set: true}))
	}},
	{"hist, never assigned", func(s Sink) { s.Map(mapOf("hist", nil, render.Element{})) }},
	{"error", func(s Sink) {
		s.Diagnostic(&Diagnostic{Kind: "errorf", Severity: "ERROR", Pos: manifest.Pos{Line: 2, Col: 12, EndCol: 16}, Text: "no \"x\""})
	}},
	{"helper error", func(s Sink) {
		s.Diagnostic(&Diagnostic{Kind: "helper_error", Severity: "WARNING", Pos: manifest.Pos{Line: 2, Col: 12, EndCol: 16}, Text: "full", Helper: "h", Code: -7, Source: true})
	}},
	{"error in a macro", func(s Sink) {
		s.Diagnostic(&Diagnostic{Kind: "runtime_error", Severity: "WARNING", Pos: manifest.Pos{Line: 2, Col: 12},
			Chain: []manifest.Location{{File: "lib.bt", Line: 7, Col: 2, EndCol: 4}, {Line: 2, Col: 12, EndCol: 16}}, Text: "zero"})
	}},
	{"muted warning", func(s Sink) {
		s.Diagnostic(&Diagnostic{Kind: "warnf", Severity: "WARNING", Pos: manifest.Pos{Line: 2, Col: 12}, Text: "w", Muted: true})
	}},
	{"muted error", func(s Sink) {
		s.Diagnostic(&Diagnostic{Kind: "runtime_error", Severity: "WARNING", Pos: manifest.Pos{Line: 2, Col: 12}, Text: "zero", Muted: true})
	}},
	{"lost events", func(s Sink) { s.Lost(7) }},
	{"detached", func(s Sink) {
		from := time.Unix(1700000000, 0)
		s.Detached(&Detachment{
			Probe: "kprobe:f", Pos: manifest.Pos{Line: 2, Col: 1, EndCol: 9}, From: from, To: from.Add(20 * time.Second), Run: 35 * time.Second,
			Budget: 0.01, Share: [2]float64{0.031, 0.0325}, All: [2]float64{0.04, 0.0415},
		})
	}},
	{"snapshot", func(s Sink) { s.Snapshot(exported) }},
	{"tests", func(s Sink) {
		s.BeginTrials("test", []string{"a", "b"})
		s.Trial(&Trial{Name: "a", Mode: "test", Passed: true, Took: 1500, Iterations: 1, Output: []byte("hidden\n")})
		s.Trial(&Trial{Name: "b", Mode: "test", Took: 2 * time.Second, Iterations: 1, Output: []byte("shown\n\n")})
		s.EndTrials()
	}},
	{"benchmarks", func(s Sink) {
		s.BeginTrials("bench", []string{"a", "b"})
		s.Trial(&Trial{Name: "a", Mode: "bench", Passed: true, Took: 15, Iterations: 1000})
		s.EndTrials()
	}},
	{"end", atEnd(
		mapOf("plain", nil, render.Element{Bytes: words(4), Set: true}), mapOf("plain", nil, render.Element{}), mapOf("stats", nil, render.Element{}),
		mapOf("hist", nil, render.Element{}), mapOf("count", []manifest.Layout{integer}), mapOf("stats", []manifest.Layout{integer}),
	)},
}

// exported passes one map of each shape that metrics support to show.
func exported(show func(*Map)) {
	for i := range script.Maps {
		x := &Map{Map: &script.Maps[i]}
		switch x.Map.Name {
		case "@calls":
			x.Elements = []render.Element{
				{Key: append(words(1), "a \"b\"\\\n\xff\x00......."...), State: aggregate.State{Value: 5}, Set: true}, {Key: append(words(-2), "z\x00.............."...), State: aggregate.State{Value: 3}, Set: true},
				{Key: append(words(-2), "z\x00.............+"...), State: aggregate.State{Value: 4}, Set: true}, // prints the same
			}
		case "@least":
			x.Elements = []render.Element{{State: aggregate.State{Value: ^uint64(8)}, Set: true}}
		case "@took":
			x.Elements = []render.Element{{State: aggregate.State{Count: 2, Value: 12}, Set: true}}
		case "@size":
			x.Elements = []render.Element{{Buckets: []uint64{1, 0, 2, 0, 4}, State: aggregate.State{Count: 7}, Set: true}}
		case "@":
			x.Elements = []render.Element{{Key: words(7), Buckets: []uint64{0, 1, 0, 2}, State: aggregate.State{Count: 3}, Set: true}}
		case "@level":
			x.Elements = []render.Element{{Bytes: words(-4), Set: true}}
		}
		show(x)
	}
}

func stream(s Sink, kind string, pieces ...string) {
	e := call(kind)
	for i, p := range pieces {
		s.Piece(e, []byte(p), i == 0, false)
	}
	s.Piece(e, nil, len(pieces) == 0, true)
}

// newRun returns a run that writes to text. Lines of the error output are prefixed with "error output:
// ".
func newRun(f *Format, text *strings.Builder) *Run {
	r := &Run{Manifest: &script, Env: &format.Env{Escape: !f.JSON}, At: time.Unix(1, 5)}
	r.Out = NewWriter("line", func(b []byte, _ bool) []byte {
		text.Write(b)
		return b[:0]
	})
	r.Message = func(line string) {
		r.Out.Flush(true)
		text.WriteString("error output: " + line + "\n")
	}
	r.MessageNow = r.Message
	r.Object, r.Host, r.Started = "reads", "vm", time.Unix(1, 0)
	r.Losses = func() []Loss { return []Loss{{"events", 3}, {"map", 0}} }
	return r
}

// TestFormats compares the output of each format with its file in testdata.
func TestFormats(t *testing.T) {
	for _, f := range Formats {
		t.Run(f.Name, func(t *testing.T) {
			var text strings.Builder
			for _, x := range reports {
				text.WriteString("-- " + x.name + " --\n")
				from := text.Len()
				r := newRun(f, &text)
				x.make(f.New(r))
				r.Out.Flush(true)
				if s := text.String(); len(s) > from && !strings.HasSuffix(s, "\n") {
					text.WriteString("(no newline)\n")
				}
			}
			file := "testdata/" + f.Name + ".txt"
			if *update {
				if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if text.String() != string(want) {
				t.Errorf("%s is out of date; with -update it would be:\n%s", file, text.String())
			}
		})
	}
}
