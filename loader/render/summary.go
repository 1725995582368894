// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strconv"

	"btc/internal/aggregate"
	"btc/internal/manifest"
)

// appendSummary appends a line that summarizes a histogram: the number of values, and upper bounds of their
// quantiles, which are the last numbers of their buckets. The average is computed from the buckets' midpoints, and
// omitted if a bucket without an upper bound has values.
func appendSummary(dst []byte, m *manifest.Map, el *Element) []byte {
	if el.Count == 0 {
		return dst
	}
	b := m.Buckets()
	_, last := span(el.Buckets)
	dst = strconv.AppendUint(append(dst, "count "...), el.Count, 10)
	if avg, ok := middle(b, el); ok {
		dst = strconv.AppendInt(append(dst, ", average about "...), avg, 10)
	}
	for _, percent := range []uint64{50, 90, 99} {
		dst = strconv.AppendUint(append(dst, ", p"...), percent, 10)
		i, _ := aggregate.Quantile(el.Buckets, float64(percent)/100)
		dst = appendBound(dst, b, i)
	}
	return append(appendBound(append(dst, ", max"...), b, last), '\n')
}

// appendBound appends what is known of a number in bucket i.
func appendBound(dst []byte, b aggregate.Buckets, i int) []byte {
	low, high := b.Bounds(i)
	switch {
	case i > 0 && b.Open(i):
		return strconv.AppendInt(append(dst, " >= "...), low, 10)
	case low == high:
		return strconv.AppendInt(append(dst, " = "...), low, 10)
	}
	return strconv.AppendInt(append(dst, " <= "...), high, 10)
}

// middle returns the average computed from the buckets' midpoints.
func middle(b aggregate.Buckets, el *Element) (avg int64, ok bool) {
	sum := 0.0
	for i, c := range el.Buckets {
		if c == 0 {
			continue
		}
		if i == 0 || b.Open(i) {
			return 0, false
		}
		low, high := b.Bounds(i)
		sum += float64(c) * (float64(low) + float64(high)) / 2
	}
	return int64(sum / float64(el.Count)), true
}
