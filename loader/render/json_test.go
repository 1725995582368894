package render

import (
	"testing"

	"btc/loader/bpfmap"
	"btc/loader/format"
	"btc/loader/manifest"
)

func jsonOf(full bool, m *manifest.Map, entries ...bpfmap.Entry) string {
	var elems []Element
	for _, e := range entries {
		elems = append(elems, Reduce(m, e))
	}
	j := &format.JSON{Env: &format.Env{}, Full: full}
	switch {
	case full:
		return string(FullJSON(nil, j, m, elems, Top{}))
	case m.Key == nil:
		return string(ScalarJSON(nil, j, m, &elems[0], Top{}))
	}
	return string(KeyedJSON(nil, j, m, elems, Top{}))
}

func TestMapsAsJSON(t *testing.T) {
	m := &manifest.Map{Name: "@x", Shape: "count", Present: -1, Key: intLayout}
	e := []bpfmap.Entry{entry(words(1), words(5)), entry(words(2), words(3))}
	check(t, jsonOf(false, m, e...), `{"@x": {"2": 3, "1": 5}}`)
	check(t, jsonOf(true, m, e...), `"name": "@x", "shape": "count", "entries": [{"key": [2], "value": 3}, {"key": [1], "value": 5}]`)

	m = &manifest.Map{Name: "@", Shape: "stats", Present: 0, Value: intLayout}
	check(t, jsonOf(false, m, entry(nil, words(2, 12))), `{"@": {"count": 2, "average": 6, "total": 12}}`)
	m.Shape = "avg"
	check(t, jsonOf(false, m, entry(nil, words(2, 12))), `{"@": 6}`)
	check(t, jsonOf(true, m, entry(nil, words(2, 12))), `"name": "@", "shape": "avg", "entries": [{"value": {"count": 2, "average": 6, "total": 12}}]`)
	check(t, JSONType(m), "stats")
}

// Histograms have closed intervals; the outermost are open.
func TestHistAsJSON(t *testing.T) {
	m := &manifest.Map{Name: "@", Shape: "hist", Present: -1}
	check(t, jsonOf(false, m, entry(nil, buckets(66, nil))), `{"@": []}`)
	check(t, jsonOf(false, m, entry(nil, buckets(66, map[int]int64{0: 1, 3: 2}))),
		`{"@": [{"max": -1, "count": 1},{"min": 0, "max": 0, "count": 0},{"min": 1, "max": 1, "count": 0},{"min": 2, "max": 3, "count": 2}]}`)
	m = &manifest.Map{Name: "@", Shape: "lhist", Present: -1, Min: 2, Max: 10, Step: 4}
	check(t, jsonOf(false, m, entry(nil, words(1, 0, 2, 3))),
		`{"@": [{"max": 1, "count": 1},{"min": 2, "max": 5, "count": 0},{"min": 6, "max": 9, "count": 2},{"min": 10, "count": 3}]}`)
}
