// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"slices"

	"btc/ir"
)

// The in-place form of a loop over a range that is otherwise outlined into a callback.
//
// bpf_loop exists since 5.17. For older kernels, the program contains the loop a second
// time with a counter, as a bounded loop that every kernel since 5.3 verifies. The test for
// the helper is decided on the host; the kernel drops the dead side, and the loader removes
// it (below 5.13 the kernel refuses to decode the address of a subprogram even in dead
// code).
//
//	  v9:i64 = core enumval_exists field(enum bpf_func_id___loop:BPF_FUNC_loop)
//	  v10:i1 = icmp ne v9, 0
//	  br v10, b5, b6
//	b5:                                              ; as without the form in place
//	  v11:i64 = call loop(v1, &p_for1, s0+0, 0)
//	  jump b7(...)
//	b6:
//	  jump b8(0, 0)
//	b8(v12:i64, v13:i64):                            ; what the loop carries, and the counter
//	  v14:i1 = icmp uge v13, v1
//	  br v14, b9, b10
//	b9:                                              ; the end: the words as the callback leaves them
//	  store.u64 [s0+8], v12
//	  jump b7(0)
//	b10:
//	  v15:i1 = icmp ult v13, 1024                    ; no more, or the kernel refuses the program
//	  br v15, b11, b12
//	b7(v16:i64):                                     ; what rangecut is

// inPlace is the in-place copy of a loop over a range.
type inPlace struct {
	blocks map[*ir.Block]*ir.Block
	values ir.Subst
	enter  *ir.Block // leads to the head's copy
	join   *ir.Block // both forms end here
	zero   *ir.Value // the number 0, unknown to the verifier
	stops  bool      // the loop can end before all iterations are done
}

// copyLoop makes the in-place form of o's loop, without the exits of its body.
func (o *outliner) copyLoop(p *planner) {
	f, pos := o.f, o.next.Pos
	c := &inPlace{values: ir.Subst{}}
	maxTrip := p.trips[o.next]
	c.blocks = ir.CopyBlocks(f, append([]*ir.Block{o.head}, o.region...), c.values)
	o.inPlace = c
	head := c.blocks[o.head]
	for _, b := range o.region {
		for i, v := range b.Values {
			if v.Op == ir.OpRangeNext { // the copy has its trip count
				w := c.blocks[b].Values[i]
				p.trips[w], p.within[w] = p.trips[v], p.within[v]
			}
		}
	}
	// The head is rangenext and its test. In the copy a counter replaces both: rangenext returns the number of the
	// iteration, from 1, which the body computes at its start, and the test is decided wherever else it is used.
	next, test := c.values[o.next], c.values[o.head.Values[1]]
	head.Values = nil
	counter := head.AddParam(ir.TI64)
	body := head.Term.Succs[o.body].To
	iteration := ir.At(body, 0, pos).AddImm(counter, 1)
	ir.Subst{next: iteration, test: ir.Bool(o.body == 0)}.Apply(f)
	c.values[o.next] = iteration

	c.enter, c.join = f.NewBlock(), f.NewBlock()
	c.join.AddParam(ir.TI64)
	at := ir.AtEnd(c.enter, pos)
	// A global variable, not a constant: the verifier reads constants out of maps only if they are frozen and read-only
	// for programs (check_mem_access and bpf_map_direct_read in kernel/bpf/verifier.c, 5.5), and .data is neither.
	c.zero = at.Global(ir.U64, global(o.m, unknownZero, ir.GlobalData, 8).Name, 0)
	var first []*ir.Value
	if initial := o.pre.Term.Succs; len(initial) > 0 {
		for _, v := range initial[0].Args {
			first = append(first, c.unknown(at, v))
		}
	}
	// The values that the latches pass on are hidden from the verifier, except for those that do not change and the
	// counter: it has to know the counter, to see that the loop ends.
	for _, b := range o.region {
		nb := c.blocks[b]
		for i := range nb.Term.Succs {
			e := &nb.Term.Succs[i]
			if e.To != head {
				continue
			}
			end := ir.AtEnd(nb, nb.Term.Pos)
			for j, v := range e.Args {
				if v != head.Params[j] {
					e.Args[j] = c.unknown(end, v)
				}
			}
			e.Args = append(e.Args, iteration)
		}
	}
	n := o.walk.Args[0]
	if !fixedAtLoad(o.m, n) {
		n = c.unknown(at, n)
	}
	at.Jump(head, append(first, ir.Const(0))...)

	head.Term = ir.Term{}
	done := func() *ir.Block { return o.endInPlace(ir.Const(0)) }
	full := func() *ir.Block {
		c.stops = true
		return o.endInPlace(ir.Const(int64(p.message(o.f, o.walk, maxTrip) + 1)))
	}
	// The verifier walks a loop iteration by iteration until a branch on the counter is decided (is_branch_taken). A
	// test against a number that it does not know never is, so a second test, against a constant, bounds the loop.
	h := ir.AtEnd(head, pos)
	switch {
	case n.IsConst() && (uint64(n.Imm) <= maxTrip || p.within[o.next]):
		h.Br(h.ICmp(ir.UGE, counter, n), done(), body)
	case n.IsConst():
		h.Br(h.ICmp(ir.UGE, counter, ir.Const(int64(maxTrip))), full(), body)
	default:
		more := f.NewBlock()
		h.Br(h.ICmp(ir.UGE, counter, n), done(), more)
		m := ir.AtEnd(more, pos)
		last := done
		if !p.within[o.next] { // more iterations are possible: report that they were not done
			last = full
		}
		m.Br(m.ICmp(ir.UGE, counter, ir.Const(int64(maxTrip))), last(), body)
		more.Cold = true
	}
	for _, b := range c.blocks {
		b.Cold = true
	}
	c.enter.Cold = true
}

