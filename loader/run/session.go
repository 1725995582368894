// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"btc/internal/aggregate"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/format"
	"btc/loader/object"
	"btc/loader/options"
	"btc/loader/output"
	"btc/loader/render"
	"btc/loader/run/keep"
	"btc/loader/run/tty"
	"btc/loader/run/view"
	"btc/loader/symbols"
)

// Session is a run in steps: Load, Attach, Serve, Finish, Close, in this order and on one
// goroutine. Stop, Snapshot and RunSelf may be called from others. The begin and end programs run
// on the calling thread, and see its ID as tid. A caller that wants the process ID there calls
// Attach and Finish on the main thread.
type Session struct {
	now   atomic.Pointer[session] // the session of the object that counts
	given Options
	// mu is held by methods that other goroutines call, so that what they use is not closed meanwhile.
	mu sync.RWMutex
	// reloading is held by Reload, and by Close, which waits for it.
	reloading sync.Mutex
	ended     chan struct{} // closed at the end of Serve
	// keys is held while a key of the live view acts on the session that counts, and while another one replaces it.
	keys sync.Mutex
}

func (x *Session) s() *session { return x.now.Load() }

// Load checks the object against the options and this host, and loads its programs. It does not run
// or attach anything.
func Load(o *object.Object, opts Options) (*Session, error) {
	x := &Session{given: opts, ended: make(chan struct{})}
	s := &session{manifest: o.Manifest, opts: opts, end: newEnding()}
	if s.opts.Out == nil {
		s.opts.Out = io.Discard
	}
	if s.opts.Err == nil {
		s.opts.Err = io.Discard
	}
	if s.opts.Sink == nil {
		s.opts.Sink = &output.Text
	}
	if s.opts.Live {
		s.msg.screen = tty.New(s.opts.Out, s.opts.ColorBlocks)
		s.view = view.New(s.msg.screen, s.opts.Every, s.opts.Sort, s.opts.Rate, s.opts.Blocks)
		s.opts.Out, s.opts.Err = s.msg.screen, s.msg.screen.Messages(s.opts.Err)
	}
	if s.opts.Getenv == nil {
		s.opts.Getenv = func(string) string { return "" }
	}
	s.text = o.Text
	if s.opts.Record != nil {
		s.rec = &recording{w: s.opts.Record}
	}
	s.connect()
	s.progress.Start(s.opts.Progress)
	if err := s.prepare(o); err != nil {
		s.progress.Stop()
		err = s.orEnded(err)
		s.close()
		s.gate.Close()
		return nil, err
	}
	x.now.Store(s)
	return x, nil
}

// connect tells the parts of a session which others they use.
func (s *session) connect() {
	s.msg.script, s.msg.err, s.msg.muted, s.msg.paint = &s.manifest.Script, s.opts.Err, s.opts.NoWarnings, s.opts.PaintWarning
	if s.rec != nil {
		s.msg.rec, s.rec.fail = s.rec, func(text string) { fmt.Fprintln(s.msg.err, text) }
	}
	s.names.warn, s.names.demangle, s.names.cgroups.Container = s.msg.warn, s.manifest.Config.CppDemangle, s.names.container
	s.names.later = s.opts.Symbolize == options.SymbolizeLater
	if s.opts.NoHelper {
		s.names.helper = symbols.None
	}
	s.targets.pids, s.targets.end, s.targets.warn = s.opts.PIDs, s.end, s.msg.warn
	s.monitor.targets, s.reader.session = &s.targets, s
}

// Attach runs the begin programs, attaches the others, and resumes the command of Options.
func (x *Session) Attach() error {
	s := x.s()
	defer s.progress.Stop()
	if err := s.start(); err != nil {
		return s.orEnded(err)
	}
	s.walks.unwinder.Scan()
	s.begin()
	if s.opts.Mode != "" { // tests run one by one, in order
		return nil
	}
	if err := s.resumeChild(); err != nil {
		return err
	}
	// A probe that sees the whole system may have called exit() by now. Stopping all threads below takes milliseconds, in
	// which it would go on counting.
	if hasEvent(s.manifest, "exit") && s.reader.exitAhead() {
		s.links.detach()
	}
	s.dropPrivileges()
	s.progress.Stop()
	s.announce()
	x.listen()
	return nil
}

// Serve handles events until the script, Stop or the exit of the traced process ends the run. If
// Mode is set it runs the tests or benchmarks.
func (x *Session) Serve() error {
	defer close(x.ended)
	switch x.s().opts.Mode {
	case probe.Test:
		return (&trials{x.s()}).runTests()
	case probe.Bench:
		return (&trials{x.s()}).runBenchmarks()
	}
	return x.serve()
}

// Finish detaches, runs the end programs, handles the remaining events and prints the maps. It returns
// the script's exit code.
func (x *Session) Finish() (status int, err error) { return x.s().finish() }

