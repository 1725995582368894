// SPDX-License-Identifier: Apache-2.0

// Package load loads an object into the kernel: it sets constants and map sizes, loads programs (one per attach site
// if they differ), and translates the kernel's refusals to terms of the script.
//
// It takes a checked object, the expansion of its attach points and the user's
// parameters, and returns open maps and programs. Nothing runs yet.
package load

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"btc/internal/arch"
	"btc/internal/kernelfs"
	"btc/internal/manifest"
	"btc/loader/adapt"
	"btc/loader/attach"
	"btc/loader/filter"
	"btc/loader/host"
	"btc/loader/kerneltypes"
	"btc/loader/object"
	"btc/loader/permit"
	"btc/loader/resolve"
	"btc/loader/rewrite"
	"btc/loader/sites"
)

// Loaded holds the open maps and programs of an object.
type Loaded struct {
	Maps      map[string]*ebpf.Map      // by ELF symbol
	Variables map[string]*ebpf.Variable // run-time data
	Programs  []attach.Programs         // programs of each plan of the expansion
	Loops     *Loops                    // nil: none is counted
	Cover     *Coverage                 // nil: without Options.Cover
	// MemoryLeft is what unwind tables may take of Options.MaxMemory, in bytes.
	MemoryLeft uint64

	all []*ebpf.Program
}

// Close closes everything; attached programs keep running until their links are closed.
func (l *Loaded) Close() {
	for _, p := range l.all {
		p.Close()
	}
	for _, m := range l.Maps {
		m.Close()
	}
	l.Loops.close()
	l.Cover.close()
}

// Options of loading.
type Options struct {
	Values   map[string][]byte // parameters by global name, from ParseParams
	ChildPID int               // process ID of -c; 0: none
	Filter   *filter.Filter    // filter of the plans with Filtered set; nil: none
	// MaxMemory limits the kernel memory of the maps, in bytes; 0: no limit.
	MaxMemory uint64
	// MemoryFrom is where MaxMemory is set, if it is not an option.
	MemoryFrom string
	LongLoops  bool           // loops have no budget
	Cover      bool           // programs get the counters of Coverage
	Unwind     rewrite.Unwind // what is unwound by tables
	RawStacks  bool           // programs send stacks that they cannot unwind yet
	BTF        string         // file or directory with the kernel's types; "": the kernel's own
	LogLevel   int            // 1: the kernel's verifier log of every program is kept
	Log        func(program, text string)
	// Gates are the gates of the programs, by name; nil: none. Programs that the loader runs itself have no gate.
	Gates map[string]rewrite.Gate
	// Keep returns maps of another object that this one uses instead of its own, by ELF symbol. It is called when the
	// sizes of the maps are final. nil: none.
	Keep func(o *object.Object) map[string]*ebpf.Map
}

