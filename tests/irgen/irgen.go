// SPDX-License-Identifier: Apache-2.0

// Package irgen generates small valid IR modules for fuzz tests of passes (the interpreter must give
// the same result before and after), and of instruction selection and register allocation.
//
// The input is any sequence of bytes. The module passes ir.Verify and terminates on every input. It has
// one kprobe program with arithmetic, branches, bounded loops, slots, map and output ops. The same
// bytes always give the same module.
package irgen

import (
	"btc/internal/probe"
	"btc/ir"
	"btc/ir/interp"
)

// Level selects the ops that a module may contain.
type Level int

// Levels.
const (
	Core  Level = iota // core ops only, as instruction selection requires
	Mixed              // high ops, too
)

// The maps of both levels. On level Core, the map of the script already has its BPF form. On level
// Mixed, lowering has yet to choose it, so core lookups use an internal map.
const (
	coreMaps = `
map (name @x, shape plain, key (kind int, size 8), value (kind int, size 8), bpf (name AT_x, type hash, key_size 8, value_size 16, max_entries 64, present -1, gens 1, loss -1))
`
	mixedMaps = `
map (name @x, shape plain, key (kind int, size 8), value (kind int, size 8))
map (name @s, shape sum, value (kind int, size 8))
map (name @c, shape count, key (kind int, size 8), value (kind int, size 8))
map (name raw, shape intern, bpf (name raw, type hash, key_size 8, value_size 16, max_entries 64, present -1, gens 1, loss -1))
`
	tables = `
map (name events, shape intern, bpf (name events, type ringbuf, max_entries 262144, present -1, gens 1, loss -1))
global (name k, kind const, size 8, init "\x07\x00\x00\x00\x00\x00\x00\x80")
global (name d, kind data, size 8)
event (id 0, name e, kind printf, size 24, fields [(name a, off 8, layout (kind int, size 8)), (name b, off 16, layout (kind int, size 4, signed))])
`
)

// Module returns the module for data.
func Module(data []byte, level Level) *ir.Module {
	text, x := coreMaps+tables, "@x"
	if level == Mixed {
		text, x = mixedMaps+tables, "raw"
	}
	m := ir.MustParse(text)
	f := &ir.Func{Name: "p", Prog: &ir.Prog{Kind: probe.Kprobe, Section: "kprobe/f", Pos: ir.NoPos}, Pos: ir.NoPos}
	m.Funcs = append(m.Funcs, f)
	g := &gen{data: data, level: level, budget: 80, raw: x}
	entry := f.NewBlock()
	g.ctx = entry.AddParam(ir.TCtx)
	g.Builder = ir.AtEnd(entry, ir.NoPos)
	g.mem = g.Slot("mem", 32, 8)
	g.key = g.Slot("key", 8, 8)
	g.Zero(g.mem, 32, 8)
	g.Zero(g.key, 8, 8)
	g.ints = []*ir.Value{g.Load(ir.U64, g.ctx, 112), g.Load(ir.S16, g.ctx, 104)}
	g.stmts(0)
	g.Ret(g.int())
	return m
}

// Inputs returns inputs that reach both sides of many branches.
func Inputs() []interp.Input {
	in, err := interp.ParseInputs(`
run p ctx+112=0 ctx+104=1 ctx+96=2 pid=1 tid=1
run p ctx+112=-1 ctx+104=0x8000 ctx+96=7 pid=300 tid=301 uid=5 mono=99 cpu=1
run p ctx+112=5 ctx+104=5 ctx+96=0x8000000000000000 pid=1 tid=9 gid=3 mono=100
run p ctx+112=0x123456789 ctx+104=64 ctx+96=255 pid=77 tid=77 boot=12 cpu=3
`)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return in
}

type gen struct {
	*ir.Builder
	data     []byte
	level    Level
	budget   int // remaining statements
	depth    int
	raw      string // the map for core lookups
	ctx      *ir.Value
	mem, key *ir.Value
	ints     []*ir.Value // values that are usable at this point
	bools    []*ir.Value
}

// pick consumes bytes and returns a number below n; 0 if there are no more bytes.
func (g *gen) pick(n int) int {
	if len(g.data) == 0 {
		return 0
	}
	b := g.data[0]
	g.data = g.data[1:]
	return int(b) % n
}

var constants = []int64{0, 1, 2, 3, 7, 8, 15, 16, 63, 64, 100, 255, 256, 4096, 65535, 1 << 31, 1 << 32, -1, -2, -8, -256, -1 << 31, -1 << 63, 1<<63 - 1}

