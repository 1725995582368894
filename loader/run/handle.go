// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/loader/diag"
	"btc/loader/format"
	"btc/loader/output"
	"btc/loader/render"
	"btc/loader/symbols"
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
		"unwatch":      func(s *writer, e *format.Event) { s.unwatch(e.Uint(0)) },
		"skboutput":    func(*writer, *format.Event) {}, // header of a packet, see packets; never in the ring buffer
		"proc":         func(s *writer, e *format.Event) { s.symbols().Snapshot(uint32(e.Uint(0))) },
	}
}

// handle processes a record. Handlers must not retain the event or its values.
func (s *session) handle(record []byte) {
	w := s.front
	e := &w.event
	if err := e.Read(s.manifest, record); err != nil {
		s.warn(fmt.Sprintf("WARNING: %v", err))
		return
	}
	defer s.countShown(e.Kind)
	if s.deferred[e.ID] {
		if e.Kind == "errorf" {
			s.errors++
		}
		w.postpone(e, record)
		return
	}
	s.handlers[e.ID](w, e)
}

// handlersOf returns the handler of each event by event number.
func handlersOf(m *manifest.Manifest) []handler {
	out := make([]handler, len(m.Events))
	for i := range m.Events {
		out[i] = handlers[m.Events[i].Kind]
	}
	return out
}

// complain reports an error that does not end the run.
func (s *session) complain(pos manifest.Pos, err error) {
	f := &diag.Error{Script: &s.manifest.Script, Pos: pos, Text: err.Error()}
	s.warnOf(f)
}

// warnOf shows a warning with its position, unless warnings are disabled.
func (s *session) warnOf(f *diag.Error) {
	switch {
	case s.opts.NoWarnings:
	case s.opts.PaintWarning != nil:
		s.queueMessage(func() { s.screen.Around(func() { s.opts.PaintWarning(f) }) }, len(f.Text))
	default:
		s.logLine(f.Warning())
	}
}

// warn shows a warning, unless warnings are disabled.
func (s *session) warn(text string) {
	if !s.opts.NoWarnings {
		s.logLine(text)
	}
}

// logLine writes a line to the error output; any goroutine may call it. During the run the printer
// writes the line, so only the printer blocks on a slow reader.
func (s *session) logLine(text string) {
	s.queueMessage(func() { fmt.Fprintln(s.opts.Err, text) }, len(text))
}

// queueMessage queues a message of size bytes; messages are written in order.
func (s *session) queueMessage(write func(), size int) {
	p := s.printer
	if p == nil || !s.live.Load() {
		write()
		return
	}
	p.do(size, write)
	p.put(nil, true)
}

// printf returns the formatted output of an event, valid until the next event.
func (s *writer) printf(e *format.Event) []byte {
	s.text = s.Env.Printf(s.text[:0], s.format[e.ID], e.Values)
	return s.text
}

func (s *writer) onPrintf(e *format.Event) { s.sink.Printf(e, s.format[e.ID]) }

// aheadWait is how long a print waits for the clear of the same program, which follows in the ring
// buffer within microseconds.
const aheadWait = 5 * time.Millisecond

