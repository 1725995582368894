// SPDX-License-Identifier: Apache-2.0

package cpp

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"

	"btc/frontend/diag"
)

// headers is a set of files for tests.
type headers map[string]string

func (h headers) read(name string) (string, error) {
	if text, ok := h[path.Clean(name)]; ok {
		return text, nil
	}
	return "", fs.ErrNotExist
}

// preprocess preprocesses text as a header of the script "dir/a.bt".
func preprocess(text string, files headers, opt Options) (string, *diag.List) {
	l := new(diag.List)
	all := headers{"dir/main.h": text}
	for name, t := range files {
		all[name] = t
	}
	opt.ReadFile = all.read
	src := diag.NewSource("dir/a.bt", "#include \"main.h\"")
	u := Read([]Chunk{{At: src.Span(0, len(src.Text)), Directive: true}}, opt, l)
	return Join(u.Tokens), l
}

// TestExpansion checks that macros are expanded by the rules of the C standard.
func TestExpansion(t *testing.T) {
	tests := []struct{ text, want string }{
		{"#define A 1\nA B", "1 B"},
		{"#define A(x) x + x\nA(1) A (2) A", "1 + 1 2 + 2 A"},
		{"#define A(x, y) y x\nA((1, 2), [3])", "[3] (1, 2)"},
		{"#define A() z\nA() A( )", "z z"},
		{"#define S(x) #x\nS( a  b ) S(\"q\\n\") S()", `"a b" "\"q\\n\"" ""`},
		{"#define X(x) S(x)\n#define S(x) #x\n#define N 4\nX(N) S(N)", `"4" "N"`},
		{"#define C(a, b) a##b\nC(x, 1) C(, y) C(z, ) C(<, <)", "x1 y z <<"},
		{"#define C(a, b) a ## b ## 3\n#define x12 no\nC(x1, 2)", "x123"},
		{"#define V(f, ...) p(f, ##__VA_ARGS__)\nV(1) V(1, 2, 3)", "p(1) p(1, 2, 3)"},
		{"#define V(...) p(__VA_ARGS__)\nV() V(1, (2, 3))", "p() p(1, (2, 3))"},
		{"#define V(f, a...) p(f, a)\nV(1, 2, 3)", "p(1, 2, 3)"},
		{"#define f(a) a*g\n#define g(a) f(a)\nf(2)(9)", "2*9*g"}, // unspecified in C11 6.10.3.4
		{"#define x (x + 1)\nx", "(x + 1)"},
		{"#define a b\n#define b a\na b", "a b"},
		{"#define q(x) x\nq(q(q(1)))", "1"},
		{"#define A 1 \\\n + 2\nA /* c */ A // d\nA", "1 + 2 1 + 2 1 + 2"},
		{"#define A(x)\\\n  x /* in\nside */ x\nA(\n1\n)", "1 1"},
		{"#define A 1\n#undef A\nA", "A"},
		{"__LINE__\n__LINE__ __FILE__", `1 2 "dir/main.h"`},
		{"__COUNTER__ __COUNTER__", "0 1"},
		{"#pragma pack(1)\nint x;", " int x;"},
		{"# \n#line 4\nx", "x"},
		{"#define F(x) x\nF\n(1)", "1"},
		{"#define DECL(n, ...) struct n { __VA_ARGS__ };\nDECL(a, int x; int y[2];)", "struct a { int x; int y[2]; };"},
	}
	for _, tt := range tests {
		got, l := preprocess(tt.text, nil, Options{})
		if got != tt.want || l.Len() > 0 {
			t.Errorf("%s\n got %s\nwant %s\n%v", tt.text, got, tt.want, l.Sorted())
		}
	}
}

