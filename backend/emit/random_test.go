// SPDX-License-Identifier: Apache-2.0

//go:build linux

package emit

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"btc/ir"
	"btc/ir/interp"
)

// randomProgram returns the IR of a program over the words of its context: nested ifs and counted
// loops, with calls and memory accesses, returning a mix of all values.
type randomProgram struct {
	r     *rand.Rand
	s     strings.Builder
	next  int
	block int
	scope []string
}

func randomText(seed uint64) string {
	g := &randomProgram{r: rand.New(rand.NewPCG(seed, 2)), next: 1}
	g.s.WriteString(progHead + "slot s0 \"\" 32 align 8 frame -32\nb0(v0:ctx):\n")
	for n := range 4 {
		g.scope = append(g.scope, g.def("i64 = load.u64 [v0+%d]", 8*n))
		fmt.Fprintf(&g.s, " store.u64 [s0+%d], %s\n", 8*n, g.scope[n])
	}
	for range g.r.IntN(14) {
		g.step()
	}
	g.body(2)
	mix := "1"
	for _, v := range g.scope {
		mix = g.def("i64 = mul %s, 31", mix)
		mix = g.def("i64 = xor %s, %s", mix, v)
	}
	high := g.def("i64 = lshr %s, 32", mix)
	fmt.Fprintf(&g.s, " ret %s\n}\n", g.def("i64 = xor %s, %s", high, mix))
	return g.s.String()
}

func (g *randomProgram) def(format string, args ...any) string {
	v := fmt.Sprintf("v%d", g.next)
	g.next++
	fmt.Fprintf(&g.s, " %s:"+format+"\n", append([]any{v}, args...)...)
	return v
}

func (g *randomProgram) val() string {
	if g.r.IntN(4) > 0 {
		return g.scope[g.r.IntN(len(g.scope))]
	}
	consts := []int64{0, 1, -1, 2, 7, 63, 64, 255, 1 << 31, 1<<31 - 1, -1 << 31, 1 << 32, 1<<63 - 1, -1 << 63, 0x123456789abc, 1000}
	return fmt.Sprint(consts[g.r.IntN(len(consts))])
}

func (g *randomProgram) pick(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *randomProgram) cond() string {
	return g.def("i1 = icmp %s %s, %s", g.pick("eq", "ne", "ult", "ule", "ugt", "uge", "slt", "sle", "sgt", "sge"), g.val(), g.val())
}

func (g *randomProgram) step() {
	add := func(v string) { g.scope = append(g.scope, v) }
	switch g.r.IntN(9) {
	case 0, 1, 2, 3:
		op := g.pick("add", "sub", "mul", "udiv", "umod", "and", "or", "xor", "shl", "lshr", "ashr")
		add(g.def("i64 = %s %s, %s", op, g.val(), g.val()))
	case 4:
		add(g.def("i64 = %s %s", g.pick("zext.u8", "zext.u16", "zext.u32", "sext.s8", "sext.s16", "sext.s32", "bswap.u16", "bswap.u32", "bswap.u64"), g.val()))
	case 5:
		add(g.def("i64 = select %s, %s, %s", g.cond(), g.val(), g.val()))
	case 6:
		add(g.def("i64 = boolint %s", g.cond()))
	case 7:
		size := []int{1, 2, 4, 8}[g.r.IntN(4)]
		off := size * g.r.IntN(32/size)
		fmt.Fprintf(&g.s, " store.u%d [s0+%d], %s\n", 8*size, off, g.val())
		size = []int{1, 2, 4, 8}[g.r.IntN(4)]
		off = size * g.r.IntN(32/size)
		sign := "u"
		if size < 8 {
			sign = g.pick("u", "s")
		}
		add(g.def("i64 = load.%s%d [s0+%d]", sign, 8*size, off))
	case 8:
		g.def("i64 = call get_numa_node_id()")
	}
}

func (g *randomProgram) newBlock() int { g.block++; return g.block }

func (g *randomProgram) args(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = g.val()
	}
	if n == 0 {
		return ""
	}
	return "(" + strings.Join(list, ", ") + ")"
}

