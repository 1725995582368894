// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestJSONMembers checks that the page on JSON names each member that the schema has.
func TestJSONMembers(t *testing.T) {
	text, err := os.ReadFile("../../docs/json2.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	var schema any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	n := 0
	var walk func(x any)
	walk = func(x any) {
		switch x := x.(type) {
		case []any:
			for _, y := range x {
				walk(y)
			}
		case map[string]any:
			members, _ := x["properties"].(map[string]any)
			for name := range members {
				if n++; !strings.Contains(string(page), "`"+name+"`") && !strings.Contains(string(page), `"`+name+`"`) {
					t.Errorf("docs/json.md does not name the member %s", name)
				}
			}
			for _, y := range x {
				walk(y)
			}
		}
	}
	walk(schema)
	if n < 50 {
		t.Errorf("the schema has only %d members", n)
	}
}
