// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"slices"
)

// Uses calls use for each operand of the terminator, edge arguments included;
// the operand may be replaced through the pointer.
func (t *Term) Uses(use func(v **Value)) {
	if t.Arg != nil {
		use(&t.Arg)
	}
	for i := range t.Succs {
		for j := range t.Succs[i].Args {
			use(&t.Succs[i].Args[j])
		}
	}
}

// Uses calls use for each operand of the values and the terminator of f, in
// order of f.Blocks; the operand may be replaced through the pointer.
func (f *Func) Uses(use func(v **Value)) {
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			for i := range v.Args {
				use(&v.Args[i])
			}
		}
		b.Term.Uses(use)
	}
}

// UseCounts returns the number of uses of each value, indexed by Value.ID.
func UseCounts(f *Func) []int {
	n := make([]int, f.nextValue)
	f.Uses(func(v **Value) {
		if (*v).ID >= 0 {
			n[(*v).ID]++
		}
	})
	return n
}

// Subst is a set of replacements, applied at once. Chains (a by b, b by c)
// are followed.
type Subst map[*Value]*Value

// Of returns the replacement of v, v itself if it has none.
func (s Subst) Of(v *Value) *Value {
	for {
		w, ok := s[v]
		if !ok || w == v {
			return v
		}
		v = w
	}
}

// Apply replaces the uses in the whole function.
func (s Subst) Apply(f *Func) {
	if len(s) == 0 {
		return
	}
	f.Uses(func(v **Value) { *v = s.Of(*v) })
}

// ReplaceUses replaces every use of old in f by new. For many replacements collect a Subst:
// this walks the function.
func ReplaceUses(f *Func, old, new *Value) { Subst{old: new}.Apply(f) }

// Insert places v, which belongs to no block, before b.Values[i].
func (b *Block) Insert(i int, v *Value) {
	v.Block = b
	b.Values = slices.Insert(b.Values, i, v)
}

// Remove removes b.Values[i] from the block.
func (b *Block) Remove(i int) {
	b.Values[i].Block = nil
	b.Values = slices.Delete(b.Values, i, i+1)
}

// Index returns the index of v among its block's values. It panics when v is not placed.
func (v *Value) Index() int {
	if v.Block != nil {
		if i := slices.Index(v.Block.Values, v); i >= 0 {
			return i
		}
	}
	panic("BUG: not placed in a block: " + v.Text())
}

// NewBlockAfter makes an empty block that follows b in f.Blocks.
func (f *Func) NewBlockAfter(b *Block) *Block {
	nb := &Block{ID: f.nextBlock, Func: f, Cold: b.Cold}
	f.nextBlock++
	i := f.last
	for ; i < len(f.Blocks) && i < f.last+8 && f.Blocks[i] != b; i++ {
	}
	if i >= len(f.Blocks) || f.Blocks[i] != b {
		i = slices.Index(f.Blocks, b)
	}
	f.last = i
	f.Blocks = slices.Insert(f.Blocks, i+1, nb)
	return nb
}

// SplitBlock moves b.Values[i:] and the terminator to a new block and leaves b
// without terminator. The new block follows b and shares its coldness.
func SplitBlock(b *Block, i int) *Block {
	nb := b.Func.NewBlockAfter(b)
	nb.Values, b.Values = b.Values[i:], slices.Clip(b.Values[:i])
	for _, v := range nb.Values {
		v.Block = nb
	}
	nb.Term, b.Term = b.Term, Term{}
	return nb
}

// SplitEdge puts an empty block on the edge. The edge's arguments move to the
// new block's jump.
func SplitEdge(p Pred) *Block {
	e := p.Edge()
	nb := p.Block.Func.NewBlockAfter(p.Block)
	nb.Cold = e.To.Cold
	nb.Jump(e.To, p.Block.Term.Pos, e.Args...)
	*e = Edge{To: nb}
	return nb
}

// RemoveParam removes parameter i of b and its argument on the edges to b, which are preds.
// The parameter must be unused, and b must not be the entry.
func RemoveParam(b *Block, i int, preds []Pred) {
	b.Params = slices.Delete(b.Params, i, i+1)
	for _, p := range preds {
		e := p.Edge()
		e.Args = slices.Delete(slices.Clone(e.Args), i, i+1)
	}
}

// RemoveUnreachable removes the blocks that cannot be reached from the entry, and reports
// whether there were any.
func RemoveUnreachable(f *Func) bool {
	seen := make([]bool, f.nextBlock)
	for _, b := range ReversePostorder(f) {
		seen[b.ID] = true
	}
	n := len(f.Blocks)
	f.Blocks = slices.DeleteFunc(f.Blocks, func(b *Block) bool { return !seen[b.ID] })
	return len(f.Blocks) < n
}

