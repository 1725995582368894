// SPDX-License-Identifier: Apache-2.0

// Package history keeps the values of maps during a run, and draws them: the rate or the value of a number as a sparkline, a
// histogram as a heat map, a tseries as a graph.
package history

import (
	"math"
	"time"

	"btc/internal/manifest"
	"btc/loader/render"
)

// Limits of what is kept.
const (
	maxIntervals = 250
	maxElements  = 256     // of all maps: more than a screen shows
	maxValues    = 1 << 19 // of all maps: a histogram has one for each bucket
)

// History has the values of maps in the last intervals.
type History struct {
	// Name, if it is not nil, identifies an element of a map: its key is not the same in all intervals.
	Name     func(m *manifest.Map, el *render.Element) string
	manifest *manifest.Manifest // of the object that runs in the interval
	tracks   map[string]*track
	size     int // number of values
	window   int // number of intervals
}

// track has the values of an element.
type track struct {
	at     time.Time // when the last values were read
	total  []uint64
	idle   int         // number of intervals since then
	values [][]float32 // of the last intervals; nil: none
}

// New returns an empty history. Without drawing it stays empty, and maps are only text.
func New(draw bool) *History {
	h := new(History)
	if draw {
		h.tracks = map[string]*track{}
	}
	return h
}

// name identifies an element of all maps.
func (h *History) name(m *manifest.Map, el *render.Element) string {
	key := string(el.Key)
	if h.Name != nil {
		key = h.Name(m, el)
	}
	return m.Name + "\x00" + key
}

// Next begins an interval, in which an object runs.
func (h *History) Next(m *manifest.Manifest) {
	h.manifest = m
	keep := maxIntervals
	if h.size > maxValues {
		keep = h.window / 2
	}
	h.size, h.window = 0, 0
	for name, t := range h.tracks {
		t.values = append(t.values, nil)
		t.values = t.values[max(len(t.values)-keep, 0):]
		h.window = max(h.window, len(t.values))
		h.size += len(t.values) * len(t.total)
		if t.idle++; t.idle >= keep {
			delete(h.tracks, name)
		}
	}
}

// isRate reports whether the values of a map are totals, of which the differences are of interest.
func isRate(m *manifest.Map) bool {
	return m.Shape == "count" || m.Shape == "sum" || isHistogram(m)
}

func isHistogram(m *manifest.Map) bool { return m.Shape == "hist" || m.Shape == "lhist" }

// isNumber reports whether the elements of a map are numbers.
func isNumber(m *manifest.Map) bool {
	switch m.Shape {
	case "count", "sum", "avg", "min", "max", "stats":
		return true
	}
	return m.Shape == "plain" && m.Value.Kind == "int"
}

// Add notes the elements of a map, at a time in the interval.
func (h *History) Add(at time.Time, m *manifest.Map, elems []render.Element) {
	if h.tracks == nil || !isNumber(m) && !isHistogram(m) {
		return
	}
	for i := range elems {
		el := &elems[i]
		if !el.Set && m.Scalar() {
			continue
		}
		name := h.name(m, el)
		t := h.tracks[name]
		if t == nil {
			if len(h.tracks) == maxElements {
				continue
			}
			t = &track{values: make([][]float32, 1)}
			h.tracks[name] = t
		}
		t.add(at, m, el, isRate(m) && !h.manifest.Resets(m))
	}
}

// add notes the values of an element; grows says that they are totals.
func (t *track) add(at time.Time, m *manifest.Map, el *render.Element, grows bool) {
	total := el.Buckets
	if !isHistogram(m) {
		total = []uint64{el.Number(m)}
	}
	values := make([]float32, len(total))
	for i, n := range total {
		last := uint64(0)
		if i < len(t.total) && grows {
			last = t.total[i]
		}
		switch {
		case m.Signed() && !isHistogram(m):
			values[i] = float32(int64(n - last))
		case n < last: // cleared since
			values[i] = float32(n)
		default:
			values[i] = float32(n - last)
		}
	}
	first := max(len(t.values)-max(t.idle, 1), 0)
	switch seconds := float32(at.Sub(t.at).Seconds()); {
	case !grows:
		first = len(t.values) - 1
	case t.total == nil || seconds <= 0: // what is older than the history has no rate
		first = len(t.values)
	default: // what is new may be of several intervals
		for i := range values {
			values[i] /= seconds
		}
	}
	for i := first; i < len(t.values); i++ {
		t.values[i] = values
	}
	t.at, t.total, t.idle = at, total, 0
}

// series returns the values of an element, or of a bucket; not a number where there is none.
func (h *History) series(t *track, bucket int) []float32 {
	out := make([]float32, h.window)
	for i := range out {
		out[i] = float32(math.NaN())
		if j := i + len(t.values) - h.window; j >= 0 && t.values[j] != nil {
			out[i] = 0
			if bucket < len(t.values[j]) {
				out[i] = t.values[j][bucket]
			}
		}
	}
	return out
}
