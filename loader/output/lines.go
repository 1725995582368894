// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/format"
)

// lines is the sink of formats with one JSON object per line.
type lines struct {
	*Run
	values *format.JSON
	// origin appends the origin of a line's event, which is nil if the line has none.
	origin func(dst []byte, r *Run, e *manifest.Event) []byte
	// arguments appends the values of the event of a line with text.
	arguments func(dst []byte, j *format.JSON, e *format.Event) []byte
	// message, if not nil, returns the text for a failed helper instead of the diagnostic's text.
	message func(d *Diagnostic) string
	// mapLine writes a map.
	mapLine func(j *lines, x *Map)
	records bool   // version 2 of json2: there is what a replay needs
	all     bool   // all elements of maps
	text    []byte // text of the current event
	invalid []byte // see appendInvalid
}

// begin starts the line of an event, up to its members.
func (j *lines) begin(kind string, e *manifest.Event) []byte {
	dst := append(append(append(j.Out.Begin(), `{"type": "`...), kind...), '"')
	if j.origin != nil {
		dst = j.origin(dst, j.Run, e)
	}
	return dst
}

// end ends the line.
func (j *lines) end(dst []byte) { j.Out.End(append(j.values.AppendFrames(dst), '}', '\n')) }

// function writes the text of a function.
func (j *lines) function(kind string, e *format.Event, text []byte) {
	j.endArguments(j.exact(format.AppendQuoted(append(j.begin(kind, e.Event), `, "data": `...), text), text), e)
}

// exact appends the bytes of text that the line cannot represent, for a replay.
func (j *lines) exact(dst, text []byte) []byte {
	if !j.records {
		return dst
	}
	return j.endInvalid(dst, appendInvalid(nil, text))
}

// endInvalid appends a list made by appendInvalid, if any byte is invalid.
func (j *lines) endInvalid(dst, list []byte) []byte {
	if len(bytes.TrimLeft(list, ",")) == 0 {
		return dst
	}
	return append(append(append(dst, `, "invalid": "`...), list[:len(list)-1]...), '"')
}

// appendInvalid appends an item for each replacement character that text has as a JSON string: the byte in hexadecimal
// that it replaces, or nothing if the character is part of the text.
func appendInvalid(dst, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError {
			if n == 1 {
				dst = fmt.Appendf(dst, "%02x", text[0])
			}
			dst = append(dst, ',')
		}
		text = text[n:]
	}
	return dst
}

// endArguments ends the line after the text of a function.
func (j *lines) endArguments(dst []byte, e *format.Event) {
	if j.arguments != nil {
		dst = j.arguments(dst, j.values, e)
	}
	j.end(dst)
}

// count writes a line with a number, such as that of the attached probes.
func (j *lines) count(kind, what string, n uint64) {
	dst := strconv.AppendUint(append(j.begin(kind, nil), `, "count": `...), n, 10)
	j.end(fmt.Appendf(dst, `, "data": {"%s": %d}`, what, n))
}

func (j *lines) Attached(n int) {
	j.count("attached_probes", "probes", uint64(n))
	j.Out.Idle()
}

// Reloaded is part of the lossless format only.
func (j *lines) Reloaded() {
	if j.origin != nil {
		j.end(format.AppendQuoted(append(j.begin("reload", nil), `, "object": `...), []byte(j.Manifest.Object.SHA256)))
		j.Out.Idle()
	}
}

// Explained is part of version 2 of the lossless format only.
func (j *lines) Explained(x *Explanation) {
	if !j.records {
		return
	}
	dst := j.begin("why", nil)
	if x.Cause != "" {
		dst = format.AppendQuoted(append(dst, `, "cause": `...), []byte(x.Cause))
		dst = format.AppendQuoted(append(dst, `, "msg": `...), []byte(x.Sentence))
	}
	if x.Line > 0 {
		dst = strconv.AppendInt(append(dst, `, "line": `...), int64(x.Line), 10)
	}
	dst = append(dst, `, "report": `...)
	j.end(appendList(dst, x.Report))
}

