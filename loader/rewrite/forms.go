// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"btc/internal/manifest"
)

// An object for several architectures tests for the host's architecture wherever the code differs:
// a relocation sets a register according to whether struct pt_regs has a member that only x86_64
// has, and the next instruction branches on it. Every loader resolves the relocation, and the
// kernel drops the dead side; what remains is a constant in an unused register. This loader knows
// the result without looking at the kernel's types, and removes the test and the dead side. Then
// the test costs nothing, and a script that needs no other types runs on a kernel without BTF.
// (Jumping over the dead side is not enough: the kernel refuses unreachable code.)

// The same applies to constructs of the script with two forms that depend on a helper: the test
// checks for an enumerator of enum bpf_func_id, and the loader probes the kernel for it. Here the
// removal is required: before 5.13 the kernel refuses the address of a subprogram, which bpf_loop
// needs, even in dead code. Subprograms that only dead code uses are removed as well.

// Decide removes the tests with a known result from a program and its subprograms, with their dead
// sides. at is the new index of each instruction of the first function, counted as the kernel does;
// -1 for a removed one. It is nil if nothing was changed. left are the remaining tests, at their
// new index: those with an unknown result, and those not followed by a branch.
func Decide(insns asm.Instructions, forms []manifest.Form,
	result func(*manifest.Form) (yes, known bool)) (out asm.Instructions, at []int, left []manifest.Form) {
	decided := false
	for start := 0; start < len(insns); {
		end := start + 1
		for end < len(insns) && insns[end].Symbol() == "" {
			end++
		}
		name := insns[start].Symbol()
		if start == 0 {
			name = ""
		}
		f, moved, stay := decideFunc(insns[start:end:end], name, forms, result)
		if start == 0 {
			at = moved
		}
		decided = decided || moved != nil
		out, left = append(out, f...), append(left, stay...)
		start = end
	}
	if !decided {
		return insns, nil, left
	}
	if at == nil { // the first function is unchanged
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
	return DropUncalled(out), at, left
}

// DropUncalled removes all functions after the first that nothing refers to.
func DropUncalled(insns asm.Instructions) asm.Instructions {
	funcs, order := map[string]asm.Instructions{}, []string(nil)
	for start, end := 0, 0; start < len(insns); start = end {
		for end++; end < len(insns) && insns[end].Symbol() == ""; end++ {
		}
		name := insns[start].Symbol()
		funcs[name], order = insns[start:end], append(order, name)
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

// decideFunc implements Decide for one function; name is "" for the first.
func decideFunc(insns asm.Instructions, name string, forms []manifest.Form,
	result func(*manifest.Form) (yes, known bool)) (out asm.Instructions, at []int, left []manifest.Form) {
	if !slices.ContainsFunc(forms, func(f manifest.Form) bool { return f.Function == name }) {
		return insns, nil, nil
	}
	c, ok := newCode(insns)
	if !ok {
		return insns, nil, nil
	}
	decided := false
	for i := range forms {
		f := &forms[i]
		if f.Function != name {
			continue
		}
		n := c.at(f.Insn)
		yes, known := result(f)
		if n < 0 || !known || !c.decide(n, yes) {
			left = append(left, *f)
			continue
		}
		decided = true
	}
	if !decided {
		return insns, nil, left
	}
	out, at = c.compact()
	for i := range left {
		if n := left[i].Insn; n < len(at) {
			left[i].Insn = at[n]
		}
	}
	return out, at, left
}

// decide replaces the test at index i and the following branch by the result. It returns false if
// they do not form a test.
func (c *code) decide(i int, yes bool) bool {
	if i+1 >= len(c.next) {
		return false
	}
	test, branch := &c.insns[i], &c.insns[i+1]
	if btf.CORERelocationMetadata(test) == nil || test.OpCode.ALUOp() != asm.Mov ||
		branch.OpCode.Class() != asm.JumpClass || branch.OpCode.Source() != asm.ImmSource ||
		branch.Dst != test.Dst || branch.Constant != 0 {
		return false
	}
	switch branch.OpCode.JumpOp() {
	case asm.JEq:
		yes = !yes
	case asm.JNE:
	default:
		return false
	}
	to := i + 2
	if yes {
		to = c.target[i+1]
	}
	c.next[i], c.target[i], c.gone[i] = i+1, -1, true
	c.next[i+1], c.target[i+1], c.gone[i+1] = to, -1, true
	return true
}

// Fix sets the result of a helper's tests to 0, whatever the kernel's types say. It reports whether
// any test was left.
func Fix(insns asm.Instructions, forms []manifest.Form, helper string) bool {
	fixed := false
	function, n := "", 0
	for i := range insns {
		if i > 0 && insns[i].Symbol() != "" {
			function, n = insns[i].Symbol(), 0
		}
		for j := range forms {
			f := &forms[j]
			if f.Helper == helper && f.Function == function && f.Insn == n &&
				btf.CORERelocationMetadata(&insns[i]) != nil {
				insns[i] = btf.WithCORERelocationMetadata(insns[i], nil)
				insns[i].Constant, fixed = 0, true
			}
		}
		n += int(insns[i].Size()) / asm.InstructionSize
	}
	return fixed
}

// code is the first function of a program with its control flow; instructions are identified by
// their index in insns.
type code struct {
	insns  asm.Instructions
	next   []int                    // next instruction; -1 at an exit
	target []int                    // target of a conditional jump, or -1
	gone   []bool                   // no effect: only its successor matters
	raw    []int                    // index as the kernel counts, and the function's length
	index  []int                    // the reverse; -1 in the middle of an instruction
	extend map[int]asm.Instructions // instructions to insert, by the index of the one before
}

// newCode returns an error if a jump leads outside the function.
func newCode(insns asm.Instructions) (*code, bool) {
	n := 1
	for n < len(insns) && insns[n].Symbol() == "" {
		n++
	}
	n = min(n, len(insns))
	c := &code{insns: insns, raw: make([]int, 0, n+1), index: make([]int, 0, n+n/8)}
	for i := range insns[:n] {
		c.raw = append(c.raw, len(c.index))
		c.index = append(c.index, i)
		for range int(insns[i].Size())/asm.InstructionSize - 1 {
			c.index = append(c.index, -1)
		}
	}
	c.raw = append(c.raw, len(c.index))
	c.next, c.target, c.gone = make([]int, n), make([]int, n), make([]bool, n)
	for i := range n {
		c.next[i], c.target[i] = i+1, -1
		op := insns[i].OpCode
		if class := op.Class(); class != asm.JumpClass && class != asm.Jump32Class {
			continue
		}
		to := c.at(c.raw[i] + 1 + int(insns[i].Offset))
		switch jump := op.JumpOp(); {
		case jump == asm.Call:
		case jump == asm.Exit:
			c.next[i] = -1
		case to < 0:
			return nil, false
		case jump == asm.Ja:
			c.next[i], c.gone[i] = to, true
		default:
			c.target[i] = to
		}
	}
	return c, true
}

// at returns the index of the instruction with an index as the kernel counts; -1: there is none.
func (c *code) at(number int) int {
	if number < 0 || number >= len(c.index) {
		return -1
	}
	return c.index[number]
}

// leads reports whether there are only no-ops on the path from i to the instruction to.
func (c *code) leads(i, to int) bool {
	for range c.next { // bounded, because jumps may form a loop
		if i = c.next[i]; i == to {
			return true
		}
		if i < 0 || i >= len(c.next) || !c.gone[i] {
			break
		}
	}
	return false
}

// reach marks the reachable instructions.
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

// compact drops removed and unreachable instructions. Jumps are kept if their target is not the next instruction.
func (c *code) compact() (asm.Instructions, []int) {
	n := len(c.next)
	kept := c.kept()
	at := make([]int, c.raw[n])
	number := 0
	newIndex := make([]int, n+1) // the kernel's index by old index
	for i := range n {
		newIndex[i] = number
		for r := c.raw[i]; r < c.raw[i+1]; r++ {
			at[r] = -1
			if kept[i] {
				at[r] = number + r - c.raw[i]
			}
		}
		if kept[i] {
			number += c.raw[i+1] - c.raw[i] + len(c.extend[i])
		}
	}
	newIndex[n] = number
	var out asm.Instructions
	var head *asm.Instruction // first instruction of the function, if it is dropped
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
			ins.Offset = int16(newIndex[c.next[i]] - newIndex[i] - 1)
		case c.target[i] >= 0:
			ins.Offset = int16(newIndex[c.target[i]] - newIndex[i] - 1)
		}
		if head != nil || i == 0 {
			ins = withHead(ins, &c.insns[0])
			head = nil
		}
		out = append(append(out, ins), c.extend[i]...)
	}
	return append(out, c.insns[n:]...), at
}

// kept reports which instructions remain: reachable ones with an effect, and jumps that do not just
// lead to the next remaining instruction.
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

// withHead copies the metadata of a function's first instruction to another instruction.
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

// Renumber updates the manifest's instruction indices of a program after Decide.
func Renumber(m *manifest.Manifest, program string, at []int, left []manifest.Form) {
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
		for _, list := range []*[]int{&p.IDInsns, &p.Code.Result} {
			var kept []int
			for _, n := range *list {
				if n = moved(n); n >= 0 {
					kept = append(kept, n)
				}
			}
			*list = kept
		}
		p.Code.Forms = left
	}
	for i := range m.Fields {
		if f := &m.Fields[i]; f.Program == program {
			f.Insn = moved(f.Insn)
		}
	}
}
