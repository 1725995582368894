// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"btc/loader/output"
)

// small is a recording of a run of the object that btc compiled from a script with a stack, a time series and output.
const small = `{"type": "head", "version": 2, "time": "2026-11-28T09:00:00Z", "host": "vm", "kernel": "6.1", "arch": "x86_64", "object": "169306c67da238b907b00e7c87e274fd7834a0e08716b5edc7833f55e8b15d2e", "name": "a", "format": "text", "names": false, "summary": false, "max_series": 0, "sort": "", "str_trunc_trailer": "..", "print_maps_on_exit": true, "args": [], "params": {}, "attach": [], "zone": [{"from": 0, "name": "CET", "offset": 3600}], "manifest": {"schema":"btc/1","compiler":"btc devel","language":"0.27.1","object":{"sha256":"169306c67da238b907b00e7c87e274fd7834a0e08716b5edc7833f55e8b15d2e","size":4808},"script":{"file":"x.bt","source":"begin { }"},"programs":[],"maps":[{"name":"@","symbol":"AT_","shape":"count","type":"percpu_hash","key_size":8,"value_size":8,"max_entries":4096,"key":{"kind":"int","size":8,"signed":true},"value":{"kind":"int","size":8},"value_off":0,"present":-1,"gens":1,"pos":{"line":1,"col":1}},{"name":"@h","symbol":"AT_h","shape":"hist","type":"percpu_array","key_size":4,"value_size":536,"max_entries":1,"value":{"kind":"int","size":8,"signed":true},"value_off":8,"present":0,"gens":1,"pos":{"line":1,"col":1}}],"events":[{"id":0,"kind":"printf","format":"%s %d\n","fields":[{"off":8,"layout":{"kind":"string","size":16}},{"off":24,"layout":{"kind":"int","size":4}}],"size":32,"pos":{"line":1,"col":1}}],"arches":["x86_64"],"target":"6.1","config":{"max_strlen":64,"print_maps_on_exit":true,"str_trunc_trailer":"..","cpp_demangle":true}}}
{"type": "printf", "time": "2026-11-28T09:00:01Z", "line": 1, "col": 1, "probes": ["begin"], "event": 0, "data": "bash 7\n", "args": ["bash", 7]}
{"type": "printf", "time": "2026-11-28T09:00:03Z", "line": 1, "col": 1, "probes": ["begin"], "event": 0, "data": "sh 8\n", "args": ["sh", 8]}
{"type": "snapshot", "time": "2026-11-28T09:00:05Z", "final": true, "losses": [{"cause": "events", "count": 0}]}
{"type": "map", "time": "2026-11-28T09:00:05Z", "name": "@", "shape": "count", "object": "16", "host": "vm", "signed": false, "entries": [{"key": [3], "value": 1}, {"key": [4], "value": 2}]}
{"type": "map", "time": "2026-11-28T09:00:05Z", "name": "@h", "shape": "hist", "object": "16", "host": "vm", "signed": true, "bits": 0, "entries": [{"value": [{"min": 4, "max": 7, "count": 1}]}]}
{"type": "end", "time": "2026-11-28T09:00:06Z", "status": 0}
`

func replayText(text string, opts Options) (string, bool, error) {
	var out strings.Builder
	opts.Out = &out
	if opts.Err == nil {
		opts.Err = io.Discard
	}
	cut, err := Run("r.jsonl", strings.NewReader(text), opts)
	return out.String(), cut, err
}

