// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"encoding/binary"
	"slices"

	"btc/ir"
)

// binaryOps is the arithmetic of the BPF instruction set (RFC 9669, section 4.1) on 64-bit
// numbers. It duplicates ir.EvalBinary on purpose: the interpreter is the oracle of the
// passes, so it shares no arithmetic with constant folding.
var binaryOps = map[ir.Op]func(x, y uint64) uint64{
	ir.OpAdd:  func(x, y uint64) uint64 { return x + y },
	ir.OpSub:  func(x, y uint64) uint64 { return x - y },
	ir.OpMul:  func(x, y uint64) uint64 { return x * y },
	ir.OpUDiv: divide,
	ir.OpUMod: func(x, y uint64) uint64 { return x - divide(x, y)*y },
	ir.OpAnd:  func(x, y uint64) uint64 { return x & y },
	ir.OpOr:   func(x, y uint64) uint64 { return x | y },
	ir.OpXor:  func(x, y uint64) uint64 { return x ^ y },
	ir.OpShl:  func(x, y uint64) uint64 { return x << (y % 64) },
	ir.OpLShr: func(x, y uint64) uint64 { return x >> (y % 64) },
	ir.OpAShr: func(x, y uint64) uint64 { return uint64(int64(x) >> (y % 64)) },
}

// divide returns 0 for a division by 0.
func divide(x, y uint64) uint64 {
	if y == 0 {
		return 0
	}
	return x / y
}

// conditions are the comparisons of two 64-bit numbers.
var conditions = map[ir.Cond]func(x, y int64) bool{
	ir.EQ:  func(x, y int64) bool { return x == y },
	ir.NE:  func(x, y int64) bool { return x != y },
	ir.ULT: func(x, y int64) bool { return uint64(x) < uint64(y) },
	ir.ULE: func(x, y int64) bool { return uint64(x) <= uint64(y) },
	ir.UGT: func(x, y int64) bool { return uint64(x) > uint64(y) },
	ir.UGE: func(x, y int64) bool { return uint64(x) >= uint64(y) },
	ir.SLT: func(x, y int64) bool { return x < y },
	ir.SLE: func(x, y int64) bool { return x <= y },
	ir.SGT: func(x, y int64) bool { return x > y },
	ir.SGE: func(x, y int64) bool { return x >= y },
}

// extend returns the low bits of x as a number of kind k.
func extend(k ir.MemKind, x int64) int64 {
	switch {
	case k == ir.MemNone || k.Size() == 8:
		return x
	case k.Size() == 4 && k.Signed():
		return int64(int32(x))
	case k.Size() == 4:
		return int64(uint32(x))
	case k.Size() == 2 && k.Signed():
		return int64(int16(x))
	case k.Size() == 2:
		return int64(uint16(x))
	case k.Signed():
		return int64(int8(x))
	}
	return int64(uint8(x))
}

// byteSwap returns the low n bytes of x in reverse order; the others are 0.
func byteSwap(n int, x int64) int64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(x))
	slices.Reverse(b[:n])
	clear(b[n:])
	return int64(binary.LittleEndian.Uint64(b[:]))
}
