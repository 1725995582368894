// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strings"

	"btc/internal/blocks"
	"btc/loader/object"
	"btc/loader/output"
	"btc/loader/permit"
	"btc/loader/render"
)

// top returns how a map is printed: keep and div are those of print(), and 0 for a map that the run
// prints itself.
func (o *Options) top(keep int, div uint32) render.Top {
	if n := o.Top; n > 0 && (keep == 0 || keep > n) {
		keep = n
	}
	return render.Top{Keep: keep, Div: div, Order: o.Sort, Summary: o.Summary}
}

// liveView draws the maps below the output, as many as fit.
func (w *writer) liveView(maps []*output.Map) {
	head := fmt.Appendf(nil, "%s   every %v, Ctrl-C ends", w.At.Format("15:04:05"), w.opts.Every)
	lines := []blocks.Line{{Text: head}}
	w.drawn.Next(w.manifest)
	for _, x := range maps {
		elems := render.Ordered(x.Map, x.Elements, x.Top)
		w.drawn.Add(w.At, x.Map, elems)
		lines = append(lines, w.drawn.Lines(w.Env, x.Map, elems, x.Top)...)
	}
	output.RecordSnapshot(w.sink, func(show func(*output.Map)) {
		for _, x := range maps {
			show(x)
		}
	})
	w.Out.Flush(true)
	w.msg.screen.Paint(lines) // a write error also fails every later write
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
