// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/internal/aggregate"
)

// count adds values to a histogram, using its bounds.
func count(h *Hist, buckets int, values ...int64) *Hist {
	h.Counts = make([]uint64, buckets)
	for _, v := range values {
		for i := range h.Counts {
			if low, high := h.Bounds(i); low <= v && v <= high {
				h.Counts[i]++
			}
		}
	}
	return h
}

// TestBounds checks that the bounds of successive buckets are adjacent, from the smallest to the
// largest number.
func TestBounds(t *testing.T) {
	hists := []*Hist{{Linear: true, Min: -10, Max: 95, Step: 10}}
	counts := []int{aggregate.LhistBuckets(-10, 95, 10)}
	for bits := range 6 {
		hists, counts = append(hists, &Hist{Bits: bits}), append(counts, aggregate.HistBuckets(bits))
	}
	for i, h := range hists {
		next := int64(math.MinInt64)
		for b := range counts[i] {
			low, high := h.Bounds(b)
			if low == math.MaxInt64 { // buckets for larger numbers stay empty
				break
			}
			if low != next || high < low {
				t.Fatalf("%s: bucket %d is %d..%d, want it to start at %d", h.bounds(), b, low, high, next)
			}
			next = high + 1
		}
		if next != math.MinInt64 { // not past the largest
			t.Errorf("%s ends at %d", h.bounds(), next-1)
		}
	}
}

// TestQuantile checks that a quantile of the histogram differs from the exact one by less than the
// width of a bucket, and that it is NaN without values.
func TestQuantile(t *testing.T) {
	var values []int64
	for i := range int64(1000) {
		values = append(values, i)
	}
	for _, x := range []struct {
		h        *Hist
		buckets  int
		accuracy float64
	}{
		{&Hist{Bits: 5}, aggregate.HistBuckets(5), 1.0 / 32},
		{&Hist{Bits: 2}, aggregate.HistBuckets(2), 1.0 / 4},
		{&Hist{Linear: true, Max: 1000, Step: 10}, 102, 0.02},
	} {
		h := count(x.h, x.buckets, values...)
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			want := q * 999
			if have := h.Quantile(q); math.Abs(have-want) > x.accuracy*want+10 {
				t.Errorf("%s: Quantile(%v) = %v, want %v", h.bounds(), q, have, want)
			}
		}
	}
	if q := (&Hist{}).Quantile(0.5); !math.IsNaN(q) {
		t.Errorf("Quantile without values = %v, want NaN", q)
	}
	if q := count(&Hist{}, 3, -5).Quantile(0.5); q != -1 {
		t.Errorf("Quantile of negative values = %v", q)
	}
}

// TestCumulative checks that histograms with different values, as of 20 keys of a map, can be added by
// bound: the bound at which the sum reaches a quantile is the upper bound of the bucket that btrun
// reports for all values together.
func TestCumulative(t *testing.T) {
	for _, x := range []struct {
		h       Hist
		buckets int
	}{
		{Hist{}, aggregate.HistBuckets(0)}, {Hist{Bits: 5}, aggregate.HistBuckets(5)},
		{Hist{Linear: true, Min: 0, Max: 5000, Step: 100}, aggregate.LhistBuckets(0, 5000, 100)},
	} {
		sum, all := map[int64]uint64{}, x.h
		var bounds []int64
		for key := range int64(20) {
			one := x.h
			var values []int64
			for v := range int64(50) {
				values = append(values, v*v*(key+1)-10)
			}
			count(&one, x.buckets, values...)
			m, err := Merge(&all, &one)
			if err != nil {
				t.Fatal(err)
			}
			all = *m.(*Hist)
			var own []int64
			for bound, n := range one.Cumulative() {
				own = append(own, bound)
				sum[bound] += n
			}
			if bounds != nil && !slices.Equal(own, bounds) {
				t.Fatalf("%s: bounds of two keys differ", x.h.bounds())
			}
			bounds = own
		}
		if !slices.IsSorted(bounds) || bounds[len(bounds)-1] != math.MaxInt64 || sum[math.MaxInt64] != all.Count() {
			t.Errorf("%s: bounds %v, total %d", x.h.bounds(), bounds, sum[math.MaxInt64])
		}
		for _, q := range []uint64{1, 50, 90, 99, 100} {
			rank, seen, want := (all.Count()*q+99)/100, uint64(0), int64(0)
			for b := range all.Buckets() { // the rule of btrun --summary
				if want = b.High; seen+b.Count >= rank {
					break
				}
				seen += b.Count
			}
			have := bounds[slices.IndexFunc(bounds, func(b int64) bool { return sum[b] >= rank })]
			if have != want {
				t.Errorf("%s: p%d = %d, want %d", x.h.bounds(), q, have, want)
			}
		}
	}
}

