// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"

	"btc/ir"
)

// loop-outlining is loop outlining: it turns each loop over a map into a call of
// for_each_map_elem. The body of the loop becomes a static subprogram that the kernel calls for
// each element.
//
// requires:    placed slots
// establishes: no mapiter, mapnext or mapkey is left
// invalidates: dominators, liveness
//
//	b1(v3:i64):                                      ; the head
//	  v4:mapval(@x)? = mapnext @x, v1
//	  v5:i1 = icmp ne v4, 0
//	  br v5, b2, b4
//	b2:                                              ; the body
//	  v6:mapval(@x) = nonnull v4
//	  v7:i64 = load.u64 [v6+0]
//	  v8:i64 = add v3, v7
//	  jump b1(v8)
//	->
//	  store.u64 [s0+0], 0                            ; v3 before the first iteration
//	  v9:i64 = call for_each_map_elem(@x, &p_for1, s0+0, 0)
//	  v3:i64 = load.u64 [s0+0]
//	func @p_for1(v0:i64, v1:mapkey(@x), v2:mapval(@x), v3:stack)
//	  ...                                            ; returns 0: go on; 1: stop
//
// The body is the set of blocks that the first block after the null test dominates,
// including what follows a break that nothing else leads to. The callback gets an address
// in the caller's frame: the values that cross the border are stored there, and it reaches
// the caller's slots from there. The kernel tracks a pointer's kind through such a word, so
// map values, the context and the scratch record cross as well. Where the body leaves the
// loop it stores the number of its exit and stops the iteration; the caller continues at
// that exit. A return is an exit too.
//
// for_each_map_elem exists since 5.13; on kernels before 6.7 the verifier checks a callback
// once, since then until its state repeats.
func outlineLoops(m *ir.Module) []ir.Diag {
	short := &planner{m: m}
	m.EachFunc(func(_ int, f *ir.Func) { short.countShort(f) })
	p := planLoops(m)
	for i := 0; i < len(m.Funcs); i++ { // m.Funcs grows: bodies may contain loops
		f := m.Funcs[i]
		n := 0
		for v := firstLoop(f); v != nil; v = firstLoop(f) {
			n++
			outline(p, f, v, fmt.Sprintf("%s_for%d", f.Name, n))
		}
	}
	return nil
}

// firstLoop returns the mapnext or rangenext of an outermost loop, or nil if there is none.
func firstLoop(f *ir.Func) *ir.Value {
	for _, b := range ir.ReversePostorder(f) {
		for _, v := range b.Values {
			if v.Op == ir.OpMapNext || v.Op == ir.OpRangeNext {
				return v
			}
		}
	}
	return nil
}

// walkHelper calls a subprogram for each element of a map.
const walkHelper = "for_each_map_elem"

// rangeHelper calls a subprogram n times.
const rangeHelper = "loop"

// outliner moves the body of one loop into a subprogram.
type outliner struct {
	f, cb  *ir.Func
	next   *ir.Value // the mapnext or rangenext
	walk   *ir.Value // the mapiter or rangeiter
	head   *ir.Block // contains next and its test, nothing else
	pre    *ir.Block // runs before the loop; ends in the call
	body   int       // the head's edge into the body: 0 or 1
	region []*ir.Block
	inside map[*ir.Block]bool

	shared  *ir.Slot // words shared by both sides
	words   map[*ir.Value]int
	subst   ir.Subst  // replacements of f's values in the callback
	elem    *ir.Value // the callback's parameters
	key     *ir.Value
	frame   *ir.Value
	exits   []loopExit
	code    int // word with the number of the exit
	m       *ir.Module
	zero    *ir.Value // the number 0, unknown to the verifier
	made    *ir.Value // number of iterations that bpf_loop made
	inPlace *inPlace  // the loop's other form, or nil if there is none
}

// loopExit is an edge out of the body other than to the next element.
type loopExit struct {
	edge  ir.Edge // in the caller; To nil: return
	words []int   // by argument: the word that holds it, -1 for one that the caller has
}