// TestConditions checks which lines are kept.
func TestConditions(t *testing.T) {
	tests := []struct{ cond, want string }{
		{"1", "yes"}, {"0", "no"}, {"NOSUCH", "no"}, {"!defined NOSUCH && defined(ONE)", "yes"},
		{"1 + 2 * 3 == 7", "yes"}, {"(1 ? 0 : 1 / 0)", "no"}, {"0 && 1 / 0", "no"}, {"1 || 1 / 0", "yes"},
		{"-1 > 0u", "yes"}, {"-1 > 0", "no"}, {"-8 >> 1 == -4", "yes"}, {"0xFFFFFFFFFFFFFFFF == -1", "yes"},
		{"'a' == 97", "yes"}, {"~0 == -1", "yes"}, {"ONE", "yes"}, {"PLUS(ONE, 1) == 2", "yes"}, {"3 % 2 << 2 == 4", "yes"},
		{"__has_include(\"there.h\")", "yes"}, {"__has_include(<nosuch/x.h>)", "no"}, {"__has_include(<linux/fs.h>)", "yes"},
		{"defined(__has_include)", "yes"}, {"__has_attribute(packed)", "no"}, {"TABLE == 77", "yes"},
	}
	constant := func(name string) (int64, bool) { return 77, name == "TABLE" }
	for _, tt := range tests {
		text := "#define ONE 1\n#define PLUS(a, b) (a + b)\n#if " + tt.cond + "\nyes\n#else\nno\n#endif"
		got, l := preprocess(text, headers{"dir/there.h": ""}, Options{Constant: constant})
		if got != tt.want || l.Len() > 0 {
			t.Errorf("#if %s: %s, want %s %v", tt.cond, got, tt.want, l.Sorted())
		}
	}
	got, _ := preprocess("#ifdef A\n1\n#elif 0\n2\n#elifndef A\n3\n#if 1\n4\n#else\n5\n#endif\n#else\n6\n#endif\n7", nil, Options{})
	if got != "3 4 7" {
		t.Errorf("nested conditions: got %s", got)
	}
}

func TestIncludes(t *testing.T) {
	files := headers{
		"dir/a.h": "#pragma once\n#include \"sub/b.h\"\na", "dir/sub/b.h": "#include \"c.h\"\nb", "dir/sub/c.h": "c",
		"i/x.h": "#ifndef X\n#define X\nx\n#endif", "i/y.h": "#include <x.h>\ny", "j/x.h": "wrong", "dir/name.h": "#define N <y.h>",
		"cli.h": "first", "sys/linux/types.h": "wrong", "sys/linux/fs.h": "wrong", "i/linux/own.h": "own",
	}
	tests := []struct{ text, want string }{
		{"#include \"a.h\"\n#include \"a.h\"", "first c b a"},
		{"#include <x.h>\n#include \"x.h\" /* c */\n#include <y.h> // d", "first x y"},
		{"#include \"name.h\"\n#include N", "first x y"},
		{"#include <linux/fs.h>\n#include \"linux/fs.h\"\n#include <stdio.h>\n#include \"../fs/mount.h\"", "first"},
		{"#include <linux/own.h>", "first own"},
		{"#if 0\n#include \"nosuch.h\"\n#endif", "first"},
	}
	for _, tt := range tests {
		got, l := preprocess(tt.text, files, Options{Dirs: []string{"i", "j", "sys"}, Include: []string{"cli.h"}})
		if got != tt.want || l.Len() > 0 {
			t.Errorf("%s\n got %s\nwant %s\n%v", tt.text, got, tt.want, l.Sorted())
		}
	}
}

func TestErrors(t *testing.T) {
	tests := []struct{ text, want string }{
		{"#include \"nosuch.h\"", "'nosuch.h' file not found"},
		{"#include <nosuch.h>", "-I DIR"},
		{"#include", "#include needs <file> or \"file\""},
		{"#include \"main.h\"", "nested too deeply (max 100)"},
		{"#include \"nul.h\"", "NUL byte"},
		{"#include \"bad.h\"\n", "dir/bad.h:2:1: error[E0222]: #error on purpose\n 2 | #error on purpose\n   | ^~~~~~~~~~~~~~~~~\ndir/main.h:1:1: note: included from\ndir/a.bt:1:1: note: included from"},
		{"#if 1", "main.h:1:1: error[E0222]: #if without #endif"},
		{"#endif", "#endif without #if"},
		{"#if 1\n#else\n#else\n#endif", "#else after #else"},
		{"#if 1 / 0\n#endif", "division by zero"},
		{"#if (1\n#endif", "expected ')'"},
		{"#if 1 2\n#endif", "unexpected '2'"},
		{"#if 09\n#endif", "invalid number 09"},
		{"#define", "#define needs a name"},
		{"#define F(a, a) a", "two parameters a"},
		{"#define F(a", "missing ')' after the parameters"},
		{"#define F(1) a", "invalid parameters"},
		{"#define F(a) a\nF(1, 2)", "macro F takes 1 arguments, found 2"},
		{"#define F(a) a\nF(1", "missing ')' in call"},
		{"#define F(a) a##a\nF(()", "missing ')' in call"},
		{"#define F(a) a##+\nF(b)", "is not a valid token"},
		{"#nosuch", "unknown preprocessor directive #nosuch"},
		{"/* open", "unterminated comment"},
		{"char x = 'a", "missing '"},
		{"#define defined 1", "'defined' cannot be a macro"},
	}
	files := headers{"dir/nul.h": "a\x00", "dir/bad.h": "\n#error on purpose\n"}
	for _, tt := range tests {
		_, l := preprocess(tt.text, files, Options{})
		if err := l.Err(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant %q", tt.text, err, tt.want)
		}
	}
}

