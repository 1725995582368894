// SPDX-License-Identifier: Apache-2.0

package types

import (
	"math"
	"testing"
)

// TestPrimitives checks the sizes and alignments of the types without parameters, as C and bpftrace have them.
func TestPrimitives(t *testing.T) {
	for _, c := range []struct {
		t           *Type
		kind        Kind
		size, align int
		signed      bool
	}{
		{TInvalid, Invalid, 0, 1, false}, {TNone, None, 0, 1, false}, {TBool, Bool, 1, 1, false}, {TChar, Int, 1, 1, true},
		{TInt8, Int, 1, 1, true}, {TInt16, Int, 2, 2, true}, {TInt32, Int, 4, 4, true}, {TInt64, Int, 8, 8, true},
		{TUint8, Int, 1, 1, false}, {TUint16, Int, 2, 2, false}, {TUint32, Int, 4, 4, false}, {TUint64, Int, 8, 8, false},
		{TKsym, Ksym, 8, 8, false}, {TUsym, Usym, 16, 8, false}, {TInet, Inet, 20, 1, false}, {TMac, Mac, 6, 1, false},
		{TUsername, Username, 8, 8, false}, {TCgroupPath, CgroupPath, 8, 8, false}, {TProbe, Probe, 8, 8, false}, {TFunc, Func, 0, 1, false},
		{MakeInt(16, true), Int, 16, 16, true}, {MakeInt(32, false), Int, 32, 16, false}, {MakeString(3), String, 3, 1, false}, {MakeBuffer(3), Buffer, 3, 1, false},
		{MakePointer(TInt8, User), Pointer, 8, 8, false}, {MakeArray(TInt16, 3), Array, 6, 2, false}, {MakeArray(TInt16, 0), Array, 0, 2, false},
		{pair, Struct, 8, 4, false}, {colour, Enum, 4, 4, false}, {MakeStack(false, "raw", 2), Kstack, 24, 8, false}, {MakeStack(true, "raw", 2), Ustack, 32, 8, false},
		{MakeTimestamp("%H", "p", 7), Timestamp, 16, 8, false}, {MakeCgroupPath("a*", "p"), CgroupPath, 8, 8, false}, {MakeAgg(Sum, true), Sum, 8, 8, true},
		{&Type{Kind: Float, Size: 10}, Float, 10, 10, false},
	} {
		if c.t.Kind != c.kind || c.t.Size != c.size || c.t.Align() != c.align || c.t.Signed != c.signed {
			t.Errorf("%s: kind %d of %d bytes, alignment %d, signed %v; want %d, %d, %d, %v", c.t, c.t.Kind, c.t.Size, c.t.Align(), c.t.Signed, c.kind, c.size, c.align, c.signed)
		}
	}
	for _, size := range []int{1, 2, 4, 8} {
		for _, signed := range []bool{false, true} {
			if x := MakeInt(size, signed); x.Size != size || x.Signed != signed || x != MakeInt(size, signed) {
				t.Errorf("MakeInt(%d, %v) = %v", size, signed, x)
			}
		}
	}
	if MakeBuffer(7).Sizeof() != 11 || MakeString(7).Sizeof() != 7 {
		t.Error("sizeof a buffer includes its length")
	}
	stamp := MakeTimestamp("%H", "p", 7)
	if stamp.Format != "%H" || stamp.FormatFrom != "p" || stamp.Clock != 7 {
		t.Errorf("%+v", stamp)
	}
}

// TestChars checks that only arrays of one-byte integers are read as strings.
func TestChars(t *testing.T) {
	for _, c := range []struct {
		elem *Type
		want CharArray
	}{{TInt8, KernelChars}, {TUint8, KernelChars}, {TInt16, NoChars}, {TBool, NoChars}} {
		if x := MakeChars(c.elem, 4, KernelChars); x.Chars != c.want || x.Len != 4 || x.Size != 4*c.elem.Size {
			t.Errorf("%s: %+v", c.elem, x)
		}
	}
}

