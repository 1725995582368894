// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"btc/internal/aggregate"
	"btc/loader/metrics"
	"btc/loader/output"
	"btc/loader/run"
)

// Metrics reads a session as metrics: its maps whose values are numbers, what was lost, and with a budget the cost of
// its probes. Names, help, labels and values are those of btrun -f prometheus. It is for any library of metrics;
// package promcollector has a collector for Prometheus' own. After Session.Reload they are those of the new object.
type Metrics struct {
	session *Session
	options MetricOptions
	buckets aggregate.Range
	mu      sync.Mutex // guards sampler
	sampler *output.Sampler
}

// MetricOptions are those of Report with the same names.
type MetricOptions struct {
	// Object is the object's name in metrics; "": that of its file without .o, or of the script if there is no file.
	// Two sessions of one object need two names, or metrics with a further label.
	Object string
	// MaxSeries is the maximum number of series per metric; 0: 10000. Keys beyond it are combined to "other".
	MaxSeries int
	// Buckets are the bounds of histograms of hist(), such as 1us..10s or 1us..10s/2, as btrun --buckets; "": all.
	Buckets string
}

// MetricKind is the type of a metric, by Prometheus' name.
type MetricKind string

// The kinds of metrics.
const (
	MetricCounter   = MetricKind(metrics.Counter)   // count(), and sum() of unsigned values
	MetricGauge     = MetricKind(metrics.Gauge)     // sum() of signed values, min(), max(), integers, the newest interval of tseries()
	MetricSummary   = MetricKind(metrics.Summary)   // avg() and stats(): a count and a sum
	MetricHistogram = MetricKind(metrics.Histogram) // hist() and lhist(): their sum is not known
)

// Metric is a metric with its series.
type Metric struct {
	Name   string // as in btc_reads_size_bytes; that of a counter ends in _total
	Kind   MetricKind
	Help   string
	Unit   string   // "": none; Name ends in it
	Labels []string // all labels that series may have; the first is "object"
	Bounds []int64  // of a histogram: the largest value of each bucket; a last one, +Inf, is not listed
	Series []MetricSeries
	Err    error // the map could not be read: there are no series
}

// MetricSeries is the value of a metric for one set of label values.
type MetricSeries struct {
	Labels  []MetricLabel
	Value   float64  // of a counter or gauge; the sum of a summary
	Count   uint64   // of a summary or histogram
	Buckets []uint64 // of a histogram: the number of values up to each of Metric.Bounds
}

// MetricLabel is a label of a series.
type MetricLabel struct{ Name, Value string }

