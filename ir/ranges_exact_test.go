// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// small are numbers around zero and around the limits of signed and unsigned numbers.
var small = []int64{math.MinInt64, math.MinInt64 + 1, -2, -1, 0, 1, 2, math.MaxInt64 - 1, math.MaxInt64}

// spans calls each with every range between two of the small numbers, signed and unsigned, and with the
// small numbers that it contains.
func spans(signed bool, each func(r Range, holds []int64)) {
	for _, a := range small {
		for _, b := range small {
			r := URange(uint64(a), uint64(b))
			if signed {
				r = SRange(a, b)
			}
			var holds []int64
			for _, x := range small {
				if r.UMin <= uint64(x) && uint64(x) <= r.UMax && r.SMin <= x && x <= r.SMax {
					holds = append(holds, x)
				}
			}
			if !r.Empty() {
				each(r, holds)
			}
		}
	}
}

// comparisons returns the comparisons of signed or unsigned numbers.
func comparisons(signed bool) []Cond {
	if signed {
		return []Cond{EQ, NE, SLT, SLE, SGT, SGE}
	}
	return []Cond{EQ, NE, ULT, ULE, UGT, UGE}
}

// TestDecideIsExact checks that a comparison is decided if the limits of the ranges decide it.
func TestDecideIsExact(t *testing.T) {
	for _, signed := range []bool{false, true} {
		spans(signed, func(r Range, xs []int64) {
			spans(signed, func(q Range, ys []int64) {
				for _, c := range comparisons(signed) {
					always, never := true, true
					for _, x := range xs {
						for _, y := range ys {
							is := c.Eval(x, y)
							always, never = always && is, never && !is
						}
					}
					answer, known := c.Decide(r, q)
					if known != (always || never) || answer != always {
						t.Fatalf("%v %s %v: result %t, decided %t; want %t, %t", r, c, q, answer, known, always, always || never)
					}
				}
			})
		})
	}
	for c := EQ; c <= SGE; c++ {
		if answer, known := c.Decide(noRange, RangeOf(1)); answer || known {
			t.Errorf("comparison of an empty range is decided: empty %s 1", c)
		}
		if answer, known := c.Decide(RangeOf(1), noRange); answer || known {
			t.Errorf("comparison with an empty range is decided: 1 %s empty", c)
		}
	}
}

// TestRefineIsExact checks that the limits of a range refined by a comparison with a number are the
// outermost numbers for which the comparison holds.
func TestRefineIsExact(t *testing.T) {
	for _, signed := range []bool{false, true} {
		spans(signed, func(r Range, xs []int64) {
			for _, y := range small {
				for _, c := range comparisons(signed) {
					holds := func(x int64) bool { return slices.Contains(xs, x) && c.Eval(x, y) }
					got := c.Refine(r, RangeOf(y))
					if signed {
						for _, end := range []int64{got.SMin, got.SMax} {
							if !got.Empty() && slices.Contains(small, end) && !holds(end) {
								t.Fatalf("%v refined by %s %d is %v, but does not hold for %d", r, c, y, got, end)
							}
						}
						continue
					}
					for _, end := range []uint64{got.UMin, got.UMax} {
						if !got.Empty() && slices.Contains(small, int64(end)) && !holds(int64(end)) {
							t.Fatalf("%v refined by %s %d is %v, but does not hold for %d", r, c, y, got, end)
						}
					}
				}
			}
		})
	}
}

// TestRefineByRange checks that only the relevant limit of a range refines another one.
func TestRefineByRange(t *testing.T) {
	r, q := URange(10, 20), URange(12, 18)
	for c, want := range map[Cond]Range{
		EQ: q, NE: r, ULT: URange(10, 17), ULE: URange(10, 18), UGT: URange(13, 20), UGE: URange(12, 20),
		SLT: URange(10, 17), SLE: URange(10, 18), SGT: URange(13, 20), SGE: URange(12, 20),
	} {
		if got := c.Refine(r, q); got != want {
			t.Errorf("%v refined by %s %v = %v, want %v", r, c, q, got, want)
		}
		if got := c.Refine(r, noRange); got != r {
			t.Errorf("%v refined by %s an empty range = %v", r, c, got)
		}
	}
}

