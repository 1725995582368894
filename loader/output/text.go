// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"btc/internal/probe"
	"btc/loader/diag"
	"btc/loader/format"
	"btc/loader/render"
)

// Text is the language's own output. Messages are written to the error output.
var Text = Format{Name: "text", New: func(r *Run) Sink { return &text{Run: r} }}

type text struct {
	*Run
	rates  render.Rates
	mode   string   // mode of the trials
	trials []string // their names
	failed []string // names of the failed ones
	begun  bool     // the first one was shown
	width  int      // width of the names of benchmarks
}

func (t *text) Attached(n int) {
	plural := "s"
	if n == 1 {
		plural = ""
	}
	t.MessageNow(fmt.Sprintf("Attached %d probe%s", n, plural))
}

func (t *text) Pinned(path string) { t.Out.Write([]byte("Program pinned to " + path + "\n")) }

func (t *text) Printf(e *format.Event, f *format.Format) {
	t.Out.End(t.Env.Printf(t.Out.Begin(), f, e.Values))
}

func (t *text) Print(e *format.Event) {
	t.Out.End(append(t.Env.Append(t.Out.Begin(), e.Values[0]), '\n'))
}

func (t *text) Time(_ *format.Event, text []byte) { t.Out.Write(text) }

func (t *text) Join(_ *format.Event, parts [][]byte, separator string) {
	t.Out.End(append(joined(t.Out.Begin(), t.Env, parts, separator), '\n'))
}

// joined appends strings with a separator between them.
func joined(dst []byte, env *format.Env, parts [][]byte, separator string) []byte {
	from, full := len(dst), false
	for i, part := range parts {
		if i > 0 {
			dst = append(dst, separator...)
		}
		if dst, full = format.Cut(env.Clean(dst, part), from); full {
			break
		}
	}
	return dst
}

// Piece escapes control characters in files; commands may write anything to the terminal. A
// newline follows the output of a command, as in bpftrace, even if that ends with one.
func (t *text) Piece(e *format.Event, piece []byte, _, last bool) {
	isFile := e.Kind == "cat"
	if isFile {
		piece = t.Env.Clean(nil, piece)
	}
	t.Out.Write(piece)
	if last && !isFile {
		t.Out.Write([]byte("\n"))
	}
}

// Map prints nothing for a scalar that was never assigned, at the end of the run; print()
// of it shows zero, except for histograms.
func (t *text) Map(x *Map) {
	switch {
	case !x.Map.Scalar():
		t.Out.End(render.KeyedBy(t.Out.Begin(), t.Env, x.Map, x.Elements, x.Top, t.Out.Pass))
	case x.unset() && (x.Event == nil || x.isBlock()):
	default:
		t.Out.End(render.ScalarBy(t.Out.Begin(), t.Env, x.Map, x.scalar(), x.Top, t.Out.Pass))
	}
}

func (t *text) Diagnostic(d *Diagnostic) {
	if d.Muted {
		return
	}
	f := &diag.Error{Script: &t.Manifest.Script, Pos: d.Pos, Chain: d.Chain, Text: d.Text}
	if d.Helper != "" {
		f.Text += fmt.Sprintf("\nAdditional Info - helper: %s, retcode: %d", d.Helper, d.Code)
	}
	if d.Source {
		t.Message(f.Message(d.Severity))
	} else {
		t.Message(f.Brief(d.Severity))
	}
}

// Detached reports a probe at once, and End shows it again, with the maps.
func (t *text) Detached(d *Detachment) {
	f := &diag.Error{Script: &t.Manifest.Script, Pos: d.Pos, Text: d.Text()}
	t.Message(f.Message("WARNING"))
}

// Text says why a probe was detached.
func (d *Detachment) Text() string {
	return fmt.Sprintf("%s was detached after %s: it took %s and %s of a CPU in the last two windows, all probes together %s and %s, and the budget is %s",
		d.Probe, seconds(d.To.Sub(d.From)), percent(d.Share[0]), percent(d.Share[1]), percent(d.All[0]),
		percent(d.All[1]), percent(d.Budget))
}

