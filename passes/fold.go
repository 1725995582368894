// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"math"
	"math/bits"

	"btc/ir"
)

// fold is constant folding and strength reduction (peephole optimization): it computes constants,
// applies algebraic identities, replaces costly ops by cheaper ones and moves constant offsets
// into memory accesses.
//
// requires:    -
// establishes: the constant operand of a commutative op or icmp is the second;
// no sub of a constant; no op whose operands are all constants
// invalidates: use counts, ranges (no block or edge changes)
//
//	v1:i64 = mul 8, v0
//	v2:i64 = add v1, 0
//	v3:i64 = umod v2, 64
//	v4:mapval(@x) = add v9, 8
//	v5:i64 = load.u64 [v4+4]
//	->
//	v1:i64 = shl v0, 3
//	v3:i64 = and v1, 63
//	v4:mapval(@x) = add v9, 8
//	v5:i64 = load.u64 [v9+12]
func fold(m *ir.Module) []ir.Diag {
	m.EachFunc(func(_ int, f *ir.Func) { foldFunc(f) })
	return nil
}

// foldFunc repeats until nothing changes: a replacement may expose another one earlier in
// the order, along a back edge.
func foldFunc(f *ir.Func) {
	for {
		fo := &folder{subst: ir.Subst{}}
		for _, b := range ir.ReversePostorder(f) {
			fo.block(b)
		}
		fo.subst.Apply(f)
		if !fo.changed {
			dropSigns(f)
			return
		}
	}
}

// dropSigns removes the sign extension of loads whose only uses are stores of no more
// bytes.
func dropSigns(f *ir.Func) {
	extended := map[*ir.Value]bool{}
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			if v.Op == ir.OpLoad && v.Mem.Signed() && v.Type == ir.TI64 {
				extended[v] = false
			}
		}
	}
	if len(extended) == 0 {
		return
	}
	use := func(x *ir.Value) {
		if _, ok := extended[x]; ok {
			extended[x] = true
		}
	}
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			for i, x := range v.Args {
				if v.Op != ir.OpStore || i != 1 || v.Mem.Size() > x.Mem.Size() {
					use(x)
				}
			}
		}
		b.Term.Uses(func(x **ir.Value) { use(*x) })
	}
	for v, needed := range extended {
		if !needed {
			v.Mem = ir.MemKindOf(v.Mem.Size(), false)
		}
	}
}

type folder struct {
	subst   ir.Subst
	changed bool
}

func (fo *folder) block(b *ir.Block) {
	keep := b.Values[:0]
	for _, v := range b.Values {
		for i, a := range v.Args {
			v.Args[i] = fo.subst.Of(a)
		}
		if w := fo.value(v); w != nil && w != v {
			fo.subst[v] = w
			fo.changed = true
			v.Block = nil
			continue
		}
		keep = append(keep, v)
	}
	b.Values = keep
}

// value runs the rules of v's op until no rule applies.
func (fo *folder) value(v *ir.Value) *ir.Value {
	before := fo.changed
	defer func() { fo.changed = fo.changed || before }()
	for {
		fo.changed = false
		if w := foldOnce(fo, v); w != nil || !fo.changed {
			return w
		}
		before = true
	}
}

// foldOnce returns the replacement of v, or nil when v stays or was changed in place.
func foldOnce(fo *folder, v *ir.Value) *ir.Value {
	if n, ok := computed(v, constArg); ok {
		return constOf(v.Type, n)
	}
	switch v.Op {
	case ir.OpAdd,
		ir.OpSub,
		ir.OpMul,
		ir.OpUDiv,
		ir.OpUMod,
		ir.OpAnd,
		ir.OpOr,
		ir.OpXor,
		ir.OpShl,
		ir.OpLShr,
		ir.OpAShr:
		return foldBinary(fo, v)
	case ir.OpZext, ir.OpSext, ir.OpBswap:
		return foldUnary(v)
	case ir.OpICmp:
		return foldICmp(fo, v)
	case ir.OpSelect:
		return foldSelect(fo, v)
	case ir.OpCast:
		return foldCast(fo, v)
	case ir.OpNonNull:
		if x := v.Args[0]; !x.Type.Nullable {
			return x
		}
	case ir.OpLoad, ir.OpStore, ir.OpAtomicAdd, ir.OpRead:
		foldAddress(fo, v)
		if v.Op == ir.OpStore {
			foldStored(fo, v)
		}
	}
	return nil
}