// TestRangeSets checks the intersection of two ranges and their hull.
func TestRangeSets(t *testing.T) {
	a, b := SRange(-5, 10), SRange(3, 20)
	if got, want := a.Join(b), SRange(-5, 20); got.SMin != want.SMin || got.SMax != want.SMax {
		t.Errorf("Join = %v, want %v", got, want)
	}
	if got, want := a.Meet(b), SRange(3, 10); got != want {
		t.Errorf("Meet = %v, want %v", got, want)
	}
	if got := a.Join(noRange); got != a {
		t.Errorf("Join with an empty range = %v", got)
	}
	if got := noRange.Join(a); got != a {
		t.Errorf("Join of an empty range = %v", got)
	}
	if !noRange.Empty() || FullRange.Empty() || !(Range{0, 1, 1, 0}).Empty() {
		t.Error("wrong result of Empty")
	}
	if _, one := noRange.Const(); one {
		t.Error("empty range is a constant")
	}
	if _, one := URange(3, 4).Const(); one {
		t.Error("range of 3 and 4 is a constant")
	}
	if n, one := URange(3, 3).Const(); n != 3 || !one {
		t.Error("range of 3 is not a constant")
	}
	if got, want := URange(1, 2).String(), "u[1, 2] s[1, 2]"; got != want {
		t.Errorf("String() = %s, want %s", got, want)
	}
}

// TestBinaryRanges checks the ranges of results.
func TestBinaryRanges(t *testing.T) {
	u, s := URange, SRange
	for _, c := range []struct {
		op         Op
		x, y, want Range
	}{
		{OpAdd, u(1, 5), u(10, 20), u(11, 25)},
		{OpAdd, s(-5, 5), s(-1, 1), s(-6, 6)},
		{OpAdd, u(0, math.MaxUint64-1), RangeOf(1), u(1, math.MaxUint64)},
		{OpAdd, u(math.MaxUint64-1, math.MaxUint64), RangeOf(2), u(0, 1)}, // both ends wrap
		{OpAdd, u(0, math.MaxUint64), RangeOf(1), FullRange},
		{OpAdd, s(0, math.MaxInt64), RangeOf(1), u(1, 1<<63)}, // wraps as a signed number
		{OpAdd, s(math.MinInt64, -1), RangeOf(-1), u(1<<63-1, math.MaxUint64-1)},
		{OpSub, u(11, 25), u(1, 5), u(6, 24)},
		{OpSub, u(1, 5), u(2, 3), s(-2, 3)},
		{OpSub, u(0, 1), u(2, 3), u(math.MaxUint64-2, math.MaxUint64)}, // both ends wrap
		{OpSub, s(math.MinInt64, -1), RangeOf(1), u(1<<63-1, math.MaxUint64-1)},
		{OpSub, s(0, math.MaxInt64), RangeOf(-1), u(1, 1<<63)},
		{OpMul, u(2, 3), u(4, 5), u(8, 15)},
		{OpMul, u(0, math.MaxUint32), u(0, math.MaxUint32), u(0, math.MaxUint32*math.MaxUint32)},
		{OpMul, u(0, math.MaxUint32+1), u(0, 1), FullRange},
		{OpMul, u(0, 1), u(0, math.MaxUint32+1), FullRange},
		{OpAnd, u(0, 100), u(0, 15), u(0, 15)},
		{OpAnd, u(0, 3), FullRange, u(0, 3)},
		{OpOr, u(2, 4), u(1, 8), u(2, 15)},
		{OpOr, u(0, 0), u(1, 2), u(1, 3)},
		{OpXor, u(2, 4), u(1, 2), u(0, 7)},
		{OpXor, u(0, 0), u(0, 0), u(0, 0)},
		{OpShl, u(1, 3), RangeOf(4), u(16, 48)},
		{OpShl, u(1, 3), RangeOf(64 + 4), u(16, 48)},
		{OpShl, u(0, 1<<59), RangeOf(4), u(0, 1<<63)},
		{OpShl, u(0, 1<<59+1), RangeOf(4), FullRange},
		{OpShl, u(1, 3), u(0, 1), FullRange},
		{OpLShr, u(16, 48), RangeOf(4), u(1, 3)},
		{OpLShr, u(16, 48), RangeOf(64 + 4), u(1, 3)},
		{OpLShr, FullRange, RangeOf(60), u(0, 15)},
		{OpAShr, s(-16, 48), RangeOf(4), s(-1, 3)},
		{OpAShr, s(-16, 48), RangeOf(64 + 4), s(-1, 3)},
		{OpAShr, s(-16, 48), u(1, 2), FullRange},
		{OpUMod, u(1, 3), RangeOf(2), FullRange},
		{OpMul, u(0, math.MaxUint32), u(0, math.MaxUint32+1), FullRange},
		{OpAnd, FullRange, u(0, 3), u(0, 3)},
		{OpOr, u(0, 0), u(0, 0), u(0, 0)},
		{OpAdd, s(-1, 1), s(-1, 1), s(-2, 2)},
		{OpAdd, s(math.MinInt64, 0), s(math.MinInt64, 0), FullRange},
		{OpAdd, s(math.MinInt64, 0), s(-1, 0), FullRange},
		{OpSub, s(0, math.MaxInt64), s(-1, 0), FullRange},
		{OpSub, s(math.MinInt64, 0), s(0, 1), FullRange},
		{OpSub, s(-1, 0), s(0, math.MaxInt64), s(math.MinInt64, 0)},
		{OpSub, s(-1, 0), s(math.MinInt64, 0), FullRange},
		{OpUDiv, noRange, u(1, 2), noRange},
		{OpAdd, noRange, u(1, 2), noRange},
		{OpAdd, u(1, 2), noRange, noRange},
	} {
		if got := BinaryRange(c.op, c.x, c.y); got != c.want {
			t.Errorf("%s %v %v = %v, want %v", c.op, c.x, c.y, got, c.want)
		}
	}
}

