// SPDX-License-Identifier: Apache-2.0

// Package export writes configurations for other programs that run an object or show its metrics.
// It takes a manifest and returns the configuration, and a list of what the other program cannot
// show.
package export

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"btc/internal/aggregate"
	"btc/internal/manifest"
)

// EBPFExporter returns the configuration of ebpf_exporter (version 2) for an object, and a line for
// each map and probe of the script that it cannot show, or shows differently. It returns an error
// if no map is left.
//
// ebpf_exporter shows maps whose values are unsigned 8-byte numbers, as counters; it adds up
// per-CPU values. Each label is the part of the key at the same position. The last label of a
// histogram is the upper bound of a bucket; objects compiled for ebpf_exporter store the number of
// the bucket there.
func EBPFExporter(m *manifest.Manifest) (text string, left []string, err error) {
	e := exporter{m: m}
	for i := range m.Maps {
		x := &m.Maps[i]
		if x.Shape == "intern" || x.Shape == "stack" {
			continue
		}
		if err := e.metric(x); err != nil {
			e.left = append(e.left, fmt.Sprintf("%s: %v", x.Name, err))
		}
	}
	for i := range m.Programs {
		if p := &m.Programs[i]; !strings.Contains(p.Section, "/") {
			e.left = append(e.left,
				fmt.Sprintf("%s: not attached: its section %q does not name an attach point", p.Attach.Text, p.Section))
		}
	}
	e.left = append(e.left, hostValues(m)...)
	if e.counters.Len()+e.histograms.Len() == 0 {
		return "", e.left, errors.New("no map of the script can be shown by ebpf_exporter")
	}
	text = fmt.Sprintf("# Written by btc export ebpf_exporter from %s.\nmetrics:\n",
		strings.Map(printable, m.Script.File))
	for _, list := range []struct{ name, text string }{
		{"counters", e.counters.String()}, {"histograms", e.histograms.String()},
	} {
		if list.text != "" {
			text += "  " + list.name + ":\n" + list.text
		}
	}
	return text, e.left, nil
}

// exporter collects the metrics of a configuration.
type exporter struct {
	m                    *manifest.Manifest
	counters, histograms strings.Builder
	left                 []string
}

// label is a part of a key.
type label struct {
	name          string
	size, padding int
	decoders      []string
	names         map[string]string // names of values: the last decoder is static_map
	whole         bool              // names contains every value
}

// metric writes a map, or returns the reason why ebpf_exporter cannot show it.
func (e *exporter) metric(x *manifest.Map) error {
	if err := e.fits(x); err != nil {
		return err
	}
	taken := map[string]bool{"cpu": true} // as the last label it would mean one value per CPU
	buckets := x.Stored != nil && x.Stored.Parts && !extreme(x)
	if buckets {
		taken["le"], taken["bucket"] = true, true
	}
	labels, err := e.labels(x, taken)
	if err != nil {
		return err
	}
	b := &e.counters
	if buckets {
		b = &e.histograms
	}
	help := x.Help
	if help == "" {
		help = fmt.Sprintf("%s of %s", x.Name, e.m.Script.File)
	}
	fmt.Fprintf(b, "    - name: %s\n      help: %s\n", x.Symbol, quoted(help))
	switch {
	case extreme(x):
		labels = append(labels, label{name: "cpu", size: 8, decoders: []string{"uint"}})
	case buckets:
		bounds, names := exporterBuckets(x)
		b.WriteString("      bucket_type: fixed\n      bucket_keys:\n")
		for _, n := range bounds {
			fmt.Fprintf(b, "        - %d\n", n)
		}
		labels = append(labels, label{name: "bucket", size: 8, decoders: []string{"uint"}, names: names, whole: true})
	}
	writeLabels(b, labels)
	return nil
}

// extreme reports whether x is a min() or max() map, each of whose elements is the value of a CPU.
func extreme(x *manifest.Map) bool { return x.Shape == "min" || x.Shape == "max" }

