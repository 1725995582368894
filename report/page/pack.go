// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"btc/report/document"
)

// plainSize is the size in bytes up to which data is in the page as it is, readable in an editor. Larger data is in several elements:
// a head, which describes all, and the parts of it, which the page reads when it shows them.
//
// Such an element is compressed. It has the length of its JSON in four bytes, the JSON, and then arrays of numbers, which the
// browser uses where they are. In the JSON, an array is a string: its type (u1, u2, u4, i1, i2, i4: integers and their size in
// bytes, f8: floating point), its offset after the JSON and its number of elements; an array of strings is s, its offset and its
// size in bytes, with a zero between the strings. All is little-endian.
const plainSize = 16 << 10

// inlineCells is the number of values of a map up to which it is in the head.
const inlineCells = 500

// dataElements returns data as elements of the page, the head first.
func dataElements(id string, d *Data) ([]document.Element, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if len(text) <= plainSize {
		return []document.Element{document.Plain(id, text)}, nil
	}
	head := headData{Data: d, Maps: []any{}}
	var parts []*packer
	part := func() (*packer, string) {
		p := new(packer)
		parts = append(parts, p)
		return p, fmt.Sprint(len(parts))
	}
	if len(d.Frames) > 0 {
		var p *packer
		p, head.FramesPart = part()
		p.value = d.Frames
	}
	for _, m := range d.Maps {
		if m.Tree == nil && m.Cells+m.Rows <= inlineCells {
			head.Maps = append(head.Maps, m)
			continue
		}
		p, name := part()
		h := headMap{Map: m, Columns: []any{}, Part: name}
		for _, k := range m.Keys {
			h.Keys = append(h.Keys, Key{Name: k.Name, Numeric: k.Numeric})
		}
		if m.Texts != nil {
			h.Texts = []any{}
		}
		if m.Tree != nil {
			h.Tree = struct{}{}
		}
		head.Maps = append(head.Maps, h)
		p.value = p.fields(m)
	}
	if e := d.Events; e != nil {
		p, name := part()
		head.Events = headEvents{Calls: e.Calls, Counts: e.Counts, Omitted: e.Omitted, Part: name}
		p.value = map[string]any{"texts": p.strings(e.Texts), "hosts": e.Hosts, "t": p.ints(e.T), "c": p.ints(e.Call), "x": p.ints(e.Text), "h": p.ints(e.Host), "d": p.numbers(e.Took), "names": e.Names, "w": p.ints(e.Who)}
	}
	parts = slices.Insert(parts, 0, &packer{value: head})
	var elements []document.Element
	for i, p := range parts {
		name := id
		if i > 0 {
			name += fmt.Sprint("-", i)
		}
		e, err := p.element(name)
		if err != nil {
			return nil, err
		}
		elements = append(elements, e)
	}
	return elements, nil
}

// headData is the data without its parts.
type headData struct {
	*Data
	Maps       []any  `json:"maps"`
	Events     any    `json:"events,omitempty"`
	Frames     any    `json:"frames,omitempty"`
	FramesPart string `json:"framesPart,omitempty"`
}

// headMap describes a map that is in a part.
type headMap struct {
	*Map
	Keys    []Key  `json:"keys,omitempty"`
	Texts   any    `json:"texts,omitempty"`
	Bounds  any    `json:"bounds,omitempty"`
	Columns []any  `json:"columns"`
	Tree    any    `json:"tree,omitempty"`
	Samples any    `json:"samples,omitempty"`
	Part    string `json:"part"`
}

// headEvents describes lines that are in a part.
type headEvents struct {
	Calls   []Call `json:"calls"`
	Counts  []int  `json:"counts"`
	Omitted int    `json:"omitted,omitempty"`
	Part    string `json:"part"`
}

// packer makes an element: JSON, and the arrays that it refers to.
type packer struct {
	value  any
	arrays []byte
}

