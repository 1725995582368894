// SPDX-License-Identifier: Apache-2.0

package emit

import (
	"fmt"
	"slices"

	"btc/backend/isel"
	"btc/backend/mach"
	"btc/backend/regalloc"
	"btc/ir"
)

// Options of Module.
type Options struct {
	// Check replays each register allocation and panics when it is wrong.
	Check bool
	// Dump, when not nil, gets the text of each function after each stage:
	// "isel", "regalloc", "asm".
	Dump func(stage, fn, text string)
	// Positions says that Dump gets the positions of the instructions, too.
	Positions bool
	// Free drops the blocks of each function of the module once it is encoded: later stages
	// do not need them, and in a large script they are most of the memory.
	Free bool
}

// Module encodes every function of m. Errors are caused by the script (a frame larger than
// 512 bytes, a function too large to branch across) and name the position; their type is
// ir.Diag.
func Module(m *ir.Module, opt Options) ([]*Func, error) {
	offsets := ir.LayoutGlobals(m)
	out, errs := make([]*Func, len(m.Funcs)), make([]error, len(m.Funcs))
	if opt.Dump != nil { // in order, up to the first error
		for i, f := range m.Funcs {
			if out[i], errs[i] = one(f, offsets, opt); errs[i] != nil {
				return nil, errs[i]
			}
		}
		return out, checkCalls(out)
	}
	m.EachFunc(func(i int, f *ir.Func) { out[i], errs[i] = one(f, offsets, opt) })
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, checkCalls(out)
}

func one(f *ir.Func, offsets map[string]ir.GlobalOffset, opt Options) (*Func, error) {
	dump := func(stage string, text fmt.Stringer) {
		if opt.Dump != nil { // printing costs time
			opt.Dump(stage, f.Name, text.String())
		}
	}
	mf, err := isel.Select(f, offsets)
	if err != nil {
		return nil, err
	}
	machine := func(stage string) {
		switch {
		case opt.Dump == nil:
		case opt.Positions:
			opt.Dump(stage, f.Name, mf.Positions())
		default:
			dump(stage, mf)
		}
	}
	machine("isel")
	if err := regalloc.Allocate(mf, regalloc.Options{Check: opt.Check}); err != nil {
		return nil, err
	}
	machine("regalloc")
	e, err := Encode(mf)
	if err != nil {
		return nil, err
	}
	dump("asm", e)
	e.Global = f.Global
	if f.Prog != nil {
		e.Context = ir.UsesOfContext(f)
	}
	if opt.Free {
		f.Blocks, f.Slots = nil, nil
	}
	return e, nil
}

// The kernel's limits on calls between functions of a program: frames in a
// chain, and their stacks together, each rounded up to 32 bytes
// (check_max_stack_depth).
const (
	maxFrames     = 8
	maxStack      = 512
	stackRounding = 32
)

// checkCalls follows the call graph from every function.
func checkCalls(funcs []*Func) error {
	byName := make(map[string]*Func, len(funcs))
	for _, f := range funcs {
		byName[f.Name] = f
	}
	var walk func(f *Func, chain []string, stack int) error
	walk = func(f *Func, chain []string, stack int) error {
		if slices.Contains(chain, f.Name) {
			return ir.Diag{Pos: f.Pos, Text: f.Name + " calls itself"}
		}
		chain = append(chain, f.Name)
		stack += (max(f.StackSize, 1) + stackRounding - 1) / stackRounding * stackRounding
		if stack > maxStack || len(chain) > maxFrames {
			return ir.Diag{Pos: f.Pos,
				Text: fmt.Sprintf("the chain of calls %v takes %d frames and %d bytes of stack; BPF programs have %d and %d",
					chain, len(chain), stack, maxFrames, maxStack)}
		}
		for _, name := range f.Calls {
			if callee := byName[name]; callee != nil {
				if err := walk(callee, chain, stack); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, f := range funcs {
		if f.Prog == nil || len(f.Calls) == 0 {
			continue
		}
		if err := walk(f, nil, 0); err != nil {
			return err
		}
	}
	return nil
}

// String returns f's code in the syntax of the kernel verifier's log, with relocations.
func (f *Func) String() string {
	symbols, notes := map[int]string{}, map[int]string{}
	for _, r := range f.Relocs {
		switch r.Kind {
		case Map:
			symbols[r.Insn] = "map[" + r.Sym + "]"
		case Global:
			symbols[r.Insn] = fmt.Sprintf("&%s%+d", r.Sym, r.Addend)
		case FuncAddr:
			symbols[r.Insn] = "&" + r.Sym
		case Call:
			symbols[r.Insn] = r.Sym
		}
	}
	for _, c := range f.CORE {
		notes[c.Insn] = fmt.Sprintf("core %s %s", mach.CORENames[c.Kind], c.Ref)
	}
	for _, n := range f.IDInsns {
		notes[n] = "attachid"
	}
	text, err := mach.Disassemble(f.Insns, func(slot int) (string, string) { return symbols[slot], notes[slot] })
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return text
}
