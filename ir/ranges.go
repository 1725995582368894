// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Range is what is known of an integer: the bounds of its 64 bits read as
// unsigned and as signed, both inclusive, like the kernel verifier's.
type Range struct {
	UMin, UMax uint64
	SMin, SMax int64
}

// FullRange is every number.
var FullRange = Range{0, math.MaxUint64, math.MinInt64, math.MaxInt64}

// noRange is empty.
var noRange = Range{UMin: 1}

// RangeOf returns the range of the single number n.
func RangeOf(n int64) Range { return Range{uint64(n), uint64(n), n, n} }

// URange returns the range lo..hi of unsigned numbers.
func URange(lo, hi uint64) Range {
	r := FullRange
	r.UMin, r.UMax = lo, hi
	return r.sync()
}

// SRange returns the range lo..hi of signed numbers.
func SRange(lo, hi int64) Range {
	r := FullRange
	r.SMin, r.SMax = lo, hi
	return r.sync()
}

// Const reports whether the range is one number, and which.
func (r Range) Const() (int64, bool) { return r.SMin, r.SMin == r.SMax && !r.Empty() }

// Empty reports whether no number is in the range: the code is unreachable.
func (r Range) Empty() bool { return r.UMin > r.UMax || r.SMin > r.SMax }

func (r Range) String() string {
	return fmt.Sprintf("u[%d, %d] s[%d, %d]", r.UMin, r.UMax, r.SMin, r.SMax)
}

// sync tightens the unsigned bounds by the signed ones and vice versa.
func (r Range) sync() Range {
	for range 2 {
		if int64(r.UMin) <= int64(r.UMax) { // does not cross the sign
			r.SMin, r.SMax = max(r.SMin, int64(r.UMin)), min(r.SMax, int64(r.UMax))
		}
		if uint64(r.SMin) <= uint64(r.SMax) {
			r.UMin, r.UMax = max(r.UMin, uint64(r.SMin)), min(r.UMax, uint64(r.SMax))
		}
	}
	return r
}

// Join returns the smallest range that holds both.
func (r Range) Join(q Range) Range {
	switch {
	case r.Empty():
		return q
	case q.Empty():
		return r
	}
	return Range{min(r.UMin, q.UMin), max(r.UMax, q.UMax), min(r.SMin, q.SMin), max(r.SMax, q.SMax)}
}

// Meet returns the intersection; it may be empty.
func (r Range) Meet(q Range) Range {
	return Range{max(r.UMin, q.UMin), min(r.UMax, q.UMax), max(r.SMin, q.SMin), min(r.SMax, q.SMax)}.sync()
}

// Decide returns the result of the comparison r c q if it is the same for all numbers of
// both ranges.
func (c Cond) Decide(r, q Range) (result, known bool) {
	if r.Empty() || q.Empty() {
		return false, false
	}
	switch c {
	case EQ:
		x, xc := r.Const()
		y, yc := q.Const()
		switch {
		case xc && yc && x == y:
			return true, true
		case r.UMax < q.UMin || q.UMax < r.UMin || r.SMax < q.SMin || q.SMax < r.SMin:
			return false, true
		}
		return false, false
	case ULT:
		return r.UMax < q.UMin, r.UMax < q.UMin || r.UMin >= q.UMax
	case ULE:
		return r.UMax <= q.UMin, r.UMax <= q.UMin || r.UMin > q.UMax
	case SLT:
		return r.SMax < q.SMin, r.SMax < q.SMin || r.SMin >= q.SMax
	case SLE:
		return r.SMax <= q.SMin, r.SMax <= q.SMin || r.SMin > q.SMax
	}
	result, known = c.Negate().Decide(r, q) // NE, UGT, UGE, SGT, SGE
	return !result && known, known
}

// Refine returns r restricted to the numbers for which r c q holds.
func (c Cond) Refine(r, q Range) Range {
	if q.Empty() {
		return r
	}
	k := FullRange
	switch c {
	case EQ:
		k = q
	case NE:
		return r.without(q)
	case ULT:
		if q.UMax == 0 {
			return noRange
		}
		k.UMax = q.UMax - 1
	case ULE:
		k.UMax = q.UMax
	case UGT:
		if q.UMin == math.MaxUint64 {
			return noRange
		}
		k.UMin = q.UMin + 1
	case UGE:
		k.UMin = q.UMin
	case SLT:
		if q.SMax == math.MinInt64 {
			return noRange
		}
		k.SMax = q.SMax - 1
	case SLE:
		k.SMax = q.SMax
	case SGT:
		if q.SMin == math.MaxInt64 {
			return noRange
		}
		k.SMin = q.SMin + 1
	case SGE:
		k.SMin = q.SMin
	}
	return r.Meet(k)
}

