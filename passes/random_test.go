// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"btc/ir"
	"btc/ir/interp"
)

var (
	randomCount = flag.Int("programs", 60, "how many programs TestRandomPrograms makes")
	firstRandom = flag.Uint64("first-program", 0, "the number of the first of them")
)

// TestRandomPrograms runs random programs with map ops, strings and events through the whole pipeline.
// The interpreter must give the same results before and after.
func TestRandomPrograms(t *testing.T) {
	for seed := *firstRandom; seed < *firstRandom+uint64(*randomCount); seed++ {
		g := &generator{rnd: rand.New(rand.NewPCG(seed, 1))}
		text := g.module()
		if err := sameMeaning(t, text, g.inputs()); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, text)
		}
	}
}

func sameMeaning(t *testing.T, text, lines string) (err error) {
	before, after := parse(t, text), parse(t, text)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v\n%s", r, after)
		}
	}()
	if err := Run(after, Options{Verify: ir.VerifyStage}); err != nil {
		return err
	}
	inputs, err := interp.ParseInputs(lines)
	if err != nil {
		return err
	}
	if err := interp.Equivalent(before, after, inputs); err != nil {
		return fmt.Errorf("%w\n%s", err, after)
	}
	return nil
}

// generator generates the IR of a random program.
type generator struct {
	rnd    *rand.Rand
	out    strings.Builder
	values []string // usable integers
	next   int
}

// Each map has a scalar form @name and a keyed form @kname.
var randomMaps = []string{
	"count, shape count", "sum, shape sum, value (kind int, size 8, signed)", "avg, shape avg, value (kind int, size 8, signed), read",
	"min, shape min, value (kind int, size 8, signed)", "max, shape max, value (kind int, size 8)", "stats, shape stats, value (kind int, size 8)",
	"hist, shape hist, bits 1, value (kind int, size 8, signed)", "lhist, shape lhist, min -5, max 50, step 7, value (kind int, size 8, signed)",
	"plain, shape plain, value (kind int, size 8), cleared", "str, shape plain, value (kind string, size 24)",
}

func (g *generator) module() string {
	for _, m := range randomMaps {
		fmt.Fprintf(&g.out,
			"map (name @%s)\nmap (name @k%s, max_entries 3, key (kind tuple, size 24, fields [(layout (kind int, size 8)), (off 8, layout (kind string, size 16))]))\n",
			m, m)
	}
	g.out.WriteString(
		`event (name e, kind printf, fields [(layout (kind int, size 8)), (layout (kind string, size 24)), (layout (kind string, size 16))])
event (id 1, name f, kind printf, fields [(layout (kind int, size 8)), (layout (kind string, size 16))])
func @p prog (kind kprobe) {
  slot s0 "key" 24 align 8
  slot s1 "str" 24 align 1
  slot s2 "comm" 16 align 1
b0(v0:ctx):
  store.u64 [s0+0], 1
  comm s0+8
  strlit "start"(s1+0), #24
  comm s2+0
`,
	)
	g.next = 1
	for i := range 3 {
		g.result("arg v0, #%d", i)
	}
	for range 3 + g.rnd.IntN(6) {
		g.statement()
	}
	blocks := g.rnd.IntN(4)
	for b := range blocks { // a chain of blocks, each of which may be skipped
		c := g.next
		g.next++
		fmt.Fprintf(&g.out, "  v%d:i1 = icmp %s %s, %s\n  br v%d, b%d, b%d\nb%d:\n", c,
			g.pick("slt", "ugt", "eq", "ne"), g.value(), g.value(), c, 2*b+1, 2*b+2, 2*b+1)
		known := len(g.values)
		for range 1 + g.rnd.IntN(4) {
			g.statement()
		}
		g.values = g.values[:known]
		fmt.Fprintf(&g.out, "  jump b%d\nb%d:\n", 2*b+2, 2*b+2)
		g.statement()
	}
	fmt.Fprintf(&g.out, "  ret %s\n}\n", g.value())
	return g.out.String()
}

func (g *generator) pick(of ...string) string { return of[g.rnd.IntN(len(of))] }

func (g *generator) value() string {
	if g.rnd.IntN(4) == 0 {
		return fmt.Sprint(g.rnd.IntN(40) - 9)
	}
	return g.values[g.rnd.IntN(len(g.values))]
}

func (g *generator) result(format string, args ...any) {
	v := fmt.Sprintf("v%d", g.next)
	g.next++
	fmt.Fprintf(&g.out, "  %s:i64 = "+format+"\n", append([]any{v}, args...)...)
	g.values = append(g.values, v)
}

func (g *generator) truth(format string, args ...any) {
	c := g.next
	g.next++
	fmt.Fprintf(&g.out, "  v%d:i1 = "+format+"\n", append([]any{c}, args...)...)
	g.result("boolint v%d", c)
}

func (g *generator) do(format string, args ...any) { fmt.Fprintf(&g.out, "  "+format+"\n", args...) }

// statement writes one or two ops on a scalar or a keyed map.
func (g *generator) statement() {
	k, key := "", ""
	if g.rnd.IntN(2) == 0 {
		k, key = "k", ", s0+0"
	}
	switch g.rnd.IntN(18) {
	case 0:
		g.do("count @%scount%s", k, key)
	case 1, 2:
		op := g.pick("sum", "avg", "min", "max", "stats", "hist", "lhist")
		g.do("%s @%s%s, %s%s", op, k, op, g.value(), key)
	case 3:
		g.result("aggget @%savg%s", k, key)
	case 4:
		g.result("mapget @%splain%s", k, key)
	case 5:
		g.do("mapset @%splain, %s%s", k, g.value(), key)
	case 6:
		g.result("mapadd @%splain, %s%s", k, g.value(), key)
	case 7:
		g.truth("mapdel @%splain%s", k, key)
	case 8:
		g.truth("maphas @%sstr%s", k, key)
	case 9:
		g.do("mapsetmem @%sstr, s1+0%s", k, key)
	case 10:
		g.do("mapgetmem @%sstr, s1+0%s", k, key)
	case 11:
		g.do("strlit %q(s1+0), #24", g.pick("", "x", "start", "seven77", "twelve bytes", "twenty-three characters"))
	case 12:
		g.truth("streq %q(s1+0), #24", g.pick("", "start", "twelve bytes", "bash"))
	case 13:
		g.truth("streqmem s1+0, s2+0, #16")
	case 14:
		a := g.next
		g.next++
		g.do("v%d:uaddr = cast %s", a, g.value())
		g.result("str s1+0, v%d, %s, #24", a, g.pick("24", "5", g.value()))
	case 15:
		g.do("emit e(%s, s1+0, s2+0)", g.value())
	case 16:
		g.do("emit f(%s, s2+0)", g.value())
	case 17:
		g.do("store.u64 [s0+0], %s", g.value())
	}
}

func (g *generator) inputs() string {
	var b strings.Builder
	for i := range 6 {
		fmt.Fprintf(&b,
			"run p ctx+112=%d ctx+104=%d ctx+96=0x2000 cpu=%d comm=%q user@0x2000=\"some text in user memory\\x00\"\n",
			g.rnd.IntN(60)-20, int64(g.rnd.Uint64()), i%interp.CPUs, g.pick("start", "bash", "x", ""))
	}
	return b.String()
}
