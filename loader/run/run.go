// SPDX-License-Identifier: Apache-2.0

// Package run is a tracing session: it loads an object, runs its begin programs, attaches the
// others, handles events until the end, and prints the maps. It takes a checked object and the
// user's options, writes the script's output, and returns the exit status. It handles no signals
// and does not change the process unless Options say so, and several sessions may run in one
// process.
//
// The order of a run is that of the language: begin, attach, events, detach, end programs,
// remaining events, maps.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/loader/attach"
	"btc/loader/cgroup"
	"btc/loader/containers"
	"btc/loader/diag"
	"btc/loader/filter"
	"btc/loader/host"
	"btc/loader/load"
	"btc/loader/object"
	"btc/loader/output"
	"btc/loader/permit"
	"btc/loader/policy"
	"btc/loader/resolve"
	"btc/loader/run/child"
	"btc/loader/run/tty"
	"btc/loader/symbols"
)

// Options are the user's options.
type Options struct {
	Params  []string          // $1, $2, ...
	Named   map[string]string // values for getopt()
	PIDs    []int             // -p: only events of these processes
	Cgroups []string          // only tasks in these cgroups (version 2) or below: paths or IDs
	// Containers and Pods are further cgroups, by ID or name (package containers). If both are set,
	// Containers are looked up in Pods. Wait is how long to wait for one that does not exist yet;
	// if it is nil, that is an error.
	Containers, Pods []string
	Wait             context.Context
	// FollowForks adds the processes that PIDs or the command start, and limits the run to the
	// command and its children.
	FollowForks bool
	Command     string         // -c, split at single spaces
	BTF         string         // --btf: file or directory with the kernel's types
	Out         io.Writer      // events and maps; nil: discarded
	Err         io.Writer      // everything else; nil: discarded
	Buffer      string         // line (default), full or none
	Format      *output.Format // default text
	Escape      bool           // text: show control characters in strings as \xNN
	Quiet       bool
	Verbose     bool
	// NoWarnings suppresses all warnings, including the script's warnf().
	NoWarnings bool
	Allow      permit.Grants // what the operator permits the object to do
	MaxMemory  uint64        // total bytes of all maps; 0: no limit
	// Budget is the CPU share that the programs may use, 1 being one CPU; 0: no limit. Programs
	// that exceed it are detached.
	Budget float64
	// budgetWindow is the length of a budget window; 0: the default.
	budgetWindow time.Duration
	// Policy bounds the other options; nil: the policy of this host.
	Policy    *policy.Policy
	DryRun    bool          // load the programs, but do not attach or run them
	Functions string        // file that lists the traceable kernel functions; "": use the kernel's list
	Every     time.Duration // interval at which all maps are shown; 0: only at the end
	Object    string        // name of the object in metrics
	MaxSeries int           // max series of a metric; 0: output.DefaultMaxSeries
	// MakesFiles means that Out creates files during the run.
	MakesFiles bool
	Mode       string // "test", "bench": run these programs and attach nothing
	// DropPrivileges makes the process irrevocably drop, once everything is attached, the
	// capabilities that the rest of the run does not need.
	DropPrivileges bool
	// Top, Order and Summary control how maps are printed: only the Top elements with the largest
	// values (0: all), in an order that package render defines, and histograms with a line of
	// quantiles.
	Top     int
	Order   string
	Summary bool
	Live    bool // show the maps of Every in place, on a terminal
	Names   bool // show the container's name with the ID of a cgroup in keys
	// Timeout ends the run after this time; 0: no timeout. MaxEvents ends it after this many events
	// with output; 0: no limit.
	Timeout   time.Duration
	MaxEvents uint64
	// Hint shows a line on how to end the run when everything is attached. Progress is called
	// repeatedly during earlier steps that take longer than a second, and with "" at the end. Both
	// may be nil.
	Hint, Progress func(text string)
	// PaintWarning shows a warning in color; nil: all warnings go to Err.
	PaintWarning func(f *diag.Error)
	// Getenv returns the environment variables that override settings of the script; nil: there are
	// none.
	Getenv func(name string) string
	// OwnProcess means that the process does nothing but this run. Then its goroutines run on one
	// CPU while it waits for events.
	OwnProcess bool
}

