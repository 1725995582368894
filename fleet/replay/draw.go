// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"maps"
	"slices"

	"btc/internal/blocks"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/history"
	"btc/loader/output"
	"btc/loader/render"
)

// Terminal is a terminal with block characters.
type Terminal struct {
	Columns int
	Color   bool
}

// drawing is the sink of a replay on a terminal: it passes on the text, and draws at the end what the maps were over time.
type drawing struct {
	output.Sink
	player  *player
	history *history.History
	added   map[string]bool          // maps that the history has in this interval; nil: none has begun
	latest  map[string][]blocks.Line // of each map, as it was when it was last shown
	ended   bool
}

func newDrawing(p *player, old *drawing, sink output.Sink) *drawing {
	d := &drawing{Sink: sink, player: p, history: history.New(true), latest: map[string][]blocks.Line{}}
	if old != nil { // of the object before
		d.history, d.latest = old.history, old.latest
	}
	d.history.Name = nil
	if p.merged {
		d.history.Name = d.keyText
	}
	return d
}

// keyText returns the text of an element's key. In a report of several hosts, the numbers of what has only a text are those of
// one line.
func (d *drawing) keyText(m *manifest.Map, el *render.Element) string {
	if m.Scalar() {
		return ""
	}
	return string(d.player.run.Env.Append(nil, format.Value{Layout: render.KeyLayout(m), Bytes: el.Key}))
}

// next begins an interval.
func (d *drawing) next() {
	d.history.Next(d.player.manifest)
	d.added = map[string]bool{}
}

// add notes a map. Each print() of one begins an interval.
func (d *drawing) add(x *output.Map) {
	if d.added == nil || d.added[x.Map.Name] {
		d.next()
	}
	d.added[x.Map.Name] = true
	elems := render.Ordered(x.Map, slices.Clone(x.Elements), x.Top)
	d.history.Add(d.player.run.At, x.Map, elems)
	d.latest[x.Map.Name] = d.history.Lines(d.player.run.Env, x.Map, elems, x.Top)
}

func (d *drawing) Map(x *output.Map) {
	if !d.player.merged { // those of a host are not those of the report
		d.add(x)
	}
	d.Sink.Map(x)
}

func (d *drawing) Snapshot(all func(show func(*output.Map))) {
	d.next()
	d.Sink.Snapshot(func(show func(*output.Map)) {
		all(func(x *output.Map) {
			d.add(x)
			show(x)
		})
	})
}

// End shows the maps with what is known of their elements over time.
func (d *drawing) End(all func(show func(*output.Map))) {
	d.ended = true
	d.Sink.End(func(func(*output.Map)) {
		all(func(x *output.Map) {
			elems := render.Ordered(x.Map, x.Elements, x.Top)
			lines := d.history.Lines(d.player.run.Env, x.Map, elems, x.Top)
			d.write(lines)
			if drawn(lines) {
				delete(d.latest, x.Map.Name)
			}
		})
	})
	d.finish()
}

// finish draws the maps that are not shown at the end: the script has cleared them, or the end is not replayed.
func (d *drawing) finish() {
	for _, name := range slices.Sorted(maps.Keys(d.latest)) {
		if lines := d.latest[name]; drawn(lines) {
			d.player.run.Out.Write([]byte("\n"))
			d.write(lines)
		}
	}
	clear(d.latest)
}

// drawn reports whether there is more in lines than text.
func drawn(lines []blocks.Line) bool {
	return slices.ContainsFunc(lines, func(l blocks.Line) bool { return len(l.Values) > 0 })
}

func (d *drawing) write(lines []blocks.Line) {
	for _, line := range blocks.Draw(lines, d.player.opts.Terminal.Columns, d.player.opts.Terminal.Color) {
		d.player.run.Out.Write(append(line, '\n'))
	}
}
