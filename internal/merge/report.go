// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/output"
	"btc/loader/render"
)

// Names returns the names of the merged maps in the order in which a run prints them, and of those whose values cannot
// be combined; with ByHost there are none of the latter.
func (r *Runs) Names() (names, left []string) {
	for _, name := range slices.Sorted(maps.Keys(r.maps)) {
		if r.ByHost || r.maps[name].Merges() {
			names = append(names, name)
		} else {
			left = append(left, name)
		}
	}
	return names, left
}

// byKey orders the elements of a tseries as a run does: by the bytes of their keys.
func byKey(elems []render.Element) {
	slices.SortFunc(elems, func(a, b render.Element) int { return bytes.Compare(a.Key, b.Key) })
}

// AppendText appends a map as btrun prints it at the end of a run.
func (r *Runs) AppendText(dst []byte, name string) []byte {
	m := r.maps[name]
	d, elems := m.layout()
	env := &format.Env{Trailer: ".."}
	if d.Key == nil {
		for i := range elems {
			dst = render.Scalar(dst, env, &d, &elems[i], r.Top)
		}
		return dst
	}
	if m.Shape == "tseries" {
		byKey(elems)
	}
	return render.Keyed(dst, env, &d, elems, r.Top)
}

// AppendLine appends what print() of a map shows, from its line of json2.
func AppendLine(dst, line []byte, top render.Top) ([]byte, error) {
	if !gjson.ValidBytes(line) {
		return dst, ErrNotJSON2
	}
	r := &Runs{Top: top, maps: map[string]*Map{}, hosts: map[string]bool{}}
	if err := r.addLine(&Stream{Name: "line"}, gjson.ParseBytes(line)); err != nil {
		return dst, err
	}
	for name := range r.maps {
		dst = r.AppendText(dst, name)
	}
	return dst, nil
}

// Maps returns the maps as a run has them at its end, and the manifest of that run: base with the
// merged maps; help, units and names of keys are those of base, which may be nil.
func (r *Runs) Maps(base *manifest.Manifest) (*manifest.Manifest, []output.Map) {
	m := &manifest.Manifest{}
	if base != nil {
		*m = *base
		m.Maps, m.Losses = nil, nil
	}
	names, _ := r.Names()
	elems := make([][]render.Element, len(names))
	for i, name := range names {
		var d manifest.Map
		d, elems[i] = r.maps[name].layout()
		if base == nil || base.Map(name) == nil {
			m.Maps = append(m.Maps, d)
			continue
		}
		x := base.Map(name)
		d.Help, d.Unit, d.KeyNames = x.Help, x.Unit, x.KeyNames
		if r.ByHost {
			d.KeyNames = append([]string{"host"}, x.KeyNames...)
		}
		m.Maps = append(m.Maps, d)
	}
	var all []output.Map
	for i := range m.Maps {
		all = append(all, output.Map{Map: &m.Maps[i], Elements: elems[i], Top: r.Top})
	}
	return m, all
}

// AppendJSON appends a map as a line of -f json2, which can be merged again.
func (r *Runs) AppendJSON(dst []byte, name string, at time.Time) []byte {
	m := r.maps[name]
	dst = at.UTC().AppendFormat(append(dst, `{"type": "map", "time": "`...), time.RFC3339Nano)
	dst = format.AppendQuoted(append(dst, `", "name": `...), []byte(name))
	dst = format.AppendQuoted(append(dst, `, "shape": `...), []byte(m.Shape))
	dst = format.AppendQuoted(append(dst, `, "object": `...), []byte(r.object))
	dst = append(dst, `, "host": ""`...)
	d, elems := m.layout()
	dst = append(render.JSONBounds(dst, &d), `, "entries": [`...)
	keys := m.keys()
	j := &format.JSON{Env: &format.Env{}, Full: true}
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, '{')
		if key != "" {
			dst = append(append(append(dst, `"key": `...), key...), ", "...)
		}
		dst = append(dst, `"value": `...)
		if m.Shape == "plain" {
			dst = append(dst, m.elems[key].raw...)
		} else {
			dst = render.ValueJSON(dst, j, &d, &elems[i], 1)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}\n"...)
}

// keys returns the keys in byte order.
func (m *Map) keys() []string { return slices.Sorted(maps.Keys(m.elems)) }