// session is the state of a run.
type session struct {
	object   *object.Object
	manifest *manifest.Manifest
	opts     Options

	host      *host.Host
	expansion *attach.Expansion
	loaded    *load.Loaded
	child     *child.Process
	// memoryFrom says where MaxMemory is set, if the policy lowered it.
	memoryFrom string
	links      []io.Closer
	freeing    sync.WaitGroup   // links still being freed after detach
	watched    map[uint64][]int // links of watchpoints by address
	attached   int              // attach sites

	events *source
	// packets is nil if the script has no skboutput().
	packets *packets
	// printer, front and back write the output; nil before and after the run.
	printer     *printer
	front, back *writer
	maps        *mapTable
	losses      *lossCounter

	format   []*formatter // by event number
	handlers []handler    // by event number
	deferred []bool       // by event number: reports whether the printer handles it

	// symTable is created before events are read if the script prints symbols; lookup is held
	// during symbol lookups.
	symTable *symbols.Table
	lookup   sync.Mutex
	cgroups  cgroup.Names
	// groupNames are the names of containers' and pods' cgroups in messages, by directory. ended
	// are those already reported as ended.
	groupNames map[string]string
	ended      map[string]bool
	inside     []int            // one process per container
	containers *containers.Host // for names in the output, valid once looked is true; nil: no containers
	looked     bool
	limited    rateLimits // rate limits of Manifest.Errors, by index

	poller poller

	filter  *filter.Filter
	alarms  *alarms // nil: the targets are polled ten times a second
	targets targets // the -p processes

	snapshots snapshots
	budget    *budget // nil: none

	hotplug     *attach.Hotplug // nil: no probe is per CPU
	hotplugNext time.Time

	stopping chan struct{} // closed by the first external reason to stop
	stopOnce sync.Once
	rush     rush        // cancels operations that block the printer
	overtime atomic.Bool // no more commands are started
	live     atomic.Bool // the printer writes all messages
	crashed  atomic.Bool // an internal error happened
	// unwritten means that the last document could not be written.
	unwritten atomic.Bool
	peeked    uint64 // position up to which the ring buffer was searched for exit()

	// startedOnly means that a begin program called exit(), so that nothing else was attached.
	startedOnly bool
	exited      bool   // an exit event was handled
	shown       uint64 // events with output

	screen   *tty.Screen // terminal of the live view; nil: no live view
	progress tty.Progress
	status   int
	errors   int // run-time errors and errorf() of the current test
	// unstarted is the number of commands that came too late to start; the printer counts them.
	unstarted int
}

// ErrNoProbes means that no attach point of the script exists here.
//
//lint:ignore ST1005 bpftrace's words
var ErrNoProbes = errors.New("No probes to attach")

// bound applies the host's policy to the options.
func (s *session) bound() error {
	if s.opts.Policy == nil {
		var err error
		if s.opts.Policy, err = policy.Host(); err != nil {
			return err
		}
	}
	l := policy.Limits{
		Allow: &s.opts.Allow, Budget: s.opts.Budget, MaxMemory: s.opts.MaxMemory, Timeout: s.opts.Timeout,
		Command: s.opts.Command, Files: []string{s.opts.BTF, s.opts.Functions},
	}
	if err := s.opts.Policy.Apply(&l); err != nil {
		return err
	}
	if l.MaxMemory != s.opts.MaxMemory {
		s.memoryFrom = s.opts.Policy.MemoryFrom()
	}
	s.opts.Budget, s.opts.MaxMemory, s.opts.Timeout = l.Budget, l.MaxMemory, l.Timeout
	return nil
}

