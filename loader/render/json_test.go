// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"btc/internal/manifest"
	"btc/loader/bpfmap"
	"btc/loader/format"
)

// jsonOf returns the JSON of an entry's value.
func jsonOf(full bool, m *manifest.Map, e bpfmap.Entry) string {
	el := Reduce(m, e)
	return string(ValueJSON(nil, &format.JSON{Env: &format.Env{}, Full: full}, m, &el, 0))
}

func TestStatsAsJSON(t *testing.T) {
	m := &manifest.Map{Name: "@", Shape: "stats", Present: 0, Value: intLayout}
	const whole = `{"count": 2, "average": 6, "total": 12}`
	check(t, jsonOf(false, m, entry(nil, words(2, 12))), whole)
	m.Shape = "avg"
	check(t, jsonOf(false, m, entry(nil, words(2, 12))), "6")
	check(t, jsonOf(true, m, entry(nil, words(2, 12))), whole)
}

// TestHistAsJSON checks that buckets are closed intervals, except for the outermost ones, which are
// open.
func TestHistAsJSON(t *testing.T) {
	m := &manifest.Map{Name: "@", Shape: "hist", Present: -1}
	check(t, jsonOf(false, m, entry(nil, buckets(66, nil))), `[]`)
	check(t, jsonOf(false, m, entry(nil, buckets(66, map[int]int64{0: 1, 3: 2}))),
		`[{"max": -1, "count": 1},{"min": 0, "max": 0, "count": 0},{"min": 1, "max": 1, "count": 0},{"min": 2, "max": 3, "count": 2}]`)
	m = &manifest.Map{Name: "@", Shape: "lhist", Present: -1, MapParams: manifest.MapParams{Min: 2, Max: 10, Step: 4}}
	check(t, jsonOf(false, m, entry(nil, words(1, 0, 2, 3))),
		`[{"max": 1, "count": 1},{"min": 2, "max": 5, "count": 0},{"min": 6, "max": 9, "count": 2},{"min": 10, "count": 3}]`)
}