func outline(p *planner, f *ir.Func, next *ir.Value, name string) {
	o := &outliner{
		m:      p.m,
		f:      f,
		next:   next,
		inside: map[*ir.Block]bool{},
		words:  map[*ir.Value]int{},
		subst:  ir.Subst{},
	}
	o.walk = next.Args[len(next.Args)-1]
	if o.walk.Op != ir.OpMapIter && o.walk.Op != ir.OpRangeIter {
		panic("BUG: an iterator with several entries: " + next.Text())
	}
	if o.findBody() {
		if o.overMap() {
			o.m.Meta.AddNeed(ir.Need{Feature: walkHelper, Construct: "'for' over a map", Pos: next.Pos})
		}
		o.makeCallback(name, p)
		o.m.Funcs = append(o.m.Funcs, o.cb)
		p.hasLoop[o.cb] = p.hasLoop[f] || !o.overMap()
		o.leaveBody()
		o.enterBody()
		o.callIterator()
		settleCut(f, o.walk, o.cut)
		if o.inPlace != nil {
			o.countInner(p)
		}
	} else {
		settleCut(f, o.walk, func(*ir.Builder, *ir.Value) *ir.Value { return ir.Const(0) })
	}
	o.walk.Block.Remove(o.walk.Index())
	ir.RemoveUnreachable(f)
}

// overMap distinguishes a loop over a map from one over a range.
func (o *outliner) overMap() bool { return o.next.Op == ir.OpMapNext }

// findBody finds head and body and gives the head a preheader. It removes a loop whose elements
// are unused and returns false for it.
func (o *outliner) findBody() bool {
	at := o.next.Index()
	b := o.next.Block
	test := b.Term.Arg
	if b.Term.Kind != ir.Br || test.Op != ir.OpICmp || test.Args[0] != o.next || test.Block != b {
		b.Remove(at)
		return false
	}
	if test.Cond == ir.EQ {
		o.body = 1
	}
	entry := ir.SplitEdge(ir.Pred{Block: b, Succ: o.body})
	d := ir.Dominators(o.f)
	for _, x := range d.Order {
		if d.Dominates(entry, x) {
			o.region = append(o.region, x)
			o.inside[x] = true
		}
	}
	o.head, o.pre = b, b
	for _, p := range ir.Preds(o.f)[b.ID] {
		if o.inside[p.Block] {
			o.pre = nil
		}
	}
	if o.pre != nil { // no back edge
		o.head = ir.SplitBlock(b, at)
	} else {
		o.newPreheader()
	}
	if len(o.head.Values) != 2 {
		panic("BUG: a loop's head has ops besides the iterator's: " + o.next.Text())
	}
	return true
}

// newPreheader redirects the edges into the loop through a preheader.
func (o *outliner) newPreheader() {
	preds := ir.Preds(o.f)[o.head.ID]
	o.pre = o.f.NewBlockAfter(o.head)
	for _, p := range o.head.Params {
		o.pre.AddParam(p.Type)
	}
	for _, w := range preds {
		if !o.inside[w.Block] {
			w.Edge().To = o.pre
		}
	}
	o.pre.Jump(o.head, o.next.Pos, append([]*ir.Value(nil), o.pre.Params...)...)
}

