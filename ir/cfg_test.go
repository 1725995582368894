// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"strings"
	"testing"
)

// flow returns a function given the successors of its blocks: "1 2, 2, -" branches from b0 to b1 or b2,
// jumps from b1 to b2, and returns in b2.
func flow(text string) *Func {
	var s strings.Builder
	s.WriteString("func @f() {\n")
	for n, succs := range strings.Split(text, ", ") {
		fmt.Fprintf(&s, "b%d:\n", n)
		switch to := strings.Fields(succs); {
		case to[0] == "-":
			s.WriteString("  ret 0\n")
		case len(to) == 1:
			fmt.Fprintf(&s, "  jump b%s\n", to[0])
		default:
			fmt.Fprintf(&s, "  br true, b%s, b%s\n", to[0], to[1])
		}
	}
	return MustParse(s.String() + "}\n").Funcs[0]
}

func blockNames(list []*Block) string {
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(join(list, func(b *Block) string { return fmt.Sprintf("b%d", b.ID) })), "["), "]")
}

// TestLoops checks the loops found in graphs: header, latches, blocks, parent, depth.
func TestLoops(t *testing.T) {
	for _, c := range []struct {
		graph       string
		irreducible bool
		want        string
	}{
		{"1, -", false, ""},
		{"1, 1 2, -", false, "b1 from b1: b1 depth 1"},
		{"1, 2 3, 1, -", false, "b1 from b2: b1, b2 depth 1"},
		{"1, 2 5, 3 4, 2, 1, -", false, "b1 from b4: b1, b2, b3, b4 depth 1; b2 from b3: b2, b3 depth 2 in b1"},
		{"1, 2 4, 3 1, 1, -", false, "b1 from b2, b3: b1, b2, b3 depth 1"},
		{"1, 1 2, 2 3, -", false, "b1 from b1: b1 depth 1; b2 from b2: b2 depth 1"},
		{"1 2, 2, 1 3, -", true, ""},
		{"1, 2, -, 1", false, ""}, // b3 is unreachable
		{"1, 2 3, 1, -, 2", false, "b1 from b2: b1, b2 depth 1"},
	} {
		f := flow(c.graph)
		n := Loops(f, Dominators(f))
		var got []string
		for _, l := range n.Loops {
			s := fmt.Sprintf("b%d from %s: %s depth %d", l.Header.ID, blockNames(l.Latches), blockNames(l.Blocks), l.Depth)
			if l.Parent != nil {
				s += fmt.Sprintf(" in b%d", l.Parent.Header.ID)
			}
			got = append(got, s)
			if n.Of(l.Header) != l {
				t.Errorf("%s: wrong innermost loop of b%d", c.graph, l.Header.ID)
			}
		}
		if got := strings.Join(got, "; "); got != c.want || n.Irreducible != c.irreducible {
			t.Errorf("%s: %s, irreducible %t; want %s, %t", c.graph, got, n.Irreducible, c.want, c.irreducible)
		}
	}
}

// TestDominatorTree checks immediate dominators and their children, in order.
func TestDominatorTree(t *testing.T) {
	f := flow("1 2, 3, 3, 4 5, -, -, 3")
	d := Dominators(f)
	if got := blockNames(d.Order); got != "b0, b1, b2, b3, b4, b5" {
		t.Errorf("order = %s", got)
	}
	for id, want := range []string{"b1, b2, b3", "", "", "b4, b5", "", "", ""} {
		if got := blockNames(d.children[f.Blocks[id].ID]); got != want {
			t.Errorf("children of b%d: %s, want %s", id, got, want)
		}
		for _, c := range d.children[f.Blocks[id].ID] {
			if d.Idom(c) != f.Blocks[id] {
				t.Errorf("Idom(b%d) = %v", c.ID, d.Idom(c))
			}
		}
	}
	entry, lost := f.Blocks[0], f.Blocks[6]
	if d.Idom(entry) != nil || d.Idom(lost) != nil || d.Reachable(lost) || d.Dominates(entry, lost) || d.Dominates(lost, entry) {
		t.Error("unreachable block in the dominator tree")
	}
}

// TestPreds checks that a predecessor is listed once for each edge.
func TestPreds(t *testing.T) {
	f := flow("1 1, 2, -, 1")
	var got []string
	for _, p := range Preds(f)[1] {
		got = append(got, fmt.Sprintf("b%d.%d", p.Block.ID, p.Succ))
		if p.Edge().To != f.Blocks[1] {
			t.Error("predecessor edge of b1 does not lead to b1")
		}
	}
	if got := strings.Join(got, " "); got != "b0.0 b0.1 b3.0" {
		t.Errorf("predecessors = %s", got)
	}
}

// TestLiveBlocks checks where a value is live.
func TestLiveBlocks(t *testing.T) {
	f := MustParse(`func @f(i64) {
b0(v0:i64):
  v1:i64 = add v0, 1
  br true, b1, b2
b1:
  jump b3(v1)
b2:
  jump b3(v0)
b3(v2:i64):
  v3:i64 = add v2, v0
  br true, b3(v3), b4
b4:
  ret v3
}`).Funcs[0]
	l := Live(f)
	v := []*Value{f.Blocks[0].Params[0], f.Blocks[0].Values[0], f.Blocks[3].Params[0], f.Blocks[3].Values[0]}
	for id, want := range []string{"b1, b2, b3", "b1", "", "b4"} {
		if got := blockNames(l.Blocks(v[id])); got != want {
			t.Errorf("v%d is live at the start of %s, want %s", id, got, want)
		}
	}
	if !l.Out(f.Blocks[0], v[1]) || l.Out(f.Blocks[1], v[1]) || !l.Out(f.Blocks[3], v[0]) || l.Out(f.Blocks[4], v[3]) {
		t.Error("wrong set of values live at the end of a block")
	}
	if l.In(f.Blocks[0], Const(1)) || l.Blocks(Const(1)) != nil {
		t.Error("constant is live")
	}
	s := NewValueSet(f)
	s.Add(v[3])
	s.Add(Const(1))
	if !s.Has(v[3]) || s.Has(v[2]) || s.Has(Const(1)) {
		t.Error("set does not have the added elements")
	}
}
