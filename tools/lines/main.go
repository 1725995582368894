// SPDX-License-Identifier: Apache-2.0

// Lines counts the lines of Go code by top-level directory. A line counts if it has code: blank lines
// and comments do not. Tests, testdata and generated files are left out.
//
//	go run ./tools/lines [DIR]
//
// Programs below tests/ are counted, and the total is printed with and without them.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	counts, err := count(os.DirFS(root))
	if err != nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(1)
	}
	print(counts)
}

// print writes the directories by size, and the totals.
func print(counts map[string]int) {
	product := 0
	byCount := func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) }
	for _, dir := range slices.SortedFunc(maps.Keys(counts), byCount) {
		if dir != "tests" {
			fmt.Printf("%7d  %s\n", counts[dir], dir)
			product += counts[dir]
		}
	}
	fmt.Printf("%7d  total\n\n%7d  tests (programs)\n%7d  total with these\n", product, counts["tests"], product+counts["tests"])
}

// count returns the lines of code of each top-level directory.
func count(root fs.FS) (map[string]int, error) {
	counts := map[string]int{}
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(path):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		if n := lines(text); n > 0 {
			dir, _, _ := strings.Cut(path, "/")
			counts[dir] += n
		}
		return nil
	})
	return counts, err
}

// skipped reports whether a directory has no code of the project: results of builds, data of tests, and
// what git or an editor keeps.
func skipped(path string) bool {
	name := filepath.Base(path)
	return name == "testdata" || name == "node_modules" || len(name) > 1 && name[0] == '.' || path == "build" || path == "bin" || path == "dist"
}

// lines counts the lines that a token is on; a string of several lines counts as all of them. It is 0 for
// a generated file.
func lines(text []byte) int {
	fset := token.NewFileSet()
	if f, err := parser.ParseFile(fset, "", text, parser.PackageClauseOnly|parser.ParseComments); err == nil && ast.IsGenerated(f) {
		return 0
	}
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	seen := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		switch {
		case tok == token.EOF:
			return len(seen)
		case tok == token.SEMICOLON && literal != ";": // inserted at the end of a line
			continue
		}
		first := file.Line(pos)
		for i := range 1 + bytes.Count([]byte(literal), []byte("\n")) {
			seen[first+i] = true
		}
	}
}
