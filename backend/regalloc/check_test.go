// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"strings"
	"testing"

	"btc/backend/mach"
	"btc/ir"
)

// allocated returns a hand-written function before and after allocation: v0 is in r1, v1 in r2.
func allocated() (*mach.Func, *snapshot) {
	f := &mach.Func{Name: "f"}
	b := f.NewBlock()
	v0, v1 := f.NewVirt(), f.NewVirt()
	b.Params = []mach.Reg{v0, v1}
	sum, least, result := f.NewVirt(), f.NewVirt(), f.NewVirt()
	b.Insns = []mach.Insn{
		{Op: mach.Sub, Dst: sum, Args: []mach.Operand{mach.RegOp(v0), mach.RegOp(v1)}},
		{Op: mach.Select, Cond: ir.ULT, Dst: least, Args: []mach.Operand{mach.RegOp(sum), mach.ImmOp(8), mach.RegOp(sum), mach.ImmOp(8)}},
		{Op: mach.Call, Sym: "f", Dst: result, Args: []mach.Operand{mach.RegOp(v1), mach.RegOp(least)}},
		{Op: mach.Add, Dst: result, Args: []mach.Operand{mach.RegOp(result), mach.RegOp(v1)}},
	}
	b.Insns[3].Dst = f.NewVirt()
	b.Term = mach.Term{Kind: mach.Exit, Args: []mach.Operand{mach.RegOp(b.Insns[3].Dst)}}
	before := takeSnapshot(f)
	old := b.Insns
	r := func(n mach.Reg) mach.Operand { return mach.RegOp(n) }
	b.Insns = []mach.Insn{
		{Op: mach.Mov, Dst: mach.R3, Args: []mach.Operand{r(mach.R1)}},
		{Op: mach.Sub, Dst: mach.R3, Args: []mach.Operand{r(mach.R3), r(mach.R2)}, From: &old[0]},
		{Op: mach.Select, Cond: ir.ULT, Dst: mach.R3, Args: []mach.Operand{r(mach.R3), mach.ImmOp(8), r(mach.R3), mach.ImmOp(8)}, From: &old[1]},
		{Op: mach.Store, Size: 8, Args: []mach.Operand{r(mach.R10), r(mach.R2)}, Off: -8, Spill: 1, Dst: mach.NoReg},
		{Op: mach.Mov, Dst: mach.R1, Args: []mach.Operand{r(mach.R2)}},
		{Op: mach.Mov, Dst: mach.R2, Args: []mach.Operand{r(mach.R3)}},
		{Op: mach.Call, Sym: "f", Dst: mach.R0, Args: []mach.Operand{r(mach.R1), r(mach.R2)}, From: &old[2]},
		{Op: mach.Load, Size: 8, Dst: mach.R3, Args: []mach.Operand{r(mach.R10)}, Off: -8, Spill: 1},
		{Op: mach.Add, Dst: mach.R0, Args: []mach.Operand{r(mach.R0), r(mach.R3)}, From: &old[3]},
	}
	b.Term.Args = []mach.Operand{r(mach.R0)}
	return f, before
}

