package grammar

import (
	"os"
	"strings"
	"testing"
)

// Each decision of the parser is made by one token of lookahead: the generator
// found the alternatives disjoint and wrote plain switches. Adaptive prediction,
// the only source of ambiguity and of full-context lookahead, is never called.
func TestOneTokenDecides(t *testing.T) {
	code, err := os.ReadFile("parser/bt_parser.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(code), "func (p *BtParser) Script()") {
		t.Fatal("this is not the parser")
	}
	for i, line := range strings.Split(string(code), "\n") {
		if strings.Contains(line, "AdaptivePredict") {
			t.Errorf("bt_parser.go:%d: %s", i+1, strings.TrimSpace(line))
		}
	}
}

// The generated files say that they are generated.
func TestGeneratedMark(t *testing.T) {
	for _, name := range []string{"parser/bt_lexer.go", "parser/bt_parser.go"} {
		code, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(code), "\n")
		if !strings.HasPrefix(first, "// Code generated ") || !strings.HasSuffix(first, " DO NOT EDIT.") {
			t.Errorf("%s starts with %q", name, first)
		}
	}
}
