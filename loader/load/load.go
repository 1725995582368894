// Package load puts an object into the kernel: constants, map sizes, programs
// (one for each place where they differ), and the kernel's refusals in terms of
// the script.
//
// It takes a checked object, the expansion of its attach points and the user's
// parameters, and gives open maps and programs. Nothing runs yet.
package load

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"btc/loader/attach"
	"btc/loader/host"
	"btc/loader/manifest"
	"btc/loader/object"
	"btc/loader/permit"
)

// Loaded holds the open maps and programs of an object.
type Loaded struct {
	Maps      map[string]*ebpf.Map      // by ELF symbol
	Variables map[string]*ebpf.Variable // run-time data
	// Programs has a program for each match of each plan of the expansion.
	Programs [][]*ebpf.Program

	all []*ebpf.Program
}

// Close closes everything; what is attached keeps running until its link closes.
func (l *Loaded) Close() {
	for _, p := range l.all {
		p.Close()
	}
	for _, m := range l.Maps {
		m.Close()
	}
}

// Options of loading.
type Options struct {
	Values   map[string][]byte // parameters by global name, from ParseParams
	ChildPID int               // of -c; 0: none
	// MaxMemory is what the maps may take in the kernel, in bytes; 0: no limit.
	MaxMemory uint64
	BTF       string // file or folder with the kernel's types; "": the kernel's own
	LogLevel  int    // 1: the kernel's verifier log of every program is kept
	Log       func(program, text string)
}

// Load loads an object. Its error is a *report.Fault where a place in the script
// is to blame.
func Load(o *object.Object, exp *attach.Expansion, h *host.Host, opts Options) (*Loaded, error) {
	limit := raiseMemlock()
	if err := checkNeeds(o.Manifest); err != nil {
		return nil, err
	}
	if err := setConstants(o, h, opts); err != nil {
		return nil, err
	}
	if err := setHostValues(o, exp); err != nil {
		return nil, err
	}
	sizeRing(o, h.MemoryBytes())
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
	if err := permit.CheckMemory(o, cpus, opts.MaxMemory); err != nil {
		return nil, err
	}
	l := &Loaded{}
	coll, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
		Maps: o.Spec.Maps, Variables: o.Spec.Variables, Types: o.Spec.Types, ByteOrder: o.Spec.ByteOrder,
	}, ebpf.CollectionOptions{})
	if err != nil {
		return nil, mapError(o, err, limit)
	}
	l.Maps, l.Variables = coll.Maps, coll.Variables
	for _, fill := range []func(*attach.Expansion) error{l.fillSpecs, l.fillNames} {
		if err := fill(exp); err != nil {
			l.Close()
			return nil, err
		}
	}
	p := &programs{object: o, loaded: l, opts: opts, host: h, cache: h.Types()}
	p.decideForms()
	err = p.findKernelTypes()
	if err == nil {
		err = checkWhole(o.Manifest, append([]*btf.Spec{p.types}, p.moduleTypes...)...)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	dispatchSyscalls(o, exp)
	preferRaw(o, exp)
	for i := 0; i < len(exp.Plans); i++ {
		if exp.Plans[i].Session != nil {
			if prog, err := p.loadSession(&exp.Plans[i]); err == nil {
				l.Programs = append(l.Programs, []*ebpf.Program{prog})
				continue
			}
			exp.Split(i) // each for itself works on all kernels, or says why not
		}
		progs, err := p.loadPlan(&exp.Plans[i])
		if err != nil {
			l.Close()
			return nil, err
		}
		l.Programs = append(l.Programs, progs)
	}
	return l, nil
}

