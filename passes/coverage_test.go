// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"btc/ir"
)

// TestEveryOpHasAFileTest checks that each op of the table occurs in the input of a file test.
func TestEveryOpHasAFileTest(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no file tests: %v", err)
	}
	seen := map[string]bool{}
	word := regexp.MustCompile(`(?m)^  (?:v[0-9]+:\S+(?: \S+\))?\?? = )?([a-z]+)`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, in, _ := strings.Cut(string(data), "-- in --")
		in, _, _ = strings.Cut(in, "\n-- ")
		for _, m := range word.FindAllStringSubmatch(in, -1) {
			seen[m[1]] = true
		}
	}
	for i := range ir.Ops {
		op := ir.Op(i)
		if op != ir.OpInvalid && !op.Info().Inline && !seen[op.String()] {
			t.Errorf("%s is not in any file test", op)
		}
	}
}
