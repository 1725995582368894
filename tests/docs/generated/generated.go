// SPDX-License-Identifier: Apache-2.0

// Package generated maintains the parts of documents that are generated from the program.
//
// A part is between two lines of a Markdown file:
//
//	<!-- generated: name -->
//	...
//	<!-- end -->
//
// Check compares each part with its current contents; with update it rewrites them.
package generated

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const end = "<!-- end -->"

func begin(name string) string { return "<!-- generated: " + name + " -->" }

// Check compares the parts of the file at path with want, by name. The file must contain each of them
// exactly once, and no others.
func Check(t *testing.T, path string, want map[string]string, update bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if n := strings.Count(text, "<!-- generated: "); n != len(want) {
		t.Errorf("%s: %d generated parts, want %d", path, n, len(want))
	}
	for name, w := range want {
		now, err := replace(text, name, "\n"+strings.Trim(w, "\n")+"\n\n")
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if now != text && !update {
			t.Errorf("%s: part %s is out of date (-want +got); run with -update\n%s", path, name, cmp.Diff(now, text))
		}
		text = now
	}
	if update && text != string(data) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// replace replaces the text between the marks of a part by content.
func replace(text, name, content string) (string, error) {
	head, rest, ok := strings.Cut(text, begin(name)+"\n")
	if !ok {
		return "", fmt.Errorf("no line %s", begin(name))
	}
	_, tail, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("no end of part %s", name)
	}
	if strings.Contains(tail, begin(name)) {
		return "", fmt.Errorf("two parts called %s", name)
	}
	return head + begin(name) + "\n" + content + end + tail, nil
}

// Indent returns text as an indented code block.
func Indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		if line != "\n" {
			b.WriteString("    ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// Row returns a line of a table.
func Row(cells ...string) string {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", "\\|")
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// Wrap breaks a paragraph into lines of at most 100 bytes.
func Wrap(text string) string {
	const width = 100
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String() + "\n"
}

// Escape escapes what Markdown would read in a paragraph, except in code between backquotes.
func Escape(text string) string {
	parts := strings.Split(text, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", "&lt;").Replace(parts[i])
	}
	return strings.Join(parts, "`")
}