// TestCheckerRejects breaks a correct allocation in each way that the checker detects.
func TestCheckerRejects(t *testing.T) {
	f, before := allocated()
	if err := before.check(f); err != nil {
		t.Fatal(err)
	}
	swap := func(i *mach.Insn, x, y int) { i.Args[x], i.Args[y] = i.Args[y], i.Args[x] }
	for what, c := range map[string]struct {
		spoil func(i []mach.Insn, b *mach.Block)
		want  string
	}{
		"no move":                         {func(i []mach.Insn, _ *mach.Block) { i[0].Op = mach.Neg }, "inserted, but not a move"},
		"a store that is not of a slot":   {func(i []mach.Insn, _ *mach.Block) { i[3].Spill = 0 }, "inserted, but not a move"},
		"a slot above the frame":          {func(i []mach.Insn, _ *mach.Block) { i[3].Off = 0 }, "inserted, but not a move"},
		"a load of another slot":          {func(i []mach.Insn, _ *mach.Block) { i[7].Off = -16 }, "contents of the slot unknown"},
		"a store of another register":     {func(i []mach.Insn, _ *mach.Block) { i[3].Args[1] = mach.RegOp(mach.R3) }, "which does not hold v1"},
		"a store of a constant":           {func(i []mach.Insn, _ *mach.Block) { i[3].Args[1] = mach.ImmOp(7) }, "which does not hold v1"},
		"a move of another register":      {func(i []mach.Insn, _ *mach.Block) { i[0].Args[0] = mach.RegOp(mach.R2) }, "reads r3, which does not hold v0"},
		"a move of a constant":            {func(i []mach.Insn, _ *mach.Block) { i[0].Args[0] = mach.ImmOp(1) }, "reads r3, which does not hold v0"},
		"another destination":             {func(i []mach.Insn, _ *mach.Block) { i[1].Dst = mach.R4 }, "not in machine form"},
		"another destination of a select": {func(i []mach.Insn, _ *mach.Block) { i[2].Dst = mach.R4 }, "not in machine form"},
		"the other condition":             {func(i []mach.Insn, _ *mach.Block) { i[2].Cond = ir.ULE }, "condition"},
		"the condition turned":            {func(i []mach.Insn, _ *mach.Block) { i[2].Cond = ir.UGE }, "does not hold"},
		"another register of a select":    {func(i []mach.Insn, _ *mach.Block) { i[2].Args[0] = mach.RegOp(mach.R2) }, "reads r2, which does not hold v2"},
		"another constant":                {func(i []mach.Insn, _ *mach.Block) { i[2].Args[3] = mach.ImmOp(9) }, "reads 9, which does not hold 8"},
		"arguments exchanged":             {func(i []mach.Insn, _ *mach.Block) { swap(&i[6], 0, 1) }, "reads r2, which does not hold v1"},
		"an argument in another register": {func(i []mach.Insn, _ *mach.Block) { i[5].Dst = mach.R4; i[6].Args[1] = mach.RegOp(mach.R4) }, "argument 2 is in r4"},
		"a register over a call": {func(i []mach.Insn, _ *mach.Block) {
			i[7] = mach.Insn{Op: mach.Mov, Dst: mach.R3, Args: []mach.Operand{mach.RegOp(mach.R1)}}
		}, "which does not hold v1"},
		"the operands of a sum exchanged":  {func(i []mach.Insn, _ *mach.Block) { swap(&i[8], 0, 1); i[8].Dst = mach.R3 }, "exit"},
		"an operand that is not allocated": {func(i []mach.Insn, _ *mach.Block) { i[1].Args[1] = mach.RegOp(mach.Virt(1)) }, "operand v1 was not allocated"},
		"another result":                   {func(_ []mach.Insn, b *mach.Block) { b.Term.Args[0] = mach.RegOp(mach.R3) }, "reads r3, which does not hold v5"},
	} {
		f, before := allocated()
		c.spoil(f.Blocks[0].Insns, f.Blocks[0])
		if err := before.check(f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error = %v, want %q", what, err, c.want)
		}
	}
	f, before = allocated()
	f.NewBlock()
	if err := before.check(f); err == nil || !strings.Contains(err.Error(), "b1 is not reached") {
		t.Errorf("unreachable block: error = %v", err)
	}
}

// TestCheckerAcceptsExchangedOperands checks that a sum may be computed in the register of either
// operand.
func TestCheckerAcceptsExchangedOperands(t *testing.T) {
	f, before := allocated()
	b := f.Blocks[0]
	b.Insns[8].Args = []mach.Operand{mach.RegOp(mach.R3), mach.RegOp(mach.R0)}
	b.Insns[8].Dst = mach.R3
	b.Term.Args[0] = mach.RegOp(mach.R3)
	if err := before.check(f); err != nil {
		t.Error(err)
	}
}

// twoWays returns a function in which two blocks lead to b3, each with v0 or v1 in r1 for the
// parameter.
func twoWays(first, second mach.Reg) (*mach.Func, *snapshot) {
	f := &mach.Func{Name: "f"}
	b := []*mach.Block{f.NewBlock(), f.NewBlock(), f.NewBlock(), f.NewBlock()}
	v0, v1, p := f.NewVirt(), f.NewVirt(), f.NewVirt()
	b[0].Params, b[3].Params = []mach.Reg{v0, v1}, []mach.Reg{p}
	b[0].Term = mach.Term{Kind: mach.Br, Args: []mach.Operand{mach.RegOp(v0), mach.RegOp(v1)}, Succs: []mach.Edge{{To: b[1]}, {To: b[2]}}}
	for n, arg := range []mach.Reg{v0, v1} {
		b[1+n].Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{{To: b[3], Args: []mach.Operand{mach.RegOp(arg)}}}}
	}
	b[3].Term = mach.Term{Kind: mach.Exit, Args: []mach.Operand{mach.RegOp(p)}}
	before := takeSnapshot(f)
	b[0].Term.Args = []mach.Operand{mach.RegOp(mach.R1), mach.RegOp(mach.R2)}
	for n, from := range []mach.Reg{first, second} {
		b[1+n].Insns = []mach.Insn{{Op: mach.Mov, Dst: mach.R0, Args: []mach.Operand{mach.RegOp(from)}}}
	}
	b[3].Term.Args = []mach.Operand{mach.RegOp(mach.R0)}
	return f, before
}

