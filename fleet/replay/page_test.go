// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPage checks what a page has of a recording: the differences of snapshots, the lines with the clauses that printed them, and
// what describes the run.
func TestPage(t *testing.T) {
	lines := strings.SplitAfter(small, "\n")
	text := lines[0]
	for i := range 3 {
		at := time.Date(2026, 11, 28, 9, 0, 1+i, 0, time.UTC).Format(time.RFC3339)
		text += fmt.Sprintf(`{"type": "snapshot", "time": "%s", "losses": [{"cause": "events", "count": %d}]}
{"type": "map", "time": "%s", "name": "@", "shape": "count", "object": "16", "host": "vm", "signed": false, "entries": [{"key": [3], "value": %d}]}
{"type": "map", "time": "%s", "name": "@h", "shape": "hist", "object": "16", "host": "vm", "signed": true, "bits": 0, "entries": [{"value": [{"min": 4, "max": 7, "count": %d}]}]}
`, at, i, at, 1+i*i, at, 2*(1+i))
	}
	text += `{"type": "lost_events", "time": "2026-11-28T09:00:04Z", "count": 2}` + "\n"
	d, cut, err := Page("x.jsonl", strings.NewReader(text), Options{})
	if err != nil || cut {
		t.Fatal(err, cut)
	}
	if d.Host != "vm" || d.Ended || d.File != "x.jsonl" || d.Script.Source == "" || len(d.Losses) != 1 || d.Losses[0].N.Value != 2 {
		t.Errorf("%+v", d)
	}
	got := map[string]string{}
	for _, m := range d.Maps {
		columns, _ := json.Marshal(m.Columns)
		got[m.Name] = string(columns)
	}
	for name, want := range map[string]string{
		"@":  `[{"r":[0],"a":[1]},{"r":[0],"a":[1]},{"r":[0],"a":[3]}]`,
		"@h": `[{"r":[0],"a":[2],"b":[0]},{"r":[0],"a":[2],"b":[0]},{"r":[0],"a":[2],"b":[0]}]`,
	} {
		if got[name] != want {
			t.Errorf("%s: got %s, want %s", name, got[name], want)
		}
	}
	// A part of the run has what was in it.
	d, _, err = Page("x.jsonl", strings.NewReader(text), Options{To: Moment{Since: 2500 * time.Millisecond, Given: true}})
	if err != nil || len(d.Maps) == 0 || len(d.Maps[0].Columns) != 2 {
		t.Errorf("a part: %+v, %v", d, err)
	}
	if d, _, err := Page("x.jsonl", strings.NewReader("nothing\n"), Options{}); d != nil || err == nil {
		t.Errorf("a file that is not a recording: %v, %v", d, err)
	}
}

// TestPageClauses checks which maps a clause of a script changes.
func TestPageClauses(t *testing.T) {
	text := strings.SplitAfter(small, "\n")
	d, _, err := Page("x.jsonl", strings.NewReader(strings.Join(text, "")), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Script.Clauses) == 0 {
		t.Fatalf("no clauses in %q", d.Script.Source)
	}
	all := map[string]bool{}
	for _, c := range d.Script.Clauses {
		for _, m := range c.Maps {
			all[m] = true
		}
	}
	for _, m := range d.Maps {
		if !all[m.Name] && strings.Contains(d.Script.Source, m.Name) {
			t.Errorf("no clause changes %s: %+v", m.Name, d.Script.Clauses)
		}
	}
}

// TestFoldStacks checks how a text with stacks becomes a line.
func TestFoldStacks(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"7 sh \n\ta+1\n\tb+2\n\n", "7 sh a+1 ← b+2\n"},
		{"\n\ta\n\tb\n\tc\n\td\n", "a ← b ← c ← …\n"},
		{"\n\ta\n\tb\n\tc\n\td\n\te\n\tf\n x\nsh\n\tg\n", "a ← b ← c ← … sh g\n"},
		{"x", "x"}, {"", ""}, {"\n", "\n"},
	} {
		if got := string(foldStacks([]byte(tc.text))); got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.text, got, tc.want)
		}
	}
}

