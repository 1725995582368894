// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strconv"

	"btc/internal/manifest"
)

// appendSummary appends a line that summarizes a histogram: the number of values, and upper bounds of their
// quantiles, which are the last numbers of their buckets. The average is computed from the buckets' midpoints, and
// omitted if a bucket without an upper bound has values.
func appendSummary(dst []byte, m *manifest.Map, el *Element) []byte {
	if el.Count == 0 {
		return dst
	}
	var b bounds = histBounds{m.Bits}
	if m.Shape == "lhist" {
		b = lhistLabels{m}
	}
	_, last := span(el.Buckets)
	dst = strconv.AppendUint(append(dst, "count "...), el.Count, 10)
	if avg, ok := middle(b, el); ok {
		dst = strconv.AppendInt(append(dst, ", average about "...), avg, 10)
	}
	for _, q := range []uint64{50, 90, 99} {
		dst = strconv.AppendUint(append(dst, ", p"...), q, 10)
		dst = appendBound(dst, b, quantile(el, q))
	}
	return append(appendBound(append(dst, ", max"...), b, last), '\n')
}

// quantile returns the bucket with the q-th percentile.
func quantile(el *Element, q uint64) int {
	// The rank of the value, from 1, rounded up, without overflow of count*q.
	rank := el.Count/100*q + (el.Count%100*q+99)/100
	sum := uint64(0)
	for i, c := range el.Buckets {
		if sum += c; sum >= rank {
			return i
		}
	}
	return len(el.Buckets) - 1
}

// appendBound appends what is known of a number in bucket i.
func appendBound(dst []byte, b bounds, i int) []byte {
	switch {
	case i > 0 && b.open(i):
		return strconv.AppendInt(append(dst, " >= "...), b.value(i), 10)
	case i > 0 && b.value(i+1)-1 == b.value(i):
		return strconv.AppendInt(append(dst, " = "...), b.value(i), 10)
	}
	return strconv.AppendInt(append(dst, " <= "...), b.value(i+1)-1, 10)
}

// middle returns the average computed from the buckets' midpoints.
func middle(b bounds, el *Element) (avg int64, ok bool) {
	sum := 0.0
	for i, c := range el.Buckets {
		if c == 0 {
			continue
		}
		if i == 0 || b.open(i) {
			return 0, false
		}
		sum += float64(c) * (float64(b.value(i)) + float64(b.value(i+1)-1)) / 2
	}
	return int64(sum / float64(el.Count)), true
}