// without removes a number that is at either end.
func (r Range) without(q Range) Range {
	n, ok := q.Const()
	if !ok {
		return r
	}
	if x, one := r.Const(); one && x == n {
		return noRange
	}
	if r.UMin == uint64(n) {
		r.UMin++
	}
	if r.UMax == uint64(n) {
		r.UMax--
	}
	if r.SMin == n {
		r.SMin++
	}
	if r.SMax == n {
		r.SMax--
	}
	return r.sync()
}

// Ranges is an analysis of a function's integers, and of pointers that are not null. It
// knows no more than the kernel verifier does on 5.10, so that a check which it proves
// superfluous is superfluous for the kernel too. It computes and caches results on demand:
// any change of the function invalidates them.
type Ranges struct {
	dom   *DomTree
	preds [][]Pred
	known []Range
	state []int32 // by Value.ID: 0 unknown, 1 being computed, otherwise the index in known plus 2
	// narrow are the blocks with a single predecessor that branches on a condition on the
	// value; dominators first.
	narrow map[*Value][]*Block
	// parts refines x by a bound of x | y, if x is a counter with a constant step. The
	// kernel does not infer it, but verifies a loop with such an exit at each number that x
	// takes.
	parts bool
}

// NewRanges prepares the analysis; d is f's dominator tree.
func NewRanges(f *Func, d *DomTree) *Ranges {
	rs := &Ranges{dom: d, preds: Preds(f), state: make([]int32, f.nextValue), narrow: map[*Value][]*Block{}}
	for _, b := range d.Order {
		p, ok := rs.entry(b)
		if !ok || p.Block.Term.Kind != Br {
			continue
		}
		cond := p.Block.Term.Arg
		rs.speaks(cond, b)
		if cond.Op == OpICmp {
			for _, v := range cond.Args {
				rs.speaks(v, b)
				if v.Op == OpOr {
					rs.speaks(v.Args[0], b)
					rs.speaks(v.Args[1], b)
				}
			}
		}
	}
	return rs
}

func (rs *Ranges) speaks(v *Value, b *Block) {
	if v.IsConst() || v.ID < 0 {
		return
	}
	if all := rs.narrow[v]; len(all) == 0 || all[len(all)-1] != b {
		rs.narrow[v] = append(all, b)
	}
}

// maxNarrow is how many of the nearest branches count: a chain of "else if" has thousands,
// each of which excludes a single number.
const maxNarrow = 128

// At returns the range of v in block b: that of its definition, narrowed by the branches that
// dominate b.
func (rs *Ranges) At(v *Value, b *Block) Range {
	r := rs.Def(v)
	if v.IsConst() || v.ID < 0 {
		return r
	}
	all := rs.narrow[v]
	for i, most := len(all)-1, maxNarrow; i >= 0 && most > 0; i-- {
		if p, ok := rs.entry(all[i]); ok && rs.dom.Dominates(all[i], b) {
			r = rs.edge(r, v, p)
			most--
		}
	}
	return r
}

// OnEdge returns the range of v when the edge is taken.
func (rs *Ranges) OnEdge(v *Value, p Pred) Range { return rs.edge(rs.At(v, p.Block), v, p) }

// entry returns the only edge into b, if there is just one.
func (rs *Ranges) entry(b *Block) (Pred, bool) {
	if ps := rs.preds[b.ID]; len(ps) == 1 {
		return ps[0], true
	}
	return Pred{}, false
}

// edge narrows r, the range of v, by the condition of a branch.
func (rs *Ranges) edge(r Range, v *Value, p Pred) Range {
	t := &p.Block.Term
	if t.Kind != Br || t.Succs[0].To == t.Succs[1].To {
		return r
	}
	if t.Arg == v {
		return r.Meet(RangeOf(int64(1 - p.Succ)))
	}
	if t.Arg.Op != OpICmp {
		return r
	}
	c, x, y := t.Arg.Cond, t.Arg.Args[0], t.Arg.Args[1]
	if p.Succ == 1 {
		c = c.Negate()
	}
	// Only a comparison with a constant counts: before 6.8 the kernel verifier
	// learns nothing from comparing two unknown numbers.
	if x == v && y.IsConst() {
		r = c.Refine(r, RangeOf(y.Imm))
	}
	if y == v && x.IsConst() {
		r = c.Swap().Refine(r, RangeOf(x.Imm))
	}
	if rs.parts && x.Op == OpOr && y.IsConst() && (c == ULT || c == ULE) && (x.Args[0] == v || x.Args[1] == v) {
		r = c.Refine(r, RangeOf(y.Imm)) // neither operand is larger than the result
		r = ULE.Refine(r, RangeOf(int64(r.UMax-r.UMax%rs.step(v))))
	}
	return r
}

