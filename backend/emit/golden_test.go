// SPDX-License-Identifier: Apache-2.0

package emit

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/ir"
)

var update = flag.Bool("update", false, "rewrite the expected assembly")

// TestAssembly compiles testdata/*.txt. Above the line "---" is the IR, below it the expected machine
// code with line records (+1:2 before an instruction).
func TestAssembly(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			source, want, found := strings.Cut(string(text), "\n---\n")
			if !found {
				t.Fatal("no line ---")
			}
			var got strings.Builder
			for _, f := range compile(t, source) {
				got.WriteString(listing(f))
			}
			if *update {
				if err := os.WriteFile(name, []byte(source+"\n---\n"+got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got.String()); diff != "" {
				t.Errorf("assembly (-want +got):\n%s", diff)
			}
		})
	}
}

func compile(t testing.TB, source string) []*Func {
	t.Helper()
	m, err := ir.Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	funcs, err := Module(m, Options{Check: true})
	if err != nil {
		t.Fatal(err)
	}
	return funcs
}

func listing(f *Func) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s: stack %d, calls %v\n", f.Name, f.StackSize, f.Calls)
	lines := f.Lines
	for _, text := range strings.SplitAfter(f.String(), "\n") {
		var slot int
		if _, err := fmt.Sscanf(text, "%d:", &slot); err != nil {
			continue
		}
		pos := ""
		if len(lines) > 0 && lines[0].Insn == slot {
			pos = "+" + lines[0].Pos.String()
			lines = lines[1:]
		}
		fmt.Fprintf(&s, "%-6s%s", pos, text)
	}
	return s.String()
}
