// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// Only the script that crashed a guest is lost.
func TestUnfinished(t *testing.T) {
	scripts := []string{"a", "b", "c"}
	for _, c := range []struct {
		name     string
		last     guestLine
		at, side int
	}{
		{"nothing was loaded", guestLine{Kernel: "7.2"}, 0, 0},
		{"the first tool had loaded it", guestLine{Script: "a"}, 0, 1},
		{"both had", guestLine{Script: "a", Side: 1}, 1, 0},
		{"the first tool could not, so the other did not try", guestLine{Script: "b", loadedSide: loadedSide{Err: "refused"}}, 2, 0},
		{"the other could not", guestLine{Script: "b", Side: 1, loadedSide: loadedSide{Err: "refused"}}, 2, 0},
		{"all were", guestLine{Script: "c", Side: 1}, 3, 0},
	} {
		if at, side := unfinished(scripts, c.last); at != c.at || side != c.side {
			t.Errorf("%s: script %d side %d, want %d and %d", c.name, at, side, c.at, c.side)
		}
	}
	whole := "{\"Kernel\":\"7.2\"}\n{\"Script\":\"a\",\"Insns\":7}\n"
	lines, err := parseGuest([]byte(whole + "{\"Script\":\"a\",\"Si"))
	if err != nil || len(lines) != 2 || lines[1].Insns != 7 {
		t.Errorf("a report that is cut off: %v, %v", lines, err)
	}
	if _, err := parseGuest([]byte("oops\n")); err == nil {
		t.Error("a report that is none is read")
	}
}
