// SPDX-License-Identifier: Apache-2.0

package emit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"btc/backend/mach"
	"btc/ir"
)

// code builds a function from lines such as "b0: r1=5 r2+=1 call7 ->b1": moves and additions of
// constants, moves r1=r2, helper calls, and the ends "->b1" (jump), "?b1:b2" (branch on r0 == 1)
// and "exit". "b0!" is cold. "add9", "div9" and "wide9" are nine additions, divisions and two-slot
// moves.
func code(text string) *mach.Func {
	f := &mach.Func{Name: "f", Pos: ir.Pos{Line: 1, Col: 1}}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	blocks := map[string]*mach.Block{}
	for _, line := range lines {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		b := f.NewBlock()
		b.Cold = strings.HasSuffix(name, "!")
		blocks[strings.TrimSuffix(name, "!")] = b
	}
	for n, line := range lines {
		b := f.Blocks[n]
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for _, word := range strings.Fields(rest) {
			var a, c int
			switch {
			case word == "exit":
				b.Term = mach.Term{Kind: mach.Exit, Args: []mach.Operand{mach.RegOp(mach.R0)}}
			case word[0] == '?':
				yes, no, _ := strings.Cut(word[1:], ":")
				b.Term = mach.Term{Kind: mach.Br, Cond: ir.EQ, Args: []mach.Operand{mach.RegOp(mach.R0), mach.ImmOp(1)},
					Succs: []mach.Edge{{To: blocks[yes]}, {To: blocks[no]}}}
			case strings.HasPrefix(word, "->"):
				b.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{{To: blocks[word[2:]]}}}
			case scan(word, "call%d", &a):
				b.Insns = append(b.Insns, mach.Insn{Op: mach.Call, Dst: mach.R0, Imm: int64(a), Sym: "f"})
			case scan(word, "r%d=r%d", &a, &c):
				b.Insns = append(b.Insns, mach.Insn{Op: mach.Mov, Dst: mach.Reg(a), Args: []mach.Operand{mach.RegOp(mach.Reg(c))}})
			case scan(word, "w%d=w%d", &a, &c):
				b.Insns = append(b.Insns, mach.Insn{Op: mach.Mov, W: true, Dst: mach.Reg(a), Args: []mach.Operand{mach.RegOp(mach.Reg(c))}})
			case scan(word, "r%d=%d", &a, &c):
				b.Insns = append(b.Insns, mach.Insn{Op: mach.Mov, Dst: mach.Reg(a), Args: []mach.Operand{mach.ImmOp(int64(c))}})
			case scan(word, "r%d+=%d", &a, &c):
				b.Insns = append(b.Insns, mach.Insn{Op: mach.Add, Dst: mach.Reg(a), Args: []mach.Operand{mach.RegOp(mach.Reg(a)), mach.ImmOp(int64(c))}})
			case scan(word, "add%d", &a), scan(word, "div%d", &a), scan(word, "wide%d", &a):
				r9, one := mach.RegOp(mach.R9), mach.ImmOp(1)
				i := mach.Insn{Op: mach.Add, Dst: mach.R9, Args: []mach.Operand{r9, one}}
				switch word[0] {
				case 'd':
					i.Op = mach.Div
				case 'w':
					i.Op, i.Args = mach.Mov, []mach.Operand{mach.ImmOp(1 << 40)}
				}
				b.Insns = append(b.Insns, slices.Repeat([]mach.Insn{i}, a)...)
			default:
				panic("unknown word " + word)
			}
		}
	}
	return f
}

func scan(word, format string, into ...any) bool {
	n, err := fmt.Sscanf(word, format, into...)
	return err == nil && n == len(into)
}

