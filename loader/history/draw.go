// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"btc/internal/blocks"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/render"
)

// maxRows is the maximum number of rows of a heat map; a histogram with more of them is printed without one.
const maxRows = 200

// Lines returns the lines of a map as text, with what the history knows of its elements, which are ordered. A scalar that was
// never assigned has none.
func (h *History) Lines(env *format.Env, m *manifest.Map, elems []render.Element, top render.Top) (lines []blocks.Line) {
	pass := func(text []byte) []byte { return text }
	env = env.OneLine()
	for i := range elems {
		el := &elems[i]
		var text []byte
		switch {
		case !m.Scalar():
			text = render.KeyedElement(nil, env, m, render.KeyLayout(m), el, top, pass)
		case el.Set:
			text = render.ScalarBy(nil, env, m, el, top, pass)
		default:
			continue
		}
		from := len(lines)
		lines = append(lines, blocks.Split(bytes.TrimSuffix(text, []byte("\n")))...)
		t := h.tracks[h.name(m, el)]
		switch {
		case h.tracks != nil && m.Shape == "tseries" && el.Rows > 1 && len(el.Points) > 0:
			lines = append(lines[:from+1], graph(env, m, elems, el)...)
			if len(lines) == from+2 { // the name is on the line of the graph
				lines[from+1].Text = fmt.Appendf(nil, "%s %s", lines[from].Text, lines[from+1].Text)
				lines = append(lines[:from], lines[from+1:]...)
			}
		case t == nil || h.window < 2 && isRate(m):
		case isNumber(m):
			lines[from].Values, lines[from].Kind = h.series(t, 0), blocks.Level
			if isRate(m) {
				lines[from].Kind = blocks.Rate
			}
		default:
			if rows := h.heat(m, el, t, max(uint64(top.Div), 1)); len(rows) > 0 {
				rest := lines[from+1:]
				for len(rest) > 0 && bytes.HasSuffix(rest[0].Text, []byte("|")) {
					rest = rest[1:]
				}
				lines = append(lines[:from+1], append(rows, rest...)...)
			}
		}
	}
	return lines
}

// heat returns a heat map of a histogram: a row for each bucket, from the highest to the lowest; none if there would be too many.
func (h *History) heat(m *manifest.Map, el *render.Element, t *track, div uint64) (rows []blocks.Line) {
	used := make([]float32, m.Buckets().Len())
	for i, n := range el.Buckets {
		used[i] = float32(n)
	}
	for _, values := range t.values {
		for i, v := range values {
			used[i] += v
		}
	}
	first, last := 0, len(used)-1
	for first <= last && used[first] == 0 {
		first++
	}
	for last > first && used[last] == 0 {
		last--
	}
	if last-first >= maxRows {
		return nil
	}
	for i := last; i >= first; i-- {
		n := uint64(0)
		if i < len(el.Buckets) {
			n = el.Buckets[i] / div
		}
		head := render.AppendBucket(nil, m.Buckets(), i, n)
		rows = append(rows, blocks.Line{Text: head, Values: h.series(t, i), Kind: blocks.Heat})
	}
	return rows
}

// graph returns the rows of a graph of a tseries, whose scale is that of all elements: several rows if there are few elements,
// and else one, which begins with the last value.
func graph(env *format.Env, m *manifest.Map, all []render.Element, el *render.Element) []blocks.Line {
	number := func(v uint64) float64 {
		if m.Signed() {
			return float64(int64(v))
		}
		return float64(v)
	}
	height := 8
	switch {
	case len(all) > 4:
		height = 1
	case len(all) > 1:
		height = 4
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for i := range all {
		for _, p := range all[i].Points {
			lo, hi = min(lo, number(p.Value)), max(hi, number(p.Value))
		}
	}
	step := (hi - lo) / float64(height)
	if hi == lo {
		step = 1
	}
	rows := make([]blocks.Line, height)
	for i := range rows {
		rows[i].Kind = blocks.Bars
		if height > 1 {
			rows[i].Tint = (height - i) * blocks.Height / height
		}
		rows[i].Values = make([]float32, min(el.Rows, maxIntervals))
		rows[i].Text = fmt.Appendf(nil, "%16.6g |", lo+step*float64(height-1-i))
	}
	for _, p := range el.Points {
		at := len(rows[0].Values) - 1 - int(el.Last-p.N)
		if at < 0 {
			continue
		}
		full := (number(p.Value) - lo) / step // rows
		for i := range rows {
			rows[i].Values[at] = 1 + (blocks.Height-1)*float32(full-float64(height-1-i))
		}
	}
	if height == 1 {
		last := el.Points[len(el.Points)-1].Value
		rows[0].Text = format.AppendInt(nil, last, m.Signed())
		return rows
	}
	form := "15:04:05"
	if m.Interval < int64(time.Second) {
		form = "15:04:05.000"
	}
	end := render.Start(m, el.Last)
	if env.Local != nil {
		end = env.Local(end)
	}
	note := fmt.Appendf(nil, "%16s  each column is %v, the last one %s", "", time.Duration(m.Interval), end.Format(form))
	return append(rows, blocks.Line{Text: note})
}
