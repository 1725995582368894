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

// Maximum line lengths in columns. Tables and code in documents are exempt, and string
// literals in code do not count.
const (
	docColumns  = 100
	codeColumns = 120
)

func tracked(t *testing.T, pattern string) []string {
	t.Helper()
	out, err := exec.Command("git", "-C", "../..", "ls-files", pattern).Output()
	if err != nil {
		t.Skipf("skipped: no git repository: %v", err)
	}
	return strings.Fields(string(out))
}

// TestDocumentLines checks the line length of prose.
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
			if n := utf8.RuneCountInString(line); n > docColumns && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%s:%d: %d columns (max %d)", name, i+1, n, docColumns)
			}
		}
	}
}

var literal = regexp.MustCompile(`"(\\.|[^"\\])*"` + "|`[^`]*`")

// TestCodeLines checks the line length of hand-written code, except tests.
func TestCodeLines(t *testing.T) {
	var long []string
	for _, name := range tracked(t, "*.go") {
		// tools/release is a separate module.
		if strings.HasPrefix(name, "grammar/parser/") || strings.HasPrefix(name, "tests/") ||
			strings.HasPrefix(name, "tools/release/") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(data)) {
			line = strings.TrimRight(line, "\n")
			if utf8.RuneCountInString(line) > codeColumns && utf8.RuneCountInString(literal.ReplaceAllString(line, `""`)) > codeColumns {
				long = append(long, name+": "+strings.TrimSpace(line))
			}
		}
	}
	if len(long) > 0 {
		t.Errorf("%d lines are longer than %d columns:\n%s", len(long), codeColumns, strings.Join(long, "\n"))
	}
}
