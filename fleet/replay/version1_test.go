// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"btc/fleet/merge"
	"btc/loader/output"
	"btc/loader/render"
	"btc/tests/perfetto"
)

// golden returns a run that btrun of commit 5f9d6a77 wrote: version 1.
func golden(t *testing.T) string {
	text, err := os.ReadFile("../merge/testdata/version1-host1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestVersion1 replays a run of version 1 in all formats, and checks that its maps are those of a report of it.
func TestVersion1(t *testing.T) {
	runs := &merge.Runs{ByHost: true} // which shows assigned values
	if _, err := runs.Read("h", strings.NewReader(golden(t))); err != nil {
		t.Fatal(err)
	}
	want := "btrun 1\n@calls[c\"d, -2]: 1\n\n\n"
	names, _ := runs.Names()
	for _, name := range names {
		text := string(runs.AppendText(nil, name))
		want += strings.ReplaceAll(strings.ReplaceAll(text, "[host1, ", "["), "[host1]", "")
	}
	var errs strings.Builder
	out, _, err := replayText(golden(t), Options{Err: &errs})
	if out != want || err != nil {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, out, want)
	}
	if lines := strings.Split(errs.String(), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[0], "WARNING: r.jsonl is json2 of version 1") || lines[1] != "Attached 1 probe" {
		t.Errorf("messages %q", errs.String())
	}
	for _, f := range append(output.Formats, NewTimeline()) {
		opts := Options{Format: f}
		if f.Profile {
			opts.Map = "stacks"
		}
		out, _, err := replayText(golden(t), opts)
		if err != nil || out == "" {
			t.Errorf("%s: %v", f.Name, err)
		}
		switch f.Name {
		case "json2":
			if out != golden(t) {
				t.Errorf("json2 is not the lines of the recording:\n%s", out)
			}
		case "folded":
			if out != "k;bpf_prog_test_run_raw_tp_[k];__bpf_prog_test_run_raw_tp_[k];bpf_prog_94d0443f0bb4502c_begin_0_380a20_[k] 1\n" {
				t.Errorf("folded: %s", out)
			}
		case "otlp":
			if !strings.Contains(out, `"host.name","value":{"stringValue":"host1"}`) || !strings.Contains(out, `"host.arch","value":{"stringValue":"unknown"}`) {
				t.Errorf("otlp: %s", out)
			}
		case Timeline:
			x, err := perfetto.Read([]byte(out))
			if err != nil || len(x.Events) != 2 || x.Events[1].Name != "begin" || x.Events[1].Args["text"] != "btrun 1" || x.Events[1].Args["arg2"] != "1" {
				t.Errorf("%v, %+v", err, x)
			}
		}
	}
	if _, _, err := replayText(golden(t), Options{Format: output.Find("folded")}); err == nil || !strings.Contains(err.Error(), "several maps") {
		t.Errorf("a profile of several maps: %v", err)
	}
	if _, _, err := replayText(golden(t), Options{Format: output.Find("folded"), Map: "calls"}); err == nil || !strings.Contains(err.Error(), "calls is not a map") {
		t.Errorf("a profile of another map: %v", err)
	}
}

// TestVersion1IsTheRun checks that a run that writes version 1 replays as the run printed it, as far as version 1 has what
// that takes.
func TestVersion1IsTheRun(t *testing.T) {
	all := kinds
	defer func() { kinds = all }()
	kinds = slices.DeleteFunc(slices.Clone(all), func(k kind) bool { // see lacks
		return k.layout.Kind == "ptr" || k.layout.Kind == "array" || k.layout.Kind == "string" && !utf8.Valid(k.bytes)
	})
	m := script(t)
	for name, report := range reports {
		for _, f := range []*output.Format{&output.Text, output.Find("json")} {
			if name == "print of maps" { // without the zeros of divided histograms
				report = func(r *output.Run, s output.Sink) {
					e := &r.Manifest.Events[len(r.Manifest.Events)-1]
					for i := range r.Manifest.Maps {
						for div := range uint32(7) {
							x := &r.Manifest.Maps[i]
							if x.Shape == "hist" || x.Shape == "min" || x.Shape == "max" { // nor the order of equal quotients
								div = 1
							}
							s.Map(&output.Map{Event: e, Map: x, Elements: elements(x, i), Top: render.Top{Keep: int(div), Div: div, Order: render.Descending}})
						}
					}
				}
			}
			recording := record(m, output.Find(output.Version1), report).out.String()
			want := replacedUTF8(record(m, f, report).out.String())
			switch name {
			case "nothing at the end": // scalars
				continue
			case "tests":
				if f.JSON {
					continue // the output of a test has escapes of its own
				}
			}
			out, _, err := replayText(recording, Options{Format: f, Escape: true})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			out = strings.ReplaceAll(out, "\n22:13:2", "\n23:13:2") // UTC
			if name == "snapshots" {                                // one of them has no maps, and version 1 has no rates
				lacks := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d\n|  0/s$|^\n`)
				out, want = lacks.ReplaceAllString(out, ""), lacks.ReplaceAllString(want, "")
			}
			a, b := strings.SplitAfter(out, "\n"), strings.SplitAfter(want, "\n")
			for i := range max(len(a), len(b)) {
				if i >= len(a) || i >= len(b) || a[i] != b[i] {
					t.Errorf("%s, %s, line %d: %q, want %q", name, f.Name, i+1, a[min(i, len(a)-1)], b[min(i, len(b)-1)])
					break
				}
			}
		}
	}
}

// replacedUTF8 returns text with each byte that is not UTF-8 replaced.
func replacedUTF8(text string) string { return string([]rune(text)) }

// TestVersion1Snapshots checks where snapshots end, and a head after a run without one.
func TestVersion1Snapshots(t *testing.T) {
	const line = `{"type": "map", "time": "2026-11-28T09:00:0%TZ", "name": "@", "shape": "count", "object": "16", "host": "vm", "signed": false, "entries": [{"key": ["a"], "value": %T}]}` + "\n"
	at := func(n string) string { return strings.ReplaceAll(line, "%T", n) }
	const end = `{"type": "end", "time": "2026-11-28T09:00:09Z", "status": 0}` + "\n"
	want := "\n09:00:01\n@[a]: 1\n\n09:00:02\n@[a]: 2\n\n\n@[a]: 3\n"
	for _, text := range []string{at("1") + at("2") + at("3"), at("1") + at("2") + at("3") + end} {
		if out, _, err := replayText(text, Options{}); out != want || err != nil {
			t.Errorf("%v, %q", err, out)
		}
	}
	second, _, err := replayText(small, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if out, _, err := replayText(at("1")+at("3")+small, Options{}); err != nil || !strings.HasSuffix(out, second) || !strings.HasPrefix(out, "\n09:00:01\n@[a]: 1\n") {
		t.Errorf("a head after it: %v, %q", err, out)
	}
	from, _ := ParseMoment("1s")
	if out, _, err := replayText(at("1")+at("2")+at("3"), Options{From: from}); out != "\n09:00:02\n@[a]: 2\n\n\n@[a]: 3\n" || err != nil {
		t.Errorf("a part: %v, %q", err, out)
	}
	if out, _, err := replayText(at("1")+at("2")+at("3"), Options{From: from, Format: output.Find("json2")}); out != at("2")+at("3") || err != nil {
		t.Errorf("a part: %v, %q", err, out)
	}
}

// TestVersion1Hostile checks lines that no run writes.
func TestVersion1Hostile(t *testing.T) {
	line := func(entries string) string {
		return `{"type": "map", "time": "2026-11-28T09:00:01Z", "name": "@", "shape": "plain", "object": "16", "host": "vm", "entries": [` + entries + "]}\n"
	}
	for text, want := range map[string]string{
		line(`{"key": ["a"], "value": 1}, {"key": ["b", 2], "value": 1}`): "not lists with the same number of parts",
		line(`{"key": 7, "value": 1}`):                                    "not lists",
		line(`{"value": 1}, {"value": 2}`):                                "a scalar with several values",
		line(`{"key": ["` + strings.Repeat("x", 1<<20) + `"], "value": 1}` + strings.Repeat(`, {"key": ["a"], "value": 1}`, 2000)): "take more than",
		`{"type": "map", "time": "2026-11-28T09:00:01Z"}`:                                                                          "no map has the shape",
		`{"type": "printf"}`: "not the output of btrun -f json2 or btrun --record",
		`{"type": "printf", "time": "2026-11-28T09:00:01Z", "data": "x"}` + "\n" + `{"type": "printf", "time": "x"}`: "is not a time",
	} {
		if _, _, err := replayText(text, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120s: %v, want %s", text, err, want)
		}
	}
	// Values of several kinds are shown as they are.
	out, _, err := replayText(line(`{"key": ["a"], "value": 1}, {"key": ["b"], "value": [1, "x"]}, {"key": ["c"], "value": {"a": null}}, {"key": ["d"], "value": 1.5}`), Options{})
	if want := "\n\n@[a]: 1\n@[b]: [1, \"x\"]\n@[c]: {\"a\": null}\n@[d]: 1.5\n"; out != want || err != nil {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
	var all bytes.Buffer
	for i := range 1100 {
		all.WriteString(strings.Replace(line(""), `"@"`, `"@`+strings.Repeat("x", i%200)+string(rune('a'+i%26))+strings.Repeat("y", i/200)+`"`, 1))
	}
	if _, _, err := replayText(all.String(), Options{}); err == nil {
		t.Error("more than 1024 maps: no error")
	}
}

// TestVersion1Merged checks that the report of runs of version 1, which has no head, replays as btc merge prints it.
func TestVersion1Merged(t *testing.T) {
	runs := &merge.Runs{}
	for _, host := range []string{"host1", "host2"} {
		if _, err := runs.Read(host, strings.NewReader(strings.ReplaceAll(golden(t), "host1", host))); err != nil {
			t.Fatal(err)
		}
	}
	at := time.Unix(1, 0)
	recording, want := string(merge.AppendFinal(runs.AppendHead(nil, at, nil), at)), "\n\n"
	names, _ := runs.Names()
	for _, name := range names {
		recording += string(runs.AppendJSON(nil, name, at))
		want += string(runs.AppendText(nil, name))
	}
	out, _, err := replayText(recording, Options{})
	if out != want || err != nil {
		t.Errorf("%v\ngot\n%s\nwant\n%s", err, out, want)
	}
}