// TestRangesInFunctions checks the range of the value v9 in the block b9, or b0.
func TestRangesInFunctions(t *testing.T) {
	branch := func(cond string, yes, no string) string {
		return "b0(v0:ctx):\n  v9:i64 = pid\n  v5:i64 = nsecs\n  v1:i1 = " + cond + "\n  br v1, " + yes + ", " + no + "\nb9:\n  ret 0\nb2:\n  ret 0\n"
	}
	line := func(def string) string {
		return "b0(v0:ctx):\n  v5:i64 = nsecs\n  v6:i64 = pid\n" + def + "\n  ret 0\n"
	}
	u, s := URange, SRange
	for _, c := range []struct {
		what, body string
		want       Range
	}{
		{"pid", line("  v9:i64 = pid"), u(0, math.MaxUint32)},
		{"tid", line("  v9:i64 = tid"), u(0, math.MaxUint32)},
		{"uid", line("  v9:i64 = uid"), u(0, math.MaxUint32)},
		{"cpu: the kernel does not know the range of the result", line("  v9:i64 = cpu"), FullRange},
		{"random number: the kernel does not know that it is 32 bits wide", line("  v9:i64 = call get_prandom_u32()"), FullRange},
		{"processor", line("  v9:i64 = call get_smp_processor_id()"), FullRange},
		{"another helper", line("  v9:i64 = call ktime_get_ns()"), FullRange},
		{"load of a byte", line("  v9:i64 = load.u8 [v0]"), u(0, 255)},
		{"load of a signed byte", line("  v9:i64 = load.s8 [v0]"), s(-128, 127)},
		{"load of a signed word", line("  v9:i64 = load.s32 [v0]"), s(math.MinInt32, math.MaxInt32)},
		{"load of 8 bytes", line("  v9:i64 = load.u64 [v0]"), FullRange},
		{"global", line("  v9:i64 = global.u16 g"), u(0, 65535)},
		{"swap", line("  v9:i64 = bswap.u16 v5"), u(0, 65535)},
		{"zext of an unknown number", line("  v9:i64 = zext.u16 v5"), u(0, 65535)},
		{"zext of a number that fits", line("  v1:i64 = and v5, 7\n  v9:i64 = zext.u16 v1"), u(0, 7)},
		{"zext of a number that does not fit", line("  v1:i64 = and v5, 65536\n  v9:i64 = zext.u16 v1"), u(0, 65535)},
		{"sext of a number that does not fit", line("  v9:i64 = sext.s8 v6"), s(-128, 127)},
		{"sext of a number that fits", line("  v1:i64 = and v5, 127\n  v9:i64 = sext.s8 v1"), u(0, 127)},
		{"sum", line("  v1:i64 = and v5, 7\n  v9:i64 = add v1, 3"), u(3, 10)},
		{"number of an architecture", line(`  v9:i64 = perarch "x86_64=8 aarch64=16"`), u(8, 16)},
		{"number for an architecture without one", line(`  v9:i64 = perarch "x86_64=8 aarch64=z"`), FullRange},
		{"comparison that is always true", line("  v1:i64 = and v5, 7\n  v2:i1 = icmp ult v1, 8\n  v9:i64 = boolint v2"), RangeOf(1)},
		{"comparison that is always false", line("  v1:i64 = and v5, 7\n  v2:i1 = icmp ugt v1, 7\n  v9:i64 = boolint v2"), RangeOf(0)},
		{"comparison", line("  v2:i1 = icmp ult v5, 8\n  v9:i64 = boolint v2"), u(0, 1)},
		{"select", line("  v2:i1 = icmp eq v5, 8\n  v9:i64 = select v2, 3, 5"), u(3, 5)},
		{"select of the first operand", line("  v9:i64 = select true, 3, 5"), RangeOf(3)},
		{"select of the second operand", line("  v9:i64 = select false, 3, 5"), RangeOf(5)},
		{"select of the compared number", line("  v2:i1 = icmp ult v5, 8\n  v9:i64 = select v2, v5, 20"), u(0, 20)},
		{"select of the compared number, else", line("  v2:i1 = icmp ugt v5, 8\n  v9:i64 = select v2, 3, v5"), u(0, 8)},
		{"select of the right operand of the comparison", line("  v2:i1 = icmp ugt 8, v5\n  v9:i64 = select v2, v5, 20"), u(0, 20)},
		{"branch", branch("icmp ult v9, 8", "b9", "b2"), u(0, 7)},
		{"branch, else", branch("icmp ugt v9, 8", "b2", "b9"), u(0, 8)},
		{"branch, constant on the left", branch("icmp ugt 8, v9", "b9", "b2"), u(0, 7)},
		{"branch on a comparison with an unknown number", branch("icmp ult v9, v5", "b9", "b2"), u(0, math.MaxUint32)},
		{"branch with equal targets", branch("icmp ult v9, 8", "b9", "b9"), u(0, math.MaxUint32)},
		{"a branch that is not on every path", "b0(v0:ctx):\n  v9:i64 = pid\n  v1:i1 = icmp ult v9, 8\n  br v1, b1, b9\nb1:\n  jump b9\nb9:\n  ret 0\n", u(0, math.MaxUint32)},
		{"two branches", "b0(v0:ctx):\n  v9:i64 = pid\n  v1:i1 = icmp ult v9, 8\n  br v1, b1, b2\nb1:\n  v2:i1 = icmp ugt v9, 3\n  br v2, b9, b2\nb2:\n  ret 0\nb9:\n  ret 0\n", u(4, 7)},
		{"parameter", "b0(v0:ctx):\n  v1:i64 = nsecs\n  v2:i1 = icmp ult v1, 8\n  br v2, b1, b2\nb1:\n  jump b9(v1)\nb2:\n  jump b9(20)\nb9(v9:i64):\n  ret 0\n", u(0, 20)},
		{"parameter of an edge of a branch", "b0(v0:ctx):\n  v1:i64 = nsecs\n  v2:i1 = icmp ult v1, 8\n  br v2, b9(0, v1), b2\nb2:\n  jump b9(1, 20)\nb9(v3:i64, v9:i64):\n  ret 0\n", u(0, 20)},
		{"loop counter", "b0(v0:ctx):\n  jump b1(0)\nb1(v1:i64):\n  v2:i1 = icmp ult v1, 10\n  br v2, b9, b3\nb9:\n  v9:i64 = add v1, 1\n  jump b1(v9)\nb3:\n  ret 0\n", u(1, 10)},
		{"sum of addresses", line("  v1:kaddr = cast v6\n  v9:kaddr = add v1, 3"), FullRange},
		{"gid", line("  v9:i64 = gid"), u(0, math.MaxUint32)},
		{"string", "  slot s0 \"\" 16 align 8\n" + line("  v1:kaddr = cast v5\n  v9:i64 = str s0+0, v1, 16, #16"), u(0, 16)},
		{"copied string", "  slot s0 \"\" 16 align 8\n" + line("  v9:i64 = strcopy s0+0, s0+8, #8"), u(0, 8)},
		{"string of size 0", "  slot s0 \"\" 16 align 8\n" + line("  v9:i64 = strcopy s0+0, s0+8, #-1"), u(0, 0)},
		{"loop that is never cut off", line("  v1:i64 = and v5, 63\n  v2:i64 = rangeiter v1\n  v9:i64 = rangecut v2"), RangeOf(0)},
		{"longest loop that is never cut off", line("  v2:i64 = rangeiter 64\n  v9:i64 = rangecut v2"), RangeOf(0)},
		{"loop that may be cut off", line("  v2:i64 = rangeiter 65\n  v9:i64 = rangecut v2"), FullRange},
		{"rangecut of an iterator passed as a parameter", "b0(v0:ctx):\n  v2:i64 = rangeiter 5\n  jump b9(v2)\nb9(v3:i64):\n  v9:i64 = rangecut v3\n  ret 0\n", FullRange},
		{"number read from memory", line("  v1:kaddr = cast v5\n  v9:i64 = read.u8 [v1]"), u(0, 255)},
		{"cast", line("  v1:kaddr = cast v6\n  v9:i64 = cast v1"), u(0, math.MaxUint32)},
		{"bool", line("  v9:i1 = maphas @x"), u(0, 1)},
		{"bool of a select", line("  v2:i1 = icmp eq v5, 8\n  v9:i1 = select v2, v2, true"), u(0, 1)},
		{"select of a number that was not compared", line("  v2:i1 = icmp ult v5, 8\n  v9:i64 = select v2, v6, 20"), u(0, math.MaxUint32)},
		{"select by a bool", line("  v2:i1 = maphas @x\n  v9:i64 = select v2, v6, 20"), u(0, math.MaxUint32)},
		{"select of both sides of a comparison", line("  v2:i1 = icmp ult v6, 8\n  v9:i64 = select v2, v6, v6"), u(0, math.MaxUint32)},
		{"parameter of the entry", "b0(v9:ctx):\n  ret 0\n", FullRange},
		{"branch, constant on the left, else", branch("icmp ult 8, v9", "b2", "b9"), u(0, 8)},
		{"branch on a bool", "b0(v0:ctx):\n  v5:i64 = nsecs\n  v9:i1 = maphas @x\n  br v9, b9, b2\nb9:\n  ret 0\nb2:\n  ret 0\n", RangeOf(1)},
		{"branch on another bool", "b0(v0:ctx):\n  v9:i64 = pid\n  v1:i1 = maphas @x\n  br v1, b9, b2\nb9:\n  ret 0\nb2:\n  ret 0\n", u(0, math.MaxUint32)},
		{"branch that excludes one end of a range", branch("icmp ne v9, 0", "b9", "b2"), u(1, math.MaxUint32)},
		{"a value in unreachable code", "b0(v0:ctx):\n  ret 0\nb9:\n  v9:i64 = pid\n  ret 0\n", FullRange},
		{"loop counter that is not incremented", "b0(v0:ctx):\n  jump b1(3)\nb1(v9:i64):\n  v1:i64 = nsecs\n  v2:i1 = icmp ult v1, 10\n  br v2, b1(v9), b9\nb9:\n  ret 0\n", FullRange},
		{"an edge that is never taken", "b0(v0:ctx):\n  jump b9(3)\nb1:\n  jump b9(20)\nb9(v9:i64):\n  ret 0\n", RangeOf(3)},
	} {
		m, err := Parse("global (name g, kind const, size 8)\nfunc @p prog (kind kprobe) {\n" + c.body + "}\n")
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		f := m.Funcs[0]
		at, v := f.Entry(), (*Value)(nil)
		for _, b := range f.Blocks {
			for _, x := range append(b.Params, b.Values...) {
				if x.ID == 9 {
					v = x
				}
			}
			if b.ID == 9 {
				at = b
			}
		}
		if got := NewRanges(f, Dominators(f)).At(v, at); got != c.want {
			t.Errorf("%s: range %v, want %v", c.what, got, c.want)
		}
	}
}

