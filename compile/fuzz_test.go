// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"btc/targets/kernel"
)

// FuzzCompile compiles any string: the compiler must not panic, must finish in time, and must return an
// object if and only if there is no error.
func FuzzCompile(f *testing.F) {
	files, err := filepath.Glob("../../../tests/corpus/*.bt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		if len(text) < longest {
			f.Add(string(text))
		}
	}
	tgt, err := kernel.Default("x86_64")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > longest || strings.Contains(text, "import") || strings.Contains(text, "include") {
			t.Skip("skipped: long inputs find nothing new; files of this machine are not part of the input")
		}
		began := time.Now()
		out, diags := Compile(Input{Name: "fuzz.bt", Text: text, Target: tgt, Compiler: "test", Verify: true})
		if (out == nil) != diags.HasErrors() {
			t.Errorf("output: %v, errors: %v", out != nil, diags.Err())
		}
		if d := time.Since(began); d > patience {
			t.Errorf("%v for %d bytes", d, len(text))
		}
	})
}

const (
	longest  = 1 << 12
	patience = time.Minute // mostly for the rule check after each pass
)
