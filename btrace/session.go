// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"

	"btc/internal/manifest"
	"btc/loader/object"
	"btc/loader/output"
	"btc/loader/run"
)

// Session is a loaded object. It must be closed.
type Session struct {
	run   *run.Session
	queue *queue

	typed func(error) error // gives an error its public type; nil: it stays

	dry    bool // Options.DryRun
	prints bool // it has a Report
	inWait bool // Options.Process is set: Wait serves

	// mu guards the fields below. Readers of maps hold it, so that Close does not free the maps meanwhile.
	mu     sync.RWMutex
	state  state
	maps   []*Map
	object string // its name in metrics
	sites  int    // what Attached returns

	leave   func()        // stops watching the context of Attach; valid when settled is closed
	settled chan struct{} // closed at the end of Attach
	done    chan struct{} // closed when the session has ended
	freed   chan struct{} // closed at the end of Close
	status  int           // valid when done is closed, like err
	err     error
	metrics *Metrics // of WriteMetrics
}

// state is how far a session is. It only increases.
type state int

const (
	loaded    state = iota
	attaching       // Attach was called; it stays so if that fails
	attached        // Wait will serve
	serving         // serve has been or will be called
	closed
)

// ErrNoProbes means that no attach point of the script exists on this host.
var ErrNoProbes = run.ErrNoProbes

// ErrClosed is returned by the methods of a closed session.
var ErrClosed = errors.New("the session is closed")

// Load checks the object and loads its programs into the kernel. It does not run or attach
// anything.
func Load(o *Object, opts Options) (*Session, error) {
	return LoadContext(context.Background(), o, opts)
}

// LoadContext is like Load; the context limits the wait for containers (Options.Wait).
func LoadContext(ctx context.Context, o *Object, opts Options) (*Session, error) {
	s := newSession(&opts)
	s.typed = typed
	s, err := s.load(ctx, o, &opts, func(ro *run.Options, _ *object.Object) error { return s.queue.sendTo(ro) })
	return s, typed(err)
}

// LoadReport is like LoadContext, for a session that prints a report instead of returning events. Programs that load
// all their sessions with it do not contain the conversion to typed values (170 KB), and their errors get types such as
// PermissionError only by TypedError.
func LoadReport(ctx context.Context, o *Object, opts Options, r *Report) (*Session, error) {
	s := newSession(&opts)
	s.prints = true
	return s.load(ctx, o, &opts, r.sendTo)
}

func newSession(opts *Options) *Session {
	return &Session{
		queue: newQueue(opts.DropEvents), dry: opts.DryRun, inWait: opts.Process != nil,
		settled: make(chan struct{}), done: make(chan struct{}), freed: make(chan struct{}),
	}
}

// load loads an object; output sets how its output is passed on.
func (s *Session) load(ctx context.Context, o *Object, opts *Options,
	output func(*run.Options, *object.Object) error) (*Session, error) {
	ro, err := opts.run(ctx)
	if err != nil {
		return nil, err
	}
	x, err := o.read()
	if err != nil {
		return nil, err
	}
	if err := output(ro, x); err != nil {
		return nil, err
	}
	if s.run, err = run.Load(x, *ro); err != nil {
		return nil, err
	}
	s.listMaps()
	s.object = objectName(x)
	return s, nil
}

// listMaps sets what Maps returns.
func (s *Session) listMaps() {
	s.maps = nil
	for _, m := range s.run.Maps() {
		s.maps = append(s.maps, &Map{session: s, m: m})
	}
}

// Reload replaces the object of an attached session with Options.Reload by another one, with other parameters; the
// other options stay as they are. The programs of both are attached before the new ones begin to count, and each event is
// counted by one of the two. Maps of the same name and type keep their content. If there are others, the end programs of
// the old object run, and a Report shows these maps. The begin programs of the new object run in any case.
//
// If Reload returns an error, the old object goes on as if nothing had happened; unless the session has ended, which
// returns an error as well, or the begin programs of the new object have run: these are the last step that can fail, and
// what they did to maps that both objects have stays. Values of Maps and Map from before stay valid for maps that have
// not changed, and Metrics follow the object.
func (s *Session) Reload(o *Object, args []string, params map[string]string) error {
	x, err := o.read()
	if err != nil {
		return err
	}
	s.mu.RLock()
	was := s.state
	s.mu.RUnlock()
	switch {
	case was == closed:
		return ErrClosed
	case was < attached:
		return errors.New("the session is not attached")
	}
	if err := s.run.Reload(x, args, params); err != nil {
		if s.typed != nil {
			err = s.typed(err)
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != closed {
		s.listMaps()
		s.sites = s.run.Attached()
	}
	return nil
}

// Attach runs the begin programs, attaches the others, and returns. The session runs until the script calls exit(),
// what Options limit it to ends, ctx is done, or Stop or Close is called. If ctx is done before everything is attached,
// Attach returns its error. A session can be attached once.
func (s *Session) Attach(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer close(s.settled)
	s.stopWith(ctx)
	err := s.attach()
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		s.leave()
		if s.typed != nil {
			err = s.typed(err)
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == closed {
		return ErrClosed
	}
	s.state, s.sites = attached, s.run.Attached()
	if !s.inWait {
		s.state = serving
		go s.serve()
	}
	return nil
}

// begin reports whether the session can be attached.
func (s *Session) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state == closed:
		return ErrClosed
	case s.dry:
		return errors.New("the session is a dry run: it attaches nothing")
	case s.state != loaded:
		return errors.New("the session is already attached")
	case ctx.Err() != nil:
		return ctx.Err()
	}
	s.state = attaching
	return nil
}

// stopWith stops the session when ctx is done.
func (s *Session) stopWith(ctx context.Context) {
	if ctx.Done() == nil {
		s.leave = func() {}
		return
	}
	left := make(chan struct{})
	s.leave = sync.OnceFunc(func() { close(left) })
	go func() {
		select {
		case <-ctx.Done():
			s.run.Stop()
		case <-left:
		}
	}()
}

// attach runs the begin programs on one thread, whose ID they see as tid.
func (s *Session) attach() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return s.run.Attach()
}

