// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"strings"
	"testing"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/parse"
	"btc/tests/filetest/seeds"
)

// FuzzExpand checks that no input makes the expansion panic or loop forever, and that a tree
// without errors contains no macro calls.
func FuzzExpand(f *testing.F) {
	seeds.Add(f, "testdata/*.txtar", ".bt")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<13 || strings.Contains(text, "import") {
			t.Skip("skipped: long inputs find nothing new; imports would read files of this machine")
		}
		l := new(diag.List)
		s := parse.Script(diag.NewSource("fuzz", text), l, isBuiltinValue)
		if s == nil {
			return
		}
		s = Script(s, l, Options{Builtin: builtin, IsValue: isBuiltinValue})
		_ = l.Err()
		if l.HasErrors() {
			return
		}
		for _, item := range s.Items {
			if m, ok := item.(*ast.Macro); ok {
				t.Errorf("macro %s not expanded", m.Name.Text)
			}
		}
	})
}
