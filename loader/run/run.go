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
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"btc/internal/arch"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/signature"
	"btc/loader/attach"
	"btc/loader/diag"
	"btc/loader/filter"
	"btc/loader/host"
	"btc/loader/load"
	"btc/loader/object"
	"btc/loader/options"
	"btc/loader/output"
	"btc/loader/permit"
	"btc/loader/policy"
	"btc/loader/resolve"
	"btc/loader/rewrite"
	"btc/loader/run/budget"
	"btc/loader/run/child"
	"btc/loader/run/tty"
	"btc/loader/run/view"
	"btc/loader/sites"
)

// Options are the user's options, and what follows from them.
type Options struct {
	options.Run
	options.Report
	Grants  permit.Grants   // of Allow and Unsafe
	Sink    *output.Format  // of Format; nil: text
	Context context.Context // how long to wait for containers that do not exist yet; nil: that is an error
	Escape  bool            // text: show control characters in strings as \xNN
	// Policy bounds the other options; nil: the policy of this host.
	Policy *policy.Policy
	// PaintWarning shows a warning in color; nil: all warnings go to Err.
	PaintWarning func(f *diag.Error)
	// budgetWindow is the length of a budget window; 0: the default.
	budgetWindow time.Duration
	// memoryFrom says where MaxMemory is set, if the policy lowered it.
	memoryFrom string
}

// ownProcess returns what the run may do to its process; false: the process does other things as well.
func (o *Options) ownProcess() (p options.Process, ok bool) {
	if o.Process == nil {
		return p, false
	}
	return *o.Process, true
}

// session is a run. Its fields do the work, each for itself; session makes them and calls them in order.
type session struct {
	opts     Options
	manifest *manifest.Manifest

	host      *host.Host
	expansion *sites.Expansion
	loaded    *load.Loaded
	child     *child.Process // nil: no command
	links     links
	budget    *budget.Budget // nil: none

	generation
	deadline time.Time // of Options.Timeout; zero: none, or not yet

	end      *ending
	targets  targets
	monitor  monitor
	progress tty.Progress
	msg      messages

	reader reader
	table  eventTable
	names  names
	// reasons are the reports of Options.Why.
	reasons reasons
	walks   walks
	maps    *mapTable
	losses  *lossCounter
	// packets is nil if the script has no skboutput().
	packets *packets
	// front and back write the output; nil before and after the run.
	front, back *writer
	signers     []signature.Signer
	snapshots   snapshots
	view        *view.View // nil: no live view
	rec         *recording // nil: none
	started     time.Time
	failed      error  // why the events could not be read to the end
	text        []byte // the JSON of the manifest
}

// ErrNoProbes means that no attach point of the script exists here.
//
//lint:ignore ST1005 bpftrace's words
var ErrNoProbes = errors.New("No probes to attach")

// applyPolicy applies the host's policy to the options.
func (o *Options) applyPolicy() error {
	if o.Policy == nil {
		var err error
		if o.Policy, err = policy.Host(); err != nil {
			return err
		}
	}
	l := policy.Limits{
		Allow: &o.Grants, Budget: o.Budget, MaxMemory: o.MaxMemory, Timeout: o.Timeout,
		Command: o.Command, Files: []string{o.BTF, o.Functions},
	}
	if err := o.Policy.Apply(&l); err != nil {
		return err
	}
	o.RawProcess, o.RawSecond = cmp.Or(o.RawProcess, options.RawProcess), cmp.Or(o.RawSecond, options.RawSecond)
	if !o.Policy.RawStacks() {
		o.RawProcess = -1
	}
	if l.MaxMemory != o.MaxMemory {
		o.memoryFrom = o.Policy.MemoryFrom()
	}
	o.Budget, o.MaxMemory, o.Timeout = l.Budget, l.MaxMemory, l.Timeout
	return nil
}

