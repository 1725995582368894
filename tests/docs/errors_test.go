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
		list.WriteString(generated.Wrap(fmt.Sprintf("**%s**: %s. %s", info.Code, info.Title, info.Explanation)) + "\n")
	}
	generated.Check(t, "../../docs/errors.md", map[string]string{"catalogue": list.String()}, *update)
}
