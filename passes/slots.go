// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"encoding/binary"
	"fmt"
	"math"
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
			diags = append(diags, ir.Diag{
				Pos: f.Pos,
				Text: fmt.Sprintf("the variables of this probe need %d bytes of the stack frame, %d are free", n,
					room),
			})
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
		if largest == nil || a.color(ir.Frame, room-acquireRoom) <= room-acquireRoom {
			return
		}
		largest.Class = ir.Scratch
	}
}

// acquireRoom is how much of the frame the code that takes a scratch record needs.
const acquireRoom = 8

// color places the slots of a class and returns the bytes they use.
func color(f *ir.Func, class ir.SlotClass) int {
	n := analyze(f).color(class, math.MaxInt)
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
	f      *ir.Func
	index  map[*ir.Slot]int
	addrs  map[*ir.Value]slotSet // slots that an address may point into
	near   [][]int32             // by slot: those live at the same time, of a slot with few of them
	far    []slotSet             // the same of a slot that is live in many blocks; nil for others
	joined []slotSet             // of each block parameter that is an address, the slots that it may point into
}

// analyze computes the liveness of the slots. A slot is live at a point that is reachable
// from one of its uses and from which another one is reachable.
func analyze(f *ir.Func) *slotUse {
	a := pointsInto(f)
	a.near, a.far = make([][]int32, len(f.Slots)), make([]slotSet, len(f.Slots))
	mentions := a.mentions()
	spans := make([][]span, f.NumBlocks())
	order := ir.ReversePostorder(f)
	long := a.shortLived(order, mentions, spans)
	words := (len(long) + 63) / 64
	through := make(slotSet, f.NumBlocks()*words) // by block: the indexes in long of the slots that are live all through it
	for lo := 0; lo < len(long); lo += slotChunk {
		chunk := long[lo:min(lo+slotChunk, len(long))]
		a.flow(order, mentions, chunk, spans, func(b *ir.Block) slotSet { return through[b.ID*words+lo/64 : (b.ID+1)*words] })
	}
	for _, i := range long {
		a.far[i] = a.empty()
	}
	a.addConflicts(order, spans, long, through)
	return a
}

// fewBlocks is the number of blocks in order, from the first use of a slot to its last one, up to which its liveness is
// computed for itself. Long functions have thousands of such slots: keys and temporaries.
const fewBlocks = 64

