// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"

	"btc/internal/probe"
	"btc/ir"
)

// Scratch records: memory for slots that do not fit on the frame. A record is a value of a
// per-CPU array; docs/layouts.md says which programs share one.
//
// Programs of class k never nest on a CPU, because the kernel counts them and drops the nested ones
// (bpf_prog_active); their record needs no protection. The programs that the loader runs have a
// global each. The others take one of several records for their run: each has a count that must
// change from 0 to 1. Two programs that meet between add and test both try the next record, so
// there are more records than nesting levels to be expected.

type scratchClass struct {
	name    string
	records int
	counted bool // the record begins with the busy count
}

func classOf(kind string) scratchClass {
	switch probe.Lookup(kind).Nesting {
	case probe.NestsOwn:
		return scratchClass{"scratch_u", 4, true}
	case probe.Nests:
		return scratchClass{"scratch_t", 4, true}
	}
	return scratchClass{"scratch_k", 1, false}
}

const (
	busySize = 8 // u64 busy
	// maxScratch is PCPU_MIN_UNIT_SIZE, the maximum size of a value of a per-CPU array.
	maxScratch = 32 << 10
)

// useScratch takes a scratch record where f needs one, and rewrites the addresses of the
// slots in it as sums with the record's address.
func useScratch(m *ir.Module, f *ir.Func) *ir.Diag {
	mentions := scratchMentions(f)
	if len(mentions) == 0 {
		return nil
	}
	// A subprogram has a record of its own: its callers hold theirs, and programs
	// of several classes may call it.
	class := scratchClass{"scratch_" + f.Name, 4, true}
	if f.Prog != nil && probe.RunByLoader(f.Prog.Kind) { // run one after the other: a record has no other user
		useGlobal(m, f)
		return nil
	}
	if f.Prog != nil {
		class = classOf(f.Prog.Kind)
		f.Prog.SharesScratch = !class.counted
	}
	head := 0
	if class.counted {
		head = busySize
	}
	size := color(f, ir.Scratch) + head
	if size > maxScratch {
		return &ir.Diag{
			Pos: f.Pos,
			Text: fmt.Sprintf("the strings and records of this probe take %d bytes, at most %d are possible", size,
				maxScratch),
			Hint: "use shorter strings: config = { max_strlen = N }",
		}
	}
	for _, s := range f.Slots {
		if s.Class == ir.Scratch {
			s.Off += head
		}
	}
	x := intern(m, class.name, "percpu_array", 4, size, class.records)
	x.BPF.ValueSize = max(x.BPF.ValueSize, size)
	s := scratchUser{m: m, f: f, class: class, x: x}
	s.take(mentions)
	s.rebase()
	return nil
}

// useGlobal places f's scratch record among the globals, which takes no lookup.
func useGlobal(m *ir.Module, f *ir.Func) {
	name := "scratch_" + f.Name
	global(m, name, ir.GlobalData, roundUp(color(f, ir.Scratch), 8))
	s := scratchUser{m: m, f: f, base: ir.At(f.Entry(), 0, f.Pos).GlobalAddr(ir.TMapVal(".bss", false), name, 0)}
	s.rebase()
}

// scratchMentions returns, by block, the position of the first use of a scratch slot: an
// index into Values, their number for the terminator.
func scratchMentions(f *ir.Func) map[*ir.Block]int {
	first := map[*ir.Block]int{}
	for _, b := range f.Blocks {
		note := func(v *ir.Value, at int) {
			if _, ok := first[b]; !ok && v.Op == ir.OpSlotAddr && v.Slot.Class == ir.Scratch {
				first[b] = at
			}
		}
		for i, v := range b.Values {
			for _, a := range v.Args {
				note(a, i)
			}
		}
		b.Term.Uses(func(v **ir.Value) { note(*v, len(b.Values)) })
	}
	return first
}

type scratchUser struct {
	m     *ir.Module
	f     *ir.Func
	class scratchClass
	x     *ir.Map
	base  *ir.Value
}

// take looks the record up on the way to all uses, as late as possible: after a filter that
// most events do not pass.
func (s *scratchUser) take(mentions map[*ir.Block]int) {
	d := ir.Dominators(s.f)
	at := s.takeBlock(d, mentions)
	rets := reachableRets(at)
	i, ok := mentions[at]
	if !ok {
		i = len(at.Values)
	}
	i = beforeRecord(at, i)
	pos := s.f.Pos
	l := &lowering{Builder: ir.At(at, i, pos), m: s.m}
	if s.class.counted {
		s.base = s.takeCounted(l)
		for _, b := range rets {
			// The split has moved at's own return to the new block.
			if b == at {
				b = l.Block()
			}
			ir.AtEnd(b, b.Term.Pos).AtomicAdd(ir.U64, s.base, 0, ir.Const(-1))
		}
		return
	}
	p := l.lookup(s.x.Name, l.key32(ir.Const(0)))
	l.IfCold(l.IsNull(p), func() { l.Ret(ir.Const(0)) })
	s.base = l.NonNull(p)
}

