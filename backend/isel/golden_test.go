// SPDX-License-Identifier: Apache-2.0

package isel

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/ir"
)

var update = flag.Bool("update", false, "rewrite the expected machine code")

// TestSelected selects testdata/*.txt. Above the line "---" is the IR, below it the expected machine
// code with virtual registers. It also selects the programs of backend/emit; their machine code is in
// the file of the same name with .isel.
func TestSelected(t *testing.T) {
	own, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	emitted, err := filepath.Glob("../emit/testdata/*.txt")
	if err != nil || len(own)+len(emitted) < 10 {
		t.Fatal("no cases", err)
	}
	for _, name := range append(own, emitted...) {
		base := strings.TrimSuffix(filepath.Base(name), ".txt")
		t.Run(base, func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			source, want, found := strings.Cut(string(text), "\n---\n")
			if !found {
				t.Fatal("no line ---")
			}
			got := machineCode(t, source)
			path, content := name, source+"\n---\n"+got
			if strings.HasPrefix(name, "..") {
				path, content = filepath.Join("testdata", base+".isel"), got
				recorded, err := os.ReadFile(path)
				if err != nil && !*update {
					t.Fatal(err)
				}
				want = string(recorded)
			}
			if *update {
				if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("machine code (-want +got):\n%s", d)
			}
		})
	}
}

// machineCode returns the machine code of a module's functions.
func machineCode(t *testing.T, source string) string {
	t.Helper()
	m, err := ir.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	offsets := ir.LayoutGlobals(m)
	var out strings.Builder
	for _, f := range m.Funcs {
		mf, err := Select(f, offsets)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(mf.String())
	}
	return out.String()
}
