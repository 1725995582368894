// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/bpfmap"
	"btc/loader/format"
)

// Start returns when interval n of a tseries begins.
func Start(m *manifest.Map, n uint64) time.Time { return time.Unix(0, int64(n*uint64(m.Interval))) }

// maxBlanks is the maximum number of rows without values that a map is printed with. A map with more of them, such as
// a tseries of a million intervals with a few values each, has one row for each run of more than shortGap blanks.
const (
	maxBlanks = 100_000
	shortGap  = 3
)

// Shorten decides whether the blank rows of a map's elements are printed one by one; blanks is their number besides
// those of tseries.
func Shorten(elems []Element, blanks uint64) {
	for i := range elems {
		if n := elems[i].Rows - uint64(len(elems[i].Points)); elems[i].Rows > 0 {
			blanks += min(n, maxBlanks+1)
		}
	}
	for i := range elems {
		elems[i].short = blanks > maxBlanks
	}
}

// eachRow calls point for the intervals of an element in order, with nil for one without values, or gap for a run of
// them.
func (el *Element) eachRow(point func(n uint64, p *aggregate.Point), gap func(n uint64)) {
	at := el.Last - el.Rows + 1
	blanks := func(n uint64) {
		if el.short && n > shortGap {
			gap(n)
			return
		}
		for i := range n {
			point(at+i, nil)
		}
	}
	for i := range el.Points {
		p := &el.Points[i]
		blanks(p.N - at)
		point(p.N, p)
		at = p.N + 1
	}
	blanks(el.Last - at + 1)
}

