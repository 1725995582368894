// SPDX-License-Identifier: Apache-2.0

package command

import "testing"

func TestDescription(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"", ""},
		{"begin { } // later", ""},
		{"// one\n// two\nbegin { }", "one\ntwo"},
		{"#!/usr/bin/bpftrace\n\n// SPDX-License-Identifier: MIT\n\n// one\n//\n// two", "one"},
		{"/* one */\nbegin { }", "one"},
		{"/*\n * one\n *   two\n *\n * three\n */\nbegin { }", "one\ntwo"},
		{"/**\n * one\n */\n// two\nbegin { }", "one"},
		{"/* one */ begin { } /* two */", "one"},
		{"// \x1b[2J", "\ufffd[2J"},
	} {
		if got := description(c.source); got != c.want {
			t.Errorf("%q: %q, want %q", c.source, got, c.want)
		}
	}
}