func (j *lines) Pinned(path string) {
	if j.records {
		j.end(format.AppendQuoted(append(j.begin("pinned", nil), `, "path": `...), []byte(path)))
		return
	}
	j.Out.Write([]byte("Program pinned to " + path + "\n"))
}

func (j *lines) Printf(e *format.Event, f *format.Format) {
	j.text = j.Env.Printf(j.text[:0], f, e.Values)
	j.function("printf", e, j.text)
}

func (j *lines) Print(e *format.Event) {
	j.end(j.values.Append(append(j.begin("value", e.Event), `, "data": `...), e.Values[0]))
}

func (j *lines) Time(e *format.Event, text []byte) { j.function("time", e, text) }

func (j *lines) Join(e *format.Event, parts [][]byte, separator string) {
	j.text = joined(j.text[:0], j.Env, parts, separator)
	j.function("join", e, j.text)
}

func (j *lines) Piece(e *format.Event, piece []byte, first, last bool) {
	if first {
		kind := e.Kind
		if kind == "system" {
			kind = "syscall"
		}
		j.Out.End(append(j.begin(kind, e.Event), `, "data": "`...))
	}
	if j.records {
		j.invalid = appendInvalid(j.invalid, piece)
	}
	quoted := format.AppendQuoted(nil, piece)
	j.Out.Write(quoted[1 : len(quoted)-1])
	if last {
		j.endArguments(j.endInvalid(append(j.Out.Begin(), '"'), j.invalid), e)
		j.invalid = nil
	}
}

// Diagnostic omits muted warnings, but not errors such as a division by zero, as bpftrace does in its JSON.
func (j *lines) Diagnostic(d *Diagnostic) {
	if d.Muted && d.Kind != "runtime_error" {
		return
	}
	text := d.Text
	if d.Helper != "" && j.message != nil {
		text = j.message(d)
	}
	dst := format.AppendQuoted(append(j.begin(d.Kind, nil), `, "msg": `...), []byte(text))
	if d.Helper != "" {
		dst = fmt.Appendf(dst, `, "helper": "%s", "retcode": %d`, d.Helper, d.Code)
	}
	file, line, col := j.Manifest.Script.File, d.Pos.Line, d.Pos.Col
	if len(d.Chain) > 0 {
		line, col = d.Chain[0].Line, d.Chain[0].Col
		if d.Chain[0].File != "" {
			file = d.Chain[0].File
		}
	}
	dst = format.AppendQuoted(append(dst, `, "filename": `...), []byte(file))
	dst = fmt.Appendf(dst, `, "line": %d, "col": %d`, line, col)
	if j.records {
		dst = j.shown(j.exact(dst, []byte(text)), d)
	}
	j.end(dst)
}

// shown appends how other formats show a message.
func (j *lines) shown(dst []byte, d *Diagnostic) []byte {
	if d.Helper != "" {
		dst = format.AppendQuoted(append(dst, `, "errno": `...), []byte(helperErrno(d)))
	}
	if d.Muted {
		dst = append(dst, `, "muted": true`...)
	}
	if d.Source {
		dst = append(dst, `, "source": true`...)
	}
	dst = appendPos(dst, d.Pos)
	for i, l := range d.Chain {
		dst = append(dst, [2]string{`, "chain": [`, ", "}[min(i, 1)]...)
		dst = format.AppendQuoted(append(dst, `{"file": `...), []byte(l.File))
		dst = fmt.Appendf(dst, `, "line": %d, "col": %d, "end_line": %d, "end_col": %d, "text": `, l.Line, l.Col, l.EndLine, l.EndCol)
		dst = append(format.AppendQuoted(dst, []byte(l.Text)), '}')
	}
	if len(d.Chain) > 0 {
		dst = append(dst, ']')
	}
	return dst
}

// appendPos appends a position with its end.
func appendPos(dst []byte, p manifest.Pos) []byte {
	return fmt.Appendf(dst, `, "pos": [%d, %d, %d]`, p.Line, p.Col, p.EndCol)
}

