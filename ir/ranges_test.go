// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"math/rand"
	"testing"
)

// TestRangesHoldTheirNumbers checks that for any numbers in the ranges, the result of an op is in the
// range of the result, and a decided comparison is correct.
func TestRangesHoldTheirNumbers(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	edge := []int64{0, 1, -1, 2, 63, 64, 127, 255, 256, 1 << 31, 1<<31 - 1, 1 << 32, -1 << 63, 1<<63 - 1, -256}
	number := func() int64 { return edge[r.Intn(len(edge))] + int64(r.Intn(5)-2) }
	span := func() (Range, int64) {
		a, b := number(), number()
		var k Range
		if r.Intn(2) == 0 {
			k = SRange(min(a, b), max(a, b))
		} else {
			k = URange(min(uint64(a), uint64(b)), max(uint64(a), uint64(b)))
		}
		x := a
		if r.Intn(2) == 0 {
			x = b
		}
		return k, x
	}
	holds := func(k Range, x int64) bool {
		return k.UMin <= uint64(x) && uint64(x) <= k.UMax && k.SMin <= x && x <= k.SMax
	}
	for range 200000 {
		p, x := span()
		q, y := span()
		if !holds(p, x) || !holds(p.Join(q), y) {
			t.Fatalf("%v does not contain %d, or its join with %v does not contain %d", p, x, q, y)
		}
		op := OpAdd + Op(r.Intn(int(OpAShr-OpAdd)+1))
		if k := BinaryRange(op, p, q); !holds(k, EvalBinary(op, x, y)) {
			t.Fatalf("%s %v %v = %v, but for %d and %d it is %d", op, p, q, k, x, y, EvalBinary(op, x, y))
		}
		c := Cond(r.Intn(int(SGE) + 1))
		is := c.Eval(x, y)
		if a, known := c.Decide(p, q); known && a != is {
			t.Fatalf("%v %s %v is decided as %t, but %d %s %d is %t", p, c, q, a, x, c, y, is)
		}
		if is && !holds(c.Refine(p, q), x) {
			t.Fatalf("%v refined by %s %v = %v, which lacks %d", p, c, q, c.Refine(p, q), x)
		}
	}
}

func TestCondEval(t *testing.T) {
	for c := EQ; c <= SGE; c++ {
		for _, x := range []int64{-1, 0, 1, 5} {
			for _, y := range []int64{-1, 0, 1, 5} {
				if c.Eval(x, y) == c.Negate().Eval(x, y) || c.Eval(x, y) != c.Swap().Eval(y, x) {
					t.Errorf("wrong result of %d %s %d", x, c, y)
				}
			}
		}
	}
}

// TestRangesKnowNoMoreThanKernels checks that the ranges do not know more about a number than older or
// newer kernels do. Otherwise, a check that only the ranges consider redundant would be missing.
func TestRangesKnowNoMoreThanKernels(t *testing.T) {
	small := URange(0, 15)
	for _, c := range []struct {
		op   Op
		x, y Range
	}{
		{OpLShr, small, URange(0, 3)},               // amount not constant: since 6.8
		{OpMul, URange(0, 1<<40), URange(0, 1<<10)}, // before 6.14
		{OpShl, URange(0, 1<<60-1), RangeOf(4)},
		{OpUDiv, small, small},
		{OpUDiv, RangeOf(100), RangeOf(50)},
	} {
		if r := BinaryRange(c.op, c.x, c.y); r != FullRange {
			t.Errorf("%s %v %v = %v", c.op, c.x, c.y, r)
		}
	}
}
