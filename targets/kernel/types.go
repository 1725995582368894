// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strconv"
	"strings"

	"btc/targets/targetfile"
)

// Kind says what a Type is.
type Kind uint8

const (
	Void    Kind = iota // also for types that the target does not describe
	Int                 // Name, Size, Signed, Bool, Char
	Float               // Name, Size; BPF cannot compute with it
	Pointer             // Elem is the pointee; Size 8
	Array               // Len elements of Elem; a flexible array has Len 0
	Struct              // Name (or "" if anonymous), Size, Members
	Union               // as Struct, but Members overlap
	Enum                // Name (or ""), Size, Signed, Enumerators
	Typedef             // Name; Elem is the aliased type; Size is the aliased type's
	Func                // prototype: Params, Variadic, Elem is the type of the return value
	Forward             // struct or union that is declared but not defined: Name, no size
)

// Type is one type of the target's kernel. const, volatile and restrict are
// not represented. Two Types of one Target are the same type if and only if
// their pointers are equal (kernels may hold several different structs of one
// name; those are different Types).
//
// The fields are read-only and complete; types that a type refers to are decoded on demand
// (Elem, Member.Type, Param.Type).
type Type struct {
	Kind   Kind
	Name   string // tag, typedef name or integer name; "" when anonymous
	Size   int    // in bytes; 0 for void, functions, forwards and flexible arrays
	Signed bool   // Int and Enum; plain char is unsigned in kernels since 6.2
	Bool   bool   // Int: _Bool
	Char   bool   // Int: char, signed char or unsigned char (by name), size 1
	User   bool   // Pointer: to user space, where BTF says so (type tag "user"; absent from kernels built by GCC before 16)
	Len    int    // Array

	Members     []Member     // Struct, Union
	Enumerators []Enumerator // Enum
	Params      []Param      // Func
	Variadic    bool         // Func: ends in ...

	// InModule: a named type of a module, which hosts have only while it is loaded.
	InModule bool

	t    *Target
	elem targetfile.Ref // Pointer, Array, Typedef, Func
	made *Type          // elem of a type made by PointerTo or ArrayOf
}

// Member is one member of a struct or union, in declaration order: its index
// in Members is the index in CO-RE access strings.
type Member struct {
	Name      string // "" for an anonymous struct or union
	BitOffset int    // from the start of the struct, in bits
	BitSize   int    // width of a bitfield in bits, 0 for other members

	t   *Target
	ref targetfile.Ref
}

// Enumerator is one constant of an enum. Unsigned values above the int64 range
// wrap.
type Enumerator struct {
	Name  string
	Value int64
}

// Param is one parameter of a function prototype.
type Param struct {
	Name string // "" if BTF has none

	t   *Target
	ref targetfile.Ref
}

// Field is a member found by name in a struct or union, including its anonymous members.
type Field struct {
	Name string
	Type *Type

	// Offset is in bytes from the start of the struct that was searched. For a
	// bitfield it is that of the aligned storage unit (Type.Size bytes) that
	// holds the first bit.
	Offset int
	// BitOffset and BitSize place a bitfield within its storage unit, counted
	// from the least significant bit (little endian). BitSize is 0 for a field
	// that is not a bitfield.
	BitOffset int
	BitSize   int

	// Path holds the member indexes from the searched struct down to the field:
	// one for a direct member, more through anonymous members. A CO-RE access
	// string is "0" followed by ":i" for each.
	Path []int
}

// typ returns the type of a reference, always the same pointer for the same reference. A
// damaged record becomes Void and its error is kept for Err. The caller holds t.mu.
func (t *Target) typ(r targetfile.Ref) *Type {
	if typ, ok := t.types[r]; ok {
		return typ
	}
	var typ *Type
	switch {
	case r.Pointers() > 0:
		typ = &Type{Kind: Pointer, Size: 8, t: t, elem: r - 1}
	case r == 0:
		typ = &Type{Kind: Void, t: t}
	default:
		rec, err := t.file.Type(r)
		if err != nil {
			t.fail(err)
			rec = targetfile.Type{}
		}
		typ = t.build(&rec)
	}
	t.types[r] = typ
	return typ
}

var kinds = [...]Kind{
	targetfile.Int: Int, targetfile.Float: Float, targetfile.Pointer: Pointer, targetfile.Array: Array,
	targetfile.Struct: Struct, targetfile.Union: Union, targetfile.Enum: Enum, targetfile.Typedef: Typedef,
	targetfile.Proto: Func, targetfile.Forward: Forward,
}

