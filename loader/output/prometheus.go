// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strconv"

	"btc/loader/format"
	"btc/loader/metrics"
)

// prometheus is the text format 0.0.4 of Prometheus, for node_exporter's textfile collector.
var prometheus = Format{
	Name:     "prometheus",
	Help:     "maps as metrics for node_exporter's textfile collector",
	JSON:     true,
	Metrics:  true,
	Document: true,
	New: func(r *Run) Sink {
		return &exposition{text: text{Run: r}, sampler: newSampler(r)}
	},
}

// openmetrics is the text format of OpenMetrics 1.0.
var openmetrics = Format{
	Name:     "openmetrics",
	Help:     "maps as metrics in OpenMetrics 1.0",
	JSON:     true,
	Metrics:  true,
	Document: true,
	New: func(r *Run) Sink {
		return &exposition{text: text{Run: r}, sampler: newSampler(r), open: true}
	},
}

// exposition is the sink of both formats: each snapshot and the end of the run are a document.
// Printed output is not a metric and is omitted; messages are written to standard error.
type exposition struct {
	text
	*sampler
	open  bool // OpenMetrics
	noted bool // the omission was reported
}

func (x *exposition) leaveOut(e *format.Event) {
	if !x.noted {
		x.noted = true
		x.text.Message("WARNING: " + e.Kind + "() is not part of metrics: -f prometheus and -f openmetrics contain only maps")
	}
}

func (x *exposition) Printf(e *format.Event, _ *format.Format)       { x.leaveOut(e) }
func (x *exposition) Print(e *format.Event)                          { x.leaveOut(e) }
func (x *exposition) Time(e *format.Event, _ []byte)                 { x.leaveOut(e) }
func (x *exposition) Join(e *format.Event, _ [][]byte, _ string)     { x.leaveOut(e) }
func (x *exposition) Piece(e *format.Event, _ []byte, first, _ bool) { x.leaveOut(e) }

// Map ignores print() of a map, because each document contains all maps.
func (x *exposition) Map(*Map) {}

func (x *exposition) Snapshot(maps func(show func(*Map))) { x.document(maps, true) }

func (x *exposition) End(maps func(show func(*Map))) { x.document(maps, false) }

// document writes all metrics.
func (x *exposition) document(maps func(show func(*Map)), running bool) {
	out := x.text.Out
	maps(func(m *Map) {
		metric, samples := x.samples(m)
		if metric == nil {
			return
		}
		dst := x.head(out.Begin(), metric.Name, string(metric.Kind), metric.Help, metric.Unit)
		for i := range samples {
			dst = x.sample(dst, metric, &samples[i])
			out.End(dst)
			dst = out.Begin()
		}
		out.End(dst)
	})
	dst := out.Begin()
	if losses := x.text.Losses(); len(losses) > 0 {
		dst = x.head(dst, metrics.Lost, string(metrics.Counter), metrics.LostHelp, "")
		for _, l := range losses {
			dst = x.line(dst, metrics.Lost+"_total", []string{"cause"}, []string{l.Cause}, "", "",
				strconv.AppendUint(nil, l.N, 10))
		}
	}
	dst = x.costs(dst)
	up := "0"
	if running {
		up = "1"
	}
	dst = x.line(x.head(dst, metrics.Up, string(metrics.Gauge), metrics.UpHelp, ""), metrics.Up, nil, nil, "", "",
		[]byte(up))
	if x.open {
		dst = append(dst, "# EOF\n"...)
	}
	out.End(dst)
}

// Detached reports once, on the error output, what each document contains as a metric.
func (x *exposition) Detached(d *Detachment) { x.text.Detached(d) }

// costs appends what the probes of a run with a budget cost.
func (x *exposition) costs(dst []byte) []byte {
	all := x.text.costs()
	if len(all) == 0 {
		return dst
	}
	for _, m := range costMetrics {
		name, suffix := m.name, ""
		if m.kind == metrics.Counter {
			suffix = "_total"
		}
		dst = x.head(dst, name, string(m.kind), m.help, m.unit)
		for i := range all {
			number := strconv.AppendFloat(nil, m.value(&all[i]), 'g', -1, 64)
			dst = x.line(dst, name+suffix, []string{metrics.ProbeLabel}, []string{all[i].Probe}, "", "", number)
		}
	}
	return dst
}

