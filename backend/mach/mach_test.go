// SPDX-License-Identifier: Apache-2.0

package mach

import (
	"strings"
	"testing"

	"btc/ir"
)

// TestPrinterAndDisassemblerAgree encodes instructions in machine form and
// demands that the bytes print as the instruction does.
func TestPrinterAndDisassemblerAgree(t *testing.T) {
	r1, r2, r10 := RegOp(R1), RegOp(R2), RegOp(R10)
	list := []struct {
		i    Insn
		want string
	}{
		{Insn{Op: Mov, Dst: R1, Args: []Operand{r2}}, "r1 = r2"},
		{Insn{Op: Mov, Dst: R1, Args: []Operand{ImmOp(-5)}}, "r1 = -5"},
		{Insn{Op: Mov, W: true, Dst: R1, Args: []Operand{r2}}, "w1 = w2"},
		{Insn{Op: Add, Dst: R1, Args: []Operand{r1, r2}}, "r1 += r2"},
		{Insn{Op: Sub, Dst: R1, Args: []Operand{r1, r2}}, "r1 -= r2"},
		{Insn{Op: Mul, Dst: R1, Args: []Operand{r1, ImmOp(3)}}, "r1 *= 3"},
		{Insn{Op: Div, Dst: R1, Args: []Operand{r1, r2}}, "r1 /= r2"},
		{Insn{Op: Mod, Dst: R1, Args: []Operand{r1, ImmOp(10)}}, "r1 %= 10"},
		{Insn{Op: And, Dst: R1, Args: []Operand{r1, ImmOp(255)}}, "r1 &= 255"},
		{Insn{Op: Or, Dst: R1, Args: []Operand{r1, r2}}, "r1 |= r2"},
		{Insn{Op: Xor, Dst: R1, Args: []Operand{r1, r2}}, "r1 ^= r2"},
		{Insn{Op: Lsh, Dst: R1, Args: []Operand{r1, ImmOp(32)}}, "r1 <<= 32"},
		{Insn{Op: Rsh, Dst: R1, Args: []Operand{r1, ImmOp(32)}}, "r1 >>= 32"},
		{Insn{Op: Arsh, Dst: R1, Args: []Operand{r1, r2}}, "r1 s>>= r2"},
		{Insn{Op: Add, W: true, Dst: R1, Args: []Operand{r1, r2}}, "w1 += w2"},
		{Insn{Op: Neg, Dst: R1, Args: []Operand{r1}}, "r1 = -r1"},
		{Insn{Op: Swap, Size: 2, Dst: R1, Args: []Operand{r1}}, "r1 = be16 r1"},
		{Insn{Op: Load, Size: 4, Dst: R2, Args: []Operand{r1}, Off: 96}, "r2 = *(u32 *)(r1 +96)"},
		{Insn{Op: Load, Size: 8, Dst: R2, Args: []Operand{r10}, Off: -8}, "r2 = *(u64 *)(r10 -8)"},
		{Insn{Op: Store, Size: 1, Args: []Operand{r10, r2}, Off: -8}, "*(u8 *)(r10 -8) = r2"},
		{Insn{Op: Store, Size: 8, Args: []Operand{r10, ImmOp(-1)}, Off: -8}, "*(u64 *)(r10 -8) = -1"},
		{Insn{Op: XAdd, Size: 8, Args: []Operand{r1, r2}, Off: 0}, "lock *(u64 *)(r1 +0) += r2"},
		{Insn{Op: Call, Dst: R0, Imm: 1, Sym: "map_lookup_elem"}, "call bpf_map_lookup_elem#1"},
		{Insn{Op: CoreImm, Dst: R3}, "r3 = 0"},
	}
	for _, c := range list {
		if got := c.i.String(); got != c.want {
			t.Errorf("printed %q, want %q", got, c.want)
		}
		var code []byte
		for _, r := range c.i.Encode() {
			code = r.Append(code)
		}
		text, err := Disassemble(code, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(strings.TrimSpace(text), ") "); got != c.want {
			t.Errorf("disassembled %q, want %q", got, c.want)
		}
	}
}

func TestMacrosAndJumps(t *testing.T) {
	r1, r2 := RegOp(R1), RegOp(R2)
	code := []byte{}
	add := func(list ...Raw) {
		for _, r := range list {
			code = r.Append(code)
		}
	}
	clamp := Insn{Op: Select, Cond: ir.ULT, Dst: R1, Args: []Operand{r1, ImmOp(64), r1, ImmOp(1 << 40)}}
	add(clamp.Encode()...)
	frame := Insn{Op: Mov, Dst: R2, Args: []Operand{FrameOp(-16)}}
	add(frame.Encode()...)
	low := Insn{Op: Mov, Dst: R2, Args: []Operand{ImmOp(0xffffffff)}}
	add(low.Encode()...)
	add(RawBranch(ir.SLE, false, r1, r2, 3), RawBranch(ir.NE, false, r1, ImmOp(-1), -2), RawBranch(ir.SLT, true, r1, ImmOp(0), 1), RawJump(7), RawExit())
	got, err := Disassemble(code, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `   0: (a5) if r1 < 0x40 goto pc+2
   1: (18) r1 = 0x10000000000
   3: (bf) r2 = r10
   4: (07) r2 += -16
   5: (b4) w2 = -1
   6: (dd) if r1 s<= r2 goto pc+3
   7: (55) if r1 != 0xffffffff goto pc-2
   8: (c6) if w1 s< 0x0 goto pc+1
   9: (05) goto pc+7
  10: (95) exit
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
	if _, err := Disassemble(code[:9], nil); err == nil {
		t.Error("9 bytes were disassembled")
	}
}

// TestOrder checks what the allocator relies on: critical edges are split, cold blocks are last,
// blocks reachable only from cold ones are cold, and loops have their depth.
func TestOrder(t *testing.T) {
	f := &Func{Name: "f"}
	var b [7]*Block
	for n := range b {
		b[n] = f.NewBlock()
	}
	x := RegOp(Virt(0))
	br := func(from, yes, no int) {
		b[from].Term = Term{Kind: Br, Cond: ir.EQ, Args: []Operand{x, ImmOp(0)}, Succs: []Edge{{To: b[yes]}, {To: b[no]}}}
	}
	jump := func(from, to int) { b[from].Term = Term{Kind: Jump, Succs: []Edge{{To: b[to]}}} }
	br(0, 1, 3) // 0 -> 3 and 2 -> 1 are critical
	jump(1, 2)
	br(2, 1, 3)
	br(3, 4, 6)
	b[4].Cold = true
	jump(4, 5)
	b[5].Term = Term{Kind: Exit, Args: []Operand{ImmOp(0)}}
	b[6].Term = Term{Kind: Exit, Args: []Operand{ImmOp(1)}}
	f.Order()
	for _, x := range f.Blocks {
		for _, e := range x.Term.Succs {
			if len(x.Term.Succs) > 1 && len(e.To.Preds) > 1 {
				t.Errorf("critical edge b%d -> b%d", x.ID, e.To.ID)
			}
		}
	}
	if b[1].Depth != 1 || b[2].Depth != 1 || b[3].Depth != 0 {
		t.Errorf("depths %d %d %d, want 1 1 0", b[1].Depth, b[2].Depth, b[3].Depth)
	}
	if n := len(f.Blocks); !b[5].Cold || f.Blocks[n-2] != b[4] || f.Blocks[n-1] != b[5] {
		t.Error("the cold blocks are not last")
	}
}
