// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"btc/internal/aggregate"
	"btc/loader/diag"
	"btc/loader/format"
	"btc/loader/metrics"
	"btc/loader/object"
	"btc/loader/options"
	"btc/loader/output"
	"btc/loader/render"
	"btc/loader/run"
)

// Report makes a session print what btrun prints (see LoadReport): the script's output as it arrives, and its maps at
// the end. The zero value discards it.
type Report struct {
	// Out receives the script's output and its maps, Err everything else: messages, warnings and
	// run-time errors. nil discards it. Each is used by one goroutine at a time, but they may be by two at
	// once. If one is a terminal (an *os.File), control characters in strings are escaped.
	//
	// If Out has a method Replace() error, and the format replaces documents (prometheus,
	// openmetrics, otlp, folded, pprof), it is called after each document: what was written since the last call
	// replaces the previous document.
	Out, Err io.Writer
	// Format is text (the default), json, json2, prometheus, openmetrics, otlp, folded or pprof.
	Format string
	// Buffer is when output is written: line (the default) whenever no event is waiting, full when 64
	// KiB have been collected, none after each piece.
	Buffer string
	// Every is the interval at which all maps are printed during the session; 0: only at the end.
	Every time.Duration

	// Top prints only this many elements of each map, those with the largest values; 0: all. Sort
	// is the order of the elements: ascending or descending by value, or key; "": ascending, or descending
	// with Top. Summary prints a line of quantiles below each histogram. Rate prints, with Every, the rate per second since
	// the snapshot before beside count(), sum() and histograms.
	Top     int
	Sort    string
	Summary bool
	Rate    bool

	// Names shows a container's name with the ID of a cgroup in keys.
	Names bool

	// Object is the object's name in metrics; "": that of its file without .o, or of the script if there is no file.
	// MaxSeries is the maximum number of series per metric; 0: 10000. Buckets are the bounds of those of hist(), such as
	// 1us..10s or 1us..10s/2, as btrun --buckets; "": all.
	Object    string
	MaxSeries int
	Buckets   string

	// Map is the map that the formats folded and pprof write, with or without "@"; "": the only one with a stack in its
	// key.
	Map string

	// Quiet does not print the number of attached probes. Verbose prints the kernel's verifier log
	// of each program.
	Quiet, Verbose bool
	// Raw does not escape control characters on a terminal.
	Raw bool
	// Color prints warnings in color, with the control sequences of a terminal.
	Color bool
	// Live, on a terminal and with Every, redraws the maps in place below the output instead of printing them
	// again. A program that exits without Close calls RestoreTerminal first.
	Live bool
	// Keys is the terminal whose keys control Live; nil: none do. It is restored when the session ends.
	Keys *os.File
	// Blocks adds sparklines and heat maps to Live, with the block characters of Unicode; ColorBlocks colors the heat maps.
	Blocks, ColorBlocks bool

	// Hint is called when everything is attached, with a line on how to end the session for a
	// user who sends SIGINT with Ctrl-C. Progress is called repeatedly during earlier steps that
	// take longer than a second, and with "" at the end. Both may be nil.
	Hint, Progress func(text string)

	// Record receives a recording of the session, from which btc replay prints its output again in any format. An error
	// of it is a warning, and makes the exit status of Finish 1.
	Record io.Writer
}

// sendTo makes a run of an object print the report.
func (r *Report) sendTo(ro *run.Options, x *object.Object) error {
	ro.Report = options.Report(*r) // see options.Run
	ro.Sink = output.Formats[0]
	if r.Format != "" {
		ro.Sink = output.Find(r.Format)
	}
	if r.Buffer == "" {
		ro.Buffer = output.Buffers[0]
	}
	if r.Sort == "" && r.Top > 0 {
		ro.Sort = render.Descending
	}
	switch {
	case ro.Sink == nil:
		return fmt.Errorf("unknown output format %q: expected %s", r.Format, list(output.Names()))
	case !slices.Contains(output.Buffers, ro.Buffer):
		return fmt.Errorf("unknown buffer mode %q: expected %s", r.Buffer, list(output.Buffers))
	case ro.Sort != "" && !slices.Contains(render.Orders, ro.Sort):
		return fmt.Errorf("unknown order %q: expected %s", r.Sort, list(render.Orders))
	case ro.Reload && r.Record != nil:
		return errors.New("Record cannot be combined with Options.Reload: a recording is of one object")
	case r.Every < 0 || r.Top < 0 || r.MaxSeries < 0:
		return errors.New("a report with a negative Every, Top or MaxSeries")
	case (ro.Sink.Metrics || ro.Sink.Profile) && ro.Mode != "":
		return fmt.Errorf("the format %s writes maps, and the mode %s has none", r.Format, ro.Mode)
	}
	if _, err := aggregate.ParseRange(r.Buckets); err != nil {
		return fmt.Errorf("buckets: %w", err)
	}
	if err := ro.Sink.CheckMap(x.Manifest, r.Map); err != nil {
		return err
	}
	if ro.Object == "" {
		ro.Object = objectName(x)
	}
	onTerminal := format.IsTerminal(r.Out)
	if onTerminal && ro.Sink.Binary {
		return fmt.Errorf("the format %s is binary: write it to a file, with -o FILE, or to a pipe", r.Format)
	}
	ro.Live = r.Live && r.Every > 0 && !ro.Sink.JSON && !ro.Sink.Document && onTerminal
	if onTerminal && !r.Raw {
		ro.Escape = true
		if ro.Sink.JSON {
			ro.Out = format.TerminalJSON(r.Out)
		}
	}
	if r.Color && r.Err != nil {
		ro.PaintWarning = func(f *diag.Error) { fmt.Fprintln(r.Err, f.Painted("warning")) }
	}
	if !r.Raw && format.IsTerminal(r.Err) {
		ro.Err = format.Terminal(r.Err)
	}
	return nil
}

// list lists words in a sentence.
func list(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// objectName returns the name of an object in metrics: that of its file, or of its script if it has none (Parse, Read).
func objectName(x *object.Object) string {
	if !strings.HasSuffix(x.Path, ".o") {
		return metrics.ObjectName(strings.TrimSuffix(filepath.Base(x.Manifest.Script.File), ".bt"))
	}
	return metrics.ObjectName(x.Path)
}