// ReduceSeries merges the elements of a tseries map, one for each key and interval, into one for each key, in the
// order of the keys' bytes. If a slot was reused, its latest interval is used; each key gets the intervals from its
// first to the last of all keys.
func ReduceSeries(m *manifest.Map, entries []bpfmap.Entry) []Element {
	prefix := m.Key.Fields[len(m.Key.Fields)-1].Off
	byKey := map[string]map[uint64]aggregate.Point{}
	last := uint64(0)
	for _, e := range entries {
		key := string(e.Key[:prefix])
		if byKey[key] == nil {
			byKey[key] = map[uint64]aggregate.Point{}
		}
		part := latest(m, e.Values)
		if _, ok := byKey[key][part.N]; !ok {
			byKey[key][part.N] = part
		}
		last = max(last, part.N)
	}
	keys := make([]string, 0, len(byKey))
	for k := range byKey {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var out []Element
	for _, k := range keys {
		el := Element{Key: []byte(k), Set: true}
		for _, p := range byKey[k] {
			el.Points = append(el.Points, p)
		}
		el.Window(m, last, last)
		out = append(out, el)
	}
	Shorten(out, 0)
	return out
}

// latest combines the parts of the newest interval among the CPUs' parts {value, meta, interval} of an element; zero if
// none is used.
func latest(m *manifest.Map, values [][]byte) (sum aggregate.Point) {
	rule := m.Rule()
	for _, v := range values {
		p := rule.Point(word(v, m.ValueOff+16), word(v, m.ValueOff), word(v, m.ValueOff+8))
		switch {
		case p.N < sum.N || p.N == 0:
		case p.N > sum.N:
			sum = p
		default:
			sum = rule.MergePoints(sum, p)
		}
	}
	return sum
}

// Window orders the points of an element and drops those that are no longer kept at the interval newest, which is
// normally last, the newest one of all keys. The rows are from the first point, or the last interval, to last.
func (el *Element) Window(m *manifest.Map, newest, last uint64) {
	from := newest - uint64(m.Intervals) + 1
	sort.Slice(el.Points, func(i, j int) bool { return el.Points[i].N < el.Points[j].N }) // slices.SortFunc: 10 KB more in btrun
	for len(el.Points) > 0 && el.Points[0].N < from {
		el.Points = el.Points[1:]
	}
	first := last
	if len(el.Points) > 0 {
		first = el.Points[0].N
	}
	el.Last, el.Rows = last, 0
	if max(from, first) <= last {
		el.Rows = last - first + 1
	}
}

// Widths of the graph of a tseries.
const (
	graphWidth = 53
	axisLeft   = 21 // columns of the smaller number on the axis
)

// appendSeries appends a graph with a row for each interval, without the last
// line's end.
func appendSeries(dst []byte, env *format.Env, m *manifest.Map, el *Element, full func(dst []byte) []byte) []byte {
	if el.Rows == 0 {
		return append(dst, "<no data>"...)
	}
	isSigned := m.Signed()
	lo, hi, any := extent(el.Points, isSigned)
	if any && lo == hi {
		lo, hi = widen(lo, hi, isSigned)
	}
	unit, digits := seriesUnit(m, el)
	head := "hh:mm:ss"
	width := len(head)
	if unit != "" {
		head += "." + unit
		width += 1 + digits
	}
	number := func(v uint64) string {
		if !any {
			return "null"
		}
		return string(format.AppendInt(nil, v, isSigned))
	}
	axis := fmt.Sprintf("%*s%-*s%*s\n", width+1, "", axisLeft, number(lo), graphWidth-axisLeft, number(hi))
	line := strings.Repeat("_", graphWidth-2)
	dst = append(dst, axis...)
	dst = append(dst, head...)
	if n := width + 1 - len(head); n > 0 { // bytes, as bpftrace counts them
		dst = append(dst, strings.Repeat(" ", n)...)
	}
	dst = append(append(append(dst, '|'), line...), "|\n"...)
	zero := 0
	if isSigned && int64(lo) < 0 && int64(hi) > 0 {
		zero = column(graphWidth, lo, lo-hi) // past the border if hi is close to 0: no line
	}
	el.eachRow(
		func(n uint64, p *aggregate.Point) {
			dst = full(appendPoint(dst, local(env, Start(m, n)), p, lo, hi, zero, digits, isSigned))
		},
		func(n uint64) {
			dst = append(append(dst, strings.Repeat(" ", width+1)...), "... "...)
			dst = append(strconv.AppendUint(dst, n, 10), " intervals without values\n"...)
		},
	)
	dst = append(dst, strings.Repeat(" ", width+1)...)
	dst = append(append(append(dst, 'v'), line...), "v\n"...)
	return append(dst, axis...)
}

// local returns a time in the zone that the run prints times in.
func local(env *format.Env, t time.Time) time.Time {
	if env.Local != nil {
		return env.Local(t)
	}
	return t.Local()
}

func appendPoint(dst []byte, local time.Time, p *aggregate.Point, lo, hi uint64, zero, digits int, isSigned bool) []byte {
	dst = local.AppendFormat(dst, "15:04:05")
	if digits > 0 {
		dst = append(dst, fmt.Sprintf(".%09d", local.Nanosecond())[:1+digits]...)
	}
	row := []byte("|" + strings.Repeat(" ", graphWidth-2) + "|")
	if zero > 0 && zero < graphWidth {
		row[zero] = '.'
	}
	dst = append(dst, ' ')
	if p == nil {
		return append(append(dst, row...), " -\n"...)
	}
	at := graphWidth / 2
	if lo != hi {
		at = column(graphWidth-1, lo-p.Value, lo-hi)
	}
	row[min(graphWidth-1, at)] = '*'
	dst = append(append(dst, row...), ' ')
	return append(format.AppendInt(dst, p.Value, isSigned), '\n')
}

// column returns the column of a graph at the distance part of whole, computed in single precision. Distances are
// signed and wrap around for numbers more than 2^63 apart, as in bpftrace.
func column(width int, part, whole uint64) int {
	at := float64(float32(width) * float32(int64(part)) / float32(int64(whole)))
	switch {
	case at >= 0 && at < 1<<31:
		return int(at)
	}
	return 0 // also for values that overflow a C int, and for 0/0
}

// extent returns the smallest and the largest number; false if there is none.
func extent(pts []aggregate.Point, isSigned bool) (lo, hi uint64, ok bool) {
	for _, p := range pts {
		switch {
		case !ok:
			lo, hi, ok = p.Value, p.Value, true
		default:
			if compareNumbers(p.Value, lo, isSigned) < 0 {
				lo = p.Value
			}
			if compareNumbers(p.Value, hi, isSigned) > 0 {
				hi = p.Value
			}
		}
	}
	return lo, hi, ok
}

// widen adds a margin on both sides of a single number, within the range of its type.
func widen(lo, hi uint64, isSigned bool) (uint64, uint64) {
	least, most := uint64(0), ^uint64(0)
	if isSigned {
		least, most = 1<<63, 1<<63-1
	}
	if lo != least {
		lo--
	}
	if hi != most {
		hi++
	}
	return lo, hi
}

// seriesUnit returns the unit of fractions of a second in the time column, and its number of
// digits; "" and 0 if intervals last a second or longer. A single row has nanoseconds.
func seriesUnit(m *manifest.Map, el *Element) (string, int) {
	step := time.Duration(0)
	if el.Rows > 1 {
		step = time.Duration(m.Interval)
	}
	switch {
	case step >= time.Second:
		return "", 0
	case step >= time.Millisecond:
		return "ms", 3
	case step >= time.Microsecond:
		return "μs", 6
	}
	return "ns", 9
}

// seriesJSON appends the intervals that have values; Full all of them, null
// those without, except in long gaps (Shorten).
func seriesJSON(dst []byte, j *format.JSON, m *manifest.Map, el *Element) []byte {
	dst = append(dst, '[')
	isSigned, first := m.Signed(), true
	point := func(n uint64, p *aggregate.Point) {
		if p == nil && !j.Full {
			return
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if j.Full {
			dst = Start(m, n).UTC().AppendFormat(append(dst, `{"start": "`...), time.RFC3339Nano)
			dst = append(dst, `", "value": `...)
		} else {
			dst = Start(m, n).UTC().AppendFormat(append(dst, `{"interval_start":"`...), "2006-01-02 15:04:05.000000000")
			dst = append(dst, `","value":`...)
		}
		if p != nil {
			dst = j.Int(dst, p.Value, isSigned)
			switch {
			case !j.Full:
			case m.Agg == "avg":
				dst = j.Int(append(dst, `, "total": `...), p.Total, isSigned)
				dst = j.Int(append(dst, `, "count": `...), p.Meta, false)
			case m.Agg == "":
				dst = j.Int(append(dst, `, "at": `...), p.Meta, false)
			}
		} else {
			dst = append(dst, "null"...)
		}
		dst = j.Pass(append(dst, '}'))
	}
	if el.Rows > 0 {
		el.eachRow(point, func(uint64) {})
	}
	return append(dst, ']')
}
