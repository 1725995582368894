// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strconv"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
)

// ValueJSON appends an element's value.
func ValueJSON(dst []byte, j *format.JSON, m *manifest.Map, el *Element, div uint32) []byte {
	isSigned := m.Signed()
	div = max(div, 1)
	switch m.Shape {
	case "plain":
		if m.Value.Kind == "int" && div > 1 {
			return j.Int(dst, divide(format.Uint(m.Value, el.Bytes), div, isSigned), isSigned)
		}
		return j.Append(dst, format.Value{Layout: m.Value, Bytes: el.Bytes})
	case "avg":
		if !j.Full {
			return j.Int(dst, divide(el.average(m), div, isSigned), isSigned)
		}
		fallthrough
	case "stats":
		dst = j.Int(append(dst, `{"count": `...), el.Count, false)
		dst = j.Int(append(dst, `, "average": `...), divide(el.average(m), div, isSigned), isSigned)
		return append(j.Int(append(dst, `, "total": `...), el.Value, isSigned), '}')
	case "hist":
		return appendBuckets(dst, j, el, uint64(div), m.Buckets())
	case "lhist":
		return appendBuckets(dst, j, el, 1, m.Buckets())
	case "tseries":
		return seriesJSON(dst, j, m, el)
	}
	return j.Int(dst, divide(el.Value, div, isSigned), isSigned)
}

// appendBuckets appends the buckets from the first to the last that is not
// empty, with closed intervals; those in long gaps are omitted (Shorten).
func appendBuckets(dst []byte, j *format.JSON, el *Element, div uint64, b aggregate.Buckets) []byte {
	buckets := el.Buckets
	first, last := span(buckets)
	dst = append(dst, '[')
	for i := first; i <= last; i++ {
		i += el.gap(i)
		if i > first {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		low, high := b.Bounds(i)
		if i > 0 {
			dst = append(j.Int(append(dst, `"min": `...), uint64(low), true), ", "...)
		}
		if !b.Open(i) {
			dst = append(j.Int(append(dst, `"max": `...), uint64(high), true), ", "...)
		}
		dst = append(strconv.AppendUint(append(dst, `"count": `...), buckets[i]/div, 10), '}')
		dst = j.Pass(dst)
	}
	return append(dst, ']')
}

// gap returns the number of empty buckets from i on that are not printed one by one.
func (el *Element) gap(i int) int {
	n := 0
	for el.short && el.Buckets[i+n] == 0 { // the last one is not empty
		n++
	}
	if n > shortGap {
		return n
	}
	return 0
}

// span finds the first and the last non-empty bucket; 0 and -1 if all are empty.
func span(buckets []uint64) (first, last int) {
	first, last = 0, -1
	for i, c := range buckets {
		if c == 0 {
			continue
		}
		if last < 0 {
			first = i
		}
		last = i
	}
	return first, last
}

// JSONBounds appends what determines a map's values besides its shape: signedness, bounds and intervals.
func JSONBounds(dst []byte, m *manifest.Map) []byte {
	if m.Value != nil && (m.Shape != "plain" || m.Value.Kind == "int") {
		dst = fmt.Appendf(dst, `, "signed": %v`, m.Value.Signed)
	}
	switch m.Shape {
	case "hist":
		dst = fmt.Appendf(dst, `, "bits": %d`, m.Bits)
	case "lhist":
		dst = fmt.Appendf(dst, `, "min": %d, "max": %d, "step": %d`, m.Min, m.Max, m.Step)
	case "tseries":
		dst = fmt.Appendf(dst, `, "interval": %d, "intervals": %d, "agg": `, m.Interval, m.Intervals)
		dst = format.AppendQuoted(dst, []byte(m.Agg))
	}
	return dst
}
