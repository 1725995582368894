// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"btc/frontend/diag"
	"btc/internal/manifest"
	"btc/loader/output"
	"btc/tests/perfetto"
)

// timelineOf replays a recording as a timeline.
func timelineOf(t *testing.T, recording string) *perfetto.Trace {
	t.Helper()
	out, _, err := replayText(recording, Options{Format: NewTimeline()})
	if err != nil {
		t.Fatal(err)
	}
	x, err := perfetto.Read([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func show(t *perfetto.Trace) string {
	var b strings.Builder
	const start = 1795856400_000000000
	for _, e := range t.Events {
		fmt.Fprintf(&b, "%q %s %s %d", e.Track, e.Category, e.Name, e.Begin-start)
		if e.End > 0 {
			fmt.Fprintf(&b, "+%d", e.End-e.Begin)
		}
		fmt.Fprintln(&b, e.Args)
	}
	var names []string
	for name := range t.Counters {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%q", name)
		for _, v := range t.Counters[name] {
			fmt.Fprintf(&b, " %d=%g", v.At-start, v.Value)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// source is a script whose printf() says where an event was, and how long it took.
const source = `begin { $us = (nsecs - @start) / 1000; printf("%s %d\n", comm, pid, tid, $us); }`

// timed is the recording of a run of it.
var timed = strings.NewReplacer(
	`"source":"begin { }"`, `"source":`+strconv.Quote(source),
	`"programs":[]`, `"programs":[{"name":"p","section":"s","kind":"begin","prog_type":"raw_tp","clause":0,"attach":{"text":"begin"},"pos":{"line":1,"col":1}}]`,
	`"fields":[{"off":8,"layout":{"kind":"string","size":16}},{"off":24,"layout":{"kind":"int","size":4}}],"size":32,"pos":{"line":1,"col":1}`,
	`"fields":[{"off":8,"layout":{"kind":"string","size":16}},{"off":24,"layout":{"kind":"int","size":4}},{"off":28,"layout":{"kind":"int","size":4}},{"off":32,"layout":{"kind":"int","size":8,"signed":true}}],"size":40,"pos":{"line":1,"col":40}`,
	`"args": ["bash", 7]`, `"args": ["<script>\u202e;", 7, 8, 1500]`,
	`"args": ["sh", 8]`, `"args": ["sh", 0, 0, -1]`,
).Replace(small)

// counted has a second snapshot before the end.
func counted() string {
	at := strings.Index(timed, `{"type": "snapshot"`)
	return timed[:at] + `{"type": "snapshot", "time": "2026-11-28T09:00:04Z", "final": false}
{"type": "map", "time": "2026-11-28T09:00:04Z", "name": "@", "shape": "count", "object": "16", "host": "vm", "signed": false, "entries": [{"key": [3], "value": 1}, {"key": [9], "value": 5}]}
` + timed[at:]
}

// TestTimeline checks tracks, durations, names of values, and counters.
func TestTimeline(t *testing.T) {
	want := `"<script>\u202e; [7/8]" printf begin 998500000+1500000map[comm:<script>` + "\u202e" + `; pid:7 text:<script>` + "\u202e" + `; 7 tid:8 us:1500]
"thread 0" printf begin 3000000000map[comm:sh pid:0 text:sh 0 tid:0 us:-1]
"@/@[3]" 4000000000=1
"@/@[4]" 5000000000=2
"@/@[9]" 4000000000=5 5000000000=0
"@h/@h.count" 5000000000=1
`
	if got := show(timelineOf(t, counted())); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// The processes of other hosts have the same numbers.
	head, rest, _ := strings.Cut(counted(), "\n")
	head = strings.Replace(head, `"version": 2`, `"version": 2, "merged": true, "hosts": ["a", "b"]`, 1)
	rest = strings.Replace(rest, `{"type": "printf"`, `{"type": "printf", "host": "a"`, 1)
	if got := show(timelineOf(t, head+"\n"+rest)); !strings.HasPrefix(got, `"a/thread 8" printf begin 998500000+1500000`) {
		t.Errorf("of another host:\n%s", got)
	}
	// Another object goes on in the same trace.
	reload := `{"type": "reload", "time": "2026-11-28T09:00:06Z", "object": "17"}` + "\n"
	if got := timelineOf(t, timed+reload+strings.ReplaceAll(timed, "28T09", "28T10")); len(got.Events) != 4 {
		t.Errorf("two objects: %s", show(got))
	}
	// Without the source, the events are there, but not what their values are.
	bare := strings.Replace(timed, strconv.Quote(source), `"begin {"`, 1)
	if got := show(timelineOf(t, bare)); !strings.Contains(got, `"begin" printf begin 1000000000map[arg1:<script>`) {
		t.Errorf("without the script:\n%s", got)
	}
}

// TestCalls checks what a script says about its values.
func TestCalls(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{`printf("%d", pid)`, "[pid] pid=0"},
		{`$p = pid; printf("%d", (uint64)$p)`, "[p] pid=0"},
		{`$p = pid; $p = tid; printf("%d", $p)`, "[p]"},
		{`$p = pid; $p++; printf("%d", $p)`, "[p]"},
		{`print((tid, cpu, comm))`, "[tid cpu comm] tid=0 cpu=1 comm=2"},
		{`print((a=tid, b=cpu))`, "[tid cpu] tid=0 cpu=1"},
		{`printf("%d", args.pid)`, "[pid]"},
		{`printf("%d", @a[tid])`, "[a]"},
		{`printf("%d", nsecs - @a)`, "[] took=0 1ns"},
		{`printf("%d", (nsecs - @a[tid]) / 1000)`, "[] took=0 1µs"},
		{`$d = nsecs - @a; printf("%d", (uint64)$d / 1000000)`, "[] took=0 1ms"},
		{`$n = nsecs / 1000; printf("%d %d", 1, $n - @a)`, "[ ] took=1 1µs"},
		{`printf("%d", nsecs(monotonic) - @a)`, "[] took=0 1ns"},
		{`printf("%d", elapsed / 1000000)`, "[]"},
		{`$delta_us = nsecs / 1000; printf("%d", $delta_us)`, "[delta_us]"},
		{`printf("%d", @latency_ms[1])`, "[latency_ms] took=0 1ms"},
		{`printf("%d", args.start_ns)`, "[start_ns]"},
		{`printf("%d", (nsecs - @a) / 0)`, "[]"},
		{`printf("%d", (nsecs - @a) / 18446744073709551615)`, "[]"},
		{`printf("%d", 5 - nsecs)`, "[]"},
	} {
		m := &manifest.Manifest{Script: manifest.Script{File: "x.bt", Source: "kprobe:f { " + tc.body + "; }"}}
		all := callsOf(m)
		at := strings.Index(m.Script.Source, "print") + 1
		c := all[diag.Position{Line: 1, Col: at}]
		if c == nil {
			t.Errorf("%s: no call among %v", tc.body, all)
			continue
		}
		got := fmt.Sprint(c.names)
		for i, n := range []int{c.pid, c.tid, c.cpu, c.comm, c.took} {
			if n >= 0 {
				got += fmt.Sprintf(" %s=%d", []string{"pid", "tid", "cpu", "comm", "took"}[i], n)
			}
		}
		if c.took >= 0 {
			got += " " + c.unit.String()
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", tc.body, got, tc.want)
		}
	}
	if all := callsOf(&manifest.Manifest{Script: manifest.Script{Source: "begin {"}}); all != nil {
		t.Errorf("%v of a script that does not parse", all)
	}
}

// TestTimelineOfReports replays everything that a run can report.
func TestTimelineOfReports(t *testing.T) {
	m := script(t)
	for name, report := range reports {
		out, _, err := replayed(m, NewTimeline(), record(m, &output.Text, report).rec.String())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		x, err := perfetto.Read([]byte(out))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(x.Events)+len(x.Counters) == 0 && name != "nothing at the end" {
			t.Errorf("%s: nothing in the trace", name)
		}
	}
}