func (t *Target) build(rec *targetfile.Type) *Type {
	typ := &Type{
		Kind: kinds[rec.Kind], Name: rec.Name, Size: rec.Size, Len: rec.Len,
		Signed:   rec.Flags&targetfile.Signed != 0,
		Bool:     rec.Flags&targetfile.Bool != 0,
		User:     rec.Flags&targetfile.User != 0,
		Variadic: rec.Flags&targetfile.Variadic != 0,
		InModule: rec.Flags&targetfile.InModule != 0,
		t:        t, elem: rec.Elem,
	}
	typ.Char = typ.Kind == Int && typ.Size == 1 && strings.Contains(typ.Name, "char")
	for _, m := range rec.Members {
		typ.Members = append(typ.Members, Member{m.Name, m.BitOffset, m.BitSize, t, m.Type})
	}
	for _, e := range rec.Enumerators {
		typ.Enumerators = append(typ.Enumerators, Enumerator(e))
	}
	for _, p := range rec.Params {
		typ.Params = append(typ.Params, Param{p.Name, t, p.Type})
	}
	return typ
}

func (t *Target) ref(r targetfile.Ref) *Type {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.typ(r)
}

// Type returns the member's type.
func (m Member) Type() *Type { return m.t.ref(m.ref) }

// Type returns the parameter's type.
func (p Param) Type() *Type { return p.t.ref(p.ref) }

// Elem returns what a pointer points to, an array's element type, a typedef's aliased type, a
// function's return type. It is nil for other kinds.
func (typ *Type) Elem() *Type {
	switch typ.Kind {
	case Pointer, Array, Typedef, Func:
		if typ.made != nil {
			return typ.made
		}
		return typ.t.ref(typ.elem)
	}
	return nil
}

// Resolve returns the type without typedefs.
func (typ *Type) Resolve() *Type {
	for range 64 { // hostile files may contain cycles
		if typ.Kind != Typedef {
			return typ
		}
		typ = typ.Elem()
	}
	return &Type{Kind: Void, t: typ.t}
}

// PointerTo makes a pointer type. It is a new type each time: compare its Elem.
func PointerTo(elem *Type) *Type {
	return &Type{Kind: Pointer, Size: 8, t: elem.t, made: elem}
}

// ArrayOf makes an array type; see PointerTo.
func ArrayOf(elem *Type, n int) *Type {
	return &Type{Kind: Array, Size: n * elem.Size, Len: n, t: elem.t, made: elem}
}

// Align returns the type's natural alignment in bytes, at least 1. BTF does not record it: for a
// struct it is the largest member alignment that the struct's size and the members' offsets
// agree with, so that packed structs get 1.
func (typ *Type) Align() int {
	budget := visitBudget
	return typ.align(&budget)
}

// visitBudget bounds how many types one walk visits: in a hostile file a type may contain
// itself.
const visitBudget = 1 << 14

func (typ *Type) align(budget *int) int {
	if *budget--; *budget < 0 {
		return 1
	}
	switch typ.Kind {
	case Int, Float, Pointer, Enum:
		return max(1, min(typ.Size, 16))
	case Array, Typedef:
		return typ.Elem().align(budget)
	case Struct, Union:
		a := 1
		for _, m := range typ.Members {
			n := m.Type().align(budget)
			if typ.Size%n != 0 || m.BitSize == 0 && m.BitOffset%(8*n) != 0 {
				return 1
			}
			a = max(a, n)
		}
		return a
	}
	return 1
}

// Slot returns the number of 8-byte words before parameter i of a function in the
// context of a tracing program; with i the number of parameters, before the
// return value. A struct by value takes more than one.
func (typ *Type) Slot(i int) int {
	n := 0
	for _, p := range typ.Params[:i] {
		n += max(1, (p.Type().Resolve().Size+7)/8)
	}
	return n
}

// String returns the type in C without a name: "struct task_struct *", "char[16]",
// "u32", "int (struct sock *, size_t)".
func (typ *Type) String() string { return typ.text(0) }

func (typ *Type) text(depth int) string {
	if depth > 16 {
		return "..."
	}
	elem := func() string { return typ.Elem().text(depth + 1) }
	switch typ.Kind {
	case Void:
		return "void"
	case Pointer:
		e := elem()
		if !strings.HasSuffix(e, "*") {
			e += " "
		}
		return e + "*"
	case Array:
		return elem() + "[" + strconv.Itoa(typ.Len) + "]"
	case Struct, Union, Enum, Forward:
		return tagged(typ)
	case Func:
		var params []string
		for _, p := range typ.Params {
			params = append(params, p.Type().text(depth+1))
		}
		if typ.Variadic {
			params = append(params, "...")
		}
		return elem() + " (" + strings.Join(params, ", ") + ")"
	}
	return typ.Name
}

func tagged(typ *Type) string {
	word := "struct "
	switch typ.Kind {
	case Union:
		word = "union "
	case Enum:
		word = "enum "
	}
	if typ.Name == "" {
		return word + "{...}"
	}
	return word + typ.Name
}