// TestHostile checks that a recording that no run writes is an error with its line, after the output of what precedes it.
func TestHostile(t *testing.T) {
	whole, cut, err := replayText(small, Options{})
	if err != nil || cut || !strings.HasPrefix(whole, "bash 7\nsh 8\n\n\n@[3]: 1\n@[4]: 2\n") {
		t.Fatalf("%q, %v, %v", whole, cut, err)
	}
	for _, tc := range []struct{ old, new, out, err string }{
		{`"version": 2`, `"version": 9`, "", "r.jsonl:1: json2 of version 9"},
		{`"schema":"btc/1"`, `"schema":"x"`, "", "r.jsonl:1: its manifest: "},
		{`{"type": "head"`, `{"type": "map"`, "\n09:00:00\n", "r.jsonl:2: map \"a\": no map has the shape"},
		{`"args": ["sh", 8]`, `"args": ["sh", "x"]`, "bash 7\n", `r.jsonl:3: "\"x\"" is not an integer`},
		{`"args": ["sh", 8]`, `"args": ["sh", 8, 9]`, "bash 7\n", "r.jsonl:3: too many arguments"},
		{`"event": 0, "data": "sh`, `"event": 7, "data": "sh`, "bash 7\n", `r.jsonl:3: an event "7" that the object does not have`},
		{`"event": 0, "data": "sh`, `"event": -1, "data": "sh`, "bash 7\n", "r.jsonl:3: an event"},
		{`"time": "2026-11-28T09:00:03Z"`, `"time": "x"`, "bash 7\n", `r.jsonl:3: "x" is not a time`},
		{`{"type": "printf", "time": "2026-11-28T09:00:03Z"`, `{"type": "pri`, "bash 7\n", "r.jsonl:3: not a line of JSON"},
		{`"name": "@", "shape"`, `"name": "@x", "shape"`, "bash 7\nsh 8\n\n\n", "does not have"},
		{`"key": [4], "value": 2`, `"key": [4], "value": "x"`, "bash 7\nsh 8\n\n\n", "map @: "},
		{`"key": [4], "value": 2`, `"value": 2`, "bash 7\nsh 8\n\n\n", "an entry without a key"},
		{`"min": 4`, `"min": 5`, "bash 7\nsh 8\n\n\n@[3]: 1\n@[4]: 2\n", "no bucket begins at 5"},
		{`"bits": 0, "entries": [`, `"bits": 0, "entries": [{"value": []}, `, "bash 7\nsh 8\n\n\n@[3]: 1\n@[4]: 2\n", "a scalar with several values"},
	} {
		out, _, err := replayText(strings.Replace(small, tc.old, tc.new, 1), Options{})
		if out != tc.out || err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: printed %q, %v; want %q, %s", tc.new, out, err, tc.out, tc.err)
		}
	}
	out, cut, err := replayText(small[:strings.Index(small, `"bits"`)], Options{})
	if err != nil || !cut || out != "bash 7\nsh 8\n\n\n@[3]: 1\n@[4]: 2\n" {
		t.Errorf("cut off: %q, %v, %v", out, cut, err)
	}
	if _, _, err := replayText("", Options{}); err == nil {
		t.Error("no error for an empty file")
	}
}

// TestPieces checks that a recording without the lines after its head replays, as a rotated file does, wherever it begins.
func TestPieces(t *testing.T) {
	m := script(t)
	whole := 0
	for name, report := range reports {
		lines := strings.SplitAfter(record(m, &output.Text, report).rec.String(), "\n")
		for i := 1; i < len(lines); i++ {
			out, _, err := replayed(m, &output.Text, lines[0]+strings.Join(lines[i:], ""))
			if err != nil {
				t.Errorf("%v, without %d lines: %v", name, i-1, err)
			}
			if i > 1 && strings.HasPrefix(lines[i-1], `{"type": "snapshot"`) {
				whole += len(out)
			}
		}
	}
	if whole == 0 {
		t.Error("no map printed whose snapshot is in another file")
	}
	lines := strings.SplitAfter(small, "\n")
	out, _, err := replayText(lines[0]+strings.Join(lines[4:], ""), Options{})
	if !strings.HasPrefix(out, "\n10:00:05\n@[3]: 1\n@[4]: 2\n@h:") || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	// The maps of a snapshot before --from are not those of a later one.
	late := strings.Replace(small, `{"type": "map", "time": "2026-11-28T09:00:05Z", "name": "@"`, `{"type": "map", "time": "2026-11-28T09:00:05.5Z", "name": "@"`, 1)
	from, _ := ParseMoment("5.2s")
	if out, _, err := replayText(late, Options{From: from}); out != "" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
}

