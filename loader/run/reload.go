// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/filter"
	"btc/loader/object"
	"btc/loader/output"
	"btc/loader/run/keep"
)

// A run with Options.Reload is a series of sessions, one for each object. A session loads and attaches its programs while
// the one before still counts (Session.Reload). Then it uses the maps that it can keep, runs its begin programs, and the
// word of the gate switches (replace). After that the session before ends (retire): its last events are printed, its end
// programs run and its maps are printed unless all are kept, and the output passes to the new session.

// generation is a session's place in the series.
type generation struct {
	gate   *filter.Gate // of all; nil: the object is never replaced
	number byte
	before *session // the session to replace; nil once that is done
	// handOver is called by the goroutine that the session is served on.
	handOver chan func()
	replaced atomic.Bool // the event reader stops
	next     *session    // replaces this one; valid once replaced is set
	begun    chan struct{}
	kept     map[string]bool // names of the maps that are those of the session before
}

// openGate creates the gate of the first session.
// preemptible reports whether tasks can be interrupted in tracepoints of system calls (filter.NewGate).
func preemptible() bool {
	release, _ := kernelfs.Release()
	first, rest, _ := strings.Cut(release, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, err := strconv.Atoi(first)
	minor, _ := strconv.Atoi(second)
	return err != nil || major > 6 || major == 6 && minor >= 13
}

func openGate(s *session) (err error) {
	if !s.opts.Reload {
		return nil
	}
	if s.handOver, s.begun = make(chan func()), make(chan struct{}); s.gate == nil {
		s.gate, err = filter.NewGate(s.host.Possible, preemptible())
	}
	return err
}

// errEnded is the error of Reload if the run ends before the new object counts.
var errEnded = errors.New("the run ends")

// Reload replaces the object, with new parameters. It returns when the new object counts and handles its events, or with
// the reason why the old one goes on. Any goroutine may call it once everything is attached.
func (x *Session) Reload(o *object.Object, args []string, params map[string]string) error {
	x.reloading.Lock()
	defer x.reloading.Unlock()
	old := x.s()
	select {
	case <-x.ended:
		return errEnded
	default:
	}
	if err := reloadable(old, o.Manifest); err != nil {
		return err
	}
	s, err := successor(old, x.given, o, args, params)
	if err != nil {
		return err
	}
	for i := range o.Manifest.Programs {
		if p := probe.Lookup(o.Manifest.Programs[i].Kind); p != nil && p.Return() {
			time.Sleep(callTime)
			break
		}
	}
	done := make(chan error, 1)
	select {
	case old.handOver <- func() { done <- replace(old, s) }:
		err = <-done
	case <-old.end.stopping: // perhaps before Serve
		err = errEnded
	case <-x.ended:
		err = errEnded
	}
	if err != nil {
		s.close()
		return err
	}
	select {
	case <-s.begun:
		return nil
	case <-x.ended:
		return errEnded
	}
}

// callTime is how long probes that see the return of a call, if they were attached before it, are attached before they
// count: returns of calls that take longer, and were in progress, are missed.
const callTime = 100 * time.Millisecond

// reloadable returns an error if the object of a session cannot be replaced, or not by another one.
func reloadable(s *session, by *manifest.Manifest) error {
	switch {
	case !s.opts.Reload:
		return errors.New("the run does not permit another object")
	case s.child != nil || s.opts.FollowForks:
		return errors.New("an object that traces a command or follows forks cannot be replaced")
	}
	for _, m := range []*manifest.Manifest{s.manifest, by} {
		for i := range m.Programs {
			if m.Programs[i].Kind == probe.Iter {
				return errors.New("an object with iterators cannot be replaced, nor replace another one: it runs once")
			}
		}
		if hasEvent(m, "skboutput") {
			return errors.New("an object with skboutput() cannot be replaced, nor replace another one: its files would be overwritten")
		}
	}
	return nil
}

// successor loads and attaches an object. Nothing is counted yet.
func successor(old *session, opts Options, o *object.Object, args []string, params map[string]string) (*session, error) {
	opts.Args, opts.Params = args, params
	opts.Progress, opts.Hint, opts.Live = nil, nil, false
	opts.Out, opts.Err, opts.Sink, opts.Getenv = old.opts.Out, old.opts.Err, old.opts.Sink, old.opts.Getenv
	s := &session{manifest: o.Manifest, text: o.Text, opts: opts, end: old.end}
	s.gate, s.number, s.before = old.gate, old.number+1, old
	s.msg.screen, s.view = old.msg.screen, old.view
	s.connect()
	err := s.prepare(o)
	if err == nil {
		err = s.openUnwinder()
	}
	if err == nil {
		s.names.recordMappings(s.manifest, s.opts.PIDs, s.expansion, s.host.Online)
		err = s.attach()
	}
	if err == nil && old.end.stopped() {
		err = errEnded
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.walks.unwinder.Scan()
	return s, nil
}

// replace makes next count instead of s.
func replace(s, next *session) error {
	s.maps.mu.Lock() // the slots of kept maps stay as they are
	defer s.maps.mu.Unlock()
	if err := next.maps.inherit(s.maps); err != nil {
		return err
	}
	if err := next.runVirtual(probe.Begin); err != nil {
		return err
	}
	if err := s.gate.Switch(next.number); err != nil {
		return err
	}
	waitForPrograms()
	s.next, s.maps.next, next.before, next.deadline = next, next.maps, nil, s.deadline
	if n := s.gate.Settle(next.number); n > 0 {
		next.msg.warn(fmt.Sprintf("WARNING: reload: up to %d events were counted by neither object", n))
	}
	s.replaced.Store(true)
	s.reader.events.wake()
	return nil
}

// serve serves the sessions, one after the other.
func (x *Session) serve() error {
	for {
		s := x.s()
		err := s.loop()
		if err != nil || !s.replaced.Load() {
			return err
		}
		next := s.next
		s.end.wakes(next.reader.events)
		x.keys.Lock()
		err = retire(s, next)
		if err == nil {
			x.mu.Lock()
			next.names.inherit(&s.names, hasEvent(next.manifest, "proc"))
			x.now.Store(next)
			x.mu.Unlock()
		}
		x.keys.Unlock()
		if err != nil {
			next.close()
			return err
		}
		s.close()
		if r, ok := next.front.sink.(output.Reloader); ok {
			r.Reloaded()
		}
		next.begin()
		next.announce()
		close(next.begun)
	}
}

// retire ends a session that another one has replaced.
func retire(s, next *session) error {
	s.links.detach()
	s.gate.SettleTasks(next.number)
	if s.snapshots.timer != nil {
		s.snapshots.timer.Stop()
	}
	s.reader.drain()
	var gone []*manifest.Map
	for _, m := range s.maps.scripts() {
		if !next.kept[m.Name] {
			gone = append(gone, m)
		}
	}
	var err error
	if len(gone) > 0 {
		exited, status := s.end.exited, s.end.status
		err = s.reader.runEnd()
		s.end.exited, s.end.status = exited, status
	}
	s.walks.unwinder.Await(0) // for less time than finish does: nobody reads the events of next meanwhile
	s.walks.close()
	s.losses.check(true)
	s.losses.suppressed(true)
	s.warnSkipped(time.Now(), true)
	next.losses.inherit(s.losses)
	if s.opts.Sink.Document && len(gone) > 0 { // a document has all maps
		gone = s.maps.scripts()
	}
	if len(gone) > 0 {
		s.printMaps(gone)
	} else { // the output goes on
		next.front.Started, next.back.Started = s.front.Started, s.front.Started
	}
	if e := s.stopPrinter(); e != nil {
		return fmt.Errorf("writing the output: %w", e)
	}
	if s.msg.crashed.Load() {
		next.msg.crashed.Store(true)
	}
	return err
}

// timeout returns how long the run may still take; 0: forever.
func timeout(s *session) time.Duration {
	if s.opts.Timeout == 0 {
		return 0
	}
	if s.deadline.IsZero() {
		s.deadline = time.Now().Add(s.opts.Timeout)
	}
	return max(time.Until(s.deadline), 1)
}

// inherit makes the state of the maps that are kept that of the table before, which is locked.
func (t *mapTable) inherit(old *mapTable) error {
	for name := range t.kept {
		m, was := t.manifest.Map(name), old.manifest.Map(name)
		if m.Gens == 2 {
			copy(t.gen[m.GenOff:][:4], old.gen[was.GenOff:])
		}
		if n, ok := old.deleted[name]; ok {
			t.deleted[name] = n
		}
		t.zeroed[name] = old.zeroed[name]
		if x := old.swept.all[name]; len(x) > 0 { // for IDs that programs have stored since
			t.swept.add(name, sweep{frames: x[0].frames})
		}
	}
	if t.gen == nil || len(t.kept) == 0 {
		return nil
	}
	return t.loaded.Variables["gen"].Set(t.gen)
}

// inherit takes over what another session, which has ended, knows of processes, many of which have exited: maps that are
// kept have their addresses. processes means that the object has such addresses.
func (n *names) inherit(old *names, processes bool) {
	if !processes || old.table == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	old.table.Join(n.symbols())
	n.table, old.table = old.table, nil
}

// inherit adds the losses of the session before, which has ended, to those that metrics count.
func (c *lossCounter) inherit(old *lossCounter) {
	c.earlier = map[string]uint64{}
	for _, l := range old.counts() {
		c.earlier[l.Cause] = l.N
	}
}

// kept returns the maps of the session before that the object uses, by the ELF symbol of the object.
func kept(s *session, o *object.Object) map[string]*ebpf.Map {
	if s.before == nil {
		return nil
	}
	old := s.before.loaded.Maps
	ids := true
	for id, name := range s.before.names.probes {
		ids = ids && s.names.probes[id] == name
	}
	s.kept = keep.Maps(s.manifest, s.before.manifest, ids, func(m, was *manifest.Map) bool {
		spec, kernel := o.Spec.Maps[m.Symbol], old[was.Symbol]
		return spec != nil && kernel != nil && spec.Compatible(kernel) == nil
	})
	all := map[string]*ebpf.Map{}
	for name := range s.kept {
		all[s.manifest.Map(name).Symbol] = old[s.before.manifest.Map(name).Symbol]
	}
	return all
}
