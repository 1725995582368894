// SPDX-License-Identifier: Apache-2.0

package render

import (
	"math"
	"strconv"
	"time"

	"btc/internal/manifest"
)

// Rates are the rates of what maps count, per second between two snapshots: of count(), sum(), and the number of values of a
// histogram. The zero value has seen no snapshot.
type Rates struct {
	// Name, if it is not nil, identifies an element of a map: its key is not the same in all snapshots.
	Name        func(m *manifest.Map, el *Element) string
	now, before *totals
}

// totals are those of a snapshot.
type totals struct {
	at    time.Time
	of    map[string]uint64 // by name of the map and key
	whole map[string]bool   // maps all of whose elements are there
}

// maxTotals is the maximum number of totals that are kept. Further elements have no rates.
const maxTotals = 1 << 16

// Next begins a snapshot.
func (r *Rates) Next(at time.Time) {
	r.before, r.now = r.now, &totals{at, map[string]uint64{}, map[string]bool{}}
}

// Of notes the elements of a map in the snapshot, all of them or not, and returns what appends the rate of one; nil if the map
// has none, or the script resets it.
func (r *Rates) Of(run *manifest.Manifest, m *manifest.Map, elems []Element, whole bool) func(dst []byte, el *Element) []byte {
	if _, ok := total(m, &Element{}); !ok || run.Resets(m) {
		return nil
	}
	r.now.whole[m.Name] = whole
	for i := range elems {
		if len(r.now.of) == maxTotals {
			r.now.whole[m.Name] = false
			break
		}
		r.now.of[r.name(m, &elems[i])], _ = total(m, &elems[i])
	}
	return func(dst []byte, el *Element) []byte {
		name := r.name(m, el)
		if r.before == nil {
			return dst
		}
		last, known := r.before.of[name]
		n, now := r.now.of[name]
		seconds := r.now.at.Sub(r.before.at).Seconds()
		signed := m.Shape == "sum" && m.Signed()
		if !now || !known && !r.before.whole[m.Name] || seconds <= 0 || !signed && n < last {
			return dst
		}
		rate := float64(n-last) / seconds
		if signed {
			rate = float64(int64(n-last)) / seconds
		}
		dst = append(dst, "  "...)
		if math.Abs(rate) >= 100 {
			dst = strconv.AppendFloat(dst, rate, 'f', 0, 64)
		} else {
			dst = strconv.AppendFloat(dst, rate, 'g', 3, 64)
		}
		return append(dst, "/s"...)
	}
}

// name identifies an element of all maps.
func (r *Rates) name(m *manifest.Map, el *Element) string {
	if r.Name != nil {
		return m.Name + "\x00" + r.Name(m, el)
	}
	return m.Name + "\x00" + string(el.Key)
}

// total returns what a map has counted; false: it counts nothing.
func total(m *manifest.Map, el *Element) (uint64, bool) {
	switch m.Shape {
	case "count", "sum":
		return el.Value, true
	case "hist", "lhist":
		return el.Count, true
	}
	return 0, false
}
