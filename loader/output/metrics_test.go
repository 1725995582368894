// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	colllogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/render"
)

// document returns the output of a document format for the exported maps.
func document(t *testing.T, f *Format) string {
	t.Helper()
	var text strings.Builder
	r := newRun(f, &text)
	f.New(r).Snapshot(exported)
	r.Out.Flush(true)
	return text.String()
}

// TestPrometheusParses checks that Prometheus' own parser accepts the output.
func TestPrometheusParses(t *testing.T) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(document(t, &prometheus)))
	if err != nil {
		t.Fatal(err)
	}
	if h := families["btc_reads_size_bytes"].Metric[0].Histogram; h.GetSampleCount() != 7 || len(h.Bucket) != 66 ||
		h.Bucket[0].GetUpperBound() != -1 || h.Bucket[0].GetCumulativeCount() != 1 || h.Bucket[4].GetUpperBound() != 7 || h.Bucket[4].GetCumulativeCount() != 7 {
		t.Errorf("%d buckets: %v", len(h.Bucket), h.Bucket[:5])
	}
	calls := families["btc_reads_calls_total"]
	var labels []string
	for _, m := range calls.Metric {
		labels = append(labels,
			fmt.Sprint(m.Counter.GetValue(), m.Label[0].GetValue(), m.Label[1].GetValue(), m.Label[2].GetValue()))
	}
	if want := []string{"7reads-2z", "5reads1a \"b\"\\\n\uFFFD"}; !slices.Equal(labels, want) {
		t.Errorf("labels %q, want %q", labels, want)
	}
	if s := families["btc_reads_took_ns"].Metric[0].Summary; s.GetSampleCount() != 2 || s.GetSampleSum() != 12 {
		t.Error(s)
	}
	for name, want := range map[string]float64{"btc_reads_least": -9, "btc_reads_level": -4, "btc_up": 1} {
		if g := families[name].Metric[0].Gauge; g.GetValue() != want {
			t.Errorf("%s = %v, want %v", name, g, want)
		}
	}
	if l := families["btc_lost_total"].Metric; len(l) != 2 || l[0].Counter.GetValue() != 3 {
		t.Error(l)
	}
	if families["btc_reads_name"] != nil {
		t.Error("map of strings exported as a metric")
	}
}

// TestOTLPParses checks that each line of OTLP is a request that the official types accept, without
// unknown members.
func TestOTLPParses(t *testing.T) {
	var text strings.Builder
	r := newRun(&otlp, &text)
	for _, x := range reports {
		if x.name == "tests" || x.name == "benchmarks" {
			continue // btrun rejects these with metrics
		}
		x.make(otlp.New(r))
	}
	r.Out.Flush(true)
	nMetrics, nLogs := 0, 0
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "error output: ") {
			continue
		}
		var metrics collmetrics.ExportMetricsServiceRequest
		var logs colllogs.ExportLogsServiceRequest
		switch {
		case protojson.Unmarshal([]byte(line), &metrics) == nil:
			nMetrics++
			for _, m := range metrics.ResourceMetrics[0].ScopeMetrics[0].Metrics {
				for _, p := range m.GetHistogram().GetDataPoints() {
					if len(p.BucketCounts) != len(p.ExplicitBounds)+1 {
						t.Errorf("%s: %d counts, but %d bounds", m.Name, len(p.BucketCounts), len(p.ExplicitBounds))
					}
				}
			}
		case protojson.Unmarshal([]byte(line), &logs) == nil:
			nLogs++
		default:
			t.Errorf("%v\n%s", protojson.Unmarshal([]byte(line), &logs), line)
		}
	}
	if nMetrics < 2 || nLogs < 8 {
		t.Errorf("%d requests with metrics, %d with logs", nMetrics, nLogs)
	}
}

