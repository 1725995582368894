// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"btc/frontend/ast"
	"btc/frontend/diag"
)

// mustParse parses a script that has no errors.
func mustParse(t testing.TB, name, text string) *ast.Script {
	t.Helper()
	var l diag.List
	s := Script(diag.NewSource(name, text), &l, isValue)
	if l.Len() > 0 || s == nil {
		t.Fatalf("%s\n--- text:\n%s", l.Err(), text)
	}
	return s
}

// same returns the difference between trees, ignoring source positions.
func same(a, b *ast.Script) string {
	return cmp.Diff(a, b, cmpopts.IgnoreTypes(ast.Extent{}, &diag.Source{}), cmpopts.EquateEmpty())
}

func format(t testing.TB, s *ast.Script) string {
	t.Helper()
	var b strings.Builder
	if err := ast.Fprint(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func acceptFiles(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/accept/*.bt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts in testdata/accept", err)
	}
	texts := make(map[string]string)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		texts[f] = string(text)
	}
	return texts
}

// TestRoundTrip checks that a printed script parses to the same tree and does not change when printed
// again.
func TestRoundTrip(t *testing.T) {
	for name, text := range acceptFiles(t) {
		first := mustParse(t, name, text)
		printed := format(t, first)
		second := mustParse(t, name+" printed", printed)
		if d := same(first, second); d != "" {
			t.Errorf("%s: printing changed the tree:\n%s", name, d)
		}
		if again := format(t, second); again != printed {
			t.Errorf("%s: printing is not stable:\n%s", name, cmp.Diff(printed, again))
		}
	}
}

// TestSpans checks that each span has the source of its node and is within the span of its parent.
func TestSpans(t *testing.T) {
	for name, text := range acceptFiles(t) {
		s := mustParse(t, name, text)
		var parents []ast.Node
		ast.Inspect(s, func(n ast.Node) bool {
			if n == nil {
				parents = parents[:len(parents)-1]
				return false
			}
			sp := n.Span()
			if len(parents) > 0 {
				if up := parents[len(parents)-1].Span(); sp.Start < up.Start || sp.End > up.End || sp.Start >= sp.End {
					t.Errorf("%s: %T %q at %d-%d is not within its parent at %d-%d", sp, n, sp.Text(), sp.Start, sp.End, up.Start, up.End)
				}
			}
			if x, ok := n.(ast.Expr); ok {
				checkSpanText(t, x)
			}
			parents = append(parents, n)
			return true
		})
	}
}

// checkSpanText parses the source of an expression separately.
func checkSpanText(t *testing.T, x ast.Expr) {
	switch x.(type) {
	case *ast.TypeExpr, *ast.Range, *ast.Discard: // not expressions by themselves
		return
	case *ast.Block, *ast.IfExpr: // as statements, they have no values
		return
	}
	var l diag.List
	again := Expr(x.Span(), &l, isValue)
	if again == nil || l.Len() > 0 {
		t.Errorf("%s: source %q of %T does not parse: %v", x.Span(), x.Span().Text(), x, l.Err())
		return
	}
	if a, b := ast.ExprString(x), ast.ExprString(again); a != b {
		t.Errorf("%s: %q parsed separately is %q", x.Span(), a, b)
	}
}

var wantError = regexp.MustCompile(`// ERROR "(.*)"$`)

// TestReject checks that each line of a rejected script with an ERROR comment has this error, and that
// no other line has one.
func TestReject(t *testing.T) {
	files, _ := filepath.Glob("testdata/reject/*.bt")
	if len(files) == 0 {
		t.Fatal("no scripts in testdata/reject")
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[int]string)
		for part := 0; ; part++ {
			chunk, more := errorChunk(string(text), part)
			var l diag.List
			Script(diag.NewSource(f, chunk), &l, isValue)
			for _, d := range l.Sorted() {
				got[d.Span.Pos().Line] += string(d.Code) + ": " + d.Message
			}
			if !more {
				break
			}
		}
		for i, line := range strings.Split(string(text), "\n") {
			want := ""
			if m := wantError.FindStringSubmatch(line); m != nil {
				want = m[1]
			}
			if g := got[i+1]; (want == "") != (g == "") || !strings.HasPrefix(g, want) {
				t.Errorf("%s:%d: got %q, want %q", f, i+1, g, want)
			}
		}
	}
}

// errorChunk keeps ten of the lines with errors and blanks the others, because the parser stops after a
// number of errors.
func errorChunk(text string, part int) (chunk string, more bool) {
	lines := strings.Split(text, "\n")
	n := 0
	for i, line := range lines {
		if !wantError.MatchString(line) {
			continue
		}
		if n/10 != part {
			lines[i] = ""
		}
		n++
	}
	return strings.Join(lines, "\n"), n > (part+1)*10
}

func TestWholeTextErrors(t *testing.T) {
	deep := func(open, shut string, n int) string {
		return "begin { $x = " + strings.Repeat(open, n) + "1" + strings.Repeat(shut, n) + " }"
	}
	tests := []struct{ name, text, want string }{
		{"nul", "begin { \x00 }", "stdin:1:9: error[E0109]: syntax: NUL byte"},
		{"utf8", "begin {\n \xff }", "stdin:2:2: error[E0109]: syntax: invalid UTF-8: byte 0xff"},
		{"size", strings.Repeat("#\n", maxBytes/2+1), "error[E0110]"},
		{"parens", deep("(", ")", 5000), "error[E0110]"},
		{"prefix", deep("!", "", 100000), "error[E0110]"},
		{"blocks", "begin " + strings.Repeat("{", 100000), "error[E0110]"},
		{"conditional", deep("1 ? 2 : ", "", 5000), "error[E0110]"},
		{"terms", deep("1 + ", "", 100000), "error[E0110]"},
		{"else", "begin { if 1 {}" + strings.Repeat(" else if 1 { f(); }", 5000) + " }", "error[E0110]"},
		{"else in else", "begin { " + strings.Repeat("if 1 {}"+strings.Repeat(" else if 1 {}", 2000)+" else { ", 20) + strings.Repeat("}", 20) + " }", "error[E0110]"},
		{"string", "begin { print(\"abc); }\n$x }", "stdin:1:15: error[E0102]: syntax: unterminated string"},
		{"attach quote", "uprobe:\"abc { }", "error[E0102]: syntax: unterminated string"},
		{"comment", "begin { } /* abc", "stdin:1:11: error[E0111]: syntax: unterminated comment"},
		{"brace", "begin { if (1) {\n }\n", "stdin:2:3: error[E0101]: syntax: expected '}', found end of script"},
		{"no body", "kprobe:f", "stdin:1:9: error[E0101]: syntax: expected '{', found end of script"},
		{"struct", "struct s { int x;\nbegin { }", "stdin:1:10: error[E0112]: syntax: unclosed '{' in C definition"},
		{"attribute", "struct s { int x; } __attribute__(packed);\nbegin { }", "error[E0112]: syntax: __attribute__ syntax error, expected '(('"},
		{"typedef", "typedef int x", "error[E0101]"},
		{"import", "import \"a\" begin { }", "error[E0101]: syntax: expected ';' after import"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l diag.List
			Script(diag.NewSource(diag.Stdin, tt.text), &l, isValue)
			if l.Err() == nil || !strings.Contains(l.Err().Error(), tt.want) {
				t.Errorf("got %v\nwant %s", l.Err(), tt.want)
			}
		})
	}
}

// TestManyProbes parses a script of a thousand probes.
func TestManyProbes(t *testing.T) {
	s := mustParse(t, "many", strings.Repeat("kprobe:f /pid == 1/ { @[comm] = count(); }\n", 1000))
	if len(s.Items) != 1000 {
		t.Errorf("%d items, want 1000", len(s.Items))
	}
}

// TestLongElse parses a chain of two thousand "else if", as found in generated scripts.
func TestLongElse(t *testing.T) {
	s := mustParse(t, "else", "begin { if 1 {}"+strings.Repeat(" else if 1 { f(); }", 2000)+" }")
	if len(s.Items) != 1 {
		t.Errorf("%d items", len(s.Items))
	}
}

func TestExprAlone(t *testing.T) {
	src := diag.NewSource("x.h", "#define N (2 + 3) * 4 // no")
	var l diag.List
	x := Expr(src.Span(10, 21), &l, isValue)
	if l.Len() > 0 || x == nil {
		t.Fatal(l.Err())
	}
	if got := ast.ExprString(x); got != "(2 + 3) * 4" || x.Span().Start != 10 {
		t.Errorf("got %q at %s", got, x.Span())
	}
	if x := Expr(src.Span(0, 7), &l, isValue); x != nil || !l.HasErrors() {
		t.Error("no error for #define as an expression")
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range acceptFiles(f) {
		f.Add(text)
		for _, line := range strings.Split(text, "\n") {
			f.Add("begin { " + line + " }")
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		var l diag.List
		s := Script(diag.NewSource("fuzz", text), &l, isValue)
		if s == nil && !l.HasErrors() {
			t.Fatal("neither tree nor error")
		}
		_ = l.Err()
		if s == nil || l.HasErrors() {
			return
		}
		printed := format(t, s)
		again := mustParse(t, "printed", printed)
		if d := same(s, again); d != "" {
			t.Fatalf("printing changed the tree:\n%s\n%s", printed, d)
		}
		if p := format(t, again); p != printed {
			t.Fatalf("printing is not stable:\n%s", cmp.Diff(printed, p))
		}
	})
}

var update = flag.Bool("update", false, "rewrite the .fmt files in testdata")

// TestFormat checks the canonical layout, with comments and blank lines.
func TestFormat(t *testing.T) {
	for name, text := range acceptFiles(t) {
		golden := strings.TrimSuffix(name, ".bt") + ".fmt"
		got := format(t, mustParse(t, name, text))
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got); d != "" {
			t.Errorf("%s (-want +got):\n%s", golden, d)
		}
	}
}

// isValue knows some builtins with a value.
func isValue(name string) bool {
	switch name {
	case "args", "comm", "cpu", "ctx", "curtask", "elapsed", "kstack", "nsecs", "pid", "probe", "retval", "tid", "uid", "ustack":
		return true
	}
	return false
}
