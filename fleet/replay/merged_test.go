// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"btc/fleet/merge"
	"btc/loader/output"
)

// report returns the report of runs as a recording, and as text.
func report(runs *merge.Runs) (recording, text string) {
	at := time.Unix(1, 0)
	recording = string(merge.AppendFinal(runs.AppendHead(nil, at, nil), at))
	names, _ := runs.Names()
	for _, name := range names {
		recording += string(runs.AppendJSON(nil, name, at))
		text += string(runs.AppendText(nil, name)) + "\n"
	}
	return recording, text
}

// TestMerged checks that a merged report replays: as btc merge prints it, with and without --by host, and with the stacks
// of the hosts.
func TestMerged(t *testing.T) {
	for _, byHost := range []bool{false, true} {
		runs := &merge.Runs{ByHost: byHost}
		for host := range 2 {
			text := strings.ReplaceAll(small, `"host": "vm"`, fmt.Sprintf(`"host": "h%d"`, host))
			text = strings.ReplaceAll(text, `"key":{"kind":"int","size":8,"signed":true}`, `"key":{"kind":"kstack","size":8,"stack":"s","depth":2}`)
			text = strings.Replace(text, `"maps":[`, `"maps":[{"name":"s","symbol":"s","shape":"stack","type":"hash","key_size":8,"value_size":16,"max_entries":9,"value_off":0,"present":-1,"gens":1,"depth":2,"pos":{"line":0,"col":0}},`, 1)
			text = strings.Replace(text, `"entries": [{"key": [3], "value": 1}, {"key": [4], "value": 2}]`,
				fmt.Sprintf(`"entries": [{"key": [{"id": %d, "frames": [1,0]}], "value": 1}, {"key": [{"id": 9, "frames": [0]}], "value": 2}], "frames": [{"sym": "main", "offset": 1, "address": %d}, {"sym": "f", "offset": 2, "address": 7}]`, host+3, host+100), 1)
			if out, _, err := replayText(text, Options{}); err != nil || !strings.Contains(out, "@[\n        f+2\n        main+1\n]: 1\n") {
				t.Fatalf("%q, %v", out, err)
			}
			if _, err := runs.Read("r", strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		recording, want := report(runs)
		out, cut, err := replayText(recording, Options{})
		if err != nil || cut || out != want {
			t.Errorf("by host %v: %v, cut %v\n%s\nwant\n%s\nrecording\n%s", byHost, err, cut, out, want, recording)
		}
		line := strings.SplitAfter(small, "\n")[1]
		head, rest, _ := strings.Cut(recording, "\n")
		event := strings.Replace(line, `{"type": "printf"`, `{"type": "printf", "host": "h\u001b1"`, 1)
		if out, _, err := replayText(head+"\n"+event+rest, Options{Escape: true}); err != nil || !strings.HasPrefix(out, "h\\x1b1: bash 7\n@") {
			t.Errorf("an event of a host: %v\n%s", err, out)
		}
		for _, f := range output.Formats {
			if _, _, err := replayText(recording, Options{Format: f}); err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
	}
}

// TestMergedSeries checks that the series of a map without keys replays: as btc merge prints it, with and without --by host.
func TestMergedSeries(t *testing.T) {
	const series = `{"name":"@t","symbol":"AT_t","shape":"tseries","type":"percpu_hash","key_size":8,"value_size":24,"max_entries":5,"key":{"kind":"tuple","size":8,"fields":[{"off":0,"layout":{"kind":"int","size":8}}]},"key_names":["interval"],"value":{"kind":"int","size":8,"signed":true},"value_off":0,"present":-1,"gens":1,"interval":1000000000,"intervals":5,"agg":"sum","pos":{"line":1,"col":1}},`
	const values = `{"type": "map", "time": "2026-11-28T09:00:05Z", "name": "@t", "shape": "tseries", "object": "16", "host": "vm", "signed": true, "interval": 1000000000, "intervals": 5, "agg": "sum", "key_names": ["interval"], "last": "2026-11-28T09:00:05Z", "entries": [{"value": [{"start": "2026-11-28T09:00:04Z", "value": 4},{"start": "2026-11-28T09:00:05Z", "value": 10}]}]}` + "\n"
	zone := time.Local // btc merge prints times in it
	time.Local = time.FixedZone("CET", 3600)
	defer func() { time.Local = zone }()
	text := strings.Replace(small, `"maps":[`, `"maps":[`+series, 1)
	text = strings.Replace(text, `{"type": "map"`, values+`{"type": "map"`, 1)
	for _, byHost := range []bool{false, true} {
		runs := &merge.Runs{ByHost: byHost}
		for _, host := range []string{"h0", "h1"} {
			if _, err := runs.Read("r", strings.NewReader(strings.ReplaceAll(text, `"host": "vm"`, `"host": "`+host+`"`))); err != nil {
				t.Fatal(err)
			}
		}
		recording, want := report(runs)
		if out, cut, err := replayText(recording, Options{}); err != nil || cut || out != want {
			t.Errorf("by host %v: %v, cut %v\n%s\nwant\n%s\nrecording\n%s", byHost, err, cut, out, want, recording)
		}
	}
}

// TestMergedOrder checks that elements of equal values replay in the order in which btc merge prints them: by the parts of
// their keys that a run orders by, and then by the texts of the others.
func TestMergedOrder(t *testing.T) {
	const key = `"key":{"kind":"tuple","size":24,"fields":[{"off":0,"layout":{"kind":"kstack","size":8,"stack":"s","depth":2}},{"off":8,"layout":{"kind":"string","size":16}}]}`
	base := strings.ReplaceAll(small, `"key":{"kind":"int","size":8,"signed":true}`, key)
	base = strings.Replace(base, `"key_size":8`, `"key_size":24`, 1)
	base = strings.Replace(base, `"maps":[`, `"maps":[{"name":"s","symbol":"s","shape":"stack","type":"hash","key_size":8,"value_size":16,"max_entries":9,"value_off":0,"present":-1,"gens":1,"depth":2,"pos":{"line":0,"col":0}},`, 1)
	for _, byHost := range []bool{false, true} {
		runs := &merge.Runs{ByHost: byHost}
		for host, entries := range []string{
			`{"key": [{"id": 3, "frames": [1]}, "b"], "value": 1}, {"key": [{"id": 4, "frames": [0]}, "b"], "value": 1}, {"key": [{"id": 0, "frames": []}, "b"], "value": 1}`,
			`{"key": [{"id": 1, "frames": [1,0]}, "a"], "value": 1}, {"key": [{"id": 2, "frames": [0]}, "c"], "value": 1}`,
		} {
			text := strings.Replace(base, `"entries": [{"key": [3], "value": 1}, {"key": [4], "value": 2}]`,
				`"entries": [`+entries+`], "frames": [{"sym": "x", "offset": 1, "address": 7}, {"sym": "y", "offset": 2, "address": 9}]`, 1)
			if _, err := runs.Read(fmt.Sprint("h", host), strings.NewReader(strings.ReplaceAll(text, `"host": "vm"`, fmt.Sprintf(`"host": "h%d"`, host)))); err != nil {
				t.Fatal(err)
			}
		}
		recording, want := report(runs)
		if !byHost && !strings.HasPrefix(want, "@[\n        y+2\n        x+1\n, a]: 1\n@[\n, b]: 1\n@[\n        x+1\n, b]: 1\n@[\n        y+2\n, b]: 1\n@[\n        x+1\n, c]: 1\n") {
			t.Errorf("merged:\n%s", want)
		}
		if out, _, err := replayText(recording, Options{}); err != nil || out != want {
			t.Errorf("by host %v: %v\n%s\nwant\n%s\nrecording\n%s", byHost, err, out, want, recording)
		}
	}
}

// TestMergedStackValues checks that stacks as values, which btc merge shows with --by host, replay as it prints them.
func TestMergedStackValues(t *testing.T) {
	text := strings.Replace(small, `"shape":"count","type":"percpu_hash","key_size":8,"value_size":8`, `"shape":"plain","type":"hash","key_size":8,"value_size":8`, 1)
	text = strings.Replace(text, `"value":{"kind":"int","size":8}`, `"value":{"kind":"kstack","size":8,"stack":"s","depth":2}`, 1)
	text = strings.Replace(text, `"maps":[`, `"maps":[{"name":"s","symbol":"s","shape":"stack","type":"hash","key_size":8,"value_size":16,"max_entries":9,"value_off":0,"present":-1,"gens":1,"depth":2,"pos":{"line":0,"col":0}},`, 1)
	text = strings.Replace(text, `"shape": "count"`, `"shape": "plain"`, 1)
	text = strings.Replace(text, `"entries": [{"key": [3], "value": 1}, {"key": [4], "value": 2}]`,
		`"entries": [{"key": [3], "value": {"id": 3, "frames": [1,0]}}, {"key": [4], "value": {"id": 0, "frames": []}}], "frames": [{"sym": "x", "offset": 1, "address": 7}, {"sym": "y", "offset": 2, "address": 9}]`, 1)
	runs := &merge.Runs{ByHost: true}
	if _, err := runs.Read("h", strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	recording, want := report(runs)
	if out, _, err := replayText(recording, Options{}); err != nil || out != want || !strings.Contains(out, "y+2\n        x+1\n\n") {
		t.Errorf("%v\n%s\nwant\n%s\nrecording\n%s", err, out, want, recording)
	}
}

// TestMixedVersions checks that a report of runs of versions 1 and 2 replays, with the stacks of both as the same ones.
func TestMixedVersions(t *testing.T) {
	second := strings.ReplaceAll(small, `"key":{"kind":"int","size":8,"signed":true}`, `"key":{"kind":"kstack","size":8,"stack":"s","depth":2}`)
	second = strings.Replace(second, `"maps":[`, `"maps":[{"name":"s","symbol":"s","shape":"stack","type":"hash","key_size":8,"value_size":16,"max_entries":9,"value_off":0,"present":-1,"gens":1,"depth":2,"pos":{"line":0,"col":0}},`, 1)
	second = strings.Replace(second, `"entries": [{"key": [3], "value": 1}, {"key": [4], "value": 2}]`,
		`"entries": [{"key": [{"id": 3, "frames": [1,0]}], "value": 1}], "frames": [{"sym": "main", "offset": 1, "address": 7}, {"sym": "f", "offset": 2, "address": 9}]`, 1)
	first := `{"type": "map", "time": "2026-11-28T09:00:05Z", "name": "@", "shape": "count", "object": "16", "host": "old", "signed": false, "entries": [{"key": [{"addresses": [100,101], "frames": ["f+2","main+1"], "text": "\n        f+2\n        main+1\n"}], "value": 4}]}` + "\n"
	for _, order := range [][]string{{first, second}, {second, first}} {
		runs := &merge.Runs{}
		for i, text := range order {
			if _, err := runs.Read(fmt.Sprint("host", i), strings.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
		recording, _ := report(runs)
		out, _, err := replayText(recording, Options{})
		if err != nil || !strings.HasPrefix(out, "@[\n        f+2\n        main+1\n]: 5\n") {
			t.Errorf("%v\n%s\n%s", err, out, recording)
		}
		if folded, _, err := replayText(recording, Options{Format: output.Find("folded"), Map: "@"}); err != nil || folded != "main_[k];f_[k] 5\n" {
			t.Errorf("%v, %q", err, folded)
		}
	}
}

// TestMergedEmptyStack checks that a stack without frames, such as that of the kernel of a sample in user code, is not
// a lost one after a merge, whose values have no IDs.
func TestMergedEmptyStack(t *testing.T) {
	text := strings.Replace(small, `"key_size":8,"value_size":8,"max_entries":4096,"key":{"kind":"int","size":8,"signed":true}`,
		`"key_size":16,"value_size":8,"max_entries":4096,"key":{"kind":"tuple","size":16,"fields":[{"off":0,"layout":{"kind":"kstack","size":8,"stack":"s","depth":2}},{"off":8,"layout":{"kind":"kstack","size":8,"stack":"s","depth":2}}]}`, 1)
	text = strings.Replace(text, `"maps":[`, `"maps":[{"name":"s","symbol":"s","shape":"stack","type":"hash","key_size":8,"value_size":16,"max_entries":9,"value_off":0,"present":-1,"gens":1,"depth":2,"pos":{"line":0,"col":0}},`, 1)
	text = strings.Replace(text, `"entries": [{"key": [3], "value": 1}, {"key": [4], "value": 2}]`,
		`"entries": [{"key": [{"id": 3, "frames": [0]},{"id": 0, "frames": []}], "value": 5}], "frames": [{"sym": "main", "offset": 1, "address": 7}]`, 1)
	runs := &merge.Runs{}
	for _, host := range []string{"a", "b"} {
		if _, err := runs.Read(host, strings.NewReader(strings.ReplaceAll(text, `"host": "vm"`, `"host": "`+host+`"`))); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Unix(1, 0)
	merged := string(merge.AppendFinal(runs.AppendHead(nil, at, nil), at)) + string(runs.AppendJSON(nil, "@", at))
	for recording, want := range map[string]string{text: "main_[k] 5\n", merged: "main_[k] 10\n"} {
		if folded, _, err := replayText(recording, Options{Format: output.Find("folded"), Map: "@"}); err != nil || folded != want {
			t.Errorf("%v, %q, want %q", err, folded, want)
		}
	}
}