// unknown returns a number that the verifier does not know. Otherwise it would verify the body
// once for each value of a counter of the script, and the code after it once for each
// length that it learns of a loop from its tests: it prunes a path only where an earlier state covers
// it, and two known numbers that a later branch or address depends on (precise, 5.3) do not cover each
// other (regsafe in kernel/bpf/verifier.c).
func (c *inPlace) unknown(at *ir.Builder, v *ir.Value) *ir.Value {
	switch {
	case v.Type != ir.TI64:
		return v
	case v.IsConst():
		return at.AddImm(c.zero, v.Imm)
	}
	return at.Add(v, c.zero)
}

// fixedAtLoad reports whether the verifier knows v as a constant: it is computed from constants and from
// parameters and facts of the host, which are in frozen sections (5.2) when a program is loaded, whose contents the
// verifier reads as constants (5.5, bpf_map_direct_read). A trip count that it
// knows is left to it: it then verifies exactly so many iterations, and the code after the loop once.
func fixedAtLoad(m *ir.Module, v *ir.Value) bool {
	known := map[*ir.Value]bool{} // operands are shared: each is looked at once
	var fixed func(v *ir.Value) bool
	fixed = func(v *ir.Value) bool {
		is, seen := known[v]
		if seen {
			return is
		}
		switch {
		case v.IsConst(), v.Op == ir.OpCORE:
			is = true
		case v.Op == ir.OpGlobal:
			g := m.Global(v.Sym)
			is = g != nil && g.Kind.Constant()
		case v.Op == ir.OpICmp, v.Op == ir.OpSelect, v.Op == ir.OpBoolInt, v.Op == ir.OpZext, v.Op == ir.OpSext, v.Op.Is(ir.Binary):
			is = !slices.ContainsFunc(v.Args, func(a *ir.Value) bool { return !fixed(a) })
		}
		known[v] = is
		return is
	}
	return fixed(v)
}

// countInner gives the loops nested in the in-place body counters, too.
func (o *outliner) countInner(p *planner) {
	for _, b := range o.region {
		nb := o.inPlace.blocks[b]
		for i := 0; i < len(nb.Values); i++ {
			if v := nb.Values[i]; v.Op == ir.OpRangeNext {
				p.countTo(o.f, v, o.inPlace)
				i = -1
			}
		}
	}
}