// Load loads an object. Its error is a *report.Error if it has a position in the script.
func Load(o *object.Object, exp *sites.Expansion, h *host.Host, opts Options) (*Loaded, error) {
	limit := raiseMemlock()
	if opts.Filter == nil {
		opts.Filter = &filter.Filter{}
	}
	if err := opts.Filter.Make(); err != nil {
		return nil, err
	}
	if err := adapt.Needs(o.Manifest, hostHas); err != nil {
		return nil, err
	}
	if err := setConstants(o, opts); err != nil {
		return nil, err
	}
	if err := setHostValues(o, &hostSource{h, exp, opts.ChildPID, opts.Unwind}); err != nil {
		return nil, err
	}
	sizeRing(o, host.MemoryBytes())
	sizeStacks(o, host.MemoryBytes())
	sizeUnwind(o, opts.Unwind, opts.RawStacks)
	if err := sizeSpecs(o, exp); err != nil {
		return nil, err
	}
	if err := sizeNames(o, exp); err != nil {
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("number of CPUs: %w", err)
	}
	copies := uint64(0)
	for i := range exp.Plans {
		p := &exp.Plans[i]
		copies += permit.ProgramMemory(o.Spec.Programs[p.Prog.Name], p.NumPrograms())
		for j := range p.Joined {
			copies += permit.ProgramMemory(o.Spec.Programs[p.Joined[j].Prog.Name], p.NumPrograms())
		}
	}
	left, err := permit.CheckMemory(o, cpus, copies, opts.MaxMemory, opts.MemoryFrom)
	if err != nil {
		return nil, err
	}
	l := &Loaded{MemoryLeft: left}
	var kept ebpf.CollectionOptions
	if opts.Keep != nil {
		kept.MapReplacements = opts.Keep(o)
	}
	large := makeLarge(o.Spec.Maps, &kept)
	coll, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
		Maps: o.Spec.Maps, Variables: o.Spec.Variables, Types: o.Spec.Types, ByteOrder: o.Spec.ByteOrder,
	}, kept)
	for _, m := range large { // the collection has its own descriptors
		m.Close()
	}
	if err != nil {
		return nil, mapError(o, err, limit)
	}
	l.Maps, l.Variables = coll.Maps, coll.Variables
	for _, fill := range []func(*manifest.Manifest, *sites.Expansion) error{l.fillSpecs, l.fillNames} {
		if err := fill(o.Manifest, exp); err != nil {
			l.Close()
			return nil, err
		}
	}
	p := &programs{object: o, loaded: l, opts: opts, host: h, cache: h.Types()}
	p.decideForms()
	for i := range exp.Plans {
		for _, c := range append([]resolve.Plan{exp.Plans[i]}, exp.Plans[i].Joined...) {
			if s := o.Spec.Programs[c.Prog.Name]; c.Narrow != 0 {
				s.Instructions = rewrite.Narrow(o.Manifest, c.Prog, s.Instructions, c.Narrow)
			}
		}
	}
	if !opts.LongLoops {
		if l.Loops, err = newLoops(o, cpus); err != nil {
			l.Close()
			return nil, err
		}
	}
	if opts.Cover {
		if l.Cover, err = newCoverage(o, h, exp.Plans, cpus); err != nil {
			l.Close()
			return nil, err
		}
	}
	err = p.findKernelTypes()
	if err == nil && opts.Filter.Follows() {
		err = p.loadTracker()
	}
	if err == nil && p.types != nil {
		adapt.Retype(o.Manifest, o.Spec.Types, append([]*btf.Spec{p.types}, p.moduleTypes...)...)
	}
	if err == nil {
		err = adapt.Whole(o.Manifest, append([]*btf.Spec{p.types}, p.moduleTypes...)...)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	for i := 0; i < len(exp.Plans); i++ {
		progs, err := p.loadPlan(&exp.Plans[i])
		// Too long for the verifier, or a clause is refused: then its own error follows.
		if err != nil && len(exp.Plans[i].Joined) > 0 {
			exp.Plans = append(append(exp.Plans[:i:i], exp.Plans[i].Apart()...), exp.Plans[i+1:]...)
			i--
			continue
		}
		if err != nil {
			l.Close()
			return nil, err
		}
		l.Programs = append(l.Programs, progs)
	}
	return l, nil
}

// mapError reports the map of the script that could not be created. limit is why the limit of locked memory could not
// be raised.
func mapError(o *object.Object, err, limit error) error {
	hint := host.Hint(err)
	if errors.Is(err, os.ErrPermission) {
		// The text of the library is about the limit of locked memory.
		var errno syscall.Errno
		if errors.As(err, &errno) {
			err = errno
		}
		if limit != nil && !host.HasSeccomp() {
			return fmt.Errorf("the kernel refused to create a map: %w (kernels before 5.11 count maps as locked memory, and raising its limit failed: %v)",
				err, limit)
		}
		return fmt.Errorf("the kernel refused to create a map: %w (%s)", err, hint)
	}
	if outOfFiles(err) {
		return fmt.Errorf("the maps of %s exceed the limit of open files: %w (%s)", o.Manifest.Script.File, err,
			raiseFiles)
	}
	if errors.Is(err, ebpf.ErrNotSupported) {
		// The library tests for features by creating maps. Each kernel from 5.10 on has those of the object's maps.
		hint = host.Hint(unix.ENOSYS)
	}
	if hint != "" {
		hint = " (" + hint + ")"
	}
	return fmt.Errorf("the kernel refused to create the maps of %s: %w%s", o.Manifest.Script.File, err, hint)
}