// Close frees all resources. Nothing is attached when it returns.
func (x *Session) Close() {
	x.s().end.stop()   // a Reload that waits for Serve returns
	x.reloading.Lock() // nothing is loaded meanwhile
	defer x.reloading.Unlock()
	s := x.s()
	s.view.Close()
	s.close()
	s.gate.Close()
}

// Stop ends the run gracefully. Operations that may block the output, such as commands of system(),
// have another second to finish.
func (x *Session) Stop() {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.s()
	s.end.stop()
	s.limitNames()
	s.end.limitCommands(true)
}

// Snapshot prints the maps as they are now; the run continues. Any goroutine may call it. The event reader does it as
// soon as it can.
func (x *Session) Snapshot() {
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.s().snapshots.requested.Store(true)
	x.s().reasons.requested.Store(true)
	x.s().reader.events.wake()
}

// Abandon restores the terminal if a run is not ended properly.
func (x *Session) Abandon() {
	x.s().view.Close()
	x.s().msg.screen.Leave()
}

// HasSelf reports whether the script has self probes, which RunSelf runs.
func (x *Session) HasSelf() bool { return hasKind(x.s().expansion, probe.Self) }

// RunSelf runs the self programs.
func (x *Session) RunSelf() {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if err := x.s().runVirtual(probe.Self); err != nil {
		x.s().msg.line(err.Error())
	}
	x.s().reasons.requested.Store(true)
	x.s().reader.events.wake()
}

// Maps lists the script's maps in byte order of their names.
func (x *Session) Maps() []*manifest.Map { return x.s().maps.scripts() }

// Read calls f with the maps of the object that counts. It is not replaced before f returns. Any goroutine may call Read
// until Close; f must not call methods of the session.
func (x *Session) Read(f func(r MapReader)) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	f(MapReader{x.s()})
}

// MapReader reads maps. It is valid until the function returns that Read passes it to.
type MapReader struct{ s *session }

// Manifest returns the manifest of the object.
func (r MapReader) Manifest() *manifest.Manifest { return r.s.manifest }

// Maps is like Session.Maps.
func (r MapReader) Maps() []*manifest.Map { return r.s.maps.scripts() }

// Elements returns the current content of a map of Maps.
func (r MapReader) Elements(m *manifest.Map) ([]render.Element, error) {
	return r.ofMap(m, (*mapTable).elements)
}

// Take reads and empties a map in one step. A concurrent update by a program is either in the result or in the map
// afterwards.
func (r MapReader) Take(m *manifest.Map) ([]render.Element, error) {
	return r.ofMap(m, (*mapTable).take)
}

// ofMap reads a map, which may be one of an object that has been replaced.
func (r MapReader) ofMap(m *manifest.Map, read func(*mapTable, *manifest.Map) ([]render.Element, error)) ([]render.Element, error) {
	t := r.s.maps
	now := t.manifest.Map(m.Name)
	if now == nil || now != m && !keep.Same(now, m) {
		return nil, fmt.Errorf("%s: the object that had this map was replaced", m.Name)
	}
	return read(t, now)
}

// Env returns the host data for printing values of maps.
func (r MapReader) Env() *format.Env { return r.s.env() }

// Frames returns the addresses of a stack, innermost first.
func (r MapReader) Frames(l *manifest.Layout, id uint64) []uint64 { return r.s.maps.frames(l, id) }

// Losses returns the losses that the manifest names, and their counters; nil if these cannot be read.
func (x *Session) Losses() ([]manifest.Loss, []uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := x.s()
	return s.manifest.Losses, s.losses.read()
}

// Sampler returns a sampler of the maps, whose keys are named as those of a run that prints metrics. It may be used with
// readers of the same manifest, by one goroutine at a time.
func (r MapReader) Sampler(object string, maxSeries int, buckets aggregate.Range) *output.Sampler {
	s := r.s
	if hasCgroupKey(s.manifest) {
		s.names.cgroups.Load()
	}
	facts := s.facts()
	facts.Object, facts.MaxSeries, facts.Buckets = object, maxSeries, buckets
	return output.NewSampler(facts)
}

// Points returns what became of the attach points that the kernel was asked for.
func (x *Session) Points() []*Point { return x.s().links.points }

// BPF returns the kernel's maps, by ELF symbol, and programs, by ELF function; they are valid until Close.
func (x *Session) BPF() (maps map[string]*ebpf.Map, programs map[string][]*ebpf.Program) {
	programs = map[string][]*ebpf.Program{}
	for i, p := range x.s().loaded.Programs {
		name := x.s().expansion.Plans[i].Prog.Name
		programs[name] = append(programs[name], p.Of...)
	}
	return x.s().loaded.Maps, programs
}

// Verified returns how many programs are loaded.
func (x *Session) Verified() (n int) {
	for _, p := range x.s().loaded.Programs {
		n += len(p.Of)
	}
	return n
}

// Attached returns how many attach points are attached.
func (x *Session) Attached() int { return x.s().links.sites }
