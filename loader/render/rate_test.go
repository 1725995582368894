// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"
	"time"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
)

// snapshots adds snapshots of a map, 2 s apart, and returns the text of the last one.
func snapshots(run *manifest.Manifest, m *manifest.Map, whole bool, all ...[]Element) string {
	var r Rates
	var b []byte
	for i, elems := range all {
		r.Next(time.Unix(int64(2*i), 0))
		top := Top{Rate: r.Of(run, m, elems, whole)}
		b = KeyedBy(nil, &format.Env{}, m, elems, top, func(dst []byte) []byte { return dst })
	}
	return strings.TrimSuffix(string(b), "\n")
}

func TestRates(t *testing.T) {
	key := &manifest.Layout{Kind: "int", Size: 8}
	of := func(key byte, n uint64) Element {
		return Element{Key: []byte{key, 0, 0, 0, 0, 0, 0, 0}, Set: true, State: aggregate.State{Value: n, Count: n}}
	}
	list := func(elems ...Element) []Element { return elems }
	negative := ^uint64(0) - 6 // -7
	count := &manifest.Map{Name: "@", Shape: "count", Key: key}
	sum := &manifest.Map{Name: "@", Shape: "sum", Key: key, Value: &manifest.Layout{Kind: "int", Size: 8, Signed: true}}
	hist := &manifest.Map{Name: "@", Shape: "hist", Key: key}
	avg := &manifest.Map{Name: "@", Shape: "avg", Key: key, Value: &manifest.Layout{Kind: "int", Size: 8}}
	resets := &manifest.Manifest{Events: []manifest.Event{{Kind: "clear", Map: "@"}}}
	none := &manifest.Manifest{}
	for _, x := range []struct {
		name  string
		run   *manifest.Manifest
		m     *manifest.Map
		whole bool
		all   [][]Element
		want  string
	}{
		{"the first", none, count, true, [][]Element{list(of(1, 5))}, "@[1]: 5"},
		{"two", none, count, true, [][]Element{list(of(1, 5)), list(of(1, 6), of(2, 9))}, "@[1]: 6  0.5/s\n@[2]: 9  4.5/s"},
		{"of the last interval", none, count, true, [][]Element{list(of(1, 0)), list(of(1, 500)), list(of(1, 501))}, "@[1]: 501  0.5/s"},
		{"unchanged", none, count, true, [][]Element{list(of(1, 5)), list(of(1, 5))}, "@[1]: 5  0/s"},
		{"large", none, count, true, [][]Element{list(of(1, 0)), list(of(1, 2469135))}, "@[1]: 2469135  1234568/s"},
		{"new among the largest", none, count, false, [][]Element{list(of(1, 5)), list(of(2, 9))}, "@[2]: 9"},
		{"smaller", none, count, true, [][]Element{list(of(1, 5)), list(of(1, 2))}, "@[1]: 2"},
		{"signed", none, sum, true, [][]Element{list(of(1, 1)), list(of(1, negative))}, "@[1]: -7  -4/s"},
		{"histogram", none, hist, true, [][]Element{list(of(1, 1)), list(of(1, 3))}, "@[1]:  1/s\n"},
		{"average", none, avg, true, [][]Element{list(of(1, 1)), list(of(1, 3))}, "@[1]: 1"},
		{"cleared", resets, count, true, [][]Element{list(of(1, 5)), list(of(1, 7))}, "@[1]: 7"},
	} {
		if got := snapshots(x.run, x.m, x.whole, x.all...); got != x.want {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
}

// TestRatesAreBounded: beyond the limit, elements have no rates, and none is wrong.
func TestRatesAreBounded(t *testing.T) {
	m := &manifest.Map{Name: "@", Shape: "count", Key: &manifest.Layout{Kind: "int", Size: 8}}
	all := make([]Element, maxTotals+2)
	for i := range all {
		all[i] = Element{Key: []byte{byte(i), byte(i >> 8), byte(i >> 16), 0, 0, 0, 0, 0}, State: aggregate.State{Value: 4}}
	}
	var r Rates
	r.Next(time.Unix(0, 0))
	r.Of(&manifest.Manifest{}, m, all, true)
	r.Next(time.Unix(1, 0))
	rate := r.Of(&manifest.Manifest{}, m, all[len(all)-2:], true)
	if len(r.before.of) != maxTotals {
		t.Errorf("%d totals are kept, want %d", len(r.before.of), maxTotals)
	}
	if got := string(rate(nil, &all[len(all)-1])); got != "" {
		t.Errorf("rate %q of an element whose total was not kept", got)
	}
}
