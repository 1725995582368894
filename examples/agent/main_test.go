package main

import (
	"strings"
	"testing"

	"btc/btrace"
)

// TestMetrics checks that each key has every bound, that there is a type, and that keys are quoted.
func TestMetrics(t *testing.T) {
	text := string(metrics(&btrace.Snapshot{Entries: []btrace.Entry{
		{Key: []btrace.Value{"a"}, Value: &btrace.Hist{Linear: true, Max: 20, Step: 10, Counts: []uint64{0, 3}}},
		{Key: []btrace.Value{`b"`}, Value: &btrace.Hist{Linear: true, Max: 20, Step: 10, Counts: []uint64{1, 0, 0, 2}}},
	}}))
	want := `# TYPE value histogram
value_bucket{key="a",le="-1"} 0
value_bucket{key="a",le="9"} 3
value_bucket{key="a",le="19"} 3
value_bucket{key="a",le="+Inf"} 3
value_count{key="a"} 3
value_bucket{key="b\\"",le="-1"} 1
value_bucket{key="b\\"",le="9"} 1
value_bucket{key="b\\"",le="19"} 1
value_bucket{key="b\\"",le="+Inf"} 3
value_count{key="b\\""} 3
`
	want = strings.ReplaceAll(want, `\\`, `\`)
	if text != want {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
}
