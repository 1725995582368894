package run

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"btc/loader/event"
	"btc/loader/format"
	"btc/loader/manifest"
	"btc/loader/render"
	"btc/loader/report"
)

// Formats are the names of the output formats: the language's text, its JSON, and
// a JSON that leaves nothing out (docs/json.md).
var Formats = []string{"text", "json", "json2"}

// lines tells whether the output is one JSON object a line.
func (s *session) lines() bool { return s.opts.Format == "json" || s.full() }

func (s *session) full() bool { return s.opts.Format == "json2" }

func (s *writer) json() *format.JSON {
	return &format.JSON{Env: s.env(), Full: s.full(), Frames: s.maps.frames}
}

// begin starts the line of an event, up to where its members follow. e is nil for
// what no event has caused.
func (s *writer) begin(kind string, e *manifest.Event) []byte {
	dst := append(append([]byte(`{"type": "`), kind...), '"')
	if !s.full() {
		return dst
	}
	dst = append(dst, `, "time": "`...)
	at := s.at
	if at.IsZero() {
		at = time.Now()
	}
	dst = append(at.UTC().AppendFormat(dst, time.RFC3339Nano), '"')
	if e == nil || e.Pos.Line == 0 {
		return dst
	}
	dst = fmt.Appendf(dst, `, "line": %d, "col": %d, "probes": [`, e.Pos.Line, e.Pos.Col)
	for i, p := range s.probesAt(e.Pos) {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = format.AppendQuoted(dst, []byte(p))
	}
	return append(dst, ']')
}

// probesAt lists the attach points of the clause that a place of the script is in.
func (s *session) probesAt(at manifest.Pos) []string {
	clause := -1
	var best manifest.Pos
	for i := range s.manifest.Programs {
		p := &s.manifest.Programs[i]
		if !before(at, p.Pos) && !before(p.Pos, best) {
			clause, best = p.Clause, p.Pos
		}
	}
	var texts []string
	for i := range s.manifest.Programs {
		if p := &s.manifest.Programs[i]; p.Clause == clause && !slices.Contains(texts, p.Attach.Text) {
			texts = append(texts, p.Attach.Text)
		}
	}
	return texts
}

func before(a, b manifest.Pos) bool { return a.Line < b.Line || a.Line == b.Line && a.Col < b.Col }

func (s *writer) line(dst []byte) { s.out.write(append(dst, '}', '\n')) }

// print writes a text of the script, which has a type of its own as JSON.
func (s *writer) print(kind string, e *event.Event, text []byte) {
	if !s.lines() {
		s.out.write(text)
		return
	}
	dst := format.AppendQuoted(append(s.begin(kind, e.Event), `, "data": `...), text)
	s.line(s.arguments(dst, e))
}

// arguments appends the event's arguments, in the JSON that has all.
func (s *writer) arguments(dst []byte, e *event.Event) []byte {
	if !s.full() || len(e.Values) == 0 {
		return dst
	}
	j := s.json()
	dst = append(dst, `, "args": [`...)
	for i, v := range e.Values {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = j.Append(dst, v)
	}
	return append(dst, ']')
}

// value writes what print() was given.
func (s *writer) value(e *event.Event) {
	s.line(s.json().Append(append(s.begin("value", e.Event), `, "data": `...), e.Values[0]))
}

// mapLine writes a map; e is the event that asks for it, if any.
func (s *writer) mapLine(e *manifest.Event, m *manifest.Map, elems []render.Element, top render.Top) {
	j := s.json()
	isStats := render.JSONType(m) == "stats"
	switch {
	case s.full():
		if m.Scalar() && len(elems) > 0 && !elems[0].Set {
			elems = nil
		}
		s.line(render.FullJSON(append(s.begin("map", e), ", "...), j, m, elems, top))
	case isStats && (len(elems) == 0 || m.Scalar() && e == nil && !elems[0].Set):
		s.line(render.EmptyJSON(append(s.begin(render.JSONType(m), e), `, "data": `...), m))
	case isBlock(m) && m.Scalar() && (len(elems) == 0 || !elems[0].Set):
	case m.Scalar():
		el := scalarElement(m, elems)
		s.line(render.ScalarJSON(append(s.begin(render.JSONType(m), e), `, "data": `...), j, m, &el, top))
	case len(elems) > 0:
		s.line(render.KeyedJSON(append(s.begin(render.JSONType(m), e), `, "data": `...), j, m, elems, top))
	}
}

// notice writes a line with a number, such as the count of attached probes.
func (s *writer) notice(kind, what string, n uint64) {
	dst := strconv.AppendUint(append(s.begin(kind, nil), `, "count": `...), n, 10)
	s.line(fmt.Appendf(dst, `, "data": {"%s": %d}`, what, n))
}

// diagnostic is a message of the run with its place in the script.
type diagnostic struct {
	kind     string // the line's type: errorf, warnf, runtime_error, helper_error
	severity string
	pos      manifest.Pos
	chain    []manifest.Place // of a message in a macro
	text     string
	helper   string // that failed
	code     int    // and what it answered
	source   bool   // the text form shows the line of the script
}

// say writes a diagnostic: to the output as JSON, as text to the error output.
func (s *writer) say(d *diagnostic) {
	// As JSON, the reference leaves a fault such as a division by zero in then.
	if s.opts.NoWarnings && d.severity == "WARNING" && (!s.lines() || d.kind != "runtime_error") {
		return
	}
	if !s.lines() {
		f := &report.Fault{Script: &s.manifest.Script, Pos: d.pos, Chain: d.chain, Text: d.text}
		if d.helper != "" {
			f.Text += fmt.Sprintf("\nAdditional Info - helper: %s, retcode: %d", d.helper, d.code)
		}
		if d.source {
			s.message(f.Message(d.severity))
		} else {
			s.message(f.Brief(d.severity))
		}
		return
	}
	dst := format.AppendQuoted(append(s.begin(d.kind, nil), `, "msg": `...), []byte(d.text))
	if d.helper != "" {
		dst = fmt.Appendf(dst, `, "helper": "%s", "retcode": %d`, d.helper, d.code)
	}
	file, line, col := s.manifest.Script.File, d.pos.Line, d.pos.Col
	if len(d.chain) > 0 {
		line, col = d.chain[0].Line, d.chain[0].Col
		if d.chain[0].File != "" {
			file = d.chain[0].File
		}
	}
	dst = format.AppendQuoted(append(dst, `, "filename": `...), []byte(file))
	s.line(fmt.Appendf(dst, `, "line": %d, "col": %d`, line, col))
}