// prepare does everything that can fail without changing the kernel's state.
func (s *session) prepare() error {
	m := s.manifest
	if err := s.bound(); err != nil {
		return err
	}
	if here := arch.HostLabel(); !slices.Contains(m.Arches, here) {
		return fmt.Errorf("%s is compiled for %s, this machine is %s", s.object.Path, strings.Join(m.Arches, " and "),
			here)
	}
	if err := load.Environment(m, s.opts.Getenv); err != nil {
		return err
	}
	params, named, err := manifest.WithGiven(m, s.opts.Params, s.opts.Named)
	if err != nil {
		return err
	}
	values, err := manifest.ParseParams(m, params, named)
	if err != nil {
		return err
	}
	if err := attach.Fill(m, params); err != nil {
		return err
	}
	if pos, err := manifest.FillTexts(m, values); err != nil {
		return &diag.Error{Script: &m.Script, Pos: pos, Text: err.Error(), Severe: true}
	}
	if err := s.opts.Policy.Object(s.object); err != nil {
		return err
	}
	if err := s.opts.Allow.Check(s.object); err != nil {
		return err
	}
	for _, p := range manifest.NotGiven(m, params) {
		f := &diag.Error{
			Script: &m.Script,
			Pos:    p.Pos,
			Text:   "Positional parameter " + p.Name + " is empty or not provided.",
		}
		if p.Pos.Line > 0 {
			f.Chain = []manifest.Location{{Line: p.Pos.Line, Col: p.Pos.Col, EndCol: p.Pos.Col + len(p.Name)}}
		}
		s.warn(f.Message("WARNING"))
	}
	if err := s.findContainers(); err != nil {
		return err
	}
	if s.filter, err = filter.New(s.filterOptions()); err != nil {
		return err
	}
	if err := host.CheckPrivileges(); err != nil {
		return err
	}
	if s.host, err = host.Look(); err != nil {
		return err
	}
	s.expansion, err = attach.Expand(s.host, m, attach.Options{
		PIDs: s.opts.PIDs, Follow: s.opts.FollowForks, Cgroup: len(s.opts.Cgroups) > 0,
		Inside: s.inside, Unsafe: s.opts.Allow.Has(permit.ProbeAddress), Functions: s.opts.Functions,
		Separate: s.opts.Budget > 0, Mode: s.opts.Mode,
	})
	if err != nil {
		return err
	}
	if err := s.opts.Policy.Sites(m, s.expansion); err != nil {
		return err
	}
	for _, w := range s.expansion.Warnings {
		s.warn(w)
	}
	if total, _ := s.expansion.Count(); total == 0 || s.opts.Mode != "" && !s.hasKind(s.opts.Mode) {
		return s.errNone()
	}
	if err := s.openBudget(); err != nil {
		return err
	}
	if s.opts.Command != "" && !s.opts.DryRun {
		if s.child, err = child.Start(s.opts.Command); err != nil {
			return err
		}
	}
	return s.load(values)
}

// filterOptions returns the filter that selects events by process and cgroup.
func (s *session) filterOptions() filter.Options {
	return filter.Options{PIDs: s.opts.PIDs, Follow: s.opts.FollowForks, Cgroups: s.opts.Cgroups}
}

func (s *session) load(values map[string][]byte) error {
	s.warnLarge()
	opts := load.Options{
		Values: values, BTF: s.opts.BTF, MaxMemory: s.opts.MaxMemory, MemoryFrom: s.memoryFrom, Filter: s.filter,
		LongLoops: s.opts.Allow.Has(permit.LongLoops),
	}
	if s.child != nil {
		opts.ChildPID = s.child.PID
	}
	if s.opts.Verbose {
		// Level 2, because the level 1 log of an accepted program is empty.
		opts.LogLevel = int(ebpf.LogLevelInstruction | ebpf.LogLevelStats)
		opts.Log = func(program, text string) { fmt.Fprintf(s.opts.Err, "loaded %s\n%s", program, text) }
	}
	var err error
	s.loaded, err = load.Load(s.object, s.expansion, s.host, opts)
	s.expansion.Close()
	if err != nil {
		return err
	}
	if s.maps, err = newMapTable(s.manifest, s.loaded, s.host); err != nil {
		return err
	}
	s.losses = newLossCounter(s)
	if v := s.loaded.Variables["asleep"]; v != nil {
		if err := v.Set(awake); err != nil {
			return fmt.Errorf("the object's variable asleep: %w", err)
		}
		s.poller.asleep = v
	}
	if s.loaded.Maps[s.manifest.MapSymbol("events")] == nil {
		s.poller.asleep = noEvents{}
	}
	s.format, s.handlers, s.deferred = formatters(s.manifest), handlersOf(s.manifest), deferredEvents(s.manifest)
	if s.events, err = openSource(s.loaded.Maps[s.manifest.MapSymbol("events")]); err != nil || s.opts.DryRun {
		return err
	}
	if s.prints("kstack", "ksym", "ustack", "usym") || s.hasEvent("proc") {
		s.symbols()
	}
	if s.namesContainers() {
		s.cgroups.Load()
	}
	s.startPrinter()
	s.packets, err = openPackets(s, s.loaded.Maps[s.manifest.MapSymbol("packets")])
	return err
}