// lines prints f in the notation of code.
func lines(f *mach.Func) string {
	var s strings.Builder
	for _, b := range f.Blocks {
		fmt.Fprintf(&s, "b%d", b.ID)
		if b.Cold {
			s.WriteByte('!')
		}
		s.WriteByte(':')
		for _, i := range b.Insns {
			switch reg := "r"; i.Op {
			case mach.Call:
				fmt.Fprintf(&s, " call%d", i.Imm)
			case mach.Mov:
				if i.W {
					reg = "w"
				}
				fmt.Fprintf(&s, " %s%d=%s", reg, i.Dst, strings.Replace(i.Args[0].String(), "r", reg, 1))
			case mach.Add:
				fmt.Fprintf(&s, " r%d+=%s", i.Dst, i.Args[1])
			}
		}
		switch t := b.Term; t.Kind {
		case mach.Exit:
			s.WriteString(" exit\n")
		case mach.Jump:
			fmt.Fprintf(&s, " ->b%d\n", t.Succs[0].To.ID)
		case mach.Br:
			fmt.Fprintf(&s, " ?b%d:b%d\n", t.Succs[0].To.ID, t.Succs[1].To.ID)
		}
	}
	return s.String()
}

// TestTidy checks the transformation of functions before they are encoded.
func TestTidy(t *testing.T) {
	for _, c := range []struct{ what, before, after string }{
		{"a move of a register to itself is removed", `
			b0: r1=r1 r2=1 exit`, `
			b0: r2=1 exit`},
		{"a 32-bit move clears the upper half", `
			b0: w1=w1 exit`, `
			b0: w1=w1 exit`},
		{"jumps to empty blocks are threaded", `
			b0: ?b1:b2
			b1: ->b3
			b2: r1=1 ->b3
			b3: r2=2 exit`, `
			b0: ?b3:b2
			b2: r1=1 ->b3
			b3: r2=2 exit`},
		{"a branch with equal targets becomes a jump", `
			b0: r0=1 ?b1:b2
			b1: ->b2
			b2: r2=2 exit`, `
			b0: r0=1 r2=2 exit`},
		{"a loop of empty blocks is kept", `
			b0: ?b1:b3
			b1: ->b2
			b2: ->b1
			b3: r1=1 exit`, `
			b0: ?b1:b3
			b1: ->b1
			b3: r1=1 exit`},
		{"unreachable blocks are removed", `
			b0: r0=1 exit
			b1: r0=2 exit`, `
			b0: r0=1 exit`},
		{"a chain is merged into one block", `
			b0: r1=1 ->b1
			b1: r2=2 ->b2
			b2: r3=3 exit`, `
			b0: r1=1 r2=2 r3=3 exit`},
		{"a cold block is not merged with a hot one", `
			b0: r1=1 ->b1
			b1!: r2=2 exit`, `
			b0: r1=1 ->b1
			b1!: r2=2 exit`},
		{"a block with two predecessors is not merged", `
			b0: ?b1:b2
			b1: r1=1 ->b3
			b2: r2=2 ->b3
			b3: r3=3 exit`, `
			b0: ?b1:b2
			b1: r1=1 ->b3
			b2: r2=2 ->b3
			b3: r3=3 exit`},
		{"a loop to the entry is kept", `
			b0: r1=1 ->b1
			b1: r2=2 ?b0:b2
			b2: r3=3 exit`, `
			b0: r1=1 r2=2 ?b0:b2
			b2: r3=3 exit`},
		{"a jump back to the entry is kept", `
			b0: r1=1 ?b1:b2
			b1: r2=2 ->b0
			b2: r3=3 exit`, `
			b0: r1=1 ?b1:b2
			b1: r2=2 ->b0
			b2: r3=3 exit`},
		{"the entry is kept", `
			b0: r1=1 ?b1:b2
			b1: r2=2 ?b3:b4
			b2: exit
			b3: r1=1 ?b1:b2
			b4: r4=4 ?b3:b2`, `
			b0: r1=1 ?b1:b2
			b1: r2=2 ?b3:b4
			b2: exit
			b3: r1=1 ?b1:b2
			b4: r4=4 ?b3:b2`},
		{"identical loops of one block are kept", `
			b0: ?b1:b2
			b1: r1=1 ->b1
			b2: r1=1 ->b1`, `
			b0: ?b1:b2
			b1: r1=1 ->b1
			b2: r1=1 ->b1`},
		{"nothing is shared if the first targets differ", `
			b0: r1=1 ?b1:b2
			b1: r2=2 ?b2:b3
			b2: r2=2 ?b3:b4
			b3: r3=3 exit
			b4: r4=4 exit`, `
			b0: r1=1 ?b1:b2
			b1: r2=2 ?b2:b3
			b2: r2=2 ?b3:b4
			b3: r3=3 exit
			b4: r4=4 exit`},
		{"nothing is shared if the second targets differ", `
			b0: r1=1 ?b1:b2
			b1: r2=2 ?b3:b4
			b2: r2=2 ?b3:b5
			b3: r3=3 exit
			b4: r4=4 exit
			b5: r5=5 exit`, `
			b0: r1=1 ?b1:b2
			b1: r2=2 ?b3:b4
			b2: r2=2 ?b3:b5
			b3: r3=3 exit
			b4: r4=4 exit
			b5: r5=5 exit`},
		{"cold blocks with the same successor share their tails", `
			b0: ?b1:b2
			b1!: r1=1 r3=3 ->b4
			b2: ?b3:b4
			b3!: r1=2 r3=3 ->b4
			b4: r0=0 ?b0:b5
			b5: r5=5 exit`, `
			b0: ?b1:b2
			b1!: r1=1 ->b6
			b6!: r3=3 ->b4
			b2: ?b3:b4
			b3!: r1=2 ->b6
			b4: r0=0 ?b0:b5
			b5: r5=5 exit`},
		{"cold blocks with different successors do not", `
			b0: ?b1:b2
			b1!: r1=1 r3=3 ->b4
			b2: ?b3:b4
			b3!: r1=2 r3=3 ->b5
			b4: r0=0 ?b0:b5
			b5: r5=5 ?b0:b4`, `
			b0: ?b1:b2
			b1!: r1=1 r3=3 ->b4
			b2: ?b3:b4
			b3!: r1=2 r3=3 ->b5
			b4: r0=0 ?b0:b5
			b5: r5=5 ?b0:b4`},
		{"a call at the end is not shared", `
			b0: ?b1:b2
			b1!: r1=1 call7 exit
			b2: ?b3:b4
			b3!: r1=2 call7 exit
			b4: r0=0 exit`, `
			b0: ?b1:b2
			b1!: r1=1 call7 exit
			b2: ?b3:b4
			b3!: r1=2 call7 exit
			b4: r0=0 exit`},
		{"a shorter exit block before a longer one", `
			b0: ?b1:b2
			b1: r0=0 exit
			b2: r1=1 r0=0 exit`, `
			b0: ?b1:b2
			b1: r0=0 exit
			b2: r1=1 r0=0 exit`},
		{"identical blocks are merged", `
			b0: ?b1:b2
			b1: r1=1 r2=2 ->b3
			b2: ?b4:b3
			b3: r3=3 exit
			b4: r1=1 r2=2 ->b3`, `
			b0: ?b4:b2
			b2: ?b4:b3
			b3: r3=3 exit
			b4: r1=1 r2=2 ->b3`},
		{"identical blocks with different successors", `
			b0: ?b1:b2
			b1: r1=1 ->b3
			b2: r1=1 ->b4
			b3: r3=3 ?b0:b4
			b4: r4=4 ?b3:b5
			b5: r5=5 exit`, `
			b0: ?b1:b2
			b1: r1=1 ->b3
			b2: r1=1 ->b4
			b3: r3=3 ?b0:b4
			b4: r4=4 ?b3:b5
			b5: r5=5 exit`},
		{"identical exits are merged", `
			b0: ?b1:b2
			b1: call7 r0=0 exit
			b2: ?b3:b4
			b3: call7 r0=0 exit
			b4: r0=1 exit`, `
			b0: ?b3:b2
			b2: ?b3:b4
			b3: call7 r0=0 exit
			b4: r0=1 exit`},
		{"calls are not shared before a jump", `
			b0: ?b1:b2
			b1: call7 ->b3
			b2: r1=1 ?b4:b3
			b3: r3=3 ?b0:b5
			b4: call7 ->b3
			b5: exit`, `
			b0: ?b1:b2
			b1: call7 ->b3
			b2: r1=1 ?b4:b3
			b3: r3=3 ?b0:b5
			b4: call7 ->b3
			b5: exit`},
		{"of identical blocks, the hot one is kept", `
			b0: ?b1:b2
			b1: r1=1 r0=0 exit
			b2: r2=2 ?b3:b1
			b3!: r1=1 r0=0 exit`, `
			b0: ?b1:b2
			b1: r1=1 r0=0 exit
			b2: r2=2 ->b1`},
		{"a cold block jumps to the tail of another one", `
			b0: ?b1:b2
			b1!: r1=1 r3=3 exit
			b2: ?b3:b4
			b3!: r1=2 r3=3 exit
			b4: exit`, `
			b0: ?b1:b2
			b1!: r1=1 ->b5
			b5!: r3=3 exit
			b2: ?b3:b4
			b3!: r1=2 ->b5
			b4: exit`},
		{"a hot block shares a tail of three instructions", `
			b0: ?b1:b2
			b1: r1=1 r3=3 r4=4 r5=5 exit
			b2: r1=2 r3=3 r4=4 r5=5 exit`, `
			b0: ?b1:b2
			b1: r1=1 ->b3
			b3: r3=3 r4=4 r5=5 exit
			b2: r1=2 ->b3`},
		{"a hot block does not share a tail of two instructions", `
			b0: ?b1:b2
			b1: r1=1 r4=4 r5=5 exit
			b2: r1=2 r4=4 r5=5 exit`, `
			b0: ?b1:b2
			b1: r1=1 r4=4 r5=5 exit
			b2: r1=2 r4=4 r5=5 exit`},
		{"a tail that is followed by a fallthrough is not shared", `
			b0: ?b1:b2
			b1: r1=1 r3=3 r4=4 r5=5 ->b3
			b2: r1=2 r3=3 r4=4 r5=5 ->b3
			b3: r0=3 exit`, `
			b0: ?b1:b2
			b1: r1=1 r3=3 r4=4 r5=5 ->b3
			b2: r1=2 r3=3 r4=4 r5=5 ->b3
			b3: r0=3 exit`},
		{"a whole block is the tail of another one", `
			b0: ?b1:b2
			b1!: r3=3 exit
			b2: ?b3:b4
			b3!: r1=2 r3=3 exit
			b4: r0=0 exit`, `
			b0: ?b1:b2
			b1!: r3=3 exit
			b2: ?b3:b4
			b3!: r1=2 ->b1
			b4: r0=0 exit`},
		{"no call in a shared tail", `
			b0: ?b1:b2
			b1!: r1=1 call7 r3=3 exit
			b2: ?b3:b4
			b3!: r1=2 call7 r3=3 exit
			b4: exit`, `
			b0: ?b1:b2
			b1!: r1=1 call7 ->b5
			b5!: r3=3 exit
			b2: ?b3:b4
			b3!: r1=2 call7 ->b5
			b4: exit`},
		{"three blocks with the same tail", `
			b0: ?b1:b2
			b1!: r1=1 r3=3 exit
			b2: ?b3:b4
			b3!: r1=2 r3=3 exit
			b4: ?b5:b6
			b5!: r1=4 r3=3 exit
			b6: exit`, `
			b0: ?b1:b2
			b1!: r1=1 ->b7
			b7!: r3=3 exit
			b2: ?b3:b4
			b3!: r1=2 ->b7
			b4: ?b5:b6
			b5!: r1=4 ->b7
			b6: exit`},
		{"an exit falls through to an identical exit after it", `
			b0: ?b1:b2
			b1: r1=1 r0=0 exit
			b2: r0=0 exit`, `
			b0: ?b1:b2
			b1: r1=1 ->b2
			b2: r0=0 exit`},
		{"an exit does not fall through to a different one", `
			b0: ?b1:b2
			b1: r1=1 r0=1 exit
			b2: r0=0 exit`, `
			b0: ?b1:b2
			b1: r1=1 r0=1 exit
			b2: r0=0 exit`},
	} {
		f := code(c.before)
		tidy(f)
		want := strings.ReplaceAll(strings.TrimPrefix(c.after, "\n"), "\t", "") + "\n"
		if d := cmp.Diff(want, lines(f)); d != "" {
			t.Errorf("%s (-want +got)\n%s", c.what, d)
		}
	}
}