// makeCallback makes the subprogram and moves the body into it.
func (o *outliner) makeCallback(name string, p *planner) {
	o.cb = &ir.Func{Name: name, Pos: o.next.Pos, Params: []ir.Type{ir.TI64, ir.TStack}}
	if o.overMap() {
		x := o.next.Args[0].Sym
		o.cb.Params = []ir.Type{ir.TI64, ir.TMapKey(x), ir.TMapVal(x, false), ir.TStack}
	}
	entry := o.cb.NewBlock()
	for _, t := range o.cb.Params {
		entry.AddParam(t)
	}
	o.frame = entry.Params[len(entry.Params)-1]
	if o.overMap() {
		o.key, o.elem = entry.Params[1], entry.Params[2]
	} else {
		o.elem = ir.AtEnd(entry, o.next.Pos).AddImm(entry.Params[0], 1)
	}
	o.subst[o.next] = o.elem
	o.subst[o.head.Values[1]] = ir.Bool(o.body == 0)
	o.shared = o.f.NewSlot("walk", 0, 8)
	o.code = o.word()
	if p.inPlace(o.f, o.next) {
		o.copyLoop(p)
	}
	for _, b := range o.region {
		for i := 0; i < len(b.Values); i++ {
			switch v := b.Values[i]; {
			case v.Op == ir.OpAttachID: // a subprogram has no attach point of its own
				b.Remove(i)
				o.pre.AppendValue(v)
				i--
			case v.Op == ir.OpMapKey && v.Args[0].Op == ir.OpNonNull && v.Args[0].Args[0] == o.next,
				v.Op == ir.OpMapKey && v.Args[0] == o.next:
				o.subst[v] = o.key
				b.Remove(i)
				i--
			}
		}
	}
	ir.MoveBlocks(o.f, o.cb, o.region)
}

// word reserves a word of the shared slot and returns its offset.
func (o *outliner) word() int {
	o.shared.Size += 8
	return o.shared.Size - 8
}

// wordOf returns the word for a value of f that the callback needs.
func (o *outliner) wordOf(v *ir.Value) int {
	w, ok := o.words[v]
	if !ok {
		w = o.word()
		o.words[v] = w
	}
	return w
}

// put stores a value of any type into a word.
func put(b *ir.Builder, p *ir.Value, word int, v *ir.Value) {
	if v.Type == ir.TI1 {
		v = b.BoolInt(v)
	}
	b.Store(ir.U64, p, word, v)
}

// get returns the reverse of put.
func get(b *ir.Builder, p *ir.Value, word int, t ir.Type) *ir.Value {
	if t == ir.TI1 {
		return b.ICmp(ir.NE, b.Load(ir.U64, p, word), ir.Const(0))
	}
	return b.LoadAs(t, ir.U64, p, word)
}

// leaveBody turns the exits of the body into returns of the callback.
func (o *outliner) leaveBody() {
	for _, b := range o.region {
		t := &b.Term
		if t.Kind == ir.Ret {
			end := ir.AtEnd(b, t.Pos)
			value := t.Arg
			b.Term = ir.Term{}
			o.leave(end, ir.Edge{Args: []*ir.Value{value}}, b, -1)
			continue
		}
		for i := range t.Succs {
			e := t.Succs[i]
			if o.inside[e.To] {
				continue
			}
			stub := o.cb.NewBlockAfter(b)
			t.Succs[i] = ir.Edge{To: stub}
			end := ir.AtEnd(stub, t.Pos)
			if done := o.head.Term.Succs[1-o.body]; e.To == done.To && len(e.Args) == 0 {
				end.Ret(ir.Const(1)) // a break without values
				o.leaveInPlace(b, i, 0, nil, nil)
				continue
			}
			if e.To != o.head {
				o.leave(end, e, b, i)
				continue
			}
			for j, p := range o.head.Params {
				if e.Args[j] != p {
					put(end, o.frame, o.wordOf(p), e.Args[j])
				}
			}
			end.Ret(ir.Const(0))
		}
	}
}

// leave ends the callback so that the caller continues along e, edge i of b's terminator.
func (o *outliner) leave(end *ir.Builder, e ir.Edge, b *ir.Block, i int) {
	x := loopExit{edge: ir.Edge{To: e.To, Args: append([]*ir.Value(nil), e.Args...)}}
	for _, a := range e.Args {
		word := -1
		if a == o.next || a.ID >= 0 && a.Block.Func == o.cb {
			word = o.word()
			put(end, o.frame, word, a)
		}
		x.words = append(x.words, word)
	}
	o.exits = append(o.exits, x)
	put(end, o.frame, o.code, ir.Const(int64(len(o.exits))))
	end.Ret(ir.Const(1))
	o.leaveInPlace(b, i, len(o.exits), x.edge.Args, x.words)
}

