// SPDX-License-Identifier: Apache-2.0

package history

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"btc/internal/aggregate"
	"btc/internal/blocks"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/render"
)

var integer = &manifest.Layout{Kind: "int", Size: 8, Signed: true}

func number(n int64) []byte { return binary.NativeEndian.AppendUint64(nil, uint64(n)) }

// element returns an element of a map of numbers.
func element(m *manifest.Map, key, n int64) render.Element {
	el := render.Element{Key: number(key), Set: true, State: aggregate.State{Value: uint64(n), Count: 1}}
	if m.Shape == "plain" {
		el.Bytes = number(n)
	}
	return el
}

// player adds intervals of a second and draws the last one.
type player struct {
	h        *History
	now      time.Time
	manifest manifest.Manifest
}

func newPlayer() *player { return &player{h: New(true), now: time.Unix(1000, 0)} }

func (p *player) step(m *manifest.Map, elems ...render.Element) {
	p.now = p.now.Add(time.Second)
	p.h.Next(&p.manifest)
	p.h.Add(p.now, m, elems)
}

func (p *player) drawn(m *manifest.Map, elems ...render.Element) string {
	return text(p.h.Lines(&format.Env{Local: time.Time.UTC}, m, elems, render.Top{}))
}

func text(lines []blocks.Line) string {
	var b strings.Builder
	for _, l := range blocks.Draw(lines, 80, false) {
		b.WriteString(strings.TrimRight(string(l), " ") + "\n")
	}
	return b.String()
}

