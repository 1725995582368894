package ir

import "math/bits"

// ValueSet is a set of placed values and block parameters of one function.
type ValueSet []uint64

// NewValueSet is an empty set for the values of f.
func NewValueSet(f *Func) ValueSet { return make(ValueSet, (f.nextValue+63)/64) }

// Has reports whether v is in the set; inline operands never are.
func (s ValueSet) Has(v *Value) bool { return v.ID >= 0 && s[v.ID/64]>>(v.ID%64)&1 != 0 }

// Add adds v, unless it is an inline operand.
func (s ValueSet) Add(v *Value) {
	if v.ID >= 0 {
		s[v.ID/64] |= 1 << (v.ID % 64)
	}
}

// Remove removes v.
func (s ValueSet) Remove(v *Value) {
	if v.ID >= 0 {
		s[v.ID/64] &^= 1 << (v.ID % 64)
	}
}

// Union adds all of t and reports whether that changed s.
func (s ValueSet) Union(t ValueSet) bool {
	changed := false
	for i, w := range t {
		if w&^s[i] != 0 {
			s[i] |= w
			changed = true
		}
	}
	return changed
}

// Len is the number of members.
func (s ValueSet) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// IDs lists the members' IDs in order.
func (s ValueSet) IDs() []int {
	var ids []int
	for i, w := range s {
		for ; w != 0; w &= w - 1 {
			ids = append(ids, i*64+bits.TrailingZeros64(w))
		}
	}
	return ids
}

// Liveness says which values are needed later at both ends of each block,
// indexed by Block.ID. A block's parameters are live in it, not before it; the
// arguments of an edge are used at the end of the block the edge leaves.
type Liveness struct {
	In, Out []ValueSet
}

// Live computes liveness of the reachable blocks; others have nil sets.
func Live(f *Func) *Liveness {
	l := &Liveness{In: make([]ValueSet, f.nextBlock), Out: make([]ValueSet, f.nextBlock)}
	order := ReversePostorder(f)
	for _, b := range order {
		l.In[b.ID], l.Out[b.ID] = NewValueSet(f), NewValueSet(f)
	}
	for changed := true; changed; {
		changed = false
		for i := len(order) - 1; i >= 0; i-- {
			if l.block(order[i]) {
				changed = true
			}
		}
	}
	return l
}

func (l *Liveness) block(b *Block) bool {
	out := l.Out[b.ID]
	for _, e := range b.Term.Succs {
		out.Union(l.In[e.To.ID])
	}
	live := append(ValueSet(nil), out...)
	b.Term.Uses(func(v **Value) { live.Add(*v) })
	for i := len(b.Values) - 1; i >= 0; i-- {
		v := b.Values[i]
		live.Remove(v)
		for _, a := range v.Args {
			live.Add(a)
		}
	}
	for _, p := range b.Params {
		live.Remove(p)
	}
	return l.In[b.ID].Union(live)
}
