// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/tests/docs/generated"
)

// figures are the medians in docs/bench/bench.json.
type figures struct {
	t    *testing.T
	Axes []struct {
		Name string
		Rows []struct {
			Name          string
			Btc, Bpftrace struct{ Median float64 }
			Ratio         float64
		}
		Means []struct {
			What  string
			Value float64
		}
	}
}

func readFigures(t *testing.T) *figures {
	t.Helper()
	data, err := os.ReadFile("../../docs/bench/bench.json")
	if err != nil {
		t.Fatal(err)
	}
	f := &figures{t: t}
	if err := json.Unmarshal(data, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// row returns the medians of btc and bpftrace.
func (f *figures) row(axis, name string) (btc, bpftrace float64) {
	f.t.Helper()
	for _, a := range f.Axes {
		for _, r := range a.Rows {
			if a.Name == axis && r.Name == name {
				return r.Btc.Median, r.Bpftrace.Median
			}
		}
	}
	f.t.Fatalf("docs/bench/bench.json has no row %q in the axis %s", name, axis)
	return 0, 0
}

// pair is "A UNIT (bpftrace: B UNIT)".
func (f *figures) pair(axis, name, unit string, scale float64) string {
	f.t.Helper()
	btc, bpftrace := f.row(axis, name)
	return fmt.Sprintf("%s %s (bpftrace: %s %s)", rounded(btc*scale), unit, rounded(bpftrace*scale), unit)
}

// events returns the geometric mean of the cost of an event, and the number of scripts in it.
func (f *figures) events() (mean float64, scripts int) {
	for _, a := range f.Axes {
		if a.Name != "events" {
			continue
		}
		for _, r := range a.Rows {
			if r.Ratio > 0 {
				scripts++
			}
		}
		mean = a.Means[0].Value
	}
	return mean, scripts
}

// rounded is a number with two digits, or more if they are before the point.
func rounded(v float64) string {
	switch {
	case v >= 9.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 0.995:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.0995:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// TestFigures checks the figures that pages quote from docs/bench.
func TestFigures(t *testing.T) {
	f := readFigures(t)
	var b strings.Builder
	b.WriteString("| | measured | limit |\n|---|---|---|\n")
	mean, scripts := f.events()
	_, libraries := f.row("loader", "bytes on disk, with libraries")
	fi, err := os.Stat(filepath.Join(programs, "btrun"))
	if err != nil {
		t.Fatal(err)
	}
	size := math.Round(float64(fi.Size())/1e5) / 10 // in MB, of this build
	worst, typical := 0.0, 0.0
	for _, a := range f.Axes {
		for _, r := range a.Rows {
			if a.Name == "latency" && strings.HasSuffix(r.Name, ": median") {
				worst, typical = math.Max(worst, r.Btc.Median), math.Max(typical, r.Bpftrace.Median)
			}
		}
	}
	for _, row := range [][]string{
		{"`btc compile` of a one-liner, whole process", f.pair("compile", "1 clauses", "ms", 1), "50 ms"},
		{fmt.Sprintf("cost of an event, geometric mean of %d scripts", scripts), fmt.Sprintf("%.2f of bpftrace's", mean), ""},
		{"`btrun`, static and stripped", fmt.Sprintf("%.1f MB (bpftrace with its libraries: %s MB)", size, rounded(libraries)),
			fmt.Sprintf("%.2f MB", maxLoader/1e6)},
		{"`btrun` from start to attached, one-liner", f.pair("loader", "start to attached", "ms", 1), "100 ms"},
		{"`btrun` resident while tracing, one-liner", f.pair("loader", "resident memory at its peak", "MiB", 1), fmt.Sprintf("%d MiB", maxResident>>10)},
		{"`btrun` from Ctrl-C to its end, 360 tracepoints of system calls", f.pair("attach", "360 probes, interrupt to exit", "s", 1e-3), ""},
		{"from an event to its printed line, worst median at any rate",
			fmt.Sprintf("%s ms (bpftrace: %s ms)", rounded(worst), rounded(typical)), "10 ms"},
		{"a traced call that prints a line, at 20,000 lines a second", f.pair("latency", "20000 lines a second: time of the traced call", "µs", 1e-3), ""},
	} {
		b.WriteString(generated.Row(row...))
	}
	generated.Check(t, "../../README.md", map[string]string{"cost": b.String()}, *update)

	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	btc, bpftrace := f.row("loader", "start to attached")
	compiler, err := os.Stat(filepath.Join(programs, "btc"))
	if err != nil {
		t.Fatal(err)
	}
	targets, err := filepath.Glob("../../targets/kernel/default_*.target")
	if err != nil || len(targets) != 3 {
		t.Fatalf("built-in targets: %q, %v", targets, err)
	}
	types := int64(0)
	for _, file := range targets {
		fi, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		types += fi.Size()
	}
	fleet, err := os.ReadFile("../../docs/howto/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("beside btc (%.1f MB)", size); !strings.Contains(string(fleet), want) {
		t.Errorf("docs/howto/fleet.md does not say %q, the size of this build", want)
	}
	for _, want := range []string{
		fmt.Sprintf(" MB, of which %.1f MB are the types of three kernels", float64(types)/1e6),
		fmt.Sprintf("one file of %.1f MB instead of %s MB", size, rounded(libraries)),
		fmt.Sprintf("tracing starts in %s ms instead of %s ms", rounded(btc), rounded(bpftrace)),
		fmt.Sprintf("a static loader of %.1f MB", size),
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("README.md does not say %q, as docs/bench does", want)
		}
	}

	var said float64
	_, after, _ := strings.Cut(string(data), "`btc` itself is ")
	if fmt.Sscan(after, &said); math.Abs(said-float64(compiler.Size())/1e6) > 0.8 { // it changes with each commit
		t.Errorf("README.md says that btc is %v MB, and this build has %.1f", said, float64(compiler.Size())/1e6)
	}

	b.Reset()
	b.WriteString("| keys | `-f prometheus` | `-f json2` | `-f otlp` |\n|---|---|---|---|\n")
	for _, keys := range []struct{ shown, name string }{{"1", "1 key"}, {"10,000", "10000 keys"}, {"100,000", "100000 keys"}} {
		cells := []string{keys.shown}
		for _, format := range []string{"prometheus", "json2", "otlp"} {
			ms, _ := f.row("fleet", "a snapshot of "+keys.name+", -f "+format)
			cells = append(cells, rounded(ms)+" ms")
		}
		b.WriteString(generated.Row(cells...))
	}
	least, most := math.Inf(1), 0.0
	for _, format := range []string{"prometheus", "json2", "otlp"} {
		share, _ := f.row("fleet", "CPU of btrun --every 1s with 10000 keys, -f "+format)
		least, most = math.Min(least, share), math.Max(most, share)
	}
	series, _ := f.row("fleet", "Prometheus, 1000 hosts: series")
	memory, _ := f.row("fleet", "Prometheus, 1000 hosts: resident memory at its peak")
	const merge = "btc merge of 1000 runs of 10000 keys, 677 MB: "
	cpu, _ := f.row("fleet", merge+"CPU")
	peak, _ := f.row("fleet", merge+"resident memory at its peak")
	b.WriteString("\n" + generated.Wrap(fmt.Sprintf("So `--every 1s` with 10,000 keys takes %s to %s %% of one CPU. "+
		"These are medians of CPU time: the spread is in [docs/bench](bench/bench.md#metrics-and-merged-runs), along with what a "+
		"thousand hosts cost Prometheus (%.0f,000 series, %s MiB) and `btc merge` (1,000 runs of 10,000 keys: %s s of CPU time, %s MiB). "+
		"`go run ./tests/bench -only fleet` measures it again.", rounded(least), rounded(most), series/1000, rounded(memory), rounded(cpu), rounded(peak))))
	generated.Check(t, "../../docs/metrics.md", map[string]string{"cost": b.String()}, *update)
}