// touch records that v changed in place.
func (fo *folder) touch() { fo.changed = true }

// become turns v into another op with the given arguments, in place.
func (fo *folder) become(v *ir.Value, op ir.Op, args ...*ir.Value) *ir.Value {
	v.Op, v.Args = op, args
	fo.touch()
	return nil
}

// constArg returns the i-th operand of v if it is a constant.
func constArg(v *ir.Value, i int) (n int64, known bool) {
	return v.Args[i].Imm, v.Args[i].IsConst()
}

// computed returns the result of v for the operands that arg knows.
func computed(v *ir.Value, arg func(v *ir.Value, i int) (n int64, known bool)) (n int64, known bool) {
	switch v.Op {
	case ir.OpAdd,
		ir.OpSub,
		ir.OpMul,
		ir.OpUDiv,
		ir.OpUMod,
		ir.OpAnd,
		ir.OpOr,
		ir.OpXor,
		ir.OpShl,
		ir.OpLShr,
		ir.OpAShr,
		ir.OpICmp:
		x, ok := arg(v, 0)
		y, too := arg(v, 1)
		switch {
		case !ok || !too || v.Type.IsPtr():
			return 0, false
		case v.Op != ir.OpICmp:
			return ir.EvalBinary(v.Op, x, y), true
		case v.Cond.Eval(x, y):
			return 1, true
		}
		return 0, true
	case ir.OpZext, ir.OpSext, ir.OpBswap:
		if x, ok := arg(v, 0); ok {
			return ir.EvalUnary(v.Op, v.Mem, x), true
		}
	case ir.OpBoolInt:
		return arg(v, 0)
	case ir.OpCast:
		if !v.Type.IsPtr() {
			return arg(v, 0)
		}
	case ir.OpSelect:
		if c, ok := arg(v, 0); ok {
			return arg(v, 2-int(c&1))
		}
	}
	return 0, false
}

func constOf(t ir.Type, n int64) *ir.Value {
	c := ir.Const(n)
	c.Type = t
	return c
}

func foldBinary(fo *folder, v *ir.Value) *ir.Value {
	x, y := v.Args[0], v.Args[1]
	if x.IsConst() && v.Op.Is(ir.Commutes) && y.Type == x.Type {
		return fo.become(v, v.Op, y, x)
	}
	if x == y && x.ID >= 0 {
		switch v.Op {
		case ir.OpSub, ir.OpXor:
			return constOf(v.Type, 0)
		case ir.OpAnd, ir.OpOr:
			return x
		}
	}
	if x.IsConst() && x.Imm == 0 && v.Type == ir.TI64 {
		switch v.Op {
		case ir.OpShl, ir.OpLShr, ir.OpAShr, ir.OpUDiv, ir.OpUMod:
			return ir.Const(0)
		}
	}
	if y.IsConst() {
		if w := foldByConst(fo, v, x, y.Imm); w != nil {
			return w
		}
		if v.Op != ir.OpSub {
			foldChain(fo, v)
		}
	}
	return nil
}

// foldByConst folds x op n.
func foldByConst(fo *folder, v, x *ir.Value, n int64) *ir.Value {
	power := n > 0 && n&(n-1) == 0
	log := int64(bits.TrailingZeros64(uint64(n)))
	switch v.Op {
	case ir.OpAdd:
		if n == 0 {
			return x
		}
		if x.Op == ir.OpSlotAddr {
			return ir.SlotAddr(x.Slot, int(x.Imm+n))
		}
	case ir.OpSub:
		return fo.become(v, ir.OpAdd, x, ir.Const(-n))
	case ir.OpMul:
		switch {
		case n == 0:
			return ir.Const(0)
		case n == 1:
			return x
		case power:
			return fo.become(v, ir.OpShl, x, ir.Const(log))
		}
	case ir.OpUDiv:
		switch {
		case n == 0:
			return ir.Const(0)
		case n == 1:
			return x
		case power:
			return fo.become(v, ir.OpLShr, x, ir.Const(log))
		}
	case ir.OpUMod:
		switch {
		case n == 0:
			return x
		case n == 1:
			return ir.Const(0)
		case power:
			return fo.become(v, ir.OpAnd, x, ir.Const(n-1))
		}
	case ir.OpAnd:
		switch {
		case n == 0:
			return ir.Const(0)
		case n == -1, keepsAll(x, uint64(n)):
			return x
		}
	case ir.OpOr:
		switch n {
		case 0:
			return x
		case -1:
			return ir.Const(-1)
		}
	case ir.OpXor:
		if n == 0 {
			return x
		}
	case ir.OpShl, ir.OpLShr, ir.OpAShr:
		if n&63 == 0 {
			return x
		}
		if n != n&63 {
			return fo.become(v, v.Op, x, ir.Const(n&63))
		}
	}
	return nil
}

