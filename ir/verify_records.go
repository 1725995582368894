// SPDX-License-Identifier: Apache-2.0

package ir

import "slices"

// Ring buffer records: the possible states of one at a point.
const (
	recordLive = 1 << iota // reserved, must be submitted or discarded
	recordNull             // the reservation failed
	recordGone             // submitted or discarded
)

// recordsReleased checks that each record is submitted or discarded exactly once on every
// path, and not used after.
func (c *checker) recordsReleased() {
	var recs []*Value
	for _, b := range c.dom.Order {
		for _, v := range b.Values {
			if v.Op == OpCall && v.Type.Kind == Ringbuf {
				recs = append(recs, v)
			}
		}
	}
	if len(recs) == 0 {
		return
	}
	uses := c.recordUses(recs)
	for _, rec := range recs {
		r := &recordCheck{
			checker:  c,
			rec:      rec,
			uses:     uses,
			alias:    uses.aliases(rec),
			in:       map[*Block]int{},
			reported: map[any]bool{},
		}
		r.findNear()
		r.run()
	}
}

// recordUses tracks pointers to records.
type recordUses struct {
	derived [][]*Value          // by Value.ID: pointers computed from it, and block parameters that receive it
	users   map[*Value][]*Value // values that have it as an operand
}

func (c *checker) recordUses(recs []*Value) *recordUses {
	u := &recordUses{derived: make([][]*Value, c.f.nextValue), users: map[*Value][]*Value{}}
	derive := func(from, to *Value) {
		if from.ID >= 0 {
			u.derived[from.ID] = append(u.derived[from.ID], to)
		}
	}
	for _, b := range c.f.Blocks {
		for _, v := range b.Values {
			if v.Op == OpNonNull || v.Op == OpAdd || v.Op == OpSub {
				derive(v.Args[0], v)
			}
		}
		for _, e := range b.Term.Succs {
			for i, a := range e.Args {
				derive(a, e.To.Params[i])
			}
		}
	}
	all := u.aliases(recs...)
	for _, b := range c.f.Blocks {
		for _, v := range b.Values {
			for _, a := range v.Args {
				if all[a] {
					u.users[a] = append(u.users[a], v)
				}
			}
		}
	}
	return u
}

// aliases returns the values that may point into one of the records.
func (u *recordUses) aliases(recs ...*Value) map[*Value]bool {
	found := map[*Value]bool{}
	for work := slices.Clone(recs); len(work) > 0; {
		v := work[len(work)-1]
		work = work[:len(work)-1]
		if !found[v] {
			found[v] = true
			work = append(work, u.derived[v.ID]...)
		}
	}
	return found
}

type recordCheck struct {
	*checker
	rec   *Value
	uses  *recordUses
	alias map[*Value]bool // the values that may point into the record
	// near are the blocks from which a use of the record can be reached before it is
	// reserved again: only there it matters that the record was released.
	near     map[*Block]bool
	in       map[*Block]int
	reported map[any]bool
}

func (r *recordCheck) findNear() {
	r.near = map[*Block]bool{}
	var work []*Block
	add := func(b *Block) {
		if !r.near[b] {
			r.near[b] = true
			work = append(work, b)
		}
	}
	for a := range r.alias {
		for _, v := range r.uses.users[a] {
			if v.Block != r.rec.Block || v.Index() <= r.rec.Index() {
				add(v.Block)
			}
		}
	}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		for _, p := range r.preds[b.ID] {
			if p.Block != r.rec.Block {
				add(p.Block)
			}
		}
	}
}

func (r *recordCheck) run() {
	work := []*Block{r.rec.Block}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		state := r.block(b)
		for i, e := range b.Term.Succs {
			s := state
			if cond := r.onEdge(Pred{b, i}); cond != 0 {
				s &= cond
			}
			if s == 0 || r.in[e.To]|s == r.in[e.To] || s&recordLive == 0 && !r.near[e.To] {
				continue
			}
			r.in[e.To] |= s
			work = append(work, e.To)
		}
	}
}

// onEdge returns the edge's effect on the record's state: a null test of it.
func (r *recordCheck) onEdge(p Pred) int {
	t := &p.Block.Term
	if t.Kind != Br || t.Arg.Op != OpICmp || t.Succs[0].To == t.Succs[1].To {
		return 0
	}
	x, y := t.Arg.Args[0], t.Arg.Args[1]
	if !(r.alias[x] && x.Type.Nullable && y.IsConst() || r.alias[y] && y.Type.Nullable && x.IsConst()) {
		return 0
	}
	if (t.Arg.Cond == EQ) == (p.Succ == 0) {
		return recordNull
	}
	return recordLive | recordGone
}

func (r *recordCheck) block(b *Block) int {
	state := r.in[b]
	for _, v := range b.Values {
		if v == r.rec {
			if state&recordLive != 0 {
				r.once(v, "the record of the iteration before may be neither submitted nor discarded")
			}
			state = recordLive | recordNull
			continue
		}
		state = r.use(v, state)
	}
	if b.Term.Kind == Ret && state&recordLive != 0 && !r.reported[b] {
		r.reported[b] = true
		r.atTerm(b, "the record reserved by %s may be neither submitted nor discarded here", r.rec.Text())
	}
	return state
}

func (r *recordCheck) use(v *Value, state int) int {
	if state == 0 || v.Op == OpICmp || v.Op == OpNonNull || v.Op == OpAdd || v.Op == OpSub {
		return state // not an access
	}
	if !slices.ContainsFunc(v.Args, func(a *Value) bool { return r.alias[a] }) {
		return state
	}
	if state&recordGone != 0 {
		r.once(v, "the record reserved by %s may be released here", r.rec.Text())
	}
	if v.Op == OpCall && (v.Sym == "ringbuf_submit" || v.Sym == "ringbuf_discard") {
		return recordGone
	}
	return state
}

func (r *recordCheck) once(v *Value, format string, args ...any) {
	if !r.reported[v] {
		r.reported[v] = true
		r.at(v, format, args...)
	}
}