// fits returns the reason why ebpf_exporter cannot show the values of a map.
func (e *exporter) fits(x *manifest.Map) error {
	parts := x.Stored != nil && x.Stored.Parts
	switch x.Shape {
	case "count", "hist", "lhist":
	case "sum", "avg", "stats":
		if x.Value != nil && x.Value.Signed {
			return errors.New("its sums may be negative, and values are read as unsigned: cast the argument to uint64")
		}
	case "min", "max":
		if x.Value != nil && x.Value.Signed {
			return errors.New("its values may be negative, and are read as unsigned: cast the argument to uint64")
		}
	case "plain":
		if !x.Grows && e.m.For == "" {
			return errors.New("it may not be a counter: compile the script with --for ebpf_exporter")
		}
		if !x.Grows {
			return errors.New("it is not a counter: the script does more than add constants to it")
		}
	default:
		return fmt.Errorf("%s values are not counters", x.Shape)
	}
	single := x.Shape == "count" || x.Shape == "sum" || x.Shape == "plain" // a single number
	switch _, size := x.Raw(); {
	case parts:
		return nil
	case !single && e.m.For != "ebpf_exporter":
		return fmt.Errorf("its values are not numbers of 8 bytes: compile the script with --for ebpf_exporter")
	case !single:
		return fmt.Errorf("its values are not numbers of 8 bytes, because the script reads or deletes elements, or has keys of more than 504 bytes")
	case size != 8 && e.m.For != "ebpf_exporter":
		return fmt.Errorf("its values are %d bytes, not 8: compile the script with --for ebpf_exporter", size)
	case size != 8:
		return fmt.Errorf("its values are %d bytes, not 8, because the script reads or deletes it", size)
	}
	return nil
}

// labels returns the labels for the parts of a map's key.
func (e *exporter) labels(x *manifest.Map, taken map[string]bool) ([]label, error) {
	if x.Scalar() {
		return nil, nil
	}
	fields := []manifest.Field{{Layout: *x.Key}}
	if x.Key.Kind == "tuple" {
		fields = x.Key.Fields
	}
	end, _ := x.Raw()
	if x.Stored != nil && x.Stored.Parts {
		end -= 8
	}
	var labels []label
	for i := range fields {
		f := &fields[i]
		next := end
		if i+1 < len(fields) {
			next = fields[i+1].Off
		}
		l := label{size: f.Layout.Size, padding: next - f.Off - f.Layout.Size}
		name := ""
		if i < len(x.KeyNames) {
			name = x.KeyNames[i]
		}
		l.name = labelName(taken, name, i)
		if err := l.decode(e.m, &f.Layout); err != nil {
			return nil, fmt.Errorf("part %d of its key: %w", i+1, err)
		}
		if f.Layout.Kind == "int" && f.Layout.Signed {
			e.left = append(e.left,
				fmt.Sprintf("%s: label %s: numbers below %d appear as unsigned ones", x.Name, l.name, -maxErrno))
		}
		labels = append(labels, l)
	}
	return labels, nil
}

// lastBound is the bound of the last bucket of a histogram, which also counts larger values.
// ebpf_exporter expects the sum of a histogram under the next number, and converts it to a floating
// point number.
const lastBound = 1<<53 - 1

