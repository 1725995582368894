// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/output"
	"btc/loader/render"
)

// formatter is an event's parsed format.
type formatter = format.Format

// formatters returns the formatter of each event by event number; nil for an event without a
// format.
func formatters(m *manifest.Manifest) []*formatter {
	out := make([]*formatter, len(m.Events))
	for i := range m.Events {
		switch m.Events[i].Kind {
		case "printf", "errorf", "warnf", "cat", "system":
			out[i] = format.ParseFormat(m.Events[i].Format)
		}
	}
	return out
}

type handler = func(*writer, *format.Event)

// handlers has one entry per event kind of the manifest.
var handlers map[string]handler

func init() {
	handlers = map[string]handler{
		"printf":       (*writer).onPrintf,
		"print":        func(s *writer, e *format.Event) { s.sink.Print(e) },
		"print_map":    (*writer).onPrintMap,
		"clear":        func(s *writer, e *format.Event) { s.onReset(e, s.maps.take) },
		"zero":         func(s *writer, e *format.Event) { s.onReset(e, s.maps.zero) },
		"exit":         (*writer).onExit,
		"time":         (*writer).onTime,
		"join":         (*writer).onJoin,
		"cat":          (*writer).onCat,
		"system":       (*writer).onSystem,
		"error":        (*writer).onError,
		"helper_error": (*writer).onHelperError,
		"errorf":       func(s *writer, e *format.Event) { s.onMessage(e, "ERROR") },
		"warnf":        func(s *writer, e *format.Event) { s.onMessage(e, "WARNING") },
		"unwatch":      func(s *writer, e *format.Event) { s.links.unwatch(e.Uint(0)) },
		"skboutput":    func(*writer, *format.Event) {}, // header of a packet, see packets; never in the ring buffer
		"proc":         func(s *writer, e *format.Event) { s.names.symbols().Snapshot(uint32(e.Uint(0))) },
		"unwind":       func(s *writer, e *format.Event) { s.walks.unwinder.Ask(uint32(e.Uint(0)), e.Uint(2)) },
	}
}

// eventTable has what is known of each event before the run, by event number.
type eventTable struct {
	formats  []*formatter // nil for an event without a format
	handlers []handler
	deferred []bool // reports whether the printer handles it
}

func newEventTable(m *manifest.Manifest) eventTable {
	t := eventTable{formatters(m), make([]handler, len(m.Events)), deferredEvents(m)}
	for i := range m.Events {
		t.handlers[i] = handlers[m.Events[i].Kind]
	}
	return t
}

// printf returns the formatted output of an event, valid until the next event.
func (s *writer) printf(e *format.Event) []byte {
	s.text = s.Env.Printf(s.text[:0], s.table.formats[e.ID], e.Values)
	return s.text
}

func (s *writer) onPrintf(e *format.Event) { s.sink.Printf(e, s.table.formats[e.ID]) }

// aheadWait is how long a print waits for the clear of the same program, which follows in the ring
// buffer within microseconds.
const aheadWait = 5 * time.Millisecond

// onPrintMap prints a map. If the script clears or zeroes the map next, both are done in one step,
// so that no update in between is lost.
func (s *writer) onPrintMap(e *format.Event) {
	m := s.manifest.Map(e.Map)
	top := s.opts.top(int(min(e.Uint(0), 1<<30)), uint32(e.Uint(1)))
	read := s.maps.elements
	kind := s.nextReset(e.Event)
	switch kind {
	case "clear":
		read = s.maps.take
	case "zero":
		read = s.maps.zero
	}
	if kind != "" && s.reader.exitAhead() {
		s.links.detach()
	}
	elems, err := read(m)
	if err != nil {
		s.msg.report(e.Pos, err)
	}
	x := &output.Map{Event: e.Event, Map: m, Elements: elems, Top: top}
	s.later(len(elems)*(m.KeySize+8*m.ValueSize), e.Pos, func(w *writer) { w.sink.Map(x) })
	if kind != "" {
		s.sweep(m, e.Pos)
	}
}

// nextReset consumes the clear or zero of e's map from the following events, if no other use of the
// map comes first. It returns the event's kind, or "".
func (s *writer) nextReset(e *manifest.Event) string {
	if !s.resets(e.Map) {
		return ""
	}
	kind := ""
	s.reader.events.ahead(aheadWait, func(r []byte) verdict {
		ev, err := format.DecodeEvent(s.manifest, r)
		switch {
		case err != nil || ev.Kind != "exit" && ev.Map != e.Map:
			return skipRecord
		case ev.Kind == "clear" || ev.Kind == "zero":
			kind = ev.Kind
			return takeRecord
		}
		return stopLooking
	})
	return kind
}

