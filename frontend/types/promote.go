// SPDX-License-Identifier: Apache-2.0

package types

// Equal reports whether a and b are the same type. The sign flexibility of literals and address spaces are ignored.
func Equal(a, b *Type) bool {
	if a == b {
		return true
	}
	if a.Kind != b.Kind || a.Len != b.Len || len(a.Fields) != len(b.Fields) {
		return false
	}
	switch a.Kind {
	case Int, Sum, Min, Max, Avg, Stats, Float:
		return a.Size == b.Size && a.Signed == b.Signed
	case String, Buffer:
		return a.Size == b.Size
	case Enum:
		return SameEnum(a, b)
	case Struct:
		return sameComposite(a.Comp, b.Comp)
	case Pointer, Array:
		return Equal(a.Elem, b.Elem)
	case Tuple, Record:
		for i := range a.Fields {
			if a.Fields[i].Name != b.Fields[i].Name || !Equal(a.Fields[i].Type, b.Fields[i].Type) {
				return false
			}
		}
	case Kstack, Ustack:
		return a.Depth == b.Depth && a.Mode == b.Mode
	case Timestamp, CgroupPath:
		return a.Format == b.Format && a.FormatFrom == b.FormatFrom && a.Clock == b.Clock
	}
	return true
}

// SameEnum reports whether two Enum types are the same enum.
func SameEnum(a, b *Type) bool {
	return a.Kind == Enum && b.Kind == Enum && (a.Enum == b.Enum || a.Enum.Tag != "" && a.Enum.Tag == b.Enum.Tag)
}

func sameComposite(a, b *Composite) bool {
	if a == b {
		return true
	}
	return a.Tag != "" && a.Tag == b.Tag && a.Union == b.Union && a.CORE == b.CORE
}

// Promotion is the outcome of Promote.
type Promotion struct {
	Type *Type
	// Lossy is set if signed and unsigned 64-bit integers are joined in an int64.
	Lossy bool
}

// Promote finds the common type of both, for all assignments to one variable, map value or
// key, and for the branches of a ternary: integers grow, strings take the larger capacity,
// tuples do both element by element. Stacks of different depth or mode are incompatible:
// their frames are stored separately. A nil type imposes no constraint. ok is false for
// incompatible types.
//
// The address spaces are joined, see Space.Join.
func Promote(a, b *Type) (p Promotion, ok bool) {
	p, ok = promote(a, b)
	if ok && a != nil && b != nil && a != b {
		p.Type = p.Type.JoinSpaces(a).JoinSpaces(b)
	}
	return p, ok
}

func promote(a, b *Type) (p Promotion, ok bool) {
	switch {
	case a == nil:
		return Promotion{Type: b}, true
	case b == nil || a == b:
		return Promotion{Type: a}, true
	case a.Kind == Invalid:
		return Promotion{Type: b}, true
	case b.Kind == Invalid:
		return Promotion{Type: a}, true
	case a.Kind == Enum && b.Kind == Enum && SameEnum(a, b):
		return Promotion{Type: larger(a, b)}, true
	case a.isNumber() && b.isNumber():
		return promoteInt(a.number(), b.number()), true
	case a.Kind != b.Kind || len(a.Fields) != len(b.Fields):
		return p, false
	}
	switch a.Kind {
	case String, Buffer:
		t := larger(a, b)
		raw, full := a.Raw || b.Raw, a.Full && a.Size == t.Size || b.Full && b.Size == t.Size
		if t.Raw != raw || t.Full != full {
			both := *t
			both.Raw, both.Full, t = raw, full, &both
		}
		return Promotion{Type: t}, true
	case Tuple:
		return promoteFields(a, b.Fields)
	case Record:
		fields, ok := reorder(a.Fields, b.Fields)
		if !ok {
			return p, false
		}
		return promoteFields(a, fields)
	case Pointer:
		return promotePointer(a, b)
	}
	return Promotion{Type: a}, Equal(a, b)
}

func (t *Type) isNumber() bool { return t.Kind == Int || t.Kind == Enum }

