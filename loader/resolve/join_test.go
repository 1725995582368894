// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"strings"
	"testing"

	"btc/internal/manifest"
	"btc/internal/probe"
)

// clauses returns n plans at one site, with frames of some bytes.
func clauses(n, frame int, kind, name string) []Plan {
	plans := make([]Plan, n)
	for i := range plans {
		plans[i] = Plan{Prog: &manifest.Program{Name: fmt.Sprint(name, i), Kind: kind, Clause: i, Code: &manifest.Code{Frame: frame}},
			Matches: []Match{{Group: "sched", Name: name}}}
	}
	return plans
}

// TestJoin checks that clauses are joined only at sites with many, in the order of the script,
// and that an error says where that is not possible.
func TestJoin(t *testing.T) {
	few, many, tracing := clauses(64, 8, probe.Tracepoint, "a"), clauses(65, 8, probe.Tracepoint, "b"), clauses(33, 8, probe.Fentry, "f")
	var mixed []Plan // clauses of two sites take turns, and a third site stays as it is
	for i := range 65 {
		mixed = append(mixed, many[i], clauses(65, 8, probe.Tracepoint, "c")[i])
	}
	var turns []Plan // entries and exits of one function take turns, and run at different times
	for i := range 20 {
		turns = append(turns, clauses(20, 8, probe.Fentry, "t")[i], clauses(20, 8, probe.Fexit, "t")[i])
		turns[2*i].Prog.Clause, turns[2*i+1].Prog.Clause = 2*i, 2*i+1
	}
	pattern := clauses(65, 8, probe.Tracepoint, "d") // one clause in the middle has another site, too
	pattern[30].Matches = append(pattern[30].Matches, Match{Group: "sched", Name: "e"})
	for _, c := range []struct {
		name     string
		plans    []Plan
		separate bool
		want     int // plans; -1: an error
	}{
		{"few", few[:8], false, 8},
		{"at the limit", few, false, 8},
		{"above it", many, false, 9},
		{"turns", append(mixed, few...), false, 9 + 9 + 8},
		{"fexit", tracing, false, 5},
		{"fentry and fexit", turns, false, 3 + 3},
		{"raw", raw(clauses(100, 8, probe.Tracepoint, "r")), false, 100},
		{"kprobe", clauses(100, 8, probe.Kprobe, "k"), false, 100},
		{"large frames", clauses(65, 500, probe.Tracepoint, "l"), false, -1},
		{"budget", many, true, -1},
		{"budget below the limit", few, true, 64},
		{"another site", pattern, false, 10},
		{"far above", clauses(4000, 8, probe.Tracepoint, "m"), false, 63},
	} {
		out, err := Join(&manifest.Manifest{}, c.plans, c.separate)
		switch {
		case c.want < 0:
			if err == nil || !strings.Contains(err.Text, "at most 64 programs") {
				t.Errorf("%s: error %v", c.name, err)
			}
		case err != nil || len(out) != c.want:
			t.Errorf("%s: %d plans (%v), want %d", c.name, len(out), err, c.want)
		}
		last, n := map[string]int{}, 0
		for _, p := range out {
			for _, j := range append([]Plan{p}, p.Joined...) {
				site := j.Prog.Kind + j.Matches[0].Name
				if at, ok := last[site]; ok && j.Prog.Clause <= at {
					t.Errorf("%s: clause %d of %s comes after %d", c.name, j.Prog.Clause, site, at)
				}
				last[site] = j.Prog.Clause
				n++
			}
		}
		if c.want >= 0 && n != len(c.plans) {
			t.Errorf("%s: %d clauses of %d", c.name, n, len(c.plans))
		}
	}
}

func raw(plans []Plan) []Plan {
	for i := range plans {
		plans[i].Strategy = Raw
	}
	return plans
}