// resets reports whether the script ever clears or zeroes a map.
func (s *writer) resets(name string) bool {
	for i := range s.manifest.Events {
		if e := &s.manifest.Events[i]; e.Map == name && (e.Kind == "clear" || e.Kind == "zero") {
			return true
		}
	}
	return false
}

func (s *writer) onReset(e *format.Event, reset func(*manifest.Map) ([]render.Element, error)) {
	m := s.manifest.Map(e.Map)
	if s.reader.exitAhead() {
		// Waiting for programs that still use the old slot can take several intervals; their
		// updates would be missing from the last maps.
		s.links.detach()
	}
	if _, err := reset(m); err != nil {
		s.msg.report(e.Pos, err)
	}
	s.sweep(m, e.Pos)
}

func (s *writer) sweep(m *manifest.Map, pos manifest.Pos) {
	queued, done := s.msg.printer.progress()
	if err := s.maps.sweep(m, queued, done); err != nil {
		s.msg.report(pos, err)
	}
}

func (s *writer) onExit(e *format.Event) {
	s.end.exit(int(e.Uint(0) & 0xff))
}

func (s *writer) onTime(e *format.Event) {
	f := e.Format
	if f == "" && !slices.Contains(s.manifest.Requires, manifest.EmptyTime) {
		f = "%H:%M:%S\n" // the object is from before this feature
	}
	text := format.Strftime(nil, f, time.Now())
	if len(text) == 0 || len(text) >= maxTime {
		s.later(0, e.Pos, func(back *writer) {
			back.Out.Idle()
			back.errorLine("ERROR: strftime returned zero (Invalid argument)")
		})
		return
	}
	s.sink.Time(e, text)
}

// maxTime is the size of bpftrace's buffer for the output of time(), including the NUL. A longer
// result is an error, and so is an empty one.
const maxTime = 64

// onJoin prints strings joined by the separator; they arrive in one buffer, each NUL-terminated.
func (s *writer) onJoin(e *format.Event) {
	sep := e.Format
	if sep == "" {
		sep = " "
	}
	var parts [][]byte
	for part := range bytes.SplitSeq(e.Values[0].Bytes, []byte{0}) {
		if len(part) > 0 {
			parts = append(parts, part)
		}
	}
	s.sink.Join(e, parts, sep)
}

// onError reports a run-time error in a program, such as a division by zero.
func (s *writer) onError(e *format.Event) {
	i := e.Uint(0)
	if i >= uint64(len(s.manifest.Errors)) {
		return
	}
	if !s.losses.limited.admit(int(i), time.Now()) {
		return
	}
	s.end.errors++
	x := &s.manifest.Errors[i]
	s.report(&output.Diagnostic{
		Kind: "runtime_error", Severity: "WARNING", Pos: x.Pos, Chain: x.Chain, Text: x.Text,
		Source: true,
	})
}

// onHelperError reports a failed helper call.
func (s *writer) onHelperError(e *format.Event) {
	i := e.Uint(0)
	if i >= uint64(len(s.manifest.Errors)) || !s.losses.limited.admit(int(i), time.Now()) {
		return
	}
	x, code := &s.manifest.Errors[i], int(int32(e.Uint(1)))
	s.report(&output.Diagnostic{
		Kind: "helper_error", Severity: "WARNING", Pos: x.Pos, Chain: x.Chain, Text: helperText(x.Helper, code),
		Helper: x.Helper, Code: code, Source: true,
	})
}

// helperText describes a helper's error number.
func helperText(helper string, code int) string {
	switch {
	case helper == "map_lookup_elem":
		return "Can't lookup map element because it does not exist."
	case helper == "map_delete_elem" && code == -int(unix.ENOENT):
		return "Can't delete map element because it does not exist."
	}
	text := unix.Errno(-code).Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// onMessage handles errorf() and warnf().
func (s *writer) onMessage(e *format.Event, severity string) {
	if severity == "ERROR" && s.isFront {
		s.end.errors++
	}
	s.report(&output.Diagnostic{Kind: e.Kind, Severity: severity, Pos: e.Pos, Chain: e.Chain, Text: string(s.printf(e))})
}

// report reports a diagnostic.
func (s *writer) report(d *output.Diagnostic) {
	d.Muted = s.opts.NoWarnings && d.Severity == "WARNING"
	s.sink.Diagnostic(d)
}

// env returns the host data for printing values.
func (s *session) env() *format.Env {
	return &format.Env{
		Ksym:    s.names.ksym,
		Usym:    s.names.usym,
		Stack:   s.names.stack,
		Probe:   s.names.probe,
		User:    userName,
		Cgroup:  s.names.cgroups.Find,
		Clock:   s.host.Wall,
		Fail:    func(text string) { s.msg.line("ERROR: " + text) },
		Trailer: s.manifest.Config.StrTruncTrailer,
		Escape:  s.opts.Escape && !s.opts.Sink.JSON,
		Names:   s.opts.Names,
	}
}
