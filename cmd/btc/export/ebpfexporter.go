// SPDX-License-Identifier: Apache-2.0

// Package export writes the configuration with which other programs run an object.
//
// It takes a manifest and returns text, and what of the script that program cannot show.
package export

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"btc/internal/manifest"
)

// EBPFExporter returns the configuration of ebpf_exporter (version 2) for an object, and a line for
// each map and probe of the script that it cannot show. It is an error when no map is left.
//
// ebpf_exporter shows maps whose values are unsigned numbers of 8 bytes, as counters; of CPUs it
// takes the sum. A label is a part of the key, at its place.
func EBPFExporter(m *manifest.Manifest) (text string, left []string, err error) {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"# Written by btc export ebpf_exporter from %s.\nmetrics:\n  counters:\n",
		strings.Map(printable, m.Script.File),
	)
	n := 0
	for i := range m.Maps {
		x := &m.Maps[i]
		if x.Shape == "intern" || x.Shape == "stack" {
			continue
		}
		labels, err := counter(x)
		if err != nil {
			left = append(left, fmt.Sprintf("%s: %v", x.Name, err))
			continue
		}
		n++
		help := x.Help
		if help == "" {
			help = fmt.Sprintf("%s of %s", x.Name, m.Script.File)
		}
		fmt.Fprintf(&b, "    - name: %s\n      help: %s\n", x.Symbol, quoted(help))
		writeLabels(&b, labels)
	}
	for i := range m.Programs {
		p := &m.Programs[i]
		if !strings.Contains(p.Section, "/") {
			left = append(
				left,
				fmt.Sprintf("%s: not attached: its section %q names no place", p.Attach.Text, p.Section),
			)
		}
	}
	if n == 0 {
		return "", left, errors.New("no map of the script can be shown by ebpf_exporter")
	}
	return b.String(), left, nil
}

// label is a part of a key.
type label struct {
	name          string
	size, padding int
	decoder       string
	names         map[string]string // of an enum's values
}

// counter returns the labels of a map, or why it is not a counter for ebpf_exporter.
func counter(m *manifest.Map) ([]label, error) {
	switch m.Shape {
	case "count":
	case "sum":
		if m.Value != nil && m.Value.Signed {
			return nil, errors.New(
				"its sums may be negative, and values are read as unsigned: cast the argument to uint64",
			)
		}
	case "hist", "lhist":
		return nil, errors.New("buckets have to be keys: count by a bucket that the script computes")
	default:
		return nil, fmt.Errorf("%s values are no counters", m.Shape)
	}
	if m.ValueSize != 8 {
		return nil, fmt.Errorf("its values are %d bytes, not 8", m.ValueSize)
	}
	if m.Scalar() {
		return nil, nil
	}
	fields := []manifest.Field{{Layout: *m.Key}}
	if m.Key.Kind == "tuple" {
		fields = m.Key.Fields
	}
	taken := map[string]bool{"cpu": true} // as the last label it means one value for each CPU
	var labels []label
	for i := range fields {
		f := &fields[i]
		end := m.KeySize
		if i+1 < len(fields) {
			end = fields[i+1].Off
		}
		x := label{size: f.Layout.Size, padding: end - f.Off - f.Layout.Size}
		name := ""
		if i < len(m.KeyNames) {
			name = m.KeyNames[i]
		}
		x.name = labelName(taken, name, i)
		if err := x.decode(&f.Layout); err != nil {
			return nil, fmt.Errorf("part %d of its key: %w", i+1, err)
		}
		labels = append(labels, x)
	}
	return labels, nil
}

// decode chooses the decoder of a label.
func (x *label) decode(l *manifest.Layout) error {
	switch l.Kind {
	case "int":
		if l.Signed {
			return errors.New("it may be negative, and labels are read as unsigned: cast it to uint64")
		}
		x.decoder = "uint"
	case "bool":
		x.decoder = "uint"
	case "ptr":
		x.decoder = "hex"
	case "enum":
		x.decoder, x.names = "uint", l.Enum
	case "string":
		x.decoder = "string"
	case "ksym":
		x.decoder = "ksym"
	default:
		return fmt.Errorf("a label cannot be a %s", l.Kind)
	}
	return nil
}

// labelName is a name that Prometheus takes and that is not taken yet.
func labelName(taken map[string]bool, name string, i int) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if name == "" || '0' <= name[0] && name[0] <= '9' || strings.HasPrefix(name, "__") {
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
		fmt.Fprintf(b, "          decoders:\n            - name: %s\n", l.decoder)
		if len(l.names) == 0 {
			continue
		}
		b.WriteString("            - name: static_map\n              allow_unknown: true\n              static_map:\n")
		for _, value := range slices.Sorted(maps.Keys(l.names)) {
			fmt.Fprintf(b, "                %s: %s\n", quoted(value), quoted(l.names[value]))
		}
	}
}

// quoted is a string in double quotes, of ASCII alone.
func quoted(s string) string { return strconv.QuoteToASCII(strings.ToValidUTF8(s, "?")) }

// printable keeps a line of a comment one line.
func printable(r rune) rune {
	if !strconv.IsPrint(r) {
		return '?'
	}
	return r
}