// TestTruthOfBranch checks that the condition of a branch is known in the blocks after it.
func TestTruthOfBranch(t *testing.T) {
	m := MustParse("func @p prog (kind kprobe) {\nb0(v0:ctx):\n  v1:i64 = nsecs\n  v2:i1 = icmp eq v1, 8\n  br v2, b1, b2\nb1:\n  ret 0\nb2:\n  ret 0\n}\n")
	f := m.Funcs[0]
	rs := NewRanges(f, Dominators(f))
	cond := f.Blocks[0].Values[1]
	for block, want := range map[int]Range{0: URange(0, 1), 1: RangeOf(1), 2: RangeOf(0)} {
		if got := rs.At(cond, f.Blocks[block]); got != want {
			t.Errorf("truth in b%d = %v, want %v", block, got, want)
		}
	}
	if got, want := rs.OnEdge(f.Blocks[0].Values[0], Pred{f.Blocks[0], 0}), RangeOf(8); got != want {
		t.Errorf("truth on the edge = %v, want %v", got, want)
	}
}

// TestNarrowing checks that the nearest branches on a number are used, and that branches on a bound of
// an or are only used if the kernel verifies each value of the counter separately.
func TestNarrowing(t *testing.T) {
	var body strings.Builder
	body.WriteString("b0(v0:ctx):\n  v1:i64 = pid\n  jump b1\n")
	const branches = maxNarrow + 2
	for i := range branches { // each excludes the smallest remaining number
		fmt.Fprintf(&body, "b%d:\n  v%d:i1 = icmp ugt v1, %d\n  br v%[2]d, b%[4]d, b900\n", i+1, i+10, i, i+2)
	}
	fmt.Fprintf(&body, "b%d:\n  ret 0\nb900:\n  ret 0\n", branches+1)
	f := MustParse("func @p prog (kind kprobe) {\n" + body.String() + "}\n").Funcs[0]
	rs := NewRanges(f, Dominators(f))
	v := f.Blocks[0].Values[0]
	if got, want := rs.At(v, f.Blocks[branches+1]), URange(branches, math.MaxUint32); got != want {
		t.Errorf("range after %d branches = %v, want %v", branches, got, want)
	}
	// Without the nearest branch, the others exclude numbers that are not at the end of the range.
	text := strings.ReplaceAll("func @p prog (kind kprobe) {\n"+body.String()+"}\n", "icmp ugt v1, ", "icmp ne v1, ")
	f = MustParse(text).Funcs[0]
	rs = NewRanges(f, Dominators(f))
	if got, want := rs.At(f.Blocks[0].Values[0], f.Blocks[branches+1]), URange(0, math.MaxUint32); got != want {
		t.Errorf("range after %d branches = %v, want %v", branches, got, want)
	}
}

