// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSameFile(t *testing.T) {
	dir := t.TempDir()
	a, b, link, absent := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "link"), filepath.Join(dir, "absent")
	for _, name := range []string{a, b} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(a, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{{a, a, true}, {a, link, true}, {a, dir + "/./a", true}, {a, b, false}, {a, absent, false}, {absent, a, false}, {absent, absent, false}} {
		if got := sameFile(c.a, c.b); got != c.want {
			t.Errorf("sameFile(%s, %s) = %v", c.a, c.b, got)
		}
	}
}
