// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"math"
	"math/big"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/cdef"
	"btc/frontend/diag"
	"btc/frontend/types"
)

// truncate returns v as a value of an integer type.
func truncate(v int64, t *types.Type) int64 { return cdef.Truncate(v, t) }

// exact returns the mathematical value of a constant of type t.
func exact(c *Const, t *types.Type) *big.Int {
	if !t.Signed && c.Int < 0 {
		return new(big.Int).SetUint64(uint64(c.Int))
	}
	return big.NewInt(c.Int)
}

// setNumber replaces e by a literal with a computed value; false if it does not fit in 64 bits. A value that depends
// on the host has 64 bits, whatever the target's is.
func setNumber(e *Expr, v *big.Int, host bool) bool {
	switch {
	case v.Sign() >= 0 && v.IsUint64():
		e.Type = types.Literal(v.Uint64())
		e.Const = &Const{Int: int64(v.Uint64())}
	case v.IsInt64():
		e.Type = types.NegativeLiteral(v.Int64())
		e.Const = &Const{Int: v.Int64()}
	default:
		return false
	}
	e.Const.lit, e.Const.Host = true, host
	if host && e.Type.Signed {
		if e.Type = types.TInt64; v.Sign() >= 0 {
			e.Type = flexible(e.Type)
		}
	}
	return true
}

// flexible returns t as the type of a number that is not negative, which takes the sign of its peer.
func flexible(t *types.Type) *types.Type {
	f := *t
	f.Flexible = true
	return &f
}

func (b *body) foldUnary(x *ast.Unary, e *Expr) {
	in := b.out.Expr(x.X)
	c := in.Const
	if c == nil || c.IsStr {
		return
	}
	switch x.Op {
	case ast.Not:
		e.Const = boolConst(c.Int == 0)
		e.Const.Host, e.Const.lit = c.Host, c.lit
	case ast.BitNot:
		if c.lit {
			setNumber(e, new(big.Int).SetUint64(^uint64(c.Int)), c.Host)
			return
		}
		e.Const = &Const{Int: unsignedWidth(^c.Int, e), Host: c.Host}
	case ast.Neg:
		if !c.lit {
			e.Const = &Const{Int: unsignedWidth(-c.Int, e), Host: c.Host}
			return
		}
		if v := new(big.Int).Neg(exact(c, in.Type)); !setNumber(e, v, c.Host) {
			b.overflow(x, e)
		}
	}
}

// unsignedWidth truncates the result of the unary operator e to its Width.
func unsignedWidth(v int64, e *Expr) int64 {
	if e.Width > 0 {
		return truncate(v, types.MakeInt(e.Width, false))
	}
	return v
}

func (b *body) overflow(x ast.Node, e *Expr) {
	b.fail(diag.FoldOverflow, x, "unable to fold literals due to overflow or underflow")
	e.Type, e.Const = types.TInvalid, nil
}

// foldBinary computes an operation on constants. Literals are computed exactly,
// values of declared types as the program would.
func (b *body) foldBinary(x *ast.Binary, e *Expr) {
	l, r := b.out.Expr(x.X), b.out.Expr(x.Y)
	if l.Const == nil || r.Const == nil || e.Type.Kind == types.Pointer ||
		l.Type.Kind == types.Pointer || r.Type.Kind == types.Pointer {
		return
	}
	host, lit := l.Const.Host || r.Const.Host, l.Const.lit && r.Const.lit
	if l.Const.IsStr || r.Const.IsStr {
		if l.Const.IsStr && r.Const.IsStr && isComparison(x.Op) {
			e.Const = literalBool(ordered(x.Op, strings.Compare(untilNUL(l.Const.Str), untilNUL(r.Const.Str))))
		}
		return
	}
	defer func() {
		if e.Const != nil && e.Type.Kind == types.Bool {
			e.Const.lit = lit
		}
	}()
	switch {
	case (isComparison(x.Op) || x.Op == ast.LogAnd || x.Op == ast.LogOr) && l.isNumber() && r.isNumber() &&
		!sameWord(exact(l.Const, l.Type), exact(r.Const, r.Type)):
		b.overflow(x, e)
		return
	case x.Op == ast.LogAnd:
		e.Const = boolConst(l.Const.Int != 0 && r.Const.Int != 0)
	case x.Op == ast.LogOr:
		e.Const = boolConst(l.Const.Int != 0 || r.Const.Int != 0)
	case isComparison(x.Op):
		e.Const = boolConst(foldCompare(x.Op, l, r, e.Operands))
	case l.Type.Kind == types.Bool && r.Type.Kind == types.Bool:
		v, ok := foldBools(x.Op, l.Const.Int != 0, r.Const.Int != 0)
		if !ok { // true / false
			b.overflow(x, e)
			return
		}
		e.Const = boolConst(v)
	case l.isNumber() && r.isNumber():
		b.foldLiterals(x, e, exact(l.Const, l.Type), exact(r.Const, r.Type), host)
		return
	default:
		v, ok := foldTyped(x.Op, l.Const.Int, r.Const.Int)
		if !ok {
			return // a division by 0: the program warns at run time
		}
		e.Const = &Const{Int: v}
	}
	e.Const.Host = host
}

