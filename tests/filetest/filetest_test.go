// SPDX-License-Identifier: Apache-2.0

package filetest

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"btc/ir"
)

const archiveText = `A constant is replaced.

pass ones
-- in --
func @p prog (kind kprobe) {
b0(v0:ctx):
  ret 1
}
-- out --


func @p prog (kind kprobe) {
b0(v0:ctx):
  ret 1
}
-- inputs --
run p
`

// TestRunner checks that a case fails if its pass changes what the program does, whatever the expected
// output says, and that the errors of a pass are shown.
func TestRunner(t *testing.T) {
	ret := func(n int64) Pass {
		return func(m *ir.Module) []ir.Diag {
			b := m.Funcs[0].Entry()
			b.Ret(ir.Const(n), b.Term.Pos)
			return nil
		}
	}
	refuse := func(*ir.Module) []ir.Diag { return []ir.Diag{{Pos: ir.Pos{Line: 1, Col: 2}, Text: "no"}} }
	tests := []struct {
		name      string
		pass      Pass
		err, want string
	}{
		{"same", ret(1), "", "ret 1"},
		{"wrong", ret(2), "input 0 returns 1 before and 2 after", ""},
		{"refused", refuse, "", "1:2: no"},
	}
	for _, tt := range tests {
		c, err := read(txtar.Parse([]byte(archiveText)), map[string]Pass{"ones": tt.pass})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.run()
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: error = %v, want %q", tt.name, err, tt.err)
			}
			continue
		}
		if err != nil || !strings.Contains(got["out"]+got["error"], tt.want) {
			t.Errorf("%s: run() = %v, %v", tt.name, got, err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"pass nope\n-- in --\n":     `no pass "nope"`,
		"-- in --\n":                `no line "pass NAME"`,
		"pass ones\n":               "missing section",
		"pass ones\n-- in --\nfunc": "in: line 1",
		strings.Replace(archiveText, "-- out", "-- put", 1): `unknown section "put"`,
	} {
		_, err := read(txtar.Parse([]byte(text)), map[string]Pass{"ones": func(*ir.Module) []ir.Diag { return nil }})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}
