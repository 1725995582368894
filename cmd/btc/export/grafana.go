// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/metrics"
)

// grafanaSchema is the schema version of the dashboards, that of Grafana 12. Grafana converts older
// and newer versions to its own.
const grafanaSchema = 42

// Grafana returns a dashboard in Grafana's import format for the metrics that btrun writes for an
// object, and the maps that are not metrics. Queries are in PromQL with Grafana's variables
// $datasource, $instance, $__rate_interval and $__range.
func Grafana(m *manifest.Manifest, object string) (data []byte, left []string, err error) {
	list, left := metrics.Of(m, object, aggregate.Range{})
	if len(list) == 0 {
		return nil, left, errors.New("no map of the script is a metric")
	}
	d := &board{own: selector(object, `instance=~"$instance"`)}
	d.row("Run")
	d.add(&panel{
		title: "Hosts that run " + object, kind: "stat", width: 6,
		targets: []target{{expr: "sum(" + metrics.Up + d.own + ")"}},
	})
	d.add(&panel{title: "Lost", kind: "timeseries", width: 18, unit: "short", help: metrics.LostHelp, targets: []target{
		{expr: "sum by (cause) (rate(" + metrics.Lost + "_total" + d.own + "[$__rate_interval]))", legend: "{{cause}}"}}})
	for i := range list {
		d.metric(&list[i])
	}
	data, err = json.MarshalIndent(dashboardOf(m, object, d.panels), "", "  ")
	return append(bytes.ReplaceAll(data, []byte(`\u003c`), []byte("<")), '\n'), left, err
}

// dashboardOf returns the dashboard around its panels.
func dashboardOf(m *manifest.Manifest, object string, panels []any) map[string]any {
	source := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	return map[string]any{
		"uid":           "btc-" + uid(object),
		"title":         "btc: " + object,
		"description":   "Written by btc export grafana from " + strings.Map(printable, m.Script.File) + ".",
		"tags":          []string{"btc"},
		"timezone":      "browser",
		"editable":      true,
		"graphTooltip":  1, // shared crosshair in all panels
		"refresh":       "30s",
		"schemaVersion": grafanaSchema,
		"time":          map[string]any{"from": "now-1h", "to": "now"},
		"annotations":   map[string]any{"list": []any{}},
		"panels":        panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"},
			map[string]any{
				"type": "query", "name": "instance", "label": "Instance", "datasource": source,
				"query":   map[string]any{"query": "label_values(" + metrics.Up + selector(object) + ", instance)", "refId": "instance"},
				"refresh": 2, "multi": true, "includeAll": true, "allValue": ".*",
				"current": map[string]any{"text": "All", "value": "$__all"},
			},
		}},
	}
}

// uid derives an identifier of at most 40 characters from a name.
func uid(object string) string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, object)
	return name[:min(len(name), 36)]
}

// selector selects the time series of an object.
func selector(object string, more ...string) string {
	return "{" + strings.Join(append([]string{metrics.ObjectLabel + "=" + strconv.Quote(object)}, more...), ",") + "}"
}

// board places panels from left to right, in rows on a grid.
type board struct {
	own          string // selects all series
	panels       []any
	x, y, height int
}

const (
	columns     = 24
	panelHeight = 8
	rowHeight   = 1
	topKeys     = 20 // legend in tables
	topSeries   = 10 // legend in graphs
)

// target is a query of a panel.
type target struct {
	expr, legend string
	format       string // time_series, table or heatmap; "": time_series
	instant      bool
}

type panel struct {
	title, kind, unit, help string
	width                   int
	targets                 []target
	labels                  []string // columns of a table before its value
	value                   string   // name of the value's column
}

// row begins a row of panels with a title.
func (d *board) row(title string) {
	d.y, d.x, d.height = d.y+d.height, 0, 0
	d.panels = append(d.panels, map[string]any{
		"type": "row", "id": len(d.panels) + 1, "title": title, "collapsed": false, "panels": []any{},
		"gridPos": grid(0, d.y, columns, rowHeight),
	})
	d.y += rowHeight
}

