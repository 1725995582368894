// SPDX-License-Identifier: Apache-2.0

package mach

import (
	"fmt"
	"strings"
	"testing"

	"btc/ir"
)

// graph builds a function from lines "block successors": "0 1 2" branches to 1 or 2; "1 2" jumps;
// "2" exits. Suffixes of a block: "!" cold, "c" calls, "(n)" has n parameters, for which every
// incoming edge passes 0.
func graph(text string) (*Func, []*Block) {
	f := &Func{Name: "f"}
	var rows [][]string
	for line := range strings.SplitSeq(text, ", ") {
		rows = append(rows, strings.Fields(line))
		f.NewBlock()
	}
	b := f.Blocks
	for n, row := range rows {
		b[n].Cold = strings.Contains(row[0], "!")
		if strings.Contains(row[0], "c") {
			b[n].Insns = []Insn{{Op: Add}, {Op: Call}}
		}
		if _, count, ok := strings.Cut(row[0], "("); ok {
			for range count[0] - '0' {
				b[n].Params = append(b[n].Params, f.NewVirt())
			}
		}
	}
	for n, row := range rows {
		t := &b[n].Term
		t.Kind = []TermKind{Exit, Jump, Br}[len(row)-1]
		t.Pos = ir.Pos{Line: n + 1}
		for _, to := range row[1:] {
			e := Edge{To: b[to[0]-'0']}
			for range e.To.Params {
				e.Args = append(e.Args, ImmOp(0))
			}
			t.Succs = append(t.Succs, e)
		}
	}
	return f, b
}

// TestOrders checks the order of blocks. Blocks that Order adds have the next numbers.
func TestOrders(t *testing.T) {
	for _, c := range []struct{ what, graph, want string }{
		{"in a line", "0 1, 1 2, 2", "0 1 2"},
		{"an unreachable block is removed", "0 2, 1 2, 2", "0 2"},
		{"the first target of a branch follows it", "0 1 2, 1, 2", "0 1 2"},
		{"a block follows all of its predecessors", "0 2 1, 1 2, 2", "0 3 1 2"},
		{"a loop is contiguous", "0 1, 1 2 3, 2 4, 3, 4 1", "0 1 2 4 3"},
		{"a loop whose exit is the first target is contiguous", "0 1, 1 3 2, 2 4, 3, 4 1", "0 1 2 4 3"},
		{"in cold code the exit is first", "0 5 1, 1! 3 2, 2 4, 3, 4 1, 5", "0 5 6 1 3 2 4"},
		{"cold blocks are last", "0 1 2, 1!, 2", "0 2 1"},
		{"an edge with arguments has a block", "0 1 2, 1(1), 2", "0 3 1 2"},
		{"a critical edge has a block", "0 1 2, 1 2, 2", "0 1 3 2"},
		{"an edge of a jump has no block", "0 1, 1(1)", "0 1"},
		{"a critical back edge has a block", "0 1, 1 1 2, 2", "0 1 3 2"},
		{"an entry in a loop has a predecessor", "0 1 2, 1 0, 2", "3 0 1 2"},
		{"an entry that is its own loop", "0 0 1, 1", "2 0 3 1"},
	} {
		f, _ := graph(c.graph)
		f.Order()
		var got []string
		for n, b := range f.Blocks {
			got = append(got, fmt.Sprint(b.ID))
			if b.Index != n {
				t.Errorf("%s: block b%d has index %d, want %d", c.what, b.ID, b.Index, n)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: order %s, want %s", c.what, got, c.want)
		}
	}
}

// TestOrderAnnotates checks the annotations that Order adds to blocks: "!" cold, loop depth, "c"
// header of a loop that calls, predecessors.
func TestOrderAnnotates(t *testing.T) {
	for _, c := range []struct{ what, graph, want string }{
		{"predecessors", "0 1 2, 1 3, 2 3, 3", "b0 b1<0 b2<0 b3<1<2"},
		{"a block dominated by a cold one is cold", "0 1 2, 1! 3, 2, 3 4 5, 4, 5", "b0 b2<0 b1!<0 b3!<1 b4!<3 b5!<3"},
		{"a block with only cold predecessors is cold", "0 1 2, 1! 3, 2! 3, 3", "b0 b1!<0 b2!<0 b3!<1<2"},
		{"a block with a hot predecessor is not cold", "0 1 2, 1! 3, 2 3, 3", "b0 b2<0 b3<1<2 b1!<0"},
		{"back edges do not count", "0 1 2, 1! 3, 2! 3, 3 4 5, 4 3, 5", "b0 b1!<0 b2!<0 b3!+1<1<2<4 b4!+1<3 b5!<3"},
		{"the entry is not cold", "0! 1, 1", "b0 b1<0"},
		{"a block on an edge to a cold one is cold", "0 1 2, 1 2, 2!", "b0 b1<0 b3!<0 b2!<1<3"},
		{"a block on an edge from a cold one is cold", "0 1 4, 1! 2 3, 2 4, 3, 4", "b0 b5<0 b4<2<5 b1!<0 b2!<1 b3!<1"},
		{"the header of a loop that calls", "0 1, 1 2 3, 2c 1, 3", "b0 b1+1c<0<2 b2+1<1 b3<1"},
		{"a call outside a loop", "0c 1, 1 2 3, 2 1, 3c", "b0 b1+1<0<2 b2+1<1 b3<1"},
		{"nested loops", "0 1, 1 2 5, 2 3 4, 3c 2, 4 1, 5", "b0 b1+1c<0<4 b6+1<1 b2+2c<6<3 b3+2<2 b4+1<2 b5<1"},
		{"two back edges of one loop", "0 1, 1 2 5, 2 3 4, 3 1, 4 1, 5", "b0 b1+1<0<3<4 b2+1<1 b3+1<2 b4+1<2 b5<1"},
	} {
		f, _ := graph(c.graph)
		f.Order()
		var got []string
		for _, b := range f.Blocks {
			s := fmt.Sprintf("b%d", b.ID)
			if b.Cold {
				s += "!"
			}
			if b.Depth > 0 {
				s += fmt.Sprintf("+%d", b.Depth)
			}
			if b.LoopCall {
				s += "c"
			}
			for _, p := range b.Preds {
				s += fmt.Sprintf("<%d", p.ID)
			}
			got = append(got, s)
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, got, c.want)
		}
	}
}

