package run

import (
	"bufio"
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
// buffering.
type output struct {
	w    *bufio.Writer
	mode string
	err  error
}

func newOutput(w io.Writer, mode string) *output {
	return &output{w: bufio.NewWriterSize(w, 32<<10), mode: mode}
}

func (o *output) write(text []byte) {
	if _, err := o.w.Write(text); err != nil && o.err == nil {
		o.err = err
	}
	if o.mode == "none" {
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
	if err := o.w.Flush(); err != nil && o.err == nil {
		o.err = err
	}
	return o.err
}