func (g *gen) int() *ir.Value {
	if n := g.pick(4 + len(g.ints)); n >= 4 {
		return g.ints[n-4]
	} else if n == 3 {
		return g.ints[len(g.ints)-1]
	}
	return ir.Const(constants[g.pick(len(constants))])
}

func (g *gen) bool() *ir.Value {
	n := g.pick(4 + len(g.bools))
	if n >= 4 {
		return g.bools[n-4]
	}
	return g.ICmp(ir.Cond(g.pick(int(ir.SGE)+1)), g.int(), g.int())
}

// scope runs body with the visible values and then removes those that body has added.
func (g *gen) scope(body func()) {
	ints, bools := g.ints[:len(g.ints):len(g.ints)], g.bools[:len(g.bools):len(g.bools)]
	g.depth++
	body()
	g.depth--
	g.ints, g.bools = ints, bools
}

func (g *gen) stmts(least int) {
	for n := least + g.pick(8); n >= 0 && g.budget > 0 && (len(g.data) > 0 || n > 4); n-- {
		g.budget--
		g.stmt()
	}
}

func (g *gen) stmt() {
	kinds := []func(){g.arith, g.arith, g.unary, g.compare, g.choose, g.memory, g.reads, g.branch, g.value, g.loop, g.lookup, g.record, g.leave}
	if g.level == Mixed {
		kinds = append(kinds, g.maps, g.maps, g.builtin)
	}
	kinds[g.pick(len(kinds))]()
}

func (g *gen) add(v *ir.Value) { g.ints = append(g.ints, v) }

func (g *gen) arith() {
	op := ir.OpAdd + ir.Op(g.pick(int(ir.OpAShr-ir.OpAdd)+1))
	g.add(g.Emit(op, ir.TI64, g.int(), g.int()))
}

func (g *gen) unary() {
	kinds := []struct {
		op ir.Op
		k  ir.MemKind
	}{{ir.OpZext, ir.U8}, {ir.OpZext, ir.U16}, {ir.OpZext, ir.U32}, {ir.OpSext, ir.S8}, {ir.OpSext, ir.S16}, {ir.OpSext, ir.S32},
		{ir.OpBswap, ir.U16}, {ir.OpBswap, ir.U32}, {ir.OpBswap, ir.U64}}
	x := kinds[g.pick(len(kinds))]
	v := g.Emit(x.op, ir.TI64, g.int())
	v.Mem = x.k
	g.add(v)
}

func (g *gen) compare() {
	c := g.bool()
	g.bools = append(g.bools, c)
	if g.pick(2) == 1 {
		g.add(g.BoolInt(c))
	}
}

func (g *gen) choose() { g.add(g.Select(g.bool(), g.int(), g.int())) }

// memory stores to, or loads from, an aligned offset of the slot.
func (g *gen) memory() {
	k := []ir.MemKind{ir.U8, ir.U16, ir.U32, ir.U64, ir.S8, ir.S16, ir.S32}[g.pick(7)]
	off := g.pick(32/k.Size()) * k.Size()
	if g.pick(2) == 0 {
		g.Store(ir.MemKindOf(k.Size(), false), g.mem, off, g.int())
		return
	}
	g.add(g.Load(k, g.mem, off))
}

func (g *gen) reads() {
	switch g.pick(5) {
	case 0:
		g.add(g.Load(ir.U64, g.ctx, []int{112, 104, 96}[g.pick(3)]))
	case 1:
		g.add(g.Call("get_current_pid_tgid", ir.TI64))
	case 2:
		g.add(g.Call("ktime_get_ns", ir.TI64))
	case 3:
		g.add(g.Global(ir.U32, "k", 4*g.pick(2)))
	case 4:
		p := g.GlobalAddr(ir.TMapVal(".bss", false), "d", 0)
		g.AtomicAdd(ir.U64, p, 0, g.int())
		g.add(g.Load(ir.U64, p, 0))
	}
}

func (g *gen) branch() {
	if g.depth > 3 {
		return
	}
	els := func() { g.scope(func() { g.stmts(0) }) }
	if g.pick(3) == 0 {
		els = nil
	}
	g.If(g.bool(), func() { g.scope(func() { g.stmts(1) }) }, els)
}

