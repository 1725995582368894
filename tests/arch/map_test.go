// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"flag"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"btc/tests/docs/generated"
)

var update = flag.Bool("update", false, "write the table of packages in docs/architecture.md")

// TestPackages holds the table of packages in docs/architecture.md to the package comments: its lines are their first sentences.
func TestPackages(t *testing.T) {
	files := map[string][]string{} // by directory
	for _, name := range tracked(t, "*.go") {
		if dir := filepath.Dir(name); !strings.Contains(dir, "testdata") && !strings.HasPrefix(dir, "tools/release") {
			files[dir] = append(files[dir], name)
		}
	}
	dirs := []string{}
	for dir := range files {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	var table strings.Builder
	table.WriteString("| package | what it does |\n|---|---|\n")
	for _, dir := range dirs {
		sentence := firstSentence(t, files[dir])
		switch {
		case dir == "grammar/parser":
			sentence = "is the parser that ANTLR generates from the grammar."
		case sentence == "":
			t.Errorf("%s has no package comment", dir)
		}
		table.WriteString(generated.Row("`"+dir+"`", generated.Escape(sentence)))
	}
	generated.Check(t, "../../docs/architecture.md", map[string]string{"packages": table.String()}, *update)
}

// firstSentence returns the first sentence of the package comment in one of the files, without "Package x".
func firstSentence(t *testing.T, files []string) string {
	t.Helper()
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", name), nil, parser.PackageClauseOnly|parser.ParseComments)
		if os.IsNotExist(err) {
			continue // deleted and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc == nil {
			continue
		}
		sentence := new(doc.Package).Synopsis(f.Doc.Text())
		return regexp.MustCompile(`(?i)^((package|command) \w+|`+filepath.Base(filepath.Dir(name))+`) `).ReplaceAllString(strings.TrimSuffix(sentence, ":"), "")
	}
	return ""
}

// TestMapOfTests checks that tests/README.md has one line for each directory and script of tests, and for no other.
func TestMapOfTests(t *testing.T) {
	want := map[string]bool{}
	for _, name := range tracked(t, "tests/") {
		rest := strings.TrimPrefix(name, "tests/")
		if dir, _, deep := strings.Cut(rest, "/"); deep {
			want[dir] = true
		} else if strings.HasSuffix(rest, ".sh") {
			want[rest] = true
		}
	}
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		if !want[m[1]] {
			t.Errorf("tests/README.md: two lines for %s, or no such file", m[1])
		}
		delete(want, m[1])
	}
	for name := range want {
		t.Errorf("tests/README.md has no line for %s", name)
	}
}

// TestHelp checks that make help has a line for each target.
func TestHelp(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	phony := regexp.MustCompile(`(?m)^\.PHONY:((?:[^\\\n]|\\\n)*)`).FindSubmatch(text)
	if phony == nil {
		t.Fatal("no .PHONY")
	}
	for _, target := range strings.Fields(strings.ReplaceAll(string(phony[1]), "\\\n", " ")) {
		if target != "all" && !regexp.MustCompile(`(?m)^`+target+`:[^\n]* ## \S`).Match(text) {
			t.Errorf("target %s of the Makefile has no line for make help: %s: ## what it does", target, target)
		}
	}
}

// TestTiersRunTheirTests checks that the script of a tier runs each package with tests of that tier.
func TestTiersRunTheirTests(t *testing.T) {
	files, err := filepath.Glob("../*/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for name, script := range map[string]string{"Real": "../real.sh", "Kernels": "../guests.sh"} {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Base(filepath.Dir(file))
			if dir == "tier" || dir == "arch" || !strings.Contains(string(b), "tier."+name+".Need(") {
				continue
			}
			found++
			if !regexp.MustCompile(`\./tests/` + dir + `\s`).Match(text) {
				t.Errorf("%s has tests of the tier %s, but %s does not run its package", file, name, script)
			}
		}
		if found == 0 {
			t.Errorf("no tests of the tier %s", name)
		}
	}
}
