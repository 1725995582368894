// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"btc/internal/aggregate"
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

// AppendText appends a map as btrun prints it at the end of a run.
func (r *Runs) AppendText(dst []byte, name string) []byte { return r.Text(dst, name, whole) }

func whole(dst []byte) []byte { return dst }

// Text is like AppendText, for output that need not be in memory at once: full receives the text so far and returns
// the buffer to continue with.
func (r *Runs) Text(dst []byte, name string, full func(dst []byte) []byte) []byte {
	m := r.maps[name]
	t := m.table(r.kinds(name))
	if t.Key == nil {
		for i := range t.elems {
			dst = render.ScalarBy(dst, t.env, &t.Map, t.fill(&t.elems[i]), r.Top, full)
		}
		return dst
	}
	if m.Shape == "tseries" {
		t.sortSeries()
	}
	env, key := t.env.OneLine(), render.KeyLayout(&t.Map)
	for _, el := range render.Ordered(&t.Map, t.elems, r.Top) {
		dst = full(render.KeyedElement(dst, env, &t.Map, key, t.fill(&el), r.Top, full))
	}
	return dst
}

// AppendLine appends what print() of a map shows, from its line of json2.
func AppendLine(dst, line []byte, top render.Top) ([]byte, error) {
	if err := checkLine(line); err != nil {
		return dst, err
	}
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
		t := r.maps[name].table(nil)
		for j := range t.elems {
			el := t.fill(&t.elems[j])
			el.Buckets = slices.Clone(el.Buckets)
		}
		elems[i] = t.elems
		d = t.Map
		if base == nil || base.Map(name) == nil {
			m.Maps = append(m.Maps, d)
			continue
		}
		x := base.Map(name)
		d.Help, d.Unit, d.Range, d.KeyNames = x.Help, x.Unit, x.Range, x.KeyNames
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
	return r.JSON(dst, name, at, whole)
}

// JSON is like AppendJSON, for output that need not be in memory at once, see Text.
func (r *Runs) JSON(dst []byte, name string, at time.Time, full func(dst []byte) []byte) []byte {
	m := r.maps[name]
	dst = at.UTC().AppendFormat(append(dst, `{"type": "map", "time": "`...), time.RFC3339Nano)
	dst = format.AppendQuoted(append(dst, `", "name": `...), []byte(name))
	dst = format.AppendQuoted(append(dst, `, "shape": `...), []byte(m.Shape))
	dst = format.AppendQuoted(append(dst, `, "object": `...), []byte(r.object))
	dst = append(dst, `, "host": ""`...)
	t := m.table(nil)
	dst = append(render.JSONBounds(dst, &t.Map), `, "entries": [`...)
	j := &format.JSON{Env: &format.Env{}, Full: true, Table: &format.FrameTable{}, Written: full}
	for i, key := range m.keys() {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, '{')
		if key != "" {
			dst = append(m.keyJSON(append(dst, `"key": `...), j, key), ", "...)
		}
		dst = append(dst, `"value": `...)
		if m.Shape == "plain" {
			dst = append(dst, m.elems[key].raw...)
		} else {
			dst = render.ValueJSON(dst, j, &t.Map, t.fill(&t.elems[i]), 1)
		}
		dst = full(append(dst, '}'))
	}
	return append(j.AppendFrames(append(dst, ']')), "}\n"...)
}

// keyJSON appends a key, with the frames of stacks in place of their texts.
func (m *Map) keyJSON(dst []byte, j *format.JSON, key string) []byte {
	if len(m.stacks) == 0 {
		return append(dst, key...)
	}
	sep := byte('[')
	gjson.Parse(key).ForEach(func(_, part gjson.Result) bool {
		dst = append(dst, sep)
		sep = ','
		if st := m.stacks[part.Str]; st != nil && part.Type == gjson.String {
			dst = j.AppendStack(dst, st.frames, st.mode)
		} else {
			dst = append(dst, part.Raw...)
		}
		return true
	})
	return append(dst, ']')
}

// keys returns the keys in byte order.
func (m *Map) keys() []string { return slices.Sorted(maps.Keys(m.elems)) }

// table is a map as package render takes it.
type table struct {
	manifest.Map // with a layout of the keys
	elems        []render.Element
	parts        []column
	env          *format.Env
	sparse       [][]aggregate.Bucket // buckets of the elements, by Element.ID
	dense        []uint64             // buckets of the current element
	names        map[uint64]string    // of named columns
}

