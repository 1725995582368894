// SPDX-License-Identifier: Apache-2.0

package gengo

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"btc/compile"
	"btc/internal/manifest"
	"btc/targets/kernel"
)

// TestExamples checks that Source is valid Go for each of the examples (otherwise Source panics), and
// that no name in it is declared twice.
func TestExamples(t *testing.T) {
	target, err := kernel.Default(runtime.GOARCH)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	scripts, err := filepath.Glob("../../../examples/*.bt")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out, diags := compile.Compile(compile.Input{Name: path, Text: string(text), Target: target})
		if out == nil {
			t.Fatalf("%s: %v", path, diags)
		}
		m, err := manifest.Parse(out.Manifest)
		if err != nil {
			t.Fatal(err)
		}
		name := Name(strings.TrimSuffix(filepath.Base(path), ".bt"))
		source, err := Source(m, Options{Package: "x", Library: "btc/btrace", Name: name, Object: "x.o", JSON: "x.json", Script: path})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(string(source)) {
			if !strings.HasPrefix(line, "func ") && !strings.HasPrefix(line, "type ") {
				continue
			}
			if line, _, _ = strings.Cut(line, "{"); seen[line] {
				t.Errorf("%s: duplicate declaration: %s", path, line)
			}
			seen[line] = true
		}
		if !seen["type "+name+" struct"] {
			t.Errorf("%s: no type %s", path, name)
		}
	}
}

func TestName(t *testing.T) {
	for text, want := range map[string]string{"slow-reads": "SlowReads", "a_b": "AB", "9p": "X9p", "": "", "-": "", "日": "X日"} {
		if have := Name(text); have != want {
			t.Errorf("Name(%q) = %q, want %q", text, have, want)
		}
	}
}
