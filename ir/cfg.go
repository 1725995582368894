// SPDX-License-Identifier: Apache-2.0

// The control flow graph (CFG): predecessors, reverse postorder, the dominator tree, natural loops.

package ir

import "slices"

// NumBlocks returns an exclusive upper bound of the block IDs of f, for tables indexed by ID.
func (f *Func) NumBlocks() int { return f.nextBlock }

// NumValues returns an exclusive upper bound of the value IDs of f, for tables indexed by ID.
func (f *Func) NumValues() int { return f.nextValue }

// NumSlots returns an exclusive upper bound of the slot IDs of f.
func (f *Func) NumSlots() int { return f.nextSlot }

// Pred is an edge into a block: Block.Term.Succs[Succ].
type Pred struct {
	Block *Block
	Succ  int
}

// Edge returns the edge itself; its arguments may be changed in place.
func (p Pred) Edge() *Edge { return &p.Block.Term.Succs[p.Succ] }

// Preds lists the edges into each block, indexed by Block.ID, in the order of f.Blocks. A
// branch with both edges to one block counts twice.
func Preds(f *Func) [][]Pred {
	preds := make([][]Pred, f.nextBlock)
	count, edges := make([]int32, f.nextBlock), 0
	for _, b := range f.Blocks {
		for _, e := range b.Term.Succs {
			count[e.To.ID]++
			edges++
		}
	}
	all := make([]Pred, edges) // backing array of the lists
	for _, b := range f.Blocks {
		for i, e := range b.Term.Succs {
			to := e.To.ID
			if n := int(count[to]); preds[to] == nil {
				preds[to], all = all[:0:n], all[n:]
			}
			preds[to] = append(preds[to], Pred{b, i})
		}
	}
	return preds
}

// ReversePostorder lists the blocks that can be reached from the entry, each
// before its successors except along back edges.
func ReversePostorder(f *Func) []*Block {
	seen := make([]bool, f.nextBlock)
	order := make([]*Block, 0, len(f.Blocks))
	type visit struct {
		b    *Block
		next int // the successor to look at
	}
	enter := func(b *Block) visit {
		seen[b.ID] = true
		return visit{b, len(b.Term.Succs) - 1}
	}
	// Not recursive: a long function has paths of 10,000 blocks.
	for stack := []visit{enter(f.Entry())}; len(stack) > 0; {
		v := &stack[len(stack)-1]
		if v.next < 0 {
			order = append(order, v.b)
			stack = stack[:len(stack)-1]
			continue
		}
		to := v.b.Term.Succs[v.next].To
		v.next--
		if !seen[to.ID] {
			stack = append(stack, enter(to))
		}
	}
	slices.Reverse(order)
	return order
}

// DomTree is the dominator tree of a function's reachable blocks.
type DomTree struct {
	Order    []*Block // reverse postorder
	idom     []*Block // by Block.ID; nil for the entry and for unreachable blocks
	children [][]*Block
	number   []int32 // position in Order by Block.ID; -1 unreachable
	in, out  []int32 // interval of a preorder walk of the tree
}

// Dominators computes the dominator tree (the iterative algorithm of Cooper,
// Harvey and Kennedy). Any change of edges invalidates it.
func Dominators(f *Func) *DomTree {
	n := f.nextBlock
	numbers := make([]int32, 3*n)
	d := &DomTree{Order: ReversePostorder(f), idom: make([]*Block, n),
		children: make([][]*Block, n), number: numbers[:n], in: numbers[n : 2*n], out: numbers[2*n:]}
	for i := range d.number {
		d.number[i] = -1
	}
	for i, b := range d.Order {
		d.number[b.ID] = int32(i)
	}
	preds := Preds(f)
	entry := f.Entry()
	d.idom[entry.ID] = entry
	for changed := true; changed; {
		changed = false
		for _, b := range d.Order[1:] {
			var dom *Block
			for _, p := range preds[b.ID] {
				if d.number[p.Block.ID] < 0 || d.idom[p.Block.ID] == nil {
					continue
				}
				if dom == nil {
					dom = p.Block
				} else {
					dom = d.meet(dom, p.Block)
				}
			}
			if d.idom[b.ID] != dom {
				d.idom[b.ID], changed = dom, true
			}
		}
	}
	d.idom[entry.ID] = nil
	d.listChildren()
	d.interval(entry, 0)
	return d
}