// keys returns the keys by one of which the object must be signed; nil: the options do not demand that.
func (o *Options) keys() ([]signature.Key, error) {
	if o.Signers == nil {
		return nil, nil
	}
	all := []signature.Key{}
	for _, text := range o.Signers {
		keys, err := signature.ParseKeys(text)
		if err != nil {
			return nil, fmt.Errorf("keys of signers, line %w", err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

// prepare does everything that can fail without changing the kernel's state.
func (s *session) prepare(o *object.Object) error {
	m := s.manifest
	if err := s.opts.applyPolicy(); err != nil {
		return err
	}
	keys, err := s.opts.keys()
	if err != nil {
		return err
	}
	if s.signers, err = s.opts.Policy.Verify(o, keys); err != nil {
		return err
	}
	if here := arch.HostLabel(); !slices.Contains(m.Arches, here) {
		return fmt.Errorf("%s is compiled for %s, this machine is %s", o.Path, strings.Join(m.Arches, " and "),
			here)
	}
	if err := load.Environment(m, s.opts.Getenv); err != nil {
		return err
	}
	params, named, err := manifest.MergeParams(m, s.opts.Args, s.opts.Params)
	if err != nil {
		return err
	}
	values, err := manifest.ParseParams(m, params, named)
	if err != nil {
		return err
	}
	if err := sites.Substitute(m, params); err != nil {
		return err
	}
	if pos, err := manifest.SubstituteStrings(m, values); err != nil {
		return &diag.Error{Script: &m.Script, Pos: pos, Text: err.Error(), Severe: true}
	}
	if err := s.opts.Policy.Object(o); err != nil {
		return err
	}
	s.walks.needs = rewrite.DropWalks(o.Spec, s.unwindWanted())
	if err := s.opts.Grants.Check(o); err != nil {
		return err
	}
	for _, p := range manifest.MissingParams(m, params) {
		f := &diag.Error{
			Script: &m.Script,
			Pos:    p.Pos,
			Text:   "Positional parameter " + p.Name + " is empty or not provided.",
		}
		if p.Pos.Line > 0 {
			f.Chain = []manifest.Location{{Line: p.Pos.Line, Col: p.Pos.Col, EndCol: p.Pos.Col + len(p.Name)}}
		}
		s.msg.warn(f.Message("WARNING"))
	}
	if unused := manifest.UnusedParams(m, params); len(unused) > 0 {
		s.msg.warn("WARNING: " + manifest.NotRead(unused))
	}
	if s.targets.groups, err = findGroups(&s.opts); err != nil {
		return err
	}
	s.opts.Cgroups = s.targets.groups.cgroups
	if s.targets.filter, err = filter.New(filter.Options{PIDs: s.opts.PIDs, Follow: s.opts.FollowForks, Cgroups: s.opts.Cgroups}); err != nil {
		return err
	}
	if err := host.CheckPrivileges(); err != nil {
		return err
	}
	if s.opts.Why && m.For != "" {
		return fmt.Errorf("--why is for objects that btrun runs itself, and this one was compiled with --for %s; compile it without that option", m.For)
	}
	if s.host, err = host.Probe(); err != nil {
		return err
	}
	s.expansion, err = sites.Expand(s.host, m, sites.Options{
		PIDs: s.opts.PIDs, Follow: s.opts.FollowForks, Cgroup: len(s.opts.Cgroups) > 0,
		Inside: s.targets.groups.inside, Unsafe: s.opts.Grants.Has(permit.ProbeAddress), Functions: s.opts.Functions,
		Separate: s.opts.Budget > 0, NoHelper: s.opts.NoHelper, Mode: s.opts.Mode,
	})
	if err != nil {
		return err
	}
	if err := s.opts.Policy.Sites(m, s.expansion); err != nil {
		return err
	}
	for _, w := range s.expansion.Warnings {
		s.msg.warn(w)
	}
	s.names.probes = s.expansion.Probes
	if total, _ := s.expansion.Count(); total == 0 || s.opts.Mode != "" && !hasKind(s.expansion, s.opts.Mode) {
		return s.errNone()
	}
	if s.opts.Budget > 0 && s.opts.Mode == "" {
		if s.budget, err = budget.Open(s.opts.Budget, s.opts.budgetWindow); err != nil {
			return err
		}
	}
	if err := openGate(s); err != nil {
		return err
	}
	if s.opts.Command != "" && !s.opts.DryRun {
		if s.child, err = child.Start(s.opts.Command); err != nil {
			return err
		}
	}
	return s.load(o, values)
}

func (s *session) load(o *object.Object, values map[string][]byte) error {
	warnLarge(o, s.host.Possible, &s.msg)
	opts := load.Options{
		Values: values, BTF: s.opts.BTF, MaxMemory: s.opts.MaxMemory, MemoryFrom: s.opts.memoryFrom, Filter: s.targets.filter,
		LongLoops: s.opts.Grants.Has(permit.LongLoops), Cover: s.opts.Why && !s.opts.DryRun,
	}
	if s.gate != nil {
		opts.Gates, opts.Keep = s.gate.Of(s.manifest, s.number), func(o *object.Object) map[string]*ebpf.Map { return kept(s, o) }
	}
	if s.child != nil {
		opts.ChildPID = s.child.PID
	}
	var err error
	if opts.Unwind, err = s.unwindMode(); err != nil {
		return err
	}
	rewrite.DropWalks(o.Spec, opts.Unwind)
	opts.RawStacks = s.rawStacks()
	if s.opts.Verbose {
		// Level 2, because the level 1 log of an accepted program is empty.
		opts.LogLevel = int(ebpf.LogLevelInstruction | ebpf.LogLevelStats)
		opts.Log = func(program, text string) { fmt.Fprintf(s.msg.err, "loaded %s\n%s", program, text) }
	}
	s.loaded, err = load.Load(o, s.expansion, s.host, opts)
	s.expansion.Close()
	if err != nil {
		return err
	}
	if s.maps, err = newMapTable(s.manifest, s.loaded, s.host); err != nil {
		return err
	}
	s.maps.kept, s.names.maps = s.kept, s.maps
	s.losses = newLossCounter(s)
	if v := s.loaded.Variables["asleep"]; v != nil {
		if err := v.Set(awake); err != nil {
			return fmt.Errorf("the object's variable asleep: %w", err)
		}
		s.reader.poller.asleep = v
	}
	if s.loaded.Maps[s.manifest.MapSymbol("events")] == nil {
		s.reader.poller.asleep = noEvents{}
	}
	s.table = newEventTable(s.manifest)
	if s.reader.events, err = openSource(s.loaded.Maps[s.manifest.MapSymbol("events")]); err != nil || s.opts.DryRun {
		return err
	}
	if s.before == nil {
		s.end.wakes(s.reader.events)
	}
	if prints(s.manifest, "kstack", "ksym", "ustack", "usym") || hasEvent(s.manifest, "proc") {
		s.names.symbols()
	}
	if namesContainers(s.manifest, &s.opts) {
		s.names.cgroups.Load()
	}
	s.startPrinter()
	s.packets, err = openPackets(s, s.loaded.Maps[s.manifest.MapSymbol("packets")])
	return err
}

// start runs the begin programs and attaches the others.
func (s *session) start() error {
	if err := s.openUnwinder(); err != nil {
		return err
	}
	s.names.recordMappings(s.manifest, s.opts.PIDs, s.expansion, s.host.Online)
	if err := s.runVirtual(probe.Begin); err != nil {
		return err
	}
	if s.opts.Mode == "" && s.reader.exitPending() {
		// The event loop handles the events of begin up to the exit, and ends.
		s.end.early = true
		s.links.sites, _ = s.expansion.Count() // bpftrace attaches them, and counts until it handles the exit
		return nil
	}
	return s.attach()
}

// attach attaches all programs but those that the loader runs.
func (s *session) attach() error {
	opts := attach.Options{PIDs: s.opts.PIDs, Follow: s.opts.FollowForks, Stop: s.end.stopping, PinDir: s.opts.Grants.PinDir}
	if s.child != nil {
		opts.Child = s.child.PID
	}
	if err := s.targets.filter.Follow(opts.Child); err != nil {
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
	opts.Made = s.progress.Step("attaching", total)
	for _, i := range s.expansion.Order() {
		if s.end.interrupted() { // attaching many probes takes long
			break
		}
		plan := &s.expansion.Plans[i]
		made, err := attach.Attach(plan, s.loaded.Programs[i], opts, s.host)
		added := s.links.add(made.Links)
		s.budget.Add(plan.Prog, s.loaded.Programs[i].Of, added)
		if plan.Prog.Kind == probe.Watchpoint {
			s.links.watch(plan.Prog.Attach.Addr, added)
		}
		s.links.sites += made.Probes(plan)
		s.links.points = append(s.links.points, &Point{plan.Prog.Attach.Text, made.Probes(plan), made.Refused, err})
		s.warnRefused(plan, made.Refused)
		if err == nil {
			kept[plan.Prog.Clause] = true
			for j := range plan.Joined {
				kept[plan.Joined[j].Prog.Clause] = true
			}
			continue
		}
		failed = true
		warning, isAbsent, fatal := attach.Outcome(s.manifest, plan.Prog, err, s.opts.Grants.Has(permit.ProbeAddress))
		if fatal != nil {
			return fatal
		}
		if warning != "" {
			s.msg.warn(warning)
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
	if s.links.sites == 0 && failed && virtual == 0 {
		return s.errNone()
	}
	s.links.sites += virtual
	return nil
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
	fmt.Fprintln(s.msg.err, f.Warning())
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
			s.msg.warnOf(f)
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
		s.front.sink.Attached(s.links.sites)
	}
	if s.opts.Hint != nil && len(s.links.all) > 0 {
		s.opts.Hint(s.howToEnd())
	}
	s.msg.live.Store(true)
}

// resumeChild starts the command of -c, unless begin has ended the run. The run ends when the
// command exits.
func (s *session) resumeChild() error {
	if s.child == nil || s.end.early {
		return nil
	}
	if err := s.child.Resume(); err != nil {
		return err
	}
	go func() {
		s.child.Wait()
		s.targets.endedFirst()
	}()
	if s.opts.Why {
		s.watchFiles(time.Now())
	}
	return nil
}

// loop handles events until something ends the run.
func (s *session) loop() error {
	defer s.end.after(timeout(s))()
	if !s.end.early {
		if any, err := s.reader.readIterators(); any || err != nil {
			return err
		}
	}
	wake := s.reader.events.wake
	s.monitor.start(&s.links, s.host.Online, s.names.watch().FDs(), wake)
	s.snapshots.start(s.opts.Every, s.opts.Sink.Document, wake)
	s.budget.Start(budget.Actions{Wake: wake, Detach: s.links.detachSome, Report: s.reportDetached, End: func(why string) {
		s.msg.line(why)
		s.end.stop()
	}})
	// The begin and end programs run on the main thread, to which this goroutine is locked. The
	// event reader is not locked to a thread, so that its waits are those of the Go scheduler.
	done := make(chan error)
	go func() { done <- s.reader.readEvents() }()
	for {
		select {
		case err := <-done:
			s.failed = err // finish prints what was counted until then
			return nil
		case handOver := <-s.handOver:
			handOver()
		}
	}
}

// tick reports lost events and suppressed messages that are due.
func (s *session) tick() {
	if s.opts.Process != nil && s.opts.Process.Alive != nil {
		s.opts.Process.Alive()
	}
	s.names.poll()
	s.losses.check(false)
	s.losses.suppressed(false)
	now := time.Now()
	s.walks.check(now)
	s.snapshot(now)
	s.checkWhy(now)
	s.budget.Check(now)
	if err := s.monitor.check(now); err != nil {
		s.msg.warn("WARNING: " + err.Error())
	}
}

// reportDetached reports the probes that the budget has detached.
func (s *session) reportDetached(all []*output.Detachment) {
	for _, d := range all {
		s.front.sink.Detached(d)
	}
	s.front.Out.Idle()
}

// finish detaches, runs the end programs and prints the rest.
func (s *session) finish() (int, error) {
	if s.opts.Process != nil && s.opts.Process.Ending != nil {
		s.opts.Process.Ending()
	}
	s.view.Close()
	s.front.later(0, manifest.Pos{}, func(*writer) { s.msg.screen.Leave() })
	s.holdFacts()
	s.links.detach()
	s.limitNames()
	if s.child != nil {
		s.child.Kill()
	}
	s.packets.finish()
	if !s.end.exited {
		s.end.limitCommands(false)
	}
	endErr := s.reader.runEnd()
	s.walks.settle()
	s.walks.close()
	s.losses.check(true)
	s.losses.suppressed(true)
	s.warnSkipped(time.Now(), true)
	s.printMaps(s.maps.scripts())
	s.explain()
	if err := s.stopPrinter(); err != nil {
		return 1, fmt.Errorf("writing the output: %w; the rest of the output and the maps are lost", err)
	}
	if s.end.unstarted > 0 {
		s.msg.warn(
			fmt.Sprintf("WARNING: the run ended before %d queued commands of system() were started: they are skipped",
				s.end.unstarted),
		)
	}
	if (s.msg.crashed.Load() || s.end.unwritten.Load() || s.rec.failed()) && s.end.status == 0 {
		s.end.status = 1
	}
	if s.failed != nil {
		s.end.status = max(s.end.status, 1)
	}
	s.rec.end(s.end.status)
	return s.end.status, cmp.Or(s.failed, endErr)
}

func (s *session) close() {
	s.stopPrinter()
	s.reasons.endLook()
	s.links.detach()
	s.links.free()
	if s.child != nil {
		s.child.Kill()
	}
	s.progress.Stop()
	s.packets.close()
	s.walks.close()
	s.monitor.close()
	s.budget.Close()
	if s.reader.events != nil {
		s.reader.events.close()
	}
	s.names.table.Close()
	s.expansion.Close()
	s.expansion.CloseFiles()
	s.targets.filter.Close()
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
