package run

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// IsTerminal tells whether what is written to w appears on a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// output is where events and maps are written, with the user's choice of
// buffering. Texts are put together in its buffer.
type output struct {
	w    io.Writer
	mode string
	buf  []byte
	err  error // the first of a write; nothing is written any more then
}

// outputFill is how much text is written at once at the latest.
const outputFill = 64 << 10

// pipeSize is the room of a pipe that we write to. The 64 KiB it has otherwise are
// a millisecond of output at full speed, and what reads it may not run for longer.
const pipeSize = 1 << 20

func newOutput(w io.Writer, mode string) *output {
	if f, ok := w.(*os.File); ok {
		unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, pipeSize) // fails for all that is no pipe
	}
	return &output{w: w, mode: mode, buf: make([]byte, 0, outputFill+4096)}
}

func (o *output) write(text []byte) {
	o.buf = append(o.buf, text...)
	o.added()
}

// added is called behind each text that was put into the buffer.
func (o *output) added() {
	if len(o.buf) >= outputFill || o.mode == "none" {
		o.flush()
	}
}

// idle is called when no event is waiting: all complete lines are written then,
// which costs one system call for a burst of events instead of one a line.
func (o *output) idle() {
	if o.mode != "full" {
		o.flush()
	}
}

func (o *output) flush() error {
	if len(o.buf) > 0 && o.err == nil {
		_, o.err = o.w.Write(o.buf)
	}
	o.buf = o.buf[:0]
	if cap(o.buf) > 16*outputFill {
		o.buf = make([]byte, 0, outputFill+4096)
	}
	return o.err
}