// mapError says which map of the script could not be made. Limit is why the limit
// of locked memory could not be raised.
func mapError(o *object.Object, err, limit error) error {
	if errors.Is(err, os.ErrPermission) {
		if limit != nil {
			return fmt.Errorf("the kernel refused to make a map: %w (kernels before 5.11 count maps as locked memory, and raising its limit failed: %v)", err, limit)
		}
		return fmt.Errorf("the kernel refused to make a map: %w (%s)", err, host.WhyNot())
	}
	if outOfFiles(err) {
		return fmt.Errorf("the maps of %s are more than the files a process may have open: %w (%s)", o.Manifest.Script.File, err, raiseFiles)
	}
	return fmt.Errorf("the kernel refused to make the maps of %s: %w", o.Manifest.Script.File, err)
}

// raiseFiles is what helps against the limit of open files: each map, program and
// attachment is one.
const raiseFiles = "raise the limit of open files: ulimit -n 65536"

// outOfFiles knows the limit of open files, also where the library passes on only
// its words.
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
	// moduleTypes are those of modules that have what types lacks.
	moduleTypes []*btf.Spec

	dispatcher *dispatcher
}

func (p *programs) loadPlan(plan *attach.Plan) ([]*ebpf.Program, error) {
	spec := p.object.Spec.Programs[plan.Prog.Name].Copy()
	if plan.Raw != "" {
		prog, err := p.loadDispatched(plan)
		if err == nil {
			return []*ebpf.Program{prog}, nil
		}
		// This kernel is not what we know: each tracepoint for itself works, too.
		plan.Raw, plan.Multi = "", false
	}
	byCookie := plan.Multi && plan.Prog.UsesID
	if byCookie && idFromCookie(spec, plan.Prog) != nil { // a link and a program for each, then
		spec = p.object.Spec.Programs[plan.Prog.Name].Copy()
		plan.Multi, byCookie = false, false
	}
	if plan.Multi {
		spec.AttachType = plan.AttachType
	}
	if plan.Bare {
		spec.Type = ebpf.RawTracepoint
		plan.Again = func(m *attach.Match) (*ebpf.Program, error) { return p.loadTracepoint(plan, m) }
	}
	types, err := p.fitTracepoint(plan, spec)
	if err != nil {
		return nil, err
	}
	var out []*ebpf.Program
	loaded, refused := 0, error(nil)
	for i := range plan.Matches {
		if i > 0 && !plan.Each && (byCookie || !plan.Prog.UsesID) {
			out = append(out, out[0])
			continue
		}
		if same := plan.Matches[i].SameAs; same > 0 {
			out = append(out, out[same-1])
			continue
		}
		if plan.Each {
			spec.AttachTo = plan.Matches[i].Name
		}
		if id := plan.Matches[i].BPF; id != 0 {
			target, err := ebpf.NewProgramFromID(id)
			if err != nil { // it has ended
				refused = fmt.Errorf("BPF program %d: %w", id, err)
				out = append(out, nil)
				continue
			}
			defer target.Close()
			spec.AttachTarget = target
		}
		if plan.Prog.UsesID && !byCookie {
			if err := patchID(spec.Instructions, plan.Prog, plan.Matches[i].ID); err != nil {
				return nil, err
			}
		}
		one := spec
		if plan.OnlyPID != 0 {
			one = spec.Copy()
			one.Instructions = onlyProcess(one.Instructions, plan.OnlyPID, p.host.PIDNS)
		}
		prog, err := p.loadOne(plan.Prog, one, types)
		if err != nil && p.leaveTypes(plan.Prog.Name, err) {
			return p.loadPlan(plan)
		}
		switch {
		case err == nil:
			loaded++
		case !plan.Each || len(plan.Matches) == 1 || errors.Is(err, os.ErrPermission):
			return nil, err
		default: // one of a pattern that cannot be entered after all
			refused = err
		}
		out = append(out, prog)
	}
	if loaded == 0 && refused != nil {
		return nil, refused
	}
	return out, nil
}