// TestLiterals checks the types of literals at the ends of their ranges.
func TestLiterals(t *testing.T) {
	for _, c := range []struct {
		n    uint64
		want string
	}{
		{0, "int8"}, {127, "int8"}, {128, "int16"}, {32767, "int16"}, {32768, "int32"}, {1<<31 - 1, "int32"}, {1 << 31, "int64"},
		{math.MaxInt64, "int64"}, {1 << 63, "uint64"}, {math.MaxUint64, "uint64"},
	} {
		x := Literal(c.n)
		if x.String() != c.want || x.Flexible != (c.n <= math.MaxInt64) || x.Fixed().Flexible || x.Fixed().String() != c.want {
			t.Errorf("%d: %s, flexible %v", c.n, x, x.Flexible)
		}
	}
	for n, want := range map[int64]string{-1: "int8", -128: "int8", -129: "int16", -32768: "int16", -32769: "int32", math.MinInt32: "int32", math.MinInt32 - 1: "int64", math.MinInt64: "int64"} {
		if x := NegativeLiteral(n); x.String() != want || x.Flexible {
			t.Errorf("%d: %s, flexible %v", n, x, x.Flexible)
		}
	}
	if x := MakeTuple(Literal(1), TInt64).Fixed(); x.Fields[0].Type != TInt8 || x.Fields[1].Type != TInt64 {
		t.Errorf("a tuple with a literal: %v", x)
	}
	if x := MakeTuple(TInt8); x.Fixed() != x {
		t.Error("a tuple without literals is copied")
	}
}

// TestLimits checks the limits of values: parts, counted at each occurrence, and bytes in storage.
func TestLimits(t *testing.T) {
	of := func(n int) *Type { // a tuple of n-1 integers has n parts
		elems := make([]*Type, n-1)
		for i := range elems {
			elems[i] = TInt8
		}
		return MakeTuple(elems...)
	}
	doubled := TInt8
	for range 70 {
		doubled = MakeTuple(doubled, doubled)
	}
	for _, c := range []struct {
		what  string
		t     *Type
		parts int
		why   string
	}{
		{"integer", TInt64, 1, ""}, {"tuple", MakeTuple(TInt8, MakeTuple(TInt8, TInt8)), 5, ""}, {"array", MakeArray(TInt8, 1000), 2, ""}, {"struct", pair, 3, ""},
		{"most parts", of(MaxParts), MaxParts, ""},
		{"too many parts", of(MaxParts + 1), MaxParts + 1, "a value has more than 16384 parts"},
		{"many more", doubled, MaxParts + 1, "a value has more than 16384 parts"},
		{"largest string", MakeString(MaxSize), 1, ""},
		{"larger string", MakeString(MaxSize + 1), 1, "value too large: 1048577 bytes (max 1048576)"},
	} {
		if got := c.t.Parts(); got != c.parts {
			t.Errorf("%s: %d parts, want %d", c.what, got, c.parts)
		}
		if got := c.t.TooLarge(); got != c.why {
			t.Errorf("%s: %q, want %q", c.what, got, c.why)
		}
	}
}

// TestJoinSpaces checks the type of a variable after a value from another address space is assigned.
func TestJoinSpaces(t *testing.T) {
	kernel, user := TInt64.WithSpace(Kernel), TInt64.WithSpace(User)
	for _, c := range []struct {
		what    string
		t, from *Type
		want    *Type // nil: t itself
	}{
		{"the same", kernel, kernel, nil},
		{"another space", kernel, user, TInt64.WithSpace(Either)},
		{"none so far", TInt64, user, user},
		{"from none", kernel, TInt64, nil},
		{"no addresses", TBool, kernel, nil},
		{"enum and number", colour, user, colour.WithSpace(User)},
		{"tuple", MakeTuple(kernel, TInt8), MakeTuple(user, TInt8), MakeTuple(TInt64.WithSpace(Either), TInt8)},
		{"equal tuples", MakeTuple(kernel), MakeTuple(kernel), nil},
		{"tuples that differ", MakeTuple(kernel), MakeTuple(user, user), nil},
		{"record in another order", MakeRecord(Field{"a", kernel}, Field{"b", TInt64}), MakeRecord(Field{"b", user}, Field{"a", kernel}), MakeRecord(Field{"a", kernel}, Field{"b", user})},
		{"records that differ", MakeRecord(Field{"a", kernel}), MakeRecord(Field{"b", user}), nil},
		{"tuple and number", MakeTuple(kernel), user, nil},
	} {
		want := c.want
		if want == nil {
			want = c.t
		}
		got := c.t.JoinSpaces(c.from)
		if got.String() != want.String() || !SameSpaces(got, want) || c.want == nil && got != c.t {
			t.Errorf("%s: %v of %v, want %v of %v", c.what, got, got.Space, want, want.Space)
		}
	}
	for _, c := range []struct {
		t    *Type
		want bool
	}{{TInt8, true}, {MakePointer(TInt8, User), true}, {colour, true}, {pair, true}, {MakeArray(TInt8, 2), true}, {TBool, false}, {MakeString(2), false}, {TKsym, false}} {
		if c.t.HasSpace() != c.want || c.t.WithSpace(User).Space == User != c.want {
			t.Errorf("%s: has a space %v", c.t, c.t.HasSpace())
		}
	}
}