// serve handles events until the session ends.
func (s *Session) serve() {
	defer close(s.done)
	if s.err = s.run.Serve(); s.err != nil {
		s.status = 1
	} else {
		s.status, s.err = s.run.Finish()
	}
	s.leave()
	s.queue.end()
}

// Events returns the script's output as it arrives, until the session ends. Only one loop may range over it at a
// time; after a break, another loop continues. While no loop consumes events, the kernel's buffer fills up, and
// events that do not fit are counted in Losses.
func (s *Session) Events() iter.Seq[*Event] {
	return func(yield func(*Event) bool) {
		for {
			e := s.queue.next()
			if e == nil || !yield(e) {
				return
			}
		}
	}
}

// Run is like Events, but ends with the error that ended the session, if any; its event is then nil. It can replace
// Wait.
func (s *Session) Run() iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		for e := range s.Events() {
			if !yield(e, nil) {
				return
			}
		}
		<-s.done
		if s.err != nil {
			yield(nil, s.err)
		}
	}
}

// Stop ends the session in an orderly way: everything is detached, the end programs run, and Events returns the
// remaining events. Maps can be read until Close.
func (s *Session) Stop() { s.run.Stop() }

// RunSelf runs the script's self programs; it reports whether there are any.
func (s *Session) RunSelf() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state == closed || s.dry || !s.run.HasSelf() {
		return false
	}
	s.run.RunSelf()
	return true
}

// PrintMaps makes a session with a Report print its maps as they are now. It does not wait until they are printed.
func (s *Session) PrintMaps() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state != closed && s.prints {
		s.run.Snapshot()
	}
}

// RestoreTerminal ends the drawing of Report.Live. Close does the same.
func (s *Session) RestoreTerminal() { s.run.Abandon() }

// Wait waits until the session has ended, and returns the exit code of the script and the error
// that ended the session, if any; the code is then 1. Meanwhile events must be consumed, or dropped
// (Options.DropEvents), unless there is a Report.
func (s *Session) Wait() (code int, err error) {
	if s.mustServe() {
		s.serve()
	}
	<-s.done
	return s.status, s.err
}

// mustServe reports whether the caller, Wait, must call serve.
func (s *Session) mustServe() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.inWait || s.state != attached {
		return false
	}
	s.state = serving
	return true
}

// Attached returns how many attach points are attached.
func (s *Session) Attached() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sites
}

// Verified returns how many programs the kernel has verified, once the session is loaded.
func (s *Session) Verified() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state == closed {
		return 0
	}
	return s.run.Verified()
}

// HostFacts returns what the host knows of why attach points of the script would not fire now, a sentence each: the same facts,
// in the same words, that Options.Why reports of a run.
func (s *Session) HostFacts() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state == closed {
		return nil
	}
	return s.run.HostFacts()
}

// Site is what became of an attach point of the script, or of several that share one program.
type Site struct {
	Probe    string   // as in the script
	Attached int      // at how many places
	Refused  []string // functions of a pattern that the kernel refuses
	Err      error    // why it is attached nowhere, or nil
}

// Sites returns what became of each attach point, once Attach has returned. What the script's missing_probes or a
// pattern let the loader leave out beforehand is not among them: a warning says so.
func (s *Session) Sites() []Site {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state < attached {
		return nil
	}
	var all []Site
	for _, p := range s.run.Points() {
		all = append(all, Site{p.Probe, p.Sites, p.Refused, p.Err})
	}
	return all
}

// BPF gives access to the kernel's maps, by ELF symbol, and programs, by ELF function, for what the library does not
// offer; a program that is attached several times in different forms is there several times. They belong to the
// session: they must not be closed, and become invalid with Close. The manifest describes keys and values; a map that
// Take empties may exist twice. nil after Close.
func (s *Session) BPF() (maps map[string]*ebpf.Map, programs map[string][]*ebpf.Program) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.state == closed {
		return nil, nil
	}
	return s.run.BPF()
}