// column is a part of all keys: an integer if it is one in all of them, else a string, as an enum whose numbers are in
// the order of the strings. Its memory does not depend on the longest string.
type column struct {
	layout manifest.Layout
	number map[string]uint64 // of each string
}

// kinds returns the kinds of the parts of a map's keys, by the manifest of the first run that has one; nil if there is none.
func (r *Runs) kinds(name string) (kinds []string) {
	gjson.GetBytes(r.head, "manifest.maps").ForEach(func(_, m gjson.Result) bool {
		if m.Get("name").Str != name {
			return true
		}
		if r.ByHost {
			kinds = append(kinds, "string")
		}
		key := m.Get("key")
		if kind := key.Get("kind").Str; kind != "tuple" && kind != "record" {
			kinds = append(kinds, kind)
			return false
		}
		key.Get("fields.#.layout.kind").ForEach(func(_, kind gjson.Result) bool {
			kinds = append(kinds, kind.Str)
			return true
		})
		return false
	})
	return kinds
}

// table returns the map, with its elements in the order of keys. kinds are those of the parts of keys, as far as they are
// known: a run orders equal elements by the parts that render.Compared names, and only then by the others.
func (m *Map) table(kinds []string) *table {
	t := &table{Map: m.Map, env: &format.Env{Trailer: ".."}, names: map[uint64]string{}}
	t.env.Probe = func(id uint64) string { return t.names[id] }
	t.Present = -1
	keys := m.keys()
	width := 0
	for _, key := range keys {
		n := 0
		if key != "" {
			gjson.Parse(key).ForEach(func(_, _ gjson.Result) bool { n++; return true })
		}
		width = max(width, n)
	}
	cells := make([]gjson.Result, width*len(keys))
	for i, key := range keys {
		n := i * width
		if key != "" {
			gjson.Parse(key).ForEach(func(_, part gjson.Result) bool { cells[n] = part; n++; return true })
		}
	}
	var fields []manifest.Field
	for j := range width {
		c := newColumn(len(keys), func(i int) gjson.Result { return cells[i*width+j] })
		if c.number != nil && j < len(kinds) && !render.Compared(kinds[j]) {
			c.named(t)
		}
		t.parts = append(t.parts, c)
		fields = append(fields, manifest.Field{Off: 8 * j, Layout: c.layout})
	}
	switch {
	case width == 1:
		t.Key = &fields[0].Layout
	case width > 1:
		t.Key = &manifest.Layout{Kind: "tuple", Size: 8 * width, Fields: fields}
	}
	if m.Shape == "tseries" && t.Key != nil { // render expects the key as the first part
		slot := manifest.Field{Off: 8 * width, Layout: manifest.Layout{Kind: "int", Size: 8}}
		t.Key = &manifest.Layout{Kind: "tuple", Size: 8*width + 8, Fields: []manifest.Field{{Layout: *t.Key}, slot}}
	}
	var values column
	if m.Shape == "plain" {
		values = m.values(t, keys)
	}
	newest := uint64(0) // interval of all keys
	for _, el := range m.elems {
		if n := len(el.Points); n > 0 {
			newest = max(newest, el.Points[n-1].N)
		}
	}
	// A host whose clock is ahead does not make the intervals of the others too old.
	now := newest
	if m.Shape == "tseries" {
		now = min(now, uint64(max(0, time.Now().UnixNano()/m.Interval)))
	}
	t.elems = make([]render.Element, len(keys))
	blanks := uint64(0)
	for i, key := range keys {
		el := m.elems[key]
		x := render.Element{ID: i, Set: true, State: el.State, Key: make([]byte, 0, 8*width)}
		for j := range t.parts {
			x.Key = t.parts[j].append(x.Key, cells[i*width+j])
		}
		switch m.Shape {
		case "plain":
			x.Bytes = values.append(nil, gjson.Parse(el.raw))
		case "tseries":
			x.Points = slices.Clone(el.Points)
			x.Window(&t.Map, now, newest)
		case "hist", "lhist":
			t.sparse = append(t.sparse, el.buckets)
			if n := len(el.buckets); n > 0 {
				blanks += uint64(el.buckets[n-1].I-el.buckets[0].I) + 1 - uint64(n)
			}
		}
		t.elems[i] = x
	}
	render.Shorten(t.elems, blanks)
	return t
}

