// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/parse"
)

var update = flag.Bool("update", false, "rewrite the expected results")

func builtin(name string) bool { return name == "print" || name == "cpu" }

func expandText(t *testing.T, name, text string) (*ast.Script, *diag.List) {
	t.Helper()
	l := new(diag.List)
	s := parse.Script(diag.NewSource(name, text), l, isBuiltinValue)
	if s == nil {
		t.Fatal(l.Err())
	}
	return Script(s, l, Options{Builtin: builtin, IsValue: isBuiltinValue}), l
}

// result returns the expanded script, or the error.
func result(s *ast.Script, l *diag.List) string {
	var b strings.Builder
	var err error
	if l.Len() > 0 {
		err = diag.Render(&b, l, diag.RenderOptions{})
	} else {
		err = ast.Fprint(&b, s)
	}
	if err != nil {
		return err.Error()
	}
	return b.String()
}

// TestGolden compares the expansion of each x.bt in testdata with x.out.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, file, txtar.Parse(data))
	}
}

func golden(t *testing.T, file string, a *txtar.Archive) {
	now := &txtar.Archive{Comment: a.Comment}
	for i, f := range a.Files {
		name, isScript := strings.CutSuffix(f.Name, ".bt")
		if !isScript {
			continue
		}
		got := result(expandText(t, f.Name, string(f.Data)))
		now.Files = append(now.Files, f, txtar.File{Name: name + ".out", Data: []byte(got)})
		want := ""
		if i+1 < len(a.Files) && a.Files[i+1].Name == name+".out" {
			want = string(a.Files[i+1].Data)
		}
		if d := cmp.Diff(want, got); d != "" && !*update {
			t.Errorf("%s: %s:\n%s", file, f.Name, d)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNodesAreDistinct checks that a node occurs only once in the new tree.
func TestNodesAreDistinct(t *testing.T) {
	s, l := expandText(t, "x.bt", `macro twice(x, t) { $a = x + x; (t)$a + sizeof(t) }
begin { $v = 1; print(twice($v, typeof(int8[2])) + twice(twice(1 + pid, typeof(int8)), typeof(struct x *))); }`)
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	seen := map[ast.Node]bool{}
	ast.Inspect(s, func(n ast.Node) bool {
		if n != nil && seen[n] {
			t.Errorf("%T at %s occurs twice", n, n.Span())
		}
		seen[n] = n != nil
		return true
	})
}

// TestGrowth checks that macros cannot generate unbounded code.
func TestGrowth(t *testing.T) {
	var b strings.Builder
	b.WriteString("macro m0(x) { x + x }\n")
	for i := 1; i < 60; i++ {
		fmt.Fprintf(&b, "macro m%d(x) { m%d(x) + m%d(x) }\n", i, i-1, i-1)
	}
	b.WriteString("begin { print(m59(1)); }\n")
	_, l := expandText(t, "x.bt", b.String())
	if l.Errors() != 1 || !strings.Contains(l.Err().Error(), "macro expansion is too large") {
		t.Errorf("error = %v", l.Err())
	}
}

// TestDepth checks that the length of a chain of macros is limited.
func TestDepth(t *testing.T) {
	var b strings.Builder
	b.WriteString("macro m0(x) { x }\n")
	for i := 1; i < 3000; i++ {
		fmt.Fprintf(&b, "macro m%d(x) { m%d(x) }\n", i, i-1)
	}
	b.WriteString("begin { print((m50(1), m2999(1))); }\n")
	_, l := expandText(t, "x.bt", b.String())
	if l.Errors() != 1 || !strings.Contains(l.Err().Error(), "nested too deeply (max 100)") {
		t.Errorf("error = %v", l.Err())
	}
}

// TestStandardMacros checks that each file of the library consists of macros, that these are found by
// name, and that none breaks a rule for macros.
func TestStandardMacros(t *testing.T) {
	l := new(diag.List)
	lib := newLibrary()
	count := 0
	for name, defs := range lib.defs {
		if !strings.HasPrefix(name, "__") {
			count += len(defs)
		}
		x := &expander{l: l, macros: map[string][]*macro{}}
		for i, m := range lib.macros(name, isBuiltinValue) {
			if m.def.Name.Text != name || len(m.def.Params) != defs[i].params || !lib.takes(name, len(m.def.Params)) {
				t.Errorf("lookup of %s found %s with %d parameters", name, m.def.Name.Text, len(m.def.Params))
			}
			x.define(m.def)
		}
	}
	if count == 0 || len(Standard()) != count {
		t.Fatalf("%d macros found, %d described", count, len(Standard()))
	}
	for _, m := range Standard() {
		if m.Doc == "" || !strings.HasSuffix(m.Signature, ")") {
			t.Errorf("%q: no description", m.Signature)
		}
	}
	if l.Len() > 0 {
		t.Error(result(nil, l))
	}
}

// write writes files below a directory.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestImports(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"lib/a.bt":     "import \"../b.bt\"; macro a() { b() } end { @a = 1; }",
		"lib/note.txt": "no script",
		"lib/in/c.bt":  "end { @c = 1; }",
		"b.bt":         "#define B 1\nimport \"lib\"; macro b() { B }",
		"conf.bt":      "config = { max_strlen = 5 } begin { }",
		"h.bpf.c":      "int f(void) { return 1; }",
		"bad.bt":       "begin {",
		"open.bt":      "begin { }",
	})
	if err := os.Chmod(filepath.Join(dir, "open.bt"), 0o666); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ script, want, err string }{
		{`import "lib"; import "b.bt"; begin { print(a()); }`, "#define B 1\n\nend\n{\n  @a = 1;\n}\n\nbegin\n{\n  print(((1)));\n}\n", ""},
		{`import "lib/a.bt"; import "lib/../lib/a.bt"; begin { @ = 1; }`, "#define B 1\n\nend\n{\n  @a = 1;\n}\n\nbegin\n{\n  @ = 1;\n}\n", ""},
		{`import "stdlib"; begin { }`, "begin\n{}\n", ""},
		{`import "stdlib/process"; import "stdlib/usdt"; begin { }`, "begin\n{}\n", ""},
		{`import "stdlib/test"; begin { print(__always_true()); }`, "begin\n{\n  print(((int32)1));\n}\n", ""},
		{`import "stdlib/nosuch"; begin { }`, "", "Unable to find suitable path for import"},
		{`config = { unstable_import_statement = enable } begin { import "b.bt"; print(b()); }`, "config = {\n  unstable_import_statement = enable;\n}\n\n#define B 1\n\nend\n{\n  @a = 1;\n}\n\nbegin\n{\n  print((1));\n}\n", ""},
		{`import "nosuch.bt"; begin { }`, "", "Unable to find suitable path for import"},
		{`import "conf.bt"; begin { }`, "", "invalid `config` within import"},
		{`import "h.bpf.c"; begin { }`, "", "they need a C compiler"},
		{`import "lib/note.txt"; begin { }`, "", "unknown import type: note.txt"},
		{`import "bad.bt"; begin { }`, "", "bad.bt:1:8"},
		{`import "open.bt"; begin { }`, "", "a world-writable directory"},
		{`begin { import "b.bt"; }`, "", "import statement feature is not enabled"},
	}
	for _, test := range tests {
		l := new(diag.List)
		s := Script(parse.Script(diag.NewSource(filepath.Join(dir, "main.bt"), test.script), l, isBuiltinValue), l, Options{Builtin: builtin, IsValue: isBuiltinValue})
		switch {
		case test.err != "":
			if err := l.Err(); err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", test.script, err, test.err)
			}
		default:
			if d := cmp.Diff(test.want, result(s, l)); d != "" {
				t.Errorf("%s\n%s", test.script, d)
			}
		}
	}
}

// isBuiltinValue knows some builtins with a value.
func isBuiltinValue(name string) bool {
	return slices.Contains([]string{"args", "comm", "cpu", "nsecs", "pid", "tid"}, strings.TrimPrefix(name, "__builtin_"))
}
