// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLicenseHeaders checks that each hand-written source file names its license in its first lines.
func TestLicenseHeaders(t *testing.T) {
	const header = "SPDX-License-Identifier: Apache-2.0"
	for _, pattern := range []string{"*.go", "*.sh", "Makefile", ".ci/run"} {
		for _, name := range tracked(t, pattern) {
			// Examples are kept short, so they have no header. LICENSE applies to them, too.
			if strings.HasPrefix(name, "grammar/parser/") || strings.HasPrefix(name, "examples/") || strings.Contains(name, "/testdata/") {
				continue
			}
			data, err := os.ReadFile(filepath.Join("../..", name))
			if err != nil {
				continue // deleted and not committed yet
			}
			head := string(data[:min(len(data), 400)])
			if !strings.Contains(head, header) && !strings.Contains(head, "DO NOT EDIT") {
				t.Errorf("%s does not begin with %q", name, header)
			}
		}
	}
}
