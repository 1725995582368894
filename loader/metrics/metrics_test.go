// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
)

func integer(signed bool) *manifest.Layout {
	return &manifest.Layout{Kind: "int", Size: 8, Signed: signed}
}

func tuple(kinds ...string) *manifest.Layout {
	l := &manifest.Layout{Kind: "tuple", Size: 8 * len(kinds)}
	for i, k := range kinds {
		l.Fields = append(l.Fields, manifest.Field{Off: 8 * i, Layout: manifest.Layout{Kind: k, Size: 8}})
	}
	return l
}

// TestKinds checks which maps are metrics, and of which kind.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		x    manifest.Map
		want Kind // "": not a metric
	}{
		{manifest.Map{Shape: "count"}, Counter},
		{manifest.Map{Shape: "sum", Value: integer(false)}, Counter},
		{manifest.Map{Shape: "sum", Value: integer(true)}, Gauge},
		{manifest.Map{Shape: "sum"}, Counter},
		{manifest.Map{Shape: "min", Value: integer(false)}, Gauge},
		{manifest.Map{Shape: "max", Value: integer(true)}, Gauge},
		{manifest.Map{Shape: "tseries"}, Gauge},
		{manifest.Map{Shape: "avg"}, Summary},
		{manifest.Map{Shape: "stats"}, Summary},
		{manifest.Map{Shape: "hist"}, Histogram},
		{manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: 0, Max: 10, Step: 5}}, Histogram},
		{manifest.Map{Shape: "plain", Value: integer(true)}, Gauge},
		{manifest.Map{Shape: "plain", Value: &manifest.Layout{Kind: "bool"}}, Gauge},
		{manifest.Map{Shape: "plain", Value: &manifest.Layout{Kind: "enum"}}, Gauge},
		{manifest.Map{Shape: "plain", Value: &manifest.Layout{Kind: "string"}}, ""},
		{manifest.Map{Shape: "plain", Value: tuple("int")}, ""},
	} {
		c.x.Name = "@x"
		list, left := Of(&manifest.Manifest{Maps: []manifest.Map{c.x}}, "o", aggregate.Range{})
		switch {
		case c.want == "" && (len(list) > 0 || !slices.Equal(left, []string{"@x"})):
			t.Errorf("%s of %v: %v, left %v; want it left", c.x.Shape, c.x.Value, list, left)
		case c.want != "" && (len(list) != 1 || len(left) > 0 || list[0].Kind != c.want || list[0].Map.Name != "@x"):
			t.Errorf("%s of %v: %v, left %v; want %s", c.x.Shape, c.x.Value, list, left, c.want)
		}
	}
}

