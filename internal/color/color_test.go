// SPDX-License-Identifier: Apache-2.0

package color

import "testing"

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		choice, variable, noColor, term string
		terminal, want                  bool
	}{
		{terminal: true, term: "xterm", want: true},
		{terminal: false, term: "xterm"},
		{terminal: true, term: "dumb"},
		{terminal: true, noColor: "1", term: "xterm"},
		{choice: "auto", terminal: true, want: true},
		{choice: "always", noColor: "1", term: "dumb", want: true},
		{choice: "never", terminal: true, term: "xterm"},
		{variable: "always", want: true},
		{variable: "never", terminal: true, term: "xterm"},
		{variable: "nosuch", terminal: true, term: "xterm", want: true},
		{choice: "auto", variable: "always"},
	} {
		env := map[string]string{"NO_COLOR": c.noColor, "TERM": c.term, "BPFTRACE_COLOR": c.variable}
		if got := Wanted(c.choice, c.terminal, func(n string) string { return env[n] }); got != c.want {
			t.Errorf("Wanted for %+v = %v", c, got)
		}
	}
}
