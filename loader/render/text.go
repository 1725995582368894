// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/binary"
	"slices"
	"sort"

	"btc/internal/manifest"
	"btc/loader/format"
)

// Top limits and scales the output.
type Top struct {
	Keep    int    // print only the last n after sorting; 0: all
	Div     uint32 // divide values by it; 0: by 1
	Order   string // Ascending and "": as the language sorts; Descending, ByKey
	Summary bool   // a line with the quantiles below each histogram
	Bar     int    // columns of the bars of histograms; 0: as the language prints them
	// Rate, if it is not nil, appends the rate of an element; see Rates.
	Rate func(dst []byte, el *Element) []byte
}

// The orders in which elements are printed.
const (
	Ascending  = "ascending"
	Descending = "descending"
	ByKey      = "key"
)

// Orders are all of them.
var Orders = []string{Ascending, Descending, ByKey}

// KeyedBy appends the text of a keyed map; nothing for an empty one. It need not be in memory at once: after each element,
// and each row of a histogram or graph, full receives the text so far and returns the buffer to continue with.
func KeyedBy(dst []byte, env *format.Env, m *manifest.Map, elems []Element, top Top,
	full func(dst []byte) []byte) []byte {
	elems = Ordered(m, elems, top)
	key := KeyLayout(m)
	env = env.OneLine()
	for i := range elems {
		dst = full(KeyedElement(dst, env, m, key, &elems[i], top, full))
	}
	return dst
}

// KeyedElement appends an element with a key of layout key; env is for one line.
func KeyedElement(dst []byte, env *format.Env, m *manifest.Map, key *manifest.Layout, el *Element, top Top,
	full func(dst []byte) []byte) []byte {
	dst = append(env.Clean(dst, []byte(m.Name)), '[')
	dst = appendKey(dst, env, key, el.Key)
	return appendElement(append(dst, ']'), env, m, el, top, full)
}

// KeyLayout returns the layout of the script's key, without the number of the interval in a tseries map.
func KeyLayout(m *manifest.Map) *manifest.Layout {
	if m.Shape == "tseries" {
		return &m.Key.Fields[0].Layout
	}
	return m.Key
}

// Ordered sorts elements and drops those beyond top; top does not apply to a tseries.
func Ordered(m *manifest.Map, elems []Element, top Top) []Element {
	Sort(m, elems)
	if m.Shape == "tseries" {
		return elems
	}
	if top.Keep > 0 && top.Keep < len(elems) {
		elems = elems[len(elems)-top.Keep:]
	}
	switch top.Order {
	case Descending:
		slices.Reverse(elems)
	case ByKey:
		sort.Slice(elems, func(i, j int) bool { return byKey(m, &elems[i], &elems[j]) < 0 })
	}
	return elems
}

// ScalarBy appends the text of a scalar map: "@x: 5"; for full see KeyedBy.
func ScalarBy(dst []byte, env *format.Env, m *manifest.Map, el *Element, top Top,
	full func(dst []byte) []byte) []byte {
	env = env.OneLine()
	return appendElement(env.Clean(dst, []byte(m.Name)), env, m, el, top, full)
}

// appendKey appends a key; that of several parts loses its outer parentheses.
func appendKey(dst []byte, env *format.Env, l *manifest.Layout, key []byte) []byte {
	from := len(dst)
	dst = env.Append(dst, format.Value{Layout: l, Bytes: key})
	if l.Kind == "tuple" {
		dst = append(dst[:from], dst[from+1:len(dst)-1]...)
	}
	return dst
}

func appendElement(dst []byte, env *format.Env, m *manifest.Map, el *Element, top Top,
	full func(dst []byte) []byte) []byte {
	rate := top.Rate
	if rate == nil {
		rate = func(dst []byte, _ *Element) []byte { return dst }
	}
	if m.Shape == "hist" || m.Shape == "lhist" || m.Shape == "tseries" {
		dst = append(rate(append(dst, ':'), el), '\n')
		dst = appendValue(dst, env, m, el, top, full)
	} else {
		dst = rate(appendValue(append(dst, ": "...), env, m, el, top, full), el)
	}
	if top.Summary && (m.Shape == "hist" || m.Shape == "lhist") {
		dst = appendSummary(dst, m, el)
	}
	return append(dst, '\n')
}

func appendValue(dst []byte, env *format.Env, m *manifest.Map, el *Element, top Top,
	full func(dst []byte) []byte) []byte {
	isSigned, div := m.Signed(), max(top.Div, 1)
	switch m.Shape {
	case "plain":
		b := el.Bytes
		if m.Value.Kind == "int" && div > 1 {
			v := divide(format.Uint(m.Value, b), div, isSigned)
			return format.AppendInt(dst, v, isSigned)
		}
		return env.Append(dst, format.Value{Layout: m.Value, Bytes: b})
	case "avg":
		return format.AppendInt(dst, divide(el.average(m), div, isSigned), isSigned)
	case "stats":
		dst = format.AppendInt(append(dst, "{ .count = "...), el.Count, false)
		dst = format.AppendInt(append(dst, ", .average = "...), divide(el.average(m), div, isSigned), isSigned)
		dst = format.AppendInt(append(dst, ", .total = "...), el.Value, isSigned)
		return append(dst, " }"...)
	case "hist":
		return appendRows(dst, m.Buckets(), el, uint64(div), top.Bar, full)
	case "lhist":
		return appendRows(dst, m.Buckets(), el, 1, top.Bar, full)
	case "tseries":
		return appendSeries(dst, env, m, el, full)
	}
	return format.AppendInt(dst, divide(el.Value, div, isSigned), isSigned)
}

func divide(v uint64, div uint32, isSigned bool) uint64 {
	if isSigned {
		return uint64(int64(v) / int64(max(div, 1)))
	}
	return v / uint64(max(div, 1))
}

// Empty returns the element of a scalar that was never assigned.
func Empty(m *manifest.Map) Element {
	el := Element{Key: binary.NativeEndian.AppendUint32(nil, 0)}
	if m.Shape == "plain" {
		el.Bytes = make([]byte, m.Value.Size)
	}
	return el
}
