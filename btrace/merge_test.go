// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"btc/fleet/merge"
	"btc/internal/manifest"
	"btc/loader/bpfmap"
	"btc/loader/format"
	"btc/loader/output"
	"btc/loader/render"
)

// aggregations has a map of each kind whose values of several hosts can be combined. The key is a string.
func aggregations() (all []manifest.Map) {
	key := manifest.Layout{Kind: "string", Size: 8}
	series := manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{{Layout: key}, {Off: 8, Layout: manifest.Layout{Kind: "int", Size: 8}}}}
	for _, isSigned := range []bool{false, true} {
		value := &manifest.Layout{Kind: "int", Size: 8, Signed: isSigned}
		for _, shape := range []string{"count", "sum", "avg", "stats", "min", "max", "hist", "lhist"} {
			all = append(all, manifest.Map{Shape: shape, Value: value, Key: &key, Present: -1, MapParams: manifest.MapParams{Bits: 1}})
		}
		for _, agg := range []string{"avg", "sum", "min", "max"} {
			all = append(all, manifest.Map{Shape: "tseries", MapParams: manifest.MapParams{Agg: agg, Interval: int64(time.Second), Intervals: 8}, Value: value, Key: &series, Present: -1})
		}
	}
	for i := range all {
		m := &all[i]
		m.Name = fmt.Sprintf("@m%d", i)
		switch m.Shape {
		case "min", "max":
			m.ValueOff = 8
		case "lhist":
			m.Min, m.Max, m.Step = 10, 200, 30
		}
	}
	return all
}