func grid(x, y, width, height int) map[string]any {
	return map[string]any{"x": x, "y": y, "w": width, "h": height}
}

func (d *board) add(p *panel) {
	if d.x+p.width > columns {
		d.x, d.y = 0, d.y+panelHeight
	}
	source := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	var targets []any
	for i, t := range p.targets {
		if t.format == "" {
			t.format = "time_series"
		}
		x := map[string]any{
			"refId": string(rune('A' + i)), "datasource": source, "expr": t.expr, "format": t.format, "instant": t.instant, "range": !t.instant,
		}
		if t.legend != "" {
			x["legendFormat"] = t.legend
		}
		targets = append(targets, x)
	}
	defaults := map[string]any{}
	if p.unit != "" {
		defaults["unit"] = p.unit
	}
	x := map[string]any{
		"id": len(d.panels) + 1, "type": p.kind, "title": p.title, "datasource": source, "targets": targets,
		"gridPos": grid(d.x, d.y, p.width, panelHeight), "options": panelOptions(p),
		"fieldConfig": map[string]any{"defaults": defaults, "overrides": []any{}},
	}
	if p.help != "" {
		x["description"] = p.help
	}
	if p.kind == "table" {
		x["transformations"] = tableColumns(p)
	}
	d.panels = append(d.panels, x)
	d.x, d.height = d.x+p.width, panelHeight
}

// panelOptions returns the options for a kind of panel.
func panelOptions(p *panel) map[string]any {
	switch p.kind {
	case "stat":
		return map[string]any{
			"colorMode": "value", "graphMode": "area", "justifyMode": "auto", "orientation": "auto", "textMode": "auto",
			"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		}
	case "heatmap":
		return map[string]any{
			"calculate": false, "cellGap": 1, "showValue": "never",
			"color": map[string]any{
				"mode": "scheme", "scheme": "Oranges", "fill": "dark-orange", "scale": "exponential", "exponent": 0.5, "steps": 64, "reverse": false,
			},
			"filterValues": map[string]any{"le": 1e-9},
			"legend":       map[string]any{"show": true},
			"rowsFrame":    map[string]any{"layout": "auto"},
			"tooltip":      map[string]any{"mode": "single", "yHistogram": true, "showColorScale": false},
			"yAxis":        map[string]any{"axisPlacement": "left", "reverse": false, "unit": p.unit},
			"exemplars":    map[string]any{"color": "rgba(255,0,255,0.7)"},
		}
	case "table":
		return map[string]any{
			"frameIndex": 0, "showHeader": true, "cellHeight": "sm",
			"sortBy": []any{map[string]any{"displayName": p.value, "desc": true}},
		}
	}
	return map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []any{}},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
}

// tableColumns names the columns of a table and hides the time.
func tableColumns(p *panel) []any {
	order := map[string]any{}
	for i, l := range append(slices.Clone(p.labels), "Value") {
		order[l] = i
	}
	return []any{map[string]any{"id": "organize", "options": map[string]any{
		"excludeByName": map[string]any{"Time": true}, "indexByName": order,
		"renameByName": map[string]any{"Value": p.value},
	}}}
}

// metric adds the panels of a metric, in a row of their own.
func (d *board) metric(m *metrics.Metric) {
	d.row(m.Map.Name + ": " + strings.TrimSuffix(m.Help, "."))
	unit := grafanaUnit(m.Unit)
	switch m.Kind {
	case metrics.Counter:
		d.counter(m, m.Name+"_total", unit)
	case metrics.Summary:
		count := sumBy(m.Labels, "rate("+m.Name+"_count"+d.own+"[$__rate_interval])")
		d.graph(m, "Average", unit,
			[]target{{expr: top(m, topSeries, mean(m, m.Labels, d.own, "$__rate_interval")), legend: legend(m)}})
		d.graph(m, "Values per second", "ops", []target{{expr: top(m, topSeries, count), legend: legend(m)}})
		d.keys(m, "average", unit, mean(m, m.Labels, d.own, "$__range"))
	case metrics.Histogram:
		d.histogram(m, unit)
	default:
		expr := gauge(m, m.Name+d.own)
		d.graph(m, m.Map.Name, unit, []target{{expr: top(m, topSeries, expr), legend: legend(m)}})
		d.keys(m, "value", unit, expr)
	}
}