func (j *lines) Detached(d *Detachment) {
	dst := format.AppendQuoted(append(j.begin("detached", nil), `, "probe": `...), []byte(d.Probe))
	dst = format.AppendQuoted(append(dst, `, "filename": `...), []byte(j.Manifest.Script.File))
	dst = fmt.Appendf(dst, `, "line": %d, "col": %d, "reason": "budget", "budget": %g`, d.Pos.Line, d.Pos.Col, d.Budget)
	shares := `, "share": [%.6g, %.6g], "share_of_all": [%.6g, %.6g]`
	if j.records {
		shares = `, "share": [%g, %g], "share_of_all": [%g, %g]`
	}
	dst = fmt.Appendf(dst, shares, d.Share[0], d.Share[1], d.All[0], d.All[1])
	dst = fmt.Appendf(dst, `, "from": "%s", "to": "%s", "covered_ns": %d`, d.From.UTC().Format(time.RFC3339Nano),
		d.To.UTC().Format(time.RFC3339Nano), d.To.Sub(d.From).Nanoseconds())
	if j.records {
		dst = appendPos(dst, d.Pos)
	}
	j.end(dst)
	j.Out.Idle()
}

func (j *lines) Lost(n uint64) { j.count("lost_events", "events", n) }

func (j *lines) BeginTrials(mode string, names []string) {
	if j.records {
		dst := format.AppendQuoted(append(j.begin("trials", nil), `, "mode": `...), []byte(mode))
		j.end(appendList(append(dst, `, "names": `...), names))
	}
}

func (j *lines) Trial(x *Trial) {
	kind := "test_result"
	if x.Mode == probe.Bench {
		kind = "benchmark_result"
	}
	dst := append(format.AppendQuoted(append(j.begin(kind, nil), `, "data": {`...), []byte(x.Name)), ": {"...)
	if x.Mode == probe.Bench {
		dst = fmt.Appendf(dst, `"average": %d, "iters": %d`, x.Took.Nanoseconds(), x.Iterations)
	} else {
		dst = fmt.Appendf(dst, `"duration": %d, "passed": %v, "output": `, x.Took.Nanoseconds(), x.Passed)
		dst = j.exact(format.AppendQuoted(dst, x.Output), x.Output)
	}
	j.end(append(dst, "}}"...))
}

func (j *lines) EndTrials() {
	if j.records {
		j.end(append(j.begin("trials", nil), `, "end": true`...))
	}
}

func (j *lines) Map(x *Map) { j.mapLine(j, x) }

func (j *lines) Snapshot(maps func(show func(*Map))) {
	j.snapshot(false)
	maps(j.Map)
}

func (j *lines) End(maps func(show func(*Map))) {
	j.snapshot(true)
	maps(j.Map)
}

// snapshot writes a line before the maps, with what formats of metrics write besides them.
func (j *lines) snapshot(final bool) {
	if !j.records {
		return
	}
	dst := fmt.Appendf(j.begin("snapshot", nil), `, "final": %v`, final)
	if j.Losses != nil {
		dst = append(dst, `, "losses": [`...)
		for i, l := range j.Losses() {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = format.AppendQuoted(append(dst, `{"cause": `...), []byte(l.Cause))
			dst = append(strconv.AppendUint(append(dst, `, "count": `...), l.N, 10), '}')
		}
		dst = append(dst, ']')
	}
	for _, d := range j.detachments() {
		dst = strconv.AppendInt(append(dst, `, "run_ns": `...), int64(d.Run), 10)
		break
	}
	costs := j.costs()
	for i := range costs {
		c := &costs[i]
		dst = format.AppendQuoted(append(dst, [2]string{`, "costs": [{"probe": `, `, {"probe": `}[min(i, 1)]...), []byte(c.Probe))
		dst = fmt.Appendf(dst, `, "attached": %v, "covered_ns": %d, "used_ns": %d}`, c.Attached, c.Covered, c.Used)
	}
	if len(costs) > 0 {
		dst = append(dst, ']')
	}
	j.end(dst)
}
