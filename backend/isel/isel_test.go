// SPDX-License-Identifier: Apache-2.0

package isel

import (
	"errors"
	"strings"
	"testing"

	"btc/backend/mach"
	"btc/ir"
)

// TestEveryCoreOpIsSelected builds one program for each core op from its row in the op table. Selection
// panics for ops without a case.
func TestEveryCoreOpIsSelected(t *testing.T) {
	for n := range ir.Ops {
		op := ir.Op(n)
		info := op.Info()
		switch op {
		case ir.OpMapIter, ir.OpMapNext, ir.OpMapKey, ir.OpRangeIter, ir.OpRangeNext, ir.OpRangeCut, // lowered before
			ir.OpSaved, ir.OpPerArch: // lowered before
			continue
		}
		if info.Stage != ir.Core || info.Inline || op == ir.OpInvalid {
			continue
		}
		t.Run(info.Name, func(t *testing.T) {
			f := &ir.Func{Name: "f"}
			b := f.NewBlock()
			ctx := b.AddParam(ir.TCtx)
			number := b.Append(ir.OpLoad, ir.TI64, ir.NoPos, ctx)
			number.Mem = ir.U64
			slot := f.NewSlot("s", 8, 8)
			slot.Class, slot.Off = ir.Frame, -8
			v := f.NewValue(op, resultOf(info), ir.NoPos)
			for _, kind := range info.Args {
				arg := number
				switch kind {
				case ir.PtrArg, ir.AddrArg:
					arg = ir.SlotAddr(slot, 0)
				case ir.BoolArg:
					arg = b.Append(ir.OpICmp, ir.TI1, ir.NoPos, number, ir.Const(3))
				}
				v.Args = append(v.Args, arg)
			}
			v.Mem, v.Sym = ir.U32, "ktime_get_ns"
			b.AppendValue(v)
			result := v
			if v.Type == ir.TVoid {
				result = ir.Const(0)
			}
			b.Ret(result, ir.NoPos)
			out, err := Select(f, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Blocks) != 1 || out.Blocks[0].Term.Kind != mach.Exit {
				t.Errorf("selected\n%s", out)
			}
		})
	}
}

func resultOf(info *ir.OpInfo) ir.Type {
	switch info.Result {
	case ir.RVoid:
		return ir.TVoid
	case ir.RI1:
		return ir.TI1
	}
	return ir.TI64
}

func selected(t *testing.T, body string) string {
	t.Helper()
	m, err := ir.Parse("module m\nmap (name @x, shape plain)\nfunc @f prog (kind self, section \"raw_tp\") {\n slot s0 \"\" 16 align 8 frame -16\n" + body + "}\n")
	if err != nil {
		t.Fatal(err)
	}
	f, err := Select(m.Funcs[0], ir.LayoutGlobals(m))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(f.String(), "\n")
	return text
}

func TestFolding(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"comparison in its branch, unused load dropped", `b0(v0:ctx):
 v1:i64 = load.u64 [v0+8]
 v2:i64 = load.u64 [v0+16]
 v3:i1 = icmp ugt 8, v1
 br v3, b1, b2
b1:
 ret 1
b2:
 ret v1
`, `b0(v0):
  v1 = *(u64 *)(v0 +8)
  if v1 < 0x8 goto b1 else b2
b1:
  exit 1
b2:
  exit v1
`},
		{"offsets, frame addresses, constants", `b0(v0:ctx):
 v1:mapval(@x)? = call map_lookup_elem(@x, s0+8)
 v2:mapval(@x) = nonnull v1
 v3:mapval(@x) = add v2, 16
 v4:i64 = load.s32 [v3-4]
 store.u16 [s0+2], 0xffff
 store.u64 [v3+0], 0x100000000
 ret v4
`, `b0(v0):
  v1 = call bpf_map_lookup_elem#1(map[@x], r10 -8)
  v2 = *(u32 *)(v1 +12)
  v3 = v2 << 32
  v4 = v3 s>> 32
  *(u16 *)(r10 -14) = 65535
  v5 = 4294967296
  *(u64 *)(v1 +16) = v5
  exit v4
`},
		{"a relocated offset is not folded", `b0(v0:ctx):
 v1:btf(struct sock) = load.u64 [v0+0]
 v2:i64 = load.u16 [v1+4+field(struct sock:__sk_common.skc_dport)]
 ret v2
`, `b0(v0):
  v1 = *(u64 *)(v0 +0)
  v2 = v1 + 4
  v3 = *(u16 *)(v2 +0) ; core byte_off struct sock:__sk_common.skc_dport
  exit v3
`},
		{"parameters with a single incoming edge, constant branches", `b0(v0:ctx):
 v1:i64 = load.u64 [v0+0]
 br true, b1(v1, 5), b2
b1(v2:i64, v3:i64):
 v4:i64 = mul v3, v2
 ret v4
b2:
 ret 0
`, `b0(v0):
  v1 = *(u64 *)(v0 +0)
  goto b1
b1:
  v2 = v1 * 5
  exit v2
`},
		{"rejected by the kernel: shift by 64, division by constant 0", `b0(v0:ctx):
 v1:i64 = load.u64 [v0+0]
 v2:i64 = shl v1, 65
 v3:i64 = umod v2, 0
 v4:i64 = udiv v3, 0
 v5:i64 = add v3, v4
 ret v5
`, `b0(v0):
  v1 = *(u64 *)(v0 +0)
  v2 = v1 << 1
  v3 = 0
  v4 = v2 + v3
  exit v4
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := selected(t, c.body); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestUnknownHelper(t *testing.T) {
	f := &ir.Func{Name: "f"}
	b := f.NewBlock()
	b.Append(ir.OpCall, ir.TI64, ir.Pos{Line: 3, Col: 4}).Sym = "no_such"
	b.Ret(ir.Const(0), ir.NoPos)
	_, err := Select(f, nil)
	var e ir.Diag
	if !errors.As(err, &e) || e.Pos.Line != 3 {
		t.Errorf("got %v", err)
	}
}

// TestBinary checks that each op with the trait Binary, and no other, is selected to an instruction.
func TestBinary(t *testing.T) {
	for i := range ir.Ops {
		op := ir.Op(i)
		if _, ok := binary[op]; ok != op.Is(ir.Binary) {
			t.Errorf("%v: selected to an instruction: %v", op, ok)
		}
	}
}
