// SPDX-License-Identifier: Apache-2.0

package output

import (
	"math"
	"strconv"
	"strings"

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
	New:      func(r *Run) Sink { return newExposition(r, false) },
}

// openmetrics is the text format of OpenMetrics 1.0.
var openmetrics = Format{
	Name:     "openmetrics",
	Help:     "maps as metrics in OpenMetrics 1.0",
	JSON:     true,
	Metrics:  true,
	Document: true,
	New:      func(r *Run) Sink { return newExposition(r, true) },
}

// exposition writes the documents of both formats.
type exposition struct {
	*Sampler
	open bool // OpenMetrics
}

func newExposition(r *Run, open bool) Sink {
	x := &exposition{NewSampler(r), open}
	return &documents{text: text{Run: r}, what: "metrics: -f prometheus and -f openmetrics contain only maps", write: x.write}
}

// Exposition returns a document with all metrics, in one of the two formats.
func (s *Sampler) Exposition(open bool, maps func(show func(*Map)), running bool) (document []byte) {
	r := *s.Run
	r.Out = NewWriter(Buffers[1], func(text []byte, _ bool) []byte {
		document = append(document, text...)
		return text[:0]
	})
	own := *s
	own.Run = &r
	(&exposition{&own, open}).write(maps, running)
	r.Out.Flush(true)
	return document
}

// write writes all metrics.
func (x *exposition) write(maps func(show func(*Map)), running bool) {
	out := x.Out
	x.Families(maps, running, func(f *Family) {
		dst := x.head(out.Begin(), f)
		for i := range f.Series {
			dst = x.series(dst, f, &f.Series[i])
			out.End(dst)
			dst = out.Begin()
		}
		out.End(dst)
	})
	if x.open {
		out.Write([]byte("# EOF\n"))
	}
}

// head appends the lines before a metric's samples. In OpenMetrics the family name of a
// counter has no "_total".
func (x *exposition) head(dst []byte, f *Family) []byte {
	name := f.Name
	if x.open && f.Kind == metrics.Counter {
		name = strings.TrimSuffix(name, metrics.Total)
	}
	dst = append(append(append(dst, "# HELP "...), name...), ' ')
	dst = append(appendEscaped(dst, f.Help, x.open), '\n')
	dst = append(append(append(dst, "# TYPE "...), name...), ' ')
	dst = append(append(dst, f.Kind...), '\n')
	if x.open && f.Unit != "" {
		dst = append(append(append(dst, "# UNIT "...), name...), ' ')
		dst = append(append(dst, f.Unit...), '\n')
	}
	return dst
}

// series appends the lines of a series.
func (x *exposition) series(dst []byte, f *Family, s *Series) []byte {
	uint := func(n uint64) []byte { return strconv.AppendUint(nil, n, 10) }
	switch f.Kind {
	case metrics.Summary:
		dst = x.line(dst, f.Name+"_count", f, s, "", uint(s.Count))
		if x.open && f.Signed && int64(s.Value) < 0 {
			return dst // OpenMetrics has no negative sums
		}
		return x.line(dst, f.Name+"_sum", f, s, "", format.AppendInt(nil, s.Value, f.Signed))
	case metrics.Histogram:
		// The sum is not known. OpenMetrics has a count only beside a sum.
		sum := uint64(0)
		for i, bound := range f.Bounds {
			if i < len(s.Buckets) {
				sum += s.Buckets[i]
			}
			le := strconv.FormatInt(bound, 10)
			if x.open {
				le += ".0"
			}
			dst = x.line(dst, f.Name+"_bucket", f, s, le, uint(sum))
		}
		dst = x.line(dst, f.Name+"_bucket", f, s, "+Inf", uint(s.Count))
		if !x.open {
			dst = x.line(dst, f.Name+"_count", f, s, "", uint(s.Count))
		}
		return dst
	}
	number := format.AppendInt(nil, s.Value, f.Signed)
	if f.Float {
		number = strconv.AppendFloat(nil, math.Float64frombits(s.Value), 'g', -1, 64)
	}
	return x.line(dst, f.Name, f, s, "", number)
}

// line appends a line with the label of the object, those of the series, and le if it is not "".
func (x *exposition) line(dst []byte, name string, f *Family, s *Series, le string, number []byte) []byte {
	dst = append(append(dst, name...), "{"+metrics.ObjectLabel+`="`...)
	dst = append(appendEscaped(dst, x.Object, true), '"')
	for i, label := range f.Labels {
		if metrics.Absent(label, s.Values[i]) {
			continue
		}
		dst = append(append(append(dst, ','), label...), `="`...)
		dst = append(appendEscaped(dst, s.Values[i], true), '"')
	}
	if le != "" {
		dst = append(append(append(dst, `,le="`...), le...), '"')
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

// ContentType returns the media type of an exposition, for the header Content-Type.
func ContentType(isOpen bool) string {
	if isOpen {
		return "application/openmetrics-text; version=1.0.0; charset=utf-8"
	}
	return "text/plain; version=0.0.4; charset=utf-8"
}
