// SPDX-License-Identifier: Apache-2.0

package emit

// The encoder is our own code, 32 KB of btc with the block placement: a branch that does
// not reach is rewritten here (far.go), and relocations, line records and the manifest's
// forms follow their instructions. cilium/ebpf's assembler resolves labels only.

import (
	"fmt"
	"maps"
	"slices"

	"btc/backend/mach"
	"btc/ir"
)

// Encode lays out and encodes a function in machine form, which it changes.
func Encode(f *mach.Func) (*Func, error) {
	tidy(f)
	e := &encoder{
		f:     f,
		start: map[*mach.Block]int{},
		sizes: map[*mach.Block]int{},
		out:   &Func{Name: f.Name, Prog: f.Prog, StackSize: f.FrameUsed, Pos: f.Pos},
	}
	if n := e.layOut(); n > maxInsns {
		return nil, ir.Diag{
			Pos:  f.Pos,
			Text: fmt.Sprintf("has %d instructions; BPF programs have at most %d", n, maxInsns),
		}
	}
	calls := map[string]bool{}
	for n, b := range f.Blocks {
		e.block(b, e.forms[n], calls)
	}
	e.out.Calls = slices.Sorted(maps.Keys(calls))
	return e.out, nil
}

// maxInsns is the kernel's BPF_COMPLEXITY_LIMIT_INSNS, the largest program that
// loads (5.2).
const maxInsns = 1_000_000

type encoder struct {
	f     *mach.Func
	out   *Func
	forms []jumpForm
	start map[*mach.Block]int // slot
	sizes map[*mach.Block]int // slots without the terminator's jumps
	// patched: sizes are those after the kernel's verifier has inserted its code.
	patched bool
	line    ir.Pos
}

func (e *encoder) here() int { return len(e.out.Insns) / 8 }

func (e *encoder) put(r mach.Raw) { e.out.Insns = r.Append(e.out.Insns) }

// to returns the offset of a jump from the next slot to b.
func (e *encoder) to(b *mach.Block) int16 { return int16(e.start[b] - e.here() - 1) }

func (e *encoder) block(b *mach.Block, form jumpForm, calls map[string]bool) {
	if e.here() != e.start[b] {
		panic("BUG: layout of " + e.f.Name)
	}
	for n := range b.Insns {
		e.insn(&b.Insns[n], calls)
	}
	t := &b.Term
	if form.size() > 0 || t.Kind == mach.Exit {
		e.mark(t.Pos)
	}
	if form.branch != nil {
		c := t.Cond
		if form.invert {
			c = c.Negate()
		}
		e.put(mach.RawBranch(c, t.W, t.Args[0], t.Args[1], e.to(form.branch)))
	}
	if form.jump != nil {
		e.put(mach.RawJump(e.to(form.jump)))
	}
	if t.Kind == mach.Exit {
		e.put(mach.RawExit())
	}
}

// mark appends a line record when the position changes. The first instruction always has
// one: the kernel requires that of every function.
func (e *encoder) mark(pos ir.Pos) {
	if e.here() == 0 {
		if pos.Line == 0 {
			pos = e.f.Pos
		}
	} else if pos.Line == 0 || pos == e.line {
		return
	}
	e.line = pos
	e.out.Lines = append(e.out.Lines, Line{e.here(), pos})
}

func (e *encoder) insn(i *mach.Insn, calls map[string]bool) {
	e.mark(i.Pos)
	at := e.here()
	for _, r := range i.Encode() {
		e.put(r)
	}
	switch i.Op {
	case mach.Mov:
		e.reloc(at, i.Args[0], calls)
	case mach.Select:
		e.reloc(at+1, i.Args[3], calls)
	case mach.Load:
		if i.Result {
			e.out.Result = append(e.out.Result, at)
		}
	case mach.IDImm:
		e.out.IDInsns = append(e.out.IDInsns, at)
	case mach.CallSub:
		e.out.Relocs = append(e.out.Relocs, Reloc{Insn: at, Kind: Call, Sym: i.Sym})
		calls[i.Sym] = true
	}
	if i.Relocated {
		e.out.CORE = append(e.out.CORE, CORE{at, i.CORE, i.Kind, i.Op == mach.CoreImm, i.Pos})
		helper, isHelper := ir.HelperTest(i.CORE)
		arch, isArch := ir.ArchTest(i.CORE)
		if isHelper || isArch {
			e.out.Forms = append(e.out.Forms, Form{at, arch, helper})
		}
	}
}

var relocKinds = map[mach.OperandKind]RelocKind{mach.MapRef: Map, mach.GlobRef: Global, mach.FuncRef: FuncAddr}

func (e *encoder) reloc(at int, o mach.Operand, calls map[string]bool) {
	if kind, ok := relocKinds[o.Kind]; ok {
		e.out.Relocs = append(e.out.Relocs, Reloc{Insn: at, Kind: kind, Sym: o.Sym, Addend: o.Imm})
		if kind == FuncAddr {
			calls[o.Sym] = true
		}
	}
}
