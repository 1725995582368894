// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/render"
)

// scraped returns the histogram that Prometheus reads from a document, by key.
func scraped(t *testing.T, document []byte) map[string]*dto.Histogram {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(document)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*dto.Histogram{}
	for _, m := range families["btc_reads_lat"].GetMetric() {
		all[m.Label[1].GetValue()] = m.Histogram
	}
	return all
}

// quantile is Prometheus' histogram_quantile of sum by (le).
func quantile(q float64, sums map[float64]uint64) float64 {
	var bounds []float64
	for le := range sums {
		bounds = append(bounds, le)
	}
	slices.Sort(bounds)
	rank := q * float64(sums[math.Inf(1)])
	for i, le := range bounds {
		if float64(sums[le]) < rank {
			continue
		}
		if math.IsInf(le, 1) {
			return bounds[i-1]
		}
		low, below := 0.0, 0.0
		if i > 0 {
			low, below = bounds[i-1], float64(sums[bounds[i-1]])
		}
		return low + (le-low)*(rank-below)/(float64(sums[le])-below)
	}
	return math.NaN()
}

// TestBuckets checks --buckets with 20 keys on three hosts that counted different times: each series of each host has the
// same bounds, counts are exact, and the quantiles of sum by (le) are those of btrun, within the bucket.
func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		text  string
		bits  int
		lines int // of a series
		exact bool
	}{
		{"", 0, 66, true}, {"1us..10s", 0, 27, true}, {"1us..10s/2", 0, 15, false}, {"1us..10s/1", 2, 27, false}, {"1us..10s", 2, 102, true}, {"/4", 0, 18, false},
	} {
		rng := rand.New(rand.NewPCG(1, uint64(len(c.text))))
		m := manifest.Map{Name: "@lat", Shape: "hist", Key: &integer, Value: &integer, MapParams: manifest.MapParams{Bits: c.bits}}
		chosen, err := aggregate.ParseRange(c.text)
		if err != nil {
			t.Fatal(err)
		}
		whole := make([]uint64, aggregate.HistBuckets(c.bits))
		sums := map[float64]uint64{}
		values := 0
		for host := range 3 {
			var elems []render.Element
			for key := range 20 {
				if host == 2 && key > 15 {
					continue // it has not seen all keys
				}
				counts := make([]uint64, len(whole))
				n := 1 + rng.IntN(200)
				for range n {
					v := uint64(math.Exp(rng.Float64()*16+7)) >> (host + key%3) // 0.2 us to 10 s
					counts[aggregate.HistBucket(c.bits, v)]++
				}
				values += n
				for i, n := range counts {
					whole[i] += n
				}
				last := len(counts)
				for last > 0 && counts[last-1] == 0 {
					last--
				}
				elems = append(elems, render.Element{Key: words(int64(key)), Set: true, Buckets: counts[:last], State: aggregate.State{Count: uint64(n)}})
			}
			r := &Run{Manifest: &manifest.Manifest{Maps: []manifest.Map{m}}, Object: "reads", Buckets: chosen, Started: time.Unix(1, 0), At: time.Unix(2, 0)}
			full := newRun(&prometheus, &strings.Builder{})
			r.Env, r.Losses = full.Env, func() []Loss { return nil }
			document := NewSampler(r).Exposition(false, func(show func(*Map)) { show(&Map{Map: &m, Elements: elems}) }, true)
			if n := strings.Count(string(document), `key="3",le=`); n != c.lines {
				t.Errorf("%q, %d bits: %d series of a key, want %d", c.text, c.bits, n, c.lines)
			}
			for key, h := range scraped(t, document) {
				if b := h.Bucket[len(h.Bucket)-1]; !math.IsInf(b.GetUpperBound(), 1) || b.GetCumulativeCount() != h.GetSampleCount() {
					t.Errorf("%q: the last bucket of %s is %v, of %d values", c.text, key, b, h.GetSampleCount())
				}
				for _, b := range h.Bucket {
					sums[b.GetUpperBound()] += b.GetCumulativeCount()
				}
			}
		}
		if sums[math.Inf(1)] != uint64(values) {
			t.Errorf("%q: %d values of %d", c.text, sums[math.Inf(1)], values)
		}
		b := aggregate.Buckets{Bits: c.bits}
		seen, i := uint64(0), 0
		for _, le := range sortedBounds(sums) { // what is exported up to a bound is what was counted up to it
			for ; i < len(whole); i++ {
				if _, high := b.Bounds(i); float64(high) > le {
					break
				}
				seen += whole[i]
			}
			if !math.IsInf(le, 1) && sums[le] != seen {
				t.Errorf("%q, %d bits: %d values up to %v, want %d", c.text, c.bits, sums[le], le, seen)
			}
		}
		for _, q := range []float64{0.25, 0.5, 0.9, 0.99} {
			i, share := aggregate.Quantile(whole, q)
			low, high := b.Bounds(i)
			got, want := quantile(q, sums), float64(low)+share*float64(high-low)
			if c.exact && math.Abs(got-want) > 1 {
				t.Errorf("%q, %d bits: quantile %v is %v, want %v as btrun", c.text, c.bits, q, got, want)
			}
			bounds := sortedBounds(sums)
			at, _ := slices.BinarySearch(bounds, want)
			if got > bounds[at] || at > 0 && got < bounds[at-1] {
				t.Errorf("%q, %d bits: quantile %v is %v, and btrun's %v is in the bucket up to %v", c.text, c.bits, q, got, want, bounds[at])
			}
		}
	}
}