// foldChain folds (x op n) op k for constants n and k.
func foldChain(fo *folder, v *ir.Value) {
	x, k := v.Args[0], v.Args[1].Imm
	if x.Op != v.Op || len(x.Args) != 2 || !x.Args[1].IsConst() || x.Type != v.Type {
		return
	}
	n := x.Args[1].Imm
	switch v.Op {
	case ir.OpAdd, ir.OpAnd, ir.OpOr, ir.OpXor, ir.OpMul:
		fo.become(v, v.Op, x.Args[0], ir.Const(ir.EvalBinary(v.Op, n, k)))
	case ir.OpShl, ir.OpLShr:
		if n&63+k&63 < 64 {
			fo.become(v, v.Op, x.Args[0], ir.Const(n&63+k&63))
		}
	}
}

// maxOf returns the largest unsigned result that the definition of v allows.
func maxOf(v *ir.Value) uint64 {
	width := func(k ir.MemKind) uint64 {
		if k.Signed() || k.Size() == 0 || k.Size() == 8 {
			return math.MaxUint64
		}
		return 1<<(8*k.Size()) - 1
	}
	switch v.Op {
	case ir.OpConst:
		return uint64(v.Imm)
	case ir.OpLoad, ir.OpRead, ir.OpGlobal, ir.OpZext, ir.OpBswap:
		return width(v.Mem)
	case ir.OpBoolInt:
		return 1
	case ir.OpAnd:
		return min(maxOf(v.Args[0]), maxOf(v.Args[1]))
	case ir.OpLShr:
		if v.Args[1].IsConst() {
			return math.MaxUint64 >> (uint64(v.Args[1].Imm) & 63)
		}
	}
	return math.MaxUint64
}

// keepsAll reports whether the mask leaves every possible value of x unchanged.
func keepsAll(x *ir.Value, mask uint64) bool {
	return mask&(mask+1) == 0 && maxOf(x) <= mask
}

func foldUnary(v *ir.Value) *ir.Value {
	x := v.Args[0]
	switch {
	case v.Op == ir.OpZext && maxOf(x) <= 1<<(8*v.Mem.Size())-1:
		return x
	case v.Op == ir.OpSext && (x.Op == ir.OpSext || x.Op == ir.OpLoad) && x.Mem.Signed() && x.Mem.Size() <= v.Mem.Size():
		return x
	case v.Op == ir.OpSext && maxOf(x) <= 1<<(8*v.Mem.Size()-1)-1:
		return x
	}
	return nil
}

func foldICmp(fo *folder, v *ir.Value) *ir.Value {
	x, y := v.Args[0], v.Args[1]
	switch {
	case x.IsConst():
		v.Cond = v.Cond.Swap()
		return fo.become(v, ir.OpICmp, y, x)
	case x == y && x.ID >= 0:
		return ir.Bool(v.Cond.Eval(0, 0))
	case !y.IsConst():
		return nil
	case neverNull(x.Type) && y.Imm == 0:
		return ir.Bool(v.Cond == ir.NE)
	}
	if w, done := foldTruthTest(fo, v, x, y.Imm); done {
		return w
	}
	return foldBound(fo, v, x, y.Imm)
}

// neverNull reports whether a pointer of the type needs no test. A trusted kernel pointer
// may be null regardless of its type says.
func neverNull(t ir.Type) bool { return t.IsPtr() && !t.Nullable && t.Kind != ir.BTF }