// TestPageStacks checks the stacks that a script prints: each is at the time that the script printed, or at which it was read, below
// its process, with its duration if it has one; and it is one line.
func TestPageStacks(t *testing.T) {
	const stack = `{"id": 5, "pid": 7, "frames": [0, 1]}], "frames": [{"sym": "read", "address": 1}, {"sym": "main", "address": 2}]}`
	event := func(at string, args string) string {
		return `{"type": "printf", "time": "2026-11-28T09:00:` + at + `Z", "line": 1, "col": 9, "probes": [], "event": 0, "data": "", "args": [` + args + stack + "\n"
	}
	recording := func(body, format, fields string, events ...string) string {
		head := strings.NewReplacer(`"source":"begin { }"`, `"source":`+strconv.Quote("begin { "+body+" }"), `"format":"%s %d\n"`, `"format":`+strconv.Quote(format),
			`"fields":[{"off":8,"layout":{"kind":"string","size":16}},{"off":24,"layout":{"kind":"int","size":4}}],"size":32,"pos":{"line":1,"col":1}`, `"fields":[`+fields+`],"size":64,"pos":{"line":1,"col":9}`,
			`"maps":[`, `"maps":[{"name":"ustack_8","symbol":"ustack_8_fba00f","shape":"stack","type":"hash","key_size":8,"value_size":64,"max_entries":4096,"value_off":0,"present":-1,"gens":1,"depth":8,"user":true,"pos":{"line":0,"col":0}},`,
			`"programs":[]`, `"programs":[{"name":"p","section":"s","kind":"begin","prog_type":"raw_tp","clause":0,"attach":{"text":"begin"},"pos":{"line":1,"col":1}}]`).Replace(strings.SplitAfter(small, "\n")[0])
		return head + strings.Join(events, "")
	}
	const layout = `{"off":8,"layout":{"kind":"string","size":16}},{"off":24,"layout":{"kind":"int","size":8}},{"off":32,"layout":{"kind":"ustack","size":16,"stack":"ustack_8","depth":8,"mode":"bpftrace"}}`
	for _, tc := range []struct{ name, body, format, want string }{
		// The second event was read late, in the order in which btrun got it.
		{"clock", `printf("%s %llu %s", comm, nsecs, ustack);`, "%s %llu %s", `count  [0 0] [1000000 500000] true [1000000 500000]`},
		{"read", `printf("%s %llu %s", comm, rand, ustack);`, "%s %llu %s", `count  [0 0] [1000000 1000000] false [1000000 1000000]`},
		{"duration", `printf("%s %llu %s", comm, nsecs - @a, ustack);`, "%s %llu %s", `sum ns [0 0] [1000000 1000000] false [1000000 1000000] 3000000000 3500000000`},
	} {
		d, _, err := Page("x.jsonl", strings.NewReader(recording(tc.body, tc.format, layout, event("01", `"sh", 3000000000, `), event("02", `"sh", 3500000000, `))), Options{})
		if err != nil {
			t.Fatal(tc.name, err)
		}
		var names []string
		for _, m := range d.Maps {
			names = append(names, m.Name)
			if !m.Events {
				continue
			}
			s := m.Samples
			got := fmt.Sprint(m.Shape, " ", m.Unit, " ", s.Row, " ", s.T, " ", s.Clock, " ", d.Events.T)
			for _, n := range s.A {
				got += fmt.Sprint(" ", n.Value)
			}
			if got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
			}
			path := ""
			for _, f := range m.Tree.Frame {
				path += d.Frames[f].Kind + ":" + d.Frames[f].Name + " "
			}
			if path != "l:sh u:main u:read " || m.Keys[0].Name != "comm" {
				t.Errorf("%s: the stack is %s", tc.name, path)
			}
		}
		if text := d.Events.Texts[0]; !strings.HasPrefix(text, "sh 3000000000 ") || !strings.Contains(text, "read+0 ← main+0") || len(d.Events.T) != 2 {
			t.Errorf("%s: the lines are %q", tc.name, d.Events.Texts)
		}
		if c := d.Script.Clauses[0]; len(c.Maps) != 1 || c.Maps[0] != "stacks of begin" {
			t.Errorf("%s: the clause makes %v of %v", tc.name, c.Maps, names)
		}
	}
}