// TestCheckerJoinsWays checks that a register holds a parameter if it does so on every path.
func TestCheckerJoinsWays(t *testing.T) {
	for _, c := range []struct {
		first, second mach.Reg
		ok            bool
	}{{mach.R1, mach.R2, true}, {mach.R2, mach.R2, false}, {mach.R1, mach.R1, false}} {
		f, before := twoWays(c.first, c.second)
		if err := before.check(f); (err == nil) != c.ok {
			t.Errorf("from %s and %s: error = %v", c.first, c.second, err)
		}
	}
}

// TestFrameLimit checks that a frame of 512 bytes fits, and one more slot does not.
func TestFrameLimit(t *testing.T) {
	for used, ok := range map[int]bool{496: true, 497: false, 504: false} {
		f := &mach.Func{Name: "f", FrameUsed: used}
		b := f.NewBlock()
		p := f.NewVirt()
		b.Params = []mach.Reg{p}
		var sum []mach.Insn
		for n := range 6 { // two more than the registers that survive a call
			v := f.NewVirt()
			b.Insns = append(b.Insns, mach.Insn{Op: mach.Load, Size: 8, Dst: v, Args: []mach.Operand{mach.RegOp(p)}, Off: 8 * n})
			sum = append(sum, mach.Insn{Op: mach.Store, Size: 8, Dst: mach.NoReg, Args: []mach.Operand{mach.RegOp(mach.R10), mach.RegOp(v)}, Off: -8})
		}
		b.Insns = append(append(b.Insns, mach.Insn{Op: mach.Call, Sym: "ktime_get_ns", Imm: 5, Dst: mach.NoReg}), sum...)
		b.Term = mach.Term{Kind: mach.Exit, Args: []mach.Operand{mach.ImmOp(0)}}
		err := Allocate(f, Options{Check: true})
		if (err == nil) != ok || ok && f.FrameUsed != 512 {
			t.Errorf("with %d bytes used before: FrameUsed = %d, error = %v", used, f.FrameUsed, err)
		}
	}
}

// TestCheckerSeesStaleCopies checks that a copy of a loop's parameter is only valid in the iteration
// that made it.
func TestCheckerSeesStaleCopies(t *testing.T) {
	for _, read := range []mach.Reg{mach.R1, mach.R2} {
		f := &mach.Func{Name: "f"}
		b := []*mach.Block{f.NewBlock(), f.NewBlock(), f.NewBlock()}
		v0, p, q := f.NewVirt(), f.NewVirt(), f.NewVirt()
		b[0].Params, b[1].Params = []mach.Reg{v0}, []mach.Reg{p}
		b[0].Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{{To: b[1], Args: []mach.Operand{mach.RegOp(v0)}}}}
		b[1].Insns = []mach.Insn{{Op: mach.Load, Size: 8, Dst: q, Args: []mach.Operand{mach.RegOp(p)}}}
		b[1].Term = mach.Term{Kind: mach.Br, Cond: ir.EQ, Args: []mach.Operand{mach.RegOp(p), mach.ImmOp(1)},
			Succs: []mach.Edge{{To: b[1], Args: []mach.Operand{mach.RegOp(q)}}, {To: b[2]}}}
		b[2].Term = mach.Term{Kind: mach.Exit, Args: []mach.Operand{mach.RegOp(p)}}
		before := takeSnapshot(f)
		old := b[1].Insns
		r := mach.RegOp
		b[0].Insns = []mach.Insn{{Op: mach.Mov, Dst: mach.R2, Args: []mach.Operand{r(mach.R1)}}}
		// The branch reads p in r3, as a move between the last read of r1 and the branch.
		b[1].Insns = []mach.Insn{
			{Op: mach.Mov, Dst: mach.R3, Args: []mach.Operand{r(mach.R1)}},
			{Op: mach.Load, Size: 8, Dst: mach.R1, Args: []mach.Operand{r(read)}, From: &old[0]},
		}
		b[1].Term.Args = []mach.Operand{r(mach.R3), mach.ImmOp(1)}
		b[2].Term.Args = []mach.Operand{r(mach.R3)}
		if err := before.check(f); (err == nil) != (read == mach.R1) {
			t.Errorf("the loop reads %s: error = %v", read, err)
		}
	}
}
