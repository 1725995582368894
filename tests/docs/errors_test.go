// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"strings"
	"testing"

	"btc/compile"
	"btc/frontend/diag"
	"btc/ir/kernel"
	"btc/tests/docs/generated"
)

// TestErrors checks that docs/errors.md matches the catalogue of `btc explain`.
func TestErrors(t *testing.T) {
	var list strings.Builder
	for _, info := range diag.Catalogue() {
		list.WriteString(generated.Wrap(fmt.Sprintf("**%s**: %s. %s", info.Code, info.Title, info.Explanation)) + "\n")
		if example := diag.Example(info.Code); example != "" {
			list.WriteString("    " + strings.ReplaceAll(example, "\n", "\n    ") + "\n\n")
		}
	}
	generated.Check(t, "../../docs/errors.md", map[string]string{"catalogue": list.String()}, *update)
}

// unshown are the codes without an example, and why; some have a script that is
// made here.
var unshown = map[diag.Code]struct{ why, script string }{
	diag.NotText:           {"a document is text", "begin { }\x00"},
	diag.StringTooLong:     {"it is too long to show", `begin { print("` + strings.Repeat("a", 100000) + `"); }`},
	diag.BadTarget:         {"it is about a target file", ""},
	diag.TargetUnsupported: {"it needs two targets", ""},
}

// TestExamples compiles the example of each code: it gives that code.
func TestExamples(t *testing.T) {
	x86, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	arm, err := kernel.Default("aarch64")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range diag.Catalogue() {
		script := diag.Example(info.Code)
		if none, ok := unshown[info.Code]; ok {
			if script != "" {
				t.Errorf("%s has an example although %s", info.Code, none.why)
			}
			if script = none.script; script == "" {
				continue
			}
		}
		if script == "" {
			t.Errorf("%s has no example", info.Code)
			continue
		}
		_, diags := compile.Compile(compile.Input{Name: "x.bt", Text: script, Target: x86, Others: []*kernel.Target{arm}, Optional: true})
		found := false
		for _, d := range diags.Sorted() {
			found = found || d.Code == info.Code
		}
		if !found {
			var b strings.Builder
			diag.Render(&b, diags, diag.RenderOptions{})
			t.Errorf("%s: its example gives\n%s\n%s", info.Code, script, &b)
		}
	}
}
