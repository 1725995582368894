// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strconv"
	"sync/atomic"
	"time"

	"btc/internal/manifest"
	"btc/loader/output"
)

// snapshots shows all maps at an interval (Options.Every), without the script asking for it.
type snapshots struct {
	every     time.Duration
	next      time.Time
	timer     *time.Timer // wakes the event reader
	pending   atomic.Bool // a snapshot is being written
	requested atomic.Bool // a snapshot was requested
	skipped   int         // skipped since the last warning
	slow      bool        // one of them because the output did not accept what was written
	warned    time.Time   // when that was
	told      time.Time   // when it was last reported that a document could not be written
}

// start schedules the first snapshot, and calls wake when one is due. Formats whose file is read by others (documents)
// start at once, so that readers see that the run has begun.
func (c *snapshots) start(every time.Duration, document bool, wake func()) {
	if every <= 0 {
		return
	}
	c.every, c.next = every, time.Now()
	if !document {
		c.next = c.next.Add(every)
	}
	c.timer = time.AfterFunc(time.Until(c.next), wake)
}

// due reports whether a snapshot is due or was requested. Snapshots that could not be shown in time are skipped; the
// next one is at the next multiple of the interval.
func (c *snapshots) due(now time.Time) bool {
	requested := c.requested.Load() && c.requested.Swap(false)
	if c.timer == nil || now.Before(c.next) {
		return requested
	}
	c.next = c.next.Add(now.Sub(c.next).Truncate(c.every) + c.every)
	c.timer.Reset(c.next.Sub(now))
	return true
}

// skipWarning returns a warning of snapshots that were skipped since the last one; "" if there are none, or it is too early to
// warn again. At the end of a run, final, it is not.
func (c *snapshots) skipWarning(now time.Time, final bool) string {
	const every = 10 * time.Second
	if c.skipped == 0 || !final && now.Sub(c.warned) < every {
		return ""
	}
	what := " snapshots were"
	if c.skipped == 1 {
		what = " snapshot was"
	}
	what = "WARNING: " + strconv.Itoa(c.skipped) + what + " skipped: "
	slow := c.slow
	c.skipped, c.slow, c.warned = 0, false, now
	if slow {
		return what + "the output does not accept what is written in time"
	}
	return what + "the one before was still being made; the CPU is busy, or the maps are too large for this interval"
}

// warnSkipped warns of skipped snapshots.
func (s *session) warnSkipped(now time.Time, final bool) {
	if text := s.snapshots.skipWarning(now, final); text != "" {
		s.msg.warn(text)
	}
}

// snapshot shows the maps when they are due. They are read here, on the event reader, which also
// clears maps; the printer formats and writes them.
func (s *session) snapshot(now time.Time) {
	c := &s.snapshots
	if !c.due(now) {
		return
	}
	if c.pending.Swap(true) {
		c.skipped++
		c.slow = c.slow || s.msg.printer.writing.Load()
		return
	}
	s.warnSkipped(now, false)
	var all []*output.Map
	size := 0
	for _, m := range s.maps.scripts() {
		elems, err := s.maps.elements(m)
		if err != nil {
			s.msg.report(m.Pos, err)
			continue
		}
		all = append(all, &output.Map{Map: m, Elements: elems, Top: s.opts.top(0, 0)})
		size += len(elems) * (m.KeySize + 8*m.ValueSize)
	}
	s.front.later(size, manifest.Pos{}, func(w *writer) {
		defer c.pending.Store(false)
		if s.msg.screen != nil {
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
	s.front.Out.Idle() // the printer shows them now: the next event may be long after
}

// documentInterval is the minimum time between two reports of documents that could not be written.
const documentInterval = 10 * time.Second

// endDocument passes on the output as a whole document, if the format replaces documents. The run fails if its last
// document is lost.
func (w *writer) endDocument(last bool) {
	d, ok := w.opts.Out.(output.Replacer)
	if !ok || !w.opts.Sink.Document {
		return
	}
	w.Out.Flush(true)
	err := d.Replace()
	if err == nil {
		return
	}
	if last {
		w.end.unwritten.Store(true)
	}
	if now := time.Now(); last || now.Sub(w.snapshots.told) >= documentInterval {
		w.snapshots.told = now
		w.msg.warn("WARNING: " + err.Error())
	}
}