// TestPartsOfAnOr checks the range of a counter v1 that is incremented by step, in a loop that is left
// when "v1 | v3" reaches a bound.
func TestPartsOfAnOr(t *testing.T) {
	for _, c := range []struct {
		or, cond, start string
		step            int
		parts           bool
		want            Range
	}{
		{"v1, v3", "ult v4, 16", "0", 8, true, URange(0, 8)},
		{"v3, v1", "ult v4, 16", "0", 8, true, URange(0, 8)},
		{"v1, v3", "ule v4, 16", "0", 8, true, URange(0, 16)},
		{"v1, v3", "ult v4, 16", "0", 1, true, URange(0, 15)},
		{"v1, v3", "ult v4, 16", "4", 8, true, URange(4, 12)},
		{"v1, v3", "ult v4, 16", "v3", 8, true, URange(0, 15)}, // starts at an unknown number
		{"v1, v3", "ult v4, 16", "0", 8, false, FullRange},
		{"v3, v3", "ult v4, 16", "0", 8, true, FullRange},
		{"v1, v3", "ugt v4, 16", "0", 8, true, FullRange},
		{"v1, v3", "ult v4, v3", "0", 8, true, FullRange},
	} {
		f := MustParse(fmt.Sprintf("func @p prog (kind kprobe) {\nb0(v0:ctx):\n  v3:i64 = nsecs\n  jump b1(%s)\nb1(v1:i64):\n  v4:i64 = or %s\n"+
			"  v5:i1 = icmp %s\n  br v5, b2, b3\nb2:\n  v6:i64 = add v1, %d\n  jump b1(v6)\nb3:\n  ret 0\n}\n", c.start, c.or, c.cond, c.step)).Funcs[0]
		rs := NewRanges(f, Dominators(f))
		rs.parts = c.parts
		if got := rs.At(f.Blocks[1].Params[0], f.Blocks[2]); got != c.want {
			t.Errorf("%+v: range = %v", c, got)
		}
	}
}

