// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"slices"

	"btc/ir"
)

// sink is code sinking: it moves computations down to their use, past helper calls: r0 to
// r5 do not survive calls, and only four registers do. It moves loads of small slots that
// are not written in between, loads of the context, and arithmetic whose operands are
// needed later anyway or that move along.
//
// requires:    core IR, slots not placed
// establishes: -
// invalidates: liveness
//
//	v1:i64 = load.u32 [s0+0]
//	v2:uaddr = add v0, 8
//	v3:i64 = call probe_read_user(s1+0, 8, v0)
//	v4:i64 = call probe_read_user(s2+0, 8, v2)
//	store.u32 [v9+0], v1
//	->
//	v3:i64 = call probe_read_user(s1+0, 8, v0)
//	v2:uaddr = add v0, 8
//	v4:i64 = call probe_read_user(s2+0, 8, v2)
//	v1:i64 = load.u32 [s0+0]
//	store.u32 [v9+0], v1
//
// A slot that is read later lives longer, so that fewer slots share bytes; the pass stops
// where the frame would become too full.
func sink(m *ir.Module) []ir.Diag {
	m.EachFunc(func(_ int, f *ir.Func) { sinkFunc(f) })
	return nil
}

// maxSunkSlot is the size of the largest slot whose loads move, in bytes.
const maxSunkSlot = 8

type sinker struct {
	f     *ir.Func
	d     *ir.DomTree
	preds [][]ir.Pred
	live  *ir.Liveness
	slots *slotUse
	users [][]*ir.Value // by Value.ID
	ends  [][]*ir.Block // by Value.ID: blocks whose terminators use it
	index []int         // by Value.ID: its index in its block
	room  int           // bytes of the frame for slots that live longer
}

func sinkFunc(f *ir.Func) {
	s := &sinker{f: f, d: ir.Dominators(f), preds: ir.Preds(f), live: ir.Live(f), slots: pointsInto(f),
		users: make([][]*ir.Value,
			f.NumValues()), ends: make([][]*ir.Block, f.NumValues()), index: make([]int, f.NumValues())}
	for _, b := range s.d.Order {
		s.number(b)
		for _, v := range b.Values {
			for _, a := range v.Args {
				if a.ID >= 0 {
					s.users[a.ID] = append(s.users[a.ID], v)
				}
			}
		}
		b.Term.Uses(func(v **ir.Value) {
			if (*v).ID >= 0 {
				s.ends[(*v).ID] = append(s.ends[(*v).ID], b)
			}
		})
	}
	s.room = frameBudget - acquireRoom - smallOnFrame(f)
	for n := len(s.d.Order) - 1; n >= 0; n-- {
		b := s.d.Order[n]
		for i := len(b.Values) - 1; i >= 0; i-- {
			if i < len(b.Values) { // a group moved with the last one
				s.value(b.Values[i])
			}
		}
	}
}

// smallOnFrame returns an upper bound of the bytes of the slots that may be on the frame.
func smallOnFrame(f *ir.Func) int {
	n := 0
	for _, s := range f.Slots {
		if s.Class != ir.Scratch && s.Size <= maxSunkSlot {
			n += 8
		}
	}
	return n
}

func (s *sinker) number(b *ir.Block) {
	for i, v := range b.Values {
		s.index[v.ID] = i
	}
}

// point is a point in the program: before b.Values[at].
type point struct {
	b  *ir.Block
	at int
}

// value moves v, and what only v needs, if that helps.
func (s *sinker) value(v *ir.Value) {
	if !sinkable(v) || len(s.users[v.ID])+len(s.ends[v.ID]) == 0 {
		return
	}
	to, calls := s.target(v)
	if to.b == nil || to.b == v.Block && !calls {
		return
	}
	var group []*ir.Value
	if !s.gather(v, to, &group) {
		return
	}
	for _, w := range group {
		from := w.Block
		i := s.index[w.ID]
		from.Remove(i)
		if from == to.b {
			to.at-- // the value was before the point
		}
		to.b.Insert(to.at, w)
		to.at++
		s.number(from)
		s.number(to.b)
	}
}