// start runs the begin programs and attaches the others.
func (s *session) start() error {
	s.watchProcesses()
	if err := s.runVirtual(probe.Begin); err != nil {
		return err
	}
	if s.opts.Mode == "" && s.exitPending() {
		// The event loop handles the events of begin up to the exit, and ends.
		s.startedOnly = true
		s.attached, _ = s.expansion.Count() // bpftrace attaches them, and counts until it handles the exit
		return nil
	}
	aopts := attach.Options{
		PIDs:   s.opts.PIDs,
		Follow: s.opts.FollowForks,
		Cgroup: len(s.opts.Cgroups) > 0,
		Inside: s.inside,
		Unsafe: s.opts.Allow.Has(permit.ProbeAddress),
		Stop:   s.stopping,
		PinDir: s.opts.Allow.PinDir,
	}
	if s.child != nil {
		aopts.Child = s.child.PID
	}
	if err := s.filter.Follow(aopts.Child); err != nil {
		return err
	}
	virtual := 0
	failed := false
	kept := map[int]bool{}         // clauses with an attach point
	var absent []*manifest.Program // missing attach points, the first of each clause
	for i := range s.expansion.Plans {
		if s.expansion.Plans[i].Strategy == resolve.Virtual {
			virtual++
		}
	}
	total, _ := s.expansion.Count()
	aopts.Made = s.progress.Step("attaching", total)
	for _, i := range s.expansion.Order() {
		if s.interrupted() { // attaching many probes takes long
			break
		}
		plan := &s.expansion.Plans[i]
		made, err := attach.Attach(plan, s.loaded.Programs[i], aopts, s.host)
		from := len(s.links)
		s.links = append(s.links, made.Links...)
		s.addToBudget(plan, s.loaded.Programs[i], from)
		if plan.Prog.Kind == probe.Watchpoint {
			s.watch(plan.Prog.Attach.Addr, len(made.Links))
		}
		s.attached += made.Probes(plan)
		s.warnRefused(plan, made.Refused)
		if err == nil {
			kept[plan.Prog.Clause] = true
			for j := range plan.Joined {
				kept[plan.Joined[j].Prog.Clause] = true
			}
			continue
		}
		failed = true
		warning, isAbsent, fatal := attach.Outcome(s.manifest, plan.Prog, err, aopts.Unsafe)
		if fatal != nil {
			return fatal
		}
		if warning != "" {
			s.warn(warning)
		}
		if !isAbsent {
			kept[plan.Prog.Clause] = true
		} else if !slices.ContainsFunc(absent, func(p *manifest.Program) bool { return p.Clause == plan.Prog.Clause }) {
			absent = append(absent, plan.Prog)
		}
	}
	s.expansion.CloseFiles()
	if err := s.withoutProbes(absent, kept); err != nil {
		return err
	}
	if s.attached == 0 && failed && virtual == 0 {
		return s.errNone()
	}
	s.attached += virtual
	return nil
}

// exitPending reports whether the ring buffer has an exit. The programs of begin run on the calling
// thread, so their records are finished.
func (s *session) exitPending() (found bool) {
	s.events.peek(0, func(record []byte) bool {
		found = s.isExit(record)
		return !found
	})
	return found
}

// warnRefused reports which functions of a pattern could not be probed.
func (s *session) warnRefused(plan *resolve.Plan, refused []string) {
	n := len(refused)
	if n == 0 || plan.Prog.Attach.Missing == "ignore" {
		return
	}
	const shown = 5
	text := fmt.Sprintf("%s: the kernel refuses %d of the functions: %s", plan.Prog.Attach.Text, n,
		strings.Join(refused[:min(n, shown)], ", "))
	if n > shown {
		text += ", ..."
	}
	f := &diag.Error{Script: &s.manifest.Script, Pos: plan.Prog.Pos, Text: text}
	fmt.Fprintln(s.opts.Err, f.Warning())
}

// withoutProbes handles clauses whose attach points are all absent.
func (s *session) withoutProbes(absent []*manifest.Program, kept map[int]bool) error {
	for _, p := range absent {
		if kept[p.Clause] {
			continue
		}
		f := &diag.Error{Script: &s.manifest.Script, Pos: p.Pos, Text: resolve.RemovedProbe}
		switch p.Attach.Missing {
		case "warn":
			s.warnOf(f)
		case "ignore":
		default:
			f.Text = resolve.NoAttachPoints
			return f
		}
	}
	return nil
}