// onPrintMap prints a map. If the script clears or zeroes the map next, both are done in one step,
// so that no update in between is lost.
func (s *writer) onPrintMap(e *format.Event) {
	m := s.manifest.Map(e.Map)
	top := s.top(int(min(e.Uint(0), 1<<30)), uint32(e.Uint(1)))
	read := s.maps.elements
	kind := s.nextReset(e.Event)
	switch kind {
	case "clear":
		read = s.maps.take
	case "zero":
		read = s.maps.zero
	}
	if kind != "" && s.exitAhead() {
		s.detach()
	}
	elems, err := read(m)
	if err != nil {
		s.complain(e.Pos, err)
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
	s.events.ahead(aheadWait, func(r []byte) verdict {
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
func (s *session) resets(name string) bool {
	for i := range s.manifest.Events {
		if e := &s.manifest.Events[i]; e.Map == name && (e.Kind == "clear" || e.Kind == "zero") {
			return true
		}
	}
	return false
}

func (s *writer) onReset(e *format.Event, reset func(*manifest.Map) ([]render.Element, error)) {
	m := s.manifest.Map(e.Map)
	if s.exitAhead() {
		// Waiting for programs that still use the old slot can take several intervals; their
		// updates would be missing from the last maps.
		s.detach()
	}
	if _, err := reset(m); err != nil {
		s.complain(e.Pos, err)
	}
	s.sweep(m, e.Pos)
}

// exitAhead reports whether there is an exit among the pending events.
func (s *session) exitAhead() bool {
	found := false
	s.events.ahead(0, func(r []byte) verdict {
		ev, err := format.DecodeEvent(s.manifest, r)
		if err != nil || ev.Kind != "exit" {
			return skipRecord
		}
		found = true
		return stopLooking
	})
	return found
}

func (s *writer) sweep(m *manifest.Map, pos manifest.Pos) {
	queued, done := s.printer.progress()
	if err := s.maps.sweep(m, queued, done); err != nil {
		s.complain(pos, err)
	}
}

func (s *writer) onExit(e *format.Event) {
	s.exited = true
	s.status = int(e.Uint(0) & 0xff)
}

func (s *writer) onTime(e *format.Event) {
	f := e.Format
	if f == "" && !slices.Contains(s.manifest.Requires, manifest.EmptyTime) {
		f = "%H:%M:%S\n" // the object is from before this feature
	}
	text := format.Strftime(nil, f, time.Now())
	if len(text) == 0 || len(text) >= maxTime {
		s.message("ERROR: strftime returned zero (Invalid argument)")
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
	if !s.limited.admit(int(i), time.Now()) {
		return
	}
	s.errors++
	x := &s.manifest.Errors[i]
	s.report(&output.Diagnostic{
		Kind: "runtime_error", Severity: "WARNING", Pos: x.Pos, Chain: x.Chain, Text: x.Text,
		Source: true,
	})
}

// onHelperError reports a failed helper call.
func (s *writer) onHelperError(e *format.Event) {
	i := e.Uint(0)
	if i >= uint64(len(s.manifest.Errors)) || !s.limited.admit(int(i), time.Now()) {
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
		s.errors++
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
		Ksym:    s.ksym,
		Usym:    s.usym,
		Kstack:  s.kstack,
		Ustack:  s.ustack,
		Probe:   s.probeName,
		User:    userName,
		Cgroup:  s.cgroups.Find,
		Clock:   s.host.Wall,
		Fail:    func(text string) { s.logLine("ERROR: " + text) },
		Trailer: s.manifest.Config.StrTruncTrailer,
		Escape:  s.opts.Escape && !s.opts.Format.JSON,
		Names:   s.opts.Names,
	}
}

func (s *session) ksym(addr uint64) string {
	if name, ok := s.probedFunc(addr); ok {
		return name
	}
	s.lookup.Lock()
	defer s.lookup.Unlock()
	return s.symbols().Ksym(addr)
}

func (s *session) usym(addr uint64, tgid uint32) string {
	if name, ok := s.probedFunc(addr); ok {
		return name
	}
	s.lookup.Lock()
	defer s.lookup.Unlock()
	return s.symbols().Usym(addr, tgid)
}

// probedFunc returns the function of an attach point. Programs send the attach point's number in
// place of an address, marked by 10 in the two top bits, which no address has (docs/layouts.md,
// func).
func (s *session) probedFunc(addr uint64) (string, bool) {
	if addr>>62 != 2 {
		return "", false
	}
	name := s.probeName(addr & 0xffffffff)
	name = name[strings.LastIndexByte(name, ':')+1:]
	name, _, _ = strings.Cut(name, "+")
	return name, true
}

func (s *session) kstack(l *manifest.Layout, id uint64) string {
	s.lookup.Lock()
	defer s.lookup.Unlock()
	return s.symbols().Kstack(s.maps.frames(l, id), l.Mode)
}

func (s *session) ustack(l *manifest.Layout, id uint64, tgid uint32) string {
	s.lookup.Lock()
	defer s.lookup.Unlock()
	return s.symbols().Ustack(s.maps.frames(l, id), l.Mode, tgid)
}

func (s *session) symbols() *symbols.Table {
	if s.symTable == nil {
		s.symTable = symbols.New(s.manifest.Config.CppDemangle)
		s.symTable.Referenced, s.symTable.Warn = s.referenced, func(text string) { s.warn(text) }
	}
	return s.symTable
}

func (s *session) probeName(id uint64) string {
	if name, ok := s.expansion.Probes[int(id)]; ok {
		return name
	}
	return strconv.FormatUint(id, 10)
}

// userName looks up a user ID in /etc/passwd.
func userName(uid uint64) string {
	want := strconv.FormatUint(uid, 10)
	b, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return want
	}
	for line := range bytes.Lines(b) {
		parts := bytes.SplitN(line, []byte(":"), 4)
		if len(parts) == 4 && string(parts[2]) == want {
			return string(parts[0])
		}
	}
	return want
}
