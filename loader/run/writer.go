// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"os"
	"time"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/output"
)

// writer handles events and passes their output to its sink. There are two. The front writer
// belongs to the event reader and prints what needs only the event; the back writer belongs to the
// printer and does the rest. Each has its own buffers.
type writer struct {
	*session
	*output.Run
	sink    output.Sink
	ending  bool         // the events that follow are from the end programs
	isFront bool         // belongs to the event reader
	text    []byte       // position of the current event
	event   format.Event // the current event
}

// startPrinter creates the printer and both writers.
func (s *session) startPrinter() {
	p := newPrinter(s.opts.Out, s.reader.events.wake)
	s.msg.printer = p
	s.front, s.back = s.newWriter(p.put), s.newWriter(func(text []byte, _ bool) []byte {
		p.write(text)
		return text[:0]
	})
	s.front.isFront = true
	if s.rec != nil && s.opts.Record != nil {
		s.front.record(s.rec, p, true)
		s.back.record(s.rec, p, false)
	}
}

// newWriter returns a writer that passes its output to pass.
func (s *session) newWriter(pass func(text []byte, now bool) []byte) *writer {
	w := &writer{session: s, Run: s.facts()}
	w.Out, w.Message, w.MessageNow = output.NewWriter(s.opts.Buffer, pass), w.message, s.msg.ofSink
	w.Post = func(size int, job func()) { w.later(size, manifest.Pos{}, func(*writer) { job() }) }
	w.sink = s.opts.Sink.New(w.Run)
	return w
}

// facts returns what a sink may know of the run.
func (s *session) facts() *output.Run {
	if s.started.IsZero() {
		s.started = time.Now()
	}
	buckets, _ := aggregate.ParseRange(s.opts.Buckets) // which was checked
	return &output.Run{
		Manifest: s.manifest, Env: s.env(), Frames: s.maps.frames,
		Object: s.opts.Object, Host: hostName(), MaxSeries: s.opts.MaxSeries, Buckets: buckets, Map: s.opts.Map, Rate: s.opts.Rate, Started: s.started,
		Losses: s.losses.counts, Detachments: s.budget.Detachments, Costs: s.budget.Costs,
	}
}

// stopPrinter waits until everything is written; it returns the first write error.
func (s *session) stopPrinter() error {
	p := s.msg.printer
	if p == nil {
		return nil
	}
	s.front.Out.Flush(true)
	p.do(0, func() { s.back.Out.Flush(true) })
	err := p.close()
	s.msg.live.Store(false)
	s.msg.printer = nil
	return err
}

// later queues a job for the printer, after the previous output; size is the memory that it holds.
// An error of the job is reported at pos.
func (w *writer) later(size int, pos manifest.Pos, job func(*writer)) {
	if !w.isFront {
		job(w)
		return
	}
	w.Out.Flush(false)
	at, back := time.Now(), w.back
	w.msg.printer.do(size, func() {
		back.At = at
		back.guarded(pos, func() { job(back) })
	})
}

// guarded runs a job of the printer and writes its output. If the job fails, only an error at pos
// is written.
func (w *writer) guarded(pos manifest.Pos, job func()) {
	kept, recorded := w.Out.Len(), 0
	if w.Out.Also != nil {
		recorded = w.Out.Also.Len()
	}
	guard(func(err error) {
		w.Out.Truncate(kept)
		if w.Out.Also != nil {
			w.Out.Also.Truncate(recorded)
		}
		w.msg.internalError(pos, err)
	}, job)
	w.Out.Idle()
}

// message writes a line to the error output, after the previous output.
func (w *writer) message(text string) {
	w.later(len(text), manifest.Pos{}, func(back *writer) {
		back.Out.Idle()
		fmt.Fprintln(back.msg.err, text)
	})
}

// errorLine writes a line to the error output at once. The printer calls it after the output before it.
func (w *writer) errorLine(text string) {
	fmt.Fprintln(w.msg.err, text)
	w.msg.rec.message(text)
}

// slowKinds are the layouts whose printing reads files of the host.
var slowKinds = map[string]bool{
	"kstack":      true,
	"ustack":      true,
	"ksym":        true,
	"usym":        true,
	"username":    true,
	"cgroup_path": true,
}

// isSlow reports whether printing a value may take long.
func isSlow(l *manifest.Layout) bool {
	return anyPart(l, func(l *manifest.Layout) bool { return slowKinds[l.Kind] })
}

// anyPart reports whether f is true for a layout or any part of it; l may be nil.
func anyPart(l *manifest.Layout, f func(*manifest.Layout) bool) bool {
	if l == nil {
		return false
	}
	for i := range l.Fields {
		if anyPart(&l.Fields[i].Layout, f) {
			return true
		}
	}
	return f(l) || anyPart(l.Elem, f)
}

// deferredEvents reports, for each event, whether the printer formats it.
func deferredEvents(m *manifest.Manifest) []bool {
	out := make([]bool, len(m.Events))
	for i := range m.Events {
		e := &m.Events[i]
		switch e.Kind {
		case "cat", "system":
			out[i] = true
		case "printf", "print", "errorf", "warnf", "join":
			for j := range e.Fields {
				out[i] = out[i] || isSlow(&e.Fields[j].Layout)
			}
		}
	}
	return out
}

// postpone leaves the handling of a record to the printer.
func (w *writer) postpone(e *format.Event, record []byte) {
	record = append([]byte(nil), record...)
	w.later(len(record), e.Pos, func(back *writer) {
		if err := back.event.Read(back.manifest, record); err == nil {
			back.table.handlers[back.event.ID](back, &back.event)
		}
	})
}

// hostName returns the name of this machine, or "" if there is none.
func hostName() string {
	name, _ := os.Hostname()
	return name
}