// TestObjects checks that the head of an object that has replaced another one begins a replay with its manifest, that a
// head that was repeated does not, and that a run without it ends there.
func TestObjects(t *testing.T) {
	const reload = `{"type": "reload", "time": "2026-11-28T09:00:04Z", "object": "17"}` + "\n"
	lines := strings.SplitAfter(small, "\n")
	other := strings.NewReplacer(`"name":"@h"`, `"name":"@other"`, `"name": "@h"`, `"name": "@other"`, "09:00:00Z", "09:00:04Z").Replace(small)
	want, _, err := replayText(small, Options{})
	if err != nil {
		t.Fatal(err)
	}
	second := strings.ReplaceAll(want, "@h", "@other")
	part := lines[0] + lines[1]
	for _, tc := range []struct{ name, text, want, err string }{
		{"another object", strings.Join(lines[:6], "") + reload + other, want + second, ""},
		{"the same object", part + reload + small, "bash 7\n" + want, ""},
		{"a rotated file", part + lines[0] + strings.Join(lines[2:], ""), want, ""},
		{"the head of the new object in another file than the reload", part + reload + lines[0] + other, "bash 7\n" + second, ""},
		{"no head", part + reload + lines[2], "bash 7\n", "r.jsonl:4: another object replaced"},
		{"no head, in a snapshot", part + strings.Join(lines[3:6], "") + reload + lines[2], "bash 7\n" + strings.TrimPrefix(want, "bash 7\nsh 8\n"), "r.jsonl:7: another object replaced"},
		{"a hostile head", part + reload + strings.Replace(other, "btc/1", "x", 1), "bash 7\n", "r.jsonl:4: its manifest"},
	} {
		out, _, err := replayText(tc.text, Options{})
		if out != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.HasPrefix(err.Error(), tc.err) {
			t.Errorf("%s: %q, %v; want %q, %s", tc.name, out, err, tc.want, tc.err)
		}
	}
	from, _ := ParseMoment("4.5s")
	if out, _, err := replayText(part+reload+other, Options{From: from}); err != nil || out != strings.TrimPrefix(second, "bash 7\nsh 8\n") {
		t.Errorf("times count from the start of the first object: %q, %v", out, err)
	}
}

// TestBounds checks that a small recording cannot take much memory, and that a report of several hosts has the entries of
// all.
func TestBounds(t *testing.T) {
	old := maxDecoded
	maxDecoded = 1 << 20
	defer func() { maxDecoded = old }()
	stacks := strings.ReplaceAll(small, `"key":{"kind":"int","size":8,"signed":true}`, `"key":{"kind":"kstack","size":8,"stack":"s","depth":2}`)
	stacks = strings.Replace(stacks, `"maps":[`, `"maps":[{"name":"s","symbol":"s","shape":"stack","type":"hash","key_size":8,"value_size":16,"max_entries":9,"value_off":0,"present":-1,"gens":1,"depth":2,"pos":{"line":0,"col":0}},`, 1)
	const entries = `"entries": [{"key": [3], "value": 1}, {"key": [4], "value": 2}]`
	list := func(entry string, n int) string {
		return `"entries": [` + strings.Repeat(entry+", ", n-1) + entry + "]"
	}
	two := strings.Replace(small, `"max_entries":4096`, `"max_entries":1`, 1)
	hosts := func(hosts string) string {
		return strings.Replace(two, `"version": 2`, `"version": 2, "merged": true, "hosts": `+hosts, 1)
	}
	const large = "take more than 1 MiB"
	detached := `{"type": "detached", "time": "2026-11-28T09:00:01Z", "probe": "p", "pos": [1, 1, 1], "budget": 1, "share": [1, 1], "from": "2026-11-28T09:00:00Z", "covered_ns": 1}` + "\n"
	head, rest, _ := strings.Cut(small, "\n")
	for _, tc := range []struct{ name, text, err string }{
		{"entries", strings.Replace(small, entries, list(`{"key": [3], "value": 1}`, 4096), 1), ""},
		{"too many entries", strings.Replace(small, entries, list(`{"key": [3], "value": 1}`, 4097), 1), "map @: more than the 4096 entries"},
		{"too many entries of one", two, "map @: more than the 1 entries"},
		{"entries of two hosts", hosts(`["a", "b"]`), ""},
		{"entries of one host", hosts(`["a"]`), "map @: more than the 1 entries"},
		{"entries of an unknown number of hosts", hosts(`[]`), ""},
		{"large keys", strings.Replace(strings.Replace(small, `"key_size":8,"value_size":8,"max_entries":4096,"key":{"kind":"int","size":8,"signed":true}`, `"key_size":4096,"value_size":8,"max_entries":4096,"key":{"kind":"string","size":4096}`, 1), entries, list(`{"key": ["a"], "value": 1}`, 300), 1), large},
		{"frames", strings.Replace(small, entries, entries+`, "frames": [`+strings.Repeat(`{"address": 1}, `, 9000)+`{"address": 2}]`, 1), large},
		{"stacks", strings.Replace(stacks, entries, list(`{"key": [{"id": 1, "frames": [`+strings.Repeat("0, ", 99)+`0]}], "value": 1}`, 3000)+`, "frames": [{"address": 1}]`, 1), large},
		{"detached", head + "\n" + strings.Repeat(detached, 4096) + rest, ""},
		{"too many detached", head + "\n" + strings.Repeat(detached, 4097) + rest, "r.jsonl:4098: the budget has detached more than 4096 probes"},
	} {
		_, _, err := replayText(tc.text, Options{})
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.err)
		}
	}
}