func check(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestNumbers: counts and sums are drawn as rates, other numbers as values.
func TestNumbers(t *testing.T) {
	for _, x := range []struct {
		shape  string
		values []int64
		want   string
	}{
		{"count", []int64{100, 100, 150, 250}, "  ▁▄█"},
		{"count", []int64{100, 200, 50, 150}, "  █▄█"}, // cleared
		{"sum", []int64{0, 100, 0, 0}, "  █▁▄"},        // of negative numbers, too
		{"min", []int64{5, 6, 7, 5}, " ▁▄█▁"},
		{"max", []int64{5, 5, 5, 5}, " ▄▄▄▄"},
		{"avg", []int64{-1, 0, 1, 0}, " ▁▄█▄"},
		{"plain", []int64{1, 2, 3, 3}, " ▁▄██"},
	} {
		m := &manifest.Map{Name: "@x", Shape: x.shape, Present: -1, Key: integer, Value: integer}
		if x.shape == "count" {
			m.Value = nil
		}
		p := newPlayer()
		for _, v := range x.values {
			p.step(m, element(m, 1, v))
		}
		last := x.values[len(x.values)-1]
		check(t, p.drawn(m, element(m, 1, last)), fmt.Sprintf("@x[1]: %d%s\n", last, x.want))
	}
}

// TestTimes: a rate is that of a second, whatever the length of an interval, and of those since a key was last there.
func TestTimes(t *testing.T) {
	m := &manifest.Map{Name: "@x", Shape: "count", Present: -1, Key: integer}
	p := newPlayer()
	p.step(m, element(m, 1, 0))
	p.step(m, element(m, 1, 100))
	p.now = p.now.Add(time.Second) // this interval has two seconds
	p.step(m, element(m, 1, 300))
	p.step(m)
	p.step(m, element(m, 1, 400), element(m, 2, 7)) // 50 in each of two seconds
	check(t, p.drawn(m, element(m, 1, 400), element(m, 2, 7)), "@x[1]: 400  ██▄▄\n@x[2]: 7\n")
}

// TestCleared: a map that the script clears has the values of intervals.
func TestCleared(t *testing.T) {
	m := &manifest.Map{Name: "@x", Shape: "count", Present: -1, Key: integer}
	p := newPlayer()
	p.manifest.Events = []manifest.Event{{Kind: "clear", Map: "@y"}, {Kind: "clear", Map: "@x"}}
	for _, n := range []int64{50, 100, 50} {
		p.step(m, element(m, 1, n))
	}
	check(t, p.drawn(m, element(m, 1, 50)), "@x[1]: 50 ▄█▄\n")
}

// TestPlainText: what has no history, and everything without drawing, is text.
func TestPlainText(t *testing.T) {
	m := &manifest.Map{Name: "@x", Shape: "count", Present: -1, Key: integer}
	h := New(false)
	for range 3 {
		h.Next(new(manifest.Manifest))
		h.Add(time.Now(), m, []render.Element{element(m, 1, 5)})
	}
	check(t, text(h.Lines(&format.Env{}, m, []render.Element{element(m, 1, 5)}, render.Top{})), "@x[1]: 5\n")
	p := newPlayer()
	p.step(m, element(m, 1, 5))
	check(t, p.drawn(m, element(m, 1, 5)), "@x[1]: 5\n")
	text := &manifest.Map{Name: "@s", Shape: "plain", Present: -1, Key: integer, Value: &manifest.Layout{Kind: "string", Size: 8, Count: 8}}
	el := render.Element{Key: number(1), Set: true, Bytes: []byte("abc\x00\x00\x00\x00\x00")}
	p.step(text, el)
	p.step(text, el)
	check(t, p.drawn(text, el), "@s[1]: abc\n")
	scalar := &manifest.Map{Name: "@n", Shape: "count"}
	check(t, p.drawn(scalar, render.Element{}), "")
}

// TestHeatMap: a histogram shows what each bucket has counted in each interval, from the highest bucket to the lowest.
func TestHeatMap(t *testing.T) {
	m := &manifest.Map{Name: "@h", Shape: "lhist", Present: -1, Key: integer, MapParams: manifest.MapParams{Max: 100, Step: 10}}
	p := newPlayer()
	hist := func(counts ...uint64) render.Element {
		return render.Element{Key: number(1), Set: true, Buckets: counts}
	}
	p.step(m, hist(0, 4))
	p.step(m, hist(0, 4, 0, 8))
	p.step(m, hist(0, 4, 1, 16))
	p.step(m, hist(0, 2)) // cleared
	check(t, p.drawn(m, hist(0, 2)), `@h[1]:
[20, 30)               0 |  ██
[10, 20)               0 |   ░
[0, 10)                2 |    ░

`)
	summary := text(p.h.Lines(&format.Env{}, m, []render.Element{{Key: number(1), Set: true, Buckets: []uint64{0, 2}, State: aggregate.State{Count: 2}}}, render.Top{Summary: true}))
	if !strings.Contains(summary, "    ░\ncount 2, average about 4, p50 <= 9") {
		t.Errorf("summary:\n%s", summary)
	}
	m.Max, m.Step = 10000, 1
	check(t, p.drawn(m, hist(append([]uint64{0, 1}, append(make([]uint64, 300), 1)...)...))[:40], "@h[1]:\n[0]                    1 |@@@@@@@") // too many rows
}

// TestSeries: a tseries is a graph over time; of many keys, each has one line.
func TestSeries(t *testing.T) {
	m := &manifest.Map{Name: "@t", Shape: "tseries", Present: -1, Value: integer, MapParams: manifest.MapParams{Interval: 1e9, Intervals: 60},
		Key: &manifest.Layout{Kind: "tuple", Size: 16, Fields: []manifest.Field{{Layout: *integer}, {Off: 8, Layout: *integer}}}}
	series := func(key int64, values ...int64) render.Element {
		el := render.Element{Key: number(key), Set: true, Last: 9, Rows: uint64(len(values))}
		for i, v := range values {
			if v >= 0 {
				el.Points = append(el.Points, aggregate.Point{N: uint64(10 - len(values) + i), Value: uint64(v)})
			}
		}
		return el
	}
	p := newPlayer()
	check(t, p.drawn(m, series(1, 0, 32, -1, 64)), `@t[1]:
              56 |    █
              48 |    █
              40 |    █
              32 |  ▁ █
              24 |  █ █
              16 |  █ █
               8 |  █ █
               0 | ▁█ █
                  each column is 1s, the last one 00:00:09
`)
	check(t, p.drawn(m, series(1, 5, 5), series(2, 0, 0)), `@t[1]:
            3.75 | ██
             2.5 | ██
            1.25 | ██
               0 | ██
                  each column is 1s, the last one 00:00:09
@t[2]:
            3.75 |
             2.5 |
            1.25 |
               0 | ▁▁
                  each column is 1s, the last one 00:00:09
`)
	if got := p.drawn(m, series(1, 5, 5)); !strings.Contains(got, "               6 |\n               5 | ▁▁\n") {
		t.Errorf("equal values:\n%s", got)
	}
	var many []render.Element
	for i := range int64(5) {
		many = append(many, series(i, 0, i, 2*i))
	}
	check(t, p.drawn(m, many...), "@t[0]: 0 ▁▁▁\n@t[1]: 2 ▁▁▂\n@t[2]: 4 ▁▂▄\n@t[3]: 6 ▁▃▆\n@t[4]: 8 ▁▄█\n")
	m.Interval = 5e8
	if got := p.drawn(m, series(1, 1, 2)); !strings.Contains(got, "each column is 500ms, the last one 00:00:04.500") {
		t.Errorf("an interval below a second:\n%s", got)
	}
}

// TestBounds: what is kept is bounded in time, elements and values.
func TestBounds(t *testing.T) {
	m := &manifest.Map{Name: "@x", Shape: "count", Present: -1, Key: integer}
	p := newPlayer()
	var all []render.Element
	for i := range int64(1000) {
		all = append(all, element(m, i, i))
	}
	for range 2 * maxIntervals {
		p.step(m, all...)
	}
	if p.h.window != maxIntervals || len(p.h.tracks) != maxElements {
		t.Errorf("%d intervals of %d elements", p.h.window, len(p.h.tracks))
	}
	for range maxIntervals {
		p.step(m)
	}
	if len(p.h.tracks) != 0 {
		t.Errorf("%d elements that are gone", len(p.h.tracks))
	}
	wide := &manifest.Map{Name: "@h", Shape: "lhist", Present: -1, Key: integer, MapParams: manifest.MapParams{Max: 1000, Step: 1}}
	for i := range all {
		all[i].Buckets = make([]uint64, 1000)
	}
	for range 50 {
		p.step(wide, all...)
	}
	if p.h.size > 2*maxValues || p.h.window == 0 {
		t.Errorf("%d values, %d intervals", p.h.size, p.h.window)
	}
}
