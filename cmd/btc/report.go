// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"btc/fleet/merge"
	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/internal/option"
	"btc/internal/safefile"
	"btc/loader/format"
	"btc/loader/options"
	"btc/loader/output"
	"btc/loader/render"
)

// mergedReport holds the options of a report on several hosts.
type mergedReport struct {
	by, form, file string
	top            int
	order          string
	summary        bool
	begun          bool            // json2: the head is written
	buckets        aggregate.Range // of metrics
	maxSeries      int
}

// table returns the options; formats are the formats that the command supports besides text and
// json2.
func (r *mergedReport) table(formats ...string) option.Table {
	r.form = output.Text.Name
	help := "format of the report: text, or json2, which can be merged again; default: text"
	if len(formats) > 0 {
		help = "format of the report: text, json2 (which btc merge reads), or a format of metrics; default: text"
	}
	table := option.Table{
		{Name: "by", Value: "WHAT", Choices: option.Choices("host"), To: &r.by,
			Help: "with host, make the host the first part of each key"},
		{Name: "format", Short: "f", Value: "FORMAT", To: &r.form, Help: help,
			Choices: option.Choices(append([]string{output.Text.Name, output.Lossless}, formats...)...)},
		{Name: "output", Short: "o", Value: "FILE", To: &r.file, Help: "write the report to FILE"},
		{Name: "top", Value: "N", To: r.setTop,
			Help: "print the N elements of each map that have the largest values, largest first"},
		{Name: "sort", Value: "ORDER", To: &r.order, Choices: option.Choices(render.Ascending, render.Descending, render.ByKey), Help: "order of the elements of maps: ascending or descending by value, or by key; default: ascending"},
		{Name: "summary", To: &r.summary,
			Help: "print the number of values, their average and quantiles below each histogram"},
	}
	if len(formats) > 0 {
		table = append(table,
			option.Option{Name: "buckets", Value: "RANGE", To: setBuckets(&r.buckets), Help: "with metrics: " + options.BucketsHelp},
			option.Option{Name: "max-series", Value: "N", To: setCount("max-series", &r.maxSeries),
				Help: "with metrics: maximum number of series per metric; further keys are summed as \"other\"; default: 10000"})
	}
	return table
}

func (r *mergedReport) setTop(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("--top: %q is not a number of elements", text)
	}
	r.top = n
	return nil
}

func (r *mergedReport) shown() render.Top {
	t := render.Top{Keep: r.top, Order: r.order, Summary: r.summary}
	if t.Keep > 0 && t.Order == "" {
		t.Order = render.Descending
	}
	return t
}

// write writes merged maps. m is the manifest of their object, which metrics need; object is its name in
// metrics.
func (r *mergedReport) write(w io.Writer, runs *merge.Runs, m *manifest.Manifest, object string, lost uint64) error {
	runs.Top = r.shown()
	slices.Sort(runs.Partial)
	for _, text := range runs.Partial {
		fmt.Fprintf(os.Stderr, "btc: warning: %s\n", text)
	}
	names, left := runs.Names()
	for _, name := range left {
		fmt.Fprintf(os.Stderr,
			"btc: warning: %s is omitted: assigned values cannot be combined; --by host shows them for each host\n",
			name)
	}
	if output.Find(r.form).Metrics {
		return r.writeMetrics(w, output.Find(r.form), runs, m, object, lost)
	}
	now := time.Now()
	if r.form == output.Lossless {
		head := merge.AppendFinal(nil, now)
		if !r.begun {
			head = append(runs.AppendHead(nil, now, m), head...)
		}
		if _, err := w.Write(head); err != nil {
			return err
		}
	}
	var err error
	some := false                   // of a map is written
	pass := func(b []byte) []byte { // whole characters
		if err == nil {
			_, err = w.Write(b)
		}
		some = some || len(b) > 0
		return b[:0]
	}
	full := func(b []byte) []byte {
		if len(b) < output.Fill {
			return b
		}
		return pass(b)
	}
	for _, name := range names {
		some = false
		if r.form == output.Lossless {
			pass(runs.JSON(nil, name, now, full))
		} else if pass(runs.Text(nil, name, full)); some {
			pass([]byte{'\n'})
		}
	}
	return err
}

// writeMetrics writes merged maps as the metrics of one run.
func (r *mergedReport) writeMetrics(w io.Writer, f *output.Format, runs *merge.Runs, m *manifest.Manifest, object string, lost uint64) error {
	merged, maps := runs.Maps(m)
	var err error
	run := &output.Run{
		Manifest: merged, Env: &format.Env{}, Object: object, Buckets: r.buckets, MaxSeries: r.maxSeries, At: time.Now(),
		Message: func(text string) { fmt.Fprintln(os.Stderr, "btc: "+text) },
		Losses:  func() []output.Loss { return []output.Loss{{Cause: "events", N: lost}} },
	}
	run.Out = output.NewWriter("full", func(b []byte, _ bool) []byte {
		if err == nil {
			_, err = w.Write(b)
		}
		return b[:0]
	})
	f.New(run).End(func(show func(*output.Map)) {
		for i := range maps {
			show(&maps[i])
		}
	})
	run.Out.Flush(true)
	return err
}

// to calls write with the -o file or with standard output. On a terminal, control characters in
// names that hosts sent are escaped.
func (r *mergedReport) to(write func(io.Writer) error) error {
	if r.file == "" {
		return write(onTerminal(os.Stdout))
	}
	f, err := safefile.Create(r.file, os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// onTerminal wraps a file so that control characters in names that hosts sent are escaped if it is
// a terminal.
func onTerminal(f *os.File) io.Writer {
	if isTerminal(f) {
		return format.Terminal(f)
	}
	return f
}
