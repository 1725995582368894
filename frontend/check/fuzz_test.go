// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"

	"btc/tests/filetest/seeds"
)

// FuzzCheck checks that no input makes the checker panic, and that a script without errors has all
// its facts.
func FuzzCheck(f *testing.F) {
	seeds.Add(f, "testdata/*.txtar", "")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<14 {
			t.Skip("skipped: long inputs are slow and find nothing new")
		}
		if info, l := checkText(text); !l.HasErrors() {
			complete(t, info)
		}
	})
}
