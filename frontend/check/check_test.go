// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/targets/kernel"
)

// theTarget is the embedded target, opened once for all tests.
var theTarget = sync.OnceValue(func() *kernel.Target {
	t, err := kernel.Default("x86_64")
	if err != nil {
		panic(err)
	}
	return t
})

// checkText parses and checks a script; there is no Info if the script does not parse.
func checkText(text string) (*Info, *diag.List) {
	l := new(diag.List)
	script := parse.Script(diag.NewSource("test.bt", text), l, expand.Values(IsValue))
	if script == nil {
		return nil, l
	}
	script = expand.Script(script, l, expand.Options{Builtin: IsBuiltin, IsValue: expand.Values(IsValue)})
	return Check(script, theTarget(), nil, l), l
}

// mustCheck checks a script that has no errors.
func mustCheck(t *testing.T, text string) *Info {
	t.Helper()
	info, l := checkText(text)
	if err := l.Err(); err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return info
}

var expectation = regexp.MustCompile(`// (?:ERROR|WARN) (".*")\s*$`)

// TestScripts checks the scripts of testdata. Each error or warning is expected by a comment //
// ERROR "E0201: text" or // WARN "W0203: text" at the end of its line (text may be a part of the
// message); a second one on the same line follows after a space.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range txtar.Parse(data).Files {
			t.Run(filepath.Base(file)+"/"+f.Name, func(t *testing.T) { testScript(t, string(f.Data)) })
		}
	}
}

func testScript(t *testing.T, text string) {
	info, l := checkText(text)
	want := map[int][]string{}
	for i, line := range strings.Split(text, "\n") {
		if m := expectation.FindStringSubmatch(line); m != nil {
			for _, q := range regexp.MustCompile(`"(?:[^"\\]|\\.)*"`).FindAllString(m[1], -1) {
				s, err := strconv.Unquote(q)
				if err != nil {
					t.Fatalf("line %d: %v", i+1, err)
				}
				want[i+1] = append(want[i+1], s)
			}
		}
	}
	for _, d := range l.Sorted() {
		at := d.Span
		if n := len(d.Expanded); n > 0 { // position of the call in the script
			at = d.Expanded[n-1]
		}
		line, text := at.Pos().Line, fmt.Sprintf("%s: %s", d.Code, d.Message)
		if !take(want, line, text) {
			t.Errorf("unexpected: %v", d)
		}
	}
	for line, all := range want {
		for _, s := range all {
			t.Errorf("line %d: no message %q", line, s)
		}
	}
	if !l.HasErrors() {
		complete(t, info)
	}
}

// take removes the first expectation that matches text.
func take(want map[int][]string, line int, text string) bool {
	for i, s := range want[line] {
		code, part, _ := strings.Cut(s, ": ")
		if strings.HasPrefix(text, code+": ") && strings.Contains(text, part) {
			want[line] = append(want[line][:i], want[line][i+1:]...)
			return true
		}
	}
	return false
}

// complete checks that the facts about a checked script are complete.
func complete(t *testing.T, info *Info) {
	for _, p := range info.Programs {
		for x, e := range p.Body.exprs {
			if e.Type == nil || invalid(e.Type) {
				t.Errorf("%s: no type for %q", p.Point.Text, x.Span().Text())
			}
		}
		for _, v := range p.Body.Vars {
			if v.Type == nil || invalid(v.Type) {
				t.Errorf("%s: no type for $%s", p.Point.Text, v.Name)
			}
		}
	}
	for _, m := range info.Maps {
		if m.Value == nil || invalid(m.Value) || m.Shape == "" {
			t.Errorf("%s: no value type", m.Name)
		}
	}
}

// exprOf finds the facts of "print(EXPR)" in the first program.
func exprOf(t *testing.T, info *Info) *Expr {
	t.Helper()
	body := info.Programs[0].Probe.Body
	for _, s := range body.Stmts {
		if es, ok := s.(*ast.ExprStmt); ok {
			if call, ok := es.X.(*ast.Call); ok && call.Func.Text == "print" {
				return info.Programs[0].Body.Expr(call.Args[0])
			}
		}
	}
	t.Fatal("no print in the script")
	return nil
}

// TestComptimeOfKernelTypes checks that a value that is relocated on hosts has the target's value in
// comptime, where it decides which code is compiled.
func TestComptimeOfKernelTypes(t *testing.T) {
	for cond, taken := range map[string]bool{
		"sizeof(struct task_struct) < 8":             false,
		"sizeof(struct task_struct) >= 8":            true,
		"offsetof(struct task_struct, pid) == 0":     false,
		"TCP_ESTABLISHED != 1":                       false,
		"sizeof(struct task_struct) > 8 && 1 == 1":   true,
		"sizeof(struct task_struct) + TCP_CLOSE < 8": false,
	} {
		_, l := checkText("begin { if comptime (" + cond + `) { fail("taken"); } else { print(1); } }`)
		if l.HasErrors() != taken {
			t.Errorf("comptime (%s): error = %v, branch taken = %t", cond, l.Err(), taken)
		}
	}
}
