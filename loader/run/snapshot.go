// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"

	"btc/internal/manifest"
	"btc/loader/output"
)

// snapshots shows all maps at an interval (Options.Every), without the script asking for it.
type snapshots struct {
	next      time.Time
	timer     *time.Timer // wakes the event reader
	pending   atomic.Bool // a snapshot is being written
	requested atomic.Bool // a snapshot was requested
	skipped   int         // skipped since the last warning
	told      time.Time   // when it was last reported that a document could not be written
}

// startSnapshots schedules the first snapshot. Formats whose file is read by others start at once,
// so that readers see that the run has begun.
func (s *session) startSnapshots() {
	if s.opts.Every <= 0 {
		return
	}
	s.snapshots.next = time.Now()
	if !s.opts.Format.Document {
		s.snapshots.next = s.snapshots.next.Add(s.opts.Every)
	}
	s.snapshots.timer = time.AfterFunc(time.Until(s.snapshots.next), s.events.wake)
}

// snapshot shows the maps when they are due. They are read here, on the event reader, which also
// clears maps; the printer formats and writes them.
func (s *session) snapshot(now time.Time) {
	c := &s.snapshots
	requested := c.requested.Load() && c.requested.Swap(false)
	due := c.timer != nil && !now.Before(c.next)
	if !due && !requested {
		return
	}
	if due {
		// Snapshots that could not be shown in time are skipped; the next one is at the next
		// multiple of the interval.
		c.next = c.next.Add(now.Sub(c.next).Truncate(s.opts.Every) + s.opts.Every)
		c.timer.Reset(c.next.Sub(now))
	}
	if c.pending.Swap(true) {
		c.skipped++
		return
	}
	if c.skipped > 0 {
		s.warn(fmt.Sprintf("WARNING: slow output: %d snapshots were skipped", c.skipped))
		c.skipped = 0
	}
	var all []*output.Map
	size := 0
	for _, m := range s.maps.scripts() {
		elems, err := s.maps.elements(m)
		if err != nil {
			s.complain(m.Pos, err)
			continue
		}
		all = append(all, &output.Map{Map: m, Elements: elems, Top: s.top(0, 0)})
		size += len(elems) * (m.KeySize + 8*m.ValueSize)
	}
	s.front.later(size, manifest.Pos{}, func(w *writer) {
		defer c.pending.Store(false)
		if s.screen != nil {
			w.liveView(all)
			return
		}
		w.sink.Snapshot(func(show func(*output.Map)) {
			for _, x := range all {
				show(x)
			}
		})
		w.endDocument(false)
	})
}

// showNow requests a snapshot, which the event reader makes as soon as it can.
func (s *session) showNow() {
	s.snapshots.requested.Store(true)
	s.events.wake()
}

// documentInterval is the minimum time between two reports of documents that could not be written.
const documentInterval = 10 * time.Second

// endDocument passes on the output as a whole document, if the format replaces documents. The run fails if its last
// document is lost.
func (w *writer) endDocument(last bool) {
	d, ok := w.opts.Out.(output.Replacer)
	if !ok || !w.opts.Format.Document {
		return
	}
	w.Out.Flush(true)
	err := d.Replace()
	if err == nil {
		return
	}
	if last {
		w.unwritten.Store(true)
	}
	if now := time.Now(); last || now.Sub(w.snapshots.told) >= documentInterval {
		w.snapshots.told = now
		w.warn("WARNING: " + err.Error())
	}
}

// lossCounts returns the losses since the start by cause, in manifest order.
func (s *session) lossCounts() []output.Loss {
	counters := make([]byte, 8*len(s.manifest.Losses))
	v := s.loaded.Variables["lost"]
	if len(counters) == 0 || v == nil || v.Get(counters) != nil {
		return nil
	}
	var out []output.Loss
	at := map[string]int{}
	for i := range s.manifest.Losses {
		cause := s.manifest.Losses[i].Kind
		if cause == "unused" {
			continue
		}
		if _, ok := at[cause]; !ok {
			at[cause] = len(out)
			out = append(out, output.Loss{Cause: cause})
		}
		out[at[cause]].N += binary.NativeEndian.Uint64(counters[8*i:])
	}
	return out
}