// loadTracepoint loads the program of a match as that of a tracepoint.
func (p *programs) loadTracepoint(plan *attach.Plan, m *attach.Match) (*ebpf.Program, error) {
	one := *plan
	one.Bare, one.Matches = false, []attach.Match{*m}
	one.Matches[0].SameAs = 0
	progs, err := p.loadPlan(&one)
	if err != nil {
		return nil, err
	}
	return progs[0], nil
}

// loadDispatched loads a program for its raw tracepoint.
func (p *programs) loadDispatched(plan *attach.Plan) (*ebpf.Program, error) {
	if p.dispatcher == nil {
		d, err := newDispatcher()
		if err != nil {
			return nil, err
		}
		p.dispatcher = d
	}
	table, err := p.dispatcher.table(plan)
	if err != nil {
		return nil, err
	}
	defer table.Close() // the program holds it
	spec := p.object.Spec.Programs[plan.Prog.Name].Copy()
	if err := p.dispatcher.program(spec, plan.Prog, plan.Raw, table); err != nil {
		return nil, err
	}
	if plan.OnlyPID != 0 {
		spec.Instructions = onlyProcess(spec.Instructions, plan.OnlyPID, p.host.PIDNS)
	}
	return p.loadOne(plan.Prog, spec, p.types)
}

func (p *programs) loadOne(mp *manifest.Program, spec *ebpf.ProgramSpec, types *btf.Spec) (*ebpf.Program, error) {
	if err := fitSigns(p.object.Manifest, mp.Name, spec.Instructions, p.object.Spec.Types, types, p.moduleTypes); err != nil {
		return nil, err
	}
	return p.loadFitted(mp, spec, types)
}

// loadFitted loads a program whose shifts are those of this kernel.
func (p *programs) loadFitted(mp *manifest.Program, spec *ebpf.ProgramSpec, types *btf.Spec) (*ebpf.Program, error) {
	coll, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
		Maps: p.object.Spec.Maps, Programs: map[string]*ebpf.ProgramSpec{mp.Name: spec},
		Types: p.object.Spec.Types, ByteOrder: p.object.Spec.ByteOrder,
	}, ebpf.CollectionOptions{
		MapReplacements: p.loaded.Maps, Cache: p.cache,
		Programs: ebpf.ProgramOptions{KernelTypes: types, ExtraRelocationTargets: p.moduleTypes, LogLevel: ebpf.LogLevel(p.opts.LogLevel)},
	})
	if err != nil {
		return nil, refusal(p.object.Manifest, mp, spec.Instructions, err)
	}
	prog := coll.DetachProgram(mp.Name)
	coll.Close()
	if p.opts.Log != nil && p.opts.LogLevel > 0 {
		p.opts.Log(mp.Name, prog.VerifierLog)
	}
	p.loaded.all = append(p.loaded.all, prog)
	return prog, nil
}

// patchID writes an attach point's number into the marked instructions.
func patchID(insns asm.Instructions, mp *manifest.Program, id int) error {
	return eachID(insns, mp, func(ins *asm.Instruction) { ins.Constant = int64(id) })
}

// eachID visits the marked instructions, which put the attach point's number
// into a register. Indices count the kernel's instructions: a 64-bit immediate
// takes two.
func eachID(insns asm.Instructions, mp *manifest.Program, change func(*asm.Instruction)) error {
	marked := map[int]bool{}
	for _, i := range mp.IDInsns {
		marked[i] = true
	}
	raw, done := 0, 0
	for i := range insns {
		size := int(insns[i].Size()) / asm.InstructionSize
		if marked[raw] {
			if op := insns[i].OpCode; op.Class() != asm.ALUClass && op.Class() != asm.ALU64Class || op.ALUOp() != asm.Mov || op.Source() != asm.ImmSource {
				return fmt.Errorf("program %s: instruction %d takes no attach point number", mp.Name, raw)
			}
			change(&insns[i])
			done++
		}
		raw += size
	}
	if done != len(marked) {
		return fmt.Errorf("program %s has no instruction for its attach point number", mp.Name)
	}
	return nil
}
