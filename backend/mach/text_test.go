// SPDX-License-Identifier: Apache-2.0

package mach

import (
	"fmt"
	"strings"
	"testing"

	"btc/ir"
)

// TestEncode checks the bytes of instructions: code, source and destination, offset, immediate.
func TestEncode(t *testing.T) {
	r3, r4, r10 := RegOp(R3), RegOp(R4), RegOp(R10)
	for _, c := range []struct {
		i    Insn
		want string
	}{
		{Insn{Op: Mov, Dst: R3, Args: []Operand{r4}}, "bf 43 0000 00000000"},
		{Insn{Op: Mov, W: true, Dst: R3, Args: []Operand{r4}}, "bc 43 0000 00000000"},
		{Insn{Op: Mov, Dst: R3, Args: []Operand{ImmOp(-2)}}, "b7 03 0000 feffffff"},
		{Insn{Op: Mov, W: true, Dst: R3, Args: []Operand{ImmOp(7)}}, "b4 03 0000 07000000"},
		{Insn{Op: Mov, Dst: R3, Args: []Operand{ImmOp(0x80000000)}}, "b4 03 0000 00000080"},
		{Insn{Op: Mov, Dst: R3, Args: []Operand{ImmOp(0x1122334455667788)}}, "18 03 0000 88776655, 00 00 0000 44332211"},
		{Insn{Op: Mov, Dst: R3, Args: []Operand{FrameOp(-24)}}, "bf a3 0000 00000000, 07 03 0000 e8ffffff"},
		{Insn{Op: Mov, Dst: R3, Args: []Operand{{Kind: MapRef, Sym: "m"}}}, "18 13 0000 00000000, 00 00 0000 00000000"},
		{Insn{Op: Mov, Dst: R3, Args: []Operand{{Kind: FuncRef, Sym: "f"}}}, "18 43 0000 00000000, 00 00 0000 00000000"},
		{Insn{Op: Mov, Dst: R3, Args: []Operand{{Kind: GlobRef, Sym: "g"}}}, "18 03 0000 00000000, 00 00 0000 00000000"},
		{Insn{Op: Add, Dst: R3, Args: []Operand{r3, r4}}, "0f 43 0000 00000000"},
		{Insn{Op: Sub, Dst: R3, Args: []Operand{r3, ImmOp(5)}}, "17 03 0000 05000000"},
		{Insn{Op: Mul, Dst: R3, Args: []Operand{r3, r4}}, "2f 43 0000 00000000"},
		{Insn{Op: Div, Dst: R3, Args: []Operand{r3, r4}}, "3f 43 0000 00000000"},
		{Insn{Op: Or, Dst: R3, Args: []Operand{r3, r4}}, "4f 43 0000 00000000"},
		{Insn{Op: And, Dst: R3, Args: []Operand{r3, r4}}, "5f 43 0000 00000000"},
		{Insn{Op: Lsh, Dst: R3, Args: []Operand{r3, r4}}, "6f 43 0000 00000000"},
		{Insn{Op: Rsh, W: true, Dst: R3, Args: []Operand{r3, r4}}, "7c 43 0000 00000000"},
		{Insn{Op: Neg, Dst: R3, Args: []Operand{r3}}, "87 03 0000 00000000"},
		{Insn{Op: Mod, Dst: R3, Args: []Operand{r3, r4}}, "9f 43 0000 00000000"},
		{Insn{Op: Xor, Dst: R3, Args: []Operand{r3, r4}}, "af 43 0000 00000000"},
		{Insn{Op: Arsh, Dst: R3, Args: []Operand{r3, r4}}, "cf 43 0000 00000000"},
		{Insn{Op: Swap, Size: 4, Dst: R3, Args: []Operand{r3}}, "dc 03 0000 20000000"},
		{Insn{Op: CoreImm, Dst: R3}, "b7 03 0000 00000000"},
		{Insn{Op: IDImm, Dst: R3, Imm: 9}, "b7 03 0000 09000000"},
		{Insn{Op: Load, Size: 1, Dst: R3, Args: []Operand{r4}, Off: 258}, "71 43 0201 00000000"},
		{Insn{Op: Load, Size: 2, Dst: R3, Args: []Operand{r4}}, "69 43 0000 00000000"},
		{Insn{Op: Load, Size: 4, Dst: R3, Args: []Operand{r4}}, "61 43 0000 00000000"},
		{Insn{Op: Load, Size: 8, Dst: R3, Args: []Operand{r10}, Off: -8}, "79 a3 f8ff 00000000"},
		{Insn{Op: Store, Size: 2, Args: []Operand{r3, r4}, Off: 6}, "6b 43 0600 00000000"},
		{Insn{Op: Store, Size: 8, Args: []Operand{r3, ImmOp(-1)}, Off: 6}, "7a 03 0600 ffffffff"},
		{Insn{Op: XAdd, Size: 8, Args: []Operand{r3, r4}, Off: 6}, "db 43 0600 00000000"},
		{Insn{Op: XAdd, Size: 4, Args: []Operand{r3, r4}}, "c3 43 0000 00000000"},
		{Insn{Op: Call, Dst: R0, Imm: 14, Sym: "get_current_pid_tgid"}, "85 00 0000 0e000000"},
		{Insn{Op: CallSub, Dst: R0, Sym: "f"}, "85 10 0000 ffffffff"},
		{Insn{Op: Select, Cond: ir.SGT, Dst: R3, Args: []Operand{r3, r4, r3, ImmOp(1)}}, "6d 43 0100 00000000, b7 03 0000 01000000"},
		{Insn{Op: Select, Cond: ir.UGE, Dst: R3, Args: []Operand{r4, ImmOp(3), r3, FrameOp(-8)}},
			"35 04 0200 03000000, bf a3 0000 00000000, 07 03 0000 f8ffffff"},
	} {
		if got := slots(c.i.Encode()...); got != c.want {
			t.Errorf("%s: %s, want %s", &c.i, got, c.want)
		}
	}
}