// TestNames checks the names of metrics: from the object, the map and the unit, none of them twice, none with
// a series that another metric has, and none of the run's own.
func TestNames(t *testing.T) {
	count := func(name, unit string) manifest.Map {
		return manifest.Map{Name: name, Shape: "count", MapNames: manifest.MapNames{Unit: unit}}
	}
	gauge := func(name, unit string) manifest.Map {
		return manifest.Map{Name: name, Shape: "max", MapNames: manifest.MapNames{Unit: unit}, Value: integer(false)}
	}
	avg := func(name string) manifest.Map { return manifest.Map{Name: name, Shape: "avg"} }
	hist := func(name string) manifest.Map { return manifest.Map{Name: name, Shape: "hist"} }
	for _, c := range []struct {
		object string
		maps   []manifest.Map
		want   []string
	}{
		{"reads", []manifest.Map{count("@", ""), count("@calls", "")}, []string{"btc_reads", "btc_reads_calls"}},
		{"reads", []manifest.Map{{Name: "events", Shape: "count"}, count("@a", "")}, []string{"btc_reads_a"}}, // not one of the script's
		{"my-script 2", []manifest.Map{count("@a", "")}, []string{"btc_my_script_2_a"}},
		{"2", []manifest.Map{count("@3", "")}, []string{"btc__2__3"}},
		{"", []manifest.Map{count("@AZaz_09", "")}, []string{"btc___AZaz_09"}},
		{"é", []manifest.Map{count("@a", "")}, []string{"btc___a"}},
		{"o", []manifest.Map{gauge("@a", "seconds"), gauge("@b_seconds", "seconds")}, []string{"btc_o_a_seconds", "btc_o_b_seconds"}},
		// The suffix of a counter is written by the exporter.
		{"o", []manifest.Map{count("@a_total", ""), gauge("@b_total", "")}, []string{"btc_o_a", "btc_o_b_total"}},
		// Names of series that are taken.
		{"o", []manifest.Map{count("@a", ""), gauge("@a_total", "")}, []string{"btc_o_a", "btc_o_a_total_2"}},
		{"o", []manifest.Map{avg("@a"), gauge("@a_sum", ""), gauge("@a_count", "")}, []string{"btc_o_a", "btc_o_a_sum_2", "btc_o_a_count_2"}},
		{"o", []manifest.Map{hist("@a"), gauge("@a_bucket", ""), gauge("@a_sum", ""), gauge("@a_count", "")}, []string{"btc_o_a", "btc_o_a_bucket_2", "btc_o_a_sum_2", "btc_o_a_count_2"}},
		{"o", []manifest.Map{gauge("@a", "bytes"), gauge("@a_bytes", "bytes"), gauge("@a_bytes", "")}, []string{"btc_o_a_bytes", "btc_o_a_bytes_2_bytes", "btc_o_a_bytes_2"}},
		// Names of the run's own metrics.
		{"up", []manifest.Map{gauge("@", "")}, []string{"btc_up_2"}},
		{"lost", []manifest.Map{count("@", ""), gauge("@", "")}, []string{"btc_lost_2", "btc_lost"}},
		{"probe", []manifest.Map{gauge("@up", ""), gauge("@covered", "seconds"), count("@cpu", "seconds")}, []string{"btc_probe_up_2", "btc_probe_covered_2_seconds", "btc_probe_cpu_2_seconds"}},
	} {
		list, _ := Of(&manifest.Manifest{Maps: c.maps}, c.object, aggregate.Range{})
		var got []string
		for _, m := range list {
			got = append(got, m.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("object %q: %q, want %q", c.object, got, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, c := range []struct {
		x    manifest.Map
		want string
	}{
		{manifest.Map{Name: "@a", Shape: "count"}, "count() in @a."},
		{manifest.Map{Name: "@a", Shape: "plain", Value: integer(false)}, "Value of @a."},
		{manifest.Map{Name: "@a", Shape: "count", MapNames: manifest.MapNames{Help: "Größe of\tall\nreads ~\x7f\u0085\u00a0."}}, "Größe of all reads ~  \u00a0."},
	} {
		list, _ := Of(&manifest.Manifest{Maps: []manifest.Map{c.x}}, "o", aggregate.Range{})
		if list[0].Help != c.want {
			t.Errorf("%q, want %q", list[0].Help, c.want)
		}
	}
}

// TestLabels checks the names of labels: from the script's names of keys or by number, none twice, none
// that the format uses itself; a cgroup has those of its container.
func TestLabels(t *testing.T) {
	cgroup := manifest.Layout{Kind: "cgroup_path", Size: 16}
	if !format.IsCgroup(&cgroup) {
		t.Fatal("the layout of a cgroup has changed")
	}
	withCgroup := tuple("int", "int")
	withCgroup.Fields[1].Layout = cgroup
	pair := &manifest.Layout{Kind: "tuple", Size: 24, Fields: []manifest.Field{{Layout: *tuple("int", "string")}, {Off: 16, Layout: *integer(false)}}}
	single := &manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{{Layout: *integer(false)}, {Off: 8, Layout: *integer(false)}}}
	interval := &manifest.Layout{Kind: "tuple", Size: 8, Fields: []manifest.Field{{Layout: *integer(false)}}}
	for _, c := range []struct {
		what string
		x    manifest.Map
		want []string
	}{
		{"scalar", manifest.Map{Shape: "count"}, nil},
		{"one part", manifest.Map{Shape: "count", Key: integer(false)}, []string{"key"}},
		{"named", manifest.Map{Shape: "count", Key: integer(false), MapNames: manifest.MapNames{KeyNames: []string{"pid"}}}, []string{"pid"}},
		{"two parts", manifest.Map{Shape: "count", Key: tuple("int", "string")}, []string{"key1", "key2"}},
		{"the second is named", manifest.Map{Shape: "count", Key: tuple("int", "string"), MapNames: manifest.MapNames{KeyNames: []string{"", "comm"}}}, []string{"key1", "comm"}},
		{"the first is named", manifest.Map{Shape: "count", Key: tuple("int", "string"), MapNames: manifest.MapNames{KeyNames: []string{"args.fd"}}}, []string{"args_fd", "key2"}},
		{"equal names", manifest.Map{Shape: "count", Key: tuple("int", "int", "int"), MapNames: manifest.MapNames{KeyNames: []string{"pid", "pid", "pid"}}}, []string{"pid", "pid_2", "pid_3"}},
		{"reserved", manifest.Map{Shape: "hist", Key: tuple("int", "int", "int", "int"), MapNames: manifest.MapNames{KeyNames: []string{"le", "object", "quantile", "__name__"}}}, []string{"key_le", "key_object", "key_quantile", "key_name__"}},
		{"cgroup", manifest.Map{Shape: "count", Key: withCgroup, MapNames: manifest.MapNames{KeyNames: []string{"pid", "cgroup"}}}, append([]string{"pid", "cgroup"}, format.ContainerNames...)},
		{"series", manifest.Map{Shape: "tseries", Key: pair}, []string{"key1", "key2"}},
		{"series with one part", manifest.Map{Shape: "tseries", Key: single}, []string{"key"}},
		{"series without a key", manifest.Map{Shape: "tseries", Key: interval}, nil},
	} {
		c.x.Name = "@x"
		list, _ := Of(&manifest.Manifest{Maps: []manifest.Map{c.x}}, "o", aggregate.Range{})
		if d := cmp.Diff(c.want, list[0].Labels); d != "" {
			t.Errorf("%s: -want +got\n%s", c.what, d)
		}
	}
}

func TestAbsent(t *testing.T) {
	name := format.ContainerNames[0]
	for _, c := range []struct {
		label, value string
		want         bool
	}{
		{name, "", true}, {name + "_2", "", true}, {name + "_x", "", false}, {name, "web", false}, {"pid", "", false}, {"pid_2", "", false},
	} {
		if got := Absent(c.label, c.value); got != c.want {
			t.Errorf("Absent(%q, %q) = %v", c.label, c.value, got)
		}
	}
}

// TestBounds checks that a histogram's bounds are the largest values of its buckets, without the last.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		x    manifest.Map
		want []int64 // the first ones
		n    int
	}{
		{manifest.Map{Shape: "lhist", MapParams: manifest.MapParams{Min: 10, Max: 40, Step: 10}}, []int64{9, 19, 29, 39}, 4},
		{manifest.Map{Shape: "hist"}, []int64{-1, 0, 1, 3, 7, 15}, 65},
		{manifest.Map{Shape: "count"}, nil, 0},
	} {
		c.x.Name = "@x"
		list, _ := Of(&manifest.Manifest{Maps: []manifest.Map{c.x}}, "o", aggregate.Range{})
		got := list[0].Bounds
		if len(got) != c.n || !slices.Equal(got[:min(len(c.want), len(got))], c.want) {
			t.Errorf("%s: %d bounds %d, want %d that begin with %d", c.x.Shape, len(got), got, c.n, c.want)
		}
	}
}

// TestStrictBounds checks that bounds increase strictly, whatever the resolution: equal ones are duplicates in Prometheus
// and an error in OTLP.
func TestStrictBounds(t *testing.T) {
	for bits := range 6 {
		x := manifest.Map{Name: "@h", Shape: "hist", MapParams: manifest.MapParams{Bits: bits}}
		list, _ := Of(&manifest.Manifest{Maps: []manifest.Map{x}}, "x", aggregate.Range{})
		bounds := list[0].Bounds
		strict := slices.Clone(bounds)
		slices.Sort(strict)
		if strict = slices.Compact(strict); !slices.Equal(strict, bounds) || bounds[len(bounds)-1] != math.MaxInt64 {
			t.Errorf("%d bits: bounds %d", bits, bounds)
		}
	}
}

func TestUnit(t *testing.T) {
	list, _ := Of(&manifest.Manifest{Maps: []manifest.Map{{Name: "@x", Shape: "count", MapNames: manifest.MapNames{Unit: "seconds"}}}}, "o", aggregate.Range{})
	if list[0].Unit != "seconds" {
		t.Errorf("unit %q", list[0].Unit)
	}
}

func TestObjectName(t *testing.T) {
	for path, want := range map[string]string{
		"reads.o": "reads", "/a.o/reads": "reads", "dir/reads.o": "reads", "reads.o.o": "reads.o", "/x": "x", "-": "-", "a\xff.o": "a\uFFFD",
	} {
		if got := ObjectName(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// TestRange checks that the bounds of a hist() are those of the command line, or else of the script, and that those of an
// lhist() are its own.
func TestRange(t *testing.T) {
	given, err := aggregate.ParseRange("1..4")
	if err != nil {
		t.Fatal(err)
	}
	hist := manifest.Map{Name: "@h", Shape: "hist", MapNames: manifest.MapNames{Range: "4..8"}}
	lhist := manifest.Map{Name: "@l", Shape: "lhist", MapParams: manifest.MapParams{Max: 2, Step: 1}}
	for _, c := range []struct {
		chosen aggregate.Range
		want   []int64
	}{{aggregate.Range{}, []int64{3, 7}}, {given, []int64{0, 1, 3}}} {
		list, _ := Of(&manifest.Manifest{Maps: []manifest.Map{hist, lhist}}, "o", c.chosen)
		if !slices.Equal(list[0].Bounds, c.want) || !slices.Equal(list[1].Bounds, []int64{-1, 0, 1}) {
			t.Errorf("%s: bounds %d and %d, want %d", c.chosen, list[0].Bounds, list[1].Bounds, c.want)
		}
	}
}
