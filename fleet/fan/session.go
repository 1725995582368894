// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"btc/fleet/merge"
	"btc/internal/arch"
)

// MachineMark is printed before the machine name by a command that accepts a program.
const MachineMark = "btc-machine: "

// remoteVersion is the version of the btrun --remote protocol that this package speaks.
const remoteVersion = 3

// Both sides show that they are alive: btrun writes a line at least every 2 s from its answer to its end, and this
// package sends an empty line every beatInterval after the object, without which btrun ends its run after a minute.
const (
	beatInterval = 5 * time.Second
	// minSilence is the shortest silence after which a host counts as hanging.
	minSilence = 10 * time.Second
)

// answer is the object for a host.
type answer struct {
	data []byte
	err  error
}

// session is the exchange with one host. The fields that line sets are valid once the output has
// been read to its end.
type session struct {
	fan    *Fan
	index  int // of the host
	result Result
	phase  phase

	mu     sync.Mutex // guards what Fan.Snapshot reads
	stream merge.Stream
	up     bool      // the probes are attached, and the run has not ended
	at     time.Time // when they were attached, or a map arrived

	machine  chan string   // if the program is copied to the host: the output of uname -m
	hello    chan answer   // the object for the host, once its btrun has answered
	attached chan struct{} // closed once all probes are attached
	finished chan struct{} // closed once the last line has arrived

	began    time.Time
	heard    atomic.Int64  // when output arrived last, as time since began
	handling atomic.Bool   // output has arrived and is being handled
	used     time.Duration // account in fan.shares
	listener *listener

	said    atomic.Bool // btrun has answered
	active  bool        // attached is closed
	sent    bool        // the machine name has arrived
	ended   bool        // the last line has arrived
	failure string      // the error in the last line
	noise   string      // last output line before btrun's first one

	errors errorOutput
	late   string // reason why the command was killed
	err    error  // error on this side, or in what the host sent
	exit   error  // exit error of the command
}

func (s *session) enter(p phase) {
	s.fan.enter(s.phase, p, false)
	s.phase = p
}

// run starts the command, exchanges data with it and waits until it has exited.
func (s *session) run(ctx, kill context.Context) {
	s.machine, s.hello = make(chan string, 1), make(chan answer, 1)
	s.attached, s.finished = make(chan struct{}), make(chan struct{})
	s.began = time.Now()
	s.errors.session = s
	cmd := s.fan.Command(s.result.Host)
	ownGroup(cmd)
	cmd.Stderr = &s.errors
	cmd.WaitDelay = time.Second // an ssh that stays as a connection master keeps stderr open
	in, err := cmd.StdinPipe()
	if err != nil {
		s.err = err
		return
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.err = err
		return
	}
	if s.err = cmd.Start(); s.err != nil {
		return
	}
	read := make(chan error, 1)
	go func() {
		s.listener = &listener{Reader: out, session: s}
		_, err := merge.Lines(s.listener, s.maxLine, s.line)
		s.listener.end()
		read <- err
	}()
	whole, err := s.converse(ctx, kill, in, read)
	in.Close()
	if !whole {
		killGroup(cmd)
		select {
		case <-read:
		case <-time.After(time.Second): // another process still has the output open
			out.Close()
			<-read
		}
	}
	s.err = err
	hanging := time.AfterFunc(s.fan.Grace, func() { killGroup(cmd) }) // a command may hang after its output
	s.exit = cmd.Wait()
	hanging.Stop()
	s.errors.flush()
}

// listener notes when output arrives, and waits for the host's turn to handle it.
type listener struct {
	io.Reader
	session *session
	turn    time.Time // when it began; zero: it has none
}

func (l *listener) Read(p []byte) (int, error) {
	s := l.session
	l.end()
	s.heard.Store(int64(time.Since(s.began)))
	s.handling.Store(false)
	n, err := l.Reader.Read(p)
	s.heard.Store(int64(time.Since(s.began)))
	s.handling.Store(true)
	if n > 0 {
		l.turn = s.fan.shares.begin(&s.used)
	}
	return n, err
}

