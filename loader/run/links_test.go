// SPDX-License-Identifier: Apache-2.0

package run

import (
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"btc/loader/run/budget"
)

// counted counts how often it is closed.
type counted struct{ n atomic.Int32 }

func (c *counted) Close() error { c.n.Add(1); return nil }

// TestLinks checks that each link is closed once, however the parts of a run detach it.
func TestLinks(t *testing.T) {
	var l links
	var all []*counted
	add := func(n int) budget.Range {
		var made []io.Closer
		for range n {
			c := new(counted)
			all, made = append(all, c), append(made, c)
		}
		return l.add(made)
	}
	closed := func(want ...int32) {
		t.Helper()
		l.free()
		var got []int32
		for _, c := range all {
			got = append(got, c.n.Load())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("closed %v times, want %v", got, want)
		}
	}
	first, watchpoint, last := add(2), add(1), add(1)
	l.watch(0x1000, watchpoint)
	l.unwatch(0x2000)
	closed(0, 0, 0, 0)
	l.unwatch(0x1000)
	l.unwatch(0x1000)
	closed(0, 0, 1, 0)
	l.detachSome([]budget.Range{first, watchpoint})
	closed(1, 1, 1, 0)
	l.watch(0x3000, last)
	l.detach()
	closed(1, 1, 1, 1)
	l.unwatch(0x3000)
	l.detachSome([]budget.Range{first, last})
	l.detach()
	closed(1, 1, 1, 1)
}
