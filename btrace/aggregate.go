// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"time"

	"btc/internal/aggregate"
)

// Number is a 64-bit integer, signed or unsigned as the script decides.
type Number struct {
	Bits   uint64
	Signed bool
}

// Int64 returns the number as a signed one.
func (n Number) Int64() int64 { return int64(n.Bits) }

// Uint64 returns the number as an unsigned one.
func (n Number) Uint64() uint64 { return n.Bits }

// Float64 returns the nearest float64.
func (n Number) Float64() float64 {
	if n.Signed {
		return float64(int64(n.Bits))
	}
	return float64(n.Bits)
}

func (n Number) String() string {
	if n.Signed {
		return strconv.FormatInt(int64(n.Bits), 10)
	}
	return strconv.FormatUint(n.Bits, 10)
}

// merge returns the number that an aggregation has for the values of both.
func (n Number) merge(shape string, m Number) Number {
	r := aggregate.Rule{Shape: shape, Signed: n.Signed}
	n.Bits = r.Merge(aggregate.State{Value: n.Bits}, aggregate.State{Value: m.Bits}).Value
	return n
}

// Count is the value of count().
type Count uint64

// Merge returns the total count.
func (c Count) Merge(d Count) Count { return c + d }

// Sum is the value of sum().
type Sum struct{ Total Number }

// Merge returns the total sum.
func (s Sum) Merge(t Sum) Sum {
	return Sum{s.Total.merge("sum", t.Total)}
}

// Min is the value of min().
type Min struct{ Value Number }

// Merge returns the smaller minimum.
func (m Min) Merge(n Min) Min {
	return Min{m.Value.merge("min", n.Value)}
}

// Max is the value of max().
type Max struct{ Value Number }

// Merge returns the larger maximum.
func (m Max) Merge(n Max) Max {
	return Max{m.Value.merge("max", n.Value)}
}

// Avg is the value of avg().
type Avg struct {
	Count uint64
	Total Number
}

// Mean returns the average, or NaN if there are no values.
func (a Avg) Mean() float64 { return a.Total.Float64() / float64(a.Count) }

// Merge returns the average of the values of both.
func (a Avg) Merge(b Avg) Avg {
	r := aggregate.Rule{Shape: "avg", Signed: a.Total.Signed}
	sum := r.Merge(aggregate.State{Value: a.Total.Bits, Count: a.Count}, aggregate.State{Value: b.Total.Bits, Count: b.Count})
	return Avg{sum.Count, Number{sum.Value, a.Total.Signed}}
}

// Stats is the value of stats().
type Stats struct {
	Count uint64
	Total Number
}

// Mean returns the average, or NaN if there are no values.
func (s Stats) Mean() float64 { return Avg(s).Mean() }

// Merge returns the statistics of the values of both.
func (s Stats) Merge(t Stats) Stats { return Stats(Avg(s).Merge(Avg(t))) }

// Hist is a histogram: the value of hist() or lhist(). Its buckets depend only on the script, so histograms of one
// script from any hosts can be merged without loss.
type Hist struct {
	// Bits is the second argument of hist(): each power of two has 1<<Bits buckets. Values in the
	// same bucket differ by less than 1 part in 1<<Bits.
	Bits int
	// Linear is set for lhist(), with these bounds.
	Linear         bool
	Min, Max, Step int64
	// Counts are the numbers of values in each bucket, up to the last non-zero one; see Bounds.
	Counts []uint64
}

// Bucket is a non-empty bucket: Count values from Low to High, inclusive.
type Bucket struct {
	Low, High int64
	Count     uint64
}

// Bounds returns the smallest and the largest value in bucket i. Bucket 0 has all values below bucket 1: negative
// values for hist(), those below Min for lhist(). The last bucket of lhist() has all values from Max on.
func (h *Hist) Bounds(i int) (low, high int64) {
	if h.Linear {
		return aggregate.Buckets{Min: h.Min, Max: h.Max, Step: h.Step}.Bounds(i)
	}
	return aggregate.Buckets{Bits: h.Bits}.Bounds(i)
}

