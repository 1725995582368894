// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"maps"
	"slices"

	"btc/ir"
)

// store-forwarding is store forwarding (store-to-load forwarding) and dead store elimination: it
// replaces loads of constants that were stored to a slot before, and removes stores of bytes that
// are overwritten or never read on any path.
//
// requires:    core IR, slots not placed
// establishes: -
// invalidates: use counts, liveness (no block or edge changes)
//
//	b0(v0:ctx):
//	  store.u64 [s0+0], 7                    ; both branches write it again
//	  br v1, b1, b2
//	b1:
//	  store.u64 [s0+0], 9
//	  v3:i64 = load.u64 [s0+0]
//	  jump b3(v3)
//	b2:
//	  store.u64 [s0+0], v4
//	  v5:i64 = call map_lookup_elem(@x, s0+0)
//	...
//	->
//	b1:
//	  jump b3(9)
//	b2:
//	  store.u64 [s0+0], v4
//	  v5:i64 = call map_lookup_elem(@x, s0+0)
//
// A helper that receives the address of a slot may read and write all of it. Values that
// are not constant are loaded again: over the whole corpus their loads were 2 instructions,
// and the kernel verifiers before 6.7 need the slot to forget what they know of a value
// (string searches took over a million steps on 6.1).
func forwardStores(m *ir.Module) []ir.Diag {
	m.EachFunc(func(_ int, f *ir.Func) {
		s := newStores(f)
		if s == nil {
			return
		}
		s.forward()
		s.dropDead()
	})
	return nil
}

// Limits of the analysis: the bytes of a slot are bits of a word, and the facts of all
// blocks together must not grow with the square of a script.
const (
	largestTracked = 64
	mostFacts      = 1 << 20
)

type slotStores struct {
	f       *ir.Func
	tracked map[*ir.Slot]int // slots whose address is used only as an operand
	preds   [][]ir.Pred
}

func newStores(f *ir.Func) *slotStores {
	s := &slotStores{f: f, tracked: map[*ir.Slot]int{}}
	other := map[*ir.Slot]bool{}
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			for i, a := range v.Args {
				// An address that is computed with, or stored, may point anywhere.
				if a.Op == ir.OpSlotAddr && v.Op != ir.OpCall &&
					(i > 0 || v.Op != ir.OpLoad && v.Op != ir.OpStore && v.Op != ir.OpAtomicAdd) {
					other[a.Slot] = true
				}
			}
		}
		b.Term.Uses(func(v **ir.Value) {
			if (*v).Op == ir.OpSlotAddr {
				other[(*v).Slot] = true
			}
		})
	}
	for _, slot := range f.Slots {
		if !other[slot] && slot.Size <= largestTracked {
			s.tracked[slot] = len(s.tracked)
		}
	}
	if len(s.tracked) == 0 || len(s.tracked)*len(f.Blocks) > mostFacts {
		return nil
	}
	s.preds = ir.Preds(f)
	return s
}

// access is a load or store of known bytes of a tracked slot.
type access struct {
	slot      int
	off, size int64
}

func (s *slotStores) access(v *ir.Value) (x access, ok bool) {
	if v.Op != ir.OpLoad && v.Op != ir.OpStore || v.CORE.Type != "" || v.Args[0].Op != ir.OpSlotAddr {
		return x, false
	}
	a := v.Args[0]
	x.slot, ok = s.tracked[a.Slot]
	x.off, x.size = a.Imm+v.Imm, int64(v.Mem.Size())
	return x, ok && x.off >= 0 && x.off+x.size <= int64(a.Slot.Size)
}

// mask has a bit for each of the bytes.
func (x access) mask() uint64 { return (1<<(x.size&63) - 1) << (x.off & 63) }

func (x access) overlaps(y access) bool {
	return x.slot == y.slot && x.off < y.off+y.size && y.off < x.off+x.size
}

// held are the constants that bytes of slots are known to hold.
type held map[access]int64

