// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"strconv"
	"time"

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
	text    []byte // text of the current event
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
func (j *lines) end(dst []byte) { j.Out.End(append(dst, '}', '\n')) }

// function writes the text of a function.
func (j *lines) function(kind string, e *format.Event, text []byte) {
	j.endArguments(format.AppendQuoted(append(j.begin(kind, e.Event), `, "data": `...), text), e)
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

func (j *lines) Pinned(path string) { j.Out.Write([]byte("Program pinned to " + path + "\n")) }

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
	quoted := format.AppendQuoted(nil, piece)
	j.Out.Write(quoted[1 : len(quoted)-1])
	if last {
		j.endArguments(append(j.Out.Begin(), '"'), e)
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
	j.end(fmt.Appendf(dst, `, "line": %d, "col": %d`, line, col))
}

func (j *lines) Detached(d *Detachment) {
	dst := format.AppendQuoted(append(j.begin("detached", nil), `, "probe": `...), []byte(d.Probe))
	dst = format.AppendQuoted(append(dst, `, "filename": `...), []byte(j.Manifest.Script.File))
	dst = fmt.Appendf(dst, `, "line": %d, "col": %d, "reason": "budget", "budget": %g`, d.Pos.Line, d.Pos.Col, d.Budget)
	dst = fmt.Appendf(dst, `, "share": [%.6g, %.6g], "share_of_all": [%.6g, %.6g]`, d.Share[0], d.Share[1], d.All[0],
		d.All[1])
	dst = fmt.Appendf(dst, `, "from": "%s", "to": "%s", "covered_ns": %d`, d.From.UTC().Format(time.RFC3339Nano),
		d.To.UTC().Format(time.RFC3339Nano), d.To.Sub(d.From).Nanoseconds())
	j.end(dst)
	j.Out.Idle()
}

func (j *lines) Lost(n uint64) { j.count("lost_events", "events", n) }

func (j *lines) BeginTrials(string, []string) {}

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
		dst = format.AppendQuoted(dst, x.Output)
	}
	j.end(append(dst, "}}"...))
}

func (j *lines) EndTrials() {}

func (j *lines) Map(x *Map) { j.mapLine(j, x) }

func (j *lines) Snapshot(maps func(show func(*Map))) { maps(j.Map) }

func (j *lines) End(maps func(show func(*Map))) { maps(j.Map) }
