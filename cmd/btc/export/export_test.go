// SPDX-License-Identifier: Apache-2.0

package export

import (
	"strings"
	"testing"

	"btc/internal/manifest"
)

// A map is a metric with a label for each part of its key, at its place; what ebpf_exporter would
// read wrongly is left out with the reason.
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
			{Name: "@n", Symbol: "n", Shape: "count", ValueSize: 8, Help: "Calls."},
			{Name: "@k", Symbol: "k", Shape: "sum", KeySize: 32, ValueSize: 8, Key: &key, KeyNames: []string{"pid", "args.name", "cpu"}, Value: &unsigned},
			{Name: "@sum", Symbol: "sum", Shape: "sum", ValueSize: 8, Value: &signed},
			{Name: "@signed", Symbol: "signed", Shape: "count", KeySize: 8, ValueSize: 8, Key: &signed},
			{Name: "@h", Symbol: "h", Shape: "hist", ValueSize: 528},
			{Name: "@a", Symbol: "a", Shape: "avg", ValueSize: 16},
			{Name: "@p", Symbol: "p", Shape: "count", ValueSize: 16},
			{Name: "events", Symbol: "events", Shape: "intern"},
		},
		Programs: []manifest.Program{{Section: "kprobe/f"}, {Section: "perf_event", Attach: manifest.Attach{Text: "profile:hz:99"}}},
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
`
	if text != want {
		t.Errorf("have\n%s\nwant\n%s", text, want)
	}
	for i, name := range []string{"@sum: ", "@signed: ", "@h: ", "@a: ", "@p: ", "profile:hz:99: "} {
		if i >= len(left) || !strings.HasPrefix(left[i], name) {
			t.Errorf("left out: %q, want %s as number %d", left, name, i)
		}
	}
	m.Maps = m.Maps[2:3]
	if _, _, err := EBPFExporter(m); err == nil {
		t.Error("a configuration without metrics was written")
	}
}
