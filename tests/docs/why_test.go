// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"strings"
	"testing"

	"btc/loader/why"
	"btc/tests/docs/generated"
)

// TestDocumentCauses writes the table of causes that btrun --why knows.
func TestDocumentCauses(t *testing.T) {
	var b strings.Builder
	part := func(partial bool) {
		b.WriteString("| it applies if | sentence |\n|---|---|\n")
		for _, c := range why.Causes {
			if c.Partial == partial {
				b.WriteString(generated.Row(c.When, generated.Escape(c.Sentence)))
			}
		}
	}
	b.WriteString("Causes of missing output:\n\n")
	part(true)
	b.WriteString("\nCauses of no output:\n\n")
	part(false)
	generated.Check(t, "../../docs/howto/why.md", map[string]string{"causes": b.String()}, *update)
}
