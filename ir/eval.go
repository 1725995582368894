// SPDX-License-Identifier: Apache-2.0

package ir

import "math/bits"

// EvalBinary computes an arithmetic op of two integers as the op table says:
// modulo 2^64, unsigned division with x/0 = 0 and x%0 = x, shift counts modulo 64.
func EvalBinary(op Op, x, y int64) int64 {
	n := uint64(y) & 63
	switch op {
	case OpAdd:
		return x + y
	case OpSub:
		return x - y
	case OpMul:
		return x * y
	case OpUDiv:
		if y == 0 {
			return 0
		}
		return int64(uint64(x) / uint64(y))
	case OpUMod:
		if y == 0 {
			return x
		}
		return int64(uint64(x) % uint64(y))
	case OpAnd:
		return x & y
	case OpOr:
		return x | y
	case OpXor:
		return x ^ y
	case OpShl:
		return x << n
	case OpLShr:
		return int64(uint64(x) >> n)
	case OpAShr:
		return x >> n
	}
	panic("BUG: not a binary op: " + op.String())
}

// EvalUnary computes bswap, zext and sext.
func EvalUnary(op Op, k MemKind, x int64) int64 {
	switch op {
	case OpBswap:
		return int64(bits.ReverseBytes64(uint64(x)) >> (64 - 8*k.Size()))
	case OpZext, OpSext:
		return k.Extend(x)
	}
	panic("BUG: not a unary op: " + op.String())
}

// Extend returns the result of a load of kind k whose low bits are x.
func (k MemKind) Extend(x int64) int64 {
	if k == MemNone || k.Size() == 8 {
		return x
	}
	n := 64 - 8*k.Size()
	if k.Signed() {
		return x << n >> n
	}
	return int64(uint64(x) << n >> n)
}

// Eval evaluates x c y.
func (c Cond) Eval(x, y int64) bool {
	result, _ := c.Decide(RangeOf(x), RangeOf(y))
	return result
}
