// SPDX-License-Identifier: Apache-2.0

package symbolize

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"btc/fleet/replay"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/output"
)

const manifestText = `{
 "schema": "btc/1", "compiler": "btc test", "language": "0.27.1", "object": {"sha256": "169306c67da238b907b00e7c87e274fd7834a0e08716b5edc7833f55e8b15d2e", "size": 1},
 "script": {"file": "x.bt", "source": "profile:hz:99 { @[ustack] = count(); }\n"},
 "programs": [], "maps": [], "events": [], "arches": ["x86_64"], "target": "6.1", "config": {"max_strlen": 64, "print_maps_on_exit": true, "str_trunc_trailer": "..", "cpp_demangle": true}
}`

// recording is a run with one map, whose keys are stacks of frames of a table; mode is how they are printed.
func recording(t testing.TB, frames, mode string, stacks ...string) string {
	t.Helper()
	m, err := manifest.Parse([]byte(manifestText))
	if err != nil {
		t.Fatal(err)
	}
	word := manifest.Layout{Kind: "int", Size: 8}
	stack := manifest.Layout{Kind: "ustack", Size: 16, Stack: "stacks", Depth: 4, Mode: mode}
	m.Maps = []manifest.Map{
		{Name: "stacks", Symbol: "stacks", Type: "hash", KeySize: 8, ValueSize: 32, MaxEntries: 4096, Shape: "stack", Gens: 1, Present: -1, Depth: 4, User: true},
		{Name: "@", Symbol: "AT_", Type: "percpu_hash", KeySize: 16, ValueSize: 8, MaxEntries: 4096, Shape: "count", Gens: 1, Present: -1, Value: &word, Key: &stack, MapNames: manifest.MapNames{KeyNames: []string{"ustack"}}},
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	const at = `"time": "2026-11-28T17:03:22Z"`
	out := fmt.Sprintf(`{"type": "head", "version": 2, %s, "host": "vm", "kernel": "6.1", "arch": "x86_64", "object": "%s", "name": "x", "format": "text", "args": [], "params": {}, "attach": [], "zone": [], "manifest": %s}`, at, m.Object.SHA256, text)
	out += "\n" + `{"type": "snapshot", ` + at + `, "final": true, "losses": []}` + "\n"
	out += `{"type": "map", ` + at + `, "name": "@", "shape": "count", "object": "` + m.Object.SHA256 + `", "host": "vm", "signed": false, "key_names": ["ustack"], "entries": [`
	for i, s := range stacks {
		if i > 0 {
			out += ", "
		}
		word := ""
		if mode != "bpftrace" {
			word = `"mode": "` + mode + `", `
		}
		out += fmt.Sprintf(`{"key": [{"id": %d, "pid": 7, %s"frames": [%s]}], "value": %d}`, i+1, word, s, i+1)
	}
	return out + `], "frames": [` + frames + "]}\n" + `{"type": "end", ` + at + `, "status": 0}` + "\n"
}

// symbolized runs the program on a recording.
func symbolized(t testing.TB, text string, dirs ...string) (string, Counts) {
	t.Helper()
	files, err := NewFiles(dirs, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	var out bytes.Buffer
	counts, cut, err := Run("run.jsonl", strings.NewReader(text), &out, files)
	if err != nil || cut {
		t.Fatal(cut, err)
	}
	return out.String(), counts
}

func replayed(t testing.TB, text, form string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if cut, err := replay.Run("named.jsonl", strings.NewReader(text), replay.Options{Format: output.Find(form), Out: &out, Err: &errs}); err != nil || cut {
		t.Fatalf("%s: %v, %t: %s\n%s", form, err, cut, &errs, text)
	}
	return out.String()
}

// line is the number of a line of source.
func line(text string) int {
	before, _, _ := strings.Cut(source, text)
	return strings.Count(before, "\n") + 1
}

// TestRun checks the frames of a recording in each format of a replay: names of functions that had none, inlined functions,
// lines, and addresses to which a function returns. What is named already stays, and running it again changes nothing.
func TestRun(t *testing.T) {
	tools(t, "gcc", "addr2line")
	dir := t.TempDir()
	p := built(t, dir, "gcc", "-g")
	inside, call := -1, -1
	for i, frames := range expected(t, p, "addr2line", "-a", "-f", "-i", "-e") {
		if strings.HasPrefix(frames[len(frames)-1], "outer ") && len(frames) == 3 && inside < 0 {
			inside = i
		}
		if i > 0 && strings.HasPrefix(frames[len(frames)-1], "main ") && strings.HasSuffix(frames[0], fmt.Sprint(":", line("outer(&v, 2)"))) {
			call = i // the last byte of what belongs to the line of the call
		}
	}
	if inside < 0 || call < 0 {
		t.Skip("skipped: the compiler has not inlined the functions")
	}
	frame := func(offset uint64, more string) string {
		return fmt.Sprintf(`{%s"file": "%s", "build_id": "%s", "file_offset": %d, "address": %d}`, more, p.path, p.id, offset, offset+0x1000)
	}
	frames := strings.Join([]string{
		frame(p.offsets[inside], ""), frame(p.offsets[call]+1, ""), frame(p.offsets[call]+1, `"sym": "other", "offset": 3, `),
		`{"file": "/lib/x.so", "build_id": "abcdef12", "file_offset": 1, "address": 5}`, `{"address": 6}`, `{"address": 18446744073709551615}`,
	}, ", ")
	text := recording(t, frames, "bpftrace", "0,1,3,4,5", "2", "0,0")
	named, counts := symbolized(t, text, dir)
	source := filepath.Join(dir, "a.c")
	inlined := fmt.Sprintf("        leaf (inlined) (%s:", source)
	got := replayed(t, named, "text")
	for _, want := range []string{inlined, "        middle (inlined) (" + source, "        outer+", fmt.Sprintf("        main+%d (%s:%d)", p.addrs[call]+1-start(t, p, "main"), source, line("outer(&v, 2)")),
		"        0x5\n        0x6\n        <unwind failure>\n]: 1\n", "        other+3 ("} {
		if !strings.Contains(got, want) {
			t.Errorf("text: no %q in\n%s", want, got)
		}
	}
	if got := replayed(t, named, "folded"); !strings.Contains(got, ";main;outer;middle_[i];leaf_[i] 1\n") {
		t.Errorf("folded: %s", got)
	}
	pprof, err := profile.Parse(strings.NewReader(replayed(t, named, "pprof")))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range pprof.Function {
		found = found || f.Name == "leaf" && f.Filename == source
	}
	if !found {
		t.Errorf("pprof: %v", pprof)
	}
	if again, _ := symbolized(t, named, dir); again != named {
		t.Errorf("again:\n%s\nwas\n%s", again, named)
	}
	if want := (Counts{Frames: 6, Named: 4, Unknown: 1}); counts != want {
		t.Errorf("%+v, want %+v", counts, want)
	}
	raw := recording(t, frames, "raw", "0,1")
	if named, _ := symbolized(t, raw, dir); replayed(t, named, "text") != replayed(t, raw, "text") {
		t.Errorf("raw stacks have changed: %s", named)
	}
}

func start(t *testing.T, p *program, name string) uint64 {
	t.Helper()
	files, err := NewFiles([]string{p.path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	m := files.find(p.id, p.path)
	for i := range m.named {
		if m.named[i].name == name {
			return m.named[i].addr
		}
	}
	t.Fatal("no ", name)
	return 0
}

// TestBadRecordings checks the errors of what is not a recording of version 2.
func TestBadRecordings(t *testing.T) {
	good := recording(t, `{"address": 1}`, "bpftrace", "0")
	for text, want := range map[string]string{
		"": "not the output", "x\n": "not a line of JSON", `{"a": 1}` + "\n": "not the output",
		`{"type": "map", "time": "t"}` + "\n":                                                    "the first line does not describe the run",
		strings.Replace(good, `"version": 2`, `"version": 1`, 1):                                 "json2 of version 1",
		strings.Replace(good, `"frames": [0]`, `"frames": [1]`, 1):                               "not in the table",
		strings.Replace(good, `{"address": 1}`, `{"address": "x"}`, 1):                           "a frame",
		strings.Replace(good, `"frames": [0]`, `"frames": [0`+strings.Repeat(",0", 1024)+`]`, 1): "more than 1024 frames",
	} {
		files, _ := NewFiles(nil, nil)
		if _, _, err := Run("run.jsonl", strings.NewReader(text), &bytes.Buffer{}, files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q", text, err, want)
		}
	}
}

// FuzzRun rewrites any lines after a head: what comes out is a recording, too, which is rewritten to itself.
func FuzzRun(f *testing.F) {
	head, rest, _ := strings.Cut(recording(f, `{"address": 1}, {"build_id": "abcdef0123", "file_offset": 7, "address": 2}`, "bpftrace", "0,1", "1"), "\n")
	f.Add(rest)
	f.Add(`{"type": "printf", "time": "t", "values": [{"frames": [0], "id": 1}, [{"frames": {}}]], "frames": [{"address": 1, "sym": {"base64": "/w=="}}]}`)
	f.Fuzz(func(t *testing.T, lines string) {
		files, err := NewFiles(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer files.Close()
		var once, twice bytes.Buffer
		if _, _, err := Run("x", strings.NewReader(head+"\n"+lines), &once, files); err != nil {
			return
		}
		if _, _, err := Run("x", bytes.NewReader(once.Bytes()), &twice, files); err != nil || !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Fatalf("%v:\n%s\n%s", err, &once, &twice)
		}
	})
}

// FuzzFile reads any file as a program with debug information.
func FuzzFile(f *testing.F) {
	f.Add([]byte("\x7fELF"), uint64(0x1000))
	f.Fuzz(func(t *testing.T, data []byte, at uint64) {
		e := newELF(bytes.NewReader(data), "x")
		if e == nil {
			return
		}
		m := &module{files: &Files{warned: map[string]bool{}}, name: "/x", all: []*elfFile{e}, layout: e, symbols: e, debug: e}
		m.open()
		for _, offset := range []uint64{at, at >> 1 << 1, 0x40} {
			if got := m.resolve(&format.Frame{BuildID: "00", FileOffset: offset}, true); len(got) == 0 || len(got) > maxInline {
				t.Fatalf("%d frames", len(got))
			}
		}
	})
}

// TestKernel checks that functions of the kernel are found wherever it was in memory, by the distance from _text, and those of its
// modules by their names.
func TestKernel(t *testing.T) {
	tools(t, "gcc", "addr2line")
	dir := t.TempDir()
	p := built(t, dir, "gcc", "-g", "-no-pie", "-Wl,--defsym=_text=0x400000")
	want := expected(t, p, "addr2line", "-a", "-f", "-i", "-e")
	files, err := NewFiles([]string{dir}, func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	for i, addr := range p.addrs {
		x := format.Frame{Sym: "known", Offset: 7, BuildID: p.id, FileOffset: addr - 0x400000, Address: addr + 0x7000000}
		got := files.frames(&x, false)
		last := got[len(got)-1]
		if last.Sym != "known" || last.Offset != 7 || len(got) != len(want[i]) || !strings.HasSuffix(want[i][len(got)-1], fmt.Sprintf("%s:%d", last.Source, last.Line)) {
			t.Fatalf("%#x: %+v, want %q", addr, got, want[i])
		}
	}
	if missing := files.Missing(); len(missing) > 0 {
		t.Errorf("missing %q", missing)
	}
	object := filepath.Join(dir, "module.ko")
	run(t, dir, "gcc", "-O2", "-g", "-c", "-ffunction-sections", "-o", "whole.o", "a.c")
	run(t, dir, "ld", "-r", "--build-id=0x1234567890", "-o", object, "whole.o")
	modules, err := NewFiles([]string{dir}, func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	m := modules.find("1234567890", "module")
	defer m.close()
	for _, name := range []string{"outer", "main"} { // both are at 0 of their sections
		got := m.frames(&format.Frame{Sym: name, Offset: 4, File: "module", BuildID: "1234567890", FileOffset: 99}, false)
		if last := got[len(got)-1]; last.Sym != name || last.Line != 0 && (last.Line < line("int "+name) || last.Line > line("int "+name)+12) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