// TestOrderTwice checks that a second call replaces the annotations of the first.
func TestOrderTwice(t *testing.T) {
	f, b := graph("0 1, 1 2 3, 2c 1, 3")
	f.Order()
	f.Order()
	if b[1].Depth != 1 || !b[1].LoopCall || len(b[1].Preds) != 2 {
		t.Errorf("depth %d, loop call %t, %d predecessors; want 1 true 2", b[1].Depth, b[1].LoopCall, len(b[1].Preds))
	}
	b[2].Insns, b[2].Term = nil, Term{Kind: Exit}
	f.Order()
	if b[1].Depth != 0 || b[1].LoopCall {
		t.Error("block is the header of a removed loop")
	}
}

// TestOrderKeepsArguments checks that blocks added by Order pass on the arguments of their edges.
func TestOrderKeepsArguments(t *testing.T) {
	f, b := graph("0(2) 1 2, 1 0, 2(1)")
	b[0].Term.Args = []Operand{RegOp(b[0].Params[1]), ImmOp(0)}
	b[0].Term.Succs[1].Args = []Operand{RegOp(b[0].Params[0])}
	f.Order()
	want := `func f frame 0
b3(v3, v4):
  goto b0(v3, v4)
b0(v0, v1):
  if v1 == 0x0 goto b1 else b4
b1:
  goto b0(0, 0)
b4:
  goto b2(v0)
b2(v2):
  exit
`
	if got := f.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, n := range []int{0, 3} {
		if line := f.Blocks[n].Term.Pos.Line; line != 1 {
			t.Errorf("b%d has line %d, want 1", f.Blocks[n].ID, line)
		}
	}
}

func TestDominators(t *testing.T) {
	f, b := graph("0 1 2, 1 3, 2 3, 3 4 5, 4 6, 5 6, 6 3 7, 7")
	f.Order()
	d := f.Dominators()
	for _, c := range []struct {
		a, b int
		want bool
	}{
		{0, 0, true}, {0, 7, true}, {1, 3, false}, {2, 3, false}, {3, 4, true}, {3, 5, true}, {3, 6, true},
		{3, 7, true}, {6, 7, true}, {4, 6, false}, {5, 6, false}, {6, 3, false}, {7, 6, false}, {1, 2, false}, {3, 3, true},
	} {
		if got := d.Dominates(b[c.a], b[c.b]); got != c.want {
			t.Errorf("b%d dominates b%d: %t, want %t", c.a, c.b, got, c.want)
		}
	}
}
