// SPDX-License-Identifier: Apache-2.0

package types

import (
	"fmt"
	"testing"
)

var (
	pair   = MakeStruct(&Composite{Tag: "pair", Size: 8, Align: 4, Load: func() []Member { return []Member{{Name: "a", Type: TInt32}, {Name: "b", Type: TInt32, Off: 4}} }})
	colour = MakeEnum(&EnumDef{Tag: "colour", Values: []EnumValue{{"RED", 0}}}, 4, false)
)

func TestString(t *testing.T) {
	tests := []struct {
		typ  *Type
		want string
	}{
		{TInt64, "int64"}, {TUint8, "uint8"}, {TBool, "bool"}, {TNone, "none"},
		{MakeString(5), "string[5]"}, {MakeString(0), "string"}, {MakeBuffer(8), "buffer[8]"},
		{MakePointer(pair, Kernel), "struct pair *"}, {MakePointer(MakePointer(TInt8, NoSpace), User), "int8 * *"},
		{MakeArray(TUint16, 3), "uint16[3]"}, {MakeArray(MakeArray(TInt8, 2), 3), "int8[2][3]"},
		{MakeTuple(TInt64, MakeString(5)), "(int64,string[5])"}, {MakeTuple(), "()"},
		{MakeRecord(Field{"a", TInt8}, Field{"b", TBool}), "record { .a = int8, .b = bool }"},
		{colour, "enum colour"}, {MakeAgg(Sum, false), "usum_t"}, {MakeAgg(Count, false), "count_t"},
		{MakeStruct(&Composite{Union: true}), "union {...}"}, {TKsym, "ksym_t"}, {MakeStack(true, "perf", 3), "ustack"},
	}
	for _, tt := range tests {
		if got := tt.typ.String(); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}

func TestPromote(t *testing.T) {
	tests := []struct {
		a, b *Type
		want string // "" if the types cannot be promoted
	}{
		{TInt8, TInt32, "int32"}, {TUint8, TUint64, "uint64"},
		{TInt8, TUint8, "int16"}, {TInt32, TUint32, "int64"}, {TInt64, TUint32, "int64"},
		{TInt64, TUint64, "int64 lossy"}, {TInt32, TUint64, "int64 lossy"},
		{Literal(1), TUint64, "uint64"}, {TUint8, Literal(300), "uint16"}, {Literal(1), TInt8, "int8"},
		{Literal(1), Literal(300), "int16"}, {NegativeLiteral(-1), TUint8, "int16"},
		{colour, colour, "enum colour"}, {colour, TInt8, "int64"},
		{MakeString(3), MakeString(9), "string[9]"}, {MakeString(3), TInt8, ""}, {TBool, TInt8, ""},
		{MakePointer(pair, Kernel), MakePointer(pair, User), "struct pair *"},
		{MakePointer(pair, Kernel), MakePointer(TNone, Kernel), "struct pair *"},
		{MakePointer(pair, Kernel), MakePointer(TInt8, Kernel), ""},
		{MakeTuple(TInt8, MakeString(2)), MakeTuple(TInt64, MakeString(4)), "(int64,string[4])"},
		{MakeTuple(TInt8), MakeTuple(TInt8, TInt8), ""},
		{MakeRecord(Field{"a", TInt8}, Field{"b", TBool}), MakeRecord(Field{"b", TBool}, Field{"a", TInt16}), "record { .a = int16, .b = bool }"},
		{MakeRecord(Field{"a", TInt8}), MakeRecord(Field{"b", TInt8}), ""},
		{MakeStack(false, "perf", 3), MakeStack(false, "perf", 3), "kstack"},
		{MakeStack(false, "perf", 3), MakeStack(false, "perf", 5), ""},
		{MakeStack(false, "perf", 3), MakeStack(false, "raw", 3), ""},
		{pair, pair, "struct pair"}, {TInvalid, TInt8, "int8"}, {nil, TInt8, "int8"},
	}
	for _, tt := range tests {
		p, ok := Promote(tt.a, tt.b)
		got := ""
		if ok {
			got = p.Type.String()
		}
		if p.Lossy {
			got += " lossy"
		}
		if got != tt.want {
			t.Errorf("Promote(%s, %s) = %q, want %q", tt.a, tt.b, got, tt.want)
		}
		if back, ok2 := Promote(tt.b, tt.a); ok2 != ok || ok && tt.a != nil && tt.a.Kind != Record && back.Type.String() != p.Type.String() {
			t.Errorf("Promote(%s, %s) depends on the order", tt.a, tt.b)
		}
	}
}

func TestFitsInto(t *testing.T) {
	tests := []struct {
		from, to *Type
		want     bool
	}{
		{TInt8, TInt64, true}, {TInt64, TInt8, false}, {TUint32, TInt64, true}, {TUint32, TInt32, false}, {TInt8, TUint8, false},
		{Literal(5), TUint8, true}, {Literal(300), TUint8, false}, {MakeString(3), MakeString(5), true}, {MakeString(5), MakeString(3), false},
		{MakeTuple(TInt8), MakeTuple(TInt16), true}, {MakeTuple(TInt16), MakeTuple(TInt8), false}, {TBool, TInt8, false},
	}
	for _, tt := range tests {
		if got := tt.from.FitsInto(tt.to); got != tt.want {
			t.Errorf("FitsInto(%s, %s) = %v", tt.from, tt.to, got)
		}
	}
}

// TestStore checks the storage of types against docs/layouts.md, and their sizes against C.
func TestStore(t *testing.T) {
	tests := []struct {
		typ         *Type
		size, align int // in storage
		offsets     string
		sizeof      int
	}{
		{TInt8, 8, 8, "[]", 1}, {TBool, 8, 8, "[]", 1}, {MakePointer(pair, Kernel), 8, 8, "[]", 8},
		{MakeString(16), 16, 1, "[]", 16}, {MakeBuffer(10), 14, 4, "[]", 10},
		{MakeTuple(TUint32, MakeString(16)), 24, 8, "[0 8]", 20},
		{MakeTuple(MakeString(3), TInt8), 16, 8, "[0 8]", 4},
		{MakeTuple(TInt8, TInt64, TInt8, TInt64), 32, 8, "[0 8 16 24]", 32},
		{MakeTuple(TInt8, MakeTuple(MakeString(5), TInt8)), 24, 8, "[0 8]", 7},
		{MakeTuple(TInt8, pair), 16, 8, "[0 8]", 16}, {MakeTuple(TInt8, MakeArray(TUint8, 2)), 16, 8, "[0 8]", 4},
		{MakeTuple(TInt8, MakeArray(TUint8, 3)), 16, 8, "[0 8]", 4}, {MakeTuple(TInt8, MakeArray(MakeArray(TUint8, 2), 2)), 16, 8, "[0 8]", 6},
		{MakeTuple(), 8, 8, "[]", 0},
		{MakeArray(TInt32, 3), 12, 4, "[]", 12}, {pair, 8, 4, "[]", 8},
		{MakeStack(false, "bpftrace", 127), 8, 8, "[]", 1024}, {MakeStack(true, "bpftrace", 127), 16, 8, "[]", 1032},
		{TKsym, 8, 8, "[]", 8}, {TUsym, 16, 8, "[]", 16}, {TInet, 24, 8, "[]", 20},
	}
	for _, tt := range tests {
		s := tt.typ.Store()
		if s.Size != tt.size || s.Align != tt.align || fmt.Sprint(s.Offsets) != tt.offsets {
			t.Errorf("%s is stored as %+v, want %d %d %s", tt.typ, s, tt.size, tt.align, tt.offsets)
		}
		if tt.typ.Size != tt.sizeof {
			t.Errorf("sizeof(%s) = %d, want %d", tt.typ, tt.typ.Size, tt.sizeof)
		}
	}
}

func TestFind(t *testing.T) {
	inner := MakeStruct(&Composite{Size: 8, Align: 4, Load: func() []Member { return []Member{{Name: "x", Type: TInt32}, {Name: "y", Type: TInt32, Off: 4}} }})
	outer := &Composite{Tag: "o", Size: 12, Align: 4, Load: func() []Member { return []Member{{Name: "a", Type: TInt32}, {Type: inner, Off: 4}} }}
	if m, ok := outer.Find("y"); !ok || m.Off != 8 {
		t.Errorf("Find(y): offset %d (%v), want 8", m.Off, ok)
	}
	if got := fmt.Sprint(outer.Names()); got != "[a x y]" {
		t.Errorf("names = %s", got)
	}
	if _, ok := outer.Find(""); ok {
		t.Error("found a member with an empty name")
	}
}

func TestSpaces(t *testing.T) {
	kernel, user := TInt64.WithSpace(Kernel), TUint64.WithSpace(User)
	ptr := func(s Space) *Type { return MakePointer(TInt8, s) }
	for _, c := range []struct {
		a, b *Type
		want Space
	}{
		{TInt64, TInt64, NoSpace},
		{Literal(0), kernel, Kernel},
		{kernel, TUint8, Kernel},
		{kernel, kernel, Kernel},
		{kernel, TInt64.WithSpace(User), Either},
		{TInt64.WithSpace(Either), kernel, Either},
		{ptr(User), ptr(User), User},
		{ptr(NoSpace), ptr(User), User},
		{ptr(Kernel), ptr(User), Either},
		{MakePointer(TNone, Kernel), ptr(User), Either},
	} {
		for _, order := range [][2]*Type{{c.a, c.b}, {c.b, c.a}} {
			p, ok := Promote(order[0], order[1])
			if !ok || p.Type.Space != c.want {
				t.Errorf("Promote(%s of %s, %s of %s) has space %s, want %s", order[0], order[0].Space, order[1], order[1].Space, p.Type.Space, c.want)
			}
		}
	}
	if TInt64.Space != NoSpace {
		t.Error("WithSpace changed its receiver")
	}
	a, b := MakeTuple(kernel, ptr(User)), MakeTuple(TInt8, ptr(Kernel))
	p, ok := Promote(a, b)
	if !ok || p.Type.Fields[0].Type.Space != Kernel || p.Type.Fields[1].Type.Space != Either {
		t.Errorf("Promote of tuples = %v", p.Type)
	}
	if !SameSpaces(a, MakeTuple(kernel, ptr(User))) || SameSpaces(a, p.Type) || SameSpaces(kernel, user) {
		t.Error("SameSpaces ignores the elements")
	}
}

// TestKinds checks the predicates at the ends of their ranges of kinds.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		kind                     Kind
		integer, agg, isReadable bool
	}{
		{Invalid, false, false, false}, {None, false, false, false}, {Int, true, false, false}, {Bool, true, false, false}, {Enum, true, false, false},
		{String, false, false, false}, {Probe, false, false, false}, {Count, false, true, true}, {Sum, false, true, true}, {Avg, false, true, true},
		{Stats, false, true, false}, {Hist, false, true, false}, {Tseries, false, true, false},
	} {
		x := &Type{Kind: c.kind}
		if x.IsInteger() != c.integer || x.IsAgg() != c.agg || x.IsReadable() != c.isReadable {
			t.Errorf("kind %d: integer %v, aggregation %v, readable %v", c.kind, x.IsInteger(), x.IsAgg(), x.IsReadable())
		}
	}
}