// endInPlace returns a block that ends the in-place form after its last iteration.
func (o *outliner) endInPlace(cut *ir.Value) *ir.Block {
	b := o.f.NewBlock()
	b.Cold = true
	at := ir.AtEnd(b, o.next.Pos)
	o.putCarried(at)
	at.Jump(o.inPlace.join, cut)
	return b
}

// putCarried stores the loop-carried values where the callback leaves them.
func (o *outliner) putCarried(at *ir.Builder) {
	for _, p := range o.head.Params {
		put(at, ir.SlotAddr(o.shared, 0), o.wordOf(p), o.inPlace.values[p])
	}
}

// leaveInPlace does in the copy of b what leaveBody did in b: it leaves the loop along edge
// i of b's terminator (-1: the return), with an exit number (0: none) and with values in
// words.
func (o *outliner) leaveInPlace(b *ir.Block, i, code int, args []*ir.Value, words []int) {
	if o.inPlace == nil {
		return
	}
	from := o.inPlace.blocks[b]
	end := ir.AtEnd(from, from.Term.Pos)
	if i < 0 {
		from.Term = ir.Term{}
	} else {
		stub := o.f.NewBlock()
		stub.Cold = true
		end = ir.AtEnd(stub, from.Term.Pos)
		from.Term.Succs[i] = ir.Edge{To: stub}
	}
	o.putCarried(end)
	for j, word := range words {
		if word >= 0 {
			put(end, ir.SlotAddr(o.shared, 0), word, o.inPlace.values.Of(args[j]))
		}
	}
	if code > 0 {
		put(end, ir.SlotAddr(o.shared, 0), o.code, ir.Const(int64(code)))
	}
	end.Jump(o.inPlace.join, ir.Const(0))
}

// message returns the index of the message for a loop whose in-place form stopped early.
func (p *planner) message(f *ir.Func, walk *ir.Value, trips uint64) int {
	e := p.m.Meta.Errors[cutsOf(f, walk)[0].Imm]
	e.Text = fmt.Sprintf("Loop stopped after %d iterations: this is the limit on kernels without bpf_loop (Linux 5.17)",
		trips)
	for i := range p.m.Meta.Errors {
		if old := &p.m.Meta.Errors[i]; old.Text == e.Text && old.Pos == e.Pos && old.End == e.End {
			return i
		}
	}
	p.m.Meta.Errors = append(p.m.Meta.Errors, e)
	return len(p.m.Meta.Errors) - 1
}

// cutsOf finds the rangecut ops of a loop: at most one, unless code was duplicated.
func cutsOf(f *ir.Func, walk *ir.Value) []*ir.Value {
	var all []*ir.Value
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			if v.Op == ir.OpRangeCut && v.Args[0] == walk {
				all = append(all, v)
			}
		}
	}
	return all
}

// settleCut replaces each rangecut of a loop by its value, and decides the branches on a
// known one.
func settleCut(f *ir.Func, walk *ir.Value, value func(at *ir.Builder, v *ir.Value) *ir.Value) {
	known := ir.Subst{}
	for _, v := range cutsOf(f, walk) {
		i := v.Index()
		at := ir.At(v.Block, i, v.Pos)
		b := v.Block
		known[v] = value(at, v)
		b.Remove(v.Index())
	}
	if len(known) == 0 {
		return
	}
	known.Apply(f)
	for _, b := range f.Blocks {
		for i := 0; i < len(b.Values); i++ {
			if v := b.Values[i]; v.Op == ir.OpICmp && v.Args[0].Type == ir.TI64 && v.Args[0].IsConst() &&
				v.Args[1].IsConst() {
				ir.ReplaceUses(f, v, ir.Bool(v.Cond.Eval(v.Args[0].Imm, v.Args[1].Imm)))
				b.Remove(i)
				i--
			}
		}
	}
	if decideBranches(f) {
		ir.RemoveUnreachable(f)
	}
}

