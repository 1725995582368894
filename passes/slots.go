// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"fmt"
	"math/bits"
	"slices"

	"btc/ir"
)

// slots is stack slot allocation: it places each memory object in the 512-byte frame, where
// objects that never live at the same time share bytes (interference graph coloring), or in
// the scratch record of the program's context class (scratch.go).
//
// requires:    core IR
// establishes: no slot is Unplaced; slots of class Scratch are used no
// more: their addresses are sums with the scratch pointer
// invalidates: dominators, liveness (it adds blocks)
//
//	slot s0 "key" 16 align 8
//	slot s1 "record" 1048 align 8 scratch 0
//	store.u64 [s0+0], v1
//	store.u32 [s1+4], v2
//	->
//	slot s0 "key" 16 align 8 frame -16
//	...                                   ; v9: this CPU's scratch record
//	store.u64 [s0+0], v1
//	store.u32 [v9+4], v2
//
// The kernel limits the frame of a program to 512 bytes (MAX_BPF_STACK, all
// versions); what slots leaves is for the register allocator's spills.
func placeSlots(m *ir.Module) []ir.Diag { return placeSlotsWithin(m, frameBudget) }

// placeSlotsWithin gives the slots room bytes of the frame. Fewer bytes leave more to the
// register allocator, and to frames of callbacks.
func placeSlotsWithin(m *ir.Module, room int) []ir.Diag {
	var diags []ir.Diag
	for _, f := range m.Funcs {
		ir.RemoveUnreachable(f)
		dropUnused(f)
		chooseClasses(f, room)
		if d := useScratch(m, f); d != nil {
			diags = append(diags, *d)
			continue
		}
		for _, s := range f.Slots { // used by useScratch itself
			if s.Class == ir.Unplaced {
				s.Class = ir.Frame
			}
		}
		if n := color(f, ir.Frame); n > room {
			diags = append(
				diags,
				ir.Diag{
					Pos: f.Pos,
					Text: fmt.Sprintf(
						"the variables of this probe need %d bytes of the stack frame, %d are free",
						n,
						room,
					),
				},
			)
		}
	}
	return diags
}

const (
	// frameBudget is how many bytes of the frame slots may use, unless Options.Frame says
	// another number.
	frameBudget = 288
	// largestOnFrame is the size above which an object always goes to scratch.
	largestOnFrame = 128
)

// dropUnused removes the slots that no operand mentions.
func dropUnused(f *ir.Func) {
	used := map[*ir.Slot]bool{}
	f.Uses(func(v **ir.Value) {
		if (*v).Op == ir.OpSlotAddr {
			used[(*v).Slot] = true
		}
	})
	f.Slots = slices.DeleteFunc(f.Slots, func(s *ir.Slot) bool { return !used[s] })
}

// chooseClasses puts slots on the frame as long as it has room, moving the largest to scratch
// first. Slots whose addresses are passed to one block parameter stay together.
func chooseClasses(f *ir.Func, room int) {
	a := analyze(f)
	for _, s := range f.Slots {
		if s.Class == ir.Unplaced {
			s.Class = ir.Frame
			if s.Size > largestOnFrame {
				s.Class = ir.Scratch
			}
		}
	}
	for {
		a.unite()
		var largest *ir.Slot
		for _, s := range f.Slots {
			if s.Class == ir.Frame && (largest == nil || s.Size > largest.Size) {
				largest = s
			}
		}
		if largest == nil || a.color(ir.Frame)+acquireRoom <= room {
			return
		}
		largest.Class = ir.Scratch
	}
}

// acquireRoom is how much of the frame the code that takes a scratch record needs.
const acquireRoom = 8

// color places the slots of a class and returns the bytes they use.
func color(f *ir.Func, class ir.SlotClass) int {
	a := analyze(f)
	n := a.color(class)
	if class == ir.Frame {
		for _, s := range f.Slots {
			if s.Class == ir.Frame {
				s.Off -= n
			}
		}
	}
	return n
}

// slotSet is a set of slots by their index in Func.Slots.
type slotSet []uint64

func (s slotSet) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s slotSet) add(i int)      { s[i/64] |= 1 << (i % 64) }

// union reports whether it changed s.
func (s slotSet) union(t slotSet) bool {
	changed := false
	for i, w := range t {
		changed = changed || w&^s[i] != 0
		s[i] |= w
	}
	return changed
}

