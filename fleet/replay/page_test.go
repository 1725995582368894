// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/json"
	"fmt"
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
