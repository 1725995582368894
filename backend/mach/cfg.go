// SPDX-License-Identifier: Apache-2.0

package mach

// Order prepares the control flow graph for allocation and layout: it drops unreachable blocks,
// splits critical edges and branch edges with arguments, fills the fields of Block that say so,
// makes blocks cold that only cold ones lead to, and sorts the blocks: reverse postorder, loops
// contiguous, cold blocks last. The entry stays first; it gets a predecessor of its own when
// something jumps to it.
func (f *Func) Order() {
	f.isolateEntry()
	f.Blocks = f.reversePostorder()
	f.fillPreds()
	f.splitCriticalEdges()
	f.Blocks = f.reversePostorder()
	f.fillPreds()
	dom := f.dominators()
	f.findLoops(dom)
	f.spreadCold(dom)
	f.Blocks = f.reversePostorder() // a second time, because the order depends on Depth
	var hot, cold []*Block
	for _, b := range f.Blocks {
		if b.Cold {
			cold = append(cold, b)
		} else {
			hot = append(hot, b)
		}
	}
	f.Blocks = append(hot, cold...)
	for n, b := range f.Blocks {
		b.Index = n
	}
}

func (f *Func) isolateEntry() {
	entry := f.Blocks[0]
	for _, b := range f.Blocks {
		for _, e := range b.Term.Succs {
			if e.To == entry {
				f.prependEntry()
				return
			}
		}
	}
}

func (f *Func) prependEntry() {
	old := f.Blocks[0]
	b := f.NewBlock()
	f.Blocks = append([]*Block{b}, f.Blocks[:len(f.Blocks)-1]...)
	args := make([]Operand, len(old.Params))
	for n := range old.Params {
		p := f.NewVirt()
		b.Params = append(b.Params, p)
		args[n] = RegOp(p)
	}
	b.Term = Term{Kind: Jump, Succs: []Edge{{To: old, Args: args}}, Pos: old.Term.Pos}
}

// reversePostorder lists the reachable blocks. Of a branch's targets the first is laid out
// next unless only the second stays in the loop. (Not in cold code: the verifier walks the
// fall-through path first, and an exit that it walks at once does not wait while it walks
// the iterations; see passes/trip_counts.go.)
func (f *Func) reversePostorder() []*Block {
	type frame struct {
		b    *Block
		next int
	}
	seen := make(map[*Block]bool, len(f.Blocks))
	var post []*Block
	stack := []frame{{f.Blocks[0], 0}}
	seen[f.Blocks[0]] = true
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		succs := top.b.Term.Succs
		if top.next == len(succs) {
			post = append(post, top.b)
			stack = stack[:len(stack)-1]
			continue
		}
		// What is visited last comes first in the result.
		n := len(succs) - 1 - top.next
		if len(succs) == 2 && succs[1].To.Depth > succs[0].To.Depth && !top.b.Cold {
			n = top.next
		}
		top.next++
		if to := succs[n].To; !seen[to] {
			seen[to] = true
			stack = append(stack, frame{to, 0})
		}
	}
	for i, j := 0, len(post)-1; i < j; i, j = i+1, j-1 {
		post[i], post[j] = post[j], post[i]
	}
	return post
}

func (f *Func) fillPreds() {
	for _, b := range f.Blocks {
		b.Preds = nil
	}
	for _, b := range f.Blocks {
		for _, e := range b.Term.Succs {
			e.To.Preds = append(e.To.Preds, b)
		}
	}
}

func (f *Func) splitCriticalEdges() {
	for _, b := range f.Blocks[:len(f.Blocks):len(f.Blocks)] {
		if len(b.Term.Succs) < 2 {
			continue
		}
		for n := range b.Term.Succs {
			e := &b.Term.Succs[n]
			if len(e.To.Preds) < 2 && len(e.Args) == 0 {
				continue
			}
			mid := f.NewBlock()
			mid.Cold = b.Cold || e.To.Cold
			mid.Term = Term{Kind: Jump, Succs: []Edge{*e}, Pos: b.Term.Pos}
			*e = Edge{To: mid}
		}
	}
}

// Dominators answers dominance queries; it is valid until blocks change.
type Dominators struct {
	index map[*Block]int // in reverse postorder
	idom  []int
	order []*Block
}

// Dominators computes the dominator tree. Preds must be filled.
func (f *Func) Dominators() *Dominators { return f.dominators() }

func (f *Func) dominators() *Dominators {
	d := &Dominators{index: make(map[*Block]int, len(f.Blocks)), order: f.reversePostorder()}
	for n, b := range d.order {
		d.index[b] = n
	}
	d.idom = make([]int, len(d.order))
	for n := range d.idom {
		d.idom[n] = -1
	}
	d.idom[0] = 0
	for changed := true; changed; {
		changed = false
		for n, b := range d.order[1:] {
			best := -1
			for _, p := range b.Preds {
				i := d.index[p]
				if d.idom[i] < 0 {
					continue
				}
				if best < 0 {
					best = i
				} else {
					best = d.meet(best, i)
				}
			}
			if d.idom[n+1] != best {
				d.idom[n+1] = best
				changed = true
			}
		}
	}
	return d
}

func (d *Dominators) meet(a, b int) int {
	for a != b {
		for a > b {
			a = d.idom[a]
		}
		for b > a {
			b = d.idom[b]
		}
	}
	return a
}

// Dominates reports whether every path to b passes a; a block dominates itself.
func (d *Dominators) Dominates(a, b *Block) bool {
	i, j := d.index[a], d.index[b]
	for j > i {
		j = d.idom[j]
	}
	return i == j
}

// findLoops sets Depth from the natural loops.
func (f *Func) findLoops(d *Dominators) {
	loops := map[*Block]map[*Block]bool{} // by header
	var headers []*Block
	for _, b := range f.Blocks {
		b.Depth, b.LoopCall = 0, false
		for _, e := range b.Term.Succs {
			if !d.Dominates(e.To, b) {
				continue
			}
			body := loops[e.To]
			if body == nil {
				body = map[*Block]bool{e.To: true}
				loops[e.To] = body
				headers = append(headers, e.To)
			}
			work := []*Block{b}
			for len(work) > 0 {
				x := work[len(work)-1]
				work = work[:len(work)-1]
				if !body[x] {
					body[x] = true
					work = append(work, x.Preds...)
				}
			}
		}
	}
	for _, h := range headers {
		for b := range loops[h] {
			b.Depth++
			h.LoopCall = h.LoopCall || b.calls()
		}
	}
}

func (f *Func) spreadCold(d *Dominators) {
	f.Blocks[0].Cold = false
	for n, b := range d.order {
		if n > 0 && d.order[d.idom[n]].Cold {
			b.Cold = true
		}
		forward, cold := 0, 0
		for _, p := range b.Preds {
			if d.index[p] < n {
				forward++
				if p.Cold {
					cold++
				}
			}
		}
		if forward > 0 && forward == cold {
			b.Cold = true
		}
	}
}

func (b *Block) calls() bool {
	for n := range b.Insns {
		if b.Insns[n].Op.IsCall() {
			return true
		}
	}
	return false
}