// TestAlike checks that instructions with different encodings are not alike.
func TestAlike(t *testing.T) {
	x := mach.Insn{Op: mach.Add, Dst: mach.R1, Args: []mach.Operand{mach.RegOp(mach.R1), mach.ImmOp(1)}}
	same := x
	same.Pos, same.Spill = ir.Pos{Line: 7}, 3
	if !alike(&x, &same) || digest([]mach.Insn{x}) != digest([]mach.Insn{same}) {
		t.Error("instructions that differ only in their position are not alike")
	}
	for what, change := range map[string]func(i *mach.Insn){
		"operation": func(i *mach.Insn) { i.Op = mach.Sub }, "width": func(i *mach.Insn) { i.W = true },
		"condition": func(i *mach.Insn) { i.Cond = ir.SLE }, "size": func(i *mach.Insn) { i.Size = 4 },
		"destination": func(i *mach.Insn) { i.Dst = mach.R2 }, "offset": func(i *mach.Insn) { i.Off = 8 },
		"immediate": func(i *mach.Insn) { i.Imm = 8 }, "symbol": func(i *mach.Insn) { i.Sym = "x" },
		"field":      func(i *mach.Insn) { i.CORE.Type = "struct x" },
		"kind":       func(i *mach.Insn) { i.Kind = ir.TypeSize },
		"relocation": func(i *mach.Insn) { i.Relocated = true },
		"operand":    func(i *mach.Insn) { i.Args = []mach.Operand{mach.RegOp(mach.R1), mach.ImmOp(2)} },
	} {
		y := x
		change(&y)
		if alike(&x, &y) || allAlike([]mach.Insn{x}, []mach.Insn{y}) {
			t.Errorf("instructions with a different %s are alike", what)
		}
	}
	if allAlike([]mach.Insn{x}, []mach.Insn{x, x}) || !allAlike([]mach.Insn{x, x}, []mach.Insn{x, same}) {
		t.Error("alike is wrong for lists")
	}
}