// value adds a diamond that joins in a block parameter: a number, or a bool that is branched on, as for
// && and ||.
func (g *gen) value() {
	if g.depth > 3 {
		return
	}
	arm := func(result func() *ir.Value) func() *ir.Value {
		return func() (v *ir.Value) {
			g.scope(func() { g.stmts(-2); v = result() })
			return v
		}
	}
	if g.pick(2) == 0 {
		g.add(g.IfValue(g.bool(), ir.TI64, arm(g.int), arm(g.int)))
		return
	}
	short := ir.Bool(g.pick(2) == 0)
	c := g.IfValue(g.bool(), ir.TI1, arm(g.bool), func() *ir.Value { return short })
	g.bools = append(g.bools, c)
	if g.pick(2) == 0 {
		g.If(c, func() { g.scope(func() { g.stmts(0) }) }, nil)
	}
}

func (g *gen) loop() {
	if g.depth > 2 {
		return
	}
	n := int64(1 + g.pick(5))
	g.scope(func() {
		g.Loop(n, func(i *ir.Value) {
			g.add(i)
			g.stmts(0)
		})
	})
}

// lookup updates an element of a map in place, or inserts it.
func (g *gen) lookup() {
	g.Store(ir.U64, g.key, 0, g.Binary(ir.OpAnd, g.int(), ir.Const(3)))
	p := g.Call("map_lookup_elem", ir.TMapVal(g.raw, true), ir.MapOperand(g.raw), g.key)
	v := g.IfValue(g.NotNull(p), ir.TI64, func() *ir.Value {
		q := g.NonNull(p)
		off := g.Binary(ir.OpAnd, g.int(), ir.Const(8))
		g.AtomicAdd(ir.U64, g.Add(q, off), 0, g.int())
		return g.Load(ir.U64, q, 8)
	}, func() *ir.Value {
		g.Store(ir.U64, g.mem, 0, g.int())
		return g.Call("map_update_elem", ir.TI64, ir.MapOperand(g.raw), g.key, g.mem, ir.Const(1))
	})
	g.add(v)
}

// record sends event 0 through the ring buffer.
func (g *gen) record() {
	a, b := g.int(), g.int()
	if g.level == Mixed && g.pick(2) == 0 {
		g.Emit(ir.OpEmit, ir.TVoid, a, b).Sym = "e"
		return
	}
	r := g.Call("ringbuf_reserve", ir.TRingbuf(24, true), ir.MapOperand("events"), ir.Const(24), ir.Const(0))
	g.IfElseCold(g.NotNull(r), func() {
		rec := g.NonNull(r)
		g.Store(ir.U32, rec, 0, ir.Const(0))
		g.Store(ir.U32, rec, 4, ir.Const(24))
		g.Store(ir.U64, rec, 8, a)
		g.Store(ir.U64, rec, 16, b)
		g.Call("ringbuf_submit", ir.TVoid, rec, ir.Const(0))
	}, nil)
}

// leave adds an early return.
func (g *gen) leave() {
	if g.depth == 0 && g.pick(2) == 0 {
		return
	}
	v := g.int()
	g.If(g.bool(), func() { g.Ret(v) }, nil)
}

func (g *gen) maps() {
	g.Store(ir.U64, g.key, 0, g.Binary(ir.OpAnd, g.int(), ir.Const(3)))
	x := ir.MapOperand("@x")
	switch g.pick(7) {
	case 0:
		g.Emit(ir.OpSum, ir.TVoid, ir.MapOperand("@s"), g.int())
	case 1:
		g.Emit(ir.OpCount, ir.TVoid, ir.MapOperand("@c"), g.key)
	case 2:
		g.add(g.Emit(ir.OpMapGet, ir.TI64, x, g.key))
	case 3:
		g.Emit(ir.OpMapSet, ir.TVoid, x, g.int(), g.key)
	case 4:
		g.add(g.Emit(ir.OpMapAdd, ir.TI64, x, g.int(), g.key))
	case 5:
		g.bools = append(g.bools, g.Emit(ir.OpMapDel, ir.TI1, x, g.key))
	case 6:
		g.bools = append(g.bools, g.Emit(ir.OpMapHas, ir.TI1, x, g.key))
	}
}

func (g *gen) builtin() {
	ops := []ir.Op{ir.OpPid, ir.OpTid, ir.OpUid, ir.OpGid, ir.OpCPU, ir.OpNsecs, ir.OpRand}
	g.add(g.Emit(ops[g.pick(len(ops))], ir.TI64))
}