// forward replaces loads by the constants that are in the slot on all paths to them.
func (s *slotStores) forward() {
	order := ir.ReversePostorder(s.f)
	ends := make([]held, len(order))
	index := make(map[*ir.Block]int, len(order))
	for i, b := range order {
		index[b] = i
	}
	subst := ir.Subst{}
	for i, b := range order {
		h := held{}
		for n, p := range s.preds[b.ID] {
			at, reached := index[p.Block]
			switch {
			case !reached || at >= i: // a back edge, of which nothing is known yet
				clear(h)
			case n == 0:
				maps.Copy(h, ends[at])
			default:
				maps.DeleteFunc(h, func(x access, c int64) bool {
					other, ok := ends[at][x]
					return !ok || other != c
				})
			}
		}
		for _, v := range b.Values {
			s.hold(h, v, subst)
		}
		ends[i] = h
	}
	subst.Apply(s.f)
	for _, b := range s.f.Blocks {
		b.Values = slices.DeleteFunc(b.Values, func(v *ir.Value) bool { return subst[v] != nil })
	}
}

// hold updates what is known after v; a load of it gets a substitute.
func (s *slotStores) hold(h held, v *ir.Value, subst ir.Subst) {
	x, ok := s.access(v)
	switch {
	case ok && v.Op == ir.OpLoad:
		if c, known := h[x]; known && v.Type == ir.TI64 {
			subst[v] = ir.Const(v.Mem.Extend(c))
		}
	case ok:
		maps.DeleteFunc(h, func(y access, _ int64) bool { return x.overlaps(y) })
		if c := v.Args[1]; c.IsConst() {
			h[x] = c.Imm
		}
	default:
		maps.DeleteFunc(h, func(y access, _ int64) bool { return s.mentions(v, y.slot) })
	}
}

// mentions reports whether the address of a slot is an operand of v.
func (s *slotStores) mentions(v *ir.Value, slot int) bool {
	for _, a := range v.Args {
		if a.Op == ir.OpSlotAddr {
			if i, ok := s.tracked[a.Slot]; ok && i == slot {
				return true
			}
		}
	}
	return false
}

// dropDead drops stores of bytes that are overwritten before they are read.
func (s *slotStores) dropDead() {
	starts := make([][]uint64, s.f.NumBlocks()) // by Block.ID: the bytes that are read from there on
	after := func(b *ir.Block) []uint64 {
		live := make([]uint64, len(s.tracked))
		for _, e := range b.Term.Succs {
			for i, bits := range starts[e.To.ID] {
				live[i] |= bits
			}
		}
		return live
	}
	order := ir.ReversePostorder(s.f)
	for changed := true; changed; {
		changed = false
		for i := len(order) - 1; i >= 0; i-- {
			b := order[i]
			live := after(b)
			for k := len(b.Values) - 1; k >= 0; k-- {
				s.read(live, b.Values[k])
			}
			old := starts[b.ID]
			for i, bits := range live {
				changed = changed || old == nil && bits != 0 || old != nil && bits != old[i]
			}
			starts[b.ID] = live
		}
	}
	for _, b := range order {
		live := after(b)
		for k := len(b.Values) - 1; k >= 0; k-- {
			v := b.Values[k]
			if x, ok := s.access(v); ok && v.Op == ir.OpStore && live[x.slot]&x.mask() == 0 {
				b.Remove(k)
				continue
			}
			s.read(live, v)
		}
	}
}

// read is the backward transfer function: from the bytes that are read after v it computes those
// that are read from v on.
func (s *slotStores) read(live []uint64, v *ir.Value) {
	x, ok := s.access(v)
	switch {
	case ok && v.Op == ir.OpStore:
		live[x.slot] &^= x.mask()
	case ok:
		live[x.slot] |= x.mask()
	default:
		for _, a := range v.Args {
			if a.Op == ir.OpSlotAddr {
				if i, tracked := s.tracked[a.Slot]; tracked {
					live[i] = ^uint64(0)
				}
			}
		}
	}
}
