// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"math/big"
	"math/rand"
	"testing"
)

// edges are the numbers for which fixed-width arithmetic is most likely to be wrong.
var edges = []int64{0, 1, -1, 2, 7, 8, 63, 64, 65, 127, 128, 255, 256, 1<<15 - 1, 1 << 15, 1 << 16, 1<<31 - 1, 1 << 31,
	1<<32 - 1, 1 << 32, -1 << 31, -1 << 63, 1<<63 - 1, 0x0102030405060708, -0x7060504030201}

// TestEvalBinary checks that the results of binary ops are those on unbounded integers, truncated to 64
// bits.
func TestEvalBinary(t *testing.T) {
	two64 := new(big.Int).Lsh(big.NewInt(1), 64)
	unsigned := func(x int64) *big.Int { return new(big.Int).SetUint64(uint64(x)) }
	shifts := func(y int64) uint { return uint(uint64(y) % 64) }
	want := map[Op]func(x, y int64) *big.Int{
		OpAdd: func(x, y int64) *big.Int { return new(big.Int).Add(unsigned(x), unsigned(y)) },
		OpSub: func(x, y int64) *big.Int { return new(big.Int).Sub(unsigned(x), unsigned(y)) },
		OpMul: func(x, y int64) *big.Int { return new(big.Int).Mul(unsigned(x), unsigned(y)) },
		OpUDiv: func(x, y int64) *big.Int {
			if y == 0 { // RFC 9669, section 4.1
				return big.NewInt(0)
			}
			return new(big.Int).Quo(unsigned(x), unsigned(y))
		},
		OpUMod: func(x, y int64) *big.Int {
			if y == 0 {
				return unsigned(x)
			}
			return new(big.Int).Rem(unsigned(x), unsigned(y))
		},
		OpAnd:  func(x, y int64) *big.Int { return new(big.Int).And(unsigned(x), unsigned(y)) },
		OpOr:   func(x, y int64) *big.Int { return new(big.Int).Or(unsigned(x), unsigned(y)) },
		OpXor:  func(x, y int64) *big.Int { return new(big.Int).Xor(unsigned(x), unsigned(y)) },
		OpShl:  func(x, y int64) *big.Int { return new(big.Int).Lsh(unsigned(x), shifts(y)) },
		OpLShr: func(x, y int64) *big.Int { return new(big.Int).Rsh(unsigned(x), shifts(y)) },
		OpAShr: func(x, y int64) *big.Int { return new(big.Int).Rsh(big.NewInt(x), shifts(y)) },
	}
	for op := OpAdd; op <= OpAShr; op++ {
		if want[op] == nil {
			t.Errorf("no case for %s", op)
			continue
		}
		for _, x := range edges {
			for _, y := range edges {
				exact := want[op](x, y)
				if got, want := uint64(EvalBinary(op, x, y)), exact.Mod(exact, two64).Uint64(); got != want {
					t.Errorf("%s %#x, %#x = %#x, want %#x", op, uint64(x), uint64(y), got, want)
				}
			}
		}
	}
}

// TestEvalUnary compares the results of unary ops with results computed from the bytes of the operand.
func TestEvalUnary(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for _, k := range []MemKind{U8, U16, U32, U64, S8, S16, S32} {
		n := k.Size()
		for range 1000 {
			x := edges[r.Intn(len(edges))] ^ int64(r.Uint64()&uint64(r.Intn(2))*0xff00ff)
			swapped, low := uint64(0), uint64(0)
			for i := range n {
				b := uint64(byte(x >> (8 * i)))
				low |= b << (8 * i)
				swapped |= b << (8 * (n - 1 - i))
			}
			extended := low
			if k.Signed() && low>>(8*n-1) == 1 {
				for i := n; i < 8; i++ {
					extended |= 0xff << (8 * i)
				}
			}
			op := OpZext
			if k.Signed() {
				op = OpSext
			}
			if got := uint64(EvalUnary(op, k, x)); got != extended {
				t.Errorf("%s %s of %#x = %#x, want %#x", op, k, uint64(x), got, extended)
			}
			if got := uint64(EvalUnary(OpBswap, k, x)); !k.Signed() && got != swapped {
				t.Errorf("bswap %s of %#x = %#x, want %#x", k, uint64(x), got, swapped)
			}
		}
	}
	if got := EvalUnary(OpZext, MemNone, -5); got != -5 {
		t.Errorf("zext of -5 without a width = %d", got)
	}
}

// TestCompare checks that comparisons give the same results as on unbounded integers.
func TestCompare(t *testing.T) {
	for _, x := range edges {
		for _, y := range edges {
			s := big.NewInt(x).Cmp(big.NewInt(y))
			u := new(big.Int).SetUint64(uint64(x)).Cmp(new(big.Int).SetUint64(uint64(y)))
			for c, want := range map[Cond]bool{EQ: s == 0, NE: s != 0, ULT: u < 0, ULE: u <= 0, UGT: u > 0, UGE: u >= 0,
				SLT: s < 0, SLE: s <= 0, SGT: s > 0, SGE: s >= 0} {
				if c.Eval(x, y) != want {
					t.Errorf("%d %s %d = %t", x, c, y, !want)
				}
			}
		}
	}
}
