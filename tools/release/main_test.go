// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestMaintainer checks that packages are only built with the address of a maintainer.
func TestMaintainer(t *testing.T) {
	for given, want := range map[string]string{
		"Ada <ada@example.org>":          "Ada <ada@example.org>",
		`"Ada L." <ada@lists.a.example>`: "Ada L. <ada@lists.a.example>",
		"Ada <ada@localhost>":            "",
		" <>":                            "",
		"":                               "",
		"ada@example.org":                "",
		"Ada":                            "",
	} {
		r := release{maintainer: given}
		switch err := r.checkMaintainer(); {
		case want == "" && err == nil:
			t.Errorf("no error for %q: maintainer %q", given, r.maintainer)
		case want != "" && (err != nil || r.maintainer != want):
			t.Errorf("maintainer of %q = %q, error = %v, want %q", given, r.maintainer, err, want)
		}
	}
}
