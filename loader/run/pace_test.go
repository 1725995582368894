package run

import (
	"slices"
	"testing"
)

// alarm stands for the programs: it ends the wait of a reader that sleeps.
type alarm struct {
	events *source
	said   []uint64
}

func (a *alarm) Set(v any) error {
	a.said = append(a.said, v.(uint64))
	if v == sleeping {
		a.events.wake()
	}
	return nil
}

// The reader says that it sleeps only when a rest brought nothing; rests grow while events come, and are short again after a sleep.
func TestPace(t *testing.T) {
	events, err := openSource(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer events.close()
	a := &alarm{events: events}
	p := pace{asleep: a}
	wait := func(busy bool) {
		t.Helper()
		if p.busy = busy; busy {
			events.wake() // or the rest takes its time
		}
		if err := p.wait(events, false); err != nil {
			t.Fatal(err)
		}
	}
	wait(false) // the first
	for range 9 {
		wait(true)
	}
	if len(a.said) != 0 || p.rest != longRest {
		t.Errorf("while events come: said %v, rests %v", a.said, p.rest)
	}
	wait(false)
	if !slices.Equal(a.said, []uint64{sleeping}) || p.rest != longRest {
		t.Errorf("one rest without an event: said %v, rests %v", a.said, p.rest)
	}
	events.wake()
	wait(false) // nothing came but a wake-up
	wait(true)
	if !slices.Equal(a.said, []uint64{sleeping, awake}) || p.rest != shortRest {
		t.Errorf("an event after a long sleep: said %v, rests %v", a.said, p.rest)
	}
	p.asleep = nil // an object whose programs do not look
	for range 9 {
		events.wake()
		if err := p.wait(events, false); err != nil {
			t.Fatal(err)
		}
	}
	if p.rest != longRest {
		t.Errorf("without the global: rests %v", p.rest)
	}
}
