// SPDX-License-Identifier: Apache-2.0

package run

import (
	"slices"
	"testing"
	"time"
)

// global is a fake for the global variable asleep of the programs.
type global struct{ said []uint64 }

func (g *global) Set(v any) error {
	g.said = append(g.said, v.(uint64))
	return nil
}

// paced drives a poller with a fake clock; its waits return immediately.
type paced struct {
	*poller
	global
	t      *testing.T
	events *source
	time   time.Time
}

func newPaced(t *testing.T) *paced {
	events, err := openSource(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.close)
	p := &paced{t: t, events: events, time: time.Unix(1, 0)}
	p.poller = &poller{asleep: &p.global, now: func() time.Time { return p.time }}
	return p
}

// after simulates a wait in which the given number of events arrived in the given time.
func (p *paced) after(took time.Duration, handled int) {
	p.t.Helper()
	p.time = p.time.Add(took)
	p.events.wake()
	if err := p.wait(p.events, handled, false); err != nil {
		p.t.Fatal(err)
	}
}

// TestPollerLowRate checks that at low rates the programs are asked once to wake the reader.
func TestPollerLowRate(t *testing.T) {
	p := newPaced(t)
	for range 100 {
		p.after(2500*time.Microsecond, 1)
	}
	if !slices.Equal(p.said, []uint64{sleeping}) || p.rest != 0 {
		t.Errorf("asleep set to %v, rests %v", p.said, p.rest)
	}
}

// TestPollerHighRate checks that at medium and high rates the programs are not asked to wake the
// reader, that rests are bounded, and that after a rest without events the reader sleeps again.
func TestPollerHighRate(t *testing.T) {
	for _, c := range []struct {
		every time.Duration
		n     int
		rest  time.Duration
	}{{2 * time.Millisecond, 2, middleRest}, {10 * time.Millisecond, 20, longRest}, {10 * time.Millisecond, 10000, longRest}} {
		p := newPaced(t)
		p.after(time.Second, 0)
		var rests []time.Duration
		for range 100 {
			p.after(c.every, c.n)
			rests = append(rests, p.rest)
		}
		if !slices.Equal(p.said, []uint64{sleeping, awake}) || p.rest != c.rest || slices.Max(rests) != c.rest {
			t.Errorf("%d events in %v: asleep set to %v, rests %v", c.n, c.every, p.said, p.rest)
		}
		p.after(c.rest, 0)
		if !p.sleeps || p.rest != 0 {
			t.Errorf("%d events in %v, then none: asleep set to %v, rests %v", c.n, c.every, p.said, p.rest)
		}
		p.after(time.Second, 1)
		if !p.sleeps {
			t.Errorf("one event after a pause: asleep set to %v", p.said)
		}
	}
}

// TestPollerBurst checks that the first event of a burst is handled immediately, the others after a
// short rest.
func TestPollerBurst(t *testing.T) {
	p := newPaced(t)
	p.after(time.Second, 0)
	p.after(time.Second, 1)
	p.after(100*time.Microsecond, 50)
	if p.sleeps || p.rest != shortRest {
		t.Errorf("asleep set to %v, rests %v", p.said, p.rest)
	}
}

// TestPollerWithoutGlobal checks that programs without the global variable are polled at fixed
// intervals.
func TestPollerWithoutGlobal(t *testing.T) {
	p := newPaced(t)
	p.asleep = nil
	for range 9 {
		p.after(time.Second, 0)
	}
	if p.rest == 0 || p.rest > longRest {
		t.Errorf("rests %v", p.rest)
	}
}