// raiseFiles is the hint of errors at the limit of open files: each map, program and link is an open file.
const raiseFiles = "raise the limit of open files: ulimit -n 65536"

// outOfFiles recognizes the limit of open files, even if the library passes on only the message.
func outOfFiles(err error) bool {
	return errors.Is(err, unix.EMFILE) || strings.HasSuffix(err.Error(), ": "+unix.EMFILE.Error())
}

// programs loads one program after the other.
type programs struct {
	object *object.Object
	loaded *Loaded
	opts   Options
	host   *host.Host
	cache  *btf.Cache
	types  *btf.Spec
	// moduleTypes are the types of modules that have types missing in the kernel's.
	moduleTypes []*btf.Spec

	uncovered map[*manifest.Program]error // without counters, although they are wanted

	sharer *sharer
	apart  bool // the clauses of a joined program have been loaded by themselves
}

// loadPlan loads the programs of a plan: by its strategy, or each match by itself where the kernel
// does not accept that.
func (p *programs) loadPlan(plan *resolve.Plan) (attach.Programs, error) {
	if plan.Strategy == resolve.SharedRaw {
		prog, err := p.loadShared(plan, p.loaded.Cover != nil)
		if p.loaded.Cover != nil {
			covered := err == nil
			if err != nil {
				prog, err = p.loadShared(plan, false)
			}
			p.countCovered([]resolve.Plan{*plan}, err, covered)
		}
		if err == nil {
			return attach.Programs{Strategy: plan.Strategy, Of: []*ebpf.Program{prog}}, nil
		}
		// fall back to separate tracepoints
		return p.loadMatches(plan, resolve.Single)
	}
	return p.loadMatches(plan, plan.Strategy)
}

// loadMatches loads a program for each match, or a shared one.
func (p *programs) loadMatches(plan *resolve.Plan, how resolve.Strategy) (attach.Programs, error) {
	clauses, types := append([]resolve.Plan{*plan}, plan.Joined...), p.types
	specs := make([]*ebpf.ProgramSpec, len(clauses))
	for i := range clauses {
		c, err := &clauses[i], error(nil)
		if specs[i], err = p.specOf(c, how); err != nil {
			return attach.Programs{}, err
		}
		types, err = adapt.Tracepoint(p.object.Manifest, c.Prog, specs[i].Instructions, events(c), types, kernelfs.Tracepoint)
		if err != nil {
			return attach.Programs{}, err
		}
	}
	out := attach.Programs{Strategy: how}
	loaded, refused := 0, error(nil)
	shared := map[int]*ebpf.Program{} // by process
	for i := range plan.Matches {
		m := &plan.Matches[i]
		if how != resolve.PerMatch && (how == resolve.Multi || !plan.UsesID()) {
			if prog := shared[m.PID]; prog != nil {
				out.Of = append(out.Of, prog)
				continue
			}
		}
		if m.SameAs > 0 {
			out.Of = append(out.Of, out.Of[m.SameAs-1])
			continue
		}
		prog, err := p.loadCovered(clauses, i, how, specs, types)
		if err != nil && p.leaveTypes(plan.Prog, err) {
			return p.loadMatches(plan, how)
		}
		if err != nil && len(plan.Joined) > 0 && !p.apart {
			if err := p.loadApart(clauses, i, how); err != nil {
				return attach.Programs{}, err
			}
			defer func() { p.apart = false }()
			p.apart = true // once
			return p.loadMatches(plan, how)
		}
		switch {
		case err == nil:
			loaded++
		case how != resolve.PerMatch || len(plan.Matches) == 1 && m.BPF == 0 || errors.Is(err, os.ErrPermission):
			return attach.Programs{}, err
		default: // a match of a pattern that turns out not to be traceable
			refused = err
		}
		out.Of = append(out.Of, prog)
		shared[m.PID] = prog
	}
	if loaded == 0 && refused != nil {
		return attach.Programs{}, refused
	}
	return out, nil
}

