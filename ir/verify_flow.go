package ir

import (
	"fmt"
	"slices"

	"btc/ir/target"
)

// slotBytes has a bit for each byte of a slot.
type slotBytes []uint64

func (s slotBytes) set(lo, hi int) {
	for i := max(lo, 0); i < hi && i < 64*len(s); i++ {
		s[i/64] |= 1 << (i % 64)
	}
}

// firstUnset is the first byte of lo..hi-1 that is not set, -1 for none.
func (s slotBytes) firstUnset(lo, hi int) int {
	for i := lo; i < hi; i++ {
		if i >= 0 && i < 64*len(s) && s[i/64]>>(i%64)&1 == 0 {
			return i
		}
	}
	return -1
}

// slotState is the initialised bytes of each slot, by place in Func.Slots.
type slotState []slotBytes

func (s slotState) clone() slotState {
	out := make(slotState, len(s))
	for i := range s {
		out[i] = slices.Clone(s[i])
	}
	return out
}

// meet keeps what both have and reports a change.
func (s slotState) meet(t slotState) bool {
	changed := false
	for i := range s {
		for j := range s[i] {
			if n := s[i][j] & t[i][j]; n != s[i][j] {
				s[i][j], changed = n, true
			}
		}
	}
	return changed
}

// slotCheck finds reads of slot bytes that may not have been written. Kernels
// before 6.3 refuse them; on later ones they would leak old stack bytes into
// keys and events. Slots in scratch memory are left out: the kernel sees a map
// value there.
type slotCheck struct {
	*checker
	index map[*Slot]int
	in    map[*Block]slotState
	quiet bool // before the states are final
}

func (c *checker) slotsInitialised() {
	if len(c.f.Slots) == 0 {
		return
	}
	s := &slotCheck{checker: c, index: map[*Slot]int{}, in: map[*Block]slotState{}, quiet: true}
	start := make(slotState, len(c.f.Slots))
	for i, slot := range c.f.Slots {
		s.index[slot] = i
		start[i] = make(slotBytes, (slot.Size+63)/64)
		if slot.Class == Scratch {
			start[i].set(0, slot.Size)
		}
	}
	s.in[c.f.Entry()] = start
	for changed := true; changed; {
		changed = false
		for _, b := range c.dom.Order {
			out := s.block(b)
			for _, e := range b.Term.Succs {
				if in := s.in[e.To]; in == nil {
					s.in[e.To], changed = out.clone(), true
				} else if in.meet(out) {
					changed = true
				}
			}
		}
	}
	s.quiet = false
	for _, b := range c.dom.Order {
		s.block(b)
	}
}

func (s *slotCheck) block(b *Block) slotState {
	state := s.in[b].clone()
	for _, v := range b.Values {
		if !s.quiet {
			s.reads(v, state)
		}
		s.writes(v, state)
	}
	b.Term.Uses(func(p **Value) { s.all(*p, b, state) })
	return state
}

// all counts the whole slot as written: its address goes where it is not followed.
func (s *slotCheck) all(p *Value, b *Block, state slotState) {
	if slot := s.ranges.Resolve(p, b).Slot; slot != nil {
		state[s.index[slot]].set(0, slot.Size)
	}
}

// wrote counts n bytes at p + off as written. A variable offset into a slot of
// unknown place counts for the whole slot: it will be scratch.
func (s *slotCheck) wrote(v, p *Value, off, n int, state slotState) {
	ptr := s.ranges.Resolve(p, v.Block)
	if ptr.Slot == nil {
		return
	}
	at, fixed := ptr.Fixed()
	switch {
	case fixed:
		state[s.index[ptr.Slot]].set(at+off, at+off+n)
	case ptr.Slot.Class == Unplaced:
		state[s.index[ptr.Slot]].set(0, ptr.Slot.Size)
	}
}

// read reports bytes that may not have been written.
func (s *slotCheck) read(v, p *Value, off, n int, what string, state slotState) {
	ptr := s.ranges.Resolve(p, v.Block)
	if ptr.Slot == nil {
		return
	}
	at, fixed := ptr.Fixed()
	if !fixed {
		return
	}
	if i := state[s.index[ptr.Slot]].firstUnset(at+off, at+off+n); i >= 0 {
		s.at(v, "%s: byte %d of slot %s may be uninitialised", what, i, ptr.Slot.text())
	}
}

func (s *slotCheck) writes(v *Value, state slotState) {
	switch v.Op {
	case OpStore:
		s.wrote(v, v.Args[0], int(v.Imm), v.Mem.Size(), state)
	case OpComm:
		s.wrote(v, v.Args[0], 0, 16, state)
	case OpReadMem, OpMemCopy, OpMemZero, OpStrLit, OpStr, OpStrCopy:
		s.wrote(v, v.Args[0], 0, int(v.Imm), state)
	case OpMapGetMem, OpElemGetMem:
		s.wrote(v, v.Args[1], 0, s.m.Map(v.Args[0].Sym).Value.MemSize(), state)
	case OpCallSub:
		for _, a := range v.Args {
			s.all(a, v.Block, state)
		}
	case OpCall:
		s.callWrites(v, state)
	}
}

func (s *slotCheck) callWrites(v *Value, state slotState) {
	h := target.HelperByName(v.Sym)
	for i, a := range v.Args {
		switch h.Args[i] {
		case target.ArgMemOut:
			// With a variable size the kernel takes only initialised stack memory
			// (check_mem_size_reg), so nothing is new to it then.
			_, fixed := s.ranges.At(v.Args[i+1], v.Block).Const()
			if ptr := s.ranges.Resolve(a, v.Block); fixed || ptr.Slot != nil && ptr.Slot.Class == Unplaced {
				s.wrote(v, a, 0, s.sizeOf(v, i+1), state)
			}
		case target.ArgStackOrNull, target.ArgAny:
			s.all(a, v.Block, state)
		}
	}
}

