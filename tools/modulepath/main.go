// SPDX-License-Identifier: Apache-2.0

// Command modulepath renames the Go module of the tree it is run in: the line of go.mod, and the
// module's path in imports, tests, scripts and documents. Others can only require a
// module whose path begins with a host name.
//
//	modulepath example.com/tools/btc
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: modulepath HOST/PATH/btc")
		os.Exit(2)
	}
	n, err := rename(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "modulepath:", err)
		os.Exit(1)
	}
	fmt.Printf("changed %d files; the module is %s\n", n, os.Args[1])
}

// valid is a path that others can require: a host name with a dot, and more.
var valid = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9._~-]+)+$`)

// moduleLine is that of go.mod.
var moduleLine = regexp.MustCompile(`(?m)^module[ \t]+(\S+)[ \t]*$`)

// rename changes the module path of the tree at root to path and returns the number of changed
// files.
func rename(root, path string) (changed int, err error) {
	if !valid.MatchString(path) {
		return 0, fmt.Errorf("%q is not a path that others can require: it begins with a host name, as in example.com/tools/btc",
			path)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return 0, err
	}
	m := moduleLine.FindSubmatch(mod)
	if m == nil {
		return 0, errors.New("go.mod has no module line")
	}
	old := string(m[1])
	dirs, err := topDirs(root)
	if err != nil {
		return 0, err
	}
	uses := uses(old, dirs)
	err = filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != root &&
			(skipped(d.Name()) || d.Name() == "modulepath") { // paths in this program's tests are data
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || !isText(d.Name()) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		renamed := uses.ReplaceAll(text, []byte("${1}"+path+"${2}"))
		if d.Name() == "go.mod" && filepath.Dir(name) == filepath.Clean(root) {
			renamed = moduleLine.ReplaceAll(renamed, []byte("module "+path))
		}
		if bytes.Equal(text, renamed) {
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			if sorted, err := format.Source(renamed); err == nil { // imports are in order
				renamed = sorted
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		changed++
		return os.WriteFile(name, renamed, info.Mode().Perm())
	})
	return changed, err
}

// uses matches a module path that is followed by a directory of the tree, by "..." or by the end
// of a string, and that is not in the middle of another path.
func uses(old string, dirs []string) *regexp.Regexp {
	var names []string
	for _, d := range dirs {
		names = append(names, regexp.QuoteMeta(d))
	}
	return regexp.MustCompile(`(^|[^A-Za-z0-9_./-])` + regexp.QuoteMeta(old) + `(/(?:(?:` + strings.Join(names, "|") + `)\b|\.\.\.|"))`)
}

func topDirs(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() && !skipped(e.Name()) {
			dirs = append(dirs, e.Name())
		}
	}
	return dirs, nil
}

// skipped reports whether a directory has no source files of the module.
func skipped(name string) bool { return name == ".git" || name == "build" || name == "bin" }

// isText reports whether a file may contain the module's path.
func isText(name string) bool {
	switch filepath.Ext(name) {
	case ".go", ".mod", ".md", ".sh", ".txt", ".txtar", ".yaml", ".yml", ".json", "":
		return true
	}
	return false
}
