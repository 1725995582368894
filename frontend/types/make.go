// SPDX-License-Identifier: Apache-2.0

package types

import (
	"fmt"
	"math"
)

// The types without parameters. They are never modified.
var (
	TInvalid    = &Type{Kind: Invalid}
	TNone       = &Type{Kind: None}
	TBool       = &Type{Kind: Bool, Size: 1}
	TInt8       = &Type{Kind: Int, Size: 1, Signed: true}
	TChar       = &Type{Kind: Int, Size: 1, Signed: true} // C's char: an int8 whose arrays are strings
	TInt16      = &Type{Kind: Int, Size: 2, Signed: true}
	TInt32      = &Type{Kind: Int, Size: 4, Signed: true}
	TInt64      = &Type{Kind: Int, Size: 8, Signed: true}
	TUint8      = &Type{Kind: Int, Size: 1}
	TUint16     = &Type{Kind: Int, Size: 2}
	TUint32     = &Type{Kind: Int, Size: 4}
	TUint64     = &Type{Kind: Int, Size: 8}
	TKsym       = &Type{Kind: Ksym, Size: 8}
	TUsym       = &Type{Kind: Usym, Size: 16}
	TInet       = &Type{Kind: Inet, Size: 20}
	TMac        = &Type{Kind: Mac, Size: 6}
	TUsername   = &Type{Kind: Username, Size: 8}
	TCgroupPath = &Type{Kind: CgroupPath, Size: 8}
	TProbe      = &Type{Kind: Probe, Size: 8}
	TFunc       = &Type{Kind: Func}
)

// MakeInt returns the integer type of size bytes (1, 2, 4, 8).
func MakeInt(size int, signed bool) *Type {
	for _, t := range []*Type{TInt8, TInt16, TInt32, TInt64, TUint8, TUint16, TUint32, TUint64} {
		if t.Size == size && t.Signed == signed {
			return t
		}
	}
	return &Type{Kind: Int, Size: size, Signed: signed} // __int128 members: never read
}

// MakeString returns string[n].
func MakeString(n int) *Type { return &Type{Kind: String, Size: n} }

// MakeBuffer returns buffer[n].
func MakeBuffer(n int) *Type { return &Type{Kind: Buffer, Size: n} }

// MakePointer returns "elem *", a pointer into space.
func MakePointer(elem *Type, space Space) *Type {
	return &Type{Kind: Pointer, Size: 8, Elem: elem, Space: space}
}

// MakeArray returns elem[n].
func MakeArray(elem *Type, n int) *Type {
	return &Type{Kind: Array, Size: n * elem.Size, Elem: elem, Len: n}
}

// MakeChars returns elem[n], an array that is read as a string if its elements are one-byte integers.
func MakeChars(elem *Type, n int, chars CharArray) *Type {
	t := MakeArray(elem, n)
	if elem.Kind == Int && elem.Size == 1 {
		t.Chars = chars
	}
	return t
}

// MakeStruct returns the struct or union itself.
func MakeStruct(c *Composite) *Type { return &Type{Kind: Struct, Size: c.Size, Comp: c} }

// MakeEnum returns the enum, stored in size bytes.
func MakeEnum(e *EnumDef, size int, signed bool) *Type {
	return &Type{Kind: Enum, Size: size, Signed: signed, Enum: e}
}

// MakeTuple returns the tuple (elems...).
func MakeTuple(elems ...*Type) *Type {
	fields := make([]Field, len(elems))
	for i, e := range elems {
		fields[i].Type = e
	}
	return aggregate(Tuple, fields)
}

// MakeRecord returns a record of the fields.
func MakeRecord(fields ...Field) *Type { return aggregate(Record, fields) }

// tupleAlign returns the alignment of a value in a tuple or record, for sizeof. It is the natural one, but as in bpftrace
// 0.27.1 it is 8 for a struct or union, whose size is then a multiple of 8, and the size for what has one or two bytes,
// also in an array.
func (t *Type) tupleAlign() int {
	switch {
	case t.Kind == Struct:
		return 8
	case t.Kind == Array && t.Size > 0 && t.Size <= 2:
		return t.Size
	case t.Kind == Array:
		return t.Elem.tupleAlign()
	}
	return t.Align()
}

// aggregate lays out fields by their alignment, for sizeof.
func aggregate(k Kind, fields []Field) *Type {
	t := &Type{Kind: k, Fields: fields, align: 1}
	for _, f := range fields {
		a := f.Type.tupleAlign()
		t.align = max(t.align, a)
		size := f.Type.Sizeof()
		if f.Type.Kind == Struct {
			size = roundUp(size, a)
		}
		t.Size = roundUp(t.Size, a) + size
		t.parts += f.Type.Parts()
	}
	t.Size = roundUp(t.Size, t.align)
	t.store = storeFields(fields)
	return t
}

// Limits on values: larger ones fit in no record or map of an object. A type may contain the same part many times, so
// a short script can describe a huge one: whoever makes a type must call TooLarge before anything walks it.
const (
	MaxSize  = 1 << 20 // bytes in storage
	MaxParts = 1 << 14 // integers, strings, structs, ... in it, including nested ones
)

// TooLarge returns why values of t exceed the limits, or "".
func (t *Type) TooLarge() string {
	if n := t.Parts(); n > MaxParts {
		return fmt.Sprintf("a value has more than %d parts", MaxParts)
	}
	if n := t.Store().Size; n > MaxSize {
		return fmt.Sprintf("value too large: %d bytes (max %d)", n, MaxSize)
	}
	return ""
}

