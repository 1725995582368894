// SPDX-License-Identifier: Apache-2.0

// Package promcollector shows the maps of a session to Prometheus: each scrape reads them. A Collector has the metrics
// of btrun -f prometheus: equal names, labels, help and types, so that one dashboard and one rule fit both.
//
//	collector, err := promcollector.New(session, btrace.MetricOptions{})
//	err = prometheus.Register(collector)
//	http.Handle("/metrics", promhttp.Handler())
//
// It takes a session of package btrace, starts nothing, and never writes to maps. It is a package of its own so that
// programs that do not use it do not link Prometheus' client.
package promcollector

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"btc/btrace"
)

// Collector is a prometheus.Collector for a session. All methods may be called concurrently, while programs run and
// after the session has ended. Unregister it before the session is closed: a scrape of a closed session fails, like
// one of a map that cannot be read, with an invalid metric.
//
// The text differs from btrun's in three points of Prometheus' library: a histogram has a sum, which is NaN because
// it is not known; bounds and values are printed as floating-point numbers, of which Prometheus stores equal values;
// and a metric without series is not shown.
type Collector struct {
	metrics *btrace.Metrics
	up      *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a collector of a session that is loaded. One that has not been attached yet shows its maps, and
// btc_up as 0.
//
// Two sessions of one object can be registered if they have different names (MetricOptions.Object), or if each has
// another value of a further label (prometheus.WrapRegistererWith).
func New(session *btrace.Session, o btrace.MetricOptions) (*Collector, error) {
	metrics, err := session.Metrics(o)
	if err != nil {
		return nil, err
	}
	c := &Collector{metrics: metrics}
	all := metrics.Describe()
	c.up = describe(&all[len(all)-1], nil, metrics.Object()) // without labels
	return c, nil
}

// Describe sends all descriptors.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	all := c.metrics.Describe()
	for i := range all {
		to <- describe(&all[i], all[i].Labels[1:], c.metrics.Object())
	}
}

// Collect reads the session.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	all, err := c.metrics.Read()
	if err != nil {
		to <- prometheus.NewInvalidMetric(c.up, err)
		return
	}
	for i := range all {
		m := &all[i]
		if m.Err != nil {
			to <- prometheus.NewInvalidMetric(describe(m, m.Labels[1:], c.metrics.Object()), m.Err)
		}
		for j := range m.Series {
			to <- metric(m, &m.Series[j])
		}
	}
}

// describe returns the descriptor of a metric, or of a series of it, which may lack some labels. A registry identifies
// it by the name and the constant label.
func describe(m *btrace.Metric, labels []string, object string) *prometheus.Desc {
	return prometheus.NewDesc(m.Name, m.Help, labels, prometheus.Labels{m.Labels[0]: object})
}

// metric converts a series.
func metric(m *btrace.Metric, s *btrace.MetricSeries) prometheus.Metric {
	var labels, values []string
	for _, l := range s.Labels[1:] {
		labels, values = append(labels, l.Name), append(values, l.Value)
	}
	desc := describe(m, labels, s.Labels[0].Value)
	var x prometheus.Metric
	var err error
	switch m.Kind {
	case btrace.MetricCounter:
		x, err = prometheus.NewConstMetric(desc, prometheus.CounterValue, s.Value, values...)
	case btrace.MetricSummary:
		x, err = prometheus.NewConstSummary(desc, s.Count, s.Value, nil, values...)
	case btrace.MetricHistogram:
		buckets := make(map[float64]uint64, len(m.Bounds))
		for i, bound := range m.Bounds {
			buckets[float64(bound)] = s.Buckets[i]
		}
		x, err = prometheus.NewConstHistogram(desc, s.Count, math.NaN(), buckets, values...)
	default:
		x, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, s.Value, values...)
	}
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return x
}