// Metrics returns the metrics of the session.
func (s *Session) Metrics(o MetricOptions) (*Metrics, error) {
	if o.MaxSeries < 0 {
		return nil, errors.New("a negative MaxSeries")
	}
	buckets, err := aggregate.ParseRange(o.Buckets)
	if err != nil {
		return nil, fmt.Errorf("buckets: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state == closed {
		return nil, ErrClosed
	}
	if o.Object == "" {
		o.Object = s.object
	}
	m := &Metrics{session: s, options: o, buckets: buckets}
	s.run.Read(m.follow)
	return m, nil
}

// Object returns the value of the label "object" of all series.
func (m *Metrics) Object() string { return m.options.Object }

// follow makes the metrics those of the object that counts.
func (m *Metrics) follow(r run.MapReader) {
	if m.sampler == nil || m.sampler.Manifest != r.Manifest() {
		m.sampler = r.Sampler(m.options.Object, m.options.MaxSeries, m.buckets)
	}
}

// Describe lists all metrics that Read may return, without series, until another object replaces this one.
func (m *Metrics) Describe() []Metric {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Metric
	m.sampler.Describe(func(f *output.Family) { all = append(all, m.metric(f)) })
	return all
}

// Read reads the session, while programs run or after it has ended, but not after Close. The maps are not all read at
// the same instant. The error of a map is in its Metric.
func (m *Metrics) Read() ([]Metric, error) {
	var all []Metric
	err := m.locked(func(r run.MapReader, running bool) { all = m.read(r, running) })
	return all, err
}

// locked calls f with the maps of the session, which it keeps from being closed.
func (m *Metrics) locked(f func(r run.MapReader, running bool)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.session
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state == closed {
		return ErrClosed
	}
	s.run.Read(func(r run.MapReader) { f(r, s.running()) })
	return nil
}

// read reads the maps of an object.
func (m *Metrics) read(r run.MapReader, running bool) (all []Metric) {
	m.follow(r)
	broken := map[string]error{}
	m.sampler.Families(func(show func(*output.Map)) {
		for _, x := range r.Maps() {
			elems, err := r.Elements(x)
			if err != nil {
				broken[x.Name] = err
				continue
			}
			show(&output.Map{Map: x, Elements: elems})
		}
	}, running, func(f *output.Family) { all = append(all, m.metric(f)) })
	if len(broken) > 0 {
		m.sampler.Describe(func(f *output.Family) {
			if err := broken[f.Map]; err != nil {
				x := m.metric(f)
				x.Err = err
				all = append(all, x)
			}
		})
	}
	return all
}

// Write writes all metrics in a text format, "prometheus" or "openmetrics", as btrun -f does: the document that a scrape
// returns. Nothing is written if a map cannot be read. See Read for when it may be called.
func (m *Metrics) Write(w io.Writer, format string) error {
	if format != "prometheus" && format != "openmetrics" {
		return fmt.Errorf("unknown format of metrics %q: expected prometheus or openmetrics", format)
	}
	document, err := m.document(format == "openmetrics")
	if err != nil {
		return err
	}
	_, err = w.Write(document)
	return err
}

// document returns all metrics as text.
func (m *Metrics) document(open bool) (document []byte, err error) {
	closed := m.locked(func(r run.MapReader, running bool) {
		m.follow(r)
		var maps []*output.Map
		for _, x := range r.Maps() {
			elems, failed := r.Elements(x)
			if failed != nil {
				err = fmt.Errorf("%s: %w", x.Name, failed)
				return
			}
			maps = append(maps, &output.Map{Map: x, Elements: elems})
		}
		document = m.sampler.Exposition(open, func(show func(*output.Map)) {
			for _, x := range maps {
				show(x)
			}
		}, running)
	})
	if closed != nil {
		return nil, closed
	}
	return document, err
}

// WriteMetrics is Metrics.Write with default options: an HTTP handler calls it for each scrape.
//
//	w.Header().Set("Content-Type", btrace.MetricsContentType("openmetrics"))
//	err := session.WriteMetrics(w, "openmetrics")
//
// The choice of keys that have series of their own is kept from one call to the next.
func (s *Session) WriteMetrics(w io.Writer, format string) error {
	s.mu.Lock()
	m := s.metrics
	s.mu.Unlock()
	if m == nil {
		var err error
		if m, err = s.Metrics(MetricOptions{}); err != nil {
			return err
		}
		s.mu.Lock()
		if s.metrics == nil {
			s.metrics = m
		}
		m = s.metrics
		s.mu.Unlock()
	}
	return m.Write(w, format)
}

// MetricsContentType returns the media type of a format of Metrics.Write, for the header Content-Type.
func MetricsContentType(format string) string { return output.ContentType(format == "openmetrics") }

// running reports whether the session was attached and has not ended; mu is held.
func (s *Session) running() bool {
	select {
	case <-s.done:
		return false
	default:
		return s.state >= attached
	}
}

// metric converts a metric with its series.
func (m *Metrics) metric(f *output.Family) Metric {
	x := Metric{
		Name: f.Name, Kind: MetricKind(f.Kind), Help: f.Help, Unit: f.Unit, Bounds: f.Bounds,
		Labels: append([]string{metrics.ObjectLabel}, f.Labels...),
	}
	for i := range f.Series {
		from := &f.Series[i]
		to := MetricSeries{Labels: []MetricLabel{{metrics.ObjectLabel, m.options.Object}}, Count: from.Count}
		for j, value := range from.Values {
			if !metrics.Absent(f.Labels[j], value) {
				to.Labels = append(to.Labels, MetricLabel{f.Labels[j], value})
			}
		}
		switch {
		case f.Float:
			to.Value = math.Float64frombits(from.Value)
		default:
			to.Value = Number{Bits: from.Value, Signed: f.Signed}.Float64()
		}
		if f.Kind == metrics.Histogram {
			to.Value = 0
			to.Buckets = make([]uint64, len(f.Bounds))
			sum := uint64(0)
			for j := range to.Buckets {
				if j < len(from.Buckets) {
					sum += from.Buckets[j]
				}
				to.Buckets[j] = sum
			}
		}
		x.Series = append(x.Series, to)
	}
	return x
}
