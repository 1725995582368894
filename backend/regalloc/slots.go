// SPDX-License-Identifier: Apache-2.0

package regalloc

import (
	"fmt"
	"math/bits"

	"btc/backend/mach"
	"btc/ir"
)

// bitset is a set of small numbers.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (s bitset) add(n int)    { s[n/64] |= 1 << (n % 64) }
func (s bitset) remove(n int) { s[n/64] &^= 1 << (n % 64) }

// union adds all of o and reports whether s grew.
func (s bitset) union(o bitset) bool {
	grew := false
	for n, w := range o {
		grew = grew || w&^s[n] != 0
		s[n] |= w
	}
	return grew
}

func (s bitset) each(do func(n int)) {
	for k, w := range s {
		for ; w != 0; w &= w - 1 {
			do(64*k + bits.TrailingZeros64(w))
		}
	}
}

// placeSlots colors the spill slots and writes their offsets into the
// instructions. Two share eight bytes when neither is live at a store of the other.
func (a *allocator) placeSlots() error {
	g := a.slotGraph()
	if len(g.near) == 0 {
		return nil
	}
	// Spilled words are below the script's objects and aligned to 8 bytes: the verifier of Linux 5.10
	// keeps the type and the range of a spilled register only for a whole aligned word (check_stack_write in
	// kernel/bpf/verifier.c).
	base := (a.f.FrameUsed + 7) / 8
	// Greedy: each slot gets the lowest color that no neighbor before it has.
	color := make([]int, len(g.near))
	most := 0
	for n := range g.near {
		used := newBitset(len(g.near) + 1)
		g.near[n].each(func(other int) {
			if other < n {
				used.add(color[other])
			}
		})
		for used[color[n]/64]&(1<<(color[n]%64)) != 0 {
			color[n]++
		}
		most = max(most, color[n]+1)
	}
	for _, b := range a.f.Blocks {
		for n := range b.Insns {
			if i := &b.Insns[n]; i.Spill > 0 {
				i.Off = -8 * (base + color[g.number[i.Spill]] + 1)
			}
		}
	}
	slots := a.f.FrameUsed
	a.f.FrameUsed = 8 * (base + most)
	if a.f.FrameUsed > frameLimit {
		return ir.Diag{Pos: a.f.Pos,
			Text: fmt.Sprintf("needs %d bytes of stack: %d for variables and keys, %d for spilled values; BPF programs have %d",
				a.f.FrameUsed, slots, 8*most, frameLimit)}
	}
	return nil
}

// slotGraph says which slots interfere.
type slotGraph struct {
	number map[int]int // Insn.Spill -> dense number, in order of appearance
	near   []bitset
}

func (a *allocator) slotGraph() *slotGraph {
	g := &slotGraph{number: map[int]int{}}
	for _, b := range a.f.Blocks {
		for n := range b.Insns {
			if s := b.Insns[n].Spill; s > 0 {
				if _, ok := g.number[s]; !ok {
					g.number[s] = len(g.number)
				}
			}
		}
	}
	count := len(g.number)
	if count == 0 {
		return g
	}
	for range count {
		g.near = append(g.near, newBitset(count))
	}
	in := make([]bitset, len(a.f.Blocks))
	for n := range in {
		in[n] = newBitset(count)
	}
	// Liveness first, backwards to a fixed point; what interferes is recorded once it is known for all blocks.
	live := newBitset(count)
	for changed := true; changed; {
		changed = false
		for n := len(a.f.Blocks) - 1; n >= 0; n-- {
			g.walk(a.f.Blocks[n], in, live, false)
			if in[n].union(live) {
				changed = true
			}
		}
	}
	for _, b := range a.f.Blocks {
		g.walk(b, in, live, true)
	}
	return g
}

// walk computes into live the slots that are live at the start of b, from those at the start of its
// successors (in). With record it also adds an edge between a slot that is stored and each that is live then.
func (g *slotGraph) walk(b *mach.Block, in []bitset, live bitset, record bool) {
	clear(live)
	for _, e := range b.Term.Succs {
		live.union(in[e.To.Index])
	}
	for n := len(b.Insns) - 1; n >= 0; n-- {
		i := &b.Insns[n]
		if i.Spill == 0 {
			continue
		}
		s := g.number[i.Spill]
		if i.Op == mach.Load { // backwards: a reload makes the slot live, its store ends that
			live.add(s)
			continue
		}
		live.remove(s)
		if record {
			g.near[s].union(live)
			live.each(func(other int) { g.near[other].add(s) })
		}
	}
}
