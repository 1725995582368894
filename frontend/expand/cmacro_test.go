// SPDX-License-Identifier: Apache-2.0

package expand

import (
	"strings"
	"testing"

	"btc/frontend/cpp"
	"btc/frontend/diag"
	"btc/frontend/parse"
)

// expandBody expands "begin { BODY }" after C source and returns it on one line.
func expandBody(ctext, body string, opt Options) (string, *diag.List) {
	l := new(diag.List)
	s := parse.Script(diag.NewSource("x.bt", ctext+"\nbegin { "+body+" }"), l, isBuiltinValue)
	if s == nil {
		return "", l
	}
	opt.Builtin = builtin
	opt.C.ReadFile = func(string) (string, error) { return "", nil }
	opt.IsValue = isBuiltinValue
	s = Script(s, l, opt)
	text := result(s, l)
	_, text, _ = strings.Cut(text, "begin")
	return strings.Join(strings.Fields(text), " "), l
}

// TestCMacros checks the expansion of C macros in the script.
func TestCMacros(t *testing.T) {
	tests := []struct{ ctext, body, want string }{
		{"#define A 1 + 2", "print(A * 3);", "{ print((1 + 2) * 3); }"},
		{"#define A $x\n#define B A", "print(B);", "{ print($x); }"},
		{"#define SQ(x) x * x", "print(SQ(1 + 2)); print(SQ($y));", "{ print((1 + 2 * 1 + 2)); print(($y * $y)); }"},
		{"#define SQ(x) ((x) * (x))", "print(SQ(1 + 2));", "{ print(((1 + 2) * (1 + 2))); }"},
		{"#define C(a, b) a##b", "print(C(p, id));", "{ print(pid); }"},
		{"#define S(x) #x", "print(S(a + b));", "{ print(\"a + b\"); }"},
		{"#define L(f, ...) printf(f, ##__VA_ARGS__)", "L(\"a\"); L(\"%d %d\", 1, $b);", "{ printf(\"a\"); printf(\"%d %d\", 1, $b); }"},
		{"#define F(p, f) p->f", "print(F($a, next));", "{ print($a->next); }"},
		{"#define P printf\n#define Q P", "Q(\"a\");", "{ printf(\"a\"); }"},
		{"#define SET(v) $x = v;", "SET(3);", "{ { $x = 3; } }"},
		{"#define A \\\n 1 + \\\n 2", "print(A);", "{ print((1 + 2)); }"},
		{"#define A A", "print(A);", "{ print(A); }"},
		{"#define A 'a'", "print(A);", "{ print(A); }"}, // a C constant, left to the checker
		{"", "print(__LINE__); print(__FILE__);", "{ print(2); print(\"x.bt\"); }"},
	}
	for _, tt := range tests {
		got, l := expandBody(tt.ctext, tt.body, Options{})
		if got != tt.want || l.HasErrors() {
			t.Errorf("%s\n%s\n got %s\nwant %s\n%v", tt.ctext, tt.body, got, tt.want, l.Err())
		}
	}
	for body, want := range map[string]string{
		"print(TWO(1));":  "macro TWO takes 2 arguments, found 1",
		"print(BAD(1));":  "unable to expand macro as an expression: 1 +",
		"print(C(1, +));": "expected expression",
	} {
		_, l := expandBody("#define TWO(a, b) a\n#define BAD(a) a +\n#define C(a, b) a##b", body, Options{})
		if err := l.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

// TestValues checks that parameters whose values are known at compile time are replaced.
func TestValues(t *testing.T) {
	opt := Options{Values: map[int]string{1: "5", 2: "-7", 3: "a b", 4: "0b11", 5: "1:2"}, Named: map[string]string{"n": "9", "s": "x", "b": "off"}, C: cpp.Options{}, IsValue: isBuiltinValue}
	tests := []struct{ body, want string }{
		{"print($1); print($2 + 1); print($3); print($4); print($6);", `{ print(5); print((-7) + 1); print("a b"); print(0b11); print($6); }`},
		{"print(str($1)); print(str($3, 2)); print(str($6));", `{ print("5"); print(str("a b", 2)); print(str($6)); }`},
		{`print(getopt("n", 1)); print(getopt("s", "d")); print(getopt("b", true)); print(getopt("z", 1));`,
			`{ print(9); print("x"); print(false); print(getopt("z", 1)); }`},
	}
	for _, tt := range tests {
		if got, l := expandBody("", tt.body, opt); got != tt.want || l.HasErrors() {
			t.Errorf("%s\n got %s\nwant %s\n%v", tt.body, got, tt.want, l.Err())
		}
	}
	for count, want := range map[string]string{"": "{ print($#); }", "0": "{ print(0); }", "5": "{ print(5); }"} {
		opt := opt
		opt.Count = count
		if got, l := expandBody("", "print($#);", opt); got != want || l.HasErrors() {
			t.Errorf("count %q: %s, want %s\n%v", count, got, want, l.Err())
		}
	}
	l := new(diag.List)
	s := Script(parse.Script(diag.NewSource("x.bt", "interval:s:$1, kprobe:f$1 { } uprobe:$3:$6 { }"), l, isBuiltinValue), l, opt)
	if got := result(s, l); !strings.Contains(got, "interval:s:5") || !strings.Contains(got, "kprobe:f5") || !strings.Contains(got, "uprobe:$3:$6") {
		t.Errorf("attach points:\n%s", got)
	}
}
