// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strings"

	"btc/loader/format"
	"btc/loader/object"
	"btc/loader/output"
	"btc/loader/permit"
	"btc/loader/render"
	"btc/loader/run/tty"
)

// top returns how a map is printed: keep and div are those of print(), and 0 for a map that the run
// prints itself.
func (o *Options) top(keep int, div uint32) render.Top {
	if n := o.Top; n > 0 && (keep == 0 || keep > n) {
		keep = n
	}
	return render.Top{Keep: keep, Div: div, Order: o.Sort, Summary: o.Summary}
}

// listen begins to act on keys. Commands of system() read the terminal themselves.
func (x *Session) listen() {
	s := x.s()
	if s.view == nil || s.opts.Keys == nil || !format.IsTerminal(s.opts.Keys) || hasEvent(s.manifest, "system") {
		return
	}
	s.view.Listen(s.opts.Keys, func(key tty.Key) {
		if key == 'q' {
			x.Stop()
			return
		}
		x.keys.Lock()
		defer x.keys.Unlock()
		s := x.s()
		s.msg.queue(func() {
			if s.view.Press(key, s.back.Env) {
				s.back.Out.Flush(true)
				s.view.Draw(s.back.Env)
			}
		}, 0)
	})
}

// liveView draws the maps of a snapshot below the output.
func (w *writer) liveView(maps []*output.Map) {
	w.view.Add(w.At, w.manifest, maps)
	output.RecordSnapshot(w.sink, func(show func(*output.Map)) {
		for _, x := range maps {
			show(x)
		}
	})
	w.Out.Flush(true)
	w.view.Draw(w.Env)
}

// largeMap is the size from which on a map causes a warning, in bytes.
const largeMap = 32 << 20

// warnLarge warns about maps that use much memory, on a host with so many CPUs.
func warnLarge(o *object.Object, cpus int, msg *messages) {
	for i := range o.Manifest.Maps {
		m := &o.Manifest.Maps[i]
		spec := o.Spec.Maps[m.Symbol]
		if spec == nil || m.Shape == "stack" { // those are sized by the memory, or by max_stacks
			continue
		}
		if n := permit.MapMemory(spec, cpus); n > largeMap {
			perCPU := ""
			if strings.Contains(m.Type, "percpu") {
				perCPU = fmt.Sprintf(" on each of %d CPUs", cpus)
			}
			msg.report(
				m.Pos,
				fmt.Errorf("%s takes %s of the kernel's memory: %d keys, %d bytes of each value%s; config = { max_map_keys = N } makes it smaller",
					m.Name, permit.Size(n), spec.MaxEntries, spec.ValueSize, perCPU),
			)
		}
	}
}