// enterBody loads at the callback's start what the body needs from the caller, and
// addresses the caller's slots relative to the frame pointer that it receives.
func (o *outliner) enterBody() {
	start := ir.AtEnd(o.cb.Entry(), o.next.Pos)
	o.cb.Uses(func(v **ir.Value) {
		if a := *v; a.ID >= 0 && o.subst[a] == nil && a.Block.Func != o.cb {
			if o.subst[a] = relocatedAgain(start, a); o.subst[a] == nil {
				o.subst[a] = get(start, o.frame, o.wordOf(a), a.Type)
			}
		}
	})
	start.Jump(o.region[0])
	o.subst.Apply(o.cb)
	for _, p := range o.head.Params {
		o.wordOf(p)
	}
	o.forget()
	o.forgetCarried()
	o.placeShared()
	o.rebase()
}

// relocatedAgain computes a relocated constant, or one that is clamped, in the callback; nil for other values. The
// size of a field must have a bound where a helper gets it, and a constant is cheaper than a word of the frame.
func relocatedAgain(at *ir.Builder, v *ir.Value) *ir.Value {
	switch {
	case v.Op == ir.OpCORE:
		return at.CORE(v.Kind, v.CORE)
	case v.Op == ir.OpSelect && v.Args[1].IsConst() && v.Args[2].Op == ir.OpCORE && v.Args[0].Op == ir.OpICmp &&
		v.Args[0].Args[0] == v.Args[2] && v.Args[0].Args[1].IsConst():
		size := at.CORE(v.Args[2].Kind, v.Args[2].CORE)
		return at.Select(at.ICmp(v.Args[0].Cond, size, v.Args[0].Args[1]), v.Args[1], size)
	}
	return nil
}

// forget hides from the verifier what the body reads from the caller's variables in memory
// if the body computes what it writes there; see unknown. Values that only the body uses do
// not live across iterations.
func (o *outliner) forget() {
	computed, outside := map[*ir.Slot]bool{}, map[*ir.Slot]bool{}
	o.f.Uses(func(v **ir.Value) {
		if (*v).Op == ir.OpSlotAddr {
			outside[(*v).Slot] = true
		}
	})
	each := func(fn func(b *ir.Block, i int, v *ir.Value, s *ir.Slot)) {
		for _, b := range o.cb.Blocks {
			for i := 0; i < len(b.Values); i++ {
				if v := b.Values[i]; len(v.Args) > 0 && v.Args[0].Op == ir.OpSlotAddr && v.Mem == ir.U64 {
					fn(b, i, v, v.Args[0].Slot)
				}
			}
		}
	}
	each(func(_ *ir.Block, _ int, v *ir.Value, s *ir.Slot) {
		if v.Op == ir.OpStore && outside[s] && v.Args[1].Type == ir.TI64 && !v.Args[1].IsConst() {
			computed[s] = true
		}
	})
	var zero *ir.Value
	known := ir.Subst{}
	each(func(b *ir.Block, i int, v *ir.Value, s *ir.Slot) {
		if v.Op != ir.OpLoad || v.Type != ir.TI64 || !computed[s] || known[v] != nil || b == o.cb.Entry() {
			return
		}
		if zero == nil {
			// Not a constant: the verifier takes the words of frozen read-only maps as known (bpf_map_direct_read).
			global(o.m, unknownZero, ir.GlobalData, 8)
			zero = ir.At(o.cb.Entry(), 0, o.next.Pos).Global(ir.U64, unknownZero, 0)
		}
		at := ir.At(b, i+1, v.Pos)
		known[v] = at.Emit(ir.OpAdd, ir.TI64, v, zero)
	})
	for v, sum := range known {
		o.cb.Uses(func(u **ir.Value) {
			if *u == v {
				*u = sum
			}
		})
		sum.Args[0] = v
	}
}