// Clone returns a deep copy of f with the same IDs. Prog and inline operands are shared.
func (f *Func) Clone() *Func {
	nf := *f
	c := cloner{values: map[*Value]*Value{}, blocks: map[*Block]*Block{}, slots: map[*Slot]*Slot{}}
	nf.Params = slices.Clone(f.Params)
	nf.Slots = make([]*Slot, len(f.Slots))
	for i, s := range f.Slots {
		ns := *s
		nf.Slots[i] = &ns
		c.slots[s] = &ns
	}
	nf.Blocks = make([]*Block, len(f.Blocks))
	for i, b := range f.Blocks {
		nf.Blocks[i] = &Block{ID: b.ID, Cold: b.Cold, Func: &nf}
		c.blocks[b] = nf.Blocks[i]
	}
	for i, b := range f.Blocks {
		nb := nf.Blocks[i]
		nb.Params = c.list(b.Params, nb)
		nb.Values = c.list(b.Values, nb)
	}
	for i, b := range f.Blocks {
		nb := nf.Blocks[i]
		for j, v := range b.Values {
			nb.Values[j].Args = c.operands(v.Args)
		}
		nb.Term = b.Term
		if b.Term.Arg != nil {
			nb.Term.Arg = c.operand(b.Term.Arg)
		}
		nb.Term.Succs = make([]Edge, len(b.Term.Succs))
		for j, e := range b.Term.Succs {
			nb.Term.Succs[j] = Edge{To: c.blocks[e.To], Args: c.operands(e.Args)}
		}
	}
	return &nf
}

// CopyBlocks appends copies of blocks to f, with fresh numbers. The copies refer to each
// other instead of to the originals; everything else is shared. values maps each value to
// its copy.
func CopyBlocks(f *Func, blocks []*Block, values Subst) map[*Block]*Block {
	copies := make(map[*Block]*Block, len(blocks))
	var added []*Block
	for _, b := range blocks {
		nb := f.NewBlock()
		nb.Cold = b.Cold
		copies[b] = nb
		added = append(added, nb)
		for _, p := range b.Params {
			values[p] = nb.AddParam(p.Type)
		}
		for _, v := range b.Values {
			nv := *v
			nv.ID = f.nextValue
			f.nextValue++
			nv.Args = slices.Clone(v.Args)
			nb.AppendValue(&nv)
			values[v] = &nv
		}
	}
	for i, b := range blocks {
		nb := added[i]
		nb.Term = b.Term
		nb.Term.Succs = slices.Clone(b.Term.Succs)
		for j := range nb.Term.Succs {
			e := &nb.Term.Succs[j]
			e.Args = slices.Clone(e.Args)
			if to := copies[e.To]; to != nil {
				e.To = to
			}
		}
		use := func(v **Value) { *v = values.Of(*v) }
		for _, v := range nb.Values {
			for j := range v.Args {
				use(&v.Args[j])
			}
		}
		nb.Term.Uses(use)
	}
	return copies
}

type cloner struct {
	values map[*Value]*Value
	blocks map[*Block]*Block
	slots  map[*Slot]*Slot
}

func (c *cloner) list(vs []*Value, b *Block) []*Value {
	out := make([]*Value, len(vs))
	for i, v := range vs {
		nv := *v
		nv.Block = b
		out[i] = &nv
		c.values[v] = &nv
	}
	return out
}

func (c *cloner) operands(vs []*Value) []*Value {
	if vs == nil {
		return nil
	}
	out := make([]*Value, len(vs))
	for i, v := range vs {
		out[i] = c.operand(v)
	}
	return out
}

func (c *cloner) operand(v *Value) *Value {
	if v.ID >= 0 {
		nv, ok := c.values[v]
		if !ok {
			panic(fmt.Sprintf("BUG: operand %s belongs to no block of the function", v.Text()))
		}
		return nv
	}
	if v.Slot == nil {
		return v
	}
	nv := *v
	nv.Slot = c.slots[v.Slot]
	return &nv
}

// Clone returns a copy of m whose functions, maps, globals and events may be
// changed without changing m. Layouts, Target and Meta are shared.
func (m *Module) Clone() *Module {
	nm := *m
	nm.Funcs = make([]*Func, len(m.Funcs))
	for i, f := range m.Funcs {
		nm.Funcs[i] = f.Clone()
	}
	nm.Maps = clonePtrs(m.Maps)
	nm.Globals = clonePtrs(m.Globals)
	nm.Events = clonePtrs(m.Events)
	for _, e := range nm.Events {
		e.Fields = slices.Clone(e.Fields)
	}
	return &nm
}

func clonePtrs[T any](in []*T) []*T {
	out := make([]*T, len(in))
	for i, p := range in {
		c := *p
		out[i] = &c
	}
	return out
}

// MoveBlocks moves blocks of f to the end of another function, with fresh numbers there.
// Operands and edges stay as they are: the caller fixes those that cross from one function
// to the other.
func MoveBlocks(f, to *Func, blocks []*Block) {
	gone := make(map[*Block]bool, len(blocks))
	for _, b := range blocks {
		gone[b] = true
	}
	f.Blocks = slices.DeleteFunc(f.Blocks, func(b *Block) bool { return gone[b] })
	for _, b := range blocks {
		b.ID, b.Func = to.nextBlock, to
		to.nextBlock++
		for _, list := range [][]*Value{b.Params, b.Values} {
			for _, v := range list {
				v.ID = to.nextValue
				to.nextValue++
			}
		}
		to.Blocks = append(to.Blocks, b)
	}
}
