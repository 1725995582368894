// SPDX-License-Identifier: Apache-2.0

package snippet

import "testing"

func TestMessage(t *testing.T) {
	line := "begin { print(foo); } "
	for _, c := range []struct {
		name string
		m    Message
		want string
	}{
		{"a range", Message{File: "x.bt", Line: 3, Col: 15, EndCol: 18, Severity: "error", Code: "E0201", Text: "bad", Source: &line},
			"x.bt:3:15: error[E0201]: bad\n 3 | begin { print(foo); }\n   |               ^~~\n   | more\n   = hint: do\n"},
		{"one byte on a later line", Message{File: "x.bt", Line: 123, Col: 1, EndCol: 2, Severity: "warning", Text: "bad", Source: &line},
			"x.bt:123:1: warning: bad\n 123 | begin { print(foo); }\n     | ^\n     | more\n     = hint: do\n"},
		{"an unknown line", Message{File: "x.bt", Line: 3, Col: 15, EndCol: 18, Severity: "note", Text: "bad"},
			"x.bt:3:15: note: bad\n | more\n = hint: do\n"},
		{"no position", Message{File: "x.bt", Severity: "error", Text: "bad"}, "error: bad\n | more\n = hint: do\n"},
		{"past the end", Message{File: "x.bt", Line: 1, Col: 900, EndCol: 2, Severity: "error", Text: "bad", Source: &line},
			"x.bt:1:900: error: bad\n 1 | begin { print(foo); }\n   |                       ^\n   | more\n   = hint: do\n"},
		{"in colour", Message{File: "x.bt", Line: 1, Col: 1, EndCol: 3, Severity: "warning", Code: "W1", Text: "bad", Source: &line, Color: true},
			"x.bt:1:1: \x1b[1;33mwarning[W1]\x1b[0m: bad\n 1 | begin { print(foo); }\n   | \x1b[1;32m^~\x1b[0m\n   | more\n   = hint: do\n"},
	} {
		if got := c.m.String() + c.m.Note("more") + c.m.Hint("do"); got != c.want {
			t.Errorf("%s: got\n%q, want\n%q", c.name, got, c.want)
		}
	}
}