// SameSpaces reports whether a and b, which are Equal, have the same address spaces.
func SameSpaces(a, b *Type) bool { return a == b || a.JoinSpaces(b) == a && b.JoinSpaces(a) == b }

// number returns the plain integer type of an enum.
func (t *Type) number() *Type {
	if t.Kind == Enum {
		return MakeInt(t.Size, t.Signed)
	}
	return t
}

func larger(a, b *Type) *Type {
	if b.Size > a.Size {
		return b
	}
	return a
}

// promotePointer merges pointers to the same type; void * becomes the other type.
func promotePointer(a, b *Type) (Promotion, bool) {
	switch {
	case a.Elem.Kind == None:
		return Promotion{Type: b}, true
	case b.Elem.Kind == None || Equal(a.Elem, b.Elem):
		return Promotion{Type: a}, true
	}
	return Promotion{}, false
}

func promoteFields(a *Type, other []Field) (p Promotion, ok bool) {
	fields := make([]Field, len(a.Fields))
	for i, f := range a.Fields {
		q, ok := promote(f.Type, other[i].Type)
		if !ok {
			return p, false
		}
		fields[i] = Field{f.Name, q.Type}
		p.Lossy = p.Lossy || q.Lossy
	}
	p.Type = aggregate(a.Kind, fields)
	return p, true
}

// reorder puts a record's fields in the order of another record with the same names.
func reorder(order, fields []Field) ([]Field, bool) {
	out := make([]Field, len(order))
	for i, o := range order {
		found := false
		for _, f := range fields {
			if f.Name == o.Name {
				out[i], found = f, true
			}
		}
		if !found {
			return nil, false
		}
	}
	return out, true
}

// promoteInt returns the common type of two integers: the larger of two with the same sign; for
// different signs the smallest signed type that fits both, or int64 (lossy) if none does.
func promoteInt(a, b *Type) Promotion {
	size := max(a.Size, b.Size)
	switch {
	case a.Signed == b.Signed && a.Flexible && b.Flexible:
		return Promotion{Type: larger(a, b)}
	case a.Flexible && !b.Flexible:
		return Promotion{Type: MakeInt(size, b.Signed)}
	case b.Flexible && !a.Flexible:
		return Promotion{Type: MakeInt(size, a.Signed)}
	case a.Signed == b.Signed:
		return Promotion{Type: MakeInt(size, a.Signed)}
	}
	signed, uns := a, b
	if b.Signed {
		signed, uns = b, a
	}
	if signed.Size > uns.Size {
		return Promotion{Type: MakeInt(signed.Size, true)}
	}
	if uns.Size < 8 {
		return Promotion{Type: MakeInt(2*uns.Size, true)}
	}
	return Promotion{Type: TInt64, Lossy: true}
}

// FitsInto reports whether every value of t is a value of to, so that it can be assigned to a variable declared as
// to.
func (t *Type) FitsInto(to *Type) bool {
	if t.Kind == Invalid || to.Kind == Invalid {
		return true
	}
	if t.isNumber() && to.Kind == Int {
		switch {
		case t.Signed == to.Signed || t.Flexible:
			return t.Size <= to.Size
		case !t.Signed:
			return t.Size < to.Size
		}
		return false
	}
	if t.Kind == to.Kind && (t.Kind == String || t.Kind == Buffer) {
		return to.Size == 0 || t.Size <= to.Size
	}
	if t.Kind == to.Kind && (t.Kind == Tuple || t.Kind == Record) {
		return t.fieldsFit(to)
	}
	if t.Kind == Pointer && to.Kind == Pointer {
		return t.Elem.Kind == None || to.Elem.Kind == None || Equal(t.Elem, to.Elem)
	}
	return Equal(t, to)
}

func (t *Type) fieldsFit(to *Type) bool {
	if len(t.Fields) != len(to.Fields) {
		return false
	}
	fields, ok := t.Fields, true
	if t.Kind == Record {
		if fields, ok = reorder(to.Fields, t.Fields); !ok {
			return false
		}
	}
	for i := range fields {
		if !fields[i].Type.FitsInto(to.Fields[i].Type) {
			return false
		}
	}
	return true
}
