// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"testing"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
)

// TestFormatFacts formats every program of the unit facts that parses. The result must parse, keep all
// comments, and not change when it is formatted again.
func TestFormatFacts(t *testing.T) {
	dir := checkout(t)
	n := 0
	for _, f := range factFiles {
		x, err := extract(dir, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range x.facts {
			script := parseOnly(c.text)
			if script == nil {
				continue
			}
			n++
			once := printed(t, script)
			again := parseOnly(once)
			if again == nil {
				t.Errorf("%s: the formatted program does not parse:\n%s\n%s", c.key(), c.text, once)
				continue
			}
			if twice := printed(t, again); twice != once {
				t.Errorf("%s: not stable:\n%s\n%s", c.key(), once, twice)
			}
			if len(again.Comments) != len(script.Comments) {
				t.Errorf("%s: %d comments, %d after formatting:\n%s", c.key(), len(script.Comments), len(again.Comments), once)
			}
		}
	}
	if n == 0 {
		t.Error("no programs")
	}
	t.Logf("%d programs", n)
}

// parseOnly returns nil for a program with errors.
func parseOnly(text string) *ast.Script {
	diags := new(diag.List)
	s := parse.Script(diag.NewSource("x.bt", text), diags, expand.Values(check.IsValue))
	if diags.HasErrors() {
		return nil
	}
	return s
}

func printed(t *testing.T, s *ast.Script) string {
	t.Helper()
	var b strings.Builder
	if err := ast.Fprint(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