// sameWord reports whether both literals fit in an int64, or both in a uint64: bpftrace compares no others.
func sameWord(l, r *big.Int) bool {
	return l.Sign() >= 0 && r.Sign() >= 0 || l.IsInt64() && r.IsInt64()
}

func untilNUL(s string) string {
	for i := range len(s) {
		if s[i] == 0 {
			return s[:i]
		}
	}
	return s
}

// foldCompare compares literals exactly, others by the sign of their common type.
func foldCompare(op ast.BinaryOp, l, r *Expr, common *types.Type) bool {
	x, y := l.Const.Int, r.Const.Int
	switch {
	case l.Const.lit && r.Const.lit || common == nil:
	case common.Signed:
		return ordered(op, cmp.Compare(x, y))
	default:
		return ordered(op, cmp.Compare(uint64(x), uint64(y)))
	}
	return ordered(op, exact(l.Const, l.Type).Cmp(exact(r.Const, r.Type)))
}

// ordered returns the result of a comparison; c is as returned by strings.Compare.
func ordered(op ast.BinaryOp, c int) bool {
	switch op {
	case ast.Eq:
		return c == 0
	case ast.Ne:
		return c != 0
	case ast.Lt:
		return c < 0
	case ast.Gt:
		return c > 0
	case ast.Le:
		return c <= 0
	}
	return c >= 0
}

// foldLiterals computes with mathematical integers. The result must fit in 64 bits; if an operand is negative, all
// must fit in signed 64 bits, except the product of two negative numbers. Bits that are shifted out are lost, and so
// are those of a product of numbers of different signs (as in bpftrace, which does not notice this overflow).
func (b *body) foldLiterals(x *ast.Binary, e *Expr, l, r *big.Int, host bool) {
	v := new(big.Int)
	ok := true
	switch x.Op {
	case ast.Or:
		v.Or(l, r)
	case ast.Xor:
		v.Xor(l, r)
	case ast.And:
		v.And(l, r)
	case ast.Shl, ast.Shr:
		if ok = r.Sign() >= 0 && r.IsInt64() && r.Int64() < 64; ok && x.Op == ast.Shl {
			v.Lsh(l, uint(r.Int64()))
			v.And(v, new(big.Int).SetUint64(math.MaxUint64))
			if l.Sign() < 0 {
				v.SetInt64(int64(v.Uint64()))
			}
		} else if ok {
			v.Rsh(l, uint(r.Int64()))
		}
	case ast.Add:
		v.Add(l, r)
	case ast.Sub:
		v.Sub(l, r)
	case ast.Mul:
		v.Mul(l, r)
		if l.Sign() < 0 && r.Sign() < 0 {
			ok = l.IsInt64() && r.IsInt64() && setNumber(e, v, host)
			if !ok {
				b.overflow(x, e)
			}
			return
		}
		if v.Sign() < 0 && l.IsInt64() && r.IsInt64() && !v.IsInt64() {
			low := new(big.Int).And(v, new(big.Int).SetUint64(math.MaxUint64))
			v.SetInt64(int64(low.Uint64()))
		}
	case ast.Div:
		if ok = r.Sign() != 0; ok {
			v.Quo(l, r)
		}
	case ast.Mod:
		if ok = r.Sign() != 0; ok {
			v.Rem(l, r)
		}
	}
	ok = ok && sameWord(l, r) && (l.Sign() >= 0 && r.Sign() >= 0 || v.IsInt64())
	if !ok || !setNumber(e, v, host) {
		b.overflow(x, e)
	}
}

// foldBools computes with booleans as bpftrace does, where a shift of literals is a comparison.
func foldBools(op ast.BinaryOp, l, r bool) (result, ok bool) {
	switch op {
	case ast.Or, ast.Add:
		return l || r, true
	case ast.Xor, ast.Sub:
		return l != r, true
	case ast.And, ast.Mul:
		return l && r, true
	case ast.Shl:
		return !l && r, true
	case ast.Shr:
		return l && !r, true
	case ast.Div:
		return l, r
	case ast.Mod:
		return false, r
	}
	return false, false
}

// foldTyped computes in 64 bits as the program does: division is unsigned,
// shifts are logical.
func foldTyped(op ast.BinaryOp, l, r int64) (int64, bool) {
	switch op {
	case ast.Or:
		return l | r, true
	case ast.Xor:
		return l ^ r, true
	case ast.And:
		return l & r, true
	case ast.Shl:
		return l << (uint64(r) & 63), true
	case ast.Shr:
		return int64(uint64(l) >> (uint64(r) & 63)), true
	case ast.Add:
		return l + r, true
	case ast.Sub:
		return l - r, true
	case ast.Mul:
		return l * r, true
	case ast.Div:
		return int64(uint64(l) / max(1, uint64(r))), r != 0
	case ast.Mod:
		return int64(uint64(l) % max(1, uint64(r))), r != 0
	}
	return 0, false
}