// runVirtual runs the begin, end or self programs now.
func (s *session) runVirtual(kind string) error {
	for i := range s.expansion.Plans {
		p := &s.expansion.Plans[i]
		if p.Strategy != resolve.Virtual || p.Prog.Kind != kind {
			continue
		}
		if _, err := s.loaded.Programs[i].Of[0].Run(&ebpf.RunOptions{}); err != nil {
			return &diag.Error{
				Script: &s.manifest.Script,
				Pos:    p.Prog.Pos,
				Text:   fmt.Sprintf("cannot run %s: %v", p.Prog.Attach.Text, err),
				Cause:  err,
			}
		}
	}
	return nil
}

func (s *session) announce() {
	if !s.opts.Quiet {
		s.front.sink.Attached(s.attached)
	}
	if s.opts.Hint != nil && len(s.links) > 0 {
		s.opts.Hint(s.howToEnd())
	}
	s.live.Store(true)
}

// resumeChild starts the command of -c, unless begin has ended the run. The run ends when the
// command exits.
func (s *session) resumeChild() error {
	if s.child == nil || s.startedOnly {
		return nil
	}
	if err := s.child.Resume(); err != nil {
		return err
	}
	go func() {
		s.child.Wait()
		s.endedFirst()
	}()
	return nil
}

// stop ends the event loop; any goroutine may call it.
func (s *session) stop() {
	s.stopOnce.Do(func() {
		close(s.stopping)
		if s.events != nil {
			s.events.wake()
		}
	})
}

func (s *session) stopped() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return s.exited
	}
}

// loop handles events until something ends the run.
func (s *session) loop() error {
	defer s.startTimeout()()
	if !s.startedOnly {
		if any, err := s.readIterators(); any || err != nil {
			return err
		}
	}
	s.setAlarms()
	s.startSnapshots()
	s.startBudget()
	// The begin and end programs run on the main thread, to which this goroutine is locked. The
	// event reader is not locked to a thread, so that its waits are those of the Go scheduler.
	done := make(chan error)
	go func() { done <- s.readEvents() }()
	return <-done
}

// readEvents handles events as they come.
func (s *session) readEvents() error {
	// With GOMAXPROCS 1, a wait begins and ends on one thread. With more, the runtime wakes other
	// threads to look for work, which costs several times as much.
	if s.opts.OwnProcess {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	}
	onlyVirtual := len(s.links) == 0 && !s.hasKind(probe.Self)
	handled := 0 // since the last wait
	flushed := time.Now()
	for !s.stopped() && !s.printer.failed.Load() { // finish reports the failure
		n := s.batch()
		handled += n
		if n < tickEvents || time.Since(flushed) >= longRest { // also when events arrive without a pause
			s.front.Out.Idle()
			flushed = time.Now()
		}
		s.tick()
		if n == tickEvents || s.stopped() {
			continue
		}
		if err := s.poller.wait(s.events, handled, s.watches()); err != nil {
			return err
		}
		handled = 0
		if s.events.waiting() {
			continue
		}
		if onlyVirtual {
			s.child.Linger()
			return nil
		}
		if s.targets.unwatched && !s.targetsRun() {
			return nil
		}
	}
	if !s.exited && s.snapshots.requested.Load() { // requested just before the end
		s.snapshot(time.Now())
	}
	return nil
}

// batch handles up to tickEvents records and returns their number. It handles none while the
// printer has no room for their output.
func (s *session) batch() (n int) {
	defer s.recoverPanic()
	for n < tickEvents && !s.stopped() && s.awaitRoom(true) {
		record := s.events.next()
		if record == nil {
			return n
		}
		n++
		s.handle(record)
	}
	return n
}

// recoverPanic, when deferred, turns a panic into an error of the current event.
func (s *session) recoverPanic() {
	if x := recover(); x != nil {
		pos := manifest.Pos{}
		if e := s.front.event.Event; e != nil {
			pos = e.Pos
		}
		s.internalError(pos, fmt.Errorf("internal error: %v", x))
	}
}

// awaitRoom waits while the printer has a backlog (backpressure). It acts at once on an exit() that
// arrives in the ring buffer in the meantime. It reports whether there is room; with stoppable it does
// not wait if the run is about to end.
func (s *session) awaitRoom(stoppable bool) bool {
	for s.printer.full() && !s.printer.failed.Load() {
		if stoppable && s.interrupted() {
			return false
		}
		s.front.Out.Idle()
		s.peeked = s.events.peek(s.peeked, func(record []byte) bool {
			if s.isExit(record) {
				s.detach()
			}
			return true
		})
		s.printer.starved.Store(true)
		if s.printer.full() {
			s.events.pause(longRest)
			s.tick()
		}
	}
	return true
}

