// SPDX-License-Identifier: Apache-2.0

package diag

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func render(t *testing.T, l *List, opt RenderOptions) string {
	t.Helper()
	var b strings.Builder
	if err := Render(&b, l, opt); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestRender(t *testing.T) {
	src := NewSource(Stdin, "begin { print(foo); }\n\tif (\"é€\" == 日本) x\nend\n")
	at := func(text string) Span {
		i := strings.Index(src.Text, text)
		return src.Span(i, i+len(text))
	}
	tests := []struct {
		name string
		make func(l *List)
		want string
	}{
		{"hint", func(l *List) { l.Add(Syntax, at("foo"), "no %s", "foo").Hint("write bar") }, `
stdin:1:15: error[E0101]: no foo
 1 | begin { print(foo); }
   |               ^~~
   = hint: write bar
`},
		{"tab", func(l *List) { l.Add(Syntax, at("if"), "m") }, `
stdin:2:2: error[E0101]: m
 2 |     if ("é€" == 日本) x
   |     ^~
`},
		{"wide", func(l *List) { l.Add(Syntax, at("日本"), "m") }, `
stdin:2:17: error[E0101]: m
 2 |     if ("é€" == 日本) x
   |                 ^~~~
`},
		{"after wide", func(l *List) { l.Add(Syntax, at("x\n"), "m") }, `
stdin:2:25: error[E0101]: m
 2 |     if ("é€" == 日本) x
   |                       ^
`},
		{"lines", func(l *List) { l.Add(Syntax, at("foo); }\n\tif"), "m") }, `
stdin:1:15: error[E0101]: m
 1 | begin { print(foo); }
   |               ^~~~~~~
`},
		{"end", func(l *List) { l.Add(Syntax, src.Span(len(src.Text), len(src.Text)), "m") }, `
stdin:4:1: error[E0101]: m
 4 |
   | ^
`},
		{"chain", func(l *List) {
			l.Add(Syntax, at("foo"), "m").Note(at("end"), "declared here").From(at("print"), at("begin"))
		}, `
stdin:1:15: error[E0101]: m
 1 | begin { print(foo); }
   |               ^~~
stdin:3:1: note: declared here
 3 | end
   | ^~~
stdin:1:9: note: expanded from
 1 | begin { print(foo); }
   |         ^~~~~
stdin:1:1: note: expanded from
 1 | begin { print(foo); }
   | ^~~~~
`},
		{"no position", func(l *List) { l.Add(Syntax, Span{}, "cannot read x").Hint("check the path") }, `
error[E0101]: cannot read x
 = hint: check the path
`},
		{"sorted", func(l *List) {
			l.Add(Syntax, at("end"), "second")
			l.Add("W0199", at("foo"), "first")
			l.Add(Syntax, at("end"), "second")
		}, `
stdin:1:15: warning[W0199]: first
 1 | begin { print(foo); }
   |               ^~~
stdin:3:1: error[E0101]: second
 3 | end
   | ^~~
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l List
			tt.make(&l)
			if got := render(t, &l, RenderOptions{}); got != strings.TrimPrefix(tt.want, "\n") {
				t.Errorf("got:\n%s\nwant:%s", got, tt.want)
			}
		})
	}
}

func TestRenderOptions(t *testing.T) {
	src := NewSource("a.bt", "x y z\x1b[31m\n")
	var l List
	l.Add("W0199", src.Span(0, 1), "w")
	l.Add(Syntax, src.Span(2, 3), "one")
	l.Add(Syntax, src.Span(4, 5), "two")
	got := render(t, &l, RenderOptions{NoWarnings: true, MaxErrors: 1})
	if strings.Contains(got, "W0199") || strings.Contains(got, "two") || !strings.Contains(got, "... and 1 more errors") {
		t.Errorf("got:\n%s", got)
	}
	l.Add("W0199", src.Span(2, 3), "v")
	if got := render(t, &l, RenderOptions{MaxErrors: 1}); strings.Count(got, "W0199") != 1 || !strings.Contains(got, "... and 1 more warnings") {
		t.Errorf("warnings not limited:\n%s", got)
	}
	if strings.Contains(got, "\x1b") {
		t.Error("escape sequence of the source in the output")
	}
	if got := render(t, &l, RenderOptions{Color: true}); !strings.Contains(got, "\x1b[1;31merror[E0101]\x1b[0m") {
		t.Errorf("colour missing:\n%q", got)
	}
}

// TestRenderLongLine checks that the marker is visible in lines of any length.
func TestRenderLongLine(t *testing.T) {
	src := NewSource("a.bt", strings.Repeat("a", 100000)+"HERE"+strings.Repeat("b", 100000))
	var l List
	l.Add(Syntax, src.Span(100000, 100004), "m")
	lines := strings.Split(render(t, &l, RenderOptions{}), "\n")
	if len(lines[1]) > 200 || len(lines[2]) > 200 {
		t.Fatalf("lines of %d and %d columns", len(lines[1]), len(lines[2]))
	}
	if i := strings.Index(lines[1], "HERE"); i < 0 || strings.Index(lines[2], "^~~~") != i {
		t.Errorf("got:\n%s\n%s", lines[1], lines[2])
	}
}

// TestRenderLongLineOfWideCharacters checks that a long line is cut between characters, and that only
// the part near the marker is read.
func TestRenderLongLineOfWideCharacters(t *testing.T) {
	for pad := range 3 {
		text := strings.Repeat("x", pad) + strings.Repeat("漢", 2000) + "HERE" + strings.Repeat("漢", 2000)
		src := NewSource("a.bt", text)
		var l List
		at := strings.Index(text, "HERE")
		l.Add(Syntax, src.Span(at, at+4), "m")
		line := strings.Split(render(t, &l, RenderOptions{}), "\n")[1]
		if strings.ContainsRune(line, utf8.RuneError) || !strings.Contains(line, "...漢") || !strings.Contains(line, "漢HERE漢") {
			t.Errorf("got:\n%s", line)
		}
	}
}

func TestErr(t *testing.T) {
	var l List
	src := NewSource("a.bt", "x")
	l.Add("W0199", src.Span(0, 1), "w")
	if err := l.Err(); err != nil {
		t.Errorf("Err() with only warnings = %v", err)
	}
	d := l.Add(Syntax, src.Span(0, 1), "bad")
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), "a.bt:1:1: error[E0101]: bad") {
		t.Errorf("Err() = %v", err)
	}
	var target *Diagnostic
	if !errors.As(error(d), &target) || l.Errors() != 1 || l.Len() != 2 {
		t.Error("wrong counts")
	}
}

func TestPosition(t *testing.T) {
	src := NewSource("a", "ab\r\né\n")
	for _, tt := range []struct{ offset, line, col int }{{0, 1, 1}, {1, 1, 2}, {3, 1, 4}, {4, 2, 1}, {6, 2, 3}, {7, 3, 1}, {99, 3, 1}, {-1, 1, 1}} {
		if p := src.Position(tt.offset); p != (Position{tt.line, tt.col}) {
			t.Errorf("offset %d: position %v", tt.offset, p)
		}
	}
	if src.Line(1) != "ab" || src.Line(2) != "é" || src.Line(3) != "" || src.LineCount() != 3 || src.LineStart(2) != 4 {
		t.Error("wrong lines")
	}
	if got := src.RuneOffsets(); len(got) != 7 || got[5] != 6 {
		t.Errorf("rune offsets %v", got)
	}
}

// TestLibrary checks that a warning in a macro of the standard library is reported at the call, and dropped if it is
// about the macro's style; errors keep their position, and the calls that led to it.
func TestLibrary(t *testing.T) {
	user := NewSource("a.bt", "begin { strftime2(1); }\n")
	library := NewSource("stdlib/base.bt", "macro strftime2(x) { (int64)x; }\n")
	library.Library = true
	call := user.Span(8, 20)
	inner := library.ExpandedAt(call)
	nested := library.ExpandedAt(inner.Span(6, 18)) // a macro of the library that calls another
	for _, c := range []struct {
		what string
		code Code
		at   Span
		want string
	}{
		{"style", NeedlessCast, inner.Span(21, 30), ""},
		{"style in the script", NeedlessCast, user.Span(8, 20), "a.bt:1:9: warning[W0209]: m"},
		{"style in a macro of the script", NeedlessCast, user.ExpandedAt(call).Span(0, 5), "a.bt:1:1: warning[W0209]: m"},
		{"values", ImplicitCast, inner.Span(21, 30), "a.bt:1:9: warning[W0201]: in strftime2(): m"},
		{"values, two macros deep", ImplicitCast, nested.Span(21, 30), "a.bt:1:9: warning[W0201]: in strftime2(): m"},
		{"library itself", ImplicitCast, library.Span(21, 30), "stdlib/base.bt:1:22: warning[W0201]: m"},
		{"error", Syntax, inner.Span(21, 30), "stdlib/base.bt:1:22: error[E0101]: m"},
	} {
		var l List
		d := l.Add(c.code, c.at, "m")
		l.Add(c.code, c.at, "m") // not twice
		if c.want == "" {
			if l.Len() != 0 {
				t.Errorf("%s: %v, want nothing", c.what, l.Sorted()[0])
			}
			continue
		}
		if l.Len() != 1 || l.Sorted()[0].Error() != c.want {
			t.Errorf("%s: %d, %v, want %s", c.what, l.Len(), d, c.want)
		}
		if c.what == "error" && (len(d.Expanded) != 1 || d.Expanded[0] != call) {
			t.Errorf("%s: expanded from %v", c.what, d.Expanded)
		}
	}
}

// TestSorted checks the order of diagnostics: by file, start and end, those without a position first, others as found.
func TestSorted(t *testing.T) {
	a, b := NewSource("a", "0123456789"), NewSource("b", "0123456789")
	var l List
	for _, s := range []Span{b.Span(0, 1), a.Span(5, 6), a.Span(2, 9), {}, a.Span(2, 3)} {
		l.Add(Syntax, s, "m")
	}
	l.Add(Syntax, a.Span(2, 3), "later")
	var other List
	other.Merge(&l)
	other.Merge(&l) // duplicates
	var got []string
	for _, d := range other.Sorted() {
		got = append(got, d.Error())
	}
	// Equal text at one position is one diagnostic, whatever its end.
	want := []string{"error[E0101]: m", "a:1:3: error[E0101]: later", "a:1:3: error[E0101]: m", "a:1:6: error[E0101]: m", "b:1:1: error[E0101]: m"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q", got)
	}
}

// TestNoPosition checks that a message without a position has a file for code hosts, which refuse a log with a result that has none.
func TestNoPosition(t *testing.T) {
	l := &List{}
	l.Add(Ignored, Span{}, "a feature")
	messages := Messages(l, "a b.bt", false)
	var b strings.Builder
	if err := WriteSARIF(&b, "1", messages); err != nil || messages[0].File != "a b.bt" || !strings.Contains(b.String(), `"uri": "a%20b.bt"`) || strings.Contains(b.String(), "region") {
		t.Errorf("%v: %+v: %s", err, messages, &b)
	}
}