// end ends the turn.
func (l *listener) end() {
	if !l.turn.IsZero() {
		l.session.fan.shares.end(&l.session.used, time.Since(l.turn))
		l.turn = time.Time{}
	}
}

// silence returns for how long nothing has arrived. It is 0 while what has arrived is being handled, which takes as
// long as the reader of this program's output makes it wait.
func (s *session) silence() time.Duration {
	if s.handling.Load() {
		return 0
	}
	return time.Since(s.began) - time.Duration(s.heard.Load())
}

// converse sends what the host asks for until the host's output ends. whole is false if the command
// must be killed.
func (s *session) converse(ctx, kill context.Context, in io.WriteCloser, read chan error) (whole bool, err error) {
	f := s.fan
	interrupted, attached, finished := ctx.Done(), s.attached, s.finished
	done := make(chan struct{})
	defer close(done)
	deadline := time.NewTimer(f.Connect)
	defer deadline.Stop()
	late := fmt.Sprintf("no answer within %s", f.Connect)
	// quiet fires when a host that has answered may have been silent for too long.
	longest := max(f.Grace, minSilence)
	quiet := time.NewTimer(longest)
	quiet.Stop()
	defer quiet.Stop()
	suspected := false
	for {
		select {
		case err := <-read:
			if err != nil { // the rest of the output is not read
				read <- err
			}
			return err == nil, err
		case name := <-s.machine:
			program, err := s.program(name)
			if err != nil {
				return false, err
			}
			go func() {
				fmt.Fprintf(in, "%d\n", len(program))
				in.Write(program)
			}()
			deadline.Reset(f.Connect + f.Grace)
			late = fmt.Sprintf("btrun was not copied and started within %s", f.Connect+f.Grace)
		case x := <-s.hello:
			if x.err != nil {
				return false, x.err
			}
			go feed(in, x.data, done)
			quiet.Reset(longest)
			s.limitRun(deadline, f.Waits)
			late = fmt.Sprintf("no report %s after the end of its time", f.Grace)
		case <-attached:
			attached = nil
			if interrupted != nil {
				s.limitRun(deadline, false)
			}
		case <-finished: // the rest of the output does not matter
			attached, interrupted, finished = nil, nil, nil
			in.Close()
			quiet.Stop()
			deadline.Reset(f.Grace)
			late = ""
		case <-interrupted:
			interrupted = nil
			in.Close()
			quiet.Stop()
			deadline.Reset(f.Grace)
			late = fmt.Sprintf("no report %s after the interrupt", f.Grace)
		case <-quiet.C:
			silent := s.silence()
			switch {
			case silent < longest:
				suspected = false
				quiet.Reset(longest - silent)
			case !suspected: // this process may have been stopped itself
				suspected = true
				quiet.Reset(time.Second)
			default:
				s.late = fmt.Sprintf("it hangs: nothing has arrived for %s", silent.Round(time.Second))
				return false, nil
			}
		case <-kill.Done():
			s.late = "not waited for"
			return false, nil
		case <-deadline.C:
			s.late = late
			return false, nil
		}
	}
}

// limitRun sets the deadline of a run that begins now; waits means that it has no end yet.
func (s *session) limitRun(deadline *time.Timer, waits bool) {
	if s.fan.Timeout == 0 || waits {
		deadline.Stop()
		return
	}
	deadline.Reset(s.fan.Timeout + s.fan.Grace)
}

// feed sends the object, and then empty lines until done is closed.
func feed(in io.Writer, data []byte, done <-chan struct{}) {
	if _, err := in.Write(data); err != nil {
		return
	}
	beat := time.NewTicker(beatInterval)
	defer beat.Stop()
	for {
		select {
		case <-done:
			return
		case <-beat.C:
			if _, err := in.Write([]byte{'\n'}); err != nil {
				return
			}
		}
	}
}

// program returns btrun for the machine that uname -m names.
func (s *session) program(machine string) ([]byte, error) {
	a := arch.ByName(machine)
	if a == nil {
		return nil, fmt.Errorf("btrun does not support its architecture %q", machine)
	}
	return s.fan.Program(a.Label)
}

// errNotBtrun is the error for a host that does not answer as btrun --remote does.
var errNotBtrun = errors.New("its output is not that of btrun --remote")