// beforeRecord returns the position in b, at or before i, at which no ring buffer record is
// open: none may be where the program ends for lack of a scratch record.
func beforeRecord(b *ir.Block, i int) int {
	open := -1
	for j, v := range b.Values[:i] {
		switch {
		case v.Op != ir.OpCall:
		case v.Sym == "ringbuf_reserve":
			open = j
		case v.Sym == "ringbuf_submit" || v.Sym == "ringbuf_discard":
			open = -1
		}
	}
	if open >= 0 {
		return open
	}
	return i
}

// takeCounted tries the records in turn; when none is free the loss is counted and the
// program ends. The loop keeps the code short: only programs that interrupt each other get
// past its first iteration.
func (s *scratchUser) takeCounted(l *lowering) *ir.Value {
	taken := l.Split()
	base := taken.AddParam(ir.TMapVal(s.x.Name, false))
	block := func(cold bool) *ir.Block {
		b := l.Func().NewBlockAfter(l.Block())
		b.Cold = cold
		return b
	}
	try, pos := block(l.Block().Cold), l.Pos
	i := try.AddParam(ir.TI64)
	l.Block().Jump(try, pos, ir.Const(0))
	l.continueAt(try)
	p := l.lookup(s.x.Name, l.key32(i))
	none, found := block(true), block(try.Cold)
	l.Br(l.NotNull(p), found, none)
	l.continueAt(found)
	p = l.NonNull(p)
	l.AtomicAdd(ir.U64, p, 0, ir.Const(1))
	mine := l.ICmp(ir.EQ, l.Load(ir.U64, p, 0), ir.Const(1))
	release := block(true)
	found.Br(mine, ir.Edge{To: taken, Args: []*ir.Value{p}}, ir.Edge{To: release}, pos)
	l.continueAt(release)
	l.AtomicAdd(ir.U64, p, 0, ir.Const(-1))
	next := l.AddImm(i, 1)
	release.Br(l.ICmp(ir.ULT, next, ir.Const(int64(s.class.records))), ir.Edge{To: try, Args: []*ir.Value{next}},
		ir.Edge{To: none}, pos)
	l.continueAt(none)
	l.lose(s.x)
	l.Ret(ir.Const(0))
	l.continueAt(taken)
	return base
}

// takeBlock returns the block in which to take the record: the last one, outside of loops, that
// dominates all uses. A counted record must be released wherever the program ends after it, so it
// must dominate each of those ends, too.
func (s *scratchUser) takeBlock(d *ir.DomTree, mentions map[*ir.Block]int) *ir.Block {
	var at *ir.Block
	for b := range mentions {
		if at == nil {
			at = b
		}
		for !d.Dominates(at, b) {
			at = d.Idom(at)
		}
	}
	loops := ir.Loops(s.f, d)
	for loops.Of(at) != nil || s.class.counted && !dominatesRets(d, at) {
		at = d.Idom(at)
	}
	return at
}

func dominatesRets(d *ir.DomTree, at *ir.Block) bool {
	for _, b := range reachableRets(at) {
		if !d.Dominates(at, b) {
			return false
		}
	}
	return true
}

// reachableRets lists the returning blocks that can be reached from b, in the
// order of f.Blocks.
func reachableRets(b *ir.Block) []*ir.Block {
	seen := map[*ir.Block]bool{b: true}
	for work := []*ir.Block{b}; len(work) > 0; {
		x := work[len(work)-1]
		work = work[:len(work)-1]
		for _, e := range x.Term.Succs {
			if !seen[e.To] {
				seen[e.To] = true
				work = append(work, e.To)
			}
		}
	}
	var rets []*ir.Block
	for _, x := range b.Func.Blocks {
		if seen[x] && x.Term.Kind == ir.Ret {
			rets = append(rets, x)
		}
	}
	return rets
}

// rebase replaces the addresses of scratch slots. Addresses computed from them become map
// value pointers, too.
func (s *scratchUser) rebase() {
	a := pointsInto(s.f)
	for v, set := range a.addrs {
		set.each(func(i int) {
			if s.f.Slots[i].Class == ir.Scratch && v.Type == ir.TStack {
				v.Type = s.base.Type
			}
		})
	}
	for _, b := range s.f.Blocks {
		for i := 0; i < len(b.Values); i++ {
			v := b.Values[i]
			for j, arg := range v.Args {
				if arg.Op != ir.OpSlotAddr || arg.Slot.Class != ir.Scratch {
					continue
				}
				off := arg.Imm + int64(arg.Slot.Off)
				if j == 0 && (v.Op == ir.OpLoad || v.Op == ir.OpStore || v.Op == ir.OpAtomicAdd) { // these have an offset of their own
					v.Args[0] = s.base
					v.Imm += off
					continue
				}
				at := ir.At(b, i, v.Pos)
				sum := at.AddImm(s.base, off)
				v.Args[j] = sum
				if sum != s.base { // AddImm has put a value before v
					i++
				}
			}
		}
		end := ir.AtEnd(b, b.Term.Pos)
		b.Term.Uses(func(v **ir.Value) {
			if (*v).Op == ir.OpSlotAddr && (*v).Slot.Class == ir.Scratch {
				*v = end.AddImm(s.base, (*v).Imm+int64((*v).Slot.Off))
			}
		})
	}
}