// loadApart loads each of the joined clauses of a refused program by itself for a match: the error then names the
// clause that the kernel refuses, and one that the kernel accepts only with probe reads is changed (leaveTypes).
func (p *programs) loadApart(clauses []resolve.Plan, match int, how resolve.Strategy) error {
	for _, c := range clauses {
		c.Joined, c.Matches = nil, c.Matches[match:match+1]
		n := len(p.loaded.all)
		_, err := p.loadMatches(&c, how)
		for _, prog := range p.loaded.all[n:] {
			prog.Close()
		}
		p.loaded.all = p.loaded.all[:n]
		if err != nil {
			return err
		}
	}
	return nil
}

// specOf returns a plan's program, adapted to its strategy.
func (p *programs) specOf(plan *resolve.Plan, how resolve.Strategy) (*ebpf.ProgramSpec, error) {
	spec := p.object.Spec.Programs[plan.Prog.Name].Copy()
	switch how {
	case resolve.Multi:
		spec.AttachType = plan.AttachType
		if plan.Prog.UsesID {
			return spec, rewrite.IDFromCookie(spec, plan.Prog)
		}
	case resolve.Raw:
		spec.Type = ebpf.RawTracepoint
	}
	return spec, nil
}

// loadCovered is loadMatch with the counters of Options.Cover, or without them if the kernel refuses the program with them.
func (p *programs) loadCovered(clauses []resolve.Plan, match int, how resolve.Strategy, specs []*ebpf.ProgramSpec,
	types *btf.Spec) (*ebpf.Program, error) {
	if p.loaded.Cover == nil {
		return p.loadMatch(clauses, match, how, specs, types, false)
	}
	prog, err := p.loadMatch(clauses, match, how, specs, types, true)
	covered := err == nil
	if err != nil {
		prog, err = p.loadMatch(clauses, match, how, specs, types, false)
	}
	p.countCovered(clauses, err, covered)
	return prog, err
}

// countCovered notes whether the program of some clauses has counters.
func (p *programs) countCovered(clauses []resolve.Plan, err error, covered bool) {
	for i := range clauses {
		switch c := p.loaded.Cover.of(clauses[i].Prog.Clause); {
		case err != nil:
		case covered && p.uncovered[clauses[i].Prog] == nil:
			c.Programs++
		default:
			c.Missed++
		}
	}
}

// cover returns a clause's program with counters, see Coverage.add.
func (p *programs) cover(plan *resolve.Plan, how resolve.Strategy, insns asm.Instructions, filtered, joined bool) (asm.Instructions, int) {
	own := len(p.object.Spec.Programs[plan.Prog.Name].Instructions)
	out, head := p.loaded.Cover.add(p.object.Manifest, plan, how, insns, own, filtered, joined)
	if p.uncovered == nil {
		p.uncovered = map[*manifest.Program]error{}
	}
	delete(p.uncovered, plan.Prog)
	if head < 0 {
		p.uncovered[plan.Prog] = rewrite.ErrNoCover
		head = 0
	}
	return out, head
}

