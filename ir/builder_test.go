// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/internal/arch"
	"btc/internal/probe"
)

// built returns the printed form of a program with a slot of 16 bytes and the instructions emitted by
// do.
func built(do func(b *Builder)) string {
	f := &Func{Name: "f", Prog: &Prog{Kind: probe.Kprobe}, Pos: NoPos}
	blk := f.NewBlock()
	blk.AddParam(TCtx)
	f.NewSlot("s", 16, 8)
	blk.Ret(Const(0), NoPos)
	do(AtEnd(blk, NoPos))
	_, body, _ := strings.Cut(f.String(), "align 8\n")
	return strings.TrimSuffix(body, "}\n")
}

// TestBuilder checks what the methods of a builder emit.
func TestBuilder(t *testing.T) {
	slot := &Slot{ID: 0, Size: 16, Align: 8}
	field := CORERef{Type: "struct x", Path: "y"}
	got := built(func(b *Builder) {
		x := b.Emit(OpPid, TI64)
		b.Add(x, b.Add(Const(2), Const(3)))
		b.AddImm(x, 0)
		b.Store(U64, b.AddImm(SlotAddr(slot, 4), 4), 0, x)
		b.Sub(x, Const(1))
		b.Mul(x, x)
		b.And(x, x)
		b.Or(x, x)
		b.Shl(x, x)
		b.LShr(x, x)
		b.AShr(x, x)
		b.Extend(U64, b.Extend(MemNone, x))
		b.Extend(U16, x)
		b.Extend(S32, x)
		c := b.ICmp(SGE, x, Const(7))
		b.Select(c, x, Const(1))
		b.BoolInt(c)
		b.Cast(TI64, x)
		p := b.Cast(TKAddr, x)
		b.IsNull(p)
		b.NotNull(p)
		b.Load(U32, SlotAddr(slot, 4), 4)
		b.Load(U32, SlotAddr(slot, 4), 0)
		b.LoadAs(TKAddr, U64, b.Func().Entry().Params[0], 8)
		b.LoadField(TI64, U16, b.Func().Entry().Params[0], field)
		b.Store(U8, SlotAddr(slot, 4), 4, x)
		b.AtomicAdd(U64, SlotAddr(slot, 0), 8, x)
		b.Zero(SlotAddr(slot, 0), 15, 8)
		b.Zero(SlotAddr(slot, 0), 3, 1)
		m := b.Call("map_lookup_elem", TMapVal("@x", true), MapOperand("@x"), SlotAddr(slot, 0))
		b.NonNull(m)
		b.CallSub("sub", x)
		b.CORE(TypeSize, CORERef{Type: "struct x"})
		b.Global(U32, "g", 4)
		b.GlobalAddr(TMapVal(".bss", false), "g", 8)
		b.Slot("t", 4, 2)
		b.KernelAddr([]*arch.Arch{arch.ByName("x86_64")}, p)
		b.OnArch(arch.ByName("arm64"))
		b.HasHelper("loop")
	})
	want := `  slot s1 "t" 4 align 2
b0(v0:ctx):
  v1:i64 = pid
  v2:i64 = add v1, 5
  store.u64 [s0+8], v1
  v4:i64 = sub v1, 1
  v5:i64 = mul v1, v1
  v6:i64 = and v1, v1
  v7:i64 = or v1, v1
  v8:i64 = shl v1, v1
  v9:i64 = lshr v1, v1
  v10:i64 = ashr v1, v1
  v11:i64 = zext.u16 v1
  v12:i64 = sext.s32 v1
  v13:i1 = icmp sge v1, 7
  v14:i64 = select v13, v1, 1
  v15:i64 = boolint v13
  v16:kaddr = cast v1
  v17:i1 = icmp eq v16, null
  v18:i1 = icmp ne v16, null
  v19:i64 = load.u32 [s0+8]
  v20:i64 = load.u32 [s0+4]
  v21:kaddr = load.u64 [v0+8]
  v22:i64 = load.u16 [v0+field(struct x:y)]
  store.u8 [s0+8], v1
  atomicadd.u64 [s0+8], v1
  store.u64 [s0+0], 0
  store.u32 [s0+8], 0
  store.u16 [s0+12], 0
  store.u8 [s0+14], 0
  store.u8 [s0+0], 0
  store.u8 [s0+1], 0
  store.u8 [s0+2], 0
  v32:mapval(@x)? = call map_lookup_elem(@x, s0+0)
  v33:mapval(@x) = nonnull v32
  v34:i64 = callsub sub(v1)
  v35:i64 = core type_size field(struct x)
  v36:i64 = global.u32 g #4
  v37:mapval(.bss) = globaladdr g #8
  v38:i64 = cast v16
  v39:i64 = shl v38, 0
  v40:i1 = icmp slt v39, 0
  v41:i64 = core field_exists field(struct pt_regs___aarch64:pstate)
  v42:i1 = icmp ne v41, 0
  v43:i64 = core enumval_exists field(enum bpf_func_id___loop:BPF_FUNC_loop)
  v44:i1 = icmp ne v43, 0
  ret 0
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// TestBuilderControlFlow checks the blocks that the builder creates.
func TestBuilderControlFlow(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(b *Builder, c *Value)
		want string
	}{
		{"if", func(b *Builder, c *Value) { b.If(c, func() { b.Emit(OpTid, TI64) }, nil) }, `
  br v1, b2, b1
b2:
  v2:i64 = tid
  jump b1
b1:
  ret 0
`},
		{"if and else", func(b *Builder, c *Value) {
			b.If(c, func() { b.Emit(OpTid, TI64) }, func() { b.Emit(OpUid, TI64) })
		}, `
  br v1, b2, b3
b2:
  v2:i64 = tid
  jump b1
b3:
  v3:i64 = uid
  jump b1
b1:
  ret 0
`},
		{"a branch that returns", func(b *Builder, c *Value) { b.If(c, func() { b.Ret(Const(1)) }, nil) }, `
  br v1, b2, b1
b2:
  ret 1
b1:
  ret 0
`},
		{"cold if", func(b *Builder, c *Value) { b.IfCold(c, func() {}) }, `
  br v1, b2, b1
b2 cold:
  jump b1
b1:
  ret 0
`},
		{"cold else", func(b *Builder, c *Value) { b.IfElseCold(c, func() {}, func() {}) }, `
  br v1, b2, b3
b2:
  jump b1
b3 cold:
  jump b1
b1:
  ret 0
`},
		{"value", func(b *Builder, c *Value) {
			v := b.IfValue(c, TI64, func() *Value { return Const(1) }, func() *Value { return b.Emit(OpTid, TI64) })
			b.BoolInt(b.ICmp(EQ, v, Const(1)))
		}, `
  br v1, b2, b3
b2:
  jump b1(1)
b3:
  v2:i64 = tid
  jump b1(v2)
b1(v3:i64):
  v4:i1 = icmp eq v3, 1
  v5:i64 = boolint v4
  ret 0
`},
		{"value of a branch that returns", func(b *Builder, c *Value) {
			b.IfValue(c, TI64, func() *Value { b.Ret(Const(1)); return nil }, func() *Value { return Const(2) })
		}, `
  br v1, b2, b3
b2:
  ret 1
b3:
  jump b1(2)
b1(v2:i64):
  ret 0
`},
		{"loop", func(b *Builder, c *Value) { b.Loop(3, func(i *Value) { b.Add(i, i) }) }, `
  jump b2(0)
b2(v2:i64):
  v3:i64 = add v2, v2
  v4:i64 = add v2, 1
  v5:i1 = icmp ult v4, 3
  br v5, b2(v4), b1
b1:
  ret 0
`},
		{"split", func(b *Builder, c *Value) {
			rest := b.Split()
			b.Br(c, rest, rest)
			b.SetBlock(rest)
		}, `
  br v1, b1, b1
b1:
  ret 0
`},
	} {
		got := built(func(b *Builder) { c.do(b, b.ICmp(EQ, Const(1), Const(2))) })
		want := "b0(v0:ctx):\n  v1:i1 = icmp eq 1, 2" + c.want
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got)\n%s", c.what, d)
		}
	}
}

// TestBuilderKeepsTheEnd checks that an unfinished block gets no terminator.
func TestBuilderKeepsTheEnd(t *testing.T) {
	for what, do := range map[string]func(b *Builder){
		"a block with a terminator": func(b *Builder) { b.Ret(Const(1)) },
		"before a value": func(b *Builder) {
			b.Emit(OpPid, TI64)
			b.block.Term = Term{}
			At(b.block, 0, NoPos).Ret(Const(1))
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: block has a terminator", what)
				}
			}()
			built(do)
		}()
	}
}

// TestRewriteLongBlock checks that instructions inserted into a long block have the same order as in a
// short one.
func TestRewriteLongBlock(t *testing.T) {
	for _, n := range []int{3, longBlock - 1, longBlock, longBlock + 1, 3 * longBlock} {
		f := &Func{Name: "f", Pos: NoPos}
		blk := f.NewBlock()
		var want []string
		for i := range n {
			blk.Append(OpTid, TI64, Pos{Line: i + 1, Col: 1, Stmt: -1})
			want = append(want, "pid uid")
		}
		blk.Ret(blk.Values[n-1], NoPos)
		Rewrite(f, func(b *Builder, v *Value) (*Value, bool) {
			if b.Pos != v.Pos {
				t.Errorf("position of the builder %v, of the value %v", b.Pos, v.Pos)
			}
			b.Emit(OpPid, TI64)
			return b.Emit(OpUid, TI64), true
		})
		var got []string
		for i, v := range blk.Values {
			got = append(got, v.Op.String())
			if v.Pos.Line != i/2+1 {
				t.Errorf("value %d: line %d, want %d", i, v.Pos.Line, i/2+1)
			}
		}
		if got, want := strings.Join(got, " "), strings.Join(want, " "); got != want {
			t.Errorf("%d values: got %s", n, got)
		}
		if blk.Term.Arg != blk.Values[2*n-1] {
			t.Errorf("%d values: the result is not the last one", n)
		}
	}
}