// TestSameTerm checks that different terminators are not the same.
func TestSameTerm(t *testing.T) {
	a, b := &mach.Block{ID: 1}, &mach.Block{ID: 2}
	term := func() mach.Term {
		return mach.Term{Kind: mach.Br, Cond: ir.EQ, Args: []mach.Operand{mach.RegOp(mach.R1), mach.ImmOp(1)}, Succs: []mach.Edge{{To: a}, {To: b}}}
	}
	x, y := term(), term()
	if y.Pos = (ir.Pos{Line: 3}); !sameTerm(&x, &y) {
		t.Error("terminators that differ only in their position are not the same")
	}
	for what, change := range map[string]func(t *mach.Term){
		"condition": func(t *mach.Term) { t.Cond = ir.NE }, "width": func(t *mach.Term) { t.W = true },
		"operand": func(t *mach.Term) { t.Args[1] = mach.ImmOp(2) }, "target": func(t *mach.Term) { t.Succs[1].To = a },
	} {
		y := term()
		change(&y)
		if sameTerm(&x, &y) {
			t.Errorf("terminators with a different %s are the same", what)
		}
	}
}

// TestEncodeEnds checks the jumps at the ends of blocks.
func TestEncodeEnds(t *testing.T) {
	for _, c := range []struct{ what, code, want string }{
		{"the next block is reached without a jump", `
			b0: ?b2:b1
			b1: r1=1 exit
			b2: r2=2 r0=0 exit`,
			"if r0 == 0x1 goto pc+2, r1 = 1, exit, r2 = 2, r0 = 0, exit"},
		{"the condition is inverted if the first target is next", `
			b0: ?b1:b2
			b1: r1=1 exit
			b2: r2=2 r0=0 exit`,
			"if r0 != 0x1 goto pc+2, r1 = 1, exit, r2 = 2, r0 = 0, exit"},
		{"neither target is next", `
			b0: r3=3 ?b2:b3
			b1: r1=1 exit
			b2: r2=2 ->b1
			b3: r4=4 ->b1`,
			"r3 = 3, if r0 == 0x1 goto pc+3, goto pc+4, r1 = 1, exit, r2 = 2, goto pc-4, r4 = 4, goto pc-6"},
	} {
		f := code(c.code)
		e := &encoder{f: f, start: map[*mach.Block]int{}, sizes: map[*mach.Block]int{}, out: &Func{Name: "f"}}
		size := e.layOut()
		for n, b := range f.Blocks {
			e.block(b, e.forms[n], map[string]bool{})
		}
		var got []string
		for line := range strings.Lines(e.out.String()) {
			_, text, _ := strings.Cut(strings.TrimSpace(line), ") ")
			got = append(got, text)
		}
		if got := strings.Join(got, ", "); got != c.want || size != e.out.NumInsns() {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// TestLineRecords checks that there is a line record where the position changes. An instruction without
// a position has that of its predecessor.
func TestLineRecords(t *testing.T) {
	f := code("b0: r1=1 r2=2 r3=3 r4=4 r5=5 exit")
	for n, line := range []int{0, 2, 2, 0, 3} {
		f.Blocks[0].Insns[n].Pos = ir.Pos{Line: line, Col: 4}
	}
	f.Blocks[0].Term.Pos = ir.Pos{Line: 5}
	f.Pos = ir.Pos{Line: 1}
	through := code("b0: r1=1 ?b1:b2\nb1: r2=2 ->b2\nb2: r3=3 exit") // b1 has no jump
	for n, b := range through.Blocks {
		b.Insns[0].Pos, b.Term.Pos = ir.Pos{Line: 10 + n}, ir.Pos{Line: 20 + n}
	}
	e, err := Encode(through)
	if err != nil {
		t.Fatal(err)
	}
	wantThrough := []Line{{0, ir.Pos{Line: 10}}, {1, ir.Pos{Line: 20}}, {2, ir.Pos{Line: 11}}, {3, ir.Pos{Line: 12}}, {4, ir.Pos{Line: 22}}}
	if d := cmp.Diff(wantThrough, e.Lines); d != "" {
		t.Errorf("a block without a jump (-want +got)\n%s", d)
	}
	got, err := Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{{0, ir.Pos{Line: 1}}, {1, ir.Pos{Line: 2, Col: 4}}, {4, ir.Pos{Line: 3, Col: 4}}, {5, ir.Pos{Line: 5}}}
	if d := cmp.Diff(want, got.Lines); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// TestReferences checks the records of instructions that refer to something.
func TestReferences(t *testing.T) {
	ref := func(kind mach.OperandKind, sym string, addend int64) mach.Operand {
		return mach.Operand{Kind: kind, Sym: sym, Imm: addend}
	}
	f := code("b0: exit")
	f.Blocks[0].Insns = []mach.Insn{
		{Op: mach.Mov, Dst: mach.R1, Args: []mach.Operand{ref(mach.MapRef, "m", 0)}},
		{Op: mach.Mov, Dst: mach.R2, Args: []mach.Operand{ref(mach.GlobRef, "g", 8)}},
		{Op: mach.Select, Cond: ir.EQ, Dst: mach.R3, Args: []mach.Operand{mach.RegOp(mach.R3), mach.ImmOp(0), mach.RegOp(mach.R3), ref(mach.FuncRef, "z", 0)}},
		{Op: mach.IDImm, Dst: mach.R4},
		{Op: mach.CallSub, Dst: mach.R0, Sym: "a"},
		{Op: mach.CallSub, Dst: mach.R0, Sym: "a"},
		{Op: mach.CoreImm, Dst: mach.R5, Relocated: true, Kind: ir.FieldExists, CORE: ir.CORERef{Type: "struct pt_regs___x86_64", Path: "r15"}},
		{Op: mach.CoreImm, Dst: mach.R5, Relocated: true, Kind: ir.EnumvalExists, CORE: ir.CORERef{Type: "enum bpf_func_id___loop", Path: "BPF_FUNC_loop"}},
		{Op: mach.CoreImm, Dst: mach.R5, Relocated: true, Kind: ir.TypeSize, CORE: ir.CORERef{Type: "struct x"}},
	}
	got, err := Encode(f)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Reloc{{0, Map, "m", 0}, {2, Global, "g", 8}, {5, FuncAddr, "z", 0}, {8, Call, "a", 0}, {9, Call, "a", 0}}, got.Relocs); d != "" {
		t.Errorf("relocations (-want +got)\n%s", d)
	}
	if d := cmp.Diff([]string{"a", "z"}, got.Calls); d != "" {
		t.Errorf("calls (-want +got)\n%s", d)
	}
	if d := cmp.Diff([]int{7}, got.IDInsns); d != "" {
		t.Errorf("attach point numbers (-want +got)\n%s", d)
	}
	if d := cmp.Diff([]Form{{10, "x86_64", ""}, {11, "", "loop"}}, got.Forms); d != "" {
		t.Errorf("forms (-want +got)\n%s", d)
	}
	if len(got.CORE) != 3 || got.CORE[2].Insn != 12 || got.CORE[2].Kind != ir.TypeSize || got.CORE[2].Ref.Type != "struct x" {
		t.Errorf("CO-RE relocations %v", got.CORE)
	}
	want := `   0: (18) r1 = map[m]
   2: (18) r2 = &g+8
   4: (15) if r3 == 0x0 goto pc+2
   5: (18) r3 = &z
   7: (b7) r4 = 0 ; attachid
   8: (85) call a
   9: (85) call a
  10: (b7) r5 = 0 ; core field_exists struct pt_regs___x86_64:r15
  11: (b7) r5 = 0 ; core enumval_exists enum bpf_func_id___loop:BPF_FUNC_loop
  12: (b7) r5 = 0 ; core type_size struct x
  13: (95) exit
`
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Errorf("string (-want +got)\n%s", d)
	}
	for kind, want := range map[RelocKind]string{Map: "map", Global: "global", FuncAddr: "funcaddr", Call: "call"} {
		if got := kind.String(); got != want {
			t.Errorf("relocation kind %s, want %s", got, want)
		}
	}
}

// TestCheckCalls checks the limits on call chains. A function is "name stack callees".
func TestCheckCalls(t *testing.T) {
	for _, c := range []struct{ what, funcs, want string }{
		{"no calls", "p 512", ""},
		{"two frames", "p 256 f, f 256", ""},
		{"too much stack", "p 256 f, f 257", "takes 2 frames and 544 bytes of stack; BPF programs have 8 and 512"},
		{"a frame has at least 32 bytes", "p 480 f, f 0 g, g 0", "takes 3 frames and 544 bytes of stack"},
		{"a frame is a multiple of 32 bytes", "p 449 f, f 32 g, g 0", "takes 3 frames and 544 bytes"},
		{"eight frames", "p 0 a, a 0 b, b 0 c, c 0 d, d 0 e, e 0 f, f 0 g, g 0", ""},
		{"nine frames", "p 0 a, a 0 b, b 0 c, c 0 d, d 0 e, e 0 f, f 0 g, g 0 h, h 0", "the chain of calls [p a b c d e f g h] takes 9 frames"},
		{"a recursive function", "p 0 f, f 0 f", "f calls itself"},
		{"a function that is recursive through another one", "p 0 f, f 0 g, g 0 f", "f calls itself"},
		{"two callees", "p 256 f g, f 32, g 257", "[p g] takes 2 frames"},
		{"functions that no program calls", "p 0, f 0 f", ""},
		{"a function of another module", "p 0 f", ""},
	} {
		var funcs []*Func
		for n, row := range strings.Split(c.funcs, ", ") {
			words := strings.Fields(row)
			f := &Func{Name: words[0], Calls: words[2:]}
			fmt.Sscan(words[1], &f.StackSize)
			if n == 0 {
				f.Prog = &ir.Prog{}
			}
			funcs = append(funcs, f)
		}
		switch err := checkCalls(funcs); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: error = %v, want %q", c.what, err, c.want)
		}
	}
}

// TestPatchedSize checks the sizes of calls and divisions, which may grow in the verifier.
func TestPatchedSize(t *testing.T) {
	r1, r2 := mach.RegOp(mach.R1), mach.RegOp(mach.R2)
	for _, c := range []struct {
		i    mach.Insn
		want int
	}{
		{mach.Insn{Op: mach.Mov, Dst: mach.R1, Args: []mach.Operand{r2}}, 1},
		{mach.Insn{Op: mach.Mov, Dst: mach.R1, Args: []mach.Operand{mach.ImmOp(1 << 40)}}, 2},
		{mach.Insn{Op: mach.Div, Dst: mach.R1, Args: []mach.Operand{r1, r2}}, 7},
		{mach.Insn{Op: mach.Mod, W: true, Dst: mach.R1, Args: []mach.Operand{r1, r2}}, 7},
		{mach.Insn{Op: mach.Mul, Dst: mach.R1, Args: []mach.Operand{r1, r2}}, 1},
		{mach.Insn{Op: mach.Load, Size: 8, Dst: mach.R1, Args: []mach.Operand{r2}}, 1},
		{mach.Insn{Op: mach.Call, Dst: mach.R0, Imm: 1}, 11},
		{mach.Insn{Op: mach.Call, Dst: mach.R0, Imm: 181}, 25},
		{mach.Insn{Op: mach.CallSub, Dst: mach.R0}, 1},
	} {
		if got := patchedSize(c.i.Encode()); got != c.want {
			t.Errorf("%s may take %d slots, want %d", &c.i, got, c.want)
		}
	}
}

// TestFree checks that encoded functions are freed if requested.
func TestFree(t *testing.T) {
	m := ir.MustParse("func @f() {\n  slot s0 \"\" 8 align 8 frame -8\nb0:\n  store.u64 [s0+0], 1\n  ret 0\n}\n")
	for _, free := range []bool{false, true} {
		if _, err := Module(m, Options{Free: free}); err != nil {
			t.Fatal(err)
		}
		if got := m.Funcs[0].Blocks == nil && m.Funcs[0].Slots == nil; got != free {
			t.Errorf("Free = %t: blocks freed = %t", free, got)
		}
	}
}

// TestDump checks that each stage of each function is dumped in order.
func TestDump(t *testing.T) {
	m := ir.MustParse("func @f() {\nb0:\n  ret 0\n}\nfunc @g() {\nb0:\n  ret 0\n}\n")
	var got []string
	if _, err := Module(m, Options{Dump: func(stage, fn, text string) { got = append(got, stage+" "+fn) }}); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(got, ", "), "isel f, regalloc f, asm f, isel g, regalloc g, asm g"; got != want {
		t.Errorf("dumped %s, want %s", got, want)
	}
}
