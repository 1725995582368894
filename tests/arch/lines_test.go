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

// The columns that lines have at most. Tables and code in documents cannot be wrapped,
// and a string literal in code does not count.
const (
	docColumns  = 100
	codeColumns = 120
)

// longCode is how many lines of the programs are longer than codeColumns today. The
// number may fall only.
const longCode = 66

func tracked(t *testing.T, pattern string) []string {
	t.Helper()
	out, err := exec.Command("git", "-C", "../..", "ls-files", pattern).Output()
	if err != nil {
		t.Skipf("skipped: no git repository: %v", err)
	}
	return strings.Fields(string(out))
}

// TestDocumentLines holds the width of prose.
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
				t.Errorf("%s:%d has %d columns, the limit is %d", name, i+1, n, docColumns)
			}
		}
	}
}

var literal = regexp.MustCompile(`"(\\.|[^"\\])*"` + "|`[^`]*`")

// TestCodeLines holds the width of the programs' code.
func TestCodeLines(t *testing.T) {
	var long []string
	for _, name := range tracked(t, "*.go") {
		if strings.HasPrefix(name, "grammar/parser/") || strings.HasPrefix(name, "tests/") || strings.HasSuffix(name, "_test.go") {
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
	t.Logf("%d lines of the programs have more than %d columns", len(long), codeColumns)
	if len(long) > longCode {
		t.Errorf("%d lines of the programs have more than %d columns; at most %d may:\n%s", len(long), codeColumns, longCode, strings.Join(long, "\n"))
	}
}
