// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"slices"
	"time"

	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/render"
)

// Lossless is the format that btc merge reads and writes.
const Lossless = "json2"

// json2 is JSON that keeps types and adds time and origin to each line. Its schema is
// docs/json2.schema.json.
var json2 = Format{Name: Lossless, Help: "lossless", JSON: true, New: func(r *Run) Sink {
	return &lines{
		Run: r, values: &format.JSON{Env: r.Env, Full: true, Frames: r.Frames, Written: r.Out.Pass},
		origin: json2Origin, arguments: json2Arguments, mapLine: json2Map,
	}
}}

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
	dst = fmt.Appendf(dst, `, "line": %d, "col": %d, "probes": [`, e.Pos.Line, e.Pos.Col)
	for i, p := range probesAt(r.Manifest, e.Pos) {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = format.AppendQuoted(dst, []byte(p))
	}
	return append(dst, ']')
}

// probesAt lists the attach points of the clause at a position of the script.
func probesAt(m *manifest.Manifest, at manifest.Pos) []string {
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

// json2Map writes the name, the shape and the entries; a scalar has one entry without a key.
func json2Map(j *lines, x *Map) {
	if x.unset() && x.Event == nil {
		return
	}
	dst := append(j.begin("map", x.Event), `, "name": `...)
	dst = append(format.AppendQuoted(dst, []byte(x.Map.Name)), `, "shape": `...)
	dst = json2Origins(format.AppendQuoted(dst, []byte(x.Map.Shape)), j.Run, x.Map)
	dst = append(dst, `, "entries": [`...)
	switch {
	case !x.Map.Scalar():
		dst = json2Elements(dst, j, x)
	case !x.unset():
		dst = append(render.ValueJSON(append(dst, `{"value": `...), j.values, x.Map, x.scalar(), x.Top.Div), '}')
	}
	j.end(append(dst, ']'))
}

// json2Origins appends what merging the runs of several hosts needs: where the map comes from, and what determines
// its values.
func json2Origins(dst []byte, r *Run, m *manifest.Map) []byte {
	dst = format.AppendQuoted(append(dst, `, "object": `...), []byte(r.Manifest.Object.SHA256))
	dst = format.AppendQuoted(append(dst, `, "host": `...), []byte(r.Host))
	return render.JSONBounds(dst, m)
}

// json2Elements appends the entries of a keyed map. A key is always an array: the parts of the key.
func json2Elements(dst []byte, j *lines, x *Map) []byte {
	layout := render.KeyLayout(x.Map)
	for i, el := range render.Ordered(x.Map, x.Elements, x.Top) {
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
		dst = append(render.ValueJSON(append(dst, `, "value": `...), j.values, x.Map, &el, x.Top.Div), '}')
		dst = j.Out.Pass(dst)
	}
	return dst
}