// TestEncodeArithmetic checks the code of each operation, in 64 and in 32 bits.
func TestEncodeArithmetic(t *testing.T) {
	for op, code := range map[Op]uint8{Add: 0x0, Sub: 0x1, Mul: 0x2, Div: 0x3, Or: 0x4, And: 0x5, Lsh: 0x6, Rsh: 0x7, Mod: 0x9,
		Xor: 0xa, Arsh: 0xc} {
		for w, class := range map[bool]uint8{false: 7, true: 4} {
			i := Insn{Op: op, W: w, Dst: R3, Args: []Operand{RegOp(R3), ImmOp(2)}}
			if got, want := slots(i.Encode()...), fmt.Sprintf("%x%x 03 0000 02000000", code, class); got != want {
				t.Errorf("%s: %s, want %s", &i, got, want)
			}
		}
	}
}

// TestEncodeJumps checks the bytes of jumps, with the code of each condition.
func TestEncodeJumps(t *testing.T) {
	r3, r4 := RegOp(R3), RegOp(R4)
	for code, c := range map[string]ir.Cond{"1d": ir.EQ, "2d": ir.UGT, "3d": ir.UGE, "5d": ir.NE, "6d": ir.SGT, "7d": ir.SGE,
		"ad": ir.ULT, "bd": ir.ULE, "cd": ir.SLT, "dd": ir.SLE} {
		if got, want := slots(RawBranch(c, false, r3, r4, -2)), code+" 43 feff 00000000"; got != want {
			t.Errorf("branch on %s: %s, want %s", c, got, want)
		}
		if got, want := slots(RawBranch(c, true, r3, ImmOp(8), 1)), code[:1]+"6 03 0100 08000000"; got != want {
			t.Errorf("branch on %s in 32 bits: %s, want %s", c, got, want)
		}
	}
	for want, r := range map[string]Raw{
		"1e 43 0100 00000000": RawBranch(ir.EQ, true, r3, r4, 1),
		"16 03 0100 40000000": RawBranch(ir.EQ, true, r3, ImmOp(64), 1),
		"05 00 0700 00000000": RawJump(7),
		"95 00 0000 00000000": RawExit(),
	} {
		if got := slots(r); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// slots formats code in hexadecimal.
func slots(list ...Raw) string {
	var text []string
	for _, r := range list {
		p := r.Append(nil)
		text = append(text, fmt.Sprintf("%x %x %x %x", p[:1], p[1:2], p[2:4], p[4:]))
	}
	return strings.Join(text, ", ")
}

func TestDecode(t *testing.T) {
	want := Raw{Code: 0x7b, Dst: 10, Src: 3, Off: -8, Imm: -2}
	raw, err := Decode(want.Append(RawExit().Append(nil)))
	if err != nil || len(raw) != 2 || raw[0] != RawExit() || raw[1] != want {
		t.Errorf("Decode = %v, %v", raw, err)
	}
}

// TestDisassemble covers instructions that only other compilers generate.
func TestDisassemble(t *testing.T) {
	for _, c := range []struct {
		raw  Raw
		want string
	}{
		{Raw{Code: 0xd4, Dst: 3, Imm: 16}, "r3 = le16 r3"},
		{Raw{Code: 0xdc, Dst: 3, Imm: 64}, "r3 = be64 r3"},
		{Raw{Code: 0x84, Dst: 3}, "w3 = -w3"},
		{Raw{Code: 0xa4, Dst: 3, Imm: 6}, "w3 ^= 6"},
		{Raw{Code: 0xe7, Dst: 3}, "unknown e7"},
		{Raw{Code: 0x85, Src: 1, Imm: -3}, "call pc-3"},
		{Raw{Code: 0x85, Imm: 14}, "call bpf_get_current_pid_tgid#14"},
		{Raw{Code: 0x85, Imm: 1 << 20}, "call unknown#1048576"},
		{Raw{Code: 0x45, Dst: 3, Imm: 8, Off: 1}, "if r3 & 0x8 goto pc+1"},
		{Raw{Code: 0x2e, Dst: 3, Src: 4, Off: 1}, "if w3 > w4 goto pc+1"},
		{Raw{Code: 0x06, Off: 1}, "unknown 06"},
		{Raw{Code: 0xe5}, "unknown e5"},
		{Raw{Code: 0x30, Imm: 4}, "unknown 30"},
		{Raw{Code: 0x81, Dst: 3, Src: 4}, "unknown 81"},
		{Raw{Code: 0x82, Dst: 3}, "unknown 82"},
		{Raw{Code: 0xdb, Dst: 3, Src: 4, Imm: 1}, "unknown db"},
		{Raw{Code: 0xc3, Dst: 3, Src: 4, Off: 4}, "lock *(u32 *)(r3 +4) += r4"},
		{Raw{Code: 0xbb, Dst: 3, Src: 4}, "unknown bb"},
		{Raw{Code: 0x6a, Dst: 3, Imm: 7}, "*(u16 *)(r3 +0) = 7"},
		{Raw{Code: 0x18, Dst: 3, Imm: -1}, "r3 = 0xffffffff"}, // truncated after the first slot
	} {
		got, err := Disassemble(c.raw.Append(nil), nil)
		if want := fmt.Sprintf("   0: (%02x) %s\n", c.raw.Code, c.want); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

// TestDisassembleNotes checks that a note names the symbol of a slot, or comments on it.
func TestDisassembleNotes(t *testing.T) {
	var code []byte
	m := Insn{Op: Mov, Dst: R1, Args: []Operand{{Kind: MapRef, Sym: "AT_x"}}}
	for _, r := range append(m.Encode(), Raw{Code: 0x85, Imm: 1}, RawExit()) {
		code = r.Append(code)
	}
	got, err := Disassemble(code, func(slot int) (symbol, comment string) {
		return map[int]string{0: "map[AT_x]", 2: "f"}[slot], map[int]string{3: "the end"}[slot]
	})
	want := "   0: (18) r1 = map[AT_x]\n   2: (85) call f\n   3: (95) exit ; the end\n"
	if err != nil || got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestDisassembleWide checks that a 64-bit constant occupies two slots.
func TestDisassembleWide(t *testing.T) {
	var code []byte
	i := Insn{Op: Mov, Dst: R1, Args: []Operand{ImmOp(0x1122334455667788)}}
	for _, r := range i.Encode() {
		code = r.Append(code)
	}
	want := "   0: (18) r1 = 0x1122334455667788\n"
	if got, err := Disassemble(code, nil); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// TestPrint checks the printed form of instructions on virtual registers.
func TestPrint(t *testing.T) {
	v0, v1 := RegOp(Virt(0)), RegOp(Virt(1))
	for _, c := range []struct {
		i    Insn
		want string
	}{
		{Insn{Op: Add, Dst: Virt(2), Args: []Operand{v0, v1}}, "v2 = v0 + v1"},
		{Insn{Op: Sub, W: true, Dst: Virt(2), Args: []Operand{v0, v1}}, "v2.w = v0.w - v1.w"},
		{Insn{Op: Mov, Dst: NoReg, Args: []Operand{v0}}, "_ = v0"},
		{Insn{Op: Mov, Dst: Virt(2), Args: []Operand{{Kind: MapRef, Sym: "m"}}}, "v2 = map[m]"},
		{Insn{Op: Mov, Dst: Virt(2), Args: []Operand{{Kind: GlobRef, Sym: "g", Imm: 8}}}, "v2 = &g+8"},
		{Insn{Op: Mov, Dst: Virt(2), Args: []Operand{{Kind: FuncRef, Sym: "f"}}}, "v2 = &f"},
		{Insn{Op: Mov, Dst: Virt(2), Args: []Operand{FrameOp(-8)}}, "v2 = r10 -8"},
		{Insn{Op: Mov, Dst: Virt(2), Args: []Operand{{}}}, "v2 = none"},
		{Insn{Op: IDImm, Dst: Virt(2), Imm: 3}, "v2 = 3 ; attachid"},
		{Insn{Op: Select, Cond: ir.ULT, Dst: Virt(2), Args: []Operand{v0, ImmOp(64), v0, ImmOp(63)}}, "v2 = v0 < 0x40 ? v0 : 63"},
		{Insn{Op: Select, Cond: ir.SLE, Dst: R1, Args: []Operand{v0, v1, RegOp(R1), ImmOp(63)}}, "if v0 s<= v1 skip r1 = 63"},
		{Insn{Op: Call, Dst: Virt(2), Sym: "loop", Imm: 181, Args: []Operand{v0, ImmOp(3)}}, "v2 = call bpf_loop#181(v0, 3)"},
		{Insn{Op: Call, Dst: NoReg, Sym: "loop", Imm: 181}, "call bpf_loop#181"},
		{Insn{Op: Call, Dst: R0, Sym: "loop", Imm: 181, Args: []Operand{RegOp(R1)}, From: &Insn{}}, "call bpf_loop#181"},
		{Insn{Op: CallSub, Dst: Virt(2), Sym: "f", Args: []Operand{v0}}, "v2 = call f(v0)"},
		{Insn{Op: Load, Size: 4, Dst: Virt(2), Args: []Operand{v0}, Off: 8, Relocated: true, Kind: ir.FieldByteOffset,
			CORE: ir.CORERef{Type: "struct s", Path: "x"}}, "v2 = *(u32 *)(v0 +8) ; core byte_off struct s:x"},
	} {
		if got := c.i.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// TestPrintFunc checks the printed form of blocks and their terminators.
func TestPrintFunc(t *testing.T) {
	f := &Func{Name: "f", FrameUsed: 16}
	f.ReserveBlockIDs(4)
	f.ReserveBlockIDs(2)
	a, b, c, d := f.NewBlock(), f.NewBlock(), f.NewBlock(), f.NewBlock()
	x, y := f.NewVirt(), f.NewVirt()
	a.Params = []Reg{x, y}
	a.Insns = []Insn{{Op: Mov, Dst: x, Args: []Operand{ImmOp(1)}}}
	a.Term = Term{Kind: Br, W: true, Cond: ir.UGE, Args: []Operand{RegOp(x), ImmOp(-1)}, Succs: []Edge{{To: b}, {To: c, Args: []Operand{RegOp(y)}}}}
	b.Term = Term{Kind: Exit, Args: []Operand{ImmOp(1)}}
	b.Cold = true
	c.Term = Term{Kind: Exit, Args: []Operand{RegOp(R0)}}
	d.Params = []Reg{x}
	want := `func f frame 16
b4(v0, v1):
  v0 = 1
  if low 32 bits of v0 >= 0xffffffff goto b5 else b6(v1)
b5: ; cold
  exit 1
b6:
  exit
b7(v0):
  no terminator
`
	if got := f.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestConditionSigns checks that the instruction printer and the disassembler use the same signs.
func TestConditionSigns(t *testing.T) {
	signs := map[ir.Cond]string{ir.EQ: "==", ir.NE: "!=", ir.ULT: "<", ir.ULE: "<=", ir.UGT: ">", ir.UGE: ">=",
		ir.SLT: "s<", ir.SLE: "s<=", ir.SGT: "s>", ir.SGE: "s>="}
	for c, sign := range signs {
		if got, want := condText(c, RegOp(R1), RegOp(R2)), "r1 "+sign+" r2"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		text, err := Disassemble(RawBranch(c, false, RegOp(R1), RegOp(R2), 1).Append(nil), nil)
		if want := "if r1 " + sign + " r2 goto pc+1\n"; err != nil || !strings.HasSuffix(text, want) {
			t.Errorf("%q, want %q", text, want)
		}
	}
}

// TestOperations checks the properties of operations that the allocator uses.
func TestOperations(t *testing.T) {
	names := [numOps]string{Mov: "mov", Add: "add", Sub: "sub", Mul: "mul", Div: "div", Mod: "mod", And: "and", Or: "or", Xor: "xor",
		Lsh: "lsh", Rsh: "rsh", Arsh: "arsh", Neg: "neg", Swap: "swap", CoreImm: "core", IDImm: "id", Load: "load", Store: "store",
		XAdd: "xadd", Select: "select", Call: "call", CallSub: "callsub"}
	for _, c := range []struct {
		what string
		is   func(Op) bool
		want string
	}{
		{"tied", Op.Tied, "add sub mul div mod and or xor lsh rsh arsh neg swap"},
		{"commutative", Op.Commutative, "add mul and or xor"},
		{"call", Op.IsCall, "call callsub"},
	} {
		var got []string
		for op := range numOps {
			if c.is(op) {
				got = append(got, names[op])
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestOperandKinds checks that an immediate operand is a sign-extended 32-bit number.
func TestOperandKinds(t *testing.T) {
	for _, c := range []struct {
		o                Operand
		reg, virt, imm32 bool
	}{
		{RegOp(R1), true, false, false}, {RegOp(Virt(0)), true, true, false}, {FrameOp(-8), false, false, false},
		{ImmOp(1<<31 - 1), false, false, true}, {ImmOp(1 << 31), false, false, false},
		{ImmOp(-1 << 31), false, false, true}, {ImmOp(-1<<31 - 1), false, false, false},
	} {
		if c.o.IsReg() != c.reg || c.o.IsVirt() != c.virt || c.o.IsImm32() != c.imm32 {
			t.Errorf("%s: IsReg() = %t, IsVirt() = %t, IsImm32() = %t", c.o, c.o.IsReg(), c.o.IsVirt(), c.o.IsImm32())
		}
	}
}

// TestBadFormPanics checks that encoding panics for forms that are invalid after allocation.
func TestBadFormPanics(t *testing.T) {
	for _, i := range []Insn{
		{Op: Add, Dst: R1, Args: []Operand{RegOp(R2), RegOp(R1)}},
		{Op: Neg, Dst: R1, Args: []Operand{RegOp(R2)}},
		{Op: Swap, Size: 2, Dst: R1, Args: []Operand{RegOp(R2)}},
		{Op: Select, Dst: R1, Args: []Operand{RegOp(R1), RegOp(R1), RegOp(R2), RegOp(R3)}},
		{Op: Add, Dst: R1, Args: []Operand{RegOp(R1), ImmOp(1 << 40)}},
		{Op: Add, Dst: R1, Args: []Operand{RegOp(R1), RegOp(Virt(0))}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no panic for %s", &i)
				}
			}()
			i.Encode()
		}()
	}
}
