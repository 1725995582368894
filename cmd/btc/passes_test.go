// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"btc/passes"
)

func TestPassStats(t *testing.T) {
	var out strings.Builder
	if status := passStats(&out, []string{"../../examples/biolatency.bt"}); status != 0 {
		t.Fatal(status)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(out.String()) {
		if f := strings.Fields(line); len(f) > 0 {
			rows[f[0]] = f[1:]
		}
	}
	if r := rows["cse"]; len(r) != 6 || r[1] == "0" || r[2] != "1" || r[3][0] != '+' {
		t.Errorf("cse: %q, want changed functions, one script and more instructions without it", r)
	}
	if r := rows["lower-maps"]; len(r) != 2 || r[1] == "0" {
		t.Errorf("lower-maps: %q, want a time and changed functions", r)
	}
	for _, p := range passes.Pipeline() {
		if rows[p.Name] == nil {
			t.Errorf("no row of %s", p.Name)
		}
	}
}

func TestSkipOption(t *testing.T) {
	var name string
	set := skipOption(&name).To.(func(string) error)
	if err := set("sink"); err != nil || name != "sink" {
		t.Errorf("sink: %q, %v", name, err)
	}
	for _, wrong := range []string{"slots", "sin", ""} {
		if err := set(wrong); err == nil || !strings.Contains(err.Error(), "expected one of fold, cse, ") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