// Limits of what a host sends besides maps.
const (
	maxGreeting = 1 << 20 // bytes of a line before btrun's first one
	maxReason   = 300     // bytes of an error
	maxLost     = 1 << 48 // events: more than occur
)

// maxLine returns the maximum length of a line: what the object allows.
func (s *session) maxLine() int {
	if s.stream.Want == nil {
		return maxGreeting
	}
	return s.stream.Want.MaxLine()
}

// line handles a line of the host's output.
func (s *session) line(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || s.ended {
		return nil
	}
	if !s.said.Load() {
		return s.firstLine(line)
	}
	if line[0] != '{' || !gjson.ValidBytes(line) {
		return fmt.Errorf("%w: %.60q", errNotBtrun, line)
	}
	kind, asked, err := kindOf(line)
	if err != nil {
		return err
	}
	switch {
	case kind == "alive", kind == "head", kind == "snapshot", kind == "trials", kind == "why":
		return nil
	case kind == "end":
		s.ended = true
		close(s.finished)
		s.failure = cut(gjson.GetBytes(line, "error").String(), maxReason)
		s.result.Status = int(gjson.GetBytes(line, "status").Int())
		return nil
	case kind == "attached_probes":
		if !s.active {
			s.active = true
			close(s.attached)
			s.enter(running)
			s.alive(true)
		}
		return nil
	case kind == "map" && !asked:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.at = time.Now()
		return s.stream.Line(line)
	case kind == "map":
		if err := s.stream.Check(line); err != nil {
			return err
		}
	case kind == "lost_events":
		if n, err := strconv.ParseUint(gjson.GetBytes(line, "count").Raw, 10, 64); err != nil || n > maxLost {
			return fmt.Errorf("%w: it has lost %.40q events", errNotBtrun, gjson.GetBytes(line, "count").Raw)
		}
	case kind == "detached":
		s.mu.Lock()
		err := s.stream.Line(line)
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if s.fan.Event != nil {
		s.listener.show(func() { s.fan.Event(s.result.Host, line) })
	}
	return nil
}

// alive notes that the run has begun or ended.
func (s *session) alive(up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up, s.at = up, time.Now()
}

// show calls f, which may wait for the reader of this program's output. Meanwhile the turn is that of another host; the
// time that f takes counts.
func (l *listener) show(f func()) {
	s := l.session
	l.end()
	s.fan.mu.Lock()
	began := time.Now()
	f()
	took := time.Since(began)
	s.fan.mu.Unlock()
	l.turn = s.fan.shares.begin(&s.used).Add(-took)
}

// kindOf returns the type of a line, and whether the script has asked for it. A line with two of a member that this
// package reads is an error, because its readers would differ.
func kindOf(line []byte) (kind string, asked bool, err error) {
	seen := map[string]bool{}
	gjson.ParseBytes(line).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type":
			kind = value.Str
		case "line":
			asked = true
		case "host", "data", "error", "status", "count", "msg", "filename", "col", "name", "entries":
		default:
			return true
		}
		if seen[key.Str] {
			err = fmt.Errorf("%w: a line has two members %q", errNotBtrun, key.Str)
		}
		seen[key.Str] = true
		return err == nil
	})
	if err == nil && kind == "" {
		err = fmt.Errorf("%w: %.60q", errNotBtrun, line)
	}
	return kind, asked, err
}

// cut returns at most n bytes of text, and says how many there were.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + fmt.Sprintf(" ... (%d bytes)", len(text))
}

// firstLine looks for btrun's first line. It skips output of the shell's startup files.
func (s *session) firstLine(line []byte) error {
	if name, found := strings.CutPrefix(string(line), MachineMark); found && s.fan.Program != nil && !s.sent {
		s.sent = true
		s.machine <- name
		return nil
	}
	if gjson.GetBytes(line, "type").Str != "host" || !gjson.ValidBytes(line) {
		s.noise = string(line[:min(len(line), 200)])
		return nil
	}
	if n := gjson.GetBytes(line, "remote"); n.Raw != strconv.Itoa(remoteVersion) {
		return fmt.Errorf("its btrun speaks version %.20s of --remote, this btc version %d", n.Raw, remoteVersion)
	}
	s.result.Arch = cut(gjson.GetBytes(line, "arch").String(), maxLabel)
	s.result.Kernel = cut(gjson.GetBytes(line, "kernel").String(), maxLabel)
	data, m, err := s.fan.Object(s.result.Arch)
	if err == nil {
		s.mu.Lock()
		s.stream.Want = merge.Expect(m)
		s.mu.Unlock()
	}
	s.said.Store(true)
	s.hello <- answer{data, err}
	return nil
}

