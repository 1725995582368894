// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEdits checks the printed function after each edit.
func TestEdits(t *testing.T) {
	const diamond = `b0(v0:ctx):
  v1:i64 = pid
  v2:i1 = icmp eq v1, 1
  br v2, b1, b2(v1)
b1 cold:
  v3:i64 = tid
  jump b3(v3, 5)
b2(v4:i64):
  jump b3(v4, 6)
b3(v5:i64, v6:i64):
  v7:i64 = add v5, 1
  ret v7
`
	for _, c := range []struct {
		what, text string
		do         func(f *Func)
		want       string
	}{
		{"insert", "b0(v0:ctx):\n  v1:i64 = pid\n  ret v1\n", func(f *Func) {
			f.Blocks[0].Insert(0, f.NewValue(OpTid, TI64, NoPos))
		}, "b0(v0:ctx):\n  v2:i64 = tid\n  v1:i64 = pid\n  ret v1\n"},
		{"remove", "b0(v0:ctx):\n  v1:i64 = pid\n  v2:i64 = tid\n  ret v2\n", func(f *Func) {
			v := f.Blocks[0].Values[0]
			f.Blocks[0].Remove(0)
			if v.Block != nil {
				t.Error("removed value still in a block")
			}
		}, "b0(v0:ctx):\n  v2:i64 = tid\n  ret v2\n"},
		{"replace uses", diamond, func(f *Func) { ReplaceUses(f, f.Blocks[0].Values[0], Const(9)) },
			strings.NewReplacer("icmp eq v1", "icmp eq 9", "b2(v1)", "b2(9)").Replace(diamond)},
		{"a chain of replacements", diamond, func(f *Func) {
			a, b := f.Blocks[0].Values[0], f.Blocks[1].Values[0]
			Subst{a: b, b: Const(4), f.Blocks[3].Values[0]: f.Blocks[3].Values[0]}.Apply(f)
		}, strings.NewReplacer("icmp eq v1", "icmp eq 4", "b2(v1)", "b2(4)", "b3(v3,", "b3(4,").Replace(diamond)},
		{"split a block", diamond, func(f *Func) { f.Blocks[0].Jump(SplitBlock(f.Blocks[0], 1), NoPos) },
			strings.Replace(diamond, "  v2:i1", "  jump b4\nb4:\n  v2:i1", 1)},
		{"split a cold block", diamond, func(f *Func) { f.Blocks[1].Jump(SplitBlock(f.Blocks[1], 0), NoPos) },
			strings.Replace(diamond, "  v3:i64 = tid", "  jump b4\nb4 cold:\n  v3:i64 = tid", 1)},
		{"split an edge to a cold block", diamond, func(f *Func) { SplitEdge(Pred{f.Blocks[0], 0}) },
			strings.Replace(diamond, "b1, b2(v1)\n", "b4, b2(v1)\nb4 cold:\n  jump b1\n", 1)},
		{"split an edge with arguments", diamond, func(f *Func) { SplitEdge(Pred{f.Blocks[0], 1}) },
			strings.Replace(diamond, "b1, b2(v1)\n", "b1, b4\nb4:\n  jump b2(v1)\n", 1)},
		{"remove a parameter", diamond, func(f *Func) { RemoveParam(f.Blocks[3], 1, Preds(f)[3]) },
			strings.NewReplacer(", 5)", ")", ", 6)", ")", ", v6:i64", "").Replace(diamond)},
		{"remove unreachable blocks", "b0(v0:ctx):\n  ret 0\nb1:\n  jump b0\n", func(f *Func) {
			if !RemoveUnreachable(f) {
				t.Error("no unreachable blocks removed")
			}
			if RemoveUnreachable(f) {
				t.Error("unreachable blocks found by a second call")
			}
		}, "b0(v0:ctx):\n  ret 0\n"},
		{"copy blocks", diamond, func(f *Func) {
			values := Subst{}
			copies := CopyBlocks(f, f.Blocks[2:4], values)
			if len(copies) != 2 || copies[f.Blocks[2]] != f.Blocks[4] || values[f.Blocks[3].Values[0]] != f.Blocks[5].Values[0] {
				t.Error("wrong names of copies")
			}
		}, diamond + "b4(v8:i64):\n  jump b5(v8, 6)\nb5(v9:i64, v10:i64):\n  v11:i64 = add v9, 1\n  ret v11\n"},
		{"copy a cold block", diamond, func(f *Func) { CopyBlocks(f, f.Blocks[1:2], Subst{}) },
			diamond + "b4 cold:\n  v8:i64 = tid\n  jump b3(v8, 5)\n"},
	} {
		m := MustParse("func @p prog (kind kprobe) {\n" + c.text + "}\n")
		f := m.Funcs[0]
		c.do(f)
		_, got, _ := strings.Cut(f.String(), "{\n")
		if d := cmp.Diff(c.want+"}\n", got); d != "" {
			t.Errorf("%s (-want +got)\n%s", c.what, d)
		}
		for _, b := range f.Blocks {
			for i, v := range b.Values {
				if v.Block != b || v.Index() != i {
					t.Errorf("%s: %s: wrong Block", c.what, v.Text())
				}
			}
		}
	}
}