// step returns a power of two that divides all values of v: the step of a loop's counter.
func (rs *Ranges) step(v *Value) uint64 {
	if v.Op != OpParam || v.Block == v.Block.Func.Entry() {
		return 1
	}
	all := uint64(1) << 32
	for _, p := range rs.preds[v.Block.ID] {
		a := p.Edge().Args[slices.Index(v.Block.Params, v)]
		if a.Op == OpAdd && a.Args[0] == v {
			a = a.Args[1]
		}
		if !a.IsConst() {
			return 1
		}
		all |= uint64(a.Imm)
	}
	return all & -all
}

// Def returns the range of v wherever it is defined.
func (rs *Ranges) Def(v *Value) Range {
	if v.Op == OpConst {
		return RangeOf(v.Imm)
	}
	if v.ID < 0 || rs.state[v.ID] == 1 {
		return FullRange
	}
	if at := rs.state[v.ID]; at >= 2 {
		return rs.known[at-2]
	}
	rs.state[v.ID] = 1
	r := FullRange
	if v.Op == OpParam {
		r = rs.param(v)
	} else if v.Block != nil && rs.dom.Reachable(v.Block) {
		r = rs.transfer(v)
	}
	if v.Type == TI1 {
		r = r.Meet(URange(0, 1))
	}
	rs.known = append(rs.known, r)
	rs.state[v.ID] = int32(len(rs.known) + 1)
	return r
}

func (rs *Ranges) param(v *Value) Range {
	b := v.Block
	if b == b.Func.Entry() {
		return FullRange
	}
	i := 0
	for b.Params[i] != v {
		i++
	}
	r := noRange
	for _, p := range rs.preds[b.ID] {
		if rs.dom.Reachable(p.Block) {
			r = r.Join(rs.OnEdge(p.Edge().Args[i], p))
		}
	}
	return r
}

func (rs *Ranges) arg(v *Value, i int) Range { return rs.At(v.Args[i], v.Block) }

func (rs *Ranges) transfer(v *Value) Range {
	switch v.Op {
	case OpAdd, OpSub, OpMul, OpUDiv, OpUMod, OpAnd, OpOr, OpXor, OpShl, OpLShr, OpAShr:
		if v.Type != TI64 {
			return FullRange
		}
		return BinaryRange(v.Op, rs.arg(v, 0), rs.arg(v, 1))
	case OpBswap:
		return memRange(v.Mem)
	case OpZext, OpSext:
		if x := rs.arg(v, 0); fits(x, v.Mem) {
			return x
		}
		return memRange(v.Mem)
	case OpLoad, OpRead, OpGlobal:
		return memRange(v.Mem)
	case OpPerArch:
		return perArchRange(v.Sym)
	case OpRangeCut:
		if begin := v.Args[0]; begin.Op == OpRangeIter && rs.At(begin.Args[0], begin.Block).UMax <= FewTrips {
			return RangeOf(0)
		}
	case OpBoolInt, OpCast:
		return rs.arg(v, 0)
	case OpSelect:
		if c := v.Args[0]; c.IsConst() {
			return rs.arg(v, int(2-c.Imm&1))
		}
		return rs.selected(v, 1).Join(rs.selected(v, 2))
	case OpICmp:
		if a, ok := v.Cond.Decide(rs.arg(v, 0), rs.arg(v, 1)); ok {
			if a {
				return RangeOf(1)
			}
			return RangeOf(0)
		}
		return URange(0, 1)
	case OpPid, OpTid, OpUid, OpGid: // not cpu and rand, nor calls: the kernel knows nothing of helpers' results
		return memRange(U32)
	case OpStr, OpStrCopy:
		return URange(0, uint64(max(v.Imm, 0)))
	}
	return FullRange
}

