// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"btc/loader/output"
)

// filesThatName is the introduction of a list of files in docs/contributing.
var filesThatName = regexp.MustCompile(`(?m)^Files that name "([^"]+)":\n\n((?:- .+\n)+)`)

// most is the maximum number of files outside of internal that may name the example of a page, which is
// what a change of this kind has to touch. A new kind of probe also touches two or three files of
// internal/probe. The example of a format has an option of its own, --json2.
var most = map[string]int{"builtin.md": 4, "probe.md": 3, "pass.md": 1, "output.md": 2}

// TestContributing checks that the lists of files on the pages about changing btc are the files that
// name the example.
func TestContributing(t *testing.T) {
	pages, err := filepath.Glob("../../docs/contributing/*.md")
	if err != nil || len(pages) < 2 {
		t.Fatal(pages, err)
	}
	lists := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range filesThatName.FindAllStringSubmatch(string(text), -1) {
			lists++
			var want []string
			for line := range strings.Lines(m[2]) {
				want = append(want, strings.TrimSpace(strings.TrimPrefix(line, "- ")))
			}
			slices.Sort(want)
			if len(want) > most[filepath.Base(page)] {
				t.Errorf("%s: a change touches %d files (max %d)", filepath.Base(page), len(want), most[filepath.Base(page)])
			}
			if have := naming(t, m[1]); !slices.Equal(have, want) {
				t.Errorf("%s: %q is named in %v, but the page lists %v", filepath.Base(page), m[1], have, want)
			}
		}
	}
	if lists < 2 {
		t.Errorf("found %d lists of files", lists)
	}
}

// TestContributingOutput checks that the page on output formats lists all formats and the methods of
// Sink.
func TestContributingOutput(t *testing.T) {
	text, err := os.ReadFile("../../docs/contributing/output.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), output.Usage()) {
		t.Errorf("list of formats not found on the page: %s", output.Usage())
	}
	_, table, _ := strings.Cut(string(text), "| method | reports |\n|---|---|\n")
	var listed, want []string
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "|") {
			break
		}
		methods, _, _ := strings.Cut(row[1:], "|")
		for name := range strings.SplitSeq(methods, ",") {
			listed = append(listed, strings.Trim(name, " `"))
		}
	}
	sink := reflect.TypeFor[output.Sink]()
	for i := range sink.NumMethod() {
		want = append(want, sink.Method(i).Name)
	}
	if slices.Sort(listed); !slices.Equal(listed, want) {
		t.Errorf("the page lists the methods %v, want %v as in Sink", listed, want)
	}
}

// naming returns the Go files, without tests, that contain a name as a string, or that use an
// identifier of a package.
func naming(t *testing.T, name string) []string {
	t.Helper()
	var files []string
	identifier := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
	for _, dir := range []string{"frontend", "ir", "passes", "backend", "loader", "cmd"} {
		if err := filepath.WalkDir(filepath.Join("../..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.Contains(name, ".") && identifier.Match(text) || bytes.Contains(text, []byte(`"`+name+`"`)) {
				files = append(files, filepath.ToSlash(strings.TrimPrefix(path, "../../")))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(files)
	return files
}
