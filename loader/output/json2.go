// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/render"
)

// Lossless is the format that btc merge reads and writes.
const Lossless = "json2"

// Version is the version of json2 that runs write. Version1 is the name of the format that writes version 1.
const (
	Version  = 2
	Version1 = Lossless + "=1"
)

// json2 is JSON that keeps types and adds time and origin to each line. Its schema is
// docs/json2.schema.json.
var json2 = Format{Name: Lossless, Help: "lossless", JSON: true, Records: true, New: func(r *Run) Sink { return newJSON2(r, false) }}

// json2Version1 is version 1: its stacks have all frames as text, and a replay lacks information.
var json2Version1 = Format{Name: Version1, JSON: true, New: func(r *Run) Sink {
	return &lines{
		Run: r, values: &format.JSON{Env: r.Env, Full: true, Frames: r.Frames, Written: r.Out.Pass},
		origin: json2Origin, arguments: json2Arguments, mapLine: json2Map,
	}
}}

// Recording is json2 with all elements of maps, whatever the user wants to see.
var Recording = Format{Name: Lossless, JSON: true, Records: true, New: func(r *Run) Sink { return newJSON2(r, true) }}

func newJSON2(r *Run, all bool) *lines {
	return &lines{
		Run: r, values: &format.JSON{Env: r.Env, Full: true, Table: &format.FrameTable{}, AllNames: all, Written: r.Out.Pass},
		origin: json2Event, arguments: json2Arguments, mapLine: json2Map, records: true, all: all,
	}
}

// json2Event appends what json2Origin does, and the number of the event.
func json2Event(dst []byte, r *Run, e *manifest.Event) []byte {
	if dst = json2Origin(dst, r, e); e != nil {
		dst = strconv.AppendInt(append(dst, `, "event": `...), int64(e.ID), 10)
	}
	return dst
}

// json2Origin appends the time and, for an event, the position of its call and the attach points of its clause.
func json2Origin(dst []byte, r *Run, e *manifest.Event) []byte {
	dst = append(dst, `, "time": "`...)
	at := r.At
	if at.IsZero() {
		at = time.Now()
	}
	dst = append(at.UTC().AppendFormat(dst, time.RFC3339Nano), '"')
	if e == nil || e.Pos.Line == 0 {
		return dst
	}
	dst = fmt.Appendf(dst, `, "line": %d, "col": %d, "probes": `, e.Pos.Line, e.Pos.Col)
	return appendList(dst, ProbesAt(r.Manifest, e.Pos))
}

// ProbesAt lists the attach points of the clause at a position of the script.
func ProbesAt(m *manifest.Manifest, at manifest.Pos) []string {
	clause := -1
	var best manifest.Pos
	for i := range m.Programs {
		p := &m.Programs[i]
		if !before(at, p.Pos) && !before(p.Pos, best) {
			clause, best = p.Clause, p.Pos
		}
	}
	var texts []string
	seen := map[string]bool{} // of many programs
	for i := range m.Programs {
		p := &m.Programs[i]
		if p.Clause != clause || seen[p.Attach.Text] || len(texts) < 8 && slices.Contains(texts, p.Attach.Text) {
			continue
		}
		if texts = append(texts, p.Attach.Text); len(texts) >= 8 {
			for _, text := range texts[len(seen):] {
				seen[text] = true
			}
		}
	}
	return texts
}

func before(a, b manifest.Pos) bool { return a.Line < b.Line || a.Line == b.Line && a.Col < b.Col }

// json2Arguments appends the arguments of a function.
func json2Arguments(dst []byte, j *format.JSON, e *format.Event) []byte {
	if len(e.Values) == 0 {
		return dst
	}
	dst = append(dst, `, "args": [`...)
	from := len(dst)
	for i, v := range e.Values {
		if len(dst)-from > format.MaxText {
			return append(dst, `], "truncated": true`...)
		}
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = j.Append(dst, v)
	}
	return append(dst, ']')
}

// json2Map writes the name, the shape and the entries; a scalar has one entry without a key. Version 2 has values that
// are not divided, and a line for a scalar that was never assigned even at the end.
func json2Map(j *lines, x *Map) {
	if x.unset() && x.Event == nil && !j.records {
		return
	}
	dst := append(j.begin("map", x.Event), `, "name": `...)
	dst = append(format.AppendQuoted(dst, []byte(x.Map.Name)), `, "shape": `...)
	dst = json2Origins(format.AppendQuoted(dst, []byte(x.Map.Shape)), j.Run, x.Map)
	top := x.Top
	if j.records {
		dst, top = json2Top(dst, x), render.Top{Order: top.Order, Keep: top.Keep}
		if j.all {
			top = render.Top{}
		}
	}
	dst = append(dst, `, "entries": [`...)
	switch {
	case !x.Map.Scalar():
		dst = json2Elements(dst, j, x, top)
	case !x.unset():
		dst = append(render.ValueJSON(append(dst, `{"value": `...), j.values, x.Map, x.scalar(), top.Div), '}')
	}
	j.end(append(dst, ']'))
}

// json2Top appends how the map is printed, the names of the parts of its keys, and the last interval of a time series.
func json2Top(dst []byte, x *Map) []byte {
	if x.Top.Keep > 0 {
		dst = strconv.AppendInt(append(dst, `, "top": `...), int64(x.Top.Keep), 10)
	}
	if x.Top.Div > 1 {
		dst = strconv.AppendUint(append(dst, `, "div": `...), uint64(x.Top.Div), 10)
	}
	if slices.ContainsFunc(x.Map.KeyNames, func(name string) bool { return name != "" }) {
		dst = appendList(append(dst, `, "key_names": `...), x.Map.KeyNames)
	}
	if x.Map.Shape == "tseries" && len(x.Elements) > 0 {
		last := render.Start(x.Map, x.Elements[0].Last).UTC()
		dst = append(last.AppendFormat(append(dst, `, "last": "`...), time.RFC3339Nano), '"')
	}
	return dst
}

// appendList appends strings as a list.
func appendList(dst []byte, all []string) []byte {
	dst = append(dst, '[')
	for i, s := range all {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = format.AppendQuoted(dst, []byte(s))
	}
	return append(dst, ']')
}

// json2Origins appends what merging the runs of several hosts needs: where the map comes from, and what determines
// its values.
func json2Origins(dst []byte, r *Run, m *manifest.Map) []byte {
	dst = format.AppendQuoted(append(dst, `, "object": `...), []byte(r.Manifest.Object.SHA256))
	dst = format.AppendQuoted(append(dst, `, "host": `...), []byte(r.Host))
	return render.JSONBounds(dst, m)
}

// json2Elements appends the entries of a keyed map. A key is always an array: the parts of the key.
func json2Elements(dst []byte, j *lines, x *Map, top render.Top) []byte {
	layout := render.KeyLayout(x.Map)
	for i, el := range render.Ordered(x.Map, x.Elements, top) {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		key := format.Value{Layout: layout, Bytes: el.Key}
		dst = append(dst, `{"key": `...)
		if layout.Kind == "tuple" {
			dst = j.values.Append(dst, key)
		} else {
			dst = append(j.values.Append(append(dst, '['), key), ']')
		}
		dst = append(render.ValueJSON(append(dst, `, "value": `...), j.values, x.Map, &el, top.Div), '}')
		dst = j.Out.Pass(dst)
	}
	return dst
}