// TestFormat checks the default of the format, and that nothing is opened for a recording that is refused.
func TestFormat(t *testing.T) {
	for format, want := range map[string]string{"text": "text", "json": "json", "otlp": "otlp", "openmetrics": "openmetrics", "json2": "text", "pprof": "text", "json2v1": "text", "none": "text"} {
		got := ""
		_, _, err := replayText(strings.Replace(small, `"format": "text"`, `"format": "`+format+`"`, 1), Options{Open: func(o *Options) error { got += o.Format.Name; return nil }})
		if got != want || err != nil {
			t.Errorf("%s: %s, %v", format, got, err)
		}
	}
	open := func(*Options) error { t.Error("opened"); return nil }
	for _, text := range []string{"", "{}", "x", `{"type": "printf"}`, strings.Replace(small, "btc/1", "x", 1)} {
		if _, _, err := replayText(text, Options{Open: open}); err == nil {
			t.Errorf("%.20q: no error", text)
		}
	}
}

// broken panics when it should write.
type broken struct{ output.Sink }

func (broken) Lost(uint64) { panic("broken") }

// TestPanic checks that what precedes a panic is printed.
func TestPanic(t *testing.T) {
	f := output.Text
	f.New = func(r *output.Run) output.Sink { return broken{output.Text.New(r)} }
	lines := strings.SplitAfter(small, "\n")
	text := strings.Join(lines[:3], "") + `{"type": "lost_events", "time": "2026-11-28T09:00:04Z", "count": 1}` + "\n"
	out, _, err := replayText(text, Options{Format: &f})
	if out != "bash 7\nsh 8\n" || err == nil || err.Error() != "r.jsonl:4: internal error: broken" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestPart checks --from and --to.
func TestPart(t *testing.T) {
	for _, tc := range []struct{ from, to, want string }{
		{"2s", "4s", "sh 8\n"},
		{"2026-11-28T09:00:03Z", "2026-11-28T09:00:03Z", "sh 8\n"},
		{"", "1s", "bash 7\n"},
		{"7s", "", ""},
	} {
		var opts Options
		for text, to := range map[string]*Moment{tc.from: &opts.From, tc.to: &opts.To} {
			if text != "" {
				var err error
				if *to, err = ParseMoment(text); err != nil {
					t.Fatal(err)
				}
			}
		}
		if tc.from == tc.to {
			opts.From = opts.To
		}
		if out, _, err := replayText(small, opts); out != tc.want || err != nil {
			t.Errorf("%s to %s: %q, %v; want %q", tc.from, tc.to, out, err, tc.want)
		}
	}
	for _, text := range []string{small, golden(t)} { // of version 2 and 1
		if _, _, err := replayText(text, Options{From: Moment{Since: 2, Given: true}, To: Moment{Since: 1, Given: true}}); err == nil || !strings.Contains(err.Error(), "--from is later than --to") {
			t.Errorf("from 2ns to 1ns: %v", err)
		}
	}
	if _, err := ParseMoment("noon"); err == nil {
		t.Error("no error for noon")
	}
}

// FuzzRun replays files that nobody wrote.
func FuzzRun(f *testing.F) {
	m := script(f)
	for _, report := range reports {
		lines := strings.SplitN(record(m, &output.Text, report).rec.String(), "\n", 2)
		f.Add(lines[0]+"\n"+lines[1], byte(0))
	}
	f.Add(small, byte(1))
	golden, err := os.ReadFile("../merge/testdata/version1-host1.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for i := range output.Formats {
		f.Add(string(golden), byte(i))
	}
	f.Add(strings.ReplaceAll(small, `"kind":"int"`, `"kind":"kstack"`), byte(4))
	f.Fuzz(func(t *testing.T, text string, form byte) {
		began := time.Now()
		formats := append(output.Formats[:len(output.Formats):len(output.Formats)], NewTimeline())
		_, _, err := replayText(text, Options{Format: formats[int(form)%len(formats)]})
		if err != nil && strings.Contains(err.Error(), "internal error") {
			t.Error(err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%d bytes took %v", len(text), took)
		}
	})
}
