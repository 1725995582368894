// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/tests/perfetto"
)

// shortRun is a recording of a run that printed as JSON.
const shortRun = `{"type": "head", "version": 2, "time": "2026-11-28T09:00:00Z", "host": "vm", "name": "a", "format": "json", "manifest": {"schema":"btc/1","compiler":"btc devel","language":"0.27.1","object":{"sha256":"169306c67da238b907b00e7c87e274fd7834a0e08716b5edc7833f55e8b15d2e","size":4808},"script":{"file":"x.bt","source":"begin { }"},"programs":[],"maps":[],"events":[],"arches":["x86_64"],"target":"6.1","config":{"max_strlen":64,"print_maps_on_exit":true,"str_trunc_trailer":"..","cpp_demangle":true}}}
{"type": "attached_probes", "time": "2026-11-28T09:00:01Z", "count": 3}
`

// TestReplayOutput checks that a replay does not write to the file that it reads, that a recording that is refused leaves
// the file of -o as it is, and that the default of the format is that of the run.
func TestReplayOutput(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	put := func(name, text string) string {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	run, bad := put("run.jsonl", shortRun), put("bad.jsonl", strings.Replace(shortRun, "btc/1", "x", 1))
	if err := os.Link(run, path("link.svg")); err != nil {
		t.Fatal(err)
	}
	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	var err error
	if os.Stdin, err = os.Open(run); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ in, out, form, want, err string }{
		{run, run, "", shortRun, "-o: " + run + " is the recording"},
		{run, path("link.svg"), "", shortRun, "is the recording"},
		{"-", run, "", shortRun, "is the recording"},
		{bad, put("old", "old"), "", "old", "its manifest"},
		{bad, path("new"), "", "", "its manifest"},
		{run, path("out"), "", `{"type": "attached_probes", "count": 3, "data": {"probes": 3}}` + "\n", ""},
		{run, put("old", "old"), "json", `{"type": "attached_probes", "count": 3, "data": {"probes": 3}}` + "\n", ""},
	} {
		err := (&replayOptions{form: tc.form, file: tc.out}).replay(tc.in)
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%s, -o %s: %v, want %s", tc.in, tc.out, err, tc.err)
		}
		b, err := os.ReadFile(tc.out)
		if string(b) != tc.want || os.IsNotExist(err) != (tc.want == "") {
			t.Errorf("%s, -o %s: %q, %v; want %q", tc.in, tc.out, b, err, tc.want)
		}
	}
}

// shortFile writes a short recording to a directory of its own.
func shortFile(t *testing.T) (dir, run string) {
	dir = t.TempDir()
	run = filepath.Join(dir, "run.jsonl")
	if err := os.WriteFile(run, []byte(shortRun), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, run
}

// TestReplayLines checks that a name that ends in .jsonl gets lines of json2, unless -f says otherwise.
func TestReplayLines(t *testing.T) {
	dir, run := shortFile(t)
	for _, tc := range []struct {
		name, form string
		lines      bool
	}{{"x.jsonl", "", true}, {"x.jsonl", "text", false}, {"x.txt", "", false}} {
		file := filepath.Join(dir, tc.name)
		if err := (&replayOptions{form: tc.form, file: file}).replay(run); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if is := bytes.Contains(text, []byte(`{"type": "head"`)); err != nil || is != tc.lines {
			t.Errorf("-o %s -f %q: %v\n%s", tc.name, tc.form, err, text)
		}
	}
}

// TestReplayTimeline checks which names of files select a timeline, and that it is compressed by its name.
func TestReplayTimeline(t *testing.T) {
	dir, run := shortFile(t)
	for _, tc := range []struct {
		name, form string
		timeline   bool
	}{
		{"x.pftrace", "", true}, {"x.perfetto-trace", "", true}, {"x.pftrace.gz", "", true}, {"x.pftrace.zst", "", true}, {"x", "perfetto", true},
		{"x.pftrace", "json", false}, {"pftrace", "", false},
	} {
		file := filepath.Join(dir, tc.name)
		if err := (&replayOptions{form: tc.form, file: file}).replay(run); err != nil {
			t.Fatal(err)
		}
		in, err := openRecording(file)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(in)
		in.Close()
		if err != nil {
			t.Fatal(err)
		}
		x, err := perfetto.Read(data)
		if is := err == nil && len(x.Events) == 1 && x.Events[0].Name == "attached_probes"; is != tc.timeline {
			t.Errorf("-o %s -f %q: %v, %+v", tc.name, tc.form, err, x)
		}
		if compressed := strings.HasSuffix(tc.name, ".gz") || strings.HasSuffix(tc.name, ".zst"); compressed {
			if raw, _ := os.ReadFile(file); bytes.Equal(raw, data) {
				t.Errorf("%s is not compressed", tc.name)
			}
		}
		os.Remove(file)
	}
}

// TestReplayBuckets checks that a replay has the bounds of the run, or those of its own option, which only metrics have.
func TestReplayBuckets(t *testing.T) {
	text, err := os.ReadFile("testdata/biostacks.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	chosen := filepath.Join(dir, "chosen.jsonl")
	if err := os.WriteFile(chosen, bytes.Replace(text, []byte(`"max_series": 0`), []byte(`"max_series": 0, "buckets": "1us..1ms/2"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file, buckets string
		want          int // buckets of a key
	}{{"testdata/biostacks.jsonl", "", 66}, {"testdata/biostacks.jsonl", "1..8", 5}, {chosen, "", 8}, {chosen, "1..8", 5}} {
		r := &replayOptions{form: "prometheus", file: filepath.Join(dir, "out")}
		if err := setBuckets(&r.buckets)(c.buckets); err != nil {
			t.Fatal(err)
		}
		err := r.replay(c.file)
		out, err2 := os.ReadFile(r.file)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if keys, n := bytes.Count(out, []byte("_us_count{")), bytes.Count(out, []byte("_us_bucket{")); keys == 0 || n != c.want*keys {
			t.Errorf("%s, --buckets=%s: %d buckets of %d keys, want %d of each", c.file, c.buckets, n, keys, c.want)
		}
	}
	r := &replayOptions{form: "text", file: filepath.Join(dir, "out")}
	setBuckets(&r.buckets)("1..8")
	if err := r.replay("testdata/biostacks.jsonl"); err == nil || !strings.Contains(err.Error(), "--buckets needs a metrics format") {
		t.Error(err)
	}
}
