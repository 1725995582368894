// SPDX-License-Identifier: Apache-2.0

package emit

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"btc/backend/mach"
	"btc/ir"
)

func newEncoder(f *mach.Func) *encoder {
	return &encoder{f: f, start: map[*mach.Block]int{}, sizes: map[*mach.Block]int{}, out: &Func{Name: "f"}}
}

// TestFarPlacement checks the size of functions in which jumps may be too long, and the position of
// their jump islands (b0: an island leads to another island).
func TestFarPlacement(t *testing.T) {
	over := func(adds string) string { return "b0: ?b2:b1\nb1: " + adds + " ->b2\nb2: r2=2 exit" }
	back := func(adds string) string { return "b0: add1 ->b1\nb1: " + adds + " ?b1:b2\nb2: r2=2 exit" }
	for _, c := range []struct {
		what, code string
		size       int
		islands    string
	}{
		{"a function of the maximum length without islands", "b0: ?b2:b1\nb1: add31764 ->b2\nb2: r2=2 exit", reach, ""},
		{"the longest jump", over("add32764"), 32767, ""},
		{"one slot longer", over("add32765"), 32770, "31746 b2"},
		{"the longest jump back", back("add32763"), 32767, ""},
		{"one slot longer, back", back("add32764"), 32770, "1986 b1"},
		{"over two-slot instructions", over("wide16382"), 32767, ""},
		{"over one more of them", over("wide16383"), 32771, "31746 b2"},
		{"over divisions that the verifier extends", over("div4680"), 4683, ""},
		{"over one more division", over("div4681"), 4686, "3970 b2"},
		{"an unconditional jump", "b0: ?b1:b2\nb1: add5 ->b3\nb2: add40000 exit\nb3: r3=3 exit", 40012, "31752 b3"},
		{"two jumps to the same block share an island",
			"b0: ?b3:b1\nb1: add10 ?b3:b2\nb2: add40000 ->b3\nb3: r3=3 exit", 40016, "31757 b3"},
		{"several islands in a row", over("add100000"), 100009, "31746 b0 63492 b0 95238 b2"},
		{"an island before the second block",
			"b0: wide600 ->b1\nb1: add31600 ?b0:b2\nb2: r2=2 exit", 32805, "1201 b0"},
	} {
		f := code(c.code)
		e := newEncoder(f)
		size := e.layOut()
		var islands []string
		for _, b := range f.Blocks {
			if len(b.Insns) == 0 && b.Term.Kind == mach.Jump {
				islands = append(islands, fmt.Sprintf("%d b%d", e.start[b], b.Term.Succs[0].To.ID))
			}
		}
		if got := strings.Join(islands, " "); size != c.size || got != c.islands {
			t.Errorf("%s: %d slots, islands %q, want %d, %q", c.what, size, got, c.size, c.islands)
		}
	}
}