// watches reports whether the run must poll something besides events and losses.
func (s *session) watches() bool {
	return s.alarms == nil && (len(s.opts.PIDs) > 0 || s.symTable != nil && s.symTable.Watch != nil)
}

// tickEvents is the number of consecutive events after which the run checks for other due work.
const tickEvents = 1024

// tick reports lost events and suppressed messages that are due.
func (s *session) tick() {
	if s.symTable != nil {
		s.symTable.Poll()
	}
	s.losses.check(false)
	s.reportSuppressed(false)
	now := time.Now()
	s.snapshot(now)
	s.checkBudget(now)
	if now.After(s.hotplugNext) {
		s.hotplugNext = now.Add(hotplugInterval)
		s.checkCgroups()
		if err := s.hotplug.Check(); err != nil {
			s.warn("WARNING: " + err.Error())
		}
	}
}

// hotplugInterval is how often the run checks for CPUs that came online or went offline, and for
// removed cgroups.
const hotplugInterval = time.Second

// finish detaches, runs the end programs and prints the rest.
func (s *session) finish() (int, error) {
	s.front.later(0, manifest.Pos{}, func(*writer) { s.screen.Leave() })
	s.detach()
	s.limitNames()
	if s.child != nil {
		s.child.Kill()
	}
	s.packets.finish()
	if !s.exited {
		time.AfterFunc(commandTime, func() { s.overtime.Store(true) })
	}
	endErr := s.end()
	s.losses.check(true)
	s.reportSuppressed(true)
	s.printMaps()
	if err := s.stopPrinter(); err != nil {
		return 1, fmt.Errorf("writing the output: %w; the rest of the output and the maps are lost", err)
	}
	if s.unstarted > 0 {
		s.warn(
			fmt.Sprintf("WARNING: the run ended before %d queued commands of system() were started: they are skipped",
				s.unstarted),
		)
	}
	if (s.crashed.Load() || s.unwritten.Load()) && s.status == 0 {
		s.status = 1
	}
	return s.status, endErr
}

// watch records that the last n links belong to a watchpoint at an address.
func (s *session) watch(addr uint64, n int) {
	if s.watched == nil {
		s.watched = map[uint64][]int{}
	}
	for i := len(s.links) - n; i < len(s.links); i++ {
		s.watched[addr] = append(s.watched[addr], i)
	}
}

// unwatch removes the watchpoints at an address.
func (s *session) unwatch(addr uint64) {
	for _, i := range s.watched[addr] {
		if i < len(s.links) { // nothing has been detached yet
			s.links[i].Close()
			s.links[i] = ended{}
		}
	}
	delete(s.watched, addr)
}

// ended replaces a link that was closed before the end of the run.
type ended struct{}

func (ended) Close() error { return nil }

// detach detaches the programs. The kernel may take long to free them; that happens in the
// background, while the end programs run and the maps are printed.
func (s *session) detach() {
	s.freeing.Go(attach.Detach(s.links))
	s.links = nil
}

func (s *session) close() {
	s.stopPrinter()
	s.detach()
	s.freeing.Wait()
	if s.child != nil {
		s.child.Kill()
	}
	s.progress.Stop()
	s.packets.close()
	s.closeAlarms()
	s.budget.close()
	if s.events != nil {
		s.events.close()
	}
	s.symTable.Close()
	s.expansion.Close()
	s.expansion.CloseFiles()
	s.filter.Close()
	if s.loaded != nil {
		s.loaded.Close()
	}
}

// orEnded adds to an attach error that the -p processes have exited in the meantime, if they have.
func (s *session) orEnded(err error) error {
	if s.host == nil || len(s.opts.PIDs) == 0 || slices.ContainsFunc(s.opts.PIDs, filter.Alive) {
		return err // without a host nothing was started
	}
	return fmt.Errorf("%s ended before its probes were attached", processes(s.opts.PIDs))
}

// processes formats process IDs for messages.
func processes(pids []int) string {
	if len(pids) == 1 {
		return fmt.Sprintf("process %d", pids[0])
	}
	return strings.Trim(strings.Replace(fmt.Sprint("processes ", pids), " [", " ", 1), "]")
}
