// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"btc/compile"
	"btc/frontend/diag"
	"btc/targets/kernel"
	"btc/tests/docs/generated"
)

// TestErrors checks that docs/errors.md matches the catalogue of `btc explain`.
func TestErrors(t *testing.T) {
	var list strings.Builder
	for _, info := range diag.Catalogue() {
		fmt.Fprintf(&list, "### %s: %s\n\n%s\n", info.Code, info.Title,
			generated.Wrap(generated.Escape(info.Explanation)))
		if example, ok := diag.ExampleOf(info.Code); ok {
			list.WriteString(example.Text() + "\n")
		}
	}
	generated.Check(t, "../../docs/errors.md", map[string]string{"catalogue": list.String()}, *update)
}

// TestExamples compiles the examples of each code: the first script must cause an error with this code,
// the second one no message.
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
		example, ok := diag.ExampleOf(info.Code)
		if !ok && info.Code != diag.BadTarget { // about a file
			t.Errorf("%s: no example", info.Code)
		}
		if !ok {
			continue
		}
		optional := example.Options == "" // both architectures, unless the options demand them
		if !optional && example.Options != "--arch x86_64,arm64" {
			t.Errorf("%s: the test does not know the options %q", info.Code, example.Options)
		}
		messages := func(script string) (codes []diag.Code, text string) {
			_, diags := compile.Compile(compile.Input{
				Name: "x.bt", Text: script, Target: x86, Others: []*kernel.Target{arm},
				Optional: optional,
			})
			for _, d := range diags.Sorted() {
				codes = append(codes, d.Code)
			}
			var b strings.Builder
			diag.Render(&b, diags, diag.RenderOptions{})
			return codes, b.String()
		}
		if codes, text := messages(example.Causes); !slices.Contains(codes, info.Code) {
			t.Errorf("%s: messages for its example:\n%s\n%s", info.Code, example.Causes, text)
		}
		if example.Instead == "" {
			continue
		}
		if codes, text := messages(example.Instead); len(codes) > 0 {
			t.Errorf("%s: messages for the script to write instead:\n%s\n%s", info.Code, example.Instead, text)
		}
	}
}
