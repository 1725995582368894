// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"btc/report/page"
)

// TestShareMap checks for which maps of a base btc report --diff does not warn.
func TestShareMap(t *testing.T) {
	data := func(maps ...*page.Map) *page.Data { return &page.Data{Maps: maps} }
	run := data(&page.Map{Name: "@", Shape: "hist"}, &page.Map{Name: "@n", Shape: "count"})
	for _, tc := range []struct {
		base *page.Data
		want bool
	}{
		{run, true},
		{data(&page.Map{Name: "@n", Shape: "count"}), true},
		{data(&page.Map{Name: "@", Shape: "count"}), false},
		{data(&page.Map{Name: "@other", Shape: "hist"}), false},
		{data(), false},
	} {
		if got := shareMap(run, tc.base); got != tc.want {
			t.Errorf("%+v: %v, want %v", tc.base.Maps, got, tc.want)
		}
	}
}
