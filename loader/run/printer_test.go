// SPDX-License-Identifier: Apache-2.0

package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/loader/format"
	"btc/loader/output"
)

// gate is a writer that blocks until it is opened.
type gate struct {
	open chan struct{}
	mu   sync.Mutex
	got  bytes.Buffer
	err  error
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	return g.got.Write(b)
}

// TestPrinterOrder checks that output and jobs are written in order, whatever their size and whoever
// queues them.
func TestPrinterOrder(t *testing.T) {
	dir := t.TempDir()
	for _, regular := range []bool{false, true} {
		var got bytes.Buffer
		name := filepath.Join(dir, "out")
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		p := newPrinter(&got, func() {})
		if regular {
			p.close()
			p = newPrinter(f, func() {})
		}
		out := output.NewWriter("line", p.put)
		var want strings.Builder
		for i := range 3000 {
			text := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", i%7*i%5000))
			want.WriteString(text)
			if i%11 == 0 {
				out.Flush(false)
				p.do(len(text), func() { p.write([]byte(text)) })
			} else {
				out.Write([]byte(text))
			}
			if i%5 == 0 {
				out.Idle()
			}
		}
		out.Flush(true)
		if err := p.close(); err != nil {
			t.Fatal(err)
		}
		text := got.Bytes()
		if regular {
			if text, err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
		if string(text) != want.String() {
			t.Errorf("regular = %v: wrote %d bytes, want %d", regular, len(text), want.Len())
		}
		if queued, done := p.progress(); queued != done || p.size != 0 {
			t.Errorf("done %d of %d items, %d bytes left", done, queued, p.size)
		}
	}
}

// TestPrinterStalled checks that a pipe that is not read does not block the sender, and that the queue
// is bounded.
func TestPrinterStalled(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan struct{}, 1)
	p := newPrinter(w, func() { woken <- struct{}{} })
	out := output.NewWriter("line", p.put)
	line := []byte(strings.Repeat("x", 99) + "\n")
	n := 0
	for ; !p.full(); n++ {
		if n > (maxQueued+pipeSize+4*output.Fill)/len(line) {
			t.Fatal("queue exceeds its limit")
		}
		out.Write(line)
		if n%100 == 0 {
			out.Idle()
		}
	}
	p.blocked.Store(true)
	got := make(chan int)
	go func() {
		total, b := 0, make([]byte, 1<<16)
		for {
			m, err := r.Read(b)
			if total += m; err != nil {
				got <- total
				return
			}
		}
	}()
	<-woken
	out.Flush(true)
	if err := p.close(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if total := <-got; total != n*len(line) {
		t.Errorf("wrote %d of %d bytes", total, n*len(line))
	}
}

// TestPrinterError checks that after a write error nothing is written, and the reader gets the error.
func TestPrinterError(t *testing.T) {
	g := newGate()
	g.err = errors.New("no more room")
	close(g.open)
	woken := make(chan struct{}, 1)
	p := newPrinter(g, func() { woken <- struct{}{} })
	p.put([]byte("a"), true)
	<-woken
	p.put([]byte("b"), true)
	if err := p.close(); err != g.err || !p.failed.Load() {
		t.Errorf("error = %v", err)
	}
}

// TestPanicOfOneItem checks that a panic while printing one map or event is reported as an error of
// that item, that the others are printed, and that the status is not 0.
func TestPanicOfOneItem(t *testing.T) {
	s, out := testSession(t, testRecord(testPrintf, 1), testRecord(testExit, 0), testRecord(testPrintf, 2))
	s.table.handlers[testExit] = func(*writer, *format.Event) { panic("of an event") }
	s.reader.drain()
	s.front.later(0, manifest.Pos{}, func(w *writer) {
		w.Out.Write([]byte("half"))
		panic("of a job")
	})
	s.front.later(0, manifest.Pos{}, func(w *writer) { w.Out.Write([]byte("3\n")) })
	s.stopPrinter()
	if text := out.String(); !strings.Contains(text, "of an event") || !strings.Contains(text, "of a job") ||
		strings.Contains(text, "half") || !s.msg.crashed.Load() {
		t.Errorf("output %q", text)
	}
	for _, want := range []string{"1\n", "2\n", "3\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q not found in %q", want, out)
		}
	}
}

// TestReaderGoesOn checks that while the output blocks, maps are read and an exit() is handled when
// their events arrive.
func TestReaderGoesOn(t *testing.T) {
	s, out := testSession(t, testRecord(testPrintf, 1), testRecord(testPrintf, 2), testRecord(testExit, 5))
	free := make(chan struct{})
	s.front.later(0, manifest.Pos{}, func(w *writer) { <-free })
	s.reader.drain()
	if !s.end.exited || s.end.status != 5 {
		t.Error("exit not handled")
	}
	close(free)
	s.stopPrinter()
	if out.String() != "1\n2\n" {
		t.Errorf("output %q", out)
	}
}