// placeShared puts the shared words below the other slots of the frame. The loops of a
// function share these words: none needs them after its call.
func (o *outliner) placeShared() {
	low := 0
	for _, s := range o.f.Slots {
		if s.Class == ir.Frame && s.Name != o.shared.Name {
			low = min(low, s.Off)
		}
	}
	o.shared.Class, o.shared.Off = ir.Frame, low-o.shared.Size
}

// rebase rewrites the addresses of the caller's slots in the callback as sums with the
// frame address that it receives.
func (o *outliner) rebase() {
	off := func(v *ir.Value) int64 { return v.Imm + int64(v.Slot.Off-o.shared.Off) }
	ours := func(v *ir.Value) bool { return v.Op == ir.OpSlotAddr }
	for _, b := range o.cb.Blocks {
		for i := 0; i < len(b.Values); i++ {
			v := b.Values[i]
			for j, a := range v.Args {
				switch {
				case !ours(a):
				case j == 0 && (v.Op == ir.OpLoad || v.Op == ir.OpStore || v.Op == ir.OpAtomicAdd):
					v.Imm += off(a)
					v.Args[0] = o.frame
				default:
					at := ir.At(b, i, v.Pos)
					v.Args[j] = at.AddImm(o.frame, off(a))
					if v.Args[j] != o.frame {
						i++
					}
				}
			}
		}
		end := ir.AtEnd(b, b.Term.Pos)
		b.Term.Uses(func(v **ir.Value) {
			if ours(*v) {
				*v = end.AddImm(o.frame, off(*v))
			}
		})
	}
}

// callIterator ends the block before the loop with the call and the exits.
func (o *outliner) callIterator() {
	initial := o.pre.Term.Succs
	pos := o.next.Pos
	o.pre.Term = ir.Term{}
	at := ir.AtEnd(o.pre, pos)
	area := ir.SlotAddr(o.shared, 0)
	if len(o.exits) > 0 {
		put(at, area, o.code, ir.Const(0))
	}
	for _, x := range o.exits {
		// The verifier does not see that an exit's number and its values belong together.
		for _, word := range x.words {
			if word >= 0 {
				put(at, area, word, ir.Const(0))
			}
		}
	}
	if o.inPlace != nil {
		call := o.f.NewBlockAfter(o.pre)
		at.Br(at.HasHelper(rangeHelper), call, o.inPlace.enter)
		at = ir.AtEnd(call, pos)
	}
	for i, p := range o.head.Params {
		put(at, area, o.wordOf(p), o.unknown(at, initial[0].Args[i]))
	}
	for _, v := range ordered(o.words) {
		if v.Block != o.head {
			put(at, area, o.words[v], v)
		}
	}
	after := ir.Subst{}
	if o.overMap() {
		at.Call(walkHelper, ir.TI64, o.next.Args[0], ir.FuncOperand(o.cb.Name), area, ir.Const(0))
		after[o.next] = ir.Null(o.next.Type)
	} else {
		at = o.callLoop(at, area)
		after[o.next] = ir.Const(0)
	}
	for _, p := range o.head.Params {
		after[p] = get(at, area, o.words[p], p.Type)
	}
	o.branchToExit(at, area)
	after.Apply(o.f)
}

// callLoop calls bpf_loop, and returns the point after it and after the in-place form.
func (o *outliner) callLoop(at *ir.Builder, area *ir.Value) *ir.Builder {
	n, most := o.walk.Args[0], ir.Const(maxIterations)
	trips := n
	switch {
	case !n.IsConst():
		trips = at.Select(at.ICmp(ir.UGT, n, most), most, n)
	case uint64(n.Imm) > maxIterations:
		trips = most
	}
	o.made = at.Call(rangeHelper, ir.TI64, trips, ir.FuncOperand(o.cb.Name), area, ir.Const(0))
	if o.inPlace == nil {
		return at
	}
	code := ir.Const(0)
	if all := cutsOf(o.f, o.walk); len(all) > 0 {
		code = o.cutOfCall(at, all[0])
	}
	at.Jump(o.inPlace.join, code)
	return ir.AtEnd(o.inPlace.join, at.Pos)
}

