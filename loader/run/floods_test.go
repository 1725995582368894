package run

import (
	"testing"
	"time"
)

func TestFloods(t *testing.T) {
	var f floods
	now := time.Unix(1000, 0)
	shown := 0
	for range 20 {
		if f.admit(3, now) {
			shown++
		}
	}
	if shown != floodShown || !f.admit(4, now) {
		t.Errorf("%d shown, want %d of one kind and the first of another", shown, floodShown)
	}
	due := func(at time.Time, final bool) (n uint64) {
		f.due(at, final, func(i int, k uint64) { n += k })
		return n
	}
	if n := due(now.Add(time.Second/2), false); n != 0 {
		t.Errorf("%d reported too early", n)
	}
	if n := due(now.Add(time.Second), false); n != 15 {
		t.Errorf("%d reported, want 15", n)
	}
	if n := due(now.Add(3*time.Second), true); n != 0 {
		t.Errorf("%d reported twice", n)
	}
	f.admit(3, now)
	if n := due(now.Add(1100*time.Millisecond), true); n != 1 {
		t.Errorf("%d at the end, want 1", n)
	}
}
