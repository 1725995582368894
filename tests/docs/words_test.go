// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// words are expressions to avoid, with the terms that engineers search for.
var words = []struct{ not, but string }{
	{`tells? whether`, "report whether"},
	{`folders?`, "directory"},
	{`look-ups?`, "lookup"},
	{`front tables?`, "per-CPU cache"},
	{`what no one uses`, "dead code elimination"},
	{`what is constant is computed`, "constant folding"},
	{`of text are more than`, "string too long: %d bytes (max %d)"},
	{`on the desk`, "during development"},
	{`is no \w+`, "is not a"},
}

// usual matches ordinary English that the last expression would match.
var usual = regexp.MustCompile(`(?i)\bthere(\s|//)+is no\b|\bis no (longer|more)\b`)

// TestWords checks the comments and messages in hand-written Go code.
func TestWords(t *testing.T) {
	var patterns []*regexp.Regexp
	for _, w := range words {
		patterns = append(patterns, regexp.MustCompile(`(?i)\b`+w.not+`\b`))
	}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch name := d.Name(); {
			case name == "build", name == "node_modules", name == ".git", path == "../../grammar/parser": // not written by hand
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "words_test.go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file := set.AddFile(path, -1, len(src))
		var s scanner.Scanner
		s.Init(file, src, nil, scanner.ScanComments)
		for {
			pos, tok, text := s.Scan()
			if tok == token.EOF {
				return nil
			}
			if tok != token.COMMENT && tok != token.STRING {
				continue
			}
			text = usual.ReplaceAllString(text, "")
			for i, p := range patterns {
				if found := p.FindString(text); found != "" {
					t.Errorf("%s: %q: write %q", set.Position(pos), found, words[i].but)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