// fill sets the buckets of an element, which are valid until the next call.
func (t *table) fill(el *render.Element) *render.Element {
	if el.ID >= len(t.sparse) || len(t.sparse[el.ID]) == 0 {
		return el
	}
	all := t.sparse[el.ID]
	n := int(all[len(all)-1].I) + 1
	t.dense = slices.Grow(t.dense[:0], n)[:n]
	clear(t.dense)
	for _, b := range all {
		t.dense[b.I] = b.N
	}
	el.Buckets = t.dense
	return el
}

// sortSeries orders the elements of a tseries as a run does: by the bytes of their keys.
func (t *table) sortSeries() {
	slices.SortFunc(t.elems, func(a, b render.Element) int {
		for j := range t.parts {
			x, y := a.Key[8*j:8*j+8], b.Key[8*j:8*j+8]
			c := bytes.Compare(x, y)
			if t.parts[j].layout.Kind == "enum" {
				c = cmp.Compare(binary.NativeEndian.Uint64(x), binary.NativeEndian.Uint64(y))
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
}

// newColumn returns a part of n keys.
func newColumn(n int, cell func(i int) gjson.Result) column {
	isInt, signed := true, false
	for i := range n {
		switch v := cell(i); {
		case v.Exists() && v.Type != gjson.Number:
			isInt = false
		case strings.HasPrefix(v.Raw, "-"):
			signed = true
		}
	}
	if isInt {
		return column{layout: manifest.Layout{Kind: "int", Size: 8, Signed: signed}}
	}
	c := column{layout: manifest.Layout{Kind: "enum", Size: 8, Enum: map[string]string{}}, number: map[string]uint64{}}
	for i := range n {
		c.number[text(cell(i))] = 0
	}
	for i, s := range slices.Sorted(maps.Keys(c.number)) {
		c.number[s] = uint64(i)
		c.layout.Enum[strconv.Itoa(i)] = s
	}
	return c
}

// values returns the values of a plain map as a column. Unlike numbers, strings are not sorted by.
func (m *Map) values(t *table, keys []string) column {
	c := newColumn(len(keys), func(i int) gjson.Result { return gjson.Parse(m.elems[keys[i]].raw) })
	if c.number != nil {
		c.named(t)
	}
	t.Value = &c.layout
	return c
}

// named makes the strings of a column names of probes in the environment of t, which are printed, but sorted by only as
// bytes: these are in the order of the strings.
func (c *column) named(t *table) {
	c.layout = manifest.Layout{Kind: "probe", Size: 8}
	first := uint64(len(t.names))
	for text, n := range c.number {
		n = binary.NativeEndian.Uint64(binary.BigEndian.AppendUint64(nil, first+n))
		c.number[text], t.names[n] = n, text
	}
}

// append appends a part of a key.
func (c *column) append(dst []byte, v gjson.Result) []byte {
	n := uint64(0)
	if c.number != nil {
		n = c.number[text(v)]
	} else {
		n, _ = number(v, strings.HasPrefix(v.Raw, "-"))
	}
	return binary.NativeEndian.AppendUint64(dst, n)
}

// text formats a value as btrun prints it, in one line, except for a stack: a host cannot forge other lines.
func text(p gjson.Result) string {
	s := p.Raw
	switch {
	case p.Type == gjson.String:
		s = p.Str
	case p.IsObject() && p.Get("text").Type == gjson.String:
		s = p.Get("text").Str
		if p.Get("truncated").Exists() {
			s += ".."
		}
	case p.IsObject() && p.Get("base64").Exists():
		if b, err := base64.StdEncoding.DecodeString(p.Get("base64").String()); err == nil {
			s = string(b)
		}
	}
	s, _, _ = strings.Cut(s, "\x00")
	if strings.IndexByte(s, '\n') < 0 {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		// The frames of a stack are indented.
		rest := s[i+1:]
		if s[i] != '\n' || rest == "" || rest[0] == '\n' || rest[0] == '\t' || strings.HasPrefix(rest, "    ") {
			b.WriteByte(s[i])
		} else {
			b.WriteString(`\x0a`)
		}
	}
	return b.String()
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
