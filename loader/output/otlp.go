// SPDX-License-Identifier: Apache-2.0

package output

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/metrics"
)

// otlp is OTLP/JSON (OpenTelemetry protocol 1.x): one request per line, of metrics or of logs, as the collector's
// otlpjsonfile receiver expects.
var otlp = Format{
	Name:    "otlp",
	Help:    "OTLP/JSON lines: maps as metrics, printed output as logs",
	JSON:    true,
	Metrics: true,
	New: func(r *Run) Sink {
		o := &otlpSink{
			text:    text{Run: r},
			Sampler: NewSampler(r),
			values:  &format.JSON{Env: r.Env, Full: true, Frames: r.Frames},
		}
		o.resource = otlpResource(r)
		return o
	},
}

// otlpSink writes printed output and errors as log records, and each snapshot as one
// request with all metrics.
type otlpSink struct {
	text
	*Sampler
	values   *format.JSON
	resource []byte // {"resource":{...},"scopeX":[{"scope":{...},
	body     []byte // body of the current record
}

// Severities of log records.
const (
	severityInfo  = `"severityNumber":9,"severityText":"INFO"`
	severityWarn  = `"severityNumber":13,"severityText":"WARN"`
	severityError = `"severityNumber":17,"severityText":"ERROR"`
)

// otlpResource returns the resource that all lines have.
func otlpResource(r *Run) []byte {
	dst := append([]byte(nil), `"resource":{"attributes":[`...)
	for i, a := range [][2]string{
		{"service.name", "btc/" + r.Object}, {"host.name", r.Host}, {"host.arch", cmp.Or(r.Arch, arch.HostLabel())},
		{"btc.object", r.Object}, {"btc.object.sha256", r.Manifest.Object.SHA256}, {"btc.script", r.Manifest.Script.File},
	} {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = otlpAttribute(dst, a[0], a[1])
	}
	return append(dst, `]}`...)
}

func otlpAttribute(dst []byte, key, value string) []byte {
	dst = format.AppendQuoted(append(dst, `{"key":`...), []byte(key))
	dst = format.AppendQuoted(append(dst, `,"value":{"stringValue":`...), []byte(value))
	return append(dst, `}}`...)
}

func otlpInt(dst []byte, key string, n int64) []byte {
	dst = format.AppendQuoted(append(dst, `{"key":`...), []byte(key))
	dst = strconv.AppendInt(append(dst, `,"value":{"intValue":"`...), n, 10)
	return append(dst, `"}}`...)
}

// begin appends the start of a request: kind is Metrics or Logs.
func (o *otlpSink) begin(dst []byte, kind, list string) []byte {
	dst = append(dst, `{"resource`+kind+`":[{`...)
	dst = append(dst, o.resource...)
	dst = append(dst, `,"scope`+kind+`":[{"scope":{"name":"btc","version":`...)
	dst = format.AppendQuoted(dst, []byte(o.text.Manifest.Compiler))
	return append(dst, `},"`+list+`":[`...)
}

// requestEnd ends what begin starts.
const requestEnd = "]}]}]}\n"

func nanos(t time.Time) string {
	if t.IsZero() {
		t = time.Now()
	}
	return strconv.FormatInt(t.UnixNano(), 10)
}

// record writes a log record with the text of an event; attributes appends more than its position.
func (o *otlpSink) record(kind, severity string, pos manifest.Pos, body []byte, attributes func(dst []byte) []byte) {
	dst := o.begin(o.text.Out.Begin(), "Logs", "logRecords")
	at := nanos(o.text.At)
	dst = append(dst, `{"timeUnixNano":"`+at+`","observedTimeUnixNano":"`+at+`",`+severity+`,"body":{"stringValue":`...)
	dst = append(format.AppendQuoted(dst, body), `},"attributes":[`...)
	dst = otlpAttribute(dst, "btc.kind", kind)
	if pos.Line > 0 {
		dst = otlpAttribute(append(dst, ','), "code.file.path", o.text.Manifest.Script.File)
		dst = otlpInt(append(dst, ','), "code.line.number", int64(pos.Line))
		dst = otlpInt(append(dst, ','), "code.column.number", int64(pos.Col))
		dst = append(dst, `,{"key":"btc.probes","value":{"arrayValue":{"values":[`...)
		for i, p := range ProbesAt(o.text.Manifest, pos) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(format.AppendQuoted(append(dst, `{"stringValue":`...), []byte(p)), '}')
		}
		dst = append(dst, `]}}}`...)
	}
	if attributes != nil {
		dst = attributes(dst)
	}
	o.text.Out.End(append(append(dst, `]}`...), requestEnd...))
}