// Count returns the number of values.
func (h *Hist) Count() uint64 {
	n := uint64(0)
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Cumulative returns, for each bucket from the lowest, empty ones too, its largest value and the number
// of values up to it: the bounds and values of a Prometheus histogram. The last bound is
// math.MaxInt64, which stands for +Inf, and its number is Count. Histograms of one map have the same
// bounds, so they can be added by bound.
func (h *Hist) Cumulative() iter.Seq2[int64, uint64] {
	return func(yield func(int64, uint64) bool) {
		n := uint64(0)
		for i := 0; ; i++ {
			if i < len(h.Counts) {
				n += h.Counts[i]
			}
			_, high := h.Bounds(i)
			if high == math.MaxInt64 {
				yield(high, h.Count())
				return
			}
			if !yield(high, n) {
				return
			}
		}
	}
}

// Buckets returns the non-empty buckets, from the lowest. Cumulative has all of them.
func (h *Hist) Buckets() iter.Seq[Bucket] {
	return func(yield func(Bucket) bool) {
		for i, c := range h.Counts {
			if c == 0 {
				continue
			}
			if low, high := h.Bounds(i); !yield(Bucket{low, high, c}) {
				return
			}
		}
	}
}

// Quantile returns the value that a fraction q of all values does not exceed, 0 <= q <= 1:
// Quantile(0.99) is p99. Values are assumed to be spread evenly within a bucket. In the first and
// the last bucket, which are open-ended, the result is their only bound. It is NaN if there are no
// values.
func (h *Hist) Quantile(q float64) float64 {
	i, share := aggregate.Quantile(h.Counts, min(max(q, 0), 1))
	if i < 0 || math.IsNaN(q) {
		return math.NaN()
	}
	low, high := h.Bounds(i)
	return Bucket{low, high, h.Counts[i]}.at(share)
}

// at returns the value at a fraction of the bucket.
func (b Bucket) at(share float64) float64 {
	switch {
	case b.Low == math.MinInt64:
		return float64(b.High)
	case b.High == math.MaxInt64:
		return float64(b.Low)
	}
	return float64(b.Low) + min(max(share, 0), 1)*float64(b.High-b.Low)
}

// Merge adds the values of another histogram with the same buckets.
func (h *Hist) Merge(o *Hist) error {
	if h.Linear != o.Linear || h.Bits != o.Bits || h.Min != o.Min || h.Max != o.Max || h.Step != o.Step {
		return fmt.Errorf("histograms with different buckets cannot be merged: %s and %s", h.bounds(), o.bounds())
	}
	h.Counts = aggregate.AddBuckets(h.Counts, o.Counts)
	return nil
}

func (h *Hist) bounds() string {
	if h.Linear {
		return fmt.Sprintf("lhist(%d, %d, %d)", h.Min, h.Max, h.Step)
	}
	return fmt.Sprintf("hist(%d)", h.Bits)
}

// Series is the value of tseries().
type Series struct {
	Interval time.Duration
	// Function is how the values of an interval are combined: avg, min, max, sum, or "" for the
	// last value.
	Function string
	// Points are the intervals with values, from the earliest.
	Points []Point
}

// Point is an interval of a Series.
type Point struct {
	Start time.Time
	Value Number
	// Average is what Value is computed from if Function is avg, so that averages can be combined.
	Average Avg
}

// Merge combines two values of one aggregation into the value that a single map would have. It
// returns an error for all other values. The arguments are not modified.
func Merge(a, b Value) (Value, error) {
	switch a := a.(type) {
	case Count:
		if b, ok := b.(Count); ok {
			return a.Merge(b), nil
		}
	case Sum:
		if b, ok := b.(Sum); ok {
			return a.Merge(b), nil
		}
	case Min:
		if b, ok := b.(Min); ok {
			return a.Merge(b), nil
		}
	case Max:
		if b, ok := b.(Max); ok {
			return a.Merge(b), nil
		}
	case Avg:
		if b, ok := b.(Avg); ok {
			return a.Merge(b), nil
		}
	case Stats:
		if b, ok := b.(Stats); ok {
			return a.Merge(b), nil
		}
	case *Hist:
		if b, ok := b.(*Hist); ok {
			sum := *a
			err := sum.Merge(b)
			return &sum, err
		}
	case Series:
		if b, ok := b.(Series); ok {
			return a.Merge(b)
		}
	}
	return nil, fmt.Errorf("values of %T and %T cannot be merged", a, b)
}

// Merge returns the combined series. Two last values of the same interval cannot be combined: the clocks by which
// machines order them differ.
func (s Series) Merge(t Series) (Series, error) {
	if s.Interval != t.Interval || s.Function != t.Function {
		return s, fmt.Errorf("series with different intervals or functions cannot be merged")
	}
	var err error
	key := func(p *Point) uint64 { return uint64(p.Start.UnixNano()) }
	s.Points = aggregate.Join(s.Points, t.Points, key, func(a, b Point) Point {
		switch {
		case s.Function == "":
			err = fmt.Errorf("two last values of one interval cannot be merged")
		case s.Function == "avg" && (a.Average.Count == 0 || b.Average.Count == 0):
			err = fmt.Errorf("averages of one interval cannot be merged without the number of their values")
		}
		r := aggregate.Rule{Shape: "tseries", Agg: s.Function, Signed: a.Value.Signed}
		return seriesPoint(a.Start, r, r.MergePoints(a.point(), b.point()))
	})
	return s, err
}

// point returns the point as its parts.
func (p Point) point() aggregate.Point {
	if p.Average.Count == 0 {
		return aggregate.Point{Value: p.Value.Bits, Total: p.Value.Bits}
	}
	return aggregate.Point{Value: p.Value.Bits, Total: p.Average.Total.Bits, Meta: p.Average.Count}
}

// seriesPoint returns a point of a series.
func seriesPoint(start time.Time, r aggregate.Rule, p aggregate.Point) Point {
	out := Point{Start: start, Value: Number{p.Value, r.Signed}}
	if r.Agg == "avg" {
		out.Average = Avg{p.Meta, Number{p.Total, r.Signed}}
	}
	return out
}

// copied returns a copy that shares no memory that Merge modifies.
func copied(v Value) Value {
	if h, ok := v.(*Hist); ok {
		x := *h
		x.Counts = slices.Clone(h.Counts)
		return &x
	}
	return v
}