// maxLabel bounds the names of a host's architecture and kernel, in bytes.
const maxLabel = 128

// conclude determines the state of the host, and adds the host to the report.
func (s *session) conclude() {
	r := &s.result
	switch last := s.errors.reason(); {
	case s.late != "":
		r.State, r.Reason = Late, join(s.late, last)
	case s.err != nil:
		r.State, r.Reason = Failed, s.err.Error()
	case s.ended && s.failure != "":
		r.State, r.Reason = Failed, s.failure
	case s.ended:
		r.State, r.Counted = OK, true
	case s.said.Load():
		r.State, r.Reason = Failed, join("the connection was lost before its report", last)
	default:
		r.State, r.Reason = Failed, s.noAnswer(last)
	}
	if (r.State == OK || s.fan.Partial && s.err == nil) && s.stream.Maps() > 0 {
		err := s.fan.set.Fold(s.index, &s.stream)
		switch {
		case err != nil:
			r.State, r.Reason, r.Counted = Failed, reasonOf(r.Host, err), false
		case r.State != OK:
			r.Counted = true
			r.Reason += "; its last snapshot counts"
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = false
	if !s.fan.Live || !r.Counted {
		s.stream = merge.Stream{}
	}
}

// noAnswer returns the reason why a command ended before btrun answered.
func (s *session) noAnswer(last string) string {
	exit := ""
	var status *exec.ExitError
	if errors.As(s.exit, &status) {
		exit = status.String()
	}
	switch {
	case strings.Contains(last, "not found") || exit == "exit status 127":
		return join(last, "install btrun there, name it with --btrun PATH, or copy it with --push")
	case strings.Contains(last, "unknown option --remote"):
		return last + ": its btrun is older than this btc"
	case last != "":
		return last
	case s.noise != "":
		return fmt.Sprintf("%v: %q", errNotBtrun, s.noise)
	case exit != "":
		return "the command ended with " + exit
	}
	return "the command ended without an answer"
}

// join joins two strings; the second may be empty.
func join(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return a + ": " + b
}

// errorOutput collects the error output of a command. Once btrun has answered, its lines are
// messages; before that, they explain why btrun does not answer.
type errorOutput struct {
	session *session
	part    []byte
	lines   []string // the last lines
}

// Limits on the stored error output: bytes per line, and lines.
const (
	maxErrorLine  = 1000
	maxErrorLines = 8
)

func (e *errorOutput) Write(p []byte) (int, error) {
	s := e.session
	began := s.fan.shares.begin(&s.used)
	defer func() { s.fan.shares.end(&s.used, time.Since(began)) }()
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		e.part = append(e.part, line[:min(len(line), maxErrorLine-min(len(e.part), maxErrorLine))]...)
		if rest = after; whole {
			e.flush()
		}
	}
	return len(p), nil
}

// flush ends a line.
func (e *errorOutput) flush() {
	line := strings.TrimSpace(string(e.part))
	e.part = e.part[:0]
	if line == "" {
		return
	}
	if len(e.lines) == maxErrorLines {
		e.lines = slices.Delete(e.lines, 0, 1)
	}
	e.lines = append(e.lines, line)
	if f := e.session.fan; f.Message != nil && e.session.said.Load() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.Message(e.session.result.Host, line)
	}
}

// reason returns the last line that explains the error.
func (e *errorOutput) reason() string {
	for _, line := range slices.Backward(e.lines) {
		// kubectl's last line only repeats the exit status.
		if !strings.HasPrefix(line, "command terminated with exit code") {
			return line
		}
	}
	return ""
}