// covered returns the lines of a report about probes whose data covers only a part of the run.
func (t *text) covered(dst []byte) []byte {
	for _, d := range t.detachments() {
		dst = fmt.Appendf(dst, "Detached by the budget of %s: %s covers %s to %s, the first %s of %s\n",
			percent(d.Budget), d.Probe, d.From.Format(clock), d.To.Format(clock), seconds(d.To.Sub(d.From)),
			seconds(d.Run))
	}
	return dst
}

// clock is a time of day.
const clock = "15:04:05"

// percent formats a share of one CPU.
func percent(share float64) string { return strconv.FormatFloat(share*100, 'g', 3, 64) + "%" }

func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s" }

func (t *text) Lost(n uint64) { t.MessageNow(fmt.Sprintf("Lost %d events", n)) }

const (
	green = "\x1b[32m%s\x1b[0m "
	red   = "\x1b[31m%s\x1b[0m "
)

func (t *text) BeginTrials(mode string, names []string) {
	t.mode, t.trials, t.failed, t.begun, t.width = mode, names, nil, false, 40
	if mode != probe.Bench {
		return
	}
	for _, name := range names {
		t.width = max(t.width, len(name))
	}
	head := fmt.Sprintf("%-*s%-15s%s\n", t.width+1, "Benchmark", "Time(ns)", "Iterations")
	t.Out.Write([]byte(head + strings.Repeat("-", len(head)-1) + "\n"))
}

func (t *text) Trial(x *Trial) {
	if x.Mode == probe.Bench {
		t.Out.Write(fmt.Appendf(nil, "%-*s%-15d%d\n", t.width+1, x.Name, x.Took.Nanoseconds(), x.Iterations))
		return
	}
	var b []byte
	if !t.begun {
		b = fmt.Appendf(b, green+"Running %d tests.\n", "[==========]", len(t.trials))
	}
	t.begun = true
	b = fmt.Appendf(b, green+"%s\n", "[ RUN      ]", x.Name)
	if x.Passed {
		b = fmt.Appendf(b, green, "[       OK ]")
	} else {
		t.failed = append(t.failed, x.Name)
		for line := range strings.SplitSeq(string(x.Output), "\n") {
			if line != "" {
				b = append(append(b, line...), '\n')
			}
		}
		b = fmt.Appendf(b, red, "[  FAILED  ]")
	}
	t.Out.Write(fmt.Appendf(b, "%s (%s)\n", x.Name, duration(x.Took)))
}

// duration formats a time in its largest unit, without a fraction.
func duration(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%d s", d/time.Second)
	case d >= time.Millisecond:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	case d >= time.Microsecond:
		return fmt.Sprintf("%d μs", d/time.Microsecond)
	}
	return fmt.Sprintf("%d ns", d)
}

// EndTrials prints a summary of tests.
func (t *text) EndTrials() {
	if t.mode != probe.Test {
		return
	}
	tests := func(n int) string {
		if n == 1 {
			return "1 test"
		}
		return fmt.Sprintf("%d tests", n)
	}
	b := fmt.Appendf(nil, green+"%s ran.\n", "[==========]", tests(len(t.trials)))
	b = fmt.Appendf(b, green+"%s.\n", "[  PASSED  ]", tests(len(t.trials)-len(t.failed)))
	if len(t.failed) > 0 {
		b = fmt.Appendf(b, red+"%s, listed below:\n", "[  FAILED  ]", tests(len(t.failed)))
	}
	for _, name := range t.failed {
		b = fmt.Appendf(b, red+"%s\n", "[  FAILED  ]", name)
	}
	t.Out.Write(b)
}

// Snapshot begins with an empty line, which separates it from the one before, and the time.
func (t *text) Snapshot(maps func(show func(*Map))) {
	at := orNow(t.At)
	t.rates.Next(at)
	if t.Env.Local != nil {
		at = t.Env.Local(at)
	}
	t.Out.Write(t.covered([]byte("\n" + at.Format(clock) + "\n")))
	maps(func(x *Map) {
		if t.Rate {
			own := *x
			own.Elements = render.Ordered(x.Map, x.Elements, x.Top)
			own.Top.Rate = t.rates.Of(t.Manifest, x.Map, own.Elements, x.Top.Keep == 0 || len(own.Elements) < x.Top.Keep)
			x = &own
		}
		t.Map(x)
	})
}

func (t *text) End(maps func(show func(*Map))) {
	t.Out.Write(t.covered([]byte("\n\n")))
	maps(t.Map)
}