// listChildren slices the lists of children out of one array.
func (d *DomTree) listChildren() {
	count := make([]int32, len(d.idom))
	for _, b := range d.Order[1:] {
		count[d.idom[b.ID].ID]++
	}
	all := make([]*Block, len(d.Order)-1)
	for _, b := range d.Order[1:] {
		p := d.idom[b.ID].ID
		if n := int(count[p]); d.children[p] == nil {
			d.children[p], all = all[:0:n], all[n:]
		}
		d.children[p] = append(d.children[p], b)
	}
}

func (d *DomTree) meet(a, b *Block) *Block {
	for a != b {
		for d.number[a.ID] > d.number[b.ID] {
			a = d.idom[a.ID]
		}
		for d.number[b.ID] > d.number[a.ID] {
			b = d.idom[b.ID]
		}
	}
	return a
}

func (d *DomTree) interval(b *Block, n int32) int32 {
	d.in[b.ID] = n
	for _, c := range d.children[b.ID] {
		n = d.interval(c, n+1)
	}
	d.out[b.ID] = n
	return n
}

// Reachable reports whether b can be reached from the entry.
func (d *DomTree) Reachable(b *Block) bool { return d.number[b.ID] >= 0 }

// Idom returns the immediate dominator of b; nil for the entry and unreachable blocks.
func (d *DomTree) Idom(b *Block) *Block { return d.idom[b.ID] }

// Dominates reports whether every path to b passes a; a block dominates itself.
// Both must be reachable.
func (d *DomTree) Dominates(a, b *Block) bool {
	return d.number[a.ID] >= 0 && d.number[b.ID] >= 0 && d.in[a.ID] <= d.in[b.ID] && d.out[b.ID] <= d.out[a.ID]
}

// Loop is a natural loop: the blocks from which a back edge to Header can be
// reached without passing Header.
type Loop struct {
	Header  *Block
	Latches []*Block // sources of the back edges
	Blocks  []*Block // with Header, in reverse postorder
	Parent  *Loop    // the smallest loop around this one, or nil if there is none
	Depth   int      // 1 for an outermost loop
}

// LoopNest is all natural loops of a function.
type LoopNest struct {
	Loops []*Loop // outer before inner
	of    []*Loop
	// Irreducible is set when an edge enters a loop other than at its header
	// (a retreating edge whose target does not dominate its source).
	Irreducible bool
}

// Of returns the innermost loop around b, or nil if there is none.
func (n *LoopNest) Of(b *Block) *Loop { return n.of[b.ID] }

// Loops finds the natural loops of f; d is f's dominator tree.
func Loops(f *Func, d *DomTree) *LoopNest {
	n := &LoopNest{of: make([]*Loop, f.nextBlock)}
	if !d.retreats() {
		return n
	}
	preds := Preds(f)
	for _, h := range d.Order {
		l := &Loop{Header: h}
		for _, p := range preds[h.ID] {
			if !d.Reachable(p.Block) {
				continue
			}
			if d.Dominates(h, p.Block) {
				l.Latches = append(l.Latches, p.Block)
			} else if d.number[p.Block.ID] >= d.number[h.ID] {
				n.Irreducible = true
			}
		}
		if l.Latches == nil {
			continue
		}
		l.collect(preds, d)
		l.Parent = n.of[h.ID]
		l.Depth = 1
		if l.Parent != nil {
			l.Depth = l.Parent.Depth + 1
		}
		for _, b := range l.Blocks {
			n.of[b.ID] = l
		}
		n.Loops = append(n.Loops, l)
	}
	return n
}

// retreats reports whether some edge leads to an earlier block: without one there are no loops.
func (d *DomTree) retreats() bool {
	for _, b := range d.Order {
		for _, e := range b.Term.Succs {
			if d.number[e.To.ID] <= d.number[b.ID] {
				return true
			}
		}
	}
	return false
}

func (l *Loop) collect(preds [][]Pred, d *DomTree) {
	in := map[*Block]bool{l.Header: true}
	work := slices.Clone(l.Latches)
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		if in[b] || !d.Reachable(b) {
			continue
		}
		in[b] = true
		for _, p := range preds[b.ID] {
			work = append(work, p.Block)
		}
	}
	for _, b := range d.Order {
		if in[b] {
			l.Blocks = append(l.Blocks, b)
		}
	}
}