// sinkable reports whether v is an op that may move.
func sinkable(v *ir.Value) bool {
	switch v.Op {
	case ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpAnd, ir.OpOr, ir.OpXor, ir.OpShl, ir.OpLShr, ir.OpAShr, ir.OpBswap,
		ir.OpZext, ir.OpSext, ir.OpCast:
		return true
	case ir.OpLoad:
		a := v.Args[0]
		return v.CORE.Type == "" &&
			(a.Type.Kind == ir.Ctx || a.Op == ir.OpSlotAddr && a.Slot.Class != ir.Scratch && a.Slot.Size <= maxSunkSlot)
	}
	return false
}

// target finds the first use of v, if it dominates the others and a single straight path
// leads there, and whether that path crosses a call.
func (s *sinker) target(v *ir.Value) (to point, calls bool) {
	var d *ir.Block
	meet := func(b *ir.Block) {
		if d == nil {
			d = b
		}
		for !s.d.Dominates(d, b) {
			d = s.d.Idom(d)
		}
	}
	for _, u := range s.users[v.ID] {
		meet(u.Block)
	}
	for _, b := range s.ends[v.ID] {
		meet(b)
	}
	for d != v.Block && !s.straight(v.Block, d) {
		d = s.d.Idom(d)
	}
	to = point{d, len(d.Values)}
	used := slices.Contains(s.ends[v.ID], d)
	for _, u := range s.users[v.ID] {
		if u.Block == d {
			to.at, used = min(to.at, s.index[u.ID]), true
		}
	}
	if !used {
		return point{}, false
	}
	s.between(v, to, func(w *ir.Value) { calls = calls || w.Op == ir.OpCall || w.Op == ir.OpCallSub })
	return to, calls
}

// straight reports whether the only path to b leads from a through blocks with a single
// predecessor each.
func (s *sinker) straight(a, b *ir.Block) bool {
	for b != a {
		if len(s.preds[b.ID]) != 1 {
			return false
		}
		b = s.preds[b.ID][0].Block
	}
	return true
}

// between calls do for the values after v and before to, the last first.
func (s *sinker) between(v *ir.Value, to point, do func(*ir.Value)) {
	for b, end := to.b, to.at; ; end = len(b.Values) {
		first := 0
		if b == v.Block {
			first = s.index[v.ID] + 1
		}
		for i := end - 1; i >= first; i-- {
			do(b.Values[i])
		}
		if b == v.Block {
			return
		}
		b = s.preds[b.ID][0].Block
	}
}

// gather lists v and what has to move with it so that no other value's live range grows;
// false when one would, or when a load would see another write.
func (s *sinker) gather(v *ir.Value, to point, group *[]*ir.Value) bool {
	if v.Op == ir.OpLoad && !s.unwritten(v, to) {
		return false
	}
	for _, a := range v.Args {
		switch {
		case a.ID < 0 || a.Op == ir.OpCORE || s.liveAt(a, to, v):
		case a.Op != ir.OpParam && a.Block == v.Block && sinkable(a) && len(s.users[a.ID]) == 1 && len(s.ends[a.ID]) == 0:
			if !s.gather(a, to, group) {
				return false
			}
		default:
			return false
		}
	}
	*group = append(*group, v)
	return true
}

// liveAt reports whether a is used after the point by others than v.
func (s *sinker) liveAt(a *ir.Value, to point, v *ir.Value) bool {
	if s.live.Out(to.b, a) {
		return true
	}
	for _, u := range s.users[a.ID] {
		if u != v && u.Block == to.b && s.index[u.ID] >= to.at {
			return true
		}
	}
	for _, b := range s.ends[a.ID] {
		if b == to.b {
			return true
		}
	}
	return false
}

// unwritten reports whether a load has the same result at the point, and the frame has room
// for a slot that lives until there.
func (s *sinker) unwritten(v *ir.Value, to point) bool {
	a := v.Args[0]
	same := true
	if a.Op != ir.OpSlotAddr { // the context: only helpers change it, and only its registers
		s.between(v, to, func(w *ir.Value) { same = same && !(w.Op == ir.OpCall && w.Sym == "override_return") })
		return same
	}
	if s.room < 0 {
		return false
	}
	slot := s.slots.index[a.Slot]
	s.between(v, to, func(w *ir.Value) {
		if w.Op.Info().Effect != ir.Writes {
			return
		}
		for _, arg := range w.Args {
			if set := s.slots.of(arg); set != nil && set.has(slot) {
				same = false
			}
		}
	})
	return same
}
