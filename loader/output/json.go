// SPDX-License-Identifier: Apache-2.0

package output

import (
	"strings"
	"syscall"

	"btc/loader/format"
	"btc/loader/render"
)

// json is bpftrace's JSON.
var json = Format{Name: "json", Help: "one object per line", JSON: true, New: func(r *Run) Sink {
	return &lines{Run: r, values: &format.JSON{Env: r.Env, Written: r.Out.Pass}, mapLine: jsonMap, message: helperErrno}
}}

// helperErrno returns the C library's message for a helper's error.
func helperErrno(d *Diagnostic) string {
	switch {
	case d.Errno != "":
		return d.Errno
	case d.Code == 0:
		return "Success"
	}
	text := syscall.Errno(-d.Code).Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

// jsonMap writes nothing for a keyed map without elements, for an empty block, and, at the end, for a scalar that was
// never assigned. Stats have a line even then.
func jsonMap(j *lines, x *Map) {
	kind := mapKind(x.Map.Shape)
	switch {
	case kind == "stats" && (len(x.Elements) == 0 || x.unset() && x.Event == nil):
		j.end(append(jsonNamed(j, kind, x), "{}}"...))
	case x.unset() && (x.Event == nil || x.isBlock()):
	case x.Map.Scalar():
		j.end(append(render.ValueJSON(jsonNamed(j, kind, x), j.values, x.Map, x.scalar(), x.Top.Div), '}'))
	case len(x.Elements) > 0:
		j.end(append(jsonElements(append(jsonNamed(j, kind, x), '{'), j, x), "}}"...))
	}
}

// jsonNamed starts the line of a map, up to its content: {"type": "map", "data": {"@x":
func jsonNamed(j *lines, kind string, x *Map) []byte {
	dst := append(j.begin(kind, x.Event), `, "data": {`...)
	return append(format.AppendQuoted(dst, []byte(x.Map.Name)), ": "...)
}

// jsonElements appends the elements of a keyed map by the text of their keys.
func jsonElements(dst []byte, j *lines, x *Map) []byte {
	key := render.KeyLayout(x.Map)
	for i, el := range render.Ordered(x.Map, x.Elements, x.Top) {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = format.AppendQuoted(dst, j.values.KeyText(nil, key, el.Key, true))
		dst = j.Out.Pass(render.ValueJSON(append(dst, ": "...), j.values, x.Map, &el, x.Top.Div))
	}
	return dst
}

// mapKind returns the type of a map's line.
func mapKind(shape string) string {
	switch shape {
	case "hist", "lhist":
		return "hist"
	case "avg", "stats":
		return "stats"
	case "tseries":
		return "tseries"
	}
	return "map"
}
