package load

import (
	"errors"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/loader/attach"
	"btc/loader/kerneltypes"
)

// isReturnFunc is the kernel's function that tells a session's program at which
// end of the function it runs: bool bpf_session_is_return(void), since 6.10.
// Later kernels give it the context, which is where it then has to be: in r1.
const isReturnFunc = "bpf_session_is_return"

var errNoSession = errors.New("the programs of entry and return do not go together")

// loadSession loads one program for the entry and the return of a function.
func (p *programs) loadSession(plan *attach.Plan) (*ebpf.Program, error) {
	id, err := kerneltypes.FuncID(isReturnFunc)
	if err != nil || id == 0 {
		return nil, errNoSession
	}
	var parts [2]asm.Instructions
	for i := range plan.Session {
		one := &plan.Session[i]
		insns := p.object.Spec.Programs[one.Prog.Name].Copy().Instructions
		if one.Prog.UsesID {
			if err := patchID(insns, one.Prog, one.Matches[0].ID); err != nil {
				return nil, err
			}
		}
		if err := fitSigns(p.object.Manifest, one.Prog.Name, insns, p.object.Spec.Types, p.types, p.moduleTypes); err != nil {
			return nil, err
		}
		parts[i] = insns
	}
	spec := p.object.Spec.Programs[plan.Prog.Name].Copy()
	spec.AttachType = plan.AttachType
	if spec.Instructions, err = joinEnds(parts[0], parts[1], id); err != nil {
		return nil, err
	}
	if plan.OnlyPID != 0 {
		spec.Instructions = onlyProcess(spec.Instructions, plan.OnlyPID, p.host.PIDNS)
	}
	return p.loadFitted(plan.Prog, spec, p.types)
}

// joinEnds makes one program of those of a function's entry and return: it asks
// the kernel, by the function of number isReturn, which of them is meant. The
// main functions share the frame; the subprograms that both have are there once.
func joinEnds(entry, ret asm.Instructions, isReturn uint32) (asm.Instructions, error) {
	atEntry, atReturn := mainEnd(entry), mainEnd(ret)
	size := 0
	for i := range entry[:atEntry] {
		size += int(entry[i].Size()) / asm.InstructionSize
	}
	if size > math.MaxInt16 {
		return nil, errNoSession
	}
	ask := asm.FnGetCurrentTask.Call() // the instruction's form; what is called follows
	ask.Src, ask.Constant = asm.PseudoKfuncCall, int64(isReturn)
	head := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		ask,
		asm.And.Imm(asm.R0, 1), // of a bool only the lowest byte is defined
		asm.Mov.Reg(asm.R1, asm.R6),
		{OpCode: asm.JNE.Op(asm.ImmSource), Dst: asm.R0, Offset: int16(size)},
	}
	out := putInFront(head, entry[:atEntry])
	first := btf.WithFuncMetadata(ret[0], nil).WithSymbol("")
	out = append(append(out, first), ret[1:atReturn]...)
	have := map[string]asm.Instructions{}
	for _, f := range functions(entry[atEntry:]) {
		have[f[0].Symbol()] = f
		out = append(out, f...)
	}
	for _, f := range functions(ret[atReturn:]) {
		same, ok := have[f[0].Symbol()]
		switch {
		case !ok:
			out = append(out, f...)
		case !sameCode(same, f):
			return nil, errNoSession
		}
	}
	return out, nil
}

// functions cuts instructions where functions begin.
func functions(insns asm.Instructions) []asm.Instructions {
	var out []asm.Instructions
	for len(insns) > 0 {
		n := mainEnd(insns)
		out = append(out, insns[:n])
		insns = insns[n:]
	}
	return out
}

// sameCode tells whether two functions do the same; what relocation adds to their
// instructions comes from the same place.
func sameCode(a, b asm.Instructions) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.OpCode != y.OpCode || x.Dst != y.Dst || x.Src != y.Src || x.Offset != y.Offset || x.Constant != y.Constant || x.Reference() != y.Reference() {
			return false
		}
	}
	return true
}
