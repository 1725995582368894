// SPDX-License-Identifier: Apache-2.0

package grammar

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestOneTokenDecides checks that each decision of the parser is made with one token of lookahead: the
// generator found the alternatives disjoint and wrote plain switches. Adaptive prediction, the only
// source of ambiguity and of full-context lookahead, must not be used.
func TestOneTokenDecides(t *testing.T) {
	code, err := os.ReadFile("parser/bt_parser.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(code), "func (p *BtParser) Script()") {
		t.Fatal("this is not the generated parser")
	}
	for i, line := range strings.Split(string(code), "\n") {
		if strings.Contains(line, "AdaptivePredict") {
			t.Errorf("bt_parser.go:%d: %s", i+1, strings.TrimSpace(line))
		}
	}
}

// TestGenerated checks that the generated files say that they are generated, and that they match the
// grammars.
func TestGenerated(t *testing.T) {
	sum := sha256.New()
	for _, name := range []string{"BtLexer.g4", "BtParser.g4"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	for _, name := range []string{"parser/bt_lexer.go", "parser/bt_parser.go"} {
		code, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitN(string(code), "\n", 3)
		if !strings.HasPrefix(lines[0], "// Code generated ") || !strings.HasSuffix(lines[0], " DO NOT EDIT.") {
			t.Errorf("%s starts with %q", name, lines[0])
		}
		if want := fmt.Sprintf("// Grammars: sha256 %x", sum.Sum(nil)); lines[1] != want {
			t.Errorf("%s is out of date: run go generate ./grammar", name)
		}
	}
}
