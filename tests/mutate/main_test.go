// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"
)

func TestEveryPackage(t *testing.T) {
	t.Chdir("../..")
	packages, err := everyPackage()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"btc/cmd/btc": true, "btc/loader/resolve": true, "btc/btrace": true, "btc/grammar/parser": false, "btc/tests/run": false} {
		if slices.Contains(packages, name) != want {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
}