// exporterBuckets returns the upper bounds of a histogram, which are the largest values of its
// buckets, and the bound of each bucket by its number, as decimal strings. Bounds cannot be
// negative: values below zero are in the first bucket. avg and stats are a histogram with one
// bucket.
func exporterBuckets(x *manifest.Map) (bounds []uint64, names map[string]string) {
	names = map[string]string{}
	words := x.ValueSize / 8
	bound := func(int) uint64 { return lastBound }
	switch x.Shape {
	case "hist":
		bound = func(i int) uint64 { return min(aggregate.HistFirst(x.Bits, max(i, 1)+1)-1, lastBound) }
	case "lhist":
		bound = func(i int) uint64 {
			return uint64(min(max(x.Min-1+int64(i)*x.Step, -1), lastBound))
		}
	default:
		words = 1
	}
	last := uint64(lastBound)
	for i := words - 1; i >= 0; i-- {
		n := bound(i)
		if i == words-1 {
			n = lastBound
		}
		if int64(n) < 0 {
			n = last // the bound of the next bucket
		}
		last = n
		names[strconv.Itoa(i)] = strconv.FormatUint(n, 10)
		if len(bounds) == 0 || bounds[len(bounds)-1] != n {
			bounds = append(bounds, n)
		}
	}
	slices.Reverse(bounds)
	names[strconv.Itoa(words)] = strconv.FormatUint(lastBound+1, 10)
	return bounds, names
}

// maxErrno is the greatest error number of Linux.
const maxErrno = 133

// decode chooses the decoders of a label.
func (x *label) decode(m *manifest.Manifest, l *manifest.Layout) error {
	x.decoders = []string{"uint"}
	switch l.Kind {
	case "int":
		if !l.Signed {
			break
		}
		x.names = map[string]string{}
		for n := int64(-maxErrno); n < 0; n++ {
			x.names[strconv.FormatUint(uint64(n)>>(64-8*l.Size), 10)] = strconv.FormatInt(n, 10)
		}
	case "bool", "username", "ptr":
	case "mac":
		x.decoders[0] = "hex"
	case "enum":
		x.names = l.Enum
	case "string", "ksym":
		x.decoders[0] = l.Kind
	case "cgroup_path":
		x.decoders = append(x.decoders, "cgroup")
	case "probe":
		x.names = map[string]string{}
		for i := range m.Programs {
			p := &m.Programs[i]
			x.names[strconv.Itoa(p.FirstID)] = p.Attach.Text
		}
	default:
		return fmt.Errorf("a label cannot be a %s", l.Kind)
	}
	return nil
}

// labelName returns a valid and unused Prometheus label name.
func labelName(taken map[string]bool, name string, i int) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if strings.HasPrefix(name, "__") { // reserved by Prometheus
		name = "key_" + strings.TrimLeft(name, "_")
	}
	if name == "" || '0' <= name[0] && name[0] <= '9' {
		name = "key" + strconv.Itoa(i+1)
	}
	unique := name
	for n := 2; taken[unique]; n++ {
		unique = name + strconv.Itoa(n)
	}
	taken[unique] = true
	return unique
}

func writeLabels(b *strings.Builder, labels []label) {
	if len(labels) == 0 {
		return
	}
	b.WriteString("      labels:\n")
	for _, l := range labels {
		fmt.Fprintf(b, "        - name: %s\n          size: %d\n", l.name, l.size)
		if l.padding > 0 {
			fmt.Fprintf(b, "          padding: %d\n", l.padding)
		}
		b.WriteString("          decoders:\n")
		for _, d := range l.decoders {
			fmt.Fprintf(b, "            - name: %s\n", d)
		}
		if len(l.names) == 0 {
			continue
		}
		b.WriteString("            - name: static_map\n")
		if !l.whole {
			b.WriteString("              allow_unknown: true\n")
		}
		b.WriteString("              static_map:\n")
		for _, value := range slices.SortedFunc(maps.Keys(l.names), byNumber) {
			fmt.Fprintf(b, "                %s: %s\n", quoted(value), quoted(l.names[value]))
		}
	}
}

// byNumber compares decimal strings.
func byNumber(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// quoted returns a double-quoted string that contains only ASCII characters.
func quoted(s string) string { return strconv.QuoteToASCII(strings.ToValidUTF8(s, "?")) }

// printable keeps a comment on one line.
func printable(r rune) rune {
	if !strconv.IsPrint(r) {
		return '?'
	}
	return r
}