// TestMoveBlocks checks that blocks are renumbered in the function that they are moved to.
func TestMoveBlocks(t *testing.T) {
	m := MustParse("func @p prog (kind kprobe) {\nb0(v0:ctx):\n  jump b1(1)\nb1(v1:i64):\n  v2:i64 = add v1, 1\n  ret v2\n}\n" +
		"func @f(i64) {\nb0(v0:i64):\n  ret v0\n}\n")
	from, to := m.Funcs[0], m.Funcs[1]
	MoveBlocks(from, to, slices.Clone(from.Blocks[1:]))
	want := "func @f(i64) {\nb0(v0:i64):\n  ret v0\nb1(v1:i64):\n  v2:i64 = add v1, 1\n  ret v2\n}\n"
	if got := to.String(); got != want || len(from.Blocks) != 1 || to.Blocks[1].Func != to {
		t.Errorf("got\n%s%s", got, from)
	}
	if id := to.NewBlock().ID; id != 2 {
		t.Errorf("next block = b%d, want b2", id)
	}
	if id := to.NewValue(OpPid, TI64, NoPos).ID; id != 3 {
		t.Errorf("next value = v%d, want v3", id)
	}
}

// TestNewBlockAfter checks that a new block follows the given one, wherever the previous one was
// inserted.
func TestNewBlockAfter(t *testing.T) {
	f := &Func{Name: "f"}
	for range 30 {
		f.NewBlock()
	}
	for _, i := range []int{0, 20, 5, 31, 32, 0, 7} {
		after := f.Blocks[i]
		if nb := f.NewBlockAfter(after); f.Blocks[i+1] != nb || f.Blocks[i] != after {
			t.Errorf("no block inserted after index %d", i)
		}
	}
}

func TestUseCounts(t *testing.T) {
	m := MustParse("func @f(i64) {\nb0(v0:i64):\n  v1:i64 = add v0, v0\n  v2:i64 = add v1, 3\n  jump b1(v1)\nb1(v3:i64):\n  ret v1\n}\n")
	if d := cmp.Diff([]int{2, 3, 0, 0}, UseCounts(m.Funcs[0])); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// TestCloneParts checks that a clone shares nothing with the module.
func TestCloneParts(t *testing.T) {
	m := MustParse("map (name @x)\nglobal (name g, size 8)\nevent (name e, fields [(name a)])\n" +
		"func @f(i64) {\n  slot s0 \"\" 8 align 8\nb0(v0:i64):\n  store.u64 [s0+0], v0\n  jump b1(v0)\nb1(v1:i64) cold:\n  ret v1\n}\n")
	text := m.String()
	c := m.Clone()
	c.Globals[0].Size, c.Events[0].Fields[0].Name, c.Events[0].Name = 1, "b", "f"
	f := c.Funcs[0]
	f.Params[0] = TCtx
	f.Blocks[1].Cold = false
	f.Blocks[0].Term.Succs[0].Args[0] = Const(1)
	f.Blocks[0].Values[0].Args[0].Slot.ID = 3
	f.Blocks[1].Term.Arg.Type = TCtx
	if got := m.String(); got != text {
		t.Errorf("changing the clone changed the module:\n%s", cmp.Diff(text, got))
	}
	for _, b := range f.Blocks {
		if b.Func != f || b.Params[0].Block != b {
			t.Errorf("b%d of the clone belongs to another function", b.ID)
		}
	}
}
