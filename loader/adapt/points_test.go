// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"strings"
	"testing"

	"btc/internal/manifest"
	"btc/internal/probe"
)

func TestArguments(t *testing.T) {
	here := Prototype{Result: "int", Params: []Param{{Name: "file", Type: "struct file *", Size: 8}, {Name: "big", Type: "struct pair", Size: 16}, {Name: "n", Type: "unsigned int", Size: 4}}}
	for _, c := range []struct {
		use  manifest.ArgUse
		want string
	}{
		{manifest.ArgUse{Name: "file", Slot: 0, Type: "struct file *"}, ""},
		{manifest.ArgUse{Name: "n", Slot: 3, Type: "unsigned int"}, ""},
		{manifest.ArgUse{Name: "count", Slot: 3, Type: "unsigned int"}, ""}, // renamed, of the same type
		{manifest.ArgUse{Name: "n", Slot: 2, Type: "unsigned int"}, "is number 3, but the object reads number 2"},
		{manifest.ArgUse{Name: "count", Slot: 3, Type: "u64"}, "count of type u64 is not where"},
		{manifest.ArgUse{Name: "more", Slot: 7, Type: "int"}, "more of type int is not where"},
		{manifest.ArgUse{Slot: 4, Type: "int"}, ""},
		{manifest.ArgUse{Slot: 3, Type: "int"}, "result of type int is not where"},
		{manifest.ArgUse{Slot: 4, Type: "long int"}, "result of type long int is not where"},
	} {
		p := &manifest.Program{Args: []manifest.ArgUse{c.use}}
		err := Arguments(p, here)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.use, err, c.want)
		}
	}
	for _, c := range []struct {
		was, here int // bits
		want      bool
		narrow    int
		cut       bool
	}{
		{-64, -64, true, 0, false}, {-64, 64, true, 0, false}, {-32, -64, true, 0, true}, {-64, -32, true, -32, false},
		{64, 32, true, 32, false}, {32, -32, true, 0, false}, {-32, 8, false, 0, false}, {0, -64, false, 0, false}, {-64, 0, false, 0, false},
	} {
		here.Result, here.ResultBits = "here", c.here
		p := &manifest.Program{Args: []manifest.ArgUse{{Slot: 4, Type: "there", Bits: c.was}}}
		err := Arguments(p, here)
		if (err == nil) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
		if narrow, cut := Narrowed(p, &here); err == nil && (narrow != c.narrow || cut != c.cut) {
			t.Errorf("%+v: narrowed to %d, cut %v", c, narrow, cut)
		}
	}
}

// TestClauses checks that a clause is kept as long as it has an attach point. What happens to a missing
// attach point depends on the script and on what is missing.
func TestClauses(t *testing.T) {
	for _, c := range []struct {
		missing          string
		usesID           bool
		pattern, foreign bool
		want             Absence
		alone            string // result for a clause without another attach point; "" for none
	}{
		{"", false, false, false, Fatal, ""},
		{"error", false, true, false, Silently, "error"},
		{"error", true, false, false, Warned, "error"},
		{"warn", false, false, false, Warned, "warn"},
		{"warn", false, true, false, Silently, "warn"},
		{"ignore", false, false, false, Silently, ""},
		{"error", false, false, true, Warned, "error"},
	} {
		p := &manifest.Program{Kind: probe.Kprobe, UsesID: c.usesID, Attach: manifest.Attach{Missing: c.missing}}
		m := &manifest.Manifest{}
		clauses := Clauses{}
		if got := clauses.Drop(p, "no f", c.pattern, c.foreign); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
		empty, mode := clauses.Unmatched(m), ""
		if len(empty) > 0 {
			mode = empty[0].Mode
		}
		if mode != c.alone {
			t.Errorf("%+v: without another attach point: %q", c, mode)
		}
		clauses.Retain(p)
		if empty := clauses.Unmatched(m); len(empty) > 0 {
			t.Errorf("%+v: clause not kept", c)
		}
	}
}
