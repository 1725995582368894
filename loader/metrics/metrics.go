// SPDX-License-Identifier: Apache-2.0

// Package metrics defines the metrics that a run exports from an object's maps: names, kinds, labels and histogram
// bounds, in the terms of Prometheus and OpenTelemetry.
//
// It depends only on the manifest and the name of the object, so that the exporter, the dashboards that btc makes and
// the documentation agree. Equal objects have equal metrics on every host: the same names, the same help and the same
// bounds.
package metrics

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
)

// Kind is the type of a metric.
type Kind string

// The kinds, by Prometheus' names.
const (
	Counter   Kind = "counter"   // count(), and sum() of unsigned values
	Gauge     Kind = "gauge"     // sum() of signed values, min(), max(), integers, the newest interval of tseries()
	Summary   Kind = "summary"   // avg() and stats(), without quantiles
	Histogram Kind = "histogram" // hist() and lhist()
)

// Metric is the export of one map.
type Metric struct {
	Map  *manifest.Map
	Name string // without the suffixes _total, _bucket, _count and _sum
	Kind Kind
	Help string
	Unit string // "": none; Name ends in it
	// Labels are the names of the labels of a key's parts, in their order. After that of a cgroup
	// come those of its container (format.ContainerNames).
	Labels []string
	// Bounds are the upper bounds (inclusive) of a histogram's buckets, except the last, which has none.
	Bounds []int64
	ends   []int // the bucket of the map that ends at each of Bounds
}

// Fold returns the counts of the metric's buckets from those of the map's, of which the last ones may be missing.
func (m *Metric) Fold(counts []uint64) []uint64 {
	folded := make([]uint64, len(m.Bounds)+1)
	at := 0
	for i, n := range counts {
		for at < len(m.ends) && m.ends[at] < i {
			at++
		}
		folded[at] += n
	}
	return folded
}

// ObjectLabel is the label that each series has: the object's name.
const ObjectLabel = "object"

// Total is the suffix of the name of a counter's series.
const Total = "_total"

// Metrics about each run. Up is 0 after the end of a run.
const (
	Up       = "btc_up"
	UpHelp   = "1 while the object runs, 0 once it has ended."
	Lost     = "btc_lost"
	LostHelp = "What was lost, by cause: events, map (full), scratch, stack."
	// The following exist only if the run has a budget.
	ProbeLabel       = "probe"
	ProbeUp          = "btc_probe_up"
	ProbeUpHelp      = "1 while the probe is attached, 0 once the budget has detached it."
	ProbeCovered     = "btc_probe_covered_seconds"
	ProbeCoveredHelp = "How long the probe was attached: the time that its data covers."
	ProbeCPU         = "btc_probe_cpu_seconds"
	ProbeCPUHelp     = "CPU time that the programs of the probe took, without the probe's own cost."
)

// HostUp and HostLabel are of btc fan --listen.
const (
	HostUp     = "btc_fan_host_up"
	HostUpHelp = "1 while the object runs on the host and sends snapshots, 0 before and after."
	HostLabel  = "host"
)

// reserved are label names that the format or the exporter uses itself.
var reserved = map[string]bool{ObjectLabel: true, "le": true, "quantile": true}

// Of returns the metrics of an object's maps in the order of the manifest, and the names of
// the maps that are not metrics because their values are not numbers. object is the object's name,
// such as "reads" for reads.o; names of metrics are btc_OBJECT_MAP_UNIT. Each hist() has the bounds that the range has,
// or that of its map if it is the zero Range; those of an lhist() are the script's.
func Of(m *manifest.Manifest, object string, chosen aggregate.Range) (list []Metric, left []string) {
	used := map[string]bool{
		Up:               true,
		Lost + Total:     true,
		ProbeUp:          true,
		ProbeCovered:     true,
		ProbeCPU + Total: true,
		HostUp:           true,
	}
	for i := range m.Maps {
		x := &m.Maps[i]
		if !strings.HasPrefix(x.Name, "@") {
			continue
		}
		kind, ok := kindOf(x)
		if !ok {
			left = append(left, x.Name)
			continue
		}
		metric := Metric{
			Map: x, Name: unique(used, baseName(object, x), kind, x.Unit), Kind: kind, Help: help(x), Unit: x.Unit,
			Labels: labels(x),
		}
		metric.bound(chosen)
		list = append(list, metric)
	}
	return list, left
}

func kindOf(x *manifest.Map) (Kind, bool) {
	switch x.Shape {
	case "count":
		return Counter, true
	case "sum":
		if x.Value != nil && x.Value.Signed {
			return Gauge, true
		}
		return Counter, true
	case "min", "max", "tseries":
		return Gauge, true
	case "avg", "stats":
		return Summary, true
	case "hist", "lhist":
		return Histogram, true
	case "plain":
		switch x.Value.Kind {
		case "int", "bool", "enum":
			return Gauge, true
		}
	}
	return "", false
}