// costMetrics are the metrics of the probes of a run with a budget.
var costMetrics = []struct {
	name, help, unit string
	kind             metrics.Kind
	value            func(*Cost) float64
}{
	{metrics.ProbeUp, metrics.ProbeUpHelp, "", metrics.Gauge, func(c *Cost) float64 {
		if c.Attached {
			return 1
		}
		return 0
	}},
	{metrics.ProbeCovered, metrics.ProbeCoveredHelp, "seconds", metrics.Gauge, func(c *Cost) float64 { return c.Covered.Seconds() }},
	{metrics.ProbeCPU, metrics.ProbeCPUHelp, "seconds", metrics.Counter, func(c *Cost) float64 { return c.Used.Seconds() }},
}

// head appends the lines before a metric's samples. In OpenMetrics the family name of a
// counter has no "_total".
func (x *exposition) head(dst []byte, name, kind, help, unit string) []byte {
	if !x.open && kind == string(metrics.Counter) {
		name += "_total"
	}
	dst = append(append(append(dst, "# HELP "...), name...), ' ')
	dst = append(appendEscaped(dst, help, x.open), '\n')
	dst = append(append(append(dst, "# TYPE "...), name...), ' ')
	dst = append(append(dst, kind...), '\n')
	if x.open && unit != "" {
		dst = append(append(append(dst, "# UNIT "...), name...), ' ')
		dst = append(append(dst, unit...), '\n')
	}
	return dst
}

// sample appends the lines of a sample.
func (x *exposition) sample(dst []byte, m *metrics.Metric, s *sample) []byte {
	isSigned := m.Map.Signed()
	uint := func(n uint64) []byte { return strconv.AppendUint(nil, n, 10) }
	switch m.Kind {
	case metrics.Counter:
		return x.line(dst, m.Name+"_total", m.Labels, s.values, "", "",
			format.AppendInt(nil, number(m.Map, &s.el), isSigned))
	case metrics.Summary:
		dst = x.line(dst, m.Name+"_count", m.Labels, s.values, "", "", uint(s.el.Count))
		if x.open && isSigned && int64(s.el.Value) < 0 {
			return dst // OpenMetrics has no negative sums
		}
		return x.line(dst, m.Name+"_sum", m.Labels, s.values, "", "", format.AppendInt(nil, s.el.Value, isSigned))
	case metrics.Histogram:
		// The sum is not known. OpenMetrics has a count only beside a sum.
		sum := uint64(0)
		for i, bound := range m.Bounds {
			if i < len(s.el.Buckets) {
				sum += s.el.Buckets[i]
			}
			le := strconv.FormatInt(bound, 10)
			if x.open {
				le += ".0"
			}
			dst = x.line(dst, m.Name+"_bucket", m.Labels, s.values, "le", le, uint(sum))
		}
		dst = x.line(dst, m.Name+"_bucket", m.Labels, s.values, "le", "+Inf", uint(s.el.Count))
		if !x.open {
			dst = x.line(dst, m.Name+"_count", m.Labels, s.values, "", "", uint(s.el.Count))
		}
		return dst
	}
	return x.line(dst, m.Name, m.Labels, s.values, "", "", format.AppendInt(nil, number(m.Map, &s.el), isSigned))
}

// line appends a line with the label of the object, others, and a last one if it has a name.
func (x *exposition) line(dst []byte, name string, labels, values []string, last, lastValue string,
	number []byte) []byte {
	dst = append(append(dst, name...), "{"+metrics.ObjectLabel+`="`...)
	dst = append(appendEscaped(dst, x.text.Object, true), '"')
	for i, label := range labels {
		if metrics.Absent(label, values[i]) {
			continue
		}
		dst = append(append(append(dst, ','), label...), `="`...)
		dst = append(appendEscaped(dst, values[i], true), '"')
	}
	if last != "" {
		dst = append(append(append(dst, ','), last...), `="`...)
		dst = append(append(dst, lastValue...), '"')
	}
	return append(append(append(dst, "} "...), number...), '\n')
}

// appendEscaped appends text with the escapes of labels and help.
func appendEscaped(dst []byte, text string, quote bool) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '\\':
			dst = append(dst, `\\`...)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '"' && quote:
			dst = append(dst, `\"`...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