// TestStart checks the start times of series: the start of the run, or the last snapshot if the series was
// missing in it, or if its counts have decreased since because the script cleared them.
func TestStart(t *testing.T) {
	m := manifest.Map{Name: "@n", Shape: "count", Key: &integer, Value: &unsigned}
	var text strings.Builder
	r := newRun(&otlp, &text)
	r.Manifest = &manifest.Manifest{Maps: []manifest.Map{m}}
	r.Started, r.MaxSeries = time.Unix(100, 0), 3
	s := NewSampler(r)
	for i, c := range []struct {
		counts []uint64 // by key; 0: absent
		want   string   // seconds since the start of the run
	}{
		{[]uint64{5, 1}, "0:0 1:0"},
		{[]uint64{6, 1, 7}, "0:0 1:0 2:1"},
		{[]uint64{2, 1, 8}, "0:2 1:0 2:1"},           // cleared
		{[]uint64{2, 1}, "0:2 1:0"},                  // deleted
		{[]uint64{3, 1, 9}, "0:2 1:0 2:4"},           // inserted again
		{[]uint64{3, 1, 9, 4}, "0:2 2:4 other:0"},    // "other" is new, but its keys had series
		{[]uint64{3, 1, 9, 5}, "0:2 2:4 other:0"},    // grows
		{[]uint64{3, 0, 9, 5, 1}, "0:2 2:4 other:0"}, // as large as before
		{[]uint64{3, 0, 9, 5}, "0:2 2:4 other:8"},    // smaller
	} {
		r.At = r.Started.Add(time.Duration(i+1) * time.Second)
		x := &Map{Map: &r.Manifest.Maps[0]}
		for key, n := range c.counts {
			if n > 0 {
				x.Elements = append(x.Elements, render.Element{Key: words(int64(key)), State: aggregate.State{Value: n}, Set: true})
			}
		}
		_, samples := s.samples(x)
		var have []string
		for _, x := range samples {
			have = append(have, fmt.Sprintf("%s:%d", x.values[0], int(x.start.Sub(r.Started).Seconds())))
		}
		if have := strings.Join(have, " "); have != c.want {
			t.Errorf("snapshot %d: %s, want %s", i+1, have, c.want)
		}
	}
}

// TestMaxSeries checks that a metric has at most the maximum number of series, and that the series
// shown are kept.
func TestMaxSeries(t *testing.T) {
	m := manifest.Map{Name: "@n", Shape: "count", Key: &integer, Value: &unsigned}
	var text strings.Builder
	r := newRun(&prometheus, &text)
	r.Manifest = &manifest.Manifest{Maps: []manifest.Map{m}}
	r.MaxSeries = 3
	s := NewSampler(r)
	snapshot := func(counts ...uint64) string {
		x := &Map{Map: &r.Manifest.Maps[0]}
		for key, n := range counts {
			if n > 0 {
				x.Elements = append(x.Elements, render.Element{Key: words(int64(key)), State: aggregate.State{Value: n}, Set: true})
			}
		}
		_, samples := s.samples(x)
		var out []string
		for _, x := range samples {
			out = append(out, fmt.Sprintf("%s:%d", x.values[0], x.el.Value))
		}
		return strings.Join(out, " ")
	}
	for i, c := range []struct {
		counts []uint64
		want   string
	}{
		{[]uint64{1, 2, 3}, "0:1 1:2 2:3"},
		{[]uint64{1, 2, 3, 100}, "1:2 2:3 other:101"},     // one replaced; equal ranks are kept
		{[]uint64{50, 2, 3, 200}, "1:2 2:3 other:250"},    // series that became "other" stay there
		{[]uint64{50, 0, 3, 200}, "2:3 other:250"},        // a key that is gone is replaced
		{[]uint64{50, 0, 3, 200, 9}, "2:3 4:9 other:250"}, // by a new one
	} {
		if got := snapshot(c.counts...); got != c.want {
			t.Errorf("snapshot %d: %s, want %s", i, got, c.want)
		}
	}
}
