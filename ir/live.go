// SPDX-License-Identifier: Apache-2.0

package ir

import "slices"

// ValueSet is a set of placed values and block parameters of one function.
type ValueSet []uint64

// NewValueSet returns an empty set for the values of f.
func NewValueSet(f *Func) ValueSet { return make(ValueSet, (f.nextValue+63)/64) }

// Has reports whether v is in the set; inline operands never are.
func (s ValueSet) Has(v *Value) bool { return v.ID >= 0 && s[v.ID/64]>>(v.ID%64)&1 != 0 }

// Add adds v, unless it is an inline operand.
func (s ValueSet) Add(v *Value) {
	if v.ID >= 0 {
		s[v.ID/64] |= 1 << (v.ID % 64)
	}
}

// Liveness answers liveness queries (which values have a live range that includes a block's start
// or end) for the reachable blocks of a function, as it was when Live was called. A block's
// parameters are live in it, not before it; the arguments of an edge are used at the end of the
// block the edge leaves.
//
// It walks back from the uses of the queried values only: live sets for each block would be
// quadratic in the length of a function.
type Liveness struct {
	preds [][]Pred
	def   []*Block         // by Value.ID: where it is defined
	uses  [][]*Block       // by Value.ID: other blocks that use it
	in    map[int][]*Block // by Value.ID, for queried values: blocks at whose start it is live
}

// Blocks lists the blocks at whose start v is live, in the order of their IDs.
func (l *Liveness) Blocks(v *Value) []*Block {
	if v.ID < 0 || len(l.uses[v.ID]) == 0 {
		return nil
	}
	in, known := l.in[v.ID]
	if !known {
		in = l.search(v)
		l.in[v.ID] = in
	}
	return in
}

// Live prepares the liveness queries for f.
func Live(f *Func) *Liveness {
	l := &Liveness{
		preds: Preds(f),
		def:   make([]*Block, f.nextValue),
		uses:  make([][]*Block, f.nextValue),
		in:    map[int][]*Block{},
	}
	order := ReversePostorder(f)
	for _, b := range order {
		for _, p := range b.Params {
			l.def[p.ID] = b
		}
		for _, v := range b.Values {
			l.def[v.ID] = b
		}
	}
	for _, b := range order {
		use := func(v *Value) {
			if v.ID < 0 || l.def[v.ID] == b {
				return
			}
			if at := l.uses[v.ID]; len(at) == 0 || at[len(at)-1] != b {
				l.uses[v.ID] = append(at, b)
			}
		}
		for _, v := range b.Values {
			for _, a := range v.Args {
				use(a)
			}
		}
		b.Term.Uses(func(v **Value) { use(*v) })
	}
	return l
}

// In reports whether v is live at the start of b.
func (l *Liveness) In(b *Block, v *Value) bool {
	_, found := slices.BinarySearchFunc(l.Blocks(v), b, byID)
	return found
}

// Out reports whether v is live at the end of b.
func (l *Liveness) Out(b *Block, v *Value) bool {
	return slices.ContainsFunc(b.Term.Succs, func(e Edge) bool { return l.In(e.To, v) })
}

// search finds the blocks at whose start v is live, in the order of their IDs.
func (l *Liveness) search(v *Value) []*Block {
	seen := map[*Block]bool{}
	var in []*Block
	add := func(b *Block) {
		if b != l.def[v.ID] && !seen[b] {
			seen[b] = true
			in = append(in, b)
		}
	}
	for _, b := range l.uses[v.ID] {
		add(b)
	}
	for i := 0; i < len(in); i++ {
		for _, p := range l.preds[in[i].ID] {
			add(p.Block)
		}
	}
	slices.SortFunc(in, byID)
	return in
}

func byID(a, b *Block) int { return a.ID - b.ID }
