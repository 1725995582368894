// SPDX-License-Identifier: Apache-2.0

// Package view is the live view of a run: it takes the maps of each snapshot and the keys of the user, and draws the part that the
// user has chosen on a screen.
package view

import (
	"cmp"
	"os"
	"slices"
	"time"

	"btc/internal/blocks"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/history"
	"btc/loader/output"
	"btc/loader/render"
	"btc/loader/run/tty"
)

// View has the maps of the last snapshot, and what the user has chosen to see of them. One goroutine uses it, but for Close.
type View struct {
	// Note is shown with the interval.
	Note string

	keys    *tty.Keys // nil: none
	keyed   bool      // there are keys; set before the first one
	screen  *tty.Screen
	history *history.History
	rates   render.Rates
	pager   tty.Pager
	every   time.Duration

	at   time.Time
	maps []*output.Map
	// order is the order of the elements, and given that of the options.
	order, given string
	rate         bool // rates are shown
	paused       bool // snapshots are not
}

// New returns a view on a screen, of snapshots at an interval. Elements are in an order, with their rates or not. blocks draws
// how they changed.
func New(screen *tty.Screen, every time.Duration, order string, rate, blocks bool) *View {
	return &View{screen: screen, history: history.New(blocks), every: every, order: order, given: order, rate: rate}
}

// ByName makes a function identify the elements of a map, whose keys are not the same in all snapshots.
func (v *View) ByName(name func(m *manifest.Map, el *render.Element) string) {
	v.rates.Name, v.history.Name = name, name
}

// Listen calls pressed with each key of a terminal, one at a time, until Close.
func (v *View) Listen(terminal *os.File, pressed func(tty.Key)) {
	v.keyed = tty.HasKeys
	v.keys = tty.Listen(terminal, pressed, v.screen.Show)
}

// Close ends the keys. A nil receiver has none.
func (v *View) Close() {
	if v != nil {
		v.keys.Close()
	}
}

// Press acts on a key, and reports whether that changes the view.
func (v *View) Press(key tty.Key, env *format.Env) bool {
	switch key {
	case ' ':
		v.paused = !v.paused
	case 'r':
		v.rate = !v.rate
	case 's':
		v.order = render.Orders[(slices.Index(render.Orders, cmp.Or(v.order, render.Ascending))+1)%len(render.Orders)]
	default:
		return v.pager.Press(key, v.sections(env))
	}
	return true
}

// Add takes the maps of a snapshot of a run. While the view is paused they are not shown.
func (v *View) Add(at time.Time, run *manifest.Manifest, maps []*output.Map) {
	if v.paused {
		return
	}
	v.at, v.maps = at, maps
	v.rates.Next(at)
	v.history.Next(run)
	for _, x := range maps {
		v.history.Add(at, x.Map, render.Ordered(x.Map, x.Elements, x.Top))
		x.Top.Rate = v.rates.Of(run, x.Map, x.Elements, true)
	}
}

// Draw draws the view, as much of it as fits. An error of the screen is one of the next output as well.
func (v *View) Draw(env *format.Env) {
	if v.at.IsZero() { // before the first snapshot
		return
	}
	sections := v.sections(env)
	head := v.at.AppendFormat(nil, "15:04:05   ")
	if v.paused {
		head = append(head, "paused, "...)
	}
	if v.order != v.given {
		head = append(append(append(head, "order: "...), v.order...), ", "...)
	}
	rest := ", Ctrl-C ends"
	if v.keyed {
		rest = ", q: end, h: help"
	}
	rest = v.Note + "every " + v.every.String() + rest
	v.screen.Paint(func(rows int) []blocks.Line { return v.pager.View(head, rest, sections, rows) })
}

// sections returns the lines of the maps that have any.
func (v *View) sections(env *format.Env) (all []tty.Section) {
	bar := max(v.screen.Columns()-1-render.RowWidth, 1)
	for _, x := range v.maps {
		top := x.Top
		top.Order, top.Bar = v.order, bar
		if !v.rate {
			top.Rate = nil
		}
		elems := render.Ordered(x.Map, x.Elements, top)
		if lines := v.history.Lines(env, x.Map, elems, top); len(lines) > 0 {
			all = append(all, tty.Section{Name: x.Map.Name, Lines: lines})
		}
	}
	return all
}
