// SPDX-License-Identifier: Apache-2.0

package output

import (
	"time"

	"btc/internal/manifest"
	"btc/loader/format"
)

// tee is the sink of a run that is recorded. Each report has one time, and one state of what is counted meanwhile.
type tee struct {
	shown, record Sink
	run, rec      *Run
	names         frameCache
}

// Tee returns the sink of a run with a recording: it passes what it receives to shown, which writes to run, and to
// record, which writes to rec, a copy of run with another Out.
func Tee(run *Run, shown Sink, rec *Run, record Sink) Sink {
	t := &tee{shown: shown, record: record, run: run, rec: rec}
	for _, env := range []*format.Env{run.Env, rec.Env} {
		t.names.use(env)
	}
	return t
}

// frameCache gives both sinks the same names of addresses: meanwhile, processes execute other programs and load libraries. It
// holds one report at a time.
type frameCache struct {
	active bool
	stacks map[stackKey][]format.Frame
	frames int // in stacks
	syms   map[symKey]string
}

type stackKey struct {
	layout *manifest.Layout
	id     uint64
	tgid   uint32
}

type symKey struct {
	addr uint64
	tgid uint32
}

// maxCached bounds the frames and the symbols of one report. The names of more than that are looked up for each sink.
const maxCached = 1 << 17

// use makes env look names up in the cache first.
func (c *frameCache) use(env *format.Env) {
	if stack := env.Stack; stack != nil {
		env.Stack = func(l *manifest.Layout, id uint64, tgid uint32) []format.Frame {
			key := stackKey{l, id, tgid}
			frames, ok := c.stacks[key]
			if !ok {
				frames = stack(l, id, tgid)
				if c.active && c.frames < maxCached {
					c.stacks[key] = frames
					c.frames += len(frames) + 1
				}
			}
			return frames
		}
	}
	if usym := env.Usym; usym != nil {
		env.Usym = func(addr uint64, tgid uint32) string {
			key := symKey{addr, tgid}
			name, ok := c.syms[key]
			if !ok {
				if name = usym(addr, tgid); c.active && len(c.syms) < maxCached {
					c.syms[key] = name
				}
			}
			return name
		}
	}
}

// begin and end enclose one report.
func (c *frameCache) begin() {
	c.active, c.stacks, c.syms = true, map[stackKey][]format.Frame{}, map[symKey]string{}
}

func (c *frameCache) end() { *c = frameCache{} }

// both calls f for both sinks.
func (t *tee) both(f func(s Sink)) {
	at := t.run.At
	t.run.At = orNow(at)
	t.rec.At = t.run.At
	t.names.begin()
	f(t.shown)
	f(t.record)
	t.names.end()
	t.run.At = at
}

// orNow returns at, or the current time if at is zero.
func orNow(at time.Time) time.Time {
	if at.IsZero() {
		return time.Now()
	}
	return at
}

func (t *tee) Attached(n int)     { t.both(func(s Sink) { s.Attached(n) }) }
func (t *tee) Pinned(path string) { t.both(func(s Sink) { s.Pinned(path) }) }
func (t *tee) Printf(e *format.Event, f *format.Format) {
	t.both(func(s Sink) { s.Printf(e, f) })
}
func (t *tee) Print(e *format.Event)             { t.both(func(s Sink) { s.Print(e) }) }
func (t *tee) Time(e *format.Event, text []byte) { t.both(func(s Sink) { s.Time(e, text) }) }
func (t *tee) Join(e *format.Event, parts [][]byte, separator string) {
	t.both(func(s Sink) { s.Join(e, parts, separator) })
}
func (t *tee) Piece(e *format.Event, piece []byte, first, last bool) {
	t.both(func(s Sink) { s.Piece(e, piece, first, last) })
}
func (t *tee) Map(x *Map)               { t.both(func(s Sink) { s.Map(x) }) }
func (t *tee) Diagnostic(d *Diagnostic) { t.both(func(s Sink) { s.Diagnostic(d) }) }
func (t *tee) Detached(d *Detachment)   { t.both(func(s Sink) { s.Detached(d) }) }
func (t *tee) Lost(n uint64)            { t.both(func(s Sink) { s.Lost(n) }) }
func (t *tee) BeginTrials(mode string, names []string) {
	t.both(func(s Sink) { s.BeginTrials(mode, names) })
}
func (t *tee) Trial(x *Trial) { t.both(func(s Sink) { s.Trial(x) }) }
func (t *tee) EndTrials()     { t.both(func(s Sink) { s.EndTrials() }) }
func (t *tee) Explained(x *Explanation) {
	t.both(func(s Sink) {
		if e, ok := s.(Explainer); ok {
			e.Explained(x)
		}
	})
}

func (t *tee) Snapshot(maps func(show func(*Map))) {
	t.counted(func(s Sink) { s.Snapshot(maps) })
}

func (t *tee) End(maps func(show func(*Map))) { t.counted(func(s Sink) { s.End(maps) }) }

// counted is like both, for reports with counts that change meanwhile.
func (t *tee) counted(f func(s Sink)) {
	run, rec := *t.run, *t.rec
	losses, costs, detached := run.Losses(), run.costs(), run.detachments()
	for _, r := range []*Run{t.run, t.rec} {
		r.Losses, r.Costs = func() []Loss { return losses }, func() []Cost { return costs }
		r.Detachments = func() []Detachment { return detached }
	}
	t.both(f)
	for _, x := range []struct{ r, was *Run }{{t.run, &run}, {t.rec, &rec}} {
		x.r.Losses, x.r.Costs, x.r.Detachments = x.was.Losses, x.was.Costs, x.was.Detachments
	}
}

// Silent has the parts of a run that a recording does not use: it writes nothing on the error output.
func (r Run) Silent(out *Writer) *Run {
	r.Out, r.Message, r.MessageNow = out, func(string) {}, func(string) {}
	env := *r.Env
	env.Escape, env.Fail = false, nil
	r.Env = &env
	return &r
}

// RecordSnapshot passes a snapshot only to the recording of a sink, if there is one: the user sees it in another form.
func RecordSnapshot(s Sink, maps func(show func(*Map))) {
	if t, ok := s.(*tee); ok {
		at := t.rec.At
		t.rec.At = orNow(t.run.At)
		t.record.Snapshot(maps)
		t.rec.At = at
	}
}
