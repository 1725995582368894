// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"io"
	"sync/atomic"

	"btc/internal/manifest"
	"btc/loader/diag"
	"btc/loader/run/tty"
)

// messages writes to the error output of a run. Any goroutine may call its methods.
type messages struct {
	script *manifest.Script
	err    io.Writer
	muted  bool                // no warnings
	paint  func(f *diag.Error) // shows a warning in color; nil: like other messages
	screen *tty.Screen         // nil: no live view
	// printer writes the messages in the order of the output while live is set, so that only the printer blocks on a slow
	// reader.
	printer *printer
	live    atomic.Bool
	rec     *recording  // records messages, in their order
	crashed atomic.Bool // an internal error was reported
}

// report reports an error that does not end the run.
func (m *messages) report(pos manifest.Pos, err error) {
	m.warnOf(&diag.Error{Script: m.script, Pos: pos, Text: err.Error()})
}

// warnOf shows a warning with its position, unless warnings are disabled.
func (m *messages) warnOf(f *diag.Error) {
	switch {
	case m.muted:
	case m.paint != nil:
		m.queue(func() {
			m.screen.Around(func() { m.paint(f) })
			m.rec.message(f.Warning())
		}, len(f.Text))
	default:
		m.line(f.Warning())
	}
}

// warn shows a warning, unless warnings are disabled.
func (m *messages) warn(text string) {
	if !m.muted {
		m.line(text)
	}
}

// internalError reports an internal error. The run continues, but its status is not 0.
func (m *messages) internalError(pos manifest.Pos, err error) {
	m.crashed.Store(true)
	f := &diag.Error{Script: m.script, Pos: pos, Text: err.Error()}
	m.line(f.Message("ERROR"))
}

// line writes a line.
func (m *messages) line(text string) {
	m.queue(func() {
		fmt.Fprintln(m.err, text)
		m.rec.message(text)
	}, len(text))
}

// ofSink writes a line of a sink: a replay makes it again.
func (m *messages) ofSink(text string) { m.queue(func() { fmt.Fprintln(m.err, text) }, len(text)) }

// queue queues a message of size bytes; messages are written in order.
func (m *messages) queue(write func(), size int) {
	p := m.printer
	if p == nil || !m.live.Load() {
		write()
		return
	}
	p.do(size, write)
	p.put(nil, true)
}
