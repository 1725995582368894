// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"btc/passes"
	"btc/targets/kernel"
)

// TestSkipPass checks that scripts compile, and obey the kernel's rules, without each of the optional
// passes, and that a skipped pass does not run.
func TestSkipPass(t *testing.T) {
	paths, err := filepath.Glob("../tests/corpus/*.bt")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	target, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	for i, pass := range passes.Optional() {
		ran, changed := map[string]bool{}, 0
		for n := i; n < len(paths); n += 32 { // each pass with other scripts
			path := paths[n]
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			in := Input{Name: "x.bt", Text: string(text), Target: target, Verify: true, SkipPass: pass}
			in.Measure = func(pass string, took time.Duration, n int) {
				ran[pass] = true
				changed += n
			}
			if out, diags := Compile(in); out == nil {
				t.Errorf("%s without %s: %v", path, pass, diags.Err())
			}
		}
		if ran[pass] || !ran["slots"] || changed == 0 {
			t.Errorf("without %s: passes %v ran and changed %d functions", pass, ran, changed)
		}
	}
}
