// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestMaintainer: packages have a maintainer that can be written to, or they are not made.
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
			t.Errorf("%q was accepted as %q", given, r.maintainer)
		case want != "" && (err != nil || r.maintainer != want):
			t.Errorf("%q is %q, error %v, want %q", given, r.maintainer, err, want)
		}
	}
}