// TestResolve checks the object and the offset that a pointer resolves to.
func TestResolve(t *testing.T) {
	f := MustParse(`func @f(mapval(@x)?) {
  slot s0 "" 16 align 8
b0(v0:mapval(@x)?):
  v1:i64 = nsecs
  v2:i64 = and v1, 7
  v3:mapval(@x) = nonnull v0
  v4:mapval(@x) = add v3, 8
  v5:mapval(@x) = sub v4, v2
  v6:stack = add s0+4, v2
  v7:stack = sub v6, 3
  v8:i1 = icmp ugt v2, 7
  br v8, b1, b2
b1:
  ret 0
b2:
  ret 0
}`).Funcs[0]
	rs := NewRanges(f, Dominators(f))
	b := f.Blocks[0]
	for i, c := range []struct {
		root string
		slot bool
		off  Range
	}{2: {"v0", false, RangeOf(0)}, 3: {"v0", false, RangeOf(8)}, 4: {"v0", false, URange(1, 8)}, 5: {"s0+4", true, URange(4, 11)}, 6: {"s0+4", true, URange(1, 8)}} {
		if c.root == "" {
			continue
		}
		p := rs.Resolve(b.Values[i], b)
		if p.Root.String() != c.root || (p.Slot != nil) != c.slot || p.Off != c.off {
			t.Errorf("%s: root %s, slot %t, offset %v", b.Values[i].Text(), p.Root, p.Slot != nil, p.Off)
		}
		if n, fixed := p.Fixed(); fixed != (c.off.SMin == c.off.SMax) || fixed && int64(n) != c.off.SMin {
			t.Errorf("fixed offset of %s = %d, %t", b.Values[i].Text(), n, fixed)
		}
	}
	if p := rs.Resolve(b.Values[4], f.Blocks[1]); !p.Off.Empty() || p.Slot != nil {
		t.Errorf("offset in unreachable code = %v", p.Off)
	}
}
