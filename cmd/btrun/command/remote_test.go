// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// Without lines of the sender, its silence means nothing; after the first one, it is gone when none follows.
func TestWatchInput(t *testing.T) {
	for _, c := range []struct {
		lines string
		gone  bool
	}{{"", false}, {"\n", true}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ended, gone := make(chan struct{}), make(chan struct{})
		o := &arguments{input: bufio.NewReader(r)}
		go o.watchInput(50*time.Millisecond, func() { close(ended) }, func() { close(gone) })
		io.WriteString(w, c.lines)
		if c.gone {
			<-gone
		}
		w.Close()
		<-ended
		if !c.gone {
			select {
			case <-gone:
				t.Error("a sender that has ended is gone")
			case <-time.After(200 * time.Millisecond):
			}
		}
		r.Close()
	}
}

// The line that shows that a run is alive is never within another one, nor beside other output.
func TestRemoteOutput(t *testing.T) {
	var b bytes.Buffer
	r := newRemoteOutput(&b)
	r.close()
	r.alive()
	r.Write([]byte("half of"))
	r.alive() // there was output
	r.alive() // within a line
	r.Write([]byte(" a line\n"))
	r.alive()
	if have := b.String(); !strings.HasPrefix(have, `{"type": "alive", "time": "`) ||
		!strings.HasSuffix(have, "\"}\nhalf of a line\n") {
		t.Errorf("output %q, want a message alive and half of a line", have)
	}
	r.alive()
	if n := strings.Count(b.String(), "alive"); n != 2 {
		t.Errorf("%d lines of silence", n)
	}
}
