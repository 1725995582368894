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

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/rlimit"

	"btc/loader/attach"
	"btc/loader/host"
	"btc/loader/manifest"
	"btc/loader/object"
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
	LogLevel int               // 1: the kernel's verifier log of every program is kept
	Log      func(program, text string)
}

// Load loads an object. Its error is a *report.Fault where a place in the script
// is to blame.
func Load(o *object.Object, exp *attach.Expansion, h *host.Host, opts Options) (*Loaded, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raising the limit of locked memory (kernels before 5.11 need that): %w", err)
	}
	if err := checkNeeds(o.Manifest); err != nil {
		return nil, err
	}
	if err := setConstants(o, h, opts); err != nil {
		return nil, err
	}
	if err := setHostValues(o); err != nil {
		return nil, err
	}
	sizeRing(o, h)
	if err := sizeSpecs(o, exp); err != nil {
		return nil, err
	}
	l := &Loaded{}
	coll, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
		Maps: o.Spec.Maps, Variables: o.Spec.Variables, Types: o.Spec.Types, ByteOrder: o.Spec.ByteOrder,
	}, ebpf.CollectionOptions{})
	if err != nil {
		return nil, mapError(o, err)
	}
	l.Maps, l.Variables = coll.Maps, coll.Variables
	if err := l.fillSpecs(exp); err != nil {
		l.Close()
		return nil, err
	}
	p := &programs{object: o, loaded: l, opts: opts, host: h, cache: h.Types()}
	if err := p.findKernelTypes(); err != nil {
		l.Close()
		return nil, err
	}
	for i := range exp.Plans {
		progs, err := p.loadPlan(&exp.Plans[i])
		if err != nil {
			l.Close()
			return nil, err
		}
		l.Programs = append(l.Programs, progs)
	}
	return l, nil
}

// mapError says which map of the script could not be made.
func mapError(o *object.Object, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("the kernel refused to make a map: %w (%s)", err, host.WhyNot())
	}
	return fmt.Errorf("the kernel refused to make the maps of %s: %w", o.Manifest.Script.File, err)
}

// programs loads one program after the other.
type programs struct {
	object *object.Object
	loaded *Loaded
	opts   Options
	host   *host.Host
	cache  *btf.Cache
	types  *btf.Spec
}

func (p *programs) loadPlan(plan *attach.Plan) ([]*ebpf.Program, error) {
	spec := p.object.Spec.Programs[plan.Prog.Name].Copy()
	if plan.Multi {
		spec.AttachType = plan.AttachType
	}
	var out []*ebpf.Program
	loaded, refused := 0, error(nil)
	for i := range plan.Matches {
		if i > 0 && !plan.Prog.UsesID && !plan.Each {
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
		if plan.Prog.UsesID {
			if err := patchID(spec.Instructions, plan.Prog, plan.Matches[i].ID); err != nil {
				return nil, err
			}
		}
		one := spec
		if plan.OnlyPID != 0 {
			one = spec.Copy()
			one.Instructions = onlyProcess(one.Instructions, plan.OnlyPID, p.host.PIDNS)
		}
		prog, err := p.loadOne(plan.Prog, one)
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

func (p *programs) loadOne(mp *manifest.Program, spec *ebpf.ProgramSpec) (*ebpf.Program, error) {
	coll, err := ebpf.NewCollectionWithOptions(&ebpf.CollectionSpec{
		Maps: p.object.Spec.Maps, Programs: map[string]*ebpf.ProgramSpec{mp.Name: spec},
		Types: p.object.Spec.Types, ByteOrder: p.object.Spec.ByteOrder,
	}, ebpf.CollectionOptions{
		MapReplacements: p.loaded.Maps, Cache: p.cache,
		Programs: ebpf.ProgramOptions{KernelTypes: p.types, LogLevel: ebpf.LogLevel(p.opts.LogLevel)},
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

// patchID writes an attach point's number into the marked instructions. Indices
// count the kernel's instructions: a 64-bit immediate takes two.
func patchID(insns asm.Instructions, mp *manifest.Program, id int) error {
	marked := map[int]bool{}
	for _, i := range mp.IDInsns {
		marked[i] = true
	}
	raw, done := 0, 0
	for i := range insns {
		if marked[raw] {
			if op := insns[i].OpCode; op.Class() != asm.ALUClass && op.Class() != asm.ALU64Class || op.ALUOp() != asm.Mov || op.Source() != asm.ImmSource {
				return fmt.Errorf("program %s: instruction %d takes no attach point number", mp.Name, raw)
			}
			insns[i].Constant = int64(id)
			done++
		}
		raw += int(insns[i].Size()) / asm.InstructionSize
	}
	if done != len(marked) {
		return fmt.Errorf("program %s has no instruction for its attach point number", mp.Name)
	}
	return nil
}