// loadMatch loads the program of one match for a clause, or for several that are joined.
func (p *programs) loadMatch(clauses []resolve.Plan, match int, how resolve.Strategy, specs []*ebpf.ProgramSpec,
	types *btf.Spec, cover bool) (*ebpf.Program, error) {
	plan, spec := &clauses[0], specs[0]
	m := &plan.Matches[match]
	if how == resolve.PerMatch {
		spec.AttachTo = m.Name
	}
	if m.BPF != 0 {
		target, err := ebpf.NewProgramFromID(m.BPF)
		if err != nil { // the module has been unloaded
			return nil, fmt.Errorf("BPF program %d: %w", m.BPF, err)
		}
		defer target.Close()
		spec.AttachTarget = target
	}
	f := p.filter(plan, m.PID)
	one := spec
	if f.Gate = p.gate(plan); len(clauses) > 1 || !f.Empty() || cover {
		one = spec.Copy()
	}
	all, skip := make([]asm.Instructions, len(clauses)), 0
	for i := range clauses {
		c := &clauses[i]
		if c.Prog.UsesID && how != resolve.Multi {
			if err := rewrite.PatchID(specs[i].Instructions, c.Prog, c.Matches[match].ID); err != nil {
				return nil, err
			}
		}
		all[i] = specs[i].Instructions
		if len(clauses) > 1 {
			all[i] = specs[i].Copy().Instructions
		}
		if err := p.signs(c.Prog, all[i], types); err != nil {
			return nil, err
		}
		if f.Gate = p.gate(c); !f.Empty() {
			skip = -len(all[i])
			all[i] = f.Program(slices.Clone(all[i]))
			skip += len(all[i])
		}
		if cover {
			head := 0
			all[i], head = p.cover(c, how, all[i], !f.Empty(), len(clauses) > 1)
			skip += head
		}
	}
	if one.Instructions = all[0]; len(all) > 1 {
		one.Instructions = rewrite.Join(all)
		skip = 0
	}
	return p.loadBound(plan.Prog, one, skip, types)
}

// loadTracker loads the program that follows forks.
func (p *programs) loadTracker() error {
	path, err := p.typesFile()
	var blob []byte
	if err == nil {
		blob, _, err = kerneltypes.Subset(path, filter.Types)
	}
	var types *btf.Spec
	if err == nil {
		types, err = btf.LoadSpecFromReader(bytes.NewReader(blob))
	}
	if err == nil {
		err = p.opts.Filter.LoadTracker(types, p.host.PIDNS)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--follow-forks needs the kernel's types: pass them with --btf FILE|DIR: %w", err)
	}
	if err != nil {
		return fmt.Errorf("--follow-forks: %w", err)
	}
	return nil
}

// filter returns the filter of a program for a process, or for all processes (0).
func (p *programs) filter(plan *resolve.Plan, pid int) rewrite.Filter {
	if !plan.Filtered {
		return rewrite.Filter{}
	}
	f := p.opts.Filter.Prologue()
	f.Namespace = p.host.PIDNS
	if pid != 0 { // one of those that are wanted
		f.PID, f.Processes, f.ProcessBytes = pid, 0, 0
	}
	return f
}

// gate returns the gate of a clause's program.
func (p *programs) gate(plan *resolve.Plan) (g rewrite.Gate) {
	if plan.Strategy != resolve.Virtual {
		g = p.opts.Gates[plan.Prog.Name]
	}
	return g
}

// loadShared loads a program for the raw tracepoint of all system calls.
func (p *programs) loadShared(plan *resolve.Plan, cover bool) (*ebpf.Program, error) {
	if p.sharer == nil {
		s, err := newSharer()
		if err != nil {
			return nil, err
		}
		p.sharer = s
	}
	table, err := p.sharer.table(plan)
	if err != nil {
		return nil, err
	}
	defer table.Close() // the program holds a reference
	spec := p.object.Spec.Programs[plan.Prog.Name].Copy()
	adapt.FixRecord(p.object.Manifest, plan.Prog.Name, spec.Instructions)
	d := rewrite.Syscalls{Regs: p.sharer.regs, Compat: p.sharer.compat, Table: table.FD()}
	if err := d.Program(spec, plan.Prog, plan.Direction); err != nil {
		return nil, err
	}
	if err := p.signs(plan.Prog, spec.Instructions, p.types); err != nil {
		return nil, err
	}
	f, skip := p.filter(plan, 0), -len(spec.Instructions)
	f.Gate = p.gate(plan)
	spec.Instructions = f.Program(spec.Instructions)
	skip += len(spec.Instructions)
	if cover {
		head := 0
		spec.Instructions, head = p.cover(plan, resolve.SharedRaw, spec.Instructions, !f.Empty(), false)
		skip += head
	}
	return p.loadBound(plan.Prog, spec, skip, p.types)
}

