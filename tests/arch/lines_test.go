// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// docColumns is the maximum line length of documents in columns. Tables and code are exempt. Go code has no limit: a row
// of a table is one line.
const docColumns = 100

func tracked(t *testing.T, pattern string) []string {
	t.Helper()
	out, err := exec.Command("git", "-C", "../..", "ls-files", pattern).Output()
	if err != nil {
		t.Skipf("skipped: no git repository: %v", err)
	}
	return strings.Fields(string(out))
}

// sentenceHeading matches a bullet whose bold heading is a sentence.
var sentenceHeading = regexp.MustCompile(`^\s*[*-] \*\*[^*]*[.:!?]\*\*`)

// TestDocumentLines checks the line length of prose, and that headings of bullets are not sentences.
func TestDocumentLines(t *testing.T) {
	for _, name := range tracked(t, "*.md") {
		if name == "docs/bench/bench.md" { // written by make bench
			continue
		}
		data, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			continue // deleted and not committed yet
		}
		code := false
		for i, line := range strings.Split(string(data), "\n") {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			if code || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "<!--") {
				continue
			}
			if sentenceHeading.MatchString(line) {
				t.Errorf("%s:%d: the heading of a bullet is a sentence: %s", name, i+1, line)
			}
			if n := utf8.RuneCountInString(line); n > docColumns && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%s:%d: %d columns (max %d)", name, i+1, n, docColumns)
			}
		}
	}
}