// fields returns the fields of a map that are not in its head.
func (p *packer) fields(m *Map) map[string]any {
	f := map[string]any{}
	var keys []any
	for _, k := range m.Keys {
		keys = append(keys, map[string]any{"name": k.Name, "numeric": k.Numeric, "texts": p.strings(k.Texts), "at": p.ints(k.At)})
	}
	columns := []any{}
	for i := range m.Columns {
		c := &m.Columns[i]
		x := map[string]any{"r": p.ints(c.Rows), "a": p.numbers(c.A)}
		if c.Count != nil {
			x["n"] = p.numbers(c.Count)
		}
		if c.Buckets != nil {
			x["b"] = p.ints(c.Buckets)
		}
		columns = append(columns, x)
	}
	f["columns"] = columns
	if keys != nil {
		f["keys"] = keys
	}
	if m.Texts != nil {
		f["texts"] = p.strings(m.Texts)
	}
	if m.Bounds != nil {
		f["bounds"] = m.Bounds
	}
	if m.Tree != nil {
		f["tree"] = map[string]any{"depth": p.ints(m.Tree.Depth), "frame": p.ints(m.Tree.Frame), "leaf": p.ints(m.Tree.Leaf)}
	}
	if s := m.Samples; s != nil {
		x := map[string]any{"t": p.ints(s.T), "r": p.ints(s.Row), "clock": s.Clock, "omitted": s.Omitted}
		if s.A != nil {
			x["a"] = p.numbers(s.A)
		}
		f["samples"] = x
	}
	return f
}

// numbers packs an array of numbers and returns its position in the packed data; the array itself if JavaScript cannot represent one of them.
func (p *packer) numbers(all []Number) any {
	if all == nil {
		return nil
	}
	ints := make([]int, len(all))
	for i, n := range all {
		if v := int64(n.Value); n.Signed && v < -exact || (!n.Signed || v >= 0) && n.Value > exact {
			return all
		}
		ints[i] = int(n.Value)
	}
	return p.ints(ints)
}

// ints packs an array of integers, each at most exact, and returns its position in the packed data.
func (p *packer) ints(all []int) any {
	if all == nil {
		return nil
	}
	low, high := 0, 0
	for _, v := range all {
		low, high = min(low, v), max(high, v)
	}
	kind, size := "f8", 8
	switch {
	case low >= 0 && high <= math.MaxUint8:
		kind, size = "u1", 1
	case low >= math.MinInt8 && high <= math.MaxInt8:
		kind, size = "i1", 1
	case low >= 0 && high <= math.MaxUint16:
		kind, size = "u2", 2
	case low >= math.MinInt16 && high <= math.MaxInt16:
		kind, size = "i2", 2
	case low >= 0 && high <= math.MaxUint32:
		kind, size = "u4", 4
	case low >= math.MinInt32 && high <= math.MaxInt32:
		kind, size = "i4", 4
	}
	for len(p.arrays)%size != 0 {
		p.arrays = append(p.arrays, 0)
	}
	ref := fmt.Sprintf("%s,%d,%d", kind, len(p.arrays), len(all))
	for _, v := range all {
		switch size {
		case 1:
			p.arrays = append(p.arrays, byte(v))
		case 2:
			p.arrays = binary.LittleEndian.AppendUint16(p.arrays, uint16(v))
		case 4:
			p.arrays = binary.LittleEndian.AppendUint32(p.arrays, uint32(v))
		case 8:
			p.arrays = binary.LittleEndian.AppendUint64(p.arrays, math.Float64bits(float64(v)))
		}
	}
	return ref
}

// strings packs an array of strings and returns its position in the packed data; the array itself if a string cannot be packed.
func (p *packer) strings(all []string) any {
	if len(all) == 0 || slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "\x00") || !utf8.ValidString(s) }) {
		return all
	}
	text := strings.Join(all, "\x00")
	ref := fmt.Sprintf("s,%d,%d", len(p.arrays), len(text))
	p.arrays = append(p.arrays, text...)
	return ref
}

// element returns the element.
func (p *packer) element(id string) (document.Element, error) {
	text, err := json.Marshal(p.value)
	if err != nil {
		return nil, err
	}
	for (4+len(text))%8 != 0 { // so that arrays are aligned
		text = append(text, ' ')
	}
	return document.Packed(id, binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text, p.arrays)
}