// shortLived adds the spans of the slots that are used within few blocks, outside of loops. It returns the other slots.
func (a *slotUse) shortLived(order []*ir.Block, mentions [][]mention, spans [][]span) (long []int) {
	at := make([]int, a.f.NumBlocks()) // by Block.ID: the position in order
	for i, b := range order {
		at[b.ID] = i
	}
	var back [][2]int // edges against the order: positions of the target and of the source
	for i, b := range order {
		for _, e := range b.Term.Succs {
			if at[e.To.ID] <= i {
				back = append(back, [2]int{at[e.To.ID], i})
			}
		}
	}
	type use struct {
		lo, hi int     // positions in order
		in     [][]int // by position from lo: indexes of mentions
	}
	uses := make([]use, len(a.f.Slots))
	for i := range uses {
		uses[i] = use{lo: len(order), hi: -1}
	}
	for i, b := range order {
		for _, m := range mentions[b.ID] {
			u := &uses[m.slot]
			u.lo, u.hi = min(u.lo, i), max(u.hi, i)
		}
	}
	short := make([]bool, len(uses))
	for i := range uses {
		u := &uses[i]
		short[i] = u.hi >= 0 && u.hi-u.lo < fewBlocks &&
			!slices.ContainsFunc(back, func(e [2]int) bool { return e[0] <= u.hi && u.lo <= e[1] })
		switch {
		case short[i]:
			u.in = make([][]int, u.hi-u.lo+1)
		case u.hi >= 0:
			long = append(long, i)
		}
	}
	for i, b := range order {
		for _, m := range mentions[b.ID] {
			if u := &uses[m.slot]; short[m.slot] {
				u.in[i-u.lo] = append(u.in[i-u.lo], m.at)
			}
		}
	}
	for slot := range uses {
		if !short[slot] {
			continue
		}
		u := &uses[slot]
		// All paths between two uses are between lo and hi.
		before, after := make([]bool, len(u.in)), make([]bool, len(u.in))
		for i := range u.in {
			for _, e := range order[u.lo+i].Term.Succs {
				if j := at[e.To.ID] - u.lo; j < len(u.in) && (before[i] || u.in[i] != nil) {
					before[j] = true
				}
			}
		}
		for i := len(u.in) - 1; i >= 0; i-- {
			for _, e := range order[u.lo+i].Term.Succs {
				if j := at[e.To.ID] - u.lo; j < len(u.in) {
					after[i] = after[i] || after[j] || u.in[j] != nil
				}
			}
		}
		for i, in := range u.in {
			b := order[u.lo+i]
			first, last := -1, len(b.Values)+1
			if in == nil && !(before[i] && after[i]) {
				continue
			}
			if in != nil && !before[i] {
				first = in[0]
			}
			if in != nil && !after[i] {
				last = in[len(in)-1]
			}
			spans[b.ID] = append(spans[b.ID], span{slot, first, last})
		}
	}
	return long
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

// slotChunk is how many slots flow handles at a time. The sets of all slots at all blocks
// would be quadratic in the length of a function.
const slotChunk = 1024

// flow adds the spans of the slots of a chunk to those of each block that uses them, and to the set of each other block
// the indexes in the chunk of those that are live all through it.
func (a *slotUse) flow(order []*ir.Block, mentions [][]mention, chunk []int, spans [][]span, through func(b *ir.Block) slotSet) {
	n, words := a.f.NumBlocks(), (len(chunk)+63)/64
	index := make([]int, len(a.f.Slots)) // by slot: the index in the chunk, -1 for others
	for i := range index {
		index[i] = -1
	}
	for i, slot := range chunk {
		index[slot] = i
	}
	all := make(slotSet, 3*n*words)
	set := func(i int) slotSet { return all[i*words : (i+1)*words : (i+1)*words] }
	// The slots that are used on some path to the block's start, on some path from its end, and in it.
	before, after := func(b *ir.Block) slotSet { return set(b.ID) }, func(b *ir.Block) slotSet { return set(n + b.ID) }
	in := func(b *ir.Block) slotSet { return set(2*n + b.ID) }
	for _, b := range a.f.Blocks {
		for _, m := range mentions[b.ID] {
			if i := index[m.slot]; i >= 0 {
				in(b).add(i)
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
		spans[b.ID] = addSpans(spans[b.ID], b, mentions[b.ID], index, before(b), after(b))
		all := through(b)
		for k, w := range before(b) {
			all[k] |= w & after(b)[k] &^ in(b)[k]
		}
	}
}

// span is the range of a block in which a slot is live.
type span struct{ slot, first, last int }

// addSpans appends the spans of a chunk's slots that are used in b.
func addSpans(spans []span, b *ir.Block, mentions []mention, index []int, before, after slotSet) []span {
	used := map[int]int{} // by slot: its index in spans
	for _, m := range mentions {
		i := index[m.slot]
		if i < 0 {
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
			spans[n].last = len(b.Values) + 1
		}
	}
	return spans
}

// addConflicts records which slots are live at the same time in each block. Most blocks of a long function have the same
// slots live all through them as the one before.
func (a *slotUse) addConflicts(order []*ir.Block, spans [][]span, long []int, through slotSet) {
	words := (len(long) + 63) / 64
	seen := map[string]slotSet{} // by a set of indexes in long: the slots
	key := make([]byte, 8*words)
	for _, b := range order {
		inAll := through[b.ID*words : (b.ID+1)*words]
		for i, w := range inAll {
			binary.LittleEndian.PutUint64(key[8*i:], w)
		}
		live, ok := seen[string(key)]
		if !ok {
			live = a.empty()
			inAll.each(func(i int) { live.add(long[i]) })
			live.each(func(i int) { a.far[i].union(live) })
			seen[string(key)] = live
		}
		for n, x := range spans[b.ID] {
			live.each(func(i int) {
				a.conflict(x.slot, i)
				a.far[i].add(x.slot)
			})
			for _, y := range spans[b.ID][:n] {
				if x.first <= y.last && y.first <= x.last {
					a.conflict(x.slot, y.slot)
					a.conflict(y.slot, x.slot)
				}
			}
		}
	}
}

// conflict adds to those of slot i another slot.
func (a *slotUse) conflict(i, other int) {
	switch {
	case a.far[i] != nil:
		a.far[i].add(other)
	case slices.Contains(a.near[i], int32(other)):
	case len(a.near[i]) < fewBlocks:
		a.near[i] = append(a.near[i], int32(other))
	default:
		a.far[i] = a.empty()
		a.far[i].add(other)
	}
}

// eachConflict calls do for the slots that are live at the same time as slot i, for some of them twice.
func (a *slotUse) eachConflict(i int, do func(other int)) {
	if a.far[i] != nil {
		a.far[i].each(do)
	}
	for _, other := range a.near[i] {
		do(int(other))
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
// its conflicts allow. It returns the end, a multiple of 8, or as soon as that is above limit
// what it is so far.
func (a *slotUse) color(class ir.SlotClass, limit int) int {
	var order []int
	for i, s := range a.f.Slots {
		if s.Class == class {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return a.f.Slots[j].Size - a.f.Slots[i].Size })
	end := 0
	placed := a.empty()
	var near []*ir.Slot
	for _, i := range order {
		s := a.f.Slots[i]
		s.Off = 0
		near = near[:0]
		a.eachConflict(i, func(other int) {
			if placed.has(other) {
				near = append(near, a.f.Slots[other])
			}
		})
		placed.add(i)
		for moved := true; moved; {
			moved = false
			for _, t := range near {
				if s.Off < t.Off+t.Size && t.Off < s.Off+s.Size {
					s.Off, moved = roundUp(t.Off+t.Size, max(s.Align, 1)), true
				}
			}
		}
		if end = max(end, s.Off+s.Size); roundUp(end, 8) > limit {
			break
		}
	}
	return roundUp(end, 8)
}
