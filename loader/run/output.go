package run

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal reports whether what is written to w appears on a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// output is where text is put together, with the user's choice of buffering.
type output struct {
	mode string
	buf  []byte
	// sink takes the text and returns a buffer for what follows. now says that nothing more
	// comes for the moment.
	sink func(text []byte, now bool) []byte
}

func newOutput(mode string, sink func(text []byte, now bool) []byte) *output {
	return &output{mode: mode, sink: sink, buf: make([]byte, 0, outputFill+4096)}
}

func (o *output) write(text []byte) {
	o.buf = append(o.buf, text...)
	o.added()
}

// added is called after each text that was put into the buffer.
func (o *output) added() {
	if len(o.buf) >= outputFill || o.mode == "none" {
		o.flush(false)
	}
}

// idle is called when no event is waiting: all complete lines are written then,
// which costs one system call for a burst of events instead of one a line.
func (o *output) idle() {
	if o.mode == "full" {
		o.sink(nil, true)
		return
	}
	o.flush(true)
}

func (o *output) flush(now bool) {
	o.buf = o.sink(o.buf, now)
	if cap(o.buf) > 16*outputFill {
		o.buf = make([]byte, 0, outputFill+4096)
	}
}