// countTo gives a loop nested in an in-place body a counter, too.
func (p *planner) countTo(f *ir.Func, next *ir.Value, c *inPlace) {
	head, begin := next.Block, next.Args[0]
	maxTrip, n := p.trips[next], next.Args[0].Args[0]
	complete := p.within[next] || n.IsConst() && uint64(n.Imm) <= maxTrip // all iterations are done
	index := 0
	if !complete && len(cutsOf(f, begin)) > 0 {
		index = p.message(f, begin, maxTrip)
	}
	// Earlier passes may have decided the test of rangenext: then there is no loop left.
	test := head.Term.Arg
	if head.Term.Kind != ir.Br || test.Op != ir.OpICmp || test.Args[0] != next || test.Block != head {
		ir.ReplaceUses(f, next, ir.Const(0)) // unused
		head.Remove(next.Index())
		return
	}
	body := 0
	if test.Cond == ir.EQ {
		body = 1
	}
	// A block on the edge into the body separates the latches, which it dominates, from the edges that enter the loop.
	inside := ir.SplitEdge(ir.Pred{Block: head, Succ: body})
	d := ir.Dominators(f)
	var entries, latches []ir.Pred
	for _, w := range ir.Preds(f)[head.ID] {
		if d.Dominates(inside, w.Block) {
			latches = append(latches, w)
		} else {
			entries = append(entries, w)
		}
	}
	if len(latches) == 0 { // at most one iteration: the test becomes "n is not 0"
		settleCut(f, begin, func(*ir.Builder, *ir.Value) *ir.Value { return ir.Const(0) })
		ir.ReplaceUses(f, next, ir.Const(1))
		test.Args = []*ir.Value{n, ir.Const(0)}
		head.Remove(next.Index())
		begin.Block.Remove(begin.Index())
		return
	}
	counter := head.AddParam(ir.TI64)
	iteration := ir.At(inside, 0, next.Pos).AddImm(counter, 1)
	if !fixedAtLoad(p.m, n) {
		n = c.unknown(ir.At(begin.Block, begin.Index(), begin.Pos), n)
	}
	for _, w := range entries {
		w.Edge().Args = append(slices.Clip(w.Edge().Args), ir.Const(0))
	}
	for _, w := range latches { // as in copyLoop
		b := ir.SplitEdge(w)
		e, end := &b.Term.Succs[0], ir.AtEnd(b, b.Term.Pos)
		for j, v := range e.Args {
			if v != head.Params[j] {
				e.Args[j] = c.unknown(end, v)
			}
		}
		e.Args = append(slices.Clip(e.Args), iteration)
	}
	// The loop in place ends before it has run more than maxTrip iterations, so whether it will be cut short is known
	// from n, before the first.
	settleCut(f, begin, func(at *ir.Builder, v *ir.Value) *ir.Value {
		switch {
		case complete:
			return ir.Const(0)
		case n.IsConst():
			return ir.Const(int64(index + 1))
		}
		return at.Select(at.ICmp(ir.UGT, n, ir.Const(int64(maxTrip))), ir.Const(int64(index+1)), ir.Const(0))
	})
	ir.ReplaceUses(f, next, iteration)
	done := head.Term.Succs[1-body]
	pos := head.Term.Pos
	head.Remove(test.Index())
	head.Remove(next.Index())
	begin.Block.Remove(begin.Index())
	head.Term = ir.Term{}
	// exitAt ends b with a branch out of the loop once the counter has reached last.
	exitAt := func(b *ir.Block, last *ir.Value) *ir.Block {
		c := ir.AtEnd(b, pos).ICmp(ir.UGE, counter, last)
		after := f.NewBlockAfter(b)
		b.Br(c, ir.Edge{To: done.To, Args: append([]*ir.Value(nil), done.Args...)}, ir.Edge{To: after}, pos)
		return after
	}
	at := head
	if !n.IsConst() || uint64(n.Imm) <= maxTrip {
		at = exitAt(at, n)
	}
	if !n.IsConst() || uint64(n.Imm) > maxTrip { // the constant that bounds the loop for the verifier
		at = exitAt(at, ir.Const(int64(maxTrip)))
	}
	at.Jump(inside, pos)
}