// events returns the tracepoints of a plan.
func events(plan *resolve.Plan) []adapt.Event {
	all := make([]adapt.Event, len(plan.Matches))
	for i := range plan.Matches {
		all[i] = adapt.Event{Group: plan.Matches[i].Group, Name: plan.Matches[i].Name}
	}
	return all
}

// hostHas probes the kernel. An unclear result counts as yes: loading will report the error.
func hostHas(call asm.BuiltinFunc) bool {
	return !errors.Is(features.HaveProgramHelper(ebpf.Kprobe, call), ebpf.ErrNotSupported)
}

// decideForms decides the tests of all programs for this machine.
func (p *programs) decideForms() {
	for i := range p.object.Manifest.Programs {
		mp := &p.object.Manifest.Programs[i]
		s := p.object.Spec.Programs[mp.Name]
		if s == nil || mp.Code == nil {
			continue
		}
		insns, at, left := rewrite.Decide(s.Instructions, mp.Code.Forms, adapt.Forms(arch.HostLabel(), hostHas))
		if at != nil {
			s.Instructions = insns
			rewrite.Renumber(p.object.Manifest, mp.Name, at, left)
		}
	}
}

// typedTask is the helper that marks reads through typed pointers: a program that tests for it has such reads, and
// probe reads for kernels without it.
const typedTask = "get_current_task_btf"

// leaveTypes makes a program that the verifier has refused use probe reads, and reports whether it used typed
// pointers before. A kernel whose types differ from those that the script was compiled for (an argument of another
// type, a member that is tagged as a user pointer) accepts no typed pointer there.
func (p *programs) leaveTypes(mp *manifest.Program, err error) bool {
	var refused *ebpf.VerifierError
	return errors.As(err, &refused) && mp.Code != nil &&
		rewrite.Fix(p.object.Spec.Programs[mp.Name].Instructions, mp.Code.Forms, typedTask)
}

// loadBound loads a program with its loops bounded. Its first skip instructions are its filter.
func (p *programs) loadBound(mp *manifest.Program, spec *ebpf.ProgramSpec, skip int,
	types *btf.Spec) (*ebpf.Program, error) {
	head, slots := rewrite.Slots(spec.Instructions[:skip]), 0
	if !p.opts.LongLoops {
		var err error
		if spec, slots, err = p.loaded.Loops.count(p.object, mp, spec, skip); err != nil {
			return nil, err
		}
	}
	return p.loadFitted(mp, spec, head+slots, types)
}

// signs adapts the shifts of a program to this kernel.
func (p *programs) signs(mp *manifest.Program, insns asm.Instructions, types *btf.Spec) error {
	host := append([]*btf.Spec{types}, p.moduleTypes...)
	return adapt.Signs(p.object.Manifest, mp.Name, insns, p.object.Spec.Types, host...)
}

// loadFitted loads a program whose shifts are adapted to this kernel. The object's instructions begin at slot head.
func (p *programs) loadFitted(mp *manifest.Program, spec *ebpf.ProgramSpec, head int,
	types *btf.Spec) (*ebpf.Program, error) {
	coll, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
		Maps: p.object.Spec.Maps, Programs: map[string]*ebpf.ProgramSpec{mp.Name: spec},
		Types: p.object.Spec.Types, ByteOrder: p.object.Spec.ByteOrder,
	}, ebpf.CollectionOptions{
		MapReplacements: p.loaded.Maps, Cache: p.cache,
		Programs: ebpf.ProgramOptions{KernelTypes: types, ExtraRelocationTargets: p.moduleTypes, LogLevel: ebpf.LogLevel(p.opts.LogLevel)},
	})
	if err != nil {
		return nil, refusal(p.object.Manifest, mp, spec.Instructions, head, err, func(use *manifest.FieldUse) string {
			return adapt.Lacks(use, p.object.Spec.Types, append([]*btf.Spec{types}, p.moduleTypes...)...)
		})
	}
	prog := coll.DetachProgram(mp.Name)
	coll.Close()
	if p.opts.Log != nil && p.opts.LogLevel > 0 {
		p.opts.Log(mp.Name, prog.VerifierLog)
	}
	p.loaded.all = append(p.loaded.all, prog)
	return prog, nil
}