func (s slotSet) each(do func(i int)) {
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			do(i*64 + bits.TrailingZeros64(w))
		}
	}
}

// slotUse is the liveness of slots.
type slotUse struct {
	f         *ir.Func
	index     map[*ir.Slot]int
	addrs     map[*ir.Value]slotSet // slots that an address may point into
	conflicts []slotSet             // by slot: those live at the same time
	joined    []slotSet             // of each block parameter that is an address, the slots that it may point into
}

// analyze computes the liveness of the slots. A slot is live at a point that is reachable
// from one of its uses and from which another one is reachable.
func analyze(f *ir.Func) *slotUse {
	a := pointsInto(f)
	a.conflicts = a.empties(len(f.Slots))
	mentions := a.mentions()
	spans := make([][]span, f.NumBlocks())
	order := ir.ReversePostorder(f)
	for lo := 0; lo < len(f.Slots); lo += slotChunk {
		a.flow(order, mentions, lo, func(b *ir.Block, before, after slotSet) {
			spans[b.ID] = addSpans(spans[b.ID], b, mentions[b.ID], lo, before, after)
		})
	}
	for _, b := range f.Blocks {
		a.addConflicts(spans[b.ID])
	}
	return a
}

// pointsInto finds which slots each address may point into, without conflicts.
func pointsInto(f *ir.Func) *slotUse {
	a := &slotUse{f: f, index: map[*ir.Slot]int{}, addrs: map[*ir.Value]slotSet{}}
	for i, s := range f.Slots {
		a.index[s] = i
	}
	a.follow()
	return a
}

func (a *slotUse) empty() slotSet { return make(slotSet, (len(a.f.Slots)+63)/64) }

// of returns the set of slots that address v may point into; nil for other memory.
func (a *slotUse) of(v *ir.Value) slotSet {
	if v.Op == ir.OpSlotAddr {
		s := a.empty()
		s.add(a.index[v.Slot])
		return s
	}
	return a.addrs[v]
}

// follow finds the values and block parameters that are computed from slot addresses.
func (a *slotUse) follow() {
	for changed := true; changed; {
		changed = false
		into := func(v *ir.Value, from *ir.Value) {
			s := a.of(from)
			if s == nil {
				return
			}
			if a.addrs[v] == nil {
				a.addrs[v] = a.empty()
			}
			changed = a.addrs[v].union(s) || changed
		}
		for _, b := range a.f.Blocks {
			for _, v := range b.Values {
				switch v.Op {
				case ir.OpAdd, ir.OpSub, ir.OpSelect, ir.OpCast, ir.OpNonNull:
					for _, arg := range v.Args {
						into(v, arg)
					}
				}
			}
			for _, e := range b.Term.Succs {
				for i, arg := range e.Args {
					into(e.To.Params[i], arg)
				}
			}
		}
	}
	for _, b := range a.f.Blocks {
		for _, p := range b.Params {
			if s := a.addrs[p]; s != nil {
				a.joined = append(a.joined, s)
			}
		}
	}
}

// mention is the position of a use of a slot in a block: an index into Values, their number
// for the terminator.
type mention struct{ at, slot int }

// mentions returns the mentions in each block, by Block.ID.
func (a *slotUse) mentions() [][]mention {
	all := make([][]mention, a.f.NumBlocks())
	for _, b := range a.f.Blocks {
		note := func(at int, v *ir.Value) {
			if v.Op == ir.OpSlotAddr {
				all[b.ID] = append(all[b.ID], mention{at, a.index[v.Slot]})
				return
			}
			if v.ID >= 0 {
				a.addrs[v].each(func(i int) { all[b.ID] = append(all[b.ID], mention{at, i}) })
			}
		}
		for i, v := range b.Values {
			for _, arg := range v.Args {
				note(i, arg)
			}
		}
		b.Term.Uses(func(v **ir.Value) { note(len(b.Values), *v) })
	}
	return all
}

// empties returns n empty sets.
func (a *slotUse) empties(n int) []slotSet {
	words := (len(a.f.Slots) + 63) / 64
	all := make(slotSet, n*words)
	sets := make([]slotSet, n)
	for i := range sets {
		sets[i] = all[i*words : (i+1)*words : (i+1)*words]
	}
	return sets
}

// slotChunk is how many slots flow handles at a time. The sets of all slots at all blocks
// would be quadratic in the length of a function.
const slotChunk = 1024