func (d *board) counter(m *metrics.Metric, series, unit string) {
	per := "short"
	switch unit {
	case "bytes":
		per = "Bps"
	case "short":
		per = "ops"
	}
	d.graph(m, "Per second", per, []target{
		{expr: top(m, topSeries, sumBy(m.Labels, "rate("+series+d.own+"[$__rate_interval])")), legend: legend(m)}})
	d.keys(m, "total", unit, sumBy(m.Labels, "increase("+series+d.own+"[$__range])"))
	if len(m.Labels) == 0 {
		d.graph(m, "Per second, by instance", per, []target{
			{expr: topk(topSeries, "sum by (instance) (rate("+series+d.own+"[$__rate_interval]))"), legend: "{{instance}}"}})
	}
}

func (d *board) histogram(m *metrics.Metric, unit string) {
	buckets := func(labels []string, window string) string {
		return sumBy(append([]string{"le"}, labels...), "rate("+m.Name+"_bucket"+d.own+"["+window+"])")
	}
	d.add(&panel{title: "Distribution", kind: "heatmap", unit: unit, width: columns / 2, help: m.Help,
		targets: []target{{expr: buckets(nil, "$__rate_interval"), legend: "{{le}}", format: "heatmap"}}})
	var quantiles []target
	for _, q := range Quantiles {
		quantiles = append(quantiles, target{
			expr: "histogram_quantile(" + number(q) + ", " + buckets(nil,
				"$__rate_interval") + ")", legend: "p" + number(q*100),
		})
	}
	d.graph(m, "Quantiles", unit, quantiles)
	d.graph(m, "Values per second", "ops", []target{
		{
			expr: top(m, topSeries,
				sumBy(m.Labels, "rate("+m.Name+"_bucket"+bound(d.own, `le="+Inf"`)+"[$__rate_interval])")),
			legend: legend(m),
		}})
	d.keys(m, "p99", unit, "histogram_quantile(0.99, "+buckets(m.Labels, "$__range")+")")
}

// graph adds a panel with lines.
func (d *board) graph(m *metrics.Metric, title, unit string, targets []target) {
	d.add(&panel{title: title, kind: "timeseries", unit: unit, width: columns / 2, help: m.Help, targets: targets})
}

// keys adds a table of the largest keys, if the metric has keys.
func (d *board) keys(m *metrics.Metric, value, unit, expr string) {
	if len(m.Labels) == 0 {
		return
	}
	d.add(&panel{
		title: "Top keys by " + value, kind: "table", unit: unit, width: columns / 2, help: m.Help,
		labels: m.Labels, value: value,
		targets: []target{{expr: top(m, topKeys, expr), format: "table", instant: true}},
	})
}

// sumBy sums series over all hosts.
func sumBy(labels []string, expr string) string {
	if len(labels) == 0 {
		return "sum(" + expr + ")"
	}
	return "sum by (" + strings.Join(labels, ", ") + ") (" + expr + ")"
}

// mean returns the average of the values in a window. A sum of signed values may decrease, and
// rate() would treat that as a counter reset.
func mean(m *metrics.Metric, by []string, own, window string) string {
	change := "increase("
	if m.Map.Value != nil && m.Map.Value.Signed {
		change = "delta("
	}
	return sumBy(by, change+m.Name+"_sum"+own+"["+window+"])") + " / " + sumBy(by,
		"increase("+m.Name+"_count"+own+"["+window+"])")
}

