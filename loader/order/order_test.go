package order

import (
	"slices"
	"testing"
)

func TestBy(t *testing.T) {
	type pair struct{ key, at int }
	var s []pair
	for i := range 500 {
		s = append(s, pair{i * 7919 % 31, i})
	}
	want := slices.Clone(s)
	cmp := func(a, b pair) int { return a.key - b.key }
	slices.SortStableFunc(want, cmp)
	if By(s, cmp); !slices.Equal(s, want) {
		t.Errorf("%v", s)
	}
	slices.Reverse(s)
	if Quick(s, func(a, b pair) int { return a.at - b.at }); !slices.IsSortedFunc(s, func(a, b pair) int { return a.at - b.at }) {
		t.Errorf("%v", s)
	}
}
