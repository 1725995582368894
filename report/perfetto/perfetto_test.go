// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"bytes"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	trace "btc/tests/perfetto"
)

var start = time.Unix(1700000000, 7)

// written returns what write makes of a trace.
func written(t *testing.T, write func(w *Writer)) *trace.Trace {
	t.Helper()
	var out bytes.Buffer
	write(New(start, func(b []byte) { out.Write(b) }))
	x, err := trace.Read(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestTrace reads events, their arguments and counters back.
func TestTrace(t *testing.T) {
	hostile := []string{"<script>alert(1)</script>", "a;b\" c", "\u202egnp.exe", "line\nbreak\x1b[31m", "bad\xff", strings.Repeat("é", 100), ""}
	x := written(t, func(w *Writer) {
		group := w.Track(&Description{Name: "host"})
		thread := w.Track(&Description{Name: "ba\xffsh", PID: 7, TID: 8})
		process := w.Track(&Description{Name: "sh", PID: 7})
		row := w.Track(&Description{Parent: group, Name: "CPU 3"})
		n := w.Track(&Description{Parent: group, Name: "@x[\u202e]", Counter: true, Unit: "ns"})
		args := []Arg{{Name: "i", Type: Int, Int: -3}, {Name: "u", Type: Uint, Uint: 1<<64 - 1}, {Name: "p", Type: Pointer, Pointer: 0x10}, {Name: "b", Type: Bool, Uint: 9}, {Name: "no", Type: Bool}, {Name: "s", Text: "t"}, {Name: "e"}}
		w.Instant(&Event{Track: thread, At: start.Add(5), Category: "printf", Name: "kprobe:f", Args: args})
		w.Instant(&Event{Track: process, At: start.Add(-5)})
		for i, s := range hostile {
			w.Slice(&Event{Track: row, At: start.Add(time.Duration(100*i + 50)), Category: s, Name: s, Args: []Arg{{Name: "a", Text: s}}}, 30)
		}
		w.Counter(n, start.Add(1), -1)
		w.Float(n, start.Add(2), 1.5e19)
	})
	first := x.Events[1]
	if first.Track != "ba\uFFFDsh [7/8]" || first.Begin != start.UnixNano()+5 || first.End != 0 || first.Category != "printf" || first.Name != "kprobe:f" {
		t.Errorf("%+v", first)
	}
	if got := fmt.Sprint(first.Args); got != "map[b:true e: i:-3 no:false p:0x10 s:t u:18446744073709551615]" {
		t.Error(got)
	}
	if x.Events[0].Track != "sh [7]" || x.Events[0].Begin != start.UnixNano()-5 {
		t.Errorf("%+v", x.Events[0])
	}
	for i, e := range x.Events[2:] {
		want := strings.ToValidUTF8(hostile[i], "\uFFFD")
		if e.Name != want || e.Category != want || e.Args["a"] != want || e.Track != "host/CPU 3" || e.End-e.Begin != 30 {
			t.Errorf("%q: %+v", want, e)
		}
	}
	if got := fmt.Sprint(x.Counters); got != fmt.Sprintf("map[host/@x[\u202e]:[{%d -1} {%d 1.5e+19}]]", start.UnixNano()+1, start.UnixNano()+2) {
		t.Error(got)
	}
}

// TestOverlaps checks that each slice has its own begin and end, however they overlap.
func TestOverlaps(t *testing.T) {
	for seed := range int64(50) {
		r := rand.New(rand.NewSource(seed))
		type slice struct{ begin, end int64 }
		var want []slice
		x := written(t, func(w *Writer) {
			row := w.Track(&Description{Name: "row", PID: 1, TID: 1})
			now := int64(1000)
			for i := range 2000 {
				now += r.Int63n(4)
				at := now
				if r.Intn(50) == 0 {
					at -= r.Int63n(20) // not in order
				}
				took := r.Int63n(1 + r.Int63n(30))
				want = append(want, slice{at - took, at})
				w.Slice(&Event{Track: row, At: start.Add(time.Duration(at)), Name: fmt.Sprint(i)}, time.Duration(took))
			}
		})
		if len(x.Events) != len(want) {
			t.Fatalf("%d events, want %d", len(x.Events), len(want))
		}
		for _, e := range x.Events {
			var i int
			fmt.Sscan(e.Name, &i)
			if got := (slice{e.Begin - start.UnixNano(), e.End - start.UnixNano()}); got != want[i] {
				t.Fatalf("seed %d: slice %d is %d, want %d", seed, i, got, want[i])
			}
		}
	}
}

// TestNested checks that slices inside of each other are on one track.
func TestNested(t *testing.T) {
	x := written(t, func(w *Writer) {
		row := w.Track(&Description{Name: "row"})
		w.Slice(&Event{Track: row, At: start.Add(20), Name: "inner"}, 5)
		w.Slice(&Event{Track: row, At: start.Add(30), Name: "inner"}, 10)
		w.Slice(&Event{Track: row, At: start.Add(30), Name: "outer"}, 25)
		w.Slice(&Event{Track: row, At: start.Add(31), Name: "other"}, 10)
	})
	var got []string
	for _, e := range x.Events {
		got = append(got, fmt.Sprint(e.Name, " ", e.Track, " ", e.Depth))
	}
	if s := strings.Join(got, ", "); s != "outer row 0, inner row 1, inner row 1, other row/row 0" {
		t.Error(s)
	}
}

// TestManyStrings checks that memory is bounded, and that nothing is lost then.
func TestManyStrings(t *testing.T) {
	const n = maxStrings + 100
	x := written(t, func(w *Writer) {
		row := w.Track(&Description{Name: "row"})
		for i := range n {
			w.Instant(&Event{Track: row, At: start.Add(time.Duration(i)), Name: fmt.Sprint("name", i), Args: []Arg{{Name: "a", Text: fmt.Sprint("value", i)}}})
		}
		for _, table := range w.tables {
			if len(table) > maxStrings {
				t.Errorf("%d strings in memory", len(table))
			}
		}
	})
	for i, e := range x.Events {
		if e.Name != fmt.Sprint("name", i) || e.Args["a"] != fmt.Sprint("value", i) {
			t.Fatalf("%d: %+v", i, e)
		}
	}
}
