package load

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/loader/manifest"
)

// An object that serves several architectures asks for the host's at each place
// where they differ: a register gets the answer of a relocation, whether struct
// pt_regs has a member that only x86_64's has, and the next instruction branches
// on it. Every loader resolves that, and the kernel drops the losing side; what
// remains is a constant in a register that no one reads.
//
// We know the answer without looking at the kernel's types, and take test and
// losing side out: nothing of them is run, and a script that needs no other types
// runs on a kernel that has none. (To jump across them is not enough: the kernel
// refuses what no path leads to.)

// The same holds for helpers that a construct of the script has two forms for: the
// test asks for an enumerator of enum bpf_func_id, we ask the kernel. Here taking
// out is a must: below 5.13 the kernel refuses the address of a subprogram, which
// bpf_loop takes, also in code that no path leads to. Subprograms that only the
// losing sides use go as well.

// archTest is the name of the struct in the relocations that ask for the
// architecture, helperTest begins that of the enum where they ask for a helper.
const (
	archTest   = "pt_regs___x86_64"
	helperTest = "bpf_func_id___"
)

// decideForms decides the tests of all programs for this machine.
func (p *programs) decideForms() {
	for name, s := range p.object.Spec.Programs {
		insns, at := Decide(s.Instructions, runtime.GOARCH, hostHas)
		if at == nil {
			continue
		}
		s.Instructions = insns
		renumber(p.object.Manifest, name, at)
	}
}

// typedTask is the helper that stands for reads by typed pointers: a program that
// asks for it has those, and reads of plain addresses for where it is absent.
const typedTask = helperTest + "get_current_task_btf"

// leaveTypes makes a program that the verifier has refused read plain addresses
// from now on, and tells whether it did otherwise before. A kernel whose types are
// not those that the script was compiled for (an argument of another type, a member
// that is tagged as a user's) takes no typed pointer there.
func (p *programs) leaveTypes(name string, err error) bool {
	var refused *ebpf.VerifierError
	if !errors.As(err, &refused) {
		return false
	}
	insns, left := p.object.Spec.Programs[name].Instructions, false
	for i := range insns {
		if r := btf.CORERelocationMetadata(&insns[i]); r != nil && strings.Contains(fmt.Sprint(r), typedTask) {
			insns[i] = btf.WithCORERelocationMetadata(insns[i], nil)
			insns[i].Constant, left = 0, true
		}
	}
	return left
}

// Decide decides the tests in a program and its subprograms, for an architecture as
// Go calls it and for a kernel whose helpers has tells. at says where each
// instruction of the first function is now, counted as the kernel does; -1 for one
// that is gone. It is nil when there was nothing to do. A test in another form, or
// for a helper that we do not know, is left to the relocation.
func Decide(insns asm.Instructions, goarch string, has func(asm.BuiltinFunc) bool) (out asm.Instructions, at []int) {
	decided := false
	for start := 0; start < len(insns); {
		end := start + 1
		for end < len(insns) && insns[end].Symbol() == "" {
			end++
		}
		f, moved := decideFunc(insns[start:end:end], goarch, has)
		if start == 0 {
			at = moved
		}
		decided = decided || moved != nil
		out = append(out, f...)
		start = end
	}
	if !decided {
		return insns, nil
	}
	if at == nil { // the first one is as it was
		n := 0
		for i := range insns {
			if i > 0 && insns[i].Symbol() != "" {
				break
			}
			for range int(insns[i].Size()) / asm.InstructionSize {
				at = append(at, n)
				n++
			}
		}
	}
	return dropUncalled(out), at
}

// dropUncalled leaves out the functions behind the first that nothing refers to.
func dropUncalled(insns asm.Instructions) asm.Instructions {
	funcs, order := map[string]asm.Instructions{}, []string(nil)
	for i := range insns {
		if name := insns[i].Symbol(); i == 0 || name != "" {
			order = append(order, name)
		}
		name := order[len(order)-1]
		funcs[name] = append(funcs[name], insns[i])
	}
	used, work := map[string]bool{order[0]: true}, []string{order[0]}
	for len(work) > 0 {
		name := work[len(work)-1]
		work = work[:len(work)-1]
		for i := range funcs[name] {
			ins := &funcs[name][i]
			if to := ins.Reference(); ins.IsFunctionReference() && !used[to] {
				used[to] = true
				work = append(work, to)
			}
		}
	}
	var out asm.Instructions
	for _, name := range order {
		if used[name] {
			out = append(out, funcs[name]...)
		}
	}
	return out
}

// decideFunc does it for one function.
func decideFunc(insns asm.Instructions, goarch string, has func(asm.BuiltinFunc) bool) (out asm.Instructions, at []int) {
	f, ok := newCode(insns)
	if !ok {
		return insns, nil
	}
	decided := false
	for i := range len(f.next) - 1 {
		branch := &insns[i+1]
		if branch.OpCode.Class() != asm.JumpClass || branch.OpCode.Source() != asm.ImmSource || branch.Dst != insns[i].Dst || branch.Constant != 0 {
			continue
		}
		taken, isTest := answer(&insns[i], goarch, has)
		if !isTest {
			continue
		}
		switch branch.OpCode.JumpOp() {
		case asm.JEq:
			taken = !taken
		case asm.JNE:
		default:
			continue
		}
		to := i + 2
		if taken {
			to = f.target[i+1]
		}
		f.next[i], f.target[i], f.gone[i] = i+1, -1, true
		f.next[i+1], f.target[i+1], f.gone[i+1] = to, -1, true
		decided = true
	}
	if !decided {
		return insns, nil
	}
	return f.compact()
}

