// SPDX-License-Identifier: Apache-2.0

package output

import (
	"math"

	"btc/loader/metrics"
)

// Family is a metric with its series, in the terms of Prometheus.
type Family struct {
	Map        string // of the script; "": not from a map
	Name       string // of a counter with metrics.Total
	Kind       metrics.Kind
	Help, Unit string
	Labels     []string // those of Series.Values; each series also has metrics.ObjectLabel
	Bounds     []int64  // of a histogram, as in metrics.Metric
	Signed     bool     // values are signed
	Float      bool     // values are the bits of a float64
	Series     []Series
}

// Series is the value of a metric for one set of label values.
type Series struct {
	Values  []string // empty ones may be left out: metrics.Absent
	Value   uint64   // of a counter or gauge; the sum of a summary
	Count   uint64   // of a summary or histogram
	Buckets []uint64 // of a histogram, without the empty ones at the end
}

// Families calls show for all metrics of a run, from its maps. It adds nothing that does not exist now: a
// map that is not shown, losses that nothing can cause, costs without a budget.
func (s *Sampler) Families(maps func(show func(*Map)), running bool, show func(*Family)) {
	maps(func(x *Map) {
		m, samples := s.samples(x)
		if m == nil {
			return
		}
		f := family(m)
		f.Series = make([]Series, len(samples))
		for i := range samples {
			el := &samples[i].el
			f.Series[i] = Series{Values: samples[i].values, Value: el.Value, Count: el.Count, Buckets: el.Buckets}
			if m.Kind == metrics.Counter || m.Kind == metrics.Gauge {
				f.Series[i].Value = number(m.Map, el)
			}
		}
		show(&f)
	})
	if losses := s.Losses(); len(losses) > 0 {
		f := lostFamily
		for _, l := range losses {
			f.Series = append(f.Series, Series{Values: []string{l.Cause}, Value: l.N})
		}
		show(&f)
	}
	if costs := s.costs(); len(costs) > 0 {
		for i := range costMetrics {
			f := costMetrics[i].family()
			for j := range costs {
				value := math.Float64bits(costMetrics[i].value(&costs[j]))
				f.Series = append(f.Series, Series{Values: []string{costs[j].Probe}, Value: value})
			}
			show(&f)
		}
	}
	for i := range s.More {
		show(&s.More[i])
	}
	f := upFamily
	f.Series = make([]Series, 1)
	if running {
		f.Series[0].Value = 1
	}
	show(&f)
}

// Describe calls show for all metrics that Families may show, without series.
func (s *Sampler) Describe(show func(*Family)) {
	for i := range s.list {
		f := family(&s.list[i])
		show(&f)
	}
	f := lostFamily
	show(&f)
	for i := range costMetrics {
		f := costMetrics[i].family()
		show(&f)
	}
	f = upFamily
	show(&f)
}

// family returns the family of a map, without series.
func family(m *metrics.Metric) Family {
	f := Family{Map: m.Map.Name, Name: m.Name, Kind: m.Kind, Help: m.Help, Unit: m.Unit, Labels: m.Labels, Bounds: m.Bounds, Signed: m.Map.Signed()}
	if m.Kind == metrics.Counter {
		f.Name += metrics.Total
	}
	return f
}

// The families that are not maps.
var (
	lostFamily = Family{Name: metrics.Lost + metrics.Total, Kind: metrics.Counter, Help: metrics.LostHelp, Labels: []string{"cause"}}
	upFamily   = Family{Name: metrics.Up, Kind: metrics.Gauge, Help: metrics.UpHelp}
)

// costMetric is a metric of the probes of a run with a budget.
type costMetric struct {
	name, help, unit string
	kind             metrics.Kind
	value            func(*Cost) float64
}

var costMetrics = []costMetric{
	{metrics.ProbeUp, metrics.ProbeUpHelp, "", metrics.Gauge, func(c *Cost) float64 {
		if c.Attached {
			return 1
		}
		return 0
	}},
	{metrics.ProbeCovered, metrics.ProbeCoveredHelp, "seconds", metrics.Gauge, func(c *Cost) float64 { return c.Covered.Seconds() }},
	{metrics.ProbeCPU, metrics.ProbeCPUHelp, "seconds", metrics.Counter, func(c *Cost) float64 { return c.Used.Seconds() }},
}

func (m *costMetric) family() Family {
	f := Family{Name: m.name, Kind: m.kind, Help: m.help, Unit: m.unit, Labels: []string{metrics.ProbeLabel}, Float: true}
	if m.kind == metrics.Counter {
		f.Name += metrics.Total
	}
	return f
}
