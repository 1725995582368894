// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"strings"
	"testing"

	"btc/frontend/ast"
)

// TestEnvironment checks which variables become settings, in which order, and their types.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct{ environ, want string }{
		{"", ""},
		{"PATH=/bin HOME=/ BPFTRACE_PAGER=less BPFTRACE_=1", ""},
		{"MAX_STRLEN=5 xBPFTRACE_MAX_STRLEN=5", ""},
		{"BPFTRACE_MAX_STRLEN=5", "max_strlen=5"},
		{"BPFTRACE_STRLEN=5", "strlen=5"},
		{"BPFTRACE_MISSING_PROBES=warn BPFTRACE_MAX_STRLEN=5 HOME=/ BPFTRACE_CPP_DEMANGLE=true", "cpp_demangle=true max_strlen=5 missing_probes='warn'"},
		{"BPFTRACE_CPP_DEMANGLE=false", "cpp_demangle=false"},
	} {
		before := &ast.Script{}
		got := ""
		script := withEnvironment(before, strings.Fields(c.environ))
		for _, h := range script.Header {
			for _, e := range h.(*ast.Config).Entries {
				switch x := e.Value.(type) {
				case *ast.IntLit:
					got += fmt.Sprintf(" %s=%d", e.Key.Text, x.Value)
				case *ast.BoolLit:
					got += fmt.Sprintf(" %s=%v", e.Key.Text, x.Value)
				case *ast.StringLit:
					got += fmt.Sprintf(" %s='%s'", e.Key.Text, x.Value)
				}
			}
		}
		if strings.TrimSpace(got) != c.want || len(before.Header) != 0 {
			t.Errorf("%s: %s, want %s", c.environ, got, c.want)
		}
	}
}
