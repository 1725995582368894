// SPDX-License-Identifier: Apache-2.0

// Package aggregate is the algebra of the language's aggregations: how two values combine, which numbers are in a bucket
// of a histogram, and which bucket has a quantile.
//
// It takes and returns numbers; it knows neither maps, layouts nor formats, and imports nothing of this module. However
// values are split over CPUs, hosts, keys or intervals of time, and in whatever order the parts are merged, the result is
// that of one map that has counted all of them. The exception is a plain value, which has no rule: the last assignment
// wins, and nobody knows which one that is.
package aggregate

import (
	"math"
	"slices"
)

// Rule is what a map's values are combined by.
type Rule struct {
	Shape  string // count, sum, avg, stats, min, max, hist, lhist or tseries
	Agg    string // tseries: the function of the values of an interval, avg, sum, min, max, "" for the last value
	Signed bool   // whether the values are signed
}

// State is the value of an aggregation. The buckets of a histogram are not part of it, because there are two
// representations, see AddBuckets and AddSparse; Count is their sum.
type State struct {
	Value  uint64  // count, sum, min, max: the number; avg, stats: the total
	Count  uint64  // avg, stats: number of values; hist, lhist: of all buckets
	Points []Point // tseries: the intervals with values, in order
}

// Point is an interval of a tseries that has values.
type Point struct {
	N     uint64 // number of the interval since the epoch
	Value uint64
	// For avg, the total and the count of the values; for the last value, its time (ns of the boot clock).
	Total, Meta uint64
}

// Merge combines two states, each with at least one value. Neither is modified.
func (r Rule) Merge(a, b State) State {
	switch r.Shape {
	case "min", "max":
		a.Value = r.Extreme(r.Shape, a.Value, b.Value)
	case "tseries":
		a.Points = Join(a.Points, b.Points, func(p *Point) uint64 { return p.N }, r.MergePoints)
	default:
		a.Value += b.Value
		a.Count += b.Count
	}
	return a
}

// MergePoints combines the values of one interval. The times of last values are those of one machine.
func (r Rule) MergePoints(a, b Point) Point {
	switch r.Agg {
	case "min", "max":
		a.Value = r.Extreme(r.Agg, a.Value, b.Value)
		a.Total = a.Value
	case "":
		if b.Meta > a.Meta {
			return b
		}
	default:
		a.Total += b.Total
		a.Meta += b.Meta
		a.Value = r.Point(a.N, a.Total, a.Meta).Value
	}
	return a
}

// Point returns the point of an interval with a total (or the value) and a count (or a time).
func (r Rule) Point(n, total, meta uint64) Point {
	p := Point{N: n, Value: total, Total: total, Meta: meta}
	if r.Agg == "avg" && meta != 0 {
		p.Value = r.Mean(total, meta)
	}
	return p
}

// Extreme returns the smaller (min) or the larger of two numbers.
func (r Rule) Extreme(which string, a, b uint64) uint64 {
	less := a < b
	if r.Signed {
		less = int64(a) < int64(b)
	}
	if less == (which == "min") {
		return a
	}
	return b
}

// Mean returns the total divided by the count, truncated toward zero; 0 if there are no values.
func (r Rule) Mean(total, count uint64) uint64 {
	switch {
	case count == 0:
		return 0
	case r.Signed:
		return uint64(int64(total) / int64(count))
	}
	return total / count
}

// AddBuckets returns the sums of the counts of two histograms with the same buckets, without changing either. The result
// is as long as the longer one: buckets past the last used one may be left out.
func AddBuckets(a, b []uint64) []uint64 {
	if len(a) < len(b) {
		a, b = b, a
	}
	sum := slices.Clone(a)
	for i, c := range b {
		sum[i] += c
	}
	return sum
}

// Bucket is a used bucket of a histogram of which most are empty.
type Bucket struct {
	I int32
	N uint64
}

// AddSparse is AddBuckets for lists of the used buckets in their order.
func AddSparse(a, b []Bucket) []Bucket {
	return Join(a, b, func(x *Bucket) uint64 { return uint64(x.I) }, func(x, y Bucket) Bucket {
		x.N += y.N
		return x
	})
}

// Join merges two lists that are ordered by key; merge combines elements with equal keys. It modifies neither.
func Join[T any](a, b []T, key func(*T) uint64, merge func(a, b T) T) []T {
	if len(a) == 0 {
		return b
	}
	out := make([]T, 0, max(len(a), len(b)))
	for len(a) > 0 || len(b) > 0 {
		var x T
		switch {
		case len(b) == 0 || len(a) > 0 && key(&a[0]) < key(&b[0]):
			x, a = a[0], a[1:]
		case len(a) == 0 || key(&a[0]) > key(&b[0]):
			x, b = b[0], b[1:]
		default:
			x, a, b = merge(a[0], b[0]), a[1:], b[1:]
		}
		out = append(out, x)
	}
	return out
}

// Quantile returns the bucket of the value that a fraction q of all values does not exceed, 0 < q <= 1, and how far in
// the bucket it is if its values are spread evenly: 0 (exclusive) to 1. It is -1 if there are no values.
func Quantile(counts []uint64, q float64) (bucket int, share float64) {
	total := 0.0
	for _, c := range counts {
		total += float64(c)
	}
	// 0.07*100 is 7.000000000000001: the rank of the value, from 1, is 7 and not 8.
	rank := q * total
	if whole := math.Round(rank); math.Abs(rank-whole) < 1e-12*whole {
		rank = whole
	}
	bucket, seen := -1, 0.0
	for i, c := range counts {
		if c == 0 {
			continue
		}
		bucket, share = i, min((rank-seen)/float64(c), 1)
		if seen += float64(c); seen >= rank {
			break
		}
	}
	return bucket, share
}
