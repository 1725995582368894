// SPDX-License-Identifier: Apache-2.0

package tour

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"btc/tests/docs/generated"
)

var update = flag.Bool("update", false, "rewrite the texts of the stages")

// TestDocument checks the dumps in docs/tour.md against the output of the compiler for the script in
// it.
func TestDocument(t *testing.T) {
	const path = "../../docs/tour.md"
	all, out, err := compileStages("large-reads.bt", documentScript(t, path))
	if err != nil {
		t.Fatal(err)
	}
	maps, code, ok := strings.Cut(last(all), "\n\n")
	if !ok {
		t.Fatal("no blank line between the maps and the code of the IR")
	}
	var passes strings.Builder
	for _, c := range changes(all) {
		name, doc, _ := strings.Cut(c.name, ": ")
		passes.WriteString("**" + name + "**: " + doc + ".\n\n" + generated.Indent(c.text) + "\n")
	}
	generated.Check(t, path, map[string]string{
		"tree":     generated.Indent(find(all, "ast")),
		"high":     generated.Indent(find(all, "input")),
		"passes":   passes.String(),
		"maps":     generated.Indent(maps),
		"core":     generated.Indent(code),
		"isel":     generated.Indent(find(all, "isel")),
		"asm":      generated.Indent(find(all, "asm")),
		"object":   generated.Indent(find(all, "object")),
		"manifest": generated.Indent(parts(t, out.Manifest, "programs", "maps", "losses")),
	}, *update)
}

// documentScript returns the script in the first code block of a document.
func documentScript(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(data), "\n\n    ")
	block, _, end := strings.Cut("    "+rest, "\n\n")
	if !ok || !end {
		t.Fatalf("no code block in %s", path)
	}
	return strings.ReplaceAll("\n"+block+"\n", "\n    ", "\n")[1:]
}

// parts returns some keys of a manifest with their values.
func parts(t *testing.T, manifest []byte, keys ...string) string {
	t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal(manifest, &all); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, k := range keys {
		if v, ok := all[k]; ok {
			b.WriteString("\"" + k + "\": " + strings.ReplaceAll(string(v), "\n  ", "\n") + "\n")
		}
	}
	return b.String()
}

// TestScripts checks the stages of each script in testdata. An archive begins with the script; the rest
// is written by -update.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(files); n == 0 || n > 15 {
		t.Fatalf("%d scripts: keep few, so that they are read", n)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { script(t, path) })
	}
}

func script(t *testing.T, path string) {
	old, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(old.Files) == 0 || old.Files[0].Name != "script.bt" {
		t.Fatal("archive does not begin with script.bt")
	}
	all, out, err := compileStages("script.bt", string(old.Files[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	now := &txtar.Archive{Comment: old.Comment, Files: old.Files[:1:1]}
	put := func(name, text string) {
		now.Files = append(now.Files, txtar.File{Name: name, Data: []byte(strings.TrimRight(text, "\n") + "\n")})
	}
	put("tree", find(all, "ast"))
	put("high IR", find(all, "input"))
	for _, c := range changes(all) {
		put(c.name, c.text)
	}
	put("assembly", find(all, "asm"))
	put("manifest", parts(t, out.Manifest, "programs", "maps", "events", "params", "globals", "losses", "fields"))
	have := string(txtar.Format(now))
	if *update {
		if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := string(txtar.Format(old)); have != want {
		t.Errorf("stages changed (-recorded +now); if intended, run with -update\n%s", cmp.Diff(want, have))
	}
}

// TestCompare checks the output format of compare.
func TestCompare(t *testing.T) {
	have := compare("a\nb\nc\nd", "a\nB\nc\nd\ne")
	if want := "  ...\n- b\n+ B\n  ...\n+ e\n"; have != want {
		t.Errorf("compare() = %q, want %q", have, want)
	}
}
