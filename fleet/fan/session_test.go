// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"fmt"
	"strings"
	"testing"
)

func TestReason(t *testing.T) {
	const repeats = "command terminated with exit code 1"
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, ""}, {[]string{"a", "b"}, "b"}, {[]string{"a", "b", repeats}, "b"}, {[]string{repeats}, ""}, {[]string{repeats, "a"}, "a"},
	} {
		e := &errorOutput{lines: c.lines}
		if got := e.reason(); got != c.want {
			t.Errorf("%q: %q, want %q", c.lines, got, c.want)
		}
	}
}

// TestErrorLines checks that the last lines are kept, without empty ones.
func TestErrorLines(t *testing.T) {
	e := &errorOutput{session: &session{fan: &Fan{}}}
	for i := range maxErrorLines + 2 {
		e.part = fmt.Appendf(e.part, " line %d \r", i)
		e.flush()
		e.flush()
	}
	if len(e.lines) != maxErrorLines || e.lines[0] != "line 2" || e.reason() != fmt.Sprintf("line %d", maxErrorLines+1) {
		t.Errorf("%d lines: %q", len(e.lines), strings.Join(e.lines, "|"))
	}
}
