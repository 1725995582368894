// SPDX-License-Identifier: Apache-2.0

package ir_test

import (
	"math/rand"
	"testing"

	"btc/ir"
	"btc/ir/interp"
	"btc/tests/irgen"
)

// functions returns generated functions with branches and loops.
func functions(n int) []*ir.Module {
	r := rand.New(rand.NewSource(11))
	var list []*ir.Module
	for range n {
		data := make([]byte, 100+r.Intn(200))
		r.Read(data)
		list = append(list, irgen.Module(data, irgen.Mixed))
	}
	return list
}

// reach returns the blocks that can be reached from start without entering avoid.
func reach(start, avoid *ir.Block) map[*ir.Block]bool {
	seen := map[*ir.Block]bool{}
	work := []*ir.Block{start}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		if seen[b] || b == avoid {
			continue
		}
		seen[b] = true
		for _, e := range b.Term.Succs {
			work = append(work, e.To)
		}
	}
	return seen
}

func TestDominatorsByDefinition(t *testing.T) {
	for _, m := range functions(40) {
		f := m.Funcs[0]
		d := ir.Dominators(f)
		all := reach(f.Entry(), nil)
		for _, a := range f.Blocks {
			if d.Reachable(a) != all[a] {
				t.Fatalf("Reachable(b%d) = %t\n%s", a.ID, d.Reachable(a), f)
			}
			without := reach(f.Entry(), a)
			for _, b := range f.Blocks {
				if all[a] && all[b] && d.Dominates(a, b) != !without[b] {
					t.Fatalf("Dominates(b%d, b%d) = %t\n%s", a.ID, b.ID, d.Dominates(a, b), f)
				}
			}
		}
		for _, l := range ir.Loops(f, d).Loops {
			in := map[*ir.Block]bool{}
			for _, b := range l.Blocks {
				in[b] = true
				if !d.Dominates(l.Header, b) || !reach(b, nil)[l.Header] {
					t.Fatalf("b%d is not in the loop with header b%d\n%s", b.ID, l.Header.ID, f)
				}
			}
			if l.Parent != nil && (l.Depth != l.Parent.Depth+1 || l.Parent == l) {
				t.Fatalf("wrong depth of the loop with header b%d", l.Header.ID)
			}
			for _, p := range l.Latches {
				if !in[p] {
					t.Fatalf("latch b%d is not in its loop", p.ID)
				}
			}
		}
	}
}

// TestLivenessByDefinition checks that a value is live at the start of a block if and only if some path
// from there uses it.
func TestLivenessByDefinition(t *testing.T) {
	for _, m := range functions(20) {
		f := m.Funcs[0]
		l := ir.Live(f)
		usedIn := map[*ir.Value]map[*ir.Block]bool{}
		for _, b := range f.Blocks {
			use := func(v *ir.Value) {
				if v.ID >= 0 && v.Block != b {
					if usedIn[v] == nil {
						usedIn[v] = map[*ir.Block]bool{}
					}
					usedIn[v][b] = true
				}
			}
			for _, v := range b.Values {
				for _, a := range v.Args {
					use(a)
				}
			}
			b.Term.Uses(func(v **ir.Value) { use(*v) })
		}
		for v, blocks := range usedIn {
			for _, b := range ir.ReversePostorder(f) {
				want := false
				if b != v.Block {
					for u := range reach(b, v.Block) {
						want = want || blocks[u]
					}
				}
				if got := l.In(b, v); got != want {
					t.Fatalf("%s live at the start of b%d: %t\n%s", v, b.ID, got, f)
				}
			}
		}
	}
}

// TestEditsKeepMeaning checks that edits that only rearrange a module keep it valid and do not change
// its behavior.
func TestEditsKeepMeaning(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	for _, m := range functions(40) {
		after := m.Clone()
		f := after.Funcs[0]
		for range 5 {
			b := f.Blocks[r.Intn(len(f.Blocks))]
			if r.Intn(2) == 0 || len(b.Term.Succs) == 0 {
				rest := ir.SplitBlock(b, r.Intn(len(b.Values)+1))
				b.Jump(rest, ir.NoPos)
			} else {
				ir.SplitEdge(ir.Pred{Block: b, Succ: r.Intn(len(b.Term.Succs))})
			}
		}
		if err := ir.Verify(after); err != nil {
			t.Fatalf("%v\n%s", err, after)
		}
		if err := interp.Equivalent(m, after, irgen.Inputs()); err != nil {
			t.Fatalf("%v\n%s", err, after)
		}
	}
}

func TestCloneIsDeep(t *testing.T) {
	m := functions(1)[0]
	text := m.String()
	c := m.Clone()
	if c.String() != text {
		t.Fatalf("clone prints\n%s\nwant\n%s", c, text)
	}
	f := c.Funcs[0]
	f.Slots[0].Size = 99
	f.Uses(func(v **ir.Value) { *v = ir.Const(1) })
	c.Maps[0].Name = "@other"
	if m.String() != text {
		t.Error("changing the clone changed the module")
	}
}

// TestRewrite checks that Rewrite visits every op once, in order, after its operands have been
// replaced.
func TestRewrite(t *testing.T) {
	m := ir.MustParse(`
func @p prog (kind kprobe) {
b0(v0:ctx):
  v1:i64 = pid
  v2:i64 = tid
  v3:i64 = add v1, v2
  jump b1(v3)
b1(v4:i64):
  v5:i64 = uid
  v6:i64 = add v4, v5
  v7:i64 = add v6, v1
  ret v7
}`)
	f := m.Funcs[0]
	var offered []string
	ir.Rewrite(f, func(b *ir.Builder, v *ir.Value) (*ir.Value, bool) {
		offered = append(offered, v.Op.String())
		switch v.Op {
		case ir.OpPid:
			return ir.Const(7), true
		case ir.OpUid:
			x := b.Call("get_current_uid_gid", ir.TI64)
			return b.IfValue(b.ICmp(ir.EQ, x, ir.Const(0)), ir.TI64,
				func() *ir.Value { return ir.Const(1) },
				func() *ir.Value { return b.Extend(ir.U32, x) }), true
		case ir.OpAdd:
			if v.Args[0].IsConst() && v.Args[0].Imm != 7 {
				t.Errorf("operand not replaced: %s", v.Text())
			}
		}
		return nil, false
	})
	if err := ir.Verify(m); err != nil {
		t.Fatalf("%v\n%s", err, m)
	}
	want := "pid tid add uid add add"
	got := ""
	for i, s := range offered {
		if i > 0 {
			got += " "
		}
		got += s
	}
	if got != want {
		t.Errorf("visited %s, want %s", got, want)
	}
	k := interp.New(m)
	if r, err := k.Run(interp.Input{Prog: "p", PID: 99, TID: 5, UID: 30}); err != nil || r != 7+5+30+7 {
		t.Errorf("Run = %d, %v\n%s", r, err, m)
	}
}
