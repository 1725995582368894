// SPDX-License-Identifier: Apache-2.0

package output

// Fill is the number of pending bytes at which the writer passes them on.
const Fill = 64 << 10

// Buffers are the user's choices of buffering. The first is the default.
var Buffers = []string{"line", "full", "none"}

// Writer collects text, with one of Buffers.
type Writer struct {
	mode  string
	buf   []byte
	limit int // number of bytes in buf at which they are passed on
	// pass receives the text and returns a buffer for more. now means that no more text follows for now.
	pass func(text []byte, now bool) []byte
	// Also, if not nil, is written whenever this writer is: by Idle and Flush.
	Also *Writer
}

// NewWriter returns a writer that hands its text to pass.
func NewWriter(mode string, pass func(text []byte, now bool) []byte) *Writer {
	w := &Writer{mode: mode, pass: pass, buf: make([]byte, 0, Fill+4096), limit: Fill}
	if mode == "none" {
		w.limit = 0
	}
	return w
}

// Begin returns the buffer, for text to be appended to it; End puts it back.
func (w *Writer) Begin() []byte { return w.buf }

// End ends what Begin began.
func (w *Writer) End(buf []byte) {
	w.buf = buf
	if len(buf) >= w.limit {
		w.Flush(false)
	}
}

// Pass is called between Begin and End, in text that need not be in memory at once: it passes on a full buffer and
// returns the one to continue with.
func (w *Writer) Pass(buf []byte) []byte {
	if len(buf) >= Fill {
		w.End(buf)
		return w.buf
	}
	return buf
}

// Write adds text.
func (w *Writer) Write(text []byte) { w.End(append(w.buf, text...)) }

// Idle is called when no event is waiting: all complete lines are written then,
// which costs one system call for a burst of events instead of one per line.
func (w *Writer) Idle() {
	if w.Also != nil {
		w.Also.Idle()
	}
	if w.mode == "full" {
		w.pass(nil, true)
		return
	}
	w.Flush(true)
}

// Flush passes the text on.
func (w *Writer) Flush(now bool) {
	if w.Also != nil {
		w.Also.Flush(now)
	}
	w.buf = w.pass(w.buf, now)
	if cap(w.buf) > 16*Fill {
		w.buf = make([]byte, 0, Fill+4096)
	}
}

// Len returns the number of pending bytes.
func (w *Writer) Len() int { return len(w.buf) }

// Truncate drops pending text after the first n bytes.
func (w *Writer) Truncate(n int) { w.buf = w.buf[:min(n, len(w.buf))] }
