// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"os"
	"strings"
	"testing"

	"btc/tests/filetest"
)

// TestFiles runs the file tests of the lowering passes and of the passes after them. There is a
// directory in testdata for each pass.
func TestFiles(t *testing.T) {
	table := map[string]filetest.Pass{}
	for _, p := range Pipeline() {
		table[p.Name] = p.Run
	}
	for name := range table {
		dir := "testdata/" + strings.ReplaceAll(name, "-", "_")
		if _, err := os.Stat(dir); err != nil {
			if name != "budget" { // TestBudget
				t.Errorf("pass %s has no file tests: %v", name, err)
			}
			continue
		}
		if _, ok := optimisations[name]; ok {
			continue // TestOptimisations
		}
		t.Run(name, func(t *testing.T) { filetest.Run(t, dir, table) })
	}
}

func TestBudget(t *testing.T) {
	m := parse(t, `
map (name @, shape count)
func @p prog (kind kprobe)  !2:1 {
b0(v0:ctx):
  count @
  ret 0
}`)
	if err := Run(m, Options{}); err != nil {
		t.Fatal(err)
	}
	n := instructions(m.Funcs[0])
	if n < 10 || n > 30 {
		t.Errorf("estimate for count = %d instructions, want about 14", n)
	}
	if d := overBudget(m, n); len(d) != 0 {
		t.Errorf("error within the budget: %v", d)
	}
	if d := overBudget(m, n-1); len(d) != 1 || d[0].Pos.Line != 2 {
		t.Errorf("over the budget: %v, want one error at line 2", d)
	}
}