// Close ends the session and frees all resources. Events that were not consumed are lost; snapshots stay valid. It
// returns the error that ended the session, if any.
func (s *Session) Close() error {
	s.mu.Lock() // waits for readers of maps
	was := s.state
	if was == closed {
		s.mu.Unlock()
		<-s.freed
		return nil
	}
	s.state = closed
	s.mu.Unlock()
	defer close(s.freed)
	s.queue.drop()
	s.run.Stop()
	if was >= attaching {
		<-s.settled
		s.leave()
	}
	// Nothing begins to serve any more.
	if was != serving {
		s.err = ErrClosed
		close(s.done)
		s.run.Close()
		s.queue.end()
		return nil
	}
	<-s.done
	s.run.Close()
	return s.err
}

// Losses counts what could not be delivered since the session's object was loaded.
type Losses struct {
	// Events that did not fit in the buffer.
	Events uint64
	// Updates of full maps, by the map's name.
	Updates map[string]uint64
	// Stacks that did not fit in their table.
	Stacks uint64
	// Scratch counts programs that were not run because they interrupted each other too deeply.
	Scratch uint64
	// Messages of the session that were not consumed in time.
	Messages uint64
}

// Any reports whether anything was lost.
func (l *Losses) Any() bool {
	return l.Events+l.Stacks+l.Scratch+l.Messages != 0 || len(l.Updates) > 0
}

// Losses returns what was lost so far.
func (s *Session) Losses() Losses {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l := Losses{Messages: s.queue.lostMessages()}
	if s.state == closed {
		return l
	}
	l.add(s.run.Losses())
	return l
}

// add adds the numbers of losses, which are in the order of the manifest's.
func (l *Losses) add(losses []manifest.Loss, numbers []uint64) {
	for i, n := range numbers {
		switch x := &losses[i]; {
		case n == 0:
		case x.Kind == "events":
			l.Events += n
		case x.Kind == "stack":
			l.Stacks += n
		case x.Kind == "scratch":
			l.Scratch += n
		case x.Kind == "map":
			if l.Updates == nil {
				l.Updates = map[string]uint64{}
			}
			l.Updates[x.Map] += n
		}
	}
}

// Limits of the event queue.
const (
	maxWaiting  = 1024 // events; at this limit the printer blocks
	maxMessages = 1024 // in addition to them
)

// queue holds the events that Events returns.
type queue struct {
	mu       sync.Mutex
	cond     sync.Cond
	events   []*Event
	messages int // number of messages
	lost     uint64
	ended    bool // no more events will come
	dropping bool // events are discarded
}

func newQueue(dropping bool) *queue {
	q := &queue{dropping: dropping}
	q.cond.L = &q.mu
	return q
}

// put adds an event, and blocks while the queue is full.
func (q *queue) put(e *Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.dropping && len(q.events) >= maxWaiting+q.messages {
		q.cond.Wait()
	}
	q.add(e)
}

func (q *queue) add(e *Event) {
	if q.dropping {
		return
	}
	q.events = append(q.events, e)
	q.cond.Broadcast()
}

// putMessage adds a message, or counts it as lost.
func (q *queue) putMessage(e *Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.messages >= maxMessages {
		q.lost++
		return
	}
	if !q.dropping {
		q.messages++
	}
	q.add(e)
}

// next waits for an event; it returns nil at the end.
func (q *queue) next() *Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.events) == 0 && !q.ended {
		q.cond.Wait()
	}
	if len(q.events) == 0 {
		return nil
	}
	e := q.events[0]
	q.events[0] = nil
	q.events = q.events[1:]
	if e.Kind == Message {
		q.messages--
	}
	q.cond.Broadcast()
	return e
}

func (q *queue) lostMessages() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// end marks the end of the events.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.cond.Broadcast()
}

// drop discards queued and future events.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropping, q.events, q.messages = true, nil, 0
	q.cond.Broadcast()
}

// sendTo makes a run put its output and messages into the queue.
func (q *queue) sendTo(ro *run.Options) error {
	if ro.Mode != "" {
		return fmt.Errorf("the mode %s needs a report", ro.Mode)
	}
	ro.Buffer, ro.Quiet = "full", true
	ro.Err = messages{q}
	ro.Sink = &output.Format{
		Name: "events",
		New:  func(r *output.Run) output.Sink { return &sink{Run: r, queue: q} },
	}
	return nil
}

// messages turns the lines of the loader's error output into events.
type messages struct{ queue *queue }

func (w messages) Write(b []byte) (int, error) {
	if text := strings.TrimRight(string(b), "\n"); text != "" {
		w.queue.putMessage(&Event{Kind: Message, Time: time.Now(), Text: text})
	}
	return len(b), nil
}
