// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"sort"
	"strconv"
	"time"

	"btc/internal/manifest"
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

func (n Number) less(m Number) bool {
	if n.Signed {
		return int64(n.Bits) < int64(m.Bits)
	}
	return n.Bits < m.Bits
}

// Count is the value of count().
type Count uint64

// Merge returns the total count.
func (c Count) Merge(d Count) Count { return c + d }

// Sum is the value of sum().
type Sum struct{ Total Number }

// Merge returns the total sum.
func (s Sum) Merge(t Sum) Sum {
	s.Total.Bits += t.Total.Bits
	return s
}

// Min is the value of min().
type Min struct{ Value Number }

// Merge returns the smaller minimum.
func (m Min) Merge(n Min) Min {
	if n.Value.less(m.Value) {
		return n
	}
	return m
}

// Max is the value of max().
type Max struct{ Value Number }

// Merge returns the larger maximum.
func (m Max) Merge(n Max) Max {
	if m.Value.less(n.Value) {
		return n
	}
	return m
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
	a.Count += b.Count
	a.Total.Bits += b.Total.Bits
	return a
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
	low, high = math.MinInt64, math.MaxInt64
	if h.Linear {
		if i > 0 {
			low = h.Min + int64(i-1)*h.Step
		}
		if i < manifest.LhistBuckets(h.Min, h.Max, h.Step)-1 {
			high = h.Min + int64(i)*h.Step - 1
		}
		return low, high
	}
	if i > 0 {
		low = signed(manifest.HistFirst(h.Bits, i))
	}
	if i+1 < manifest.HistBuckets(h.Bits) {
		if next := signed(manifest.HistFirst(h.Bits, i+1)); next < math.MaxInt64 {
			high = next - 1
		}
	}
	return low, high
}

// signed returns the nearest int64: hist() counts signed numbers, and the buckets of others stay
// empty.
func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

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
	total := h.Count()
	if total == 0 || math.IsNaN(q) {
		return math.NaN()
	}
	rank := min(max(q, 0), 1) * float64(total)
	seen := 0.0
	last := Bucket{}
	for b := range h.Buckets() {
		last = b
		if seen+float64(b.Count) >= rank {
			return b.at((rank - seen) / float64(b.Count))
		}
		seen += float64(b.Count)
	}
	return last.at(1)
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
	counts := slices.Clone(h.Counts)
	if n := len(o.Counts) - len(counts); n > 0 {
		counts = append(counts, make([]uint64, n)...)
	}
	for i, c := range o.Counts {
		counts[i] += c
	}
	h.Counts = counts
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

// Merge returns the combined series. Averages and last values of the same interval cannot be
// combined.
func (s Series) Merge(t Series) (Series, error) {
	if s.Interval != t.Interval || s.Function != t.Function {
		return s, fmt.Errorf("series with different intervals or functions cannot be merged")
	}
	points := append(slices.Clone(s.Points), t.Points...)
	sort.SliceStable(points, func(i, j int) bool { return points[i].Start.Before(points[j].Start) })
	s.Points = nil
	for _, p := range points {
		last := len(s.Points) - 1
		if last < 0 || !s.Points[last].Start.Equal(p.Start) {
			s.Points = append(s.Points, p)
			continue
		}
		x := &s.Points[last].Value
		switch s.Function {
		case "sum":
			x.Bits += p.Value.Bits
		case "min":
			*x = Min{*x}.Merge(Min{p.Value}).Value
		case "max":
			*x = Max{*x}.Merge(Max{p.Value}).Value
		default:
			return s, fmt.Errorf("two values of one interval cannot be merged without sum, min or max")
		}
	}
	return s, nil
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
