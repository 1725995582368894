// SPDX-License-Identifier: Apache-2.0

package command

import (
	"strings"
	"testing"

	"btc/internal/manifest"
)

// TestHelpIsEscaped checks that the strings of an object cannot begin a line of its help, or control a terminal.
func TestHelpIsEscaped(t *testing.T) {
	const hostile = "a\n  --forged  int: x\x1b[2J\u009b"
	var b strings.Builder
	printParams(&b, "Parameters", "--", []*manifest.Param{{Name: hostile, Type: hostile, Default: hostile, Help: hostile}})
	if text := b.String(); strings.Count(text, "\n") != 3 || strings.ContainsAny(text, "\x1b\u009b") {
		t.Errorf("%q", text)
	}
}