// open begins block id with n parameters, which are in scope from then on.
func (g *randomProgram) open(id, n int, mark string) []string {
	params := make([]string, n)
	typed := make([]string, n)
	for i := range params {
		params[i] = fmt.Sprintf("v%d", g.next)
		g.next++
		typed[i] = params[i] + ":i64"
	}
	head := fmt.Sprintf("b%d", id)
	if n > 0 {
		head += "(" + strings.Join(typed, ", ") + ")"
	}
	fmt.Fprintf(&g.s, "%s%s:\n", head, mark)
	g.scope = append(g.scope, params...)
	return params
}

func (g *randomProgram) body(depth int) {
	for range 1 + g.r.IntN(3) {
		for range g.r.IntN(5) {
			g.step()
		}
		if depth > 0 && g.r.IntN(2) == 0 {
			g.branch(depth)
		} else if depth > 0 {
			g.loop(depth)
		}
	}
}

func (g *randomProgram) branch(depth int) {
	yes, no, join := g.newBlock(), g.newBlock(), g.newBlock()
	n := g.r.IntN(4)
	fmt.Fprintf(&g.s, " br %s, b%d, b%d\n", g.cond(), yes, no)
	mark := len(g.scope)
	for _, b := range []int{yes, no} {
		g.open(b, 0, g.pick("", "", " cold"))
		g.body(depth - 1)
		fmt.Fprintf(&g.s, " jump b%d%s\n", join, g.args(n))
		g.scope = g.scope[:mark]
	}
	g.open(join, n, "")
}

// loop runs a few iterations; its parameters permute.
func (g *randomProgram) loop(depth int) {
	head, out := g.newBlock(), g.newBlock()
	n := g.r.IntN(4)
	first := make([]string, n+1)
	first[0] = "0"
	for i := range n {
		first[i+1] = g.val()
	}
	fmt.Fprintf(&g.s, " jump b%d(%s)\n", head, strings.Join(first, ", "))
	params := g.open(head, n+1, "")
	g.body(depth - 1)
	mark := len(g.scope)
	next := []string{g.def("i64 = add %s, 1", params[0])}
	for range n {
		next = append(next, g.val())
	}
	c := g.def("i1 = icmp ult %s, 3", next[0])
	fmt.Fprintf(&g.s, " br %s, b%d(%s), b%d\n", c, head, strings.Join(next, ", "), out)
	g.scope = g.scope[:mark]
	g.open(out, 0, "")
}

var (
	randomCount = flag.Int("programs", 60, "how many programs TestRandomProgramsInTheKernel makes")
	firstRandom = flag.Uint64("first-program", 0, "the number of the first of them")
)

// TestRandomProgramsInTheKernel compares the kernel's result with the reference interpreter's.
func TestRandomProgramsInTheKernel(t *testing.T) {
	inputs := [][]uint64{{1, 2, 3, 4}, {0, 1 << 63, 0xffffffff, 1<<64 - 1}, {0x123456789abcdef0, 64, 7, 1 << 31}}
	ran := 0
	for seed := *firstRandom; seed < *firstRandom+uint64(*randomCount); seed++ {
		text := randomText(seed)
		m, err := ir.Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		m.Maps = nil
		funcs, err := Module(m, Options{Check: true})
		var tooLarge ir.Diag
		if errors.As(err, &tooLarge) {
			continue // more live values than the frame can hold
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if again, err := Module(m, Options{}); err != nil || !reflect.DeepEqual(funcs, again) {
			t.Fatalf("seed %d: the second compilation differs (%v)", seed, err)
		}
		fd, err := loadWith(link(funcs, 0), nil)
		if err == unix.E2BIG {
			continue // more paths than the verifier follows
		}
		ran++
		unix.Close(fd) // other errors are reported by the runs
		for _, in := range inputs {
			ctx := make([]byte, 96)
			for n, w := range in {
				binary.LittleEndian.PutUint64(ctx[8*n:], w)
			}
			want, err := interp.New(m).Run(interp.Input{Prog: "f", Ctx: ctx})
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			if got := run(t, funcs, in); got != uint32(want) {
				t.Fatalf("seed %d on %#x: kernel %#x, interpreter %#x\n%s\n%s", seed, in, got, uint32(want), text, listing(funcs[0]))
			}
		}
	}
	if ran < *randomCount*2/3 {
		t.Errorf("only %d of %d programs were small enough to run", ran, *randomCount)
	}
}
