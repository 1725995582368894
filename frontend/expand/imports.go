// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/cpp"
	"btc/frontend/diag"
	"btc/frontend/parse"
)

// othersWrite is the write permission bit for others.
const othersWrite = 0o002

// imported collects the items of all files.
type imported struct {
	*expander
	header, items []ast.Item
	seen          map[string]bool // absolute paths
}

// imports returns the header and the items of a script with those of the files it
// imports, each file once; only the script itself may have a config block.
func (x *expander) imports(s *ast.Script) (header, items []ast.Item) {
	im := &imported{expander: x, seen: map[string]bool{}}
	if abs, err := filepath.Abs(s.Source.Name); err == nil {
		im.seen[abs] = true
	}
	im.add(s, filepath.Dir(s.Source.Name), false)
	return im.header, im.items
}

// add appends a script after the scripts that it imports.
func (im *imported) add(s *ast.Script, dir string, asImport bool) {
	var own []ast.Item
	for _, item := range s.Header {
		switch item := item.(type) {
		case *ast.Import:
			im.path(item, dir)
			continue
		case *ast.Config:
			if asImport {
				im.fail(diag.BadImport, item, "invalid `config` within import")
				continue
			}
		}
		own = append(own, item)
	}
	im.header = append(im.header, own...)
	im.statements(s, dir)
	im.items = append(im.items, s.Items...)
}

// statements imports the files named by import statements in the code, if the script enables them.
func (im *imported) statements(s *ast.Script, dir string) {
	for _, item := range s.Items {
		ast.Inspect(item, func(n ast.Node) bool {
			if at, ok := n.(*ast.Import); ok {
				im.statement(at, dir)
			}
			return true
		})
	}
}

const statementKey = "unstable_import_statement"

func (im *imported) statement(at *ast.Import, dir string) {
	switch im.setting(statementKey) {
	case "enable", "true", "1":
	case "warn":
		im.fail(diag.Ignored, at, "import statements are an unstable feature of the language")
	default:
		im.fail(diag.BadImport, at, "import statement feature is not enabled by default. To enable this unstable feature, set the config flag to enable. %s=enable", statementKey).
			Hint("an import at the top of the script needs no setting")
		return
	}
	im.path(at, dir)
}

// setting returns the value of a setting in the script's config block, in lower case.
func (x *expander) setting(key string) string {
	for _, item := range x.script.Header {
		block, ok := item.(*ast.Config)
		if !ok {
			continue
		}
		for _, e := range block.Entries {
			if strings.TrimPrefix(strings.ToLower(e.Key.Text), "bpftrace_") == key {
				return strings.ToLower(strings.Trim(e.Value.Span().Text(), `"`))
			}
		}
	}
	return ""
}

// stdlibFiles are the names under which scripts of bpftrace import standard macros and functions.
var stdlibFiles = []string{
	stdlibDir + "/base.bt", stdlibDir + "/strings.bt", stdlibDir + "/process.bt", stdlibDir + "/kfunc.bt",
	stdlibDir + "/meta.bt", stdlibDir + "/internal.bt", stdlibDir + "/maps.bt", stdlibDir + "/types.bt",
}

// stdlibDirs are directories of bpftrace's standard library. Their C functions, which the standard macros call, are
// builtins here.
var stdlibDirs = []string{
	stdlibDir + "/map", stdlibDir + "/process", stdlibDir + "/strings", stdlibDir + "/system",
	stdlibDir + "/task", stdlibDir + "/test", stdlibDir + "/usdt",
}

// path imports a file or the files of a directory.
func (im *imported) path(at *ast.Import, dir string) {
	name := at.Path.Value
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	if err := im.allow(path); err != nil {
		im.fail(diag.BadImport, at.Path, "cannot import %s: %v", name, err)
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil && (name == stdlibDir || slices.Contains(stdlibFiles, name) || slices.Contains(stdlibDirs, name)):
		return // the standard macros are always available
	case err != nil:
		d := im.fail(diag.BadImport, at.Path, "Unable to find suitable path for import").Hint("checked: %s", path)
		if strings.HasPrefix(name, stdlibDir+"/") {
			d.Hint("the standard macros are always available: remove this import")
		}
	case info.IsDir():
		im.dir(at, path)
	default:
		im.file(at, path, false)
	}
}

// dir imports the importable files of a directory, in order of name, without subdirectories.
func (im *imported) dir(at *ast.Import, path string) {
	entries, err := os.ReadDir(path)
	if err != nil {
		im.fail(diag.BadImport, at.Path, "cannot import %s: %v", path, err)
		return
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if !e.IsDir() {
			im.file(at, filepath.Join(path, e.Name()), true)
		}
	}
}

// file imports one file; with inDir, files of other kinds are skipped.
func (im *imported) file(at *ast.Import, path string, inDir bool) {
	abs, err := filepath.Abs(path)
	if err != nil || im.seen[abs] {
		return
	}
	im.seen[abs] = true
	header := false
	switch {
	case strings.HasSuffix(path, ".bt"):
	case strings.HasSuffix(path, ".bpf.c"), strings.HasSuffix(path, ".bpf.o"):
		im.fail(diag.BadImport, at.Path, "%s: C helpers cannot be imported: they need a C compiler", path)
		return
	case strings.HasSuffix(path, ".h"):
		header = true
	case inDir:
		return
	default:
		im.fail(diag.BadImport, at.Path, "unknown import type: %s", filepath.Base(path))
		return
	}
	for _, p := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(p); err == nil && info.Mode().Perm()&othersWrite != 0 {
			im.fail(diag.BadImport, at.Path, "refusing to import from a world-writable directory: %s", p)
			return
		}
	}
	if header { // read with the script's own C text
		im.header = append(im.header,
			&ast.Import{Extent: at.Extent, Path: &ast.StringLit{Extent: at.Path.Extent, Value: path}})
		return
	}
	err = im.allow(path)
	var text string
	if err == nil {
		text, err = cpp.ReadFile(path)
	}
	if err != nil {
		im.fail(diag.BadImport, at.Path, "cannot import %s: %v", path, err)
		return
	}
	src := diag.NewSource(path, text).ImportedAt(at.At)
	if s := parse.Script(src, im.l, im.isValue); s != nil {
		im.add(s, filepath.Dir(path), true)
	}
}
