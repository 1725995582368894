// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"btc/loader/output"
)

// recording is the file that a run is recorded in (Report.Record), beside its output. Any goroutine may call its methods,
// also if there is none (nil). An error does not end the run.
type recording struct {
	w    io.Writer
	fail func(text string) // reports the first error

	mu    sync.Mutex
	begun bool     // the head is written
	early [][]byte // messages from before that
	err   error
}

// write appends lines.
func (r *recording) write(text []byte) {
	if r == nil || len(text) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun {
		r.early = append(r.early, text)
		return
	}
	r.put(text)
}

func (r *recording) put(text []byte) {
	if r.err != nil {
		return
	}
	if _, r.err = r.w.Write(text); r.err != nil {
		r.fail(fmt.Sprintf("WARNING: the recording ends here: %v", r.err))
	}
}

// begin writes the head, and what came before it.
func (r *recording) begin(head []byte) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = true
	r.put(head)
	for _, text := range r.early {
		r.put(text)
	}
	r.early = nil
}

// failed reports whether a part of the recording could not be written.
func (r *recording) failed() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// message records a message that no sink writes.
func (r *recording) message(text string) {
	if r != nil {
		r.write(output.AppendMessage(nil, time.Now(), text))
	}
}

// end writes the last line.
func (r *recording) end(status int) {
	if r != nil {
		r.write(fmt.Appendf(nil, `{"type": "end", "time": %q, "status": %d}`+"\n", time.Now().UTC().Format(time.RFC3339Nano), status))
	}
}

// record makes a writer pass its results to the recording, too. Output of the front writer is queued like its output to the
// user; that of the back writer is written at once.
func (w *writer) record(r *recording, p *printer, front bool) {
	out := output.NewWriter(output.Buffers[0], func(text []byte, _ bool) []byte {
		if front && len(text) > 0 {
			lines := append([]byte(nil), text...)
			p.do(len(lines), func() { r.write(lines) })
		} else {
			r.write(text)
		}
		return text[:0]
	})
	rec := w.Run.Silent(out)
	w.Out.Also = out
	w.sink = output.Tee(w.Run, w.sink, rec, output.Recording.New(rec))
}

// begin writes the heads of the output and the recording.
func (s *session) begin() {
	if !s.opts.Sink.Records && s.rec == nil {
		return
	}
	h := &output.Head{Format: s.opts.Sink.Name, Manifest: s.text, Args: s.opts.Args, Params: s.opts.Params, Top: s.opts.top(0, 0)}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		h.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	head := s.front.AppendHead(nil, h)
	s.rec.begin(head)
	if s.opts.Sink.Records {
		s.front.Out.Write(head)
	}
}