// counted returns what the programs of a CPU have in their slot of a map after some values: the bytes of docs/layouts.md.
func counted(m *manifest.Map, interval uint64, values []uint64) []byte {
	rule := m.Rule()
	words := make([]uint64, 3)
	if m.Shape == "hist" || m.Shape == "lhist" {
		words = make([]uint64, m.Buckets().Len())
	}
	for i, v := range values {
		first := i == 0
		switch m.Shape + m.Agg {
		case "count":
			words[0]++
		case "sum":
			words[0] += v
		case "avg", "stats":
			words[0]++
			words[1] += v
		case "min", "max":
			if words[1] = rule.Extreme(m.Shape, v, words[1]); first {
				words[0], words[1] = 1, v
			}
		case "tseriesavg", "tseriessum":
			words[0] += v
			words[1]++
			words[2] = interval
		case "tseriesmin", "tseriesmax":
			if words[0] = rule.Extreme(m.Agg, v, words[0]); first {
				words[0], words[2] = v, interval
			}
		default:
			for i := range words {
				if low, high := m.Buckets().Bounds(i); low <= int64(v) && int64(v) <= high {
					words[i]++
				}
			}
		}
	}
	var b []byte
	for _, w := range words {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

// elements reads the entries of a map, as a run does.
func elements(m *manifest.Map, entries []bpfmap.Entry) (out []render.Element) {
	if m.Shape == "tseries" {
		return render.ReduceSeries(m, entries)
	}
	for _, e := range entries {
		out = append(out, render.Reduce(m, e))
	}
	return out
}

// written returns what a run writes of its maps at the end.
func written(f *output.Format, m *manifest.Map, elems []render.Element) string {
	var out strings.Builder
	r := &output.Run{Manifest: &manifest.Manifest{Object: manifest.Object{SHA256: "ab12"}, Maps: []manifest.Map{*m}}, Env: &format.Env{}, Host: "h", At: time.Unix(1000, 0), Started: time.Unix(1, 0), Losses: func() []output.Loss { return nil }}
	r.Out = output.NewWriter("line", func(b []byte, _ bool) []byte {
		out.Write(b)
		return b[:0]
	})
	x := &output.Map{Map: m, Elements: elems}
	f.New(r).End(func(show func(*output.Map)) { show(x) })
	r.Out.Flush(true)
	return out.String()
}

// TestMergesAgree checks that values that are split over CPUs, hosts and keys give the same map in all four ways in which
// they are combined: by a run (CPUs), by btc merge and by Snapshot.Merge (hosts), and in a metric (keys of one label).
func TestMergesAgree(t *testing.T) {
	json2, prometheus := output.Find("json2"), output.Find("prometheus")
	maps := aggregations()
	for i := range maps {
		m := &maps[i]
		for seed := range uint64(20) {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			hosts := make([][]bpfmap.Entry, 1+rnd.IntN(4))
			var all, keys []bpfmap.Entry
			var slots = map[string]int{} // of all, by key
			for h := range hosts {
				intervals := 1
				if m.Shape == "tseries" {
					intervals = 4
				}
				for n := range intervals {
					e := bpfmap.Entry{Key: []byte("a\x00\x00\x00\x00\x00\x00\x00")}
					if m.Shape == "tseries" {
						e.Key = binary.NativeEndian.AppendUint64(e.Key, uint64(100+n)%8)
					}
					for range 1 + rnd.IntN(3) {
						values := make([]uint64, 1+rnd.IntN(5))
						for i := range values {
							if values[i] = rnd.Uint64N(300); m.Signed() {
								values[i] -= 100
							}
						}
						e.Values = append(e.Values, counted(m, uint64(100+n), values))
					}
					hosts[h] = append(hosts[h], e)
					if at, ok := slots[string(e.Key)]; ok {
						all[at].Values = append(all[at].Values, e.Values...)
					} else {
						slots[string(e.Key)] = len(all)
						all = append(all, bpfmap.Entry{Key: e.Key, Values: append([][]byte(nil), e.Values...)})
					}
					key := append([]byte(nil), e.Key...)
					key[2] = byte(h) // prints the same
					keys = append(keys, bpfmap.Entry{Key: key, Values: e.Values})
				}
			}
			d := decoder{env: &format.Env{}}
			want := d.snapshot(m, elements(m, all), render.Top{})
			wantText := written(&output.Text, m, elements(m, all))
			merged, runs := (*Snapshot)(nil), &merge.Runs{}
			for _, h := range rnd.Perm(len(hosts)) {
				if _, err := runs.Read("h", strings.NewReader(written(json2, m, elements(m, hosts[h])))); err != nil {
					t.Fatal(err)
				}
				s := d.snapshot(m, elements(m, hosts[h]), render.Top{})
				if merged == nil {
					merged = s
				} else if err := merged.Merge(s); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want.Entries, merged.Entries); diff != "" {
				t.Fatalf("%s %s, seed %d: Snapshot.Merge (-one run +merged):\n%s", m.Shape, m.Agg, seed, diff)
			}
			if got := "\n\n" + string(runs.AppendText(nil, m.Name)); got != wantText {
				t.Fatalf("%s %s, seed %d: btc merge:\n%s\none run:\n%s", m.Shape, m.Agg, seed, got, wantText)
			}
			if got, want := written(prometheus, m, elements(m, keys)), written(prometheus, m, elements(m, all)); got != want {
				t.Fatalf("%s %s, seed %d: metrics of several keys:\n%s\none key:\n%s", m.Shape, m.Agg, seed, got, want)
			}
		}
	}
}

// TestSeriesWithoutCounts checks that averages without the number of their values, as in a Series that another program
// made, and last values are not combined, but those of different intervals are.
func TestSeriesWithoutCounts(t *testing.T) {
	at := func(second int64, n uint64) Series {
		return Series{Interval: time.Second, Points: []Point{{Start: time.Unix(second, 0), Value: Number{Bits: n}}}}
	}
	for _, function := range []string{"", "avg"} {
		a, b, c := at(1, 5), at(1, 7), at(2, 7)
		a.Function, b.Function, c.Function = function, function, function
		if s, err := a.Merge(b); err == nil {
			t.Errorf("%q: merged two values of an interval: %v", function, s)
		}
		if s, err := a.Merge(c); err != nil || len(s.Points) != 2 || len(a.Points) != 1 {
			t.Errorf("%q: %v, %v", function, s, err)
		}
	}
}
