package docs

import (
	"fmt"
	"strings"
	"testing"

	"btc/frontend/diag"
	"btc/tests/docs/generated"
)

// TestErrors holds docs/errors.md to the catalogue of `btc explain`.
func TestErrors(t *testing.T) {
	var list strings.Builder
	for _, info := range diag.Catalogue() {
		fmt.Fprintf(&list, "**%s**: %s. %s\n\n", info.Code, info.Title, info.Explanation)
	}
	generated.Check(t, "../../docs/errors.md", map[string]string{"catalogue": list.String()}, *update)
}