// Parts returns the number of types in t: t itself and those of its elements and members, counted at each occurrence;
// the elements of an array count once. It is at most MaxParts+1.
func (t *Type) Parts() int {
	n := 1 + t.parts
	switch t.Kind {
	case Array:
		n += t.Elem.Parts()
	case Struct:
		n += t.Comp.memberParts()
	}
	return min(n, MaxParts+1)
}

// MakeStack returns the type of a stack of at most depth frames.
func MakeStack(user bool, mode string, depth int) *Type {
	t := &Type{Kind: Kstack, Mode: mode, Depth: depth, Size: 8 + 8*depth}
	if user {
		t.Kind, t.Size = Ustack, 16+8*depth
	}
	return t
}

// MakeTimestamp returns the type of a timestamp of a clock, printed with a strftime format. From is as Type.FormatFrom.
func MakeTimestamp(format, from string, clock int) *Type {
	return &Type{Kind: Timestamp, Size: 16, Format: format, FormatFrom: from, Clock: clock}
}

// MakeCgroupPath returns the type of a cgroup by its id; it prints the paths in the
// hierarchies that filter, a pattern, matches ("" for all). From is as Type.FormatFrom.
func MakeCgroupPath(filter, from string) *Type {
	return &Type{Kind: CgroupPath, Size: 8, Format: filter, FormatFrom: from}
}

// MakeAgg returns an aggregation type; signed is the signedness of its argument.
func MakeAgg(k Kind, signed bool) *Type { return &Type{Kind: k, Size: 8, Signed: signed} }

// Literal returns the type of a non-negative integer literal: the smallest signed type that fits it, with flexible
// sign; uint64 above the range of int64.
func Literal(n uint64) *Type {
	if n > math.MaxInt64 {
		return TUint64
	}
	t := *ofValue(int64(n))
	t.Flexible = true
	return &t
}

// NegativeLiteral returns the type of a folded negative number: the smallest signed
// type that fits it.
func NegativeLiteral(n int64) *Type { return ofValue(n) }

func ofValue(n int64) *Type {
	switch {
	case n >= math.MinInt8 && n <= math.MaxInt8:
		return TInt8
	case n >= math.MinInt16 && n <= math.MaxInt16:
		return TInt16
	case n >= math.MinInt32 && n <= math.MaxInt32:
		return TInt32
	}
	return TInt64
}

// HasSpace reports whether values of t come from an address space: pointers, numbers that
// may be addresses, and composites of these.
func (t *Type) HasSpace() bool {
	switch t.Kind {
	case Pointer, Int, Enum, Array, Struct:
		return true
	}
	return false
}

// WithSpace returns t in another address space, if it has one.
func (t *Type) WithSpace(s Space) *Type {
	if !t.HasSpace() || t.Space == s {
		return t
	}
	c := *t
	c.Space = s
	return &c
}

// JoinSpaces returns t with the address spaces of other joined to its own: the type of a variable after a value of type
// other is assigned.
func (t *Type) JoinSpaces(other *Type) *Type {
	if t.Kind != other.Kind || len(t.Fields) != len(other.Fields) {
		return t.joinScalar(other)
	}
	if len(t.Fields) == 0 {
		return t.WithSpace(t.Space.Join(other.Space))
	}
	from := other.Fields
	if t.Kind == Record {
		var ok bool
		if from, ok = reorder(t.Fields, from); !ok {
			return t
		}
	}
	fields, changed := make([]Field, len(t.Fields)), false
	for i, f := range t.Fields {
		fields[i] = Field{f.Name, f.Type.JoinSpaces(from[i].Type)}
		changed = changed || fields[i].Type != f.Type
	}
	if !changed {
		return t
	}
	c := *t
	c.Fields = fields
	return &c
}

// joinScalar joins the space of another kind of scalar, such as an enum with a number.
func (t *Type) joinScalar(other *Type) *Type {
	if len(t.Fields) > 0 || len(other.Fields) > 0 {
		return t
	}
	return t.WithSpace(t.Space.Join(other.Space))
}

// Fixed returns t without the flexible sign of a literal.
func (t *Type) Fixed() *Type {
	switch {
	case t.Flexible:
		return MakeInt(t.Size, t.Signed).WithSpace(t.Space)
	case t.Kind == Tuple || t.Kind == Record:
		fields, changed := make([]Field, len(t.Fields)), false
		for i, f := range t.Fields {
			fields[i] = Field{f.Name, f.Type.Fixed()}
			changed = changed || fields[i].Type != f.Type
		}
		if changed {
			return aggregate(t.Kind, fields)
		}
	}
	return t
}

// Sizeof returns the result of sizeof, in bytes: a buffer includes its length field.
func (t *Type) Sizeof() int {
	if t.Kind == Buffer {
		return t.Size + 4
	}
	return t.Size
}

// Align returns the natural alignment in bytes, as C and sizeof see it.
func (t *Type) Align() int {
	switch t.Kind {
	case Array:
		return t.Elem.Align()
	case Struct:
		return t.Comp.Alignment()
	case Tuple, Record:
		return max(1, t.align)
	case String, Buffer, Inet, Mac, None, Func, Invalid:
		return 1
	case Int, Bool, Enum, Float:
		return max(1, min(t.Size, 16))
	}
	return 8
}

func roundUp(n, a int) int { return (n + a - 1) / a * a }