// layout returns the map as a manifest describes it, and its elements in the order of keys: a part of the keys is an
// integer if it is one in all keys, else a string.
func (m *Map) layout() (manifest.Map, []render.Element) {
	d := m.Map
	d.Present = -1
	keys := m.keys()
	var parts [][]gjson.Result
	width := 0
	for _, key := range keys {
		p := gjson.Parse(key).Array()
		parts = append(parts, p)
		width = max(width, len(p))
	}
	var fields []manifest.Field
	size := 0
	for i := range width {
		l := layoutOf(parts, i)
		fields = append(fields, manifest.Field{Off: size, Layout: l})
		size += (l.Size + 7) &^ 7
	}
	if m.Shape == "plain" {
		d.Value = new(manifest.Layout)
		values := make([][]gjson.Result, len(keys))
		for i, key := range keys {
			values[i] = []gjson.Result{gjson.Parse(m.elems[key].raw)}
		}
		*d.Value = layoutOf(values, 0)
	}
	switch {
	case width == 1:
		d.Key = &fields[0].Layout
	case width > 1:
		d.Key = &manifest.Layout{Kind: "tuple", Size: size, Fields: fields}
	}
	if m.Shape == "tseries" && d.Key != nil { // render expects the key as the first part
		d.Key = &manifest.Layout{
			Kind:   "tuple",
			Size:   size + 8,
			Fields: []manifest.Field{{Layout: *d.Key}, {Off: size, Layout: integer}},
		}
	}
	elems := make([]render.Element, len(keys))
	last := m.lastInterval()
	for i, key := range keys {
		el := m.elems[key]
		x := render.Element{Set: true, Value: el.value, Count: el.count, Buckets: el.buckets}
		for j, p := range parts[i] {
			x.Key = append(x.Key, make([]byte, fields[j].Off-len(x.Key))...)
			x.Key = appendPart(x.Key, &fields[j].Layout, p)
		}
		x.Key = append(x.Key, make([]byte, size-len(x.Key))...)
		switch m.Shape {
		case "plain":
			x.Bytes = appendPart(nil, d.Value, gjson.Parse(el.raw))
		case "tseries":
			x.Points = m.series(el, last)
		}
		elems[i] = x
	}
	return d, elems
}

var integer = manifest.Layout{Kind: "int", Size: 8, Signed: true}

// layoutOf returns the layout of part i of all keys.
func layoutOf(parts [][]gjson.Result, i int) manifest.Layout {
	isInt, signed, longest := true, false, 0
	for _, p := range parts {
		if i >= len(p) {
			continue
		}
		if p[i].Type != gjson.Number {
			isInt = false
		} else if p[i].Raw[0] == '-' {
			signed = true
		}
		longest = max(longest, len(text(p[i])))
	}
	if isInt {
		return manifest.Layout{Kind: "int", Size: 8, Signed: signed}
	}
	return manifest.Layout{Kind: "string", Size: longest + 1}
}

// appendPart appends a part of a key in its layout.
func appendPart(dst []byte, l *manifest.Layout, p gjson.Result) []byte {
	if l.Kind == "int" {
		n, _ := number(p)
		return binary.NativeEndian.AppendUint64(dst, n)
	}
	from := len(dst)
	dst = append(dst, text(p)...)
	return append(dst, make([]byte, l.Size-(len(dst)-from))...)
}

// text formats a value as btrun prints it.
func text(p gjson.Result) string {
	switch {
	case p.Type == gjson.String:
		return p.Str
	case p.IsObject() && p.Get("text").Exists():
		if p.Get("truncated").Exists() {
			return p.Get("text").String() + ".."
		}
		return p.Get("text").String()
	case p.IsObject() && p.Get("base64").Exists():
		b, err := base64.StdEncoding.DecodeString(p.Get("base64").String())
		if err == nil {
			return string(b)
		}
	}
	return p.Raw
}

// lastInterval returns the newest interval of all keys, as its start in ns.
func (m *Map) lastInterval() int64 {
	last := int64(0)
	for _, el := range m.elems {
		for at := range el.points {
			last = max(last, at)
		}
	}
	return last
}

// series lists the intervals from the element's first to the last of all keys.
func (m *Map) series(el *element, last int64) []render.Point {
	first := last
	for at := range el.points {
		if at > last-m.Interval*m.Intervals {
			first = min(first, at)
		}
	}
	var out []render.Point
	for at := first; at <= last; at += m.Interval {
		p := el.points[at]
		p.Start = time.Unix(0, at)
		out = append(out, p)
	}
	return out
}

// Summary describes how many runs were merged.
func (r *Runs) Summary(streams int) string {
	plural := func(n int, what string) string {
		if n != 1 {
			what += "s"
		}
		return strconv.Itoa(n) + " " + what
	}
	return fmt.Sprintf("%s of %s", plural(streams, "run"), plural(r.Hosts(), "host"))
}
