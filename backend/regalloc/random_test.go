// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"math/rand/v2"

	"btc/backend/mach"
	"btc/ir"
)

// generator generates random functions: nested ifs and loops over values in scope, with calls and
// instructions of every form.
type generator struct {
	r     *rand.Rand
	f     *mach.Func
	b     *mach.Block
	scope []mach.Reg
	size  int
}

// randomFunc generates a function from a seed. pressure is the number of values that an instruction
// chooses from, size the number of steps.
func randomFunc(seed uint64, size, pressure int) *mach.Func {
	g := &generator{r: rand.New(rand.NewPCG(seed, 1)), f: &mach.Func{Name: "f"}, size: size}
	g.b = g.f.NewBlock()
	for range g.r.IntN(6) {
		p := g.f.NewVirt()
		g.b.Params = append(g.b.Params, p)
		g.scope = append(g.scope, p)
	}
	for range pressure {
		g.step()
	}
	g.body(3)
	g.b.Term = mach.Term{Kind: mach.Exit, Args: []mach.Operand{g.any()}}
	if g.r.IntN(2) == 0 {
		for range g.f.NVirt {
			g.f.Bounded = append(g.f.Bounded, g.r.IntN(4) == 0)
		}
	}
	return g.f
}

func (g *generator) reg() mach.Operand {
	if len(g.scope) == 0 {
		return mach.RegOp(g.emit(mach.Insn{Op: mach.Mov, Args: []mach.Operand{mach.ImmOp(7)}}))
	}
	return mach.RegOp(g.scope[g.r.IntN(len(g.scope))])
}

func (g *generator) regOrImm() mach.Operand {
	if g.r.IntN(3) == 0 {
		return mach.ImmOp(int64(g.r.IntN(100)) - 50)
	}
	return g.reg()
}

func (g *generator) any() mach.Operand {
	switch g.r.IntN(8) {
	case 0:
		return mach.ImmOp(g.r.Int64())
	case 1:
		return mach.FrameOp(-8 * int64(1+g.r.IntN(4)))
	case 2:
		return mach.Operand{Kind: mach.MapRef, Sym: "@m"}
	}
	return g.regOrImm()
}

func (g *generator) emit(i mach.Insn) mach.Reg {
	i.Dst = g.f.NewVirt()
	g.b.Insns = append(g.b.Insns, i)
	g.scope = append(g.scope, i.Dst)
	return i.Dst
}

func (g *generator) step() {
	switch g.r.IntN(9) {
	case 0, 1, 2:
		ops := []mach.Op{mach.Add, mach.Sub, mach.And, mach.Lsh, mach.Mul, mach.Mod}
		g.emit(mach.Insn{Op: ops[g.r.IntN(len(ops))], Args: []mach.Operand{g.reg(), g.regOrImm()}})
	case 3:
		g.emit(mach.Insn{Op: mach.Load, Size: 8, Args: []mach.Operand{g.reg()}, Off: 8})
	case 4:
		i := mach.Insn{Op: mach.Store, Size: 8, Args: []mach.Operand{g.reg(), g.regOrImm()}, Dst: mach.NoReg}
		if g.r.IntN(2) == 0 {
			i.Args[0] = mach.RegOp(mach.R10)
			i.Off = -8
		}
		g.b.Insns = append(g.b.Insns, i)
	case 5:
		g.emit(mach.Insn{Op: mach.Select, Cond: ir.Cond(g.r.IntN(10)), Args: []mach.Operand{g.reg(), g.regOrImm(), g.any(), g.any()}})
	case 6:
		g.emit(mach.Insn{Op: mach.Swap, Size: 4, Args: []mach.Operand{g.reg()}})
	case 7:
		g.emit(mach.Insn{Op: mach.Mov, W: true, Args: []mach.Operand{g.reg()}})
	case 8:
		i := mach.Insn{Op: mach.Call, Imm: 1, Sym: "map_lookup_elem"}
		for range g.r.IntN(6) {
			i.Args = append(i.Args, g.any())
		}
		if g.r.IntN(3) == 0 {
			i.Dst = mach.NoReg
			g.b.Insns = append(g.b.Insns, i)
		} else {
			g.emit(i)
		}
	}
}

func (g *generator) body(depth int) {
	for range 1 + g.r.IntN(4) {
		for range g.r.IntN(6) {
			g.step()
			g.size--
		}
		if depth == 0 || g.size < 0 {
			continue
		}
		switch g.r.IntN(3) {
		case 0:
			g.branch(depth)
		case 1:
			g.loop(depth)
		}
	}
}

func (g *generator) jump(to *mach.Block, params int) {
	e := mach.Edge{To: to}
	for range params {
		e.Args = append(e.Args, g.any())
	}
	g.b.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{e}}
}

// branch generates an if: both sides may define values for the join's parameters.
func (g *generator) branch(depth int) {
	yes, no, join := g.f.NewBlock(), g.f.NewBlock(), g.f.NewBlock()
	yes.Cold = g.r.IntN(3) == 0
	params := g.r.IntN(4)
	cond := mach.Term{Kind: mach.Br, Cond: ir.Cond(g.r.IntN(10)), Args: []mach.Operand{g.reg(), g.regOrImm()}, Succs: []mach.Edge{{To: yes}, {To: no}}}
	straight := g.r.IntN(2) == 0
	if straight { // the second side is a critical edge to the join
		e := mach.Edge{To: join}
		for range params {
			e.Args = append(e.Args, g.any())
		}
		cond.Succs[1] = e
	}
	g.b.Term = cond
	mark := len(g.scope)
	g.b = yes
	g.body(depth - 1)
	if g.r.IntN(5) == 0 {
		g.b.Term = mach.Term{Kind: mach.Exit, Args: []mach.Operand{g.any()}}
	} else {
		g.jump(join, params)
	}
	g.scope = g.scope[:mark]
	g.b = no
	g.body(depth - 1)
	g.jump(join, params)
	g.scope = g.scope[:mark]
	g.enter(join, params)
}

func (g *generator) enter(b *mach.Block, params int) {
	g.b = b
	for range params {
		p := g.f.NewVirt()
		b.Params = append(b.Params, p)
		g.scope = append(g.scope, p)
	}
}

func (g *generator) loop(depth int) {
	head, out := g.f.NewBlock(), g.f.NewBlock()
	params := g.r.IntN(5)
	g.jump(head, params)
	g.enter(head, params)
	g.body(depth - 1)
	mark := len(g.scope)
	back := mach.Edge{To: head}
	for range params {
		back.Args = append(back.Args, g.any()) // may permute the parameters
	}
	g.b.Term = mach.Term{Kind: mach.Br, Cond: ir.ULT, Args: []mach.Operand{g.reg(), g.regOrImm()}, Succs: []mach.Edge{back, {To: out}}}
	g.scope = g.scope[:mark]
	g.b = out
}