// TestBringCold checks that cold blocks follow a stretch of code, in order, together with the blocks
// that they lead to, and that unreachable blocks are removed.
func TestBringCold(t *testing.T) {
	const stretch = reach / 4
	for _, c := range []struct{ what, code, want string }{
		{"after a stretch of code", fmt.Sprintf("b0: add%d ?b4:b1\nb1: add9 ?b3:b2\nb2: exit\nb3!: exit\nb4!: exit", stretch-1), "b0 b4 b1 b2 b3"},
		{"a stretch and its cold block", fmt.Sprintf("b0: add%d ?b4:b1\nb1: add9 ?b3:b2\nb2: exit\nb3!: exit\nb4!: exit", stretch-4), "b0 b1 b3 b4 b2"},
		{"exactly one stretch", fmt.Sprintf("b0: add%d ?b3:b1\nb1: add9 ->b2\nb2: exit\nb3!: exit", stretch-3), "b0 b1 b3 b2"},
		{"one slot more", fmt.Sprintf("b0: add%d ?b3:b1\nb1: add9 ->b2\nb2: exit\nb3!: exit", stretch-2), "b0 b3 b1 b2"},
		{"at the end", "b0: add5 ?b4:b1\nb1: add9 ?b3:b2\nb2: exit\nb3!: exit\nb4!: exit", "b0 b1 b2 b3 b4"},
		{"behind other cold blocks", fmt.Sprintf("b0: ?b4:b1\nb1: add%d ->b2\nb2: exit\nb3!: ->b2\nb4!: ?b3:b2", stretch), "b0 b1 b3 b4 b2"},
		{"two of them", fmt.Sprintf("b0: add%d ?b3:b1\nb1: add%d ?b4:b2\nb2: ?b3:b5\nb3!: exit\nb4!: exit\nb5: exit", stretch, stretch),
			"b0 b3 b1 b4 b2 b5"},
	} {
		f := code(c.code)
		e := newEncoder(f)
		e.bringCold()
		var got []string
		for _, b := range f.Blocks {
			got = append(got, fmt.Sprintf("b%d", b.ID))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// farFunc returns a function of random blocks that is longer than the range of a jump. Each block
// begins with r1 = its number and branches on r0 == its number.
func farFunc(seed uint64) *mach.Func {
	r := rand.New(rand.NewPCG(seed, 3))
	f := &mach.Func{Name: "f"}
	n := 12 + r.IntN(20)
	for range n {
		f.NewBlock()
	}
	for i, b := range f.Blocks {
		b.Insns = []mach.Insn{{Op: mach.Mov, Dst: mach.R1, Args: []mach.Operand{mach.ImmOp(int64(i))}}}
		size, word := r.IntN(9000), "add"
		switch r.IntN(4) {
		case 0:
			size, word = size/8, "div"
		case 1:
			size, word = size/2, "wide"
		case 2:
			size = 2
		}
		b.Insns = append(b.Insns, code(fmt.Sprintf("b0: %s%d exit", word, size)).Blocks[0].Insns...)
		b.Cold = i > 0 && r.IntN(4) == 0
		next := mach.Edge{To: f.Blocks[min(i+1, n-1)]}
		other := mach.Edge{To: f.Blocks[r.IntN(n)]}
		switch r.IntN(8) {
		case 0:
			b.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{other}}
		case 1:
			b.Term = mach.Term{Kind: mach.Jump, Succs: []mach.Edge{next}}
		case 2:
			next, other = other, next
			fallthrough
		default:
			b.Term = mach.Term{Kind: mach.Br, Cond: ir.EQ, Args: []mach.Operand{mach.RegOp(mach.R0), mach.ImmOp(int64(i))},
				Succs: []mach.Edge{next, other}}
		}
		if i == n-1 {
			b.Term = mach.Term{Kind: mach.Exit, Args: []mach.Operand{mach.RegOp(mach.R0)}}
		}
	}
	return f
}

// choice reports which way block n branches the k-th time.
func choice(n, k int) bool { return (n*7+k*5+k*k)%3 != 0 }

const steps = 100

// pathOfBlocks returns the numbers of the executed blocks, up to steps of them.
func pathOfBlocks(f *mach.Func) (path []int) {
	times := map[int]int{}
	for b := f.Blocks[0]; len(path) < steps; {
		n := b.ID
		path = append(path, n)
		switch {
		case b.Term.Kind == mach.Exit:
			return path
		case b.Term.Kind == mach.Br && !choice(n, times[n]):
			b = b.Term.Succs[1].To
		default:
			b = b.Term.Succs[0].To
		}
		times[n]++
	}
	return path
}

// pathOfCode does the same for machine code.
func pathOfCode(insns []byte) (path []int) {
	times := map[int]int{}
	for pc := 0; ; pc++ {
		i := insns[8*pc:]
		off, imm := int(int16(binary.LittleEndian.Uint16(i[2:]))), int(int32(binary.LittleEndian.Uint32(i[4:])))
		switch {
		case i[0] == 0xb7 && i[1] == 1:
			if len(path) == steps {
				return path
			}
			path = append(path, imm)
		case i[0] == 0x18:
			pc++
		case i[0] == 0x95:
			return path
		case i[0] == 0x05:
			pc += off
		case i[0] == 0x15 || i[0] == 0x55: // ==, !=
			if choice(imm, times[imm]) == (i[0] == 0x15) {
				pc += off
			}
			times[imm]++
		}
	}
}

// TestRandomFarFunctions checks that far code executes the same blocks, and that jumps are still in
// range after the verifier has extended the code that they skip.
func TestRandomFarFunctions(t *testing.T) {
	far := 0
	for seed := range uint64(30) {
		f := farFunc(seed)
		want := pathOfBlocks(f)
		e := newEncoder(f)
		if e.layOut() > math.MaxInt16 {
			far++
		}
		for n, b := range f.Blocks {
			e.block(b, e.forms[n], map[string]bool{})
		}
		insns := e.out.Insns
		if got := pathOfCode(insns); !slices.Equal(got, want) {
			t.Errorf("seed %d: code executes blocks %v, want %v", seed, got, want)
		}
		at, slots := 0, []int{}
		for pc := 0; 8*pc < len(insns); pc++ {
			slots = append(slots, at)
			i := insns[8*pc:]
			raw := mach.Raw{Code: i[0], Src: i[1] >> 4, Imm: int32(binary.LittleEndian.Uint32(i[4:]))}
			at += patchedSize([]mach.Raw{raw})
			if i[0] == 0x18 {
				pc++
				slots = append(slots, at)
				at++
			}
		}
		for pc := 0; 8*pc < len(insns); pc++ {
			switch i := insns[8*pc:]; i[0] {
			case 0x18:
				pc++
			case 0x05, 0x15, 0x55:
				to := pc + 1 + int(int16(binary.LittleEndian.Uint16(i[2:])))
				if d := slots[to] - slots[pc] - 1; d > math.MaxInt16 || d < math.MinInt16 {
					t.Errorf("seed %d: jump at %d: distance %d in the verifier", seed, pc, d)
				}
			}
		}
	}
	if far < 20 {
		t.Errorf("only %d functions had far jumps", far)
	}
}

// TestTooLong checks that a function of a million slots is encoded, and that one more slot is an error.
func TestTooLong(t *testing.T) {
	for last, want := range map[int]string{10000: "", 10001: "has 1000001 instructions; BPF programs have at most 1000000"} {
		f := &mach.Func{Name: "f", Pos: ir.Pos{Line: 3}}
		for range 100 {
			f.NewBlock()
		}
		adds := code(fmt.Sprintf("b0: add%d exit", last)).Blocks[0].Insns
		for i, b := range f.Blocks[:99] {
			b.Insns = adds[:9999:9999]
			b.Term = mach.Term{Kind: mach.Br, Cond: ir.EQ, Args: []mach.Operand{mach.RegOp(mach.R0), mach.ImmOp(1)},
				Succs: []mach.Edge{{To: f.Blocks[i+1]}, {To: f.Blocks[min(i+2, 99)]}}}
		}
		f.Blocks[99].Insns = adds
		f.Blocks[99].Term = mach.Term{Kind: mach.Exit, Args: []mach.Operand{mach.RegOp(mach.R0)}}
		got, err := Encode(f)
		if want == "" {
			if err != nil || got.NumInsns() != maxInsns {
				t.Errorf("%d more: error = %v", last, err)
			}
			continue
		}
		if d, ok := err.(ir.Diag); !ok || d.Text != want || d.Pos.Line != 3 {
			t.Errorf("%d more: error = %v", last, err)
		}
	}
}
