// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"math/bits"
	"slices"

	"btc/targets/kernel"
)

// slotBytes has a bit for each byte of a slot.
type slotBytes []uint64

func (s slotBytes) set(lo, hi int) {
	for i := max(lo, 0); i < hi && i < 64*len(s); i++ {
		s[i/64] |= 1 << (i % 64)
	}
}

// clear clears bits and reports whether any are left.
func (s slotBytes) clear(lo, hi int) bool {
	for i := max(lo, 0); i < hi && i < 64*len(s); i++ {
		s[i/64] &^= 1 << (i % 64)
	}
	return s.first() >= 0
}

// first returns the first byte, or -1 if there is none.
func (s slotBytes) first() int {
	for i, w := range s {
		if w != 0 {
			return 64*i + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// slotWrite is a write of bytes lo..hi-1 of a slot, by the value b.Values[index] or by the
// terminator, after the last.
type slotWrite struct {
	b             *Block
	index, lo, hi int
}

// slotCheck finds reads of slot bytes that may not have been written. Kernels
// before 6.3 refuse them; on later ones they would leak old stack bytes into
// keys and events. Slots in scratch memory are skipped: the kernel sees a map
// value there.
//
// Written bytes stay written. So each read looks at the writes that dominate it, and walks
// back along the edges only for bytes that those leave: a long clause has as many slots as
// statements, and a state of all slots for each block would be quadratic.
type slotCheck struct {
	*checker
	written map[*Slot][]slotWrite            // in the order of c.dom.Order
	inBlock map[*Slot]map[*Block][]slotWrite // written by block, for slots that need it
	here    int                              // index of the current value
}

func (c *checker) slotsInitialised() {
	if len(c.f.Slots) == 0 {
		return
	}
	s := &slotCheck{checker: c, written: map[*Slot][]slotWrite{}, inBlock: map[*Slot]map[*Block][]slotWrite{}}
	for _, b := range c.dom.Order {
		for i, v := range b.Values {
			s.here = i
			s.writes(v)
		}
		s.here = len(b.Values)
		b.Term.Uses(func(p **Value) { s.all(*p, b) })
	}
	for _, b := range c.dom.Order {
		for i, v := range b.Values {
			s.here = i
			s.reads(v)
		}
	}
}

func (s *slotCheck) write(slot *Slot, b *Block, lo, hi int) {
	s.written[slot] = append(s.written[slot], slotWrite{b, s.here, lo, hi})
}

// unwritten returns the first of the bytes lo..hi-1 of a slot that is unwritten on some path
// from the entry to the current value in b, or -1 if there is none.
func (s *slotCheck) unwritten(slot *Slot, b *Block, lo, hi int) int {
	need := make(slotBytes, (slot.Size+63)/64)
	need.set(lo, hi)
	if slot.Class == Scratch {
		need.clear(0, slot.Size)
	}
	if need.first() < 0 {
		return -1
	}
	for _, w := range s.written[slot] {
		before := w.b == b && w.index < s.here || w.b != b && s.dom.Dominates(w.b, b)
		if before && !need.clear(w.lo, w.hi) {
			return -1
		}
	}
	return s.search(slot, b, need).first()
}

// search returns the bytes in need that some path to the start of b leaves unwritten.
func (s *slotCheck) search(slot *Slot, b *Block, need slotBytes) slotBytes {
	if b == s.f.Entry() {
		return need
	}
	writes := s.inBlock[slot]
	if writes == nil {
		writes = map[*Block][]slotWrite{}
		for _, w := range s.written[slot] {
			writes[w.b] = append(writes[w.b], w)
		}
		s.inBlock[slot] = writes
	}
	type point struct {
		b    *Block    // the start of this block
		need slotBytes // bytes looked for before it
	}
	left, visited := make(slotBytes, len(need)), map[*Block]slotBytes{}
	work := []point{{b, need}}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		for _, p := range s.preds[at.b.ID] {
			if !s.dom.Reachable(p.Block) {
				continue
			}
			known := visited[p.Block]
			if known == nil {
				known = make(slotBytes, len(need))
				visited[p.Block] = known
			}
			more := slices.Clone(at.need)
			for i := range more {
				more[i] &^= known[i]
				known[i] |= more[i]
			}
			for _, w := range writes[p.Block] {
				more.clear(w.lo, w.hi)
			}
			switch {
			case more.first() < 0:
			case p.Block == s.f.Entry():
				for i := range more {
					left[i] |= more[i]
				}
			default:
				work = append(work, point{p.Block, more})
			}
		}
	}
	return left
}

// all counts the whole slot as written: its address escapes.
func (s *slotCheck) all(p *Value, b *Block) {
	if slot := s.ranges.Resolve(p, b).Slot; slot != nil {
		s.write(slot, b, 0, slot.Size)
	}
}

// wrote counts n bytes at p + off as written. A variable offset into a slot that is not
// placed counts for the whole slot: it will be scratch.
func (s *slotCheck) wrote(v, p *Value, off, n int) {
	ptr := s.ranges.Resolve(p, v.Block)
	if ptr.Slot == nil {
		return
	}
	at, fixed := ptr.Fixed()
	switch {
	case fixed:
		s.write(ptr.Slot, v.Block, at+off, at+off+n)
	case ptr.Slot.Class == Unplaced:
		s.write(ptr.Slot, v.Block, 0, ptr.Slot.Size)
	}
}

// read reports bytes that may not have been written.
func (s *slotCheck) read(v, p *Value, off, n int, what string) {
	ptr := s.ranges.Resolve(p, v.Block)
	if ptr.Slot == nil {
		return
	}
	at, fixed := ptr.Fixed()
	if !fixed {
		return
	}
	if i := s.unwritten(ptr.Slot, v.Block, at+off, at+off+n); i >= 0 {
		s.at(v, "%s: byte %d of slot %s may be uninitialized", what, i, ptr.Slot.text())
	}
}

func (s *slotCheck) writes(v *Value) {
	switch v.Op {
	case OpStore:
		s.wrote(v, v.Args[0], int(v.Imm), v.Mem.Size())
	case OpComm:
		s.wrote(v, v.Args[0], 0, 16)
	case OpReadMem, OpMemCopy, OpMemZero, OpStrLit, OpStr, OpStrCopy:
		s.wrote(v, v.Args[0], 0, int(v.Imm))
	case OpMapGetMem, OpElemGetMem:
		s.wrote(v, v.Args[1], 0, s.names.maps[v.Args[0].Sym].Value.MemSize())
	case OpCallSub:
		for _, a := range v.Args {
			s.all(a, v.Block)
		}
	case OpCall:
		s.callWrites(v)
	}
}

func (s *slotCheck) callWrites(v *Value) {
	h := kernel.HelperByName(v.Sym)
	for i, a := range v.Args {
		switch h.Args[i] {
		case kernel.ArgMemOut:
			// With a variable size the kernel accepts only initialized stack memory
			// (check_mem_size_reg), so the helper initializes nothing new.
			_, fixed := s.ranges.At(v.Args[i+1], v.Block).Const()
			if ptr := s.ranges.Resolve(a, v.Block); fixed || ptr.Slot != nil && ptr.Slot.Class == Unplaced {
				s.wrote(v, a, 0, s.sizeOf(v, i+1))
			}
		case kernel.ArgStackOrNull, kernel.ArgAny:
			s.all(a, v.Block)
		}
	}
}

func (s *slotCheck) reads(v *Value) {
	info := v.Op.Info()
	if kinds, _ := argKinds(info, len(v.Args)); len(kinds) > 0 && kinds[len(kinds)-1] == KeyArg {
		x := s.names.maps[v.Args[0].Sym]
		s.read(v, v.Args[len(v.Args)-1], 0, x.Key.MemSize(), "key of map "+x.Name)
	}
	switch v.Op {
	case OpLoad, OpAtomicAdd:
		s.read(v, v.Args[0], int(v.Imm), v.Mem.Size(), v.Op.String())
	case OpMapSetMem:
		x := s.names.maps[v.Args[0].Sym]
		s.read(v, v.Args[1], 0, x.Value.MemSize(), "value of map "+x.Name)
	case OpMemEq:
		s.read(v, v.Args[0], 0, int(v.Imm), "comparison")
		s.read(v, v.Args[1], 0, int(v.Imm), "comparison")
	case OpCall:
		s.callReads(v)
	}
}

func (s *slotCheck) callReads(v *Value) {
	h := kernel.HelperByName(v.Sym)
	for i, a := range v.Args {
		switch h.Args[i] {
		case kernel.ArgMapKey, kernel.ArgMapValue:
			if n, ok := s.mapArgSize(v, h, i); ok {
				s.read(v, a, 0, n, fmt.Sprintf("argument %d of %s", i+1, h.Name))
			}
		case kernel.ArgMem, kernel.ArgMemOrNull, kernel.ArgMemOut:
			_, fixed := s.ranges.At(v.Args[i+1], v.Block).Const()
			ptr := s.ranges.Resolve(a, v.Block)
			if ptr.Slot == nil || !fixed && ptr.Slot.Class == Unplaced || fixed && h.Args[i] == kernel.ArgMemOut {
				continue
			}
			s.read(v, a, 0, s.sizeOf(v, i+1), fmt.Sprintf("argument %d of %s", i+1, h.Name))
		}
	}
}
