// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"strings"
	"testing"

	"btc/frontend/diag"
)

// TestHints checks that habits from other languages and mistakes in shell quoting give a single error
// that says what to write.
func TestHints(t *testing.T) {
	for _, c := range []struct{ script, at, hint string }{
		{"begin { if (pid == 1 and tid == 2) { } }", "and", "&& means and"},
		{"begin { if (pid == 1 or tid == 2) { } }", "or", "|| means or"},
		{"begin { if (not pid) { } }", "pid", "! means not"},
		{"begin { if (pid = 1) { } }", "=", "== compares"},
		{"begin /pid = 1/ { }", "=", "== compares"},
		{`begin { if (comm =~ "ba*") { } }`, "=", "strcontains"},
		{"begin { int x = 1; }", " x", "variables begin with $"},
		{"begin { u64 x = 1; }", " x", "variables begin with $"},
		{"begin { var x = 1; }", " x", "variables begin with $"},
		{"begin { int *x = 1; }", "int *x", "variables begin with $"},
		{"begin { struct file *f = arg0; }", "struct", "variables begin with $"},
		{"begin { x = 1; }", "x", "a variable begins with $, a map with @: $x"},
		{"begin { @ = 1; switch (pid) { case 1: @ = 1; } }", " { case", "there is no switch"},
		{"begin { @ = 1; switch ((pid) + (1)) { case 1: @ = 1; } }", " { case", "there is no switch"},
		{"begin { @ = (1); int x = 1; }", " x", "variables begin with $"},
		{"begin { $1 = 1; }", "$1", "a positional parameter"},
		{"begin { $x := 1; }", ":", "= assigns: $x = 1"},
		{"begin { for ($i = 0; $i < 10; $i++) { print($i); } }", "=", "for ($i : 0..10)"},
		{"begin { for (int i = 0; i < 10; i++) { print(i); } }", "int", "for ($i : 0..10)"},
		{"begin { for $kv in @x { } }", "in", "for ($kv : @map)"},
		{"begin { for ($k, $v : @x) { } }", ",", "for ($kv : @map)"},
		{"begin { do { @++; } while (@ < 5); }", " { @", "while (condition)"},
		{"begin { switch (pid) { case 1: @ = 1; } }", " { case", "there is no switch"},
		{"begin { if (pid) { } elif (tid) { } }", " { } }", "else if"},
		{"begin { if (pid == 1) @ = 1; }", "@", "needs braces, even if it is one statement"},
		{"begin { while (pid == 1) @ = 1; }", "@", "needs braces, even if it is one statement"},
		{"begin { delete @x[tid]; }", " @x", "delete(@x)"},
		{`begin { printf "x"; }`, ` "x"`, `printf("x")`},
		{"begin { @x{1} = 1; }", "{1", "write keys in brackets: @x[1]"},
		{"begin { @x(1) = 1; }", "(1", "write keys in brackets: @x[1]"},
		{"begin { @x[1][2] = 1; }", "@x", "@x[1, 2]"},
		{"begin { @1 = 1; }", "1", "begins with a letter"},
		{"begin { @my-map = 1; }", "@my", "only letters, digits and _"},
		{"begin { @ = 1; }}", "}", "unmatched '}'"},
		{"kprobe:f kprobe:g { }", "kprobe:g", "separate attach points with commas"},
		{"kprobe:f pid == 1 { }", "pid", "between slashes"},
		{"kprobe:f @x = count();", "@x", "write the body in braces"},
		{"kprobe:f /pid == 1/ /tid == 1/ { }", "/tid == 1/ {", "combine the conditions with &&"},
		{"kprobe:f // { @ = 1; }", "", "// begins a comment"},
		{"fn f($a : int64) { return $a; }", "{", "its return type"},
		{`include "x.bt"; begin { }`, `"x.bt"`, "import"},
		{"begin { printf(%d\\n, pid); }", "%", "the shell has removed them"},
		{"begin { printf(\\n); }", "\\", "the shell has removed them"},
		{"begin { = 1; }", "=", "in single quotes"},
		{"begin { if ( == 1) { } }", "==", "in single quotes"},
		{"begin { $ = 1; }", "$", "in single quotes"},
		{"begin { printf('a'); }", "'", "double quotes"},
		{"begin { printf(“a”); }", "“", "double quotes"},
		{"begin { printf(‘a’); }", "‘", "double quotes"},
		{"begin { @ = 5 – 1; }", "–", "looks like -"},
		{"begin { @ = 5； }", "；", "looks like ;"},
		{"begin { @ =\u00a05; }", "\u00a0", "invisible"},
		{"begin { @ = \u200b5; }", "\u200b", "invisible"},
		// Consequences of an error must not be reported.
		{"begin { printf(\"a); }", "\"a", ""},
		{"begin { printf(\"%d\\n\"; pid); @x = 1; }", ";", ""},
		{"begin { @ = pid; ) kprobe:f { @ = tid; }", ")", ""},
		{"begin { /* a }", "/*", ""},
	} {
		var l diag.List
		Script(diag.NewSource("x.bt", c.script), &l, isValue)
		all := l.Sorted()
		if len(all) != 1 {
			t.Errorf("%s: want one error, got %v", c.script, l.Err())
			continue
		}
		d := all[0]
		if hint := strings.Join(d.Hints, "\n"); !strings.Contains(hint, c.hint) || c.hint == "" && hint != "" {
			t.Errorf("%s: hint %q, want %q", c.script, hint, c.hint)
		}
		if at := c.script[d.Span.Start:]; !strings.HasPrefix(at, c.at) {
			t.Errorf("%s: marked %q, want %q", c.script, at, c.at)
		}
	}
}
