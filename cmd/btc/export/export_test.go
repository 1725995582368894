// SPDX-License-Identifier: Apache-2.0

package export

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"btc/internal/aggregate"
	"btc/internal/manifest"
)

// TestEBPFExporter checks that a map becomes a metric with a label for each part of its key, in the
// same order, and that a map that ebpf_exporter would misread is left out with a reason.
func TestEBPFExporter(t *testing.T) {
	number := func(size int, signed bool) manifest.Layout {
		return manifest.Layout{Kind: "int", Size: size, Signed: signed}
	}
	unsigned, signed := number(8, false), number(8, true)
	key := manifest.Layout{Kind: "tuple", Size: 32, Fields: []manifest.Field{
		{Off: 0, Layout: number(4, false)}, {Off: 8, Layout: manifest.Layout{Kind: "string", Size: 16}},
		{Off: 24, Layout: manifest.Layout{Kind: "enum", Size: 4, Enum: map[string]string{"1": "a\"b"}}},
	}}
	m := &manifest.Manifest{
		Script: manifest.Script{File: "x\n.bt"},
		Maps: []manifest.Map{
			{Name: "@n", Symbol: "n", Shape: "count", ValueSize: 8, MapNames: manifest.MapNames{Help: "Calls."}},
			{Name: "@k", Symbol: "k", Shape: "sum", KeySize: 32, ValueSize: 8, Key: &key, MapNames: manifest.MapNames{KeyNames: []string{"pid", "args.name", "cpu"}}, Value: &unsigned},
			{Name: "@sum", Symbol: "sum", Shape: "sum", ValueSize: 8, Value: &signed},
			{Name: "@signed", Symbol: "signed", Shape: "count", KeySize: 8, ValueSize: 8, Key: &signed},
			{Name: "@h", Symbol: "h", Shape: "hist", ValueSize: 528},
			{Name: "@a", Symbol: "a", Shape: "avg", ValueSize: 16},
			{Name: "@p", Symbol: "p", Shape: "count", ValueSize: 16},
			{Name: "events", Symbol: "events", Shape: "intern"},
		},
		Programs: []manifest.Program{
			{Section: "kprobe/f"},
			{Section: "perf_event", Attach: manifest.Attach{Text: "profile:hz:99"}},
		},
	}
	text, left, err := EBPFExporter(m)
	if err != nil {
		t.Fatal(err)
	}
	const want = `# Written by btc export ebpf_exporter from x?.bt.
metrics:
  counters:
    - name: n
      help: "Calls."
    - name: k
      help: "@k of x\n.bt"
      labels:
        - name: pid
          size: 4
          padding: 4
          decoders:
            - name: uint
        - name: args_name
          size: 16
          decoders:
            - name: string
        - name: cpu2
          size: 4
          padding: 4
          decoders:
            - name: uint
            - name: static_map
              allow_unknown: true
              static_map:
                "1": "a\"b"
    - name: signed
      help: "@signed of x\n.bt"
      labels:
        - name: key1
          size: 8
          decoders:
            - name: uint
            - name: static_map
              allow_unknown: true
              static_map:
                "18446744073709551483": "-133"
`
	if text, _, _ = strings.Cut(text, `                "18446744073709551484": "-132"`); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	for i, name := range []string{"@sum: ", "@signed: label key1: ", "@h: ", "@a: ", "@p: ", "profile:hz:99: "} {
		if i >= len(left) || !strings.HasPrefix(left[i], name) {
			t.Errorf("left out: %q, want %s at index %d", left, name, i)
		}
	}
	for _, p := range m.Maps[4:7] {
		if err := (&exporter{m: m}).metric(&p); err == nil || !strings.Contains(err.Error(), "--for ebpf_exporter") {
			t.Errorf("%s: %v", p.Name, err)
		}
	}
	m.Maps = m.Maps[2:3]
	if _, _, err := EBPFExporter(m); err == nil {
		t.Error("no error for a configuration without metrics")
	}
}

// TestExporterBuckets checks that the bounds of buckets are exact, except that there are none below 0
// or above lastBound, and that the sum has the number after the last bucket.
func TestExporterBuckets(t *testing.T) {
	const most, sum = "9007199254740991", "9007199254740992"
	for _, c := range []struct {
		m      manifest.Map
		bounds []uint64
		names  map[string]string
	}{
		{manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: 10, Max: 30, Step: 10}, ValueSize: 8 * 4}, []uint64{9, 19, 29, lastBound},
			map[string]string{"0": "9", "1": "19", "2": "29", "3": most, "4": sum}},
		{manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: -20, Max: 10, Step: 10}, ValueSize: 8 * 5}, []uint64{9, lastBound},
			map[string]string{"0": "9", "1": "9", "2": "9", "3": "9", "4": most, "5": sum}},
		{manifest.Map{Shape: "stats", ValueSize: 16}, []uint64{lastBound}, map[string]string{"0": most, "1": sum}},
	} {
		bounds, names := exporterBuckets(&c.m)
		if !slices.Equal(bounds, c.bounds) || !maps.Equal(names, c.names) {
			t.Errorf("%s: %d, %q; want %d, %q", c.m.Shape, bounds, names, c.bounds, c.names)
		}
	}
	for bits := range 6 {
		x := manifest.Map{Shape: "hist", MapParams: manifest.MapParams{Bits: bits}, ValueSize: 8 * aggregate.HistBuckets(bits)}
		bounds, names := exporterBuckets(&x)
		if !slices.IsSorted(bounds) || len(slices.Compact(slices.Clone(bounds))) != len(bounds) || bounds[0] != 0 {
			t.Errorf("hist of %d bits: bounds %d", bits, bounds)
		}
		for i := range aggregate.HistBuckets(bits) {
			want := strconv.FormatUint(min(aggregate.HistFirst(bits, max(i, 1)+1)-1, lastBound), 10)
			if i == aggregate.HistBuckets(bits)-1 {
				want = most
			}
			if names[strconv.Itoa(i)] != want {
				t.Errorf("hist of %d bits: bucket %d ends at %s, want %s", bits, i, names[strconv.Itoa(i)], want)
			}
		}
	}
}
