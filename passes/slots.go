package passes

import (
	"fmt"
	"math/bits"
	"slices"

	"btc/ir"
)

// slots gives each memory object its place: in the 512-byte frame, where
// objects that are never needed at the same time share bytes, or in the scratch
// record of the program's context class (scratch.go).
//
// requires:    core IR
// establishes: no slot is Unplaced; slots of class Scratch are mentioned no
//
//	more: their addresses are sums with the scratch pointer
//
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

// placeSlotsWithin gives them room bytes of the frame. Fewer leave more to the register
// allocator, and to frames of callbacks.
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
		for _, s := range f.Slots { // what useScratch itself needs
			if s.Class == ir.Unplaced {
				s.Class = ir.Frame
			}
		}
		if n := colour(f, ir.Frame); n > room {
			diags = append(diags, ir.Diag{Pos: f.Pos, Text: fmt.Sprintf("the objects of this probe take %d bytes of the stack frame, %d are free", n, room)})
		}
	}
	return diags
}

const (
	// frameBudget is what slots may take of the frame, in bytes, unless Options.Frame
	// says another number.
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

// chooseClasses puts slots on the frame as long as it has room, the largest in
// scratch first. Slots whose addresses meet in a block parameter stay together.
func chooseClasses(f *ir.Func, room int) {
	a := analyse(f)
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
		if largest == nil || a.colour(ir.Frame)+acquireRoom <= room {
			return
		}
		largest.Class = ir.Scratch
	}
}

// acquireRoom is what taking a scratch slot itself needs on the frame.
const acquireRoom = 8

// colour places the slots of a class anew and gives the bytes they take.
func colour(f *ir.Func, class ir.SlotClass) int {
	a := analyse(f)
	n := a.colour(class)
	if class == ir.Frame {
		for _, s := range f.Slots {
			if s.Class == ir.Frame {
				s.Off -= n
			}
		}
	}
	return n
}

// slotSet is a set of slots by their place in Func.Slots.
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

// addAll reports whether it changed s.
func (s slotSet) addAll(list []int) bool {
	changed := false
	for _, i := range list {
		changed = changed || !s.has(i)
		s.add(i)
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

// slotUse is which slots are needed when.
type slotUse struct {
	f      *ir.Func
	index  map[*ir.Slot]int
	addrs  map[*ir.Value]slotSet // slots that an address may point into
	clash  []slotSet             // by slot: those needed at the same time
	joined []slotSet             // of each block parameter that is an address: what it may point into
}

// analyse finds the slots' uses. A slot is needed at a point that some mention
// of it reaches and from which another one can be reached.
func analyse(f *ir.Func) *slotUse {
	a := pointsInto(f)
	a.clash = a.empties(len(f.Slots))
	before, after := a.flow()
	for _, b := range f.Blocks {
		a.block(b, before[b.ID], after[b.ID])
	}
	return a
}

// pointsInto finds which slots each address may point into, and no clashes.
func pointsInto(f *ir.Func) *slotUse {
	a := &slotUse{f: f, index: map[*ir.Slot]int{}, addrs: map[*ir.Value]slotSet{}}
	for i, s := range f.Slots {
		a.index[s] = i
	}
	a.follow()
	return a
}

func (a *slotUse) empty() slotSet { return make(slotSet, (len(a.f.Slots)+63)/64) }

// of is what address v may point into; nil for nothing of ours.
func (a *slotUse) of(v *ir.Value) slotSet {
	if v.Op == ir.OpSlotAddr {
		s := a.empty()
		s.add(a.index[v.Slot])
		return s
	}
	return a.addrs[v]
}

// follow finds the values and block parameters that are computed from slot
// addresses.
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

// mentions calls do with the place (len(b.Values) for the terminator) and a slot
// for each mention in b.
func (a *slotUse) mentions(b *ir.Block, do func(at, slot int)) {
	mention := func(at int, v *ir.Value) {
		if v.Op == ir.OpSlotAddr {
			do(at, a.index[v.Slot])
			return
		}
		if v.ID >= 0 {
			a.addrs[v].each(func(i int) { do(at, i) })
		}
	}
	for i, v := range b.Values {
		for _, arg := range v.Args {
			mention(i, arg)
		}
	}
	b.Term.Uses(func(v **ir.Value) { mention(len(b.Values), *v) })
}

// empties is n empty sets.
func (a *slotUse) empties(n int) []slotSet {
	words := (len(a.f.Slots) + 63) / 64
	all := make(slotSet, n*words)
	sets := make([]slotSet, n)
	for i := range sets {
		sets[i] = all[i*words : (i+1)*words : (i+1)*words]
	}
	return sets
}

// flow gives, by Block.ID, the slots mentioned on some way to the block's start
// and those mentioned on some way from its end.
func (a *slotUse) flow() (before, after []slotSet) {
	n := a.f.NumBlocks()
	before, after = a.empties(n), a.empties(n)
	in := make([][]int, n)
	for _, b := range a.f.Blocks {
		a.mentions(b, func(_, slot int) {
			if !slices.Contains(in[b.ID], slot) {
				in[b.ID] = append(in[b.ID], slot)
			}
		})
	}
	order := ir.ReversePostorder(a.f)
	for changed := true; changed; {
		changed = false
		for _, b := range order {
			for _, e := range b.Term.Succs {
				to := before[e.To.ID]
				changed = to.union(before[b.ID]) || changed
				changed = to.addAll(in[b.ID]) || changed
			}
		}
	}
	slices.Reverse(order)
	for changed := true; changed; {
		changed = false
		for _, b := range order {
			for _, e := range b.Term.Succs {
				changed = after[b.ID].union(after[e.To.ID]) || changed
				changed = after[b.ID].addAll(in[e.To.ID]) || changed
			}
		}
	}
	return before, after
}

// span is where in a block a slot is needed.
type span struct{ slot, first, last int }

// block finds the clashes in b: of slots needed through it or mentioned in it.
func (a *slotUse) block(b *ir.Block, before, after slotSet) {
	end := len(b.Values) + 1
	var spans []span
	place := map[int]int{} // by slot: its place in spans, for those mentioned
	a.mentions(b, func(at, i int) {
		n, ok := place[i]
		if !ok {
			n = len(spans)
			place[i] = n
			first := at
			if before.has(i) {
				first = -1
			}
			spans = append(spans, span{i, first, at})
		}
		spans[n].last = at
		if after.has(i) {
			spans[n].last = end
		}
	})
	for k, w := range before {
		for w &= after[k]; w != 0; w &= w - 1 {
			i := k*64 + bits.TrailingZeros64(w)
			if _, ok := place[i]; !ok {
				spans = append(spans, span{i, -1, end})
			}
		}
	}
	for n, x := range spans {
		for _, y := range spans[:n] {
			if x.first <= y.last && y.first <= x.last {
				a.clash[x.slot].add(y.slot)
				a.clash[y.slot].add(x.slot)
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

// colour sets Off of the slots of a class, counted from 0, largest first, each
// as low as its clashes allow. It gives the end, a multiple of 8.
func (a *slotUse) colour(class ir.SlotClass) int {
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
		for k, w := range a.clash[i] {
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
