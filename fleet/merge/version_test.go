// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"os"
	"strings"
	"testing"
	"time"

	"btc/loader/format"
)

// golden reads runs that btrun of commit 5f9d6a77 wrote: version 1.
func golden(t *testing.T, into *Runs, names ...string) {
	t.Helper()
	for _, name := range names {
		f, err := os.Open("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := into.Read(name, f); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *Runs) all(text bool) string {
	var dst []byte
	names, _ := r.Names()
	for _, name := range names {
		if text {
			dst = r.AppendText(dst, name)
		} else {
			dst = r.AppendJSON(dst, name, time.Unix(1, 0))
		}
	}
	return string(dst)
}

// TestVersion1 checks that runs of version 1 still merge to what they merged to, and that a merged report, which is of
// version 2, merges with them: the stacks of both versions are the same.
func TestVersion1(t *testing.T) {
	want, err := os.ReadFile("testdata/version1.txt")
	if err != nil {
		t.Fatal(err)
	}
	both, first, mixed := &Runs{}, &Runs{}, &Runs{}
	golden(t, both, "version1-host1.jsonl", "version1-host2.jsonl")
	if got := both.all(true); got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	golden(t, first, "version1-host1.jsonl")
	again := first.all(false)
	for _, part := range []string{`"frames": [{"sym": "`, `"key": [{"frames": [0`, `"mode": "perf"`} {
		if !strings.Contains(again, part) {
			t.Errorf("no %s in\n%s", part, again)
		}
	}
	if _, err := mixed.Read("host1", strings.NewReader(strings.ReplaceAll(again, `"host": ""`, `"host": "host1"`))); err != nil {
		t.Fatal(err)
	}
	golden(t, mixed, "version1-host2.jsonl")
	if got := mixed.all(true); got != string(want) {
		t.Errorf("versions 2 and 1: got\n%s\nwant\n%s", got, want)
	}
}

// TestFrameOfText checks that the frames of version 1 are those that it printed.
func TestFrameOfText(t *testing.T) {
	for mode, frames := range map[string][]format.Frame{
		"":                  {{Sym: "a+b", Offset: 3}, {Address: 0x99}, {Address: format.UnwindFailure}},
		format.ModePerf:     {{Address: 0x10, Sym: "f(int, x)", Offset: 3, File: "/a b/c"}, {Address: 0x11, Sym: "g", Offset: 1}, {Address: 0x12}},
		format.ModeRaw:      {{Address: 0x10}},
		format.ModeBuildID:  {{BuildID: "00ffab", FileOffset: 7}, {Address: 0x10}},
		format.ModeBpftrace: {{Sym: "f<a> b", Offset: 0}},
	} {
		for _, f := range frames {
			text := strings.TrimSpace(string(format.AppendStack(nil, []format.Frame{f}, mode)))
			if got := frameOfText(text); got != f {
				t.Errorf("%s: %q is %+v, want %+v", mode, text, got, f)
			}
		}
	}
}

// TestHostileStacks checks that stacks that no run writes are errors.
func TestHostileStacks(t *testing.T) {
	line := func(stack, frames string) string {
		return `{"type": "map", "name": "@", "shape": "count", "object": "ab", "host": "h", "signed": false, "entries": [{"key": [` + stack + `], "value": 1}], "frames": ` + frames + "}\n"
	}
	for text, want := range map[string]string{
		line(`{"id": 1, "frames": [1]}`, `[{"sym": "f", "offset": 1}]`):                          "not in the table",
		line(`{"id": 1, "frames": [-1]}`, `[{"sym": "f", "offset": 1}]`):                         "not in the table",
		line(`{"id": 1, "frames": ["a"]}`, `[]`):                                                 "not in the table",
		line(`{"id": 1, "frames": [0]}`, `[3]`):                                                  "not an object",
		line(`{"id": 1, "frames": [0]}`, `[{"offset": "x"}]`):                                    "not an integer",
		line(`{"id": 1, "frames": [0]}`, `{}`):                                                   "member \"frames\"",
		line(`{"id": 1, "frames": [`+strings.Repeat("0,", maxFrames)+`0]}`, `[{"sym": "f"}]`):    "more than 1024 frames",
		line(`{"id": 1, "frames": [0]}`, `[{"sym": "`+strings.Repeat("x", maxFrameText+1)+`"}]`): "too long",
	} {
		if _, err := (&Runs{}).Read("h", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, want %s", text, err, want)
		}
	}
	defer func(n int) { maxStackText = n }(maxStackText)
	maxStackText = 2 << 20
	big := strings.Repeat("x", maxFrameText-10)
	var entries []string
	for i := range 10 {
		entries = append(entries, `{"key": [{"id": 1, "frames": [`+strings.Repeat("0,", 9)+string(rune('0'+i))+`]}], "value": 1}`)
	}
	text := `{"type": "map", "name": "@", "shape": "count", "object": "ab", "host": "h", "signed": false, "entries": [` + strings.Join(entries, ", ") + `], "frames": [{"sym": "` + big + `"}` + strings.Repeat(`, {"sym": "g"}`, 9) + "]}\n"
	if _, err := (&Runs{}).Read("h", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "more than 2 MiB") {
		t.Errorf("amplified stacks: %v", err)
	}
}