// event writes an event's text with its arguments.
func (o *otlpSink) event(e *format.Event, body []byte) {
	body = []byte(strings.TrimSuffix(string(body), "\n"))
	o.record(e.Kind, severityInfo, e.Pos, body, func(dst []byte) []byte {
		if len(e.Values) == 0 {
			return dst
		}
		dst = append(dst, `,{"key":"btc.args","value":{"arrayValue":{"values":[`...)
		from := len(dst)
		for i, v := range e.Values {
			if len(dst)-from > format.MaxText {
				break // the body says that it is cut
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = o.value(dst, v)
		}
		return append(dst, `]}}}`...)
	})
}

// value appends an argument as an AnyValue: integers and strings as such, everything else as text.
func (o *otlpSink) value(dst []byte, v format.Value) []byte {
	switch v.Layout.Kind {
	case "int", "enum":
		dst = format.AppendInt(append(dst, `{"intValue":"`...), format.Uint(v.Layout, v.Bytes), true)
		return append(dst, `"}`...)
	case "bool":
		return append(strconv.AppendBool(append(dst, `{"boolValue":`...), format.Uint(v.Layout, v.Bytes) != 0), '}')
	}
	return append(format.AppendQuoted(append(dst, `{"stringValue":`...), o.text.Env.Append(nil, v)), '}')
}

func (o *otlpSink) Printf(e *format.Event, f *format.Format) {
	o.body = o.text.Env.Printf(o.body[:0], f, e.Values)
	o.event(e, o.body)
}

func (o *otlpSink) Print(e *format.Event) {
	o.body = o.text.Env.Append(o.body[:0], e.Values[0])
	o.event(e, o.body)
}

func (o *otlpSink) Time(e *format.Event, text []byte) { o.event(e, text) }

func (o *otlpSink) Join(e *format.Event, parts [][]byte, separator string) {
	o.body = joined(o.body[:0], o.text.Env, parts, separator)
	o.event(e, o.body)
}

// Piece writes a record for each piece, because a file can be larger than a record should be.
func (o *otlpSink) Piece(e *format.Event, piece []byte, _, _ bool) {
	if len(piece) > 0 {
		o.event(e, piece)
	}
}

func (o *otlpSink) Pinned(path string) {
	o.record("pinned", severityInfo, manifest.Pos{}, []byte("Program pinned to "+path), nil)
}

// Diagnostic writes a record, unless it is a muted warning.
func (o *otlpSink) Diagnostic(d *Diagnostic) {
	if d.Muted {
		return
	}
	severity := severityWarn
	if d.Severity == "ERROR" {
		severity = severityError
	}
	o.record(d.Kind, severity, d.Pos, []byte(d.Text), func(dst []byte) []byte {
		if d.Helper != "" {
			dst = otlpAttribute(append(dst, ','), "btc.helper", d.Helper)
			dst = otlpInt(append(dst, ','), "btc.retcode", int64(d.Code))
		}
		return dst
	})
}

func (o *otlpSink) Lost(n uint64) {
	o.record("lost_events", severityWarn, manifest.Pos{}, strconv.AppendUint([]byte("lost events: "), n, 10), nil)
}

// Map writes print() of a map as a request with one metric.
func (o *otlpSink) Map(x *Map) {
	if m, samples := o.samples(x); m != nil && len(samples) > 0 {
		dst := o.metric(o.begin(o.text.Out.Begin(), "Metrics", "metrics"), m, samples)
		o.text.Out.End(append(dst, requestEnd...))
	}
}

func (o *otlpSink) Snapshot(maps func(show func(*Map))) { o.document(maps, 1) }

func (o *otlpSink) End(maps func(show func(*Map))) { o.document(maps, 0) }

// document writes a request with all metrics.
func (o *otlpSink) document(maps func(show func(*Map)), up int64) {
	dst := o.begin(nil, "Metrics", "metrics") // show may write complete lines
	maps(func(x *Map) {
		if m, samples := o.samples(x); m != nil && len(samples) > 0 {
			dst = append(o.metric(dst, m, samples), ',')
		}
	})
	if losses := o.text.Losses(); len(losses) > 0 {
		dst = o.family(dst, metrics.Lost, metrics.LostHelp, "", `"sum":{"aggregationTemporality":2,"isMonotonic":true,`)
		for i, l := range losses {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = o.point(dst, []string{"cause"}, []string{l.Cause}, o.text.Started)
			dst = append(strconv.AppendUint(append(dst, `,"asInt":"`...), l.N, 10), `"}`...)
		}
		dst = append(dst, `]}},`...)
	}
	dst = o.costs(dst)
	dst = o.family(dst, metrics.Up, metrics.UpHelp, "", `"gauge":{`)
	dst = strconv.AppendInt(append(o.point(dst, nil, nil, o.text.Started), `,"asInt":"`...), up, 10)
	o.text.Out.Write(append(append(dst, `"}]}}`...), requestEnd...))
}

// costs appends what the probes of a run with a budget cost.
func (o *otlpSink) costs(dst []byte) []byte {
	all := o.text.costs()
	for _, m := range costMetrics {
		if len(all) == 0 {
			break
		}
		unit := ""
		if m.unit != "" {
			unit = "s"
		}
		dst = o.family(dst, m.name, m.help, unit, kindData[m.kind])
		for i := range all {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = o.point(dst, []string{metrics.ProbeLabel}, []string{all[i].Probe}, o.text.Started)
			dst = append(strconv.AppendFloat(append(dst, `,"asDouble":`...), m.value(&all[i]), 'g', -1, 64), '}')
		}
		dst = append(dst, `]}},`...)
	}
	return dst
}

// Detached writes a record.
func (o *otlpSink) Detached(d *Detachment) {
	o.record("detached", severityWarn, d.Pos, []byte(d.Text()), func(dst []byte) []byte {
		dst = otlpAttribute(append(dst, ','), "btc.probe", d.Probe)
		return otlpInt(append(dst, ','), "btc.covered_ns", d.To.Sub(d.From).Nanoseconds())
	})
}

// family appends the start of a metric, up to its data points.
func (o *otlpSink) family(dst []byte, name, help, unit, data string) []byte {
	dst = format.AppendQuoted(append(dst, `{"name":`...), []byte(name))
	dst = format.AppendQuoted(append(dst, `,"description":`...), []byte(help))
	dst = format.AppendQuoted(append(dst, `,"unit":`...), []byte(unit))
	return append(append(append(dst, ','), data...), `"dataPoints":[`...)
}

// point appends the start of a data point: labels and times.
func (o *otlpSink) point(dst []byte, labels, values []string, start time.Time) []byte {
	dst = append(dst, `{"attributes":[`...)
	dst = otlpAttribute(dst, metrics.ObjectLabel, o.text.Object)
	for i, label := range labels {
		if !metrics.Absent(label, values[i]) {
			dst = otlpAttribute(append(dst, ','), label, values[i])
		}
	}
	return append(dst, `],"startTimeUnixNano":"`+nanos(start)+`","timeUnixNano":"`+nanos(o.text.At)+`"`...)
}

// kindData is the start of the data of each kind of metric. All are cumulative since the
// start, or since the script has cleared or deleted them.
var kindData = map[metrics.Kind]string{
	metrics.Counter:   `"sum":{"aggregationTemporality":2,"isMonotonic":true,`,
	metrics.Gauge:     `"gauge":{`,
	metrics.Summary:   `"summary":{`,
	metrics.Histogram: `"histogram":{"aggregationTemporality":2,`,
}

func (o *otlpSink) metric(dst []byte, m *metrics.Metric, samples []sample) []byte {
	dst = o.family(dst, m.Name, m.Help, m.Unit, kindData[m.Kind])
	isSigned := m.Map.Signed()
	for i := range samples {
		if i > 0 {
			dst = append(dst, ',')
		}
		el := &samples[i].el
		dst = o.point(dst, m.Labels, samples[i].values, samples[i].start)
		switch m.Kind {
		case metrics.Summary:
			dst = strconv.AppendUint(append(dst, `,"count":"`...), el.Count, 10)
			dst = format.AppendInt(append(dst, `","sum":`...), el.Value, isSigned)
		case metrics.Histogram:
			dst = strconv.AppendUint(append(dst, `,"count":"`...), el.Count, 10)
			dst = append(dst, `","explicitBounds":[`...)
			for j, bound := range m.Bounds {
				if j > 0 {
					dst = append(dst, ',')
				}
				dst = strconv.AppendInt(dst, bound, 10)
			}
			dst = append(dst, `],"bucketCounts":[`...)
			for j := range len(m.Bounds) + 1 {
				n := uint64(0)
				if j < len(el.Buckets) {
					n = el.Buckets[j]
				}
				if j > 0 {
					dst = append(dst, ',')
				}
				dst = append(strconv.AppendUint(append(dst, '"'), n, 10), '"')
			}
			dst = append(dst, ']')
		default:
			n := number(m.Map, el)
			if !isSigned && n > 1<<63-1 { // asInt is signed
				dst = strconv.AppendFloat(append(dst, `,"asDouble":`...), float64(n), 'g', -1, 64)
				break
			}
			dst = append(format.AppendInt(append(dst, `,"asInt":"`...), n, isSigned), '"')
		}
		dst = append(dst, '}')
	}
	return append(dst, `]}}`...)
}