// cut returns the value of the loop's rangecut v after the loop.
func (o *outliner) cut(at *ir.Builder, v *ir.Value) *ir.Value {
	if o.inPlace == nil {
		return o.cutOfCall(at, v)
	}
	if n := o.walk.Args[0]; !o.inPlace.stops && n.IsConst() && uint64(n.Imm) <= maxIterations {
		return ir.Const(0)
	}
	return o.inPlace.join.Params[0]
}

// cutOfCall returns the value of rangecut v if the loop is a call of bpf_loop. A loader that limits the time of loops
// stops them before the limit of iterations, and has its own message.
func (o *outliner) cutOfCall(at *ir.Builder, v *ir.Value) *ir.Value {
	most := ir.Const(maxIterations)
	made := func(cut *ir.Value) *ir.Value { return at.Select(at.ICmp(ir.EQ, o.made, most), cut, ir.Const(0)) }
	switch n := o.walk.Args[0]; {
	case o.overMap(), n.IsConst() && uint64(n.Imm) <= maxIterations:
		return ir.Const(0)
	case n.IsConst():
		return made(ir.Const(v.Imm + 1))
	default:
		return made(at.Select(at.ICmp(ir.UGT, n, most), ir.Const(v.Imm+1), ir.Const(0)))
	}
}

// unknown returns v as a number that the verifier does not know. It would verify the body once
// for each known value of a counter (6.7 and later, where a branch depends on it), and not
// terminate.
func (o *outliner) unknown(at *ir.Builder, v *ir.Value) *ir.Value {
	if v.Type.IsPtr() {
		return v
	}
	if v.Type == ir.TI1 {
		v = at.BoolInt(v)
	}
	if o.zero == nil {
		global(o.m, unknownZero, ir.GlobalData, 8)
		o.zero = at.Global(ir.U64, unknownZero, 0)
	}
	if v.IsConst() {
		return at.AddImm(o.zero, v.Imm)
	}
	return at.Add(v, o.zero)
}

// unknownZero is a global that is never written.
const unknownZero = "unknown0"

// ordered lists the values by their words, so that output does not depend on the map's
// order.
func ordered(words map[*ir.Value]int) []*ir.Value {
	byWord := map[int]*ir.Value{}
	last := 0
	for v, w := range words {
		byWord[w] = v
		last = max(last, w)
	}
	var list []*ir.Value
	for w := 0; w <= last; w += 8 {
		if v := byWord[w]; v != nil {
			list = append(list, v)
		}
	}
	return list
}

// branchToExit emits the branch to the exit whose number the callback stored, or to the one after
// the last element.
func (o *outliner) branchToExit(at *ir.Builder, area *ir.Value) {
	done := o.head.Term.Succs[1-o.body]
	if len(o.exits) > 0 {
		code := at.Load(ir.U64, area, o.code)
		for i, x := range o.exits {
			take, rest := o.f.NewBlockAfter(at.Block()), o.f.NewBlockAfter(at.Block())
			at.Br(at.ICmp(ir.EQ, code, ir.Const(int64(i+1))), take, rest)
			at = ir.AtEnd(take, at.Pos)
			for j, word := range x.words {
				if word >= 0 {
					x.edge.Args[j] = get(at, area, word, x.edge.Args[j].Type)
				}
			}
			if x.edge.To == nil {
				at.Ret(x.edge.Args[0])
			} else {
				at.Jump(x.edge.To, x.edge.Args...)
			}
			at = ir.AtEnd(rest, at.Pos)
		}
	}
	at.Jump(done.To, done.Args...)
	o.head.Term = ir.Term{}
	o.head.Term.Kind = ir.Ret
	o.head.Term.Arg = ir.Const(0)
}