// answer is what a test is decided to be.
func answer(ins *asm.Instruction, goarch string, has func(asm.BuiltinFunc) bool) (yes, isTest bool) {
	r := btf.CORERelocationMetadata(ins)
	if r == nil || ins.OpCode.ALUOp() != asm.Mov {
		return false, false
	}
	text := fmt.Sprint(r)
	if strings.Contains(text, archTest) {
		return goarch == "amd64", true
	}
	if _, name, ok := strings.Cut(text, helperTest); ok {
		if end := strings.IndexAny(name, "\"[ "); end >= 0 {
			name = name[:end]
		}
		if h, known := helpers[name]; known {
			return has(h.call), true
		}
	}
	return false, false
}

// code is the first function of a program with its control flow, by indices of
// insns.
type code struct {
	insns  asm.Instructions
	next   []int  // what follows, -1 at an exit
	target []int  // of a conditional jump; else -1
	gone   []bool // does nothing: only what follows counts
	raw    []int  // the kernel's numbers, and the function's length
}

// newCode fails on a jump that leads nowhere.
func newCode(insns asm.Instructions) (*code, bool) {
	c := &code{insns: insns}
	number, index := 0, map[int]int{} // the kernel's number -> index
	for i := range insns {
		if i > 0 && insns[i].Symbol() != "" {
			break
		}
		c.raw = append(c.raw, number)
		index[number] = i
		number += int(insns[i].Size()) / asm.InstructionSize
	}
	c.raw = append(c.raw, number)
	n := len(c.raw) - 1
	c.next, c.target, c.gone = make([]int, n), make([]int, n), make([]bool, n)
	for i := range n {
		c.next[i], c.target[i] = i+1, -1
		op := insns[i].OpCode
		if class := op.Class(); class != asm.JumpClass && class != asm.Jump32Class {
			continue
		}
		to, known := index[c.raw[i]+1+int(insns[i].Offset)]
		switch jump := op.JumpOp(); {
		case jump == asm.Call:
		case jump == asm.Exit:
			c.next[i] = -1
		case !known:
			return nil, false
		case jump == asm.Ja:
			c.next[i], c.gone[i] = to, true
		default:
			c.target[i] = to
		}
	}
	return c, true
}

// leads tells whether what does nothing leads from i to another instruction.
func (c *code) leads(i, to int) bool {
	for range c.next { // a loop of jumps has no end
		if i = c.next[i]; i == to {
			return true
		}
		if i < 0 || i >= len(c.next) || !c.gone[i] {
			break
		}
	}
	return false
}

// reach marks what can be run.
func (c *code) reach() []bool {
	seen := make([]bool, len(c.next))
	work := []int{0}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		if i < 0 || i >= len(seen) || seen[i] {
			continue
		}
		seen[i] = true
		work = append(work, c.next[i], c.target[i])
	}
	return seen
}

// compact leaves out what is gone or cannot be run. Jumps stay where the next
// instruction is not what follows.
func (c *code) compact() (asm.Instructions, []int) {
	n := len(c.next)
	kept := c.kept()
	at := make([]int, c.raw[n])
	number := 0
	place := make([]int, n+1) // the kernel's number by old index
	for i := range n {
		place[i] = number
		for r := c.raw[i]; r < c.raw[i+1]; r++ {
			at[r] = -1
			if kept[i] {
				at[r] = number + r - c.raw[i]
			}
		}
		if kept[i] {
			number += c.raw[i+1] - c.raw[i]
		}
	}
	place[n] = number
	var out asm.Instructions
	var head *asm.Instruction // of the function, when it is left out
	for i := range n {
		if !kept[i] {
			if i == 0 {
				head = &c.insns[0]
			}
			continue
		}
		ins := c.insns[i]
		switch {
		case c.gone[i]:
			ins = asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Ja)}.WithSource(ins.Source())
			ins.Offset = int16(place[c.next[i]] - place[i] - 1)
		case c.target[i] >= 0:
			ins.Offset = int16(place[c.target[i]] - place[i] - 1)
		}
		if head != nil || i == 0 {
			ins = withHead(ins, &c.insns[0])
			head = nil
		}
		out = append(out, ins)
	}
	return append(out, c.insns[n:]...), at
}

// kept tells which instructions stay: those that can be run and do something, and
// jumps to somewhere else than what stays next.
func (c *code) kept() []bool {
	kept, after := c.reach(), -1
	for i := len(kept) - 1; i >= 0; i-- {
		if c.gone[i] && c.leads(i, after) {
			kept[i] = false
		}
		if kept[i] {
			after = i
		}
	}
	return kept
}

// withHead gives an instruction what the first one of a function carries.
func withHead(ins asm.Instruction, head *asm.Instruction) asm.Instruction {
	ins = ins.WithSymbol(head.Symbol())
	if ins.Source() == nil {
		ins = ins.WithSource(head.Source())
	}
	if f := btf.FuncMetadata(head); f != nil {
		ins = btf.WithFuncMetadata(ins, f)
	}
	return ins
}

// renumber changes what the manifest says of the instructions of a program.
func renumber(m *manifest.Manifest, program string, at []int) {
	moved := func(n int) int {
		if n >= 0 && n < len(at) {
			return at[n]
		}
		return n
	}
	for i := range m.Programs {
		p := &m.Programs[i]
		if p.Name != program {
			continue
		}
		var ids []int
		for _, n := range p.IDInsns {
			if n = moved(n); n >= 0 {
				ids = append(ids, n)
			}
		}
		p.IDInsns = ids
	}
	for i := range m.Fields {
		if f := &m.Fields[i]; f.Program == program {
			f.Insn = moved(f.Insn)
		}
	}
}