// selected returns the range of argument i of a select when it is chosen: the condition narrows
// it, as that of the resulting branch does.
func (rs *Ranges) selected(v *Value, i int) Range {
	r, c := rs.arg(v, i), v.Args[0]
	if c.Op != OpICmp || v.Args[i].IsConst() {
		return r
	}
	cond := c.Cond
	if i == 2 {
		cond = cond.Negate()
	}
	if c.Args[0] == v.Args[i] {
		r = cond.Refine(r, rs.Def(c.Args[1]))
	}
	if c.Args[1] == v.Args[i] {
		r = cond.Swap().Refine(r, rs.Def(c.Args[0]))
	}
	return r
}

// memRange returns the range of loads of kind k.
func memRange(k MemKind) Range {
	if k == MemNone || k.Size() == 8 {
		return FullRange
	}
	n := uint(8 * k.Size())
	if k.Signed() {
		return SRange(-1<<(n-1), 1<<(n-1)-1)
	}
	return URange(0, 1<<n-1)
}

// fits reports whether every number of r is kept by an extension of kind k.
func fits(r Range, k MemKind) bool {
	m := memRange(k)
	return !r.Empty() && r.SMin >= m.SMin && r.SMax <= m.SMax && r.UMin >= m.UMin && r.UMax <= m.UMax
}

// BinaryRange knows nothing of quotients and remainders, like the kernel verifier.
func BinaryRange(op Op, x, y Range) Range {
	if x.Empty() || y.Empty() {
		return noRange
	}
	if op == OpUDiv || op == OpUMod {
		return FullRange // also of two known numbers
	}
	a, ac := x.Const()
	b, bc := y.Const()
	if ac && bc {
		return RangeOf(EvalBinary(op, a, b))
	}
	switch op {
	case OpAdd:
		return addRange(x, y)
	case OpSub:
		return subRange(x, y)
	case OpMul:
		if x.UMax <= math.MaxUint32 && y.UMax <= math.MaxUint32 { // for larger factors kernels before 6.14 know nothing
			return URange(x.UMin*y.UMin, x.UMax*y.UMax)
		}
	case OpAnd:
		return URange(0, min(x.UMax, y.UMax))
	case OpOr:
		return URange(max(x.UMin, y.UMin), ones(x.UMax|y.UMax))
	case OpXor:
		return URange(0, ones(x.UMax|y.UMax))
	case OpShl:
		if bc && x.UMax <= 1<<(63-uint64(b)&63) {
			return URange(x.UMin<<(uint64(b)&63), x.UMax<<(uint64(b)&63))
		}
	case OpLShr:
		if bc {
			return URange(x.UMin>>(uint64(b)&63), x.UMax>>(uint64(b)&63))
		}
		// Since 6.8 the kernel knows nothing of a shift by an unknown number.
	case OpAShr:
		if bc {
			return SRange(x.SMin>>(uint64(b)&63), x.SMax>>(uint64(b)&63))
		}
	}
	return FullRange
}

func addRange(x, y Range) Range {
	r := FullRange
	lo, c1 := bits.Add64(x.UMin, y.UMin, 0)
	hi, c2 := bits.Add64(x.UMax, y.UMax, 0)
	if c1 == c2 { // both wrap or neither
		r.UMin, r.UMax = lo, hi
	}
	if s, t := x.SMin+y.SMin, x.SMax+y.SMax; !addOverflows(x.SMin, y.SMin, s) && !addOverflows(x.SMax, y.SMax, t) {
		r.SMin, r.SMax = s, t
	}
	return r.sync()
}

func addOverflows(a, b, sum int64) bool { return (a >= 0) == (b >= 0) && (sum >= 0) != (a >= 0) }

func subRange(x, y Range) Range {
	r := FullRange
	lo, b1 := bits.Sub64(x.UMin, y.UMax, 0)
	hi, b2 := bits.Sub64(x.UMax, y.UMin, 0)
	if b1 == b2 {
		r.UMin, r.UMax = lo, hi
	}
	s, t := x.SMin-y.SMax, x.SMax-y.SMin
	if !subOverflows(x.SMin, y.SMax, s) && !subOverflows(x.SMax, y.SMin, t) {
		r.SMin, r.SMax = s, t
	}
	return r.sync()
}

func subOverflows(a, b, diff int64) bool { return (a >= 0) != (b >= 0) && (diff >= 0) != (a >= 0) }

// ones returns the smallest 2^n-1 that is at least n.
func ones(n uint64) uint64 {
	if n == 0 {
		return 0
	}
	return math.MaxUint64 >> bits.LeadingZeros64(n)
}