// foldTruthTest folds a comparison of a truth value, or of one as an integer, with a constant.
func foldTruthTest(fo *folder, v, x *ir.Value, n int64) (w *ir.Value, done bool) {
	if v.Cond != ir.EQ && v.Cond != ir.NE {
		return nil, false
	}
	b := x
	switch {
	case x.Op == ir.OpBoolInt:
		b = x.Args[0]
		if n != 0 && n != 1 {
			return ir.Bool(v.Cond == ir.NE), true
		}
	case x.Type != ir.TI1:
		return nil, false
	}
	if (v.Cond == ir.EQ) == (n != 0) {
		return b, true
	}
	if b.Op == ir.OpICmp { // not b
		v.Cond = b.Cond.Negate()
		return fo.become(v, ir.OpICmp, b.Args[0], b.Args[1]), true
	}
	if b != x {
		v.Cond = ir.EQ
		return fo.become(v, ir.OpICmp, b, ir.Bool(false)), true
	}
	return nil, true
}

// foldBound folds a comparison with the least or greatest number, and the forms of a test for 0.
func foldBound(fo *folder, v, x *ir.Value, n int64) *ir.Value {
	set := func(c ir.Cond) *ir.Value {
		v.Cond = c
		return fo.become(v, ir.OpICmp, x, constOf(v.Args[1].Type, 0))
	}
	switch {
	case v.Cond == ir.ULT && n == 0:
		return ir.Bool(false)
	case v.Cond == ir.UGE && n == 0:
		return ir.Bool(true)
	case v.Cond == ir.ULE && n == -1:
		return ir.Bool(true)
	case v.Cond == ir.UGT && n == -1:
		return ir.Bool(false)
	case v.Cond == ir.ULT && n == 1, v.Cond == ir.ULE && n == 0:
		return set(ir.EQ)
	case v.Cond == ir.UGE && n == 1, v.Cond == ir.UGT && n == 0:
		return set(ir.NE)
	}
	return nil
}

func foldSelect(fo *folder, v *ir.Value) *ir.Value {
	c, x, y := v.Args[0], v.Args[1], v.Args[2]
	switch {
	case c.IsConst() && c.Imm == 1, sameOperand(x, y):
		return x
	case c.IsConst():
		return y
	case !x.IsConst() || !y.IsConst():
		return nil
	case v.Type == ir.TI1 && x.Imm == 1:
		return c
	case v.Type == ir.TI1:
		v.Cond = ir.EQ
		return fo.become(v, ir.OpICmp, c, ir.Bool(false))
	case v.Type == ir.TI64 && x.Imm == 1 && y.Imm == 0:
		return fo.become(v, ir.OpBoolInt, c)
	}
	return nil
}

// sameOperand reports whether two operands are one value or equal constants.
func sameOperand(x, y *ir.Value) bool {
	return x == y ||
		x.ID < 0 && y.ID < 0 && x.Op == y.Op && x.Type == y.Type && x.Imm == y.Imm && x.Slot == y.Slot && x.Sym == y.Sym
}

func foldCast(fo *folder, v *ir.Value) *ir.Value {
	x := v.Args[0]
	switch {
	case x.Type == v.Type:
		return x
	case x.Op == ir.OpCast:
		return fo.become(v, ir.OpCast, x.Args[0])
	}
	return nil
}

// maxOffset bounds the offset of a memory instruction: 16 bits, with room for a
// relocated field.
const maxOffset = 1 << 14

// foldAddress moves constants from the address into the access.
func foldAddress(fo *folder, v *ir.Value) {
	p := v.Args[0]
	switch {
	case p.Op == ir.OpAdd && p.Args[1].IsConst():
		if n := v.Imm + p.Args[1].Imm; n > -maxOffset && n < maxOffset {
			v.Args[0], v.Imm = p.Args[0], n
			fo.touch()
		}
	case p.Op == ir.OpSlotAddr && v.Imm != 0:
		v.Args[0], v.Imm = ir.SlotAddr(p.Slot, int(p.Imm+v.Imm)), 0
		fo.touch()
	}
}

// foldStored drops ops that change only bits that the store does not write.
func foldStored(fo *folder, v *ir.Value) {
	x := v.Args[1]
	n := v.Mem.Size()
	wide := false
	switch x.Op {
	case ir.OpZext, ir.OpSext:
		wide = x.Mem.Size() >= n
	case ir.OpAnd:
		mask := int64(-1)
		if n < 8 {
			mask = 1<<(8*n) - 1
		}
		wide = x.Args[1].IsConst() && x.Args[1].Imm&mask == mask
	}
	if wide {
		v.Args[1] = x.Args[0]
		fo.touch()
	}
}
