// SPDX-License-Identifier: Apache-2.0

package run

import (
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	tables "btc/internal/unwind"
	"btc/loader/load"
	"btc/loader/output"
)

// lossCounter reports what the programs could not deliver. It reads the u64 counters in the global
// "lost", which the manifest describes.
type lossCounter struct {
	*session
	seen []loss
	next time.Time
	// loops has the loops that were stopped (load.Loops).
	loops     []loss
	loopsNext time.Time
	limited   rateLimits        // of Manifest.Errors, by index
	earlier   map[string]uint64 // losses of earlier objects of the run, by cause
}

// loss is the state of one counter as last reported.
type loss struct {
	n     uint64
	swept uint64 // the counter when the stack table was last swept
	shown bool   // the message, with the line of the script
	backoff
}

func newLossCounter(s *session) *lossCounter {
	return &lossCounter{session: s, seen: make([]loss, len(s.manifest.Losses))}
}

// lossInterval is how often losses are checked during the run.
const lossInterval = time.Second

// check reports losses since the last report, at growing intervals. If final is set it reports them
// at once, followed by the total.
func (c *lossCounter) check(final bool) {
	c.checkLoops(final)
	if final {
		if text := cutStacks(c.walks.read()); text != "" {
			c.msg.warn(text)
		}
	}
	if len(c.seen) == 0 || !final && time.Now().Before(c.next) {
		return
	}
	counters := c.read()
	if counters == nil {
		return
	}
	now := time.Now()
	c.next = now.Add(lossInterval)
	total := uint64(0)
	for i := range c.seen {
		n, seen := counters[i], &c.seen[i]
		if c.manifest.Losses[i].Kind == "events" {
			total += n
		}
		if l := &c.manifest.Losses[i]; l.Kind == "stack" && n > seen.swept && !final {
			seen.swept = n
			if err := c.maps.sweepFull(l.Map, c.msg.printer); err != nil {
				c.msg.report(manifest.Pos{}, err)
			}
		}
		if n > seen.n && (final || seen.due(now)) {
			c.report(&c.manifest.Losses[i], n-seen.n, !seen.shown)
			seen.n, seen.shown = n, true
			seen.reported(now)
		}
	}
	if final && total > 0 {
		c.msg.warn(fmt.Sprintf("WARNING: Total lost event count: %d", total))
	}
}

// checkLoops reports the loops that were stopped since the last report, like check.
func (c *lossCounter) checkLoops(final bool) {
	if c.loaded.Loops == nil || !final && time.Now().Before(c.loopsNext) {
		return
	}
	stopped, err := c.loaded.Loops.Stopped()
	if err != nil {
		return
	}
	if c.loops == nil {
		c.loops = make([]loss, len(stopped))
	}
	now := time.Now()
	c.loopsNext = now.Add(lossInterval)
	for i := range c.loops {
		seen := &c.loops[i]
		n := stopped[i] - seen.n
		if n == 0 || !final && !seen.due(now) {
			continue
		}
		at, text := &c.loaded.Loops.Of[i], loopText
		if at.Kind == load.Iterator {
			text = iteratorText
		}
		if n > 1 {
			text += fmt.Sprintf(" (%d times)", n)
		}
		c.front.report(&output.Diagnostic{
			Kind: "runtime_error", Severity: "WARNING", Pos: *at.Pos, Chain: at.Chain, Text: text, Source: !seen.shown,
		})
		c.end.errors++
		seen.n, seen.shown = stopped[i], true
		seen.reported(now)
	}
}

// loopText is the message about a loop that used up the budget of its run.
const loopText = "Loop stopped: the loops of one run took 0.25 s of CPU time; --allow long-loops lifts this limit"

// iteratorText is the message about an iterator that used up its time (rewrite.Budget.Timed).
const iteratorText = "Iterator stopped: it took 10 s of CPU time; --allow long-loops lifts this limit"

// read returns the current counters; nil if they cannot be read.
func (c *lossCounter) read() []uint64 {
	b := make([]byte, 8*len(c.manifest.Losses))
	if v := c.loaded.Variables["lost"]; v == nil || v.Get(b) != nil {
		return nil
	}
	out := make([]uint64, len(c.manifest.Losses))
	for i := range out {
		out[i] = binary.NativeEndian.Uint64(b[8*i:])
	}
	return out
}

// counts returns the losses since the start by cause, in manifest order.
func (c *lossCounter) counts() []output.Loss {
	counters := make([]byte, 8*len(c.manifest.Losses))
	v := c.loaded.Variables["lost"]
	var out []output.Loss
	for i, n := range c.walks.read() {
		if r := tables.Reason(i); r != tables.Whole {
			out = append(out, output.Loss{Cause: cutCause(r), N: n + c.earlier[cutCause(r)]})
		}
	}
	if len(counters) == 0 || v == nil || v.Get(counters) != nil {
		return out
	}
	at := map[string]int{}
	for i := range c.manifest.Losses {
		cause := c.manifest.Losses[i].Kind
		if cause == "unused" {
			continue
		}
		if _, ok := at[cause]; !ok {
			at[cause] = len(out)
			out = append(out, output.Loss{Cause: cause, N: c.earlier[cause]})
		}
		out[at[cause]].N += binary.NativeEndian.Uint64(counters[8*i:])
	}
	return out
}

// report reports n losses; the first report includes the line of the script.
func (c *lossCounter) report(l *manifest.Loss, n uint64, first bool) {
	switch l.Kind {
	case "events":
		c.front.sink.Lost(n)
	case "map", "stack":
		d := &output.Diagnostic{
			Kind:     "helper_error",
			Severity: "WARNING",
			Text:     c.fullText(l, n),
			Helper:   "map_update_elem",
			Code:     -int(unix.E2BIG),
			Source:   first,
		}
		if m := c.manifest.Map(l.Map); m != nil {
			d.Pos = m.Pos
			if m.Update != nil {
				d.Pos = *m.Update
			}
			if l.Pos != nil {
				d.Pos, d.Chain = *l.Pos, l.Chain
			}
		}
		c.front.report(d)
	case "scratch":
		c.msg.warn(fmt.Sprintf("WARNING: %d events were dropped because programs interrupted each other too deeply", n))
	}
}

// suppressed reports how many messages were suppressed.
func (c *lossCounter) suppressed(final bool) {
	c.limited.due(time.Now(), final, func(i int, n uint64) {
		x := &c.manifest.Errors[i]
		text := x.Text
		if x.Helper != "" {
			text = x.Helper + " failed"
		}
		c.front.report(&output.Diagnostic{
			Kind: "runtime_error", Severity: "WARNING", Pos: x.Pos, Chain: x.Chain,
			Text: fmt.Sprintf("%s (%d more times)", text, n),
		})
	})
}

// fullText describes n failed updates of a map or stack table.
func (c *lossCounter) fullText(l *manifest.Loss, n uint64) string {
	if l.Kind == "stack" {
		size := c.maps.open[l.Map].MaxEntries
		return fmt.Sprintf("Stack table full: %d stacks were not kept. The table has %d, and those that no map refers to are now removed. Try increasing max_stacks config, e.g. `config = { max_stacks = %d }`, or BPFTRACE_MAX_STACKS",
			n, size, 2*size)
	}
	text := "Map full; can't update element. Try increasing max_map_keys config or manually setting the max entries in a map declaration e.g. `let " + l.Map + " = hash(5000)`"
	if n > 1 {
		text += fmt.Sprintf(" (%d times)", n)
	}
	return text
}