func sortedBounds(sums map[float64]uint64) (list []float64) {
	for le := range sums {
		list = append(list, le)
	}
	slices.Sort(list)
	return list
}

// TestBucketsOfOthers checks that an lhist() keeps the script's bounds, that keys beyond the number of series are combined
// with the chosen bounds, of which fewer leave room for more keys, and that OTLP has the same.
func TestBucketsOfOthers(t *testing.T) {
	chosen, err := aggregate.ParseRange("1..8/2")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	r := newRun(&prometheus, &text)
	r.Buckets = chosen
	prometheus.New(r).Snapshot(exported)
	r.Out.Flush(true)
	for _, want := range []string{
		`btc_reads_size_bytes_bucket{object="reads",le="0"} 1
btc_reads_size_bytes_bucket{object="reads",le="3"} 3
btc_reads_size_bytes_bucket{object="reads",le="15"} 7
btc_reads_size_bytes_bucket{object="reads",le="+Inf"} 7
btc_reads_size_bytes_count{object="reads"} 7
`,
		`btc_reads_bucket{object="reads",key_le="7",le="-1"} 0
btc_reads_bucket{object="reads",key_le="7",le="9"} 1
btc_reads_bucket{object="reads",key_le="7",le="19"} 1
btc_reads_bucket{object="reads",key_le="7",le="29"} 3
btc_reads_bucket{object="reads",key_le="7",le="+Inf"} 3
`,
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no\n%s in\n%s", want, &text)
		}
	}
	text.Reset()
	r = newRun(&otlp, &text)
	r.Buckets = chosen
	otlp.New(r).Snapshot(exported)
	r.Out.Flush(true)
	if want := `"explicitBounds":[0,3,15],"bucketCounts":["1","2","4","0"]`; !strings.Contains(text.String(), want) {
		t.Errorf("no %s in %s", want, &text)
	}
	m := manifest.Map{Name: "@lat", Shape: "hist", Key: &integer, Value: &integer}
	var elems []render.Element
	for key := range 5 {
		elems = append(elems, render.Element{Key: words(int64(key)), Set: true, Buckets: []uint64{0, 1, 0, 1}, State: aggregate.State{Count: 2}})
	}
	for _, c := range []struct {
		buckets aggregate.Range
		series  int
		want    string // the combined series, of the keys that have none
	}{
		{chosen, 25, ""}, {chosen, 20, `key="other",le="+Inf"} 4`}, {aggregate.Range{}, 201, `key="other",le="+Inf"} 6`},
	} {
		r := newRun(&prometheus, &text)
		r.Manifest, r.Buckets, r.MaxSeries = &manifest.Manifest{Maps: []manifest.Map{m}}, c.buckets, c.series
		document := string(NewSampler(r).Exposition(false, func(show func(*Map)) { show(&Map{Map: &m, Elements: elems}) }, true))
		if c.want == "" && strings.Contains(document, "other") || !strings.Contains(document, c.want) {
			t.Errorf("%d series: no %q in\n%s", c.series, c.want, document)
		}
	}
	if got := fmt.Sprint(elems[0].Buckets); got != "[0 1 0 1]" {
		t.Errorf("the map's own buckets became %s", got)
	}
}
