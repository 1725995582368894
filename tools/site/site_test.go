// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var references = regexp.MustCompile(`(?:href|src)="([^"]+)"`)

// TestRender renders the documents: each page has a title, and each link to another page
// leads to one. Links to source files of the repository are not part of the site.
func TestRender(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	if err := render("../..", out); err != nil {
		t.Fatal(err)
	}
	pages, links := 0, 0
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" {
			return err
		}
		pages++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "<title> ") || !strings.Contains(string(text), "<h1") {
			t.Errorf("%s has no title", path)
		}
		for _, m := range references.FindAllStringSubmatch(string(text), -1) {
			u, err := url.Parse(m[1])
			if err != nil || u.Scheme != "" || u.Path == "" {
				continue
			}
			if ext := filepath.Ext(u.Path); ext != ".html" && ext != ".svg" && ext != ".bt" {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), u.Path)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 50 || links < 100 {
		t.Errorf("%d pages with %d links", pages, links)
	}
}
