// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// TestUnfinished checks that after a crash of a guest, only the script that caused it is lost.
func TestUnfinished(t *testing.T) {
	scripts := []string{"a", "b", "c"}
	for _, c := range []struct {
		name     string
		last     guestLine
		at, side int
	}{
		{"nothing loaded", guestLine{Kernel: "7.2"}, 0, 0},
		{"loaded by the first tool", guestLine{Script: "a"}, 0, 1},
		{"loaded by both", guestLine{Script: "a", Side: 1}, 1, 0},
		{"rejected by the first tool, so not tried by the second", guestLine{Script: "b", loadedSide: loadedSide{Err: "refused"}}, 2, 0},
		{"rejected by the second tool", guestLine{Script: "b", Side: 1, loadedSide: loadedSide{Err: "refused"}}, 2, 0},
		{"all loaded", guestLine{Script: "c", Side: 1}, 3, 0},
	} {
		if at, side := unfinished(scripts, c.last); at != c.at || side != c.side {
			t.Errorf("%s: unfinished() = %d, %d, want %d, %d", c.name, at, side, c.at, c.side)
		}
	}
	whole := "{\"Kernel\":\"7.2\"}\n{\"Script\":\"a\",\"Insns\":7}\n"
	lines, err := parseGuest([]byte(whole + "{\"Script\":\"a\",\"Si"))
	if err != nil || len(lines) != 2 || lines[1].Insns != 7 {
		t.Errorf("truncated report: %v, %v", lines, err)
	}
	if _, err := parseGuest([]byte("oops\n")); err == nil {
		t.Error("invalid report accepted")
	}
}