// TestHostile checks that input designed to grow without limit is rejected early, with an error.
func TestHostile(t *testing.T) {
	var doubling, deep, args strings.Builder
	for i := range 40 {
		fmt.Fprintf(&doubling, "#define A%d A%d A%d\n", i, i+1, i+1)
	}
	for i := range 20000 {
		fmt.Fprintf(&deep, "#define A%d A%d\n", i, i+1)
	}
	args.WriteString("#define f(x) x x\n" + strings.Repeat("f(", 2000) + "1" + strings.Repeat(")", 2000))
	for name, text := range map[string]string{"doubling": doubling.String() + "A0", "deep": deep.String() + "A0", "arguments": args.String(),
		"condition": "#if " + strings.Repeat("(", 100000) + "\n#endif"} {
		began := time.Now()
		_, l := preprocess(text, nil, Options{})
		if !l.HasErrors() {
			t.Errorf("%s: no error", name)
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

// FuzzRead checks that no input makes the preprocessor panic or loop forever, and that its output
// consists of tokens with known positions.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		"#define A(x, ...) #x x##__VA_ARGS__\nA(1, 2)\n#if A\n#elif defined(A)\n#endif", "#include \"main.h\"\n#pragma once", "#define B B\\\nB\nB /* */ // x",
		"#include <linux/fs.h>\n#if __has_include(\"a.h\") ? 1 : 2 / 0\n\"s\\x41\" 'c' 0x1p-3 ... <<= \n#endif", "#define f(a) a*g\n#define g(a) f(a)\nf(2)(9)(3)",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := new(diag.List)
		src := diag.NewSource("dir/a.bt", "#include \"main.h\"")
		u := Read([]Chunk{{At: src.Span(0, len(src.Text)), Directive: true}}, Options{ReadFile: headers{"dir/main.h": text}.read}, l)
		for _, tok := range u.Tokens {
			if tok.Kind != Pragma && !tok.At.Valid() {
				t.Fatalf("token %q has no position", tok.Text)
			}
		}
		_ = l.Err()
		for _, name := range []string{"A", "B", "f"} {
			if m, ok := u.Macro(name); ok {
				u.Expand(m.Body, nil)
				_ = m.BodyAt().Valid() && m.BodyAt().Start <= m.BodyAt().End && m.BodyAt().Text() == ""
			}
		}
	})
}

// TestPredefinedLater checks that predefined macros are found whether or not the script has C source,
// because they are only read if needed.
func TestPredefinedLater(t *testing.T) {
	opt := Options{Predefined: "#define A 1\n#ifdef A\n#define TWICE(x) ((x) * A)\n#endif\n#ifdef B\n#define C 3\n#endif\n"}
	src := diag.NewSource("a.bt", "#define OWN 1")
	for _, chunks := range [][]Chunk{nil, {{At: src.Span(0, len(src.Text)), Directive: true}}} {
		for _, name := range []string{"A", "TWICE", "__LINE__", "C", "D", "", "TWIC"} {
			u := Read(chunks, opt, &diag.List{})
			m, ok := u.Macro(name)
			want := name == "A" || name == "TWICE" || name == "__LINE__"
			if ok != want || ok && (m.Name != name || m.At.Valid()) {
				t.Errorf("%d chunks: macro %q: %+v, %v; want %v", len(chunks), name, m, ok, want)
			}
		}
		u, want := Read(chunks, opt, &diag.List{}), 5+len(chunks)
		if got := u.Macros(); len(got) != want {
			t.Errorf("%d chunks: macros %q, want %d", len(chunks), got, want)
		}
		tokens := []Token{{Kind: Word, Text: "A"}}
		if got := Join(Read(chunks, opt, &diag.List{}).Expand(tokens, nil)); got != "1" {
			t.Errorf("%d chunks: A expands to %q", len(chunks), got)
		}
	}
}