// gauge returns a gauge over all hosts: the minimum or maximum for extremes, the sum for sums, and
// otherwise one value per instance.
func gauge(m *metrics.Metric, series string) string {
	switch m.Map.Shape {
	case "min", "max", "sum":
		by := ""
		if len(m.Labels) > 0 {
			by = " by (" + strings.Join(m.Labels, ", ") + ") "
		}
		return m.Map.Shape + by + "(" + series + ")"
	}
	return "max by (" + strings.Join(append([]string{"instance"}, m.Labels...), ", ") + ") (" + series + ")"
}

// top returns the n largest series of a metric with keys.
func top(m *metrics.Metric, n int, expr string) string {
	if len(m.Labels) == 0 && !perInstance(m) {
		return expr
	}
	return topk(n, expr)
}

func topk(n int, expr string) string { return "topk(" + strconv.Itoa(n) + ", " + expr + ")" }

// perInstance reports whether hosts are not summed.
func perInstance(m *metrics.Metric) bool {
	return m.Kind == metrics.Gauge && !slices.Contains([]string{"min", "max", "sum"}, m.Map.Shape)
}

// legend returns the name of a series, made from its key.
func legend(m *metrics.Metric) string {
	labels := m.Labels
	if perInstance(m) {
		labels = append([]string{"instance"}, labels...)
	}
	if len(labels) == 0 {
		return m.Map.Name
	}
	return "{{" + strings.Join(labels, "}} {{") + "}}"
}

// bound adds a matcher to a selector.
func bound(selector, matcher string) string {
	return strings.TrimSuffix(selector, "}") + "," + matcher + "}"
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }

// grafanaUnit returns Grafana's name of a unit.
func grafanaUnit(unit string) string {
	switch unit {
	case "bytes":
		return "bytes"
	case "ns", "nsecs", "nanoseconds":
		return "ns"
	case "us", "usecs", "microseconds":
		return "µs"
	case "ms", "msecs", "milliseconds":
		return "ms"
	case "s", "secs", "seconds":
		return "s"
	case "percent":
		return "percent"
	}
	return "short"
}

// Quantiles are the quantiles in dashboards and rules.
var Quantiles = []float64{0.5, 0.9, 0.99}

// Rules returns a Prometheus rule file with recording rules for the metrics of an object: rates of
// counters, averages, and quantiles of histograms, over all hosts, in total and by key. window is a
// PromQL duration. Names have the form level:metric:operation.
func Rules(m *manifest.Manifest, object, window string) (text string, left []string, err error) {
	list, left := metrics.Of(m, object, aggregate.Range{})
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by btc export rules from %s.\ngroups:\n  - name: %s\n    rules:\n",
		strings.Map(printable, m.Script.File), quoted("btc_"+object))
	n := 0
	own := selector(object)
	for i := range list {
		x := &list[i]
		levels := [][]string{{metrics.ObjectLabel}}
		if len(x.Labels) > 0 {
			levels = append(levels, append([]string{metrics.ObjectLabel}, x.Labels...))
		}
		for _, by := range levels {
			rate := func(series string, more ...string) string {
				return sumBy(append(slices.Clone(more), by...), "rate("+series+own+"["+window+"])")
			}
			rule := func(operation, expr string) {
				n++
				fmt.Fprintf(&b, "      - record: %s:%s:%s\n        expr: %s\n", strings.Join(by, "_"), x.Name,
					operation, yamlText(expr))
			}
			switch x.Kind {
			case metrics.Counter:
				rule("rate"+window, rate(x.Name+"_total"))
			case metrics.Summary:
				rule("mean"+window, mean(x, by, own, window))
			case metrics.Histogram:
				for _, q := range Quantiles {
					rule("p"+number(q*100)+"_rate"+window,
						"histogram_quantile("+number(q)+", "+rate(x.Name+"_bucket", "le")+")")
				}
			}
		}
	}
	if n == 0 {
		return "", left, errors.New("no map of the script has a rate or quantiles: counts, sums, averages and histograms have")
	}
	return b.String(), left, nil
}

// yamlText returns a single-quoted YAML string.
func yamlText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