// flow calls do for each block with the slots, from a chunk that begins at lo, that are
// used on some path to its start, and on some path from its end. The sets count from lo.
func (a *slotUse) flow(order []*ir.Block, mentions [][]mention, lo int, do func(b *ir.Block, before, after slotSet)) {
	n, words := a.f.NumBlocks(), (min(slotChunk, len(a.f.Slots)-lo)+63)/64
	all := make(slotSet, 3*n*words)
	set := func(i int) slotSet { return all[i*words : (i+1)*words : (i+1)*words] }
	before, after := func(b *ir.Block) slotSet { return set(b.ID) }, func(b *ir.Block) slotSet { return set(n + b.ID) }
	in := func(b *ir.Block) slotSet { return set(2*n + b.ID) }
	for _, b := range a.f.Blocks {
		for _, m := range mentions[b.ID] {
			if lo <= m.slot && m.slot < lo+slotChunk {
				in(b).add(m.slot - lo)
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, b := range order {
			for _, e := range b.Term.Succs {
				to := before(e.To)
				changed = to.union(before(b)) || changed
				changed = to.union(in(b)) || changed
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for i := len(order) - 1; i >= 0; i-- {
			b := order[i]
			for _, e := range b.Term.Succs {
				changed = after(b).union(after(e.To)) || changed
				changed = after(b).union(in(e.To)) || changed
			}
		}
	}
	for _, b := range a.f.Blocks {
		do(b, before(b), after(b))
	}
}

// span is the range of a block in which a slot is live.
type span struct{ slot, first, last int }

// addSpans appends the spans of a chunk's slots in b: those live through it or used in it.
func addSpans(spans []span, b *ir.Block, mentions []mention, lo int, before, after slotSet) []span {
	end := len(b.Values) + 1
	used := map[int]int{} // by slot: its index in spans
	for _, m := range mentions {
		i := m.slot - lo
		if i < 0 || i >= slotChunk {
			continue
		}
		n, ok := used[i]
		if !ok {
			n = len(spans)
			used[i] = n
			first := m.at
			if before.has(i) {
				first = -1
			}
			spans = append(spans, span{m.slot, first, m.at})
		}
		spans[n].last = m.at
		if after.has(i) {
			spans[n].last = end
		}
	}
	for k, w := range before {
		for w &= after[k]; w != 0; w &= w - 1 {
			i := k*64 + bits.TrailingZeros64(w)
			if _, ok := used[i]; !ok {
				spans = append(spans, span{lo + i, -1, end})
			}
		}
	}
	return spans
}

// addConflicts records which slots are live at the same time in a block.
func (a *slotUse) addConflicts(spans []span) {
	for n, x := range spans {
		for _, y := range spans[:n] {
			if x.first <= y.last && y.first <= x.last {
				a.conflicts[x.slot].add(y.slot)
				a.conflicts[y.slot].add(x.slot)
			}
		}
	}
}

// unite gives slots whose addresses meet in a parameter the same class.
func (a *slotUse) unite() {
	for changed := true; changed; {
		changed = false
		for _, set := range a.joined {
			scratch := false
			set.each(func(i int) { scratch = scratch || a.f.Slots[i].Class == ir.Scratch })
			set.each(func(i int) {
				if s := a.f.Slots[i]; scratch && s.Class != ir.Scratch {
					s.Class, changed = ir.Scratch, true
				}
			})
		}
	}
}

// color sets Off of the slots of a class, counted from 0, largest first, each as low as
// its conflicts allow. It returns the end, a multiple of 8.
func (a *slotUse) color(class ir.SlotClass) int {
	var order []int
	for i, s := range a.f.Slots {
		if s.Class == class {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return a.f.Slots[j].Size - a.f.Slots[i].Size })
	end := 0
	placed := a.empty()
	for _, i := range order {
		s := a.f.Slots[i]
		s.Off = 0
		var near []*ir.Slot
		for k, w := range a.conflicts[i] {
			for w &= placed[k]; w != 0; w &= w - 1 {
				near = append(near, a.f.Slots[k*64+bits.TrailingZeros64(w)])
			}
		}
		placed.add(i)
		for moved := true; moved; {
			moved = false
			for _, t := range near {
				if s.Off < t.Off+t.Size && t.Off < s.Off+s.Size {
					s.Off, moved = roundUp(t.Off+t.Size, max(s.Align, 1)), true
				}
			}
		}
		end = max(end, s.Off+s.Size)
	}
	return roundUp(end, 8)
}