// TestExitWithoutRoom checks that while there is no space for more output, an exit() later in the ring
// buffer still stops the programs.
func TestExitWithoutRoom(t *testing.T) {
	s, _ := testSession(t, testRecord(testPrintf, 1), testRecord(testExit, 5))
	free := make(chan struct{})
	s.front.later(maxQueued+1, manifest.Pos{}, func(w *writer) { <-free })
	l := &closer{closed: make(chan struct{})}
	s.links.add([]io.Closer{l})
	done := make(chan bool)
	go func() { done <- s.reader.awaitRoom(true) }()
	select {
	case <-l.closed:
	case <-time.After(30 * time.Second):
		t.Error("programs still attached")
	}
	close(free)
	if !<-done || s.end.exited || s.reader.events.next() == nil {
		t.Error("records handled")
	}
	s.front.later(maxQueued+1, manifest.Pos{}, func(w *writer) { <-s.end.stopping })
	s.end.stop()
	s.reader.awaitRoom(true) // returns
}

type closer struct{ closed chan struct{} }

func (c *closer) Close() error {
	close(c.closed)
	return nil
}

// TestSystem checks that a command's output is printed in order as it is written, and that a
// long-running command ends with the run.
func TestSystem(t *testing.T) {
	s, out := testSession(t)
	s.manifest.Events[testSystem].Format = "echo %d; echo more >&2"
	s.table = newEventTable(s.manifest)
	s.reader.handle(testRecord(testPrintf, 1))
	s.reader.handle(testRecord(testSystem, 2))
	s.reader.handle(testRecord(testPrintf, 3))
	s.stopPrinter()
	if want := "1\n2\nmore\n\n3\n"; out.String() != want {
		t.Errorf("output %q, want %q", out, want)
	}
	s, out = testSession(t)
	s.manifest.Events[testSystem].Format = "echo %d; sleep 1000; echo unreached"
	s.table = newEventTable(s.manifest)
	s.reader.handle(testRecord(testSystem, 2))
	s.reader.handle(testRecord(testPrintf, 3))
	s.end.cancel()
	s.stopPrinter()
	if text := out.String(); strings.Contains(text, "unreached") || !strings.Contains(text, "3\n") {
		t.Errorf("output %q", text)
	}
	s.startPrinter()
	s.end.expired.Store(true)
	s.reader.handle(testRecord(testSystem, 4))
	s.stopPrinter()
	if s.end.unstarted != 1 || strings.Contains(out.String(), "4") {
		t.Errorf("%d commands not started", s.end.unstarted)
	}
}

// TestCatOfFIFO checks that cat() of a FIFO does not wait for a writer: it prints regular files only.
func TestCatOfFIFO(t *testing.T) {
	s, out := testSession(t)
	name := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Skip("skipped: ", err)
	}
	s.manifest.Events[testSystem].Kind, s.manifest.Events[testSystem].Format = "cat", name
	s.table = newEventTable(s.manifest)
	s.reader.handle(testRecord(testSystem, 0))
	s.reader.handle(testRecord(testPrintf, 3))
	s.stopPrinter()
	if text := out.String(); !strings.Contains(text, "(Not a regular file)") || !strings.HasSuffix(text, "3\n") {
		t.Errorf("output %q", text)
	}
}

// TestChunks checks that pieces end with whole characters.
func TestChunks(t *testing.T) {
	text := strings.Repeat("aé€😀\xff", 500)
	for size := 1; size < 8000; size = size*3 + 1 {
		var got strings.Builder
		err := chunks(&slowReader{text: text, size: size}, nil, func(b []byte) {
			if n := wholeRunes(b); n != len(b) {
				t.Errorf("piece of %d bytes ends within a character", len(b))
			}
			got.Write(b)
		})
		if err != nil || got.String() != text {
			t.Errorf("pieces of %d: %d bytes of %d, %v", size, got.Len(), len(text), err)
		}
	}
}

type slowReader struct {
	text string
	size int
}

func (r *slowReader) Read(b []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(b[:min(r.size, len(b))], r.text)
	r.text = r.text[n:]
	return n, nil
}

// TestSweeps checks that stack frames are kept until everything queued before the next sweep has been
// printed.
func TestSweeps(t *testing.T) {
	var s sweeps
	for i := range uint64(maxSweeps) {
		if !s.trim("st", 0) {
			t.Fatalf("no space for sweep %d", i)
		}
		s.add("st", sweep{map[uint64][]byte{i: {byte(i)}}, 10 * (i + 1)})
	}
	if s.trim("st", 9) {
		t.Error("sweep possible although nothing was printed")
	}
	if !s.trim("st", 20) || s.find("st", 0) != nil || s.find("st", 1) == nil || s.find("st", 3) == nil {
		t.Errorf("frames %v", s.all)
	}
}

// TestTimeOfOldObjects checks that in an object from before the feature empty-time, a time event
// without a format uses the default.
func TestTimeOfOldObjects(t *testing.T) {
	for _, requires := range [][]string{nil, {manifest.EmptyTime}} {
		s, out := testSession(t)
		s.msg.err = io.Discard
		s.manifest.Requires = requires
		s.manifest.Events[testSystem].Kind, s.manifest.Events[testSystem].Format = "time", ""
		s.table = newEventTable(s.manifest)
		s.reader.handle(testRecord(testSystem, 0))
		s.stopPrinter()
		if printed := strings.Count(out.String(), ":") == 2; printed != (requires == nil) {
			t.Errorf("requires %v: output %q", requires, out.String())
		}
	}
}
