// SPDX-License-Identifier: Apache-2.0

package diag

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var codeForm = regexp.MustCompile(`^[EW]0[1-9][0-9]{2}$`)

func TestCatalogue(t *testing.T) {
	seen := make(map[Code]bool)
	for _, info := range Catalogue() {
		if !codeForm.MatchString(string(info.Code)) {
			t.Errorf("invalid code %q", info.Code)
		}
		if seen[info.Code] {
			t.Errorf("duplicate entry %s", info.Code)
		}
		seen[info.Code] = true
		if info.Title == "" || strings.HasSuffix(info.Title, ".") || len(info.Explanation) < 10 {
			t.Errorf("%s: title %q, explanation %q", info.Code, info.Title, info.Explanation)
		}
		if got, ok := Explain(info.Code); !ok || got != info {
			t.Errorf("no explanation of %s", info.Code)
		}
	}
	if _, ok := Explain("E9999"); ok {
		t.Error("found nonexistent code E9999")
	}
}

// TestCodesUsed checks that each code constant has an entry in the catalogue and is reported somewhere.
func TestCodesUsed(t *testing.T) {
	codes := make(map[string]Code) // name of the constant -> code
	inspect(t, ".", func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if typ, ok := v.Type.(*ast.Ident); ok && typ.Name == "Code" {
				for i, name := range v.Names {
					codes[name.Name] = Code(strings.Trim(v.Values[i].(*ast.BasicLit).Value, `"`))
				}
			}
			return true
		})
	})
	if len(codes) != len(Catalogue()) {
		t.Errorf("%d constants, but %d entries", len(codes), len(Catalogue()))
	}
	used := make(map[string]bool)
	inspect(t, "../..", func(f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "diag" {
					used[s.Sel.Name] = true
				}
			}
			return true
		})
	})
	for name, code := range codes {
		if _, ok := Explain(code); !ok {
			t.Errorf("%s (%s) is not in the catalogue", name, code)
		}
		if !used[name] {
			t.Errorf("%s (%s) is never reported", name, code)
		}
	}
}

// inspect parses the Go files, without tests, under a directory.
func inspect(t *testing.T, dir string, visit func(*ast.File)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == "node_modules" || d.Name() == ".git" || path == "../../build" {
			if d.IsDir() { // a link to a directory must not skip the directory that contains the link
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		visit(f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