func TestMerge(t *testing.T) {
	s, u := Number{Bits: math.MaxUint64, Signed: true}, Number{Bits: 5, Signed: true} // -1 and 5
	for _, x := range []struct{ a, b, want Value }{
		{Count(1), Count(2), Count(3)},
		{Sum{s}, Sum{u}, Sum{Number{4, true}}},
		{Min{s}, Min{u}, Min{s}},
		{Max{s}, Max{u}, Max{u}},
		{Min{Number{Bits: math.MaxUint64}}, Min{Number{Bits: 5}}, Min{Number{Bits: 5}}},
		{Avg{1, s}, Avg{2, u}, Avg{3, Number{4, true}}},
		{Stats{1, s}, Stats{2, u}, Stats{3, Number{4, true}}},
		{&Hist{Counts: []uint64{1}}, &Hist{Counts: []uint64{1, 2}}, &Hist{Counts: []uint64{2, 2}}},
		{&Hist{Bits: 1}, &Hist{}, nil},
		{&Hist{Linear: true, Max: 10, Step: 1}, &Hist{Linear: true, Max: 10, Step: 2}, nil},
		{Count(1), Sum{s}, nil},
		{int64(1), int64(2), nil},
	} {
		have, err := Merge(x.a, x.b)
		if (err == nil) != (x.want != nil) {
			t.Errorf("Merge(%v, %v): error = %v", x.a, x.b, err)
			continue
		}
		if d := cmp.Diff(x.want, have); err == nil && d != "" {
			t.Errorf("Merge(%v, %v) (-want +got):\n%s", x.a, x.b, d)
		}
	}
}

// TestMergeSnapshots checks that merging snapshots adds values by key and leaves the argument
// unchanged.
func TestMergeSnapshots(t *testing.T) {
	h := &Hist{Counts: []uint64{1}}
	a := &Snapshot{Name: "@", Shape: "hist", Entries: []Entry{{[]Value{"x", int64(1)}, h}}}
	b := &Snapshot{Name: "@", Shape: "hist", Entries: []Entry{{[]Value{"x", uint64(1)}, &Hist{Counts: []uint64{2}}}, {[]Value{"y", uint64(1)}, &Hist{Counts: []uint64{4}}}}}
	for range 2 {
		if err := a.Merge(b); err != nil {
			t.Fatal(err)
		}
	}
	for key, want := range map[string]uint64{"x": 5, "y": 8} {
		if v, ok := a.Get(key, 1); !ok || v.(*Hist).Count() != want {
			t.Errorf("Get(%s) = %v, want %d values", key, v, want)
		}
	}
	if h.Counts[0] != 1 || b.Entries[1].Value.(*Hist).Counts[0] != 4 {
		t.Error("Merge changed its argument")
	}
	if err := a.Merge(&Snapshot{Name: "@", Shape: "count"}); err == nil {
		t.Error("no error for merging a count into a histogram")
	}
	plain := &Snapshot{Name: "@", Shape: "plain"}
	if err := plain.Merge(&Snapshot{Name: "@", Shape: "plain", Entries: []Entry{{nil, int64(1)}}}); err == nil {
		t.Error("no error for merging plain values")
	}
}

// An address is scanned into a string, an Addr and a netip.Addr.
func TestScanAddr(t *testing.T) {
	var text string
	var addr Addr
	var ip netip.Addr
	v := Value(Addr("2001:db8::1"))
	if err := Scan([]Value{v, v, v}, &text, &addr, &ip); err != nil || text != "2001:db8::1" || addr != v ||
		ip != netip.MustParseAddr(text) {
		t.Errorf("%q, %q, %v, %v", text, addr, ip, err)
	}
	if err := ScanValue(Addr("nonsense"), &ip); err == nil {
		t.Error("scanned nonsense into an address")
	}
}

func TestScan(t *testing.T) {
	var n int
	var small uint8
	var text, name string
	var stack Value
	values := []Value{uint64(7), int64(200), "a", Enum{"red", 3}, Stack{}}
	if err := Scan(values, &n, &small, &text, &name, &stack); err != nil || n != 7 || small != 200 || text != "a" || name != "red" {
		t.Errorf("Scan(%v): error = %v, values %v %v %v", err, n, small, text, name)
	}
	for _, x := range []struct {
		v   Value
		dst any
	}{{int64(-1), &small}, {uint64(256), &small}, {uint64(1 << 63), &n}, {"a", &n}, {"a", n}} {
		if err := ScanValue(x.v, x.dst); err == nil {
			t.Errorf("no error for scanning %v into a %T", x.v, x.dst)
		}
	}
	if err := Scan(values, &n); err == nil {
		t.Error("no error for scanning five values into one variable")
	}
}
