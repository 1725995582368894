// SPDX-License-Identifier: Apache-2.0

package run

import (
	"slices"
	"testing"
	"time"
)

// global is a fake for the programs' global asleep.
type global struct{ said []uint64 }

func (g *global) Set(v any) error {
	g.said = append(g.said, v.(uint64))
	return nil
}

// paced drives a poller with a fake clock; its waits take no time.
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

// after is a wait when this many events arrived in this time.
func (p *paced) after(took time.Duration, handled int) {
	p.t.Helper()
	p.time = p.time.Add(took)
	p.events.wake()
	if err := p.wait(p.events, handled, false); err != nil {
		p.t.Fatal(err)
	}
}

// At low rates the programs are asked once to wake the reader.
func TestPollerLowRate(t *testing.T) {
	p := newPaced(t)
	for range 100 {
		p.after(2500*time.Microsecond, 1)
	}
	if !slices.Equal(p.said, []uint64{sleeping}) || p.rest != 0 {
		t.Errorf("said %v, rests %v", p.said, p.rest)
	}
}

// At medium and high rates they are not, and the rests are bounded; after a rest without events the
// reader sleeps again.
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
			t.Errorf("%d events in %v: said %v, rests %v", c.n, c.every, p.said, p.rest)
		}
		p.after(c.rest, 0)
		if !p.sleeps || p.rest != 0 {
			t.Errorf("%d events in %v, then none: said %v, rests %v", c.n, c.every, p.said, p.rest)
		}
		p.after(time.Second, 1)
		if !p.sleeps {
			t.Errorf("one event after a pause: said %v", p.said)
		}
	}
}

// The first event of a burst is handled at once, the others after a short rest.
func TestPollerBurst(t *testing.T) {
	p := newPaced(t)
	p.after(time.Second, 0)
	p.after(time.Second, 1)
	p.after(100*time.Microsecond, 50)
	if p.sleeps || p.rest != shortRest {
		t.Errorf("said %v, rests %v", p.said, p.rest)
	}
}

// Programs without the global are polled at fixed times.
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
