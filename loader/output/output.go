// SPDX-License-Identifier: Apache-2.0

// Package output implements the formats of a run's output: the language's text, JSON, and formats of metrics.
//
// A format is one file that implements Sink, and an entry in Formats. It receives the results of a run, as values
// with their layouts, and appends text to Run.Out. It reads no kernel maps, starts nothing, and does not influence
// the run.
package output

import (
	"time"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/render"
)

// Sink receives the results of a run and writes them in one format.
//
// A run has two sinks of its format, on two goroutines: one for output written while its event is handled, and one
// for output that may take long (maps, commands, symbols). They share nothing; the output combines both in the order
// of the events. Arguments are valid only during the call.
type Sink interface {
	// Attached reports that n probes are attached; not called with -q.
	Attached(n int)
	// Pinned reports the file that an iterator is pinned to.
	Pinned(path string)

	// Printf is printf(), with its parsed format.
	Printf(e *format.Event, f *format.Format)
	// Print is print() of the value e.Values[0].
	Print(e *format.Event)
	// Time is time(), formatted.
	Time(e *format.Event, text []byte)
	// Join is join(), with the non-empty strings.
	Join(e *format.Event, parts [][]byte, separator string)
	// Piece is a part of the file of cat() or of the output of a command of system(), as it arrives. It ends with a
	// whole character.
	Piece(e *format.Event, piece []byte, first, last bool)
	// Map is print() of a map.
	Map(x *Map)

	// Diagnostic is a message about the script.
	Diagnostic(d *Diagnostic)
	// Detached reports a probe that was detached during the run.
	Detached(d *Detachment)
	// Lost reports events that did not fit in the buffer.
	Lost(n uint64)

	// BeginTrials begins the tests or benchmarks ("test", "bench") with these names.
	BeginTrials(mode string, names []string)
	// Trial is one of them.
	Trial(t *Trial)
	// EndTrials ends them.
	EndTrials()

	// Snapshot shows the maps during the run, like End, at regular intervals. Nothing is cleared.
	Snapshot(maps func(show func(*Map)))
	// End is called at the end of the run. maps calls show for each map of the script, in order of name, with a nil
	// Map.Event.
	End(maps func(show func(*Map)))
}

// Reloader is a sink that notes that the object of its run has replaced another one.
type Reloader interface{ Reloaded() }

// Explainer is a sink that has reports of --why.
type Explainer interface{ Explained(x *Explanation) }

// Explanation is a report of --why.
type Explanation struct {
	Report   []string // its lines, the last of which has the sentence
	Cause    string   // the first cause: its name in the table, and the sentence; "": none
	Sentence string
	Line     int // of the clause; 0: it is one of the whole run
}

// Run is the sink's view of its run.
type Run struct {
	Manifest *manifest.Manifest
	Env      *format.Env // host data for printing values
	// Frames returns the addresses of a stack, innermost first.
	Frames func(l *manifest.Layout, id uint64) []uint64
	Out    *Writer   // the output
	At     time.Time // when the event was handled; zero: now
	// Message writes a line to the error output, after all that was written to Out before;
	// MessageNow does so at once.
	Message, MessageNow func(text string)
	// Rate is whether snapshots have rates.
	Rate bool
	// Post runs a job with at most size bytes of output after everything reported before by either sink, in order.
	// Until then the job counts as pending output.
	Post func(size int, job func())
	// Object is the object's name in metrics, Host the name of this machine.
	Object, Host string
	// Arch is the architecture of the run's machine; "": this one.
	Arch string
	// Map is the name of the map that a format of profiles writes; "": the only one with a stack in its key.
	Map string
	// MaxSeries is the maximum number of series of a metric; 0: DefaultMaxSeries. Buckets selects the bounds of those of
	// hist().
	MaxSeries int
	Buckets   aggregate.Range
	// Losses returns the losses since the start, by cause.
	Losses func() []Loss
	// Detachments returns the probes that were detached during the run, Costs what each attach
	// point cost; nil without a budget.
	Detachments func() []Detachment
	Costs       func() []Cost
	Started     time.Time // when the run began
	// More are further metrics, which are not of maps.
	More []Family
}

// Loss is the number of losses for a cause: events, map, scratch, stack.
type Loss struct {
	Cause string
	N     uint64
}

func (r *Run) detachments() []Detachment {
	if r.Detachments == nil {
		return nil
	}
	return r.Detachments()
}

func (r *Run) costs() []Cost {
	if r.Costs == nil {
		return nil
	}
	return r.Costs()
}

// Detachment is a probe that was detached because the programs cost more than their budget.
type Detachment struct {
	Probe    string // as the script has it
	Pos      manifest.Pos
	From, To time.Time     // time that the probe's data covers
	Run      time.Duration // duration of the run so far
	// Budget, and the shares of the last two windows of this probe and of all: 1 is one CPU.
	Budget     float64
	Share, All [2]float64
}

// Cost is what an attach point took until the last window of the budget ended.
type Cost struct {
	Probe    string
	Attached bool
	Covered  time.Duration // since the start, until now or the detachment
	Used     time.Duration // CPU time
}

// Map is a snapshot of a map.
type Map struct {
	Event    *manifest.Event // the event that prints it; nil: the end of the run
	Map      *manifest.Map
	Elements []render.Element
	Top      render.Top
}

// unset reports whether the map is a scalar that was never assigned.
func (x *Map) unset() bool {
	return x.Map.Scalar() && (len(x.Elements) == 0 || !x.Elements[0].Set)
}

// scalar returns the element of a scalar: zero when it was never assigned.
func (x *Map) scalar() *render.Element {
	if x.unset() {
		el := render.Empty(x.Map)
		return &el
	}
	return &x.Elements[0]
}

// isBlock reports whether the map's values print as a block of lines.
func (x *Map) isBlock() bool {
	return x.Map.Shape == "hist" || x.Map.Shape == "lhist" || x.Map.Shape == "tseries"
}

// Diagnostic is a message of the run with its position in the script.
type Diagnostic struct {
	Kind     string // errorf, warnf, runtime_error, helper_error
	Severity string // ERROR, WARNING
	Pos      manifest.Pos
	Chain    []manifest.Location // positions of a message in a macro
	Text     string
	Helper   string // helper that failed
	Code     int    // error number that the helper returned
	Source   bool   // show the line of the script
	Muted    bool   // a warning, and warnings are disabled
	Errno    string // Linux's message for Code, if this is another system
}

// Trial is the result of a test or benchmark.
type Trial struct {
	Name       string
	Mode       string // test, bench
	Passed     bool
	Took       time.Duration // each iteration
	Iterations int
	Output     []byte // output of a test
}

// Replacer is an output that keeps the last complete document: Replace makes the output since the last call replace
// the previous document. On error the previous document is kept.
type Replacer interface{ Replace() error }