func (s *slotCheck) reads(v *Value, state slotState) {
	info := v.Op.Info()
	if kinds, _ := argKinds(info, len(v.Args)); len(kinds) > 0 && kinds[len(kinds)-1] == KeyArg {
		x := s.m.Map(v.Args[0].Sym)
		s.read(v, v.Args[len(v.Args)-1], 0, x.Key.MemSize(), "key of map "+x.Name, state)
	}
	switch v.Op {
	case OpLoad, OpAtomicAdd:
		s.read(v, v.Args[0], int(v.Imm), v.Mem.Size(), v.Op.String(), state)
	case OpMapSetMem:
		x := s.m.Map(v.Args[0].Sym)
		s.read(v, v.Args[1], 0, x.Value.MemSize(), "value of map "+x.Name, state)
	case OpMemEq:
		s.read(v, v.Args[0], 0, int(v.Imm), "comparison", state)
		s.read(v, v.Args[1], 0, int(v.Imm), "comparison", state)
	case OpCall:
		s.callReads(v, state)
	}
}

func (s *slotCheck) callReads(v *Value, state slotState) {
	h := target.HelperByName(v.Sym)
	for i, a := range v.Args {
		switch h.Args[i] {
		case target.ArgMapKey, target.ArgMapValue:
			if n, ok := s.mapArgSize(v, h, i); ok {
				s.read(v, a, 0, n, fmt.Sprintf("argument %d of %s", i+1, h.Name), state)
			}
		case target.ArgMem, target.ArgMemOrNull, target.ArgMemOut:
			_, fixed := s.ranges.At(v.Args[i+1], v.Block).Const()
			ptr := s.ranges.Resolve(a, v.Block)
			if ptr.Slot == nil || !fixed && ptr.Slot.Class == Unplaced || fixed && h.Args[i] == target.ArgMemOut {
				continue
			}
			s.read(v, a, 0, s.sizeOf(v, i+1), fmt.Sprintf("argument %d of %s", i+1, h.Name), state)
		}
	}
}

// Ring-buffer records: what may have become of one at a point.
const (
	recordLive = 1 << iota // reserved, must be submitted or discarded
	recordNull             // the reservation failed
	recordGone             // submitted or discarded
)

// recordsReleased checks that each record is submitted or discarded exactly
// once on every way, and not used after.
func (c *checker) recordsReleased() {
	for _, b := range c.dom.Order {
		for _, v := range b.Values {
			if v.Op == OpCall && v.Type.Kind == Ringbuf {
				r := &recordCheck{checker: c, rec: v, in: map[*Block]int{}, told: map[any]bool{}}
				r.aliases()
				r.run()
			}
		}
	}
}

type recordCheck struct {
	*checker
	rec   *Value
	alias ValueSet
	in    map[*Block]int
	told  map[any]bool
}

// aliases finds the values that may point into the record.
func (r *recordCheck) aliases() {
	r.alias = NewValueSet(r.f)
	r.alias.Add(r.rec)
	for n := 0; n != r.alias.Len(); {
		n = r.alias.Len()
		for _, b := range r.f.Blocks {
			for _, v := range b.Values {
				if (v.Op == OpNonNull || v.Op == OpAdd || v.Op == OpSub) && r.alias.Has(v.Args[0]) {
					r.alias.Add(v)
				}
			}
			for _, e := range b.Term.Succs {
				for i, a := range e.Args {
					if r.alias.Has(a) {
						r.alias.Add(e.To.Params[i])
					}
				}
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
			if s == 0 || r.in[e.To]|s == r.in[e.To] {
				continue
			}
			r.in[e.To] |= s
			work = append(work, e.To)
		}
	}
}

// onEdge is what the edge's condition says of the record: a null test of it.
func (r *recordCheck) onEdge(p Pred) int {
	t := &p.Block.Term
	if t.Kind != Br || t.Arg.Op != OpICmp || t.Succs[0].To == t.Succs[1].To {
		return 0
	}
	x, y := t.Arg.Args[0], t.Arg.Args[1]
	if !(r.alias.Has(x) && x.Type.Nullable && y.IsConst() || r.alias.Has(y) && y.Type.Nullable && x.IsConst()) {
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
	if b.Term.Kind == Ret && state&recordLive != 0 && !r.told[b] {
		r.told[b] = true
		r.atTerm(b, "the record reserved by %s may be neither submitted nor discarded here", r.rec.Text())
	}
	return state
}

func (r *recordCheck) use(v *Value, state int) int {
	for _, a := range v.Args {
		if !r.alias.Has(a) || state == 0 {
			continue
		}
		if v.Op == OpICmp || v.Op == OpNonNull || v.Op == OpAdd || v.Op == OpSub {
			continue // no access
		}
		if state&recordGone != 0 {
			r.once(v, "the record reserved by %s may be gone here", r.rec.Text())
		}
		if v.Op == OpCall && (v.Sym == "ringbuf_submit" || v.Sym == "ringbuf_discard") {
			return recordGone
		}
	}
	return state
}

func (r *recordCheck) once(v *Value, format string, args ...any) {
	if !r.told[v] {
		r.told[v] = true
		r.at(v, format, args...)
	}
}
