// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"btc/compile"
	"btc/targets/kernel"
)

var update = flag.Bool("update", false, "rewrite the manifests in testdata")

// TestManifests compiles the scripts in testdata and compares their manifests with those next to them,
// which have an element a line. A comment of the archive says what to look at; its line `targets` lists
// the architectures that the object supports, `suffix` and `prefix` set the names of symbols, `for` and
// `helper-errors` are options of btc compile.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if a.Files[0].Name != "script" {
				t.Fatalf("the first part is %s, want script", a.Files[0].Name)
			}
			in := compile.Input{Name: "x.bt", Text: string(a.Files[0].Data), Compiler: "test", Verify: true, PlainNames: true}
			targets := []string{"x86_64"}
			for line := range strings.Lines(string(a.Comment)) {
				switch words := strings.Fields(line); {
				case len(words) == 0:
				case words[0] == "targets":
					targets = words[1:]
				case words[0] == "suffix":
					in.Suffix, in.PlainNames = words[1], false
				case words[0] == "for":
					in.For = words[1]
				case words[0] == "helper-errors":
					in.HelperErrors = true
				case words[0] == "prefix":
					in.MapPrefix = words[1]
				}
			}
			for i, name := range targets {
				target, err := kernel.Default(name)
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					in.Target = target
				} else {
					in.Others = append(in.Others, target)
				}
			}
			out, diags := compile.Compile(in)
			if out == nil {
				t.Fatal(diags.Err())
			}
			got := onePerLine(t, out.Manifest)
			if len(a.Files) == 2 && string(a.Files[1].Data) == got {
				return
			}
			if *update {
				a.Files = append(a.Files[:1], txtar.File{Name: "manifest", Data: []byte(got)})
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(a.Files) < 2 {
				t.Fatal("no manifest: run with -update")
			}
			t.Errorf("the manifest differs (-want +got; -update rewrites it):\n%s", cmp.Diff(string(a.Files[1].Data), got))
		})
	}
}

// moves matches what changes with each change of generated code.
var moves = regexp.MustCompile(`,"(insn|frame)":\d+|"insn":\d+,`)

// onePerLine lists a manifest: a line for each of its values, and for each element of those that are
// lists. It leaves out what is the same in all, and moves.
func onePerLine(t *testing.T, data []byte) string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"schema", "compiler", "language", "object", "script", "target"} {
		if _, ok := all[name]; !ok {
			t.Errorf("the manifest has no %s", name)
		}
		delete(all, name)
	}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		var list []json.RawMessage
		if json.Unmarshal(all[name], &list) != nil {
			list = []json.RawMessage{all[name]}
		}
		for _, x := range list {
			var line bytes.Buffer
			if err := json.Compact(&line, x); err != nil {
				t.Fatal(err)
			}
			b.WriteString(name + " " + moves.ReplaceAllString(line.String(), "") + "\n")
		}
	}
	return b.String()
}
