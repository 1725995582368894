// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"context"
	"errors"
	"io"
	"iter"
	"runtime"
	"strings"
	"sync"
	"time"

	"btc/loader/output"
	"btc/loader/permit"
	"btc/loader/run"
)

// Options control how an object is run. The zero value runs a script without parameters. The policy of the host
// (/etc/btrun/policy.json) always applies.
type Options struct {
	// Args are the values of the positional parameters $1, $2, ...
	Args []string
	// Params are the values of named parameters: getopt() in the script.
	Params map[string]string

	// PID limits probes to a process, and PIDs to several, if their kind can be limited. The
	// session ends when the last of the processes exits. If there are none, all processes are
	// traced.
	PID  int
	PIDs []int
	// FollowForks adds all processes that the processes of PIDs start. With a Command it limits the
	// probes to the command and the processes that it starts. The session ends when all of them
	// have exited.
	FollowForks bool
	// Cgroups limits probes to tasks in these cgroups of version 2 or below them. Each is given as
	// a path or an ID. The session ends when all of them have been removed. If there are none,
	// there is no limit.
	Cgroups []string
	// Containers limits probes to tasks in these containers, each given by its ID, a prefix of the
	// ID, or its name: NAME, POD/NAME or NAMESPACE/POD/NAME. Pods are Kubernetes pods, by UID or
	// NAMESPACE/NAME; if both are set, the containers are looked up in the pods. They are found by
	// the state files of the host's container runtimes. The session ends when all of them have
	// ended.
	Containers, Pods []string
	// Wait makes LoadContext wait for containers and pods that do not exist yet.
	Wait bool
	// Command is a program with arguments, separated by single spaces, that is started when
	// everything is attached; the session ends when it exits. Its process ID is the value of the
	// builtin cpid.
	Command string

	// Allow names what the script may do besides observing: system, signal, override, write-user,
	// probe-address, files=DIRECTORY, pins=DIRECTORY.
	Allow []string
	// MaxMemory limits the total size of all maps, in bytes; 0: a quarter of this host's memory.
	MaxMemory uint64
	// Budget is the share of one CPU that the programs may use: 0.01 is 1 %; 0: no limit. When they
	// exceed it in two consecutive windows of 10 s, the most expensive probe is detached (see the
	// event Detached). Load fails if the kernel's run-time statistics are off and cannot be
	// enabled.
	Budget float64
	// BTF is a file or directory with the kernel's types, for kernels without their own.
	BTF string
	// Functions is a file with the names of the kernel functions that can be probed; "": use the
	// kernel's list.
	Functions string
	// DropEvents discards the script's output, for sessions that only need its maps.
	DropEvents bool
}

// processes returns PID and PIDs.
func (o *Options) processes() []int {
	if o.PID == 0 {
		return o.PIDs
	}
	return append([]int{o.PID}, o.PIDs...)
}

// Session is a loaded object. It must be closed.
type Session struct {
	object *Object
	run    *run.Session
	queue  *queue
	maps   []*Map

	mu       sync.RWMutex // guards the fields below
	attached bool
	closed   bool
	leave    func() bool   // stops watching the context of Attach
	done     chan struct{} // closed when the session has ended
	status   int
	err      error
}

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
	x, err := o.read()
	if err != nil {
		return nil, err
	}
	s := &Session{object: o, queue: newQueue(opts.DropEvents), done: make(chan struct{})}
	ro := run.Options{
		Params: opts.Args, Named: opts.Params, PIDs: opts.processes(), Cgroups: opts.Cgroups, FollowForks: opts.FollowForks,
		Containers: opts.Containers, Pods: opts.Pods, Command: opts.Command, BTF: opts.BTF, Functions: opts.Functions,
		MaxMemory: opts.MaxMemory, Budget: opts.Budget, Buffer: "full", Quiet: true,
		Out: io.Discard, Err: messages{s.queue},
		Format: &output.Format{
			Name: "events",
			New:  func(r *output.Run) output.Sink { return &sink{Run: r, queue: s.queue} },
		},
	}
	if opts.Wait {
		ro.Wait = ctx
	}
	if ro.MaxMemory == 0 {
		ro.MaxMemory = permit.DefaultMemory()
	}
	for _, name := range opts.Allow {
		if err := ro.Allow.Allow(name); err != nil {
			return nil, err
		}
	}
	if s.run, err = run.Load(x, ro); err != nil {
		return nil, err
	}
	env := s.run.Env()
	for _, m := range s.run.Maps() {
		s.maps = append(s.maps, &Map{session: s, m: m, values: decoder{env, s.run.Frames}})
	}
	return s, nil
}

// Attach runs the begin programs, attaches the others, and returns. The session runs until the script calls exit(),
// the process of Options ends, ctx is done, or Stop or Close is called. If ctx is done before everything is attached,
// Attach returns its error.
func (s *Session) Attach(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.attached:
		return errors.New("the session is already attached")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.leave = context.AfterFunc(ctx, s.run.Stop)
	if err := s.attach(); err != nil {
		s.leave()
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.attached = true
	go s.serve()
	return nil
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
	err := s.run.Serve()
	if err == nil {
		s.status, err = s.run.Finish()
	}
	s.err = err
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

// Stop ends the session in an orderly way: everything is detached, the end programs run, and Events returns the
// remaining events. Maps can be read until Close.
func (s *Session) Stop() { s.run.Stop() }

// RunSelf runs the script's self programs; it reports whether there are any.
func (s *Session) RunSelf() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed || !s.run.HasSelf() {
		return false
	}
	s.run.RunSelf()
	return true
}

// Wait waits until the session has ended, and returns the exit code of the script and the error
// that ended the session, if any. Meanwhile events must be consumed, or dropped
// (Options.DropEvents).
func (s *Session) Wait() (code int, err error) {
	<-s.done
	return s.status, s.err
}

// Attached returns how many attach points are attached.
func (s *Session) Attached() int { return s.run.Attached() }

// Close ends the session and frees all resources. Events that were not consumed are lost; snapshots stay valid.
func (s *Session) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.queue.drop()
	s.run.Stop()
	if s.leave != nil {
		s.leave()
	}
	if s.attached {
		<-s.done
	} else {
		s.err = ErrClosed
		close(s.done)
	}
	s.run.Close()
	s.queue.end()
	return s.err
}

// Losses counts what could not be delivered since the session was loaded.
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
	if s.closed {
		return l
	}
	for i, n := range s.run.Losses() {
		switch x := &s.object.m.Losses[i]; {
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
	return l
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

// messages turns the lines of the loader's error output into events.
type messages struct{ queue *queue }

func (w messages) Write(b []byte) (int, error) {
	if text := strings.TrimRight(string(b), "\n"); text != "" {
		w.queue.putMessage(&Event{Kind: Message, Time: time.Now(), Text: text})
	}
	return len(b), nil
}
