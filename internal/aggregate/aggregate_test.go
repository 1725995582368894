// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// value is what a program records: at a time, in an interval.
type value struct{ n, at, interval uint64 }

// part is what a CPU, a host or a key has.
type part struct {
	State
	dense  []uint64
	sparse []Bucket
}

// rules are all ways of combining values.
func rules() (all []Rule) {
	for _, signed := range []bool{false, true} {
		for _, shape := range []string{"count", "sum", "avg", "stats", "min", "max", "hist", "lhist"} {
			all = append(all, Rule{Shape: shape, Signed: signed && shape != "count"})
		}
		for _, agg := range []string{"avg", "sum", "min", "max", ""} {
			all = append(all, Rule{Shape: "tseries", Agg: agg, Signed: signed})
		}
	}
	return all
}

var layouts = map[string]Buckets{"hist": {Bits: 2}, "lhist": {Min: 3, Max: 95, Step: 10}}

// run is what one map has of all values, written without the package's own functions.
func run(r Rule, values []value) (p part) {
	compare := func(a, b value) int {
		if r.Signed {
			return cmp.Compare(int64(a.n), int64(b.n))
		}
		return cmp.Compare(a.n, b.n)
	}
	one := func(function string, values []value) (number, total, count uint64) {
		for _, v := range values {
			total += v.n
		}
		count = uint64(len(values))
		switch function {
		case "count":
			return count, total, count
		case "min":
			return slices.MinFunc(values, compare).n, total, count
		case "max":
			return slices.MaxFunc(values, compare).n, total, count
		case "avg":
			if r.Signed {
				return uint64(int64(total) / int64(count)), total, count
			}
			return total / count, total, count
		case "":
			last := slices.MaxFunc(values, func(a, b value) int { return cmp.Compare(a.at, b.at) })
			return last.n, last.n, last.at
		}
		return total, total, count
	}
	number, total, count := one(r.Shape, values)
	switch r.Shape {
	case "count", "sum", "min", "max":
		p.Value = number
	case "avg", "stats":
		p.Value, p.Count = total, count
	case "tseries":
		byInterval := map[uint64][]value{}
		for _, v := range values {
			byInterval[v.interval] = append(byInterval[v.interval], v)
		}
		for n, values := range byInterval {
			number, total, meta := one(r.Agg, values)
			point := Point{N: n, Value: number, Total: total, Meta: meta}
			if r.Agg != "avg" {
				point.Total = number
			}
			if r.Agg == "min" || r.Agg == "max" {
				point.Meta = 0
			}
			p.Points = append(p.Points, point)
		}
		slices.SortFunc(p.Points, func(a, b Point) int { return cmp.Compare(a.N, b.N) })
	default:
		p.Count = count
		l := layouts[r.Shape]
		for i := range l.Len() {
			low, high := l.Bounds(i)
			n := uint64(0)
			for _, v := range values {
				if low <= int64(v.n) && int64(v.n) <= high {
					n++
				}
			}
			if n > 0 {
				p.dense = append(append(p.dense, make([]uint64, i-len(p.dense))...), n)
				p.sparse = append(p.sparse, Bucket{int32(i), n})
			}
		}
	}
	return p
}

// TestMergeIsOneRun checks that however values are split, over CPUs, hosts or keys, and in whatever order the parts are
// merged, the result is that of one map with all of them, and that no part is modified.
func TestMergeIsOneRun(t *testing.T) {
	for _, r := range rules() {
		for seed := range uint64(200) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			values := make([]value, 1+rnd.IntN(30))
			for i := range values {
				n := rnd.Uint64N(300) - 100
				if rnd.IntN(4) == 0 {
					n = rnd.Uint64()
				}
				values[i] = value{n: n, at: uint64(i + 1), interval: 50 + rnd.Uint64N(4)}
			}
			want := run(r, values)
			rnd.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
			var parts, copies []part
			for len(values) > 0 {
				n := 1 + rnd.IntN(len(values))
				parts, copies = append(parts, run(r, values[:n])), append(copies, run(r, values[:n]))
				values = values[n:]
			}
			merged := slices.Clone(parts)
			for len(merged) > 1 {
				i := rnd.IntN(len(merged) - 1)
				a, b := merged[i], merged[i+1]
				merged[i] = part{r.Merge(a.State, b.State), AddBuckets(a.dense, b.dense), AddSparse(a.sparse, b.sparse)}
				merged = slices.Delete(merged, i+1, i+2)
			}
			if got, want := fmt.Sprint(merged[0]), fmt.Sprint(want); got != want {
				t.Fatalf("%+v, seed %d: merged\n%s, one run\n%s", r, seed, got, want)
			}
			if fmt.Sprint(parts) != fmt.Sprint(copies) {
				t.Fatalf("%+v, seed %d: a part was modified", r, seed)
			}
		}
	}
}

// TestBounds checks that the buckets of a histogram are all numbers, each once, and that Find is the inverse of First.
func TestBounds(t *testing.T) {
	for _, l := range []Buckets{{}, {Bits: 1}, {Bits: 5}, {Max: 10, Step: 3}, {Min: -20, Max: 95, Step: 10}} {
		next := int64(math.MinInt64)
		for i := range l.Len() {
			low, high := l.Bounds(i)
			if low == math.MaxInt64 { // the buckets of numbers that are not signed
				break
			}
			if low != next || high < low {
				t.Fatalf("%+v: bucket %d is %d..%d, want it to start at %d", l, i, low, high, next)
			}
			if n, ok := l.Find(low); i > 0 && (n != i || !ok) {
				t.Errorf("%+v: Find(%d) = %d, %v, want %d", l, low, n, ok, i)
			}
			if n, ok := l.Find(high); ok && (n != i || low != high) {
				t.Errorf("%+v: Find(%d) = %d", l, high, n)
			}
			next = high + 1
		}
		if next != math.MinInt64 {
			t.Errorf("%+v ends at %d", l, next-1)
		}
		if _, ok := l.Find(math.MaxInt64); ok {
			t.Errorf("%+v: a bucket begins at the largest number", l)
		}
	}
}

// TestQuantile compares the bucket with that of the value in the sorted list of all, for all percentages.
func TestQuantile(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		counts := make([]uint64, 1+rnd.IntN(20))
		var all []int
		for i := range counts {
			if rnd.IntN(2) == 0 {
				counts[i] = rnd.Uint64N(40)
			}
			all = append(all, slices.Repeat([]int{i}, int(counts[i]))...)
		}
		for percent := 1; percent <= 100; percent++ {
			want := -1
			if n := len(all); n > 0 {
				want = all[(n*percent+99)/100-1] // the rank, from 1, rounded up
			}
			got, share := Quantile(counts, float64(percent)/100)
			if got != want || got >= 0 && (share <= 0 || share > 1) {
				t.Fatalf("%v: p%d is in bucket %d (%v), want %d", counts, percent, got, share, want)
			}
		}
	}
	if i, _ := Quantile([]uint64{0, math.MaxUint64 / 2, math.MaxUint64 / 2, 0}, 1); i != 2 {
		t.Errorf("the last of 2^64-2 values is in bucket %d", i)
	}
}
