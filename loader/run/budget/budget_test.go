// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/ebpf"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/output"
)

// clock is a program that has run for a share of the time since its start.
type clock struct {
	start time.Time
	share float64
	gone  bool
}

func (c *clock) Stats() (*ebpf.ProgramStats, error) {
	if c.gone {
		return nil, errors.New("gone")
	}
	return &ebpf.ProgramStats{Runtime: time.Duration(c.share * float64(time.Since(c.start)))}, nil
}

// nothing keeps the statistics on.
type nothing struct{}

func (nothing) Close() error { return nil }

// run checks a budget of 10 % in each window, and lists what it makes the run do.
type run struct {
	*Budget
	clocks []*clock
	did    []string
}

// newRun returns a run of probes with these shares of a CPU; the last is a timer.
func newRun(shares ...float64) *run {
	r := &run{Budget: &Budget{limit: 0.1, window: time.Second, stats: nothing{}}}
	for i, share := range shares {
		kind := probe.Tracepoint
		if i == len(shares)-1 {
			kind = probe.Interval
		}
		c := &clock{start: time.Now(), share: share}
		r.clocks = append(r.clocks, c)
		prog := &manifest.Program{Kind: kind, Attach: manifest.Attach{Substitute: []string{fmt.Sprint(i)}}}
		r.probes = append(r.probes, &costed{prog: prog, programs: []program{c}, links: []Range{{i, i + 1}}})
	}
	r.Start(Actions{
		Wake:   func() {},
		Detach: func(links []Range) { r.did = append(r.did, fmt.Sprint("detach ", links[0][0])) },
		Report: func(all []*output.Detachment) { r.did = append(r.did, fmt.Sprint("report ", len(all))) },
		End:    func(string) { r.did = append(r.did, "end") },
	})
	return r
}

func (r *run) windows(n int) {
	for range n {
		time.Sleep(r.window)
		r.Check(time.Now())
	}
}

// TestBudget checks which probes are detached after two windows over the budget, and that the run ends if only timers
// remain.
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		first  []string // done after the second window
		second []string // and after the fourth
	}{
		{[]float64{0.04, 0.05, 0.01}, nil, nil},                                               // within the budget
		{[]float64{0.03, 0.5, 0.01}, []string{"detach 1", "report 1"}, nil},                   // the expensive one
		{[]float64{0.06, 0.07, 0.01}, []string{"detach 1", "report 1"}, nil},                  // only together
		{[]float64{0.2, 0.3, 0.01}, []string{"detach 1", "detach 0", "report 2", "end"}, nil}, // only the timer remains
		{[]float64{0.02, 0.01, 0.2}, []string{"detach 2", "report 1"}, nil},                   // timers count, too
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRun(c.shares...)
			defer r.Close()
			r.windows(1)
			if r.did != nil {
				t.Errorf("%v: after one window: %q", c.shares, r.did)
			}
			r.Check(time.Now()) // before the window is over
			r.windows(1)
			if !slices.Equal(r.did, c.first) {
				t.Errorf("%v: after two windows: %q, want %q", c.shares, r.did, c.first)
			}
			r.did = nil
			r.windows(2)
			if !slices.Equal(r.did, c.second) {
				t.Errorf("%v: after four windows: %q, want %q", c.shares, r.did, c.second)
			}
		})
	}
}

// TestPause checks that two windows over the budget with one below it in between detach nothing.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRun(0.5, 0)
		defer r.Close()
		for range 3 {
			r.windows(1)
			r.clocks[0].share *= 0.5 // it has run for as long at the end of the next window: 0 % in that
			r.windows(1)
			r.clocks[0].start, r.clocks[0].share = time.Now(), 0.5
			r.probes[0].seen = 0
		}
		if r.did != nil {
			t.Errorf("%q", r.did)
		}
	})
}

// TestUnmeasurable checks that the run ends if the statistics cannot be read.
func TestUnmeasurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRun(0.5, 0)
		r.windows(1)
		r.clocks[0].gone = true
		r.windows(3)
		if !slices.Equal(r.did, []string{"end"}) {
			t.Errorf("%q", r.did)
		}
	})
}

// TestCosts checks the times of a detached probe and of one that remains.
func TestCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRun(0.5, 0.01, 0)
		defer r.Close()
		r.windows(4)
		costs, gone := r.Costs(), r.Detachments()
		if len(costs) != 3 || costs[0].Attached || costs[0].Used != time.Second || costs[0].Covered != 2*time.Second ||
			!costs[1].Attached || costs[1].Used != 40*time.Millisecond || costs[1].Covered != 4*time.Second {
			t.Errorf("costs %+v", costs)
		}
		if len(gone) != 1 || gone[0].Budget != 0.1 || gone[0].To.Sub(gone[0].From) != 2*time.Second {
			t.Errorf("detachments %+v", gone)
		}
	})
}

// TestNoBudget checks that a nil budget does nothing.
func TestNoBudget(t *testing.T) {
	var b *Budget
	b.Add(&manifest.Program{}, nil, Range{0, 1})
	b.Start(Actions{})
	b.Check(time.Now())
	if b.Costs() != nil || b.Detachments() != nil {
		t.Error("costs without a budget")
	}
	b.Close()
}