// baseName returns a name without a unit.
func baseName(object string, x *manifest.Map) string {
	name := "btc_" + identifier(object)
	if own := strings.TrimPrefix(x.Name, "@"); own != "" {
		name += "_" + identifier(own)
	}
	return name
}

// unique returns the name with its unit, and with a number appended if the name is taken.
func unique(used map[string]bool, base string, kind Kind, unit string) string {
	if kind == Counter {
		base = strings.TrimSuffix(base, Total)
	}
	for n := 1; ; n++ {
		name := base
		if n > 1 {
			name += "_" + strconv.Itoa(n)
		}
		if unit != "" && !strings.HasSuffix(name, "_"+unit) {
			name += "_" + unit
		}
		series := seriesNames(name, kind)
		free := true
		for _, s := range series {
			free = free && !used[s]
		}
		if free {
			for _, s := range series {
				used[s] = true
			}
			return name
		}
	}
}

// seriesNames returns the names of a metric's series.
func seriesNames(name string, kind Kind) []string {
	switch kind {
	case Counter:
		return []string{name, name + Total}
	case Summary:
		return []string{name, name + "_count", name + "_sum"}
	case Histogram:
		return []string{name, name + "_bucket", name + "_count", name + "_sum"}
	}
	return []string{name}
}

// help returns the script's comment on the map, or a description of its function: it is equal for
// equal names.
func help(x *manifest.Map) string {
	if x.Help != "" {
		return strings.Map(func(r rune) rune {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				return ' '
			}
			return r
		}, x.Help)
	}
	if x.Shape == "plain" {
		return "Value of " + x.Name + "."
	}
	return x.Shape + "() in " + x.Name + "."
}

// labels derives label names for the parts of a key from the script. Those of the container follow that of
// a cgroup.
func labels(x *manifest.Map) []string {
	parts := Parts(x)
	used := map[string]bool{}
	var out []string
	for i := range parts {
		name := "key"
		if len(parts) > 1 {
			name += strconv.Itoa(i + 1)
		}
		if i < len(x.KeyNames) && x.KeyNames[i] != "" {
			name = identifier(x.KeyNames[i])
		}
		if reserved[name] || strings.HasPrefix(name, "__") {
			name = "key_" + strings.TrimLeft(name, "_")
		}
		all := []string{name}
		if format.IsCgroup(&parts[i].Layout) {
			all = append(all, format.ContainerNames...)
		}
		for _, name := range all {
			label := name
			for n := 2; used[label]; n++ {
				label = name + "_" + strconv.Itoa(n)
			}
			used[label] = true
			out = append(out, label)
		}
	}
	return out
}

// Absent reports whether a label is left out of a series: that of a container that a cgroup does not have.
func Absent(label, value string) bool {
	name, number, _ := strings.Cut(label, "_")
	return value == "" && slices.Contains(format.ContainerNames, name) && strings.Trim(number, "0123456789") == ""
}

// Parts returns the parts of a map's key that become labels; without the interval for a tseries.
func Parts(x *manifest.Map) []manifest.Field {
	key := x.Key
	if key == nil {
		return nil
	}
	if x.Shape == "tseries" {
		if len(key.Fields) < 2 { // a scalar: the interval alone
			return nil
		}
		key = &key.Fields[0].Layout
	}
	if key.Kind == "tuple" {
		return key.Fields
	}
	return []manifest.Field{{Layout: *key}}
}

// bound sets the bounds: the largest values in the buckets, because all values are integers. They increase strictly, which
// OTLP and Prometheus require: buckets of hist() for unsigned values that signed ones cannot have are left out.
func (m *Metric) bound(chosen aggregate.Range) {
	if m.Kind != Histogram {
		return
	}
	if chosen.String() == "" {
		chosen, _ = aggregate.ParseRange(m.Map.Range) // which the manifest's reader has checked
	}
	b := m.Map.Buckets()
	for i := range b.Len() - 1 {
		_, high := b.Bounds(i)
		if b.Step != 0 || chosen.Has(high) {
			m.Bounds, m.ends = append(m.Bounds, high), append(m.ends, i)
		}
		if high == math.MaxInt64 {
			break
		}
	}
}

// identifier makes a name of letters, digits and "_".
func identifier(name string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case r == '_', r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
	if out == "" || out[0] >= '0' && out[0] <= '9' {
		out = "_" + out
	}
	return out
}

// ObjectName returns the name of an object in metrics: its file name without ".o".
func ObjectName(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		path = path[i+1:]
	}
	return strings.ToValidUTF8(strings.TrimSuffix(path, ".o"), "\uFFFD")
}
