// SPDX-License-Identifier: Apache-2.0

package format

import "testing"

// TestCleanBorders checks the first and last of the characters that a terminal may obey, as characters and as bytes that
// are not UTF-8, and newlines in text of one line and of several.
func TestCleanBorders(t *testing.T) {
	for _, c := range []struct {
		text, escaped, oneLine string
	}{
		{"a b~", "a b~", "a b~"}, {"\x1f ", `\x1f `, `\x1f `}, {"~\x7f", `~\x7f`, `~\x7f`},
		{"\u0080\u009f\u00a0", `\xc2\x80\xc2\x9f` + "\u00a0", `\xc2\x80\xc2\x9f` + "\u00a0"},
		{"\x80\x9f\xa0\xff", `\x80\x9f` + "\xa0\xff", `\x80\x9f` + "\xa0\xff"},
		{"\ufffd", "\ufffd", "\ufffd"}, {"a\nb\tc\r", "a\nb\tc" + `\x0d`, `a\x0ab` + "\tc" + `\x0d`}, {"", "", ""},
	} {
		plain, escape := &Env{}, &Env{Escape: true}
		if got := string(plain.Clean(nil, []byte(c.text))); got != c.text {
			t.Errorf("%q without Escape: %q", c.text, got)
		}
		if got := string(escape.Clean([]byte("> "), []byte(c.text))); got != "> "+c.escaped {
			t.Errorf("%q: %q, want %q", c.text, got, c.escaped)
		}
		if got := string(escape.OneLine().Clean(nil, []byte(c.text))); got != c.oneLine {
			t.Errorf("%q in one line: %q, want %q", c.text, got, c.oneLine)
		}
		if got := string(escape.OneLine().lines().Clean(nil, []byte(c.text))); got != c.escaped {
			t.Errorf("%q in several lines again: %q, want %q", c.text, got, c.escaped)
		}
	}
	if escape := (&Env{Escape: true}); escape.lines() != escape {
		t.Error("lines copies an Env of several lines")
	}
}
