// SPDX-License-Identifier: Apache-2.0

package ir

import "fmt"

// TypeKind is the kind of an IR value.
type TypeKind uint8

// The kinds. Pointer kinds carry the provenance that the kernel verifier
// tracks; kaddr, uaddr and addr are plain numbers to it, readable through helpers
// only.
const (
	Void    TypeKind = iota // no value
	I1                      // truth value: result of icmp, operand of br and select
	I64                     // any integer; signless
	Ctx                     // the program's context
	Stack                   // into a Slot of this function (frame or scratch)
	MapVal                  // into a value of map Sym
	Ringbuf                 // into a reserved ring-buffer record of N bytes
	BTF                     // trusted kernel pointer to "struct Sym": direct loads
	KAddr                   // kernel address
	UAddr                   // user-space address
	Addr                    // address of the kernel or of user space, as its value tells
	MapKey                  // into the key of an element of map Sym, read-only: the current one of an iteration (mapnext)
	MapRef                  // a map itself (helper argument)
	FuncRef                 // a subprogram (helper callback argument)
)

// Type is the type of a Value. It is comparable.
type Type struct {
	Kind     TypeKind
	Nullable bool   // printed as a trailing "?": must be tested before a load
	Sym      string // MapVal, MapKey: map name ("@x"); BTF: "struct x"; otherwise ""
	N        int    // Ringbuf: record size in bytes; otherwise 0
}

// The types without parameters.
var (
	TVoid    = Type{Kind: Void}
	TI1      = Type{Kind: I1}
	TI64     = Type{Kind: I64}
	TCtx     = Type{Kind: Ctx}
	TStack   = Type{Kind: Stack}
	TKAddr   = Type{Kind: KAddr}
	TUAddr   = Type{Kind: UAddr}
	TAddr    = Type{Kind: Addr}
	TMapRef  = Type{Kind: MapRef}
	TFuncRef = Type{Kind: FuncRef}
)

// TMapVal returns the type of a pointer into a value of the map called name; nullable after a lookup.
func TMapVal(name string, nullable bool) Type {
	return Type{Kind: MapVal, Sym: name, Nullable: nullable}
}

// TMapKey returns the type of a pointer to the key of the current element in an iteration over the map called name.
func TMapKey(name string) Type { return Type{Kind: MapKey, Sym: name} }

// TRingbuf returns the type of a pointer to a reserved record of n bytes; nullable after the reserve.
func TRingbuf(n int, nullable bool) Type { return Type{Kind: Ringbuf, N: n, Nullable: nullable} }

// TBTF returns the type of a trusted pointer to the kernel type called name ("struct task_struct").
func TBTF(name string, nullable bool) Type { return Type{Kind: BTF, Sym: name, Nullable: nullable} }

// NonNull returns t without Nullable.
func (t Type) NonNull() Type { t.Nullable = false; return t }

// IsPtr reports whether the kernel verifier tracks values of t as pointers.
func (t Type) IsPtr() bool {
	switch t.Kind {
	case Ctx, Stack, MapVal, MapKey, Ringbuf, BTF:
		return true
	}
	return false
}

// IsAddr reports whether values of t are addresses of any sort: IsPtr or IsForeign.
func (t Type) IsAddr() bool { return t.IsPtr() || t.IsForeign() }

// IsForeign reports whether values of t are addresses that only helpers read:
// kaddr, uaddr and addr.
func (t Type) IsForeign() bool { return t.Kind == KAddr || t.Kind == UAddr || t.Kind == Addr }

var typeNames = [...]string{Void: "void", I1: "i1", I64: "i64", Ctx: "ctx", Stack: "stack",
	MapVal: "mapval", MapKey: "mapkey", Ringbuf: "ringbuf", BTF: "btf", KAddr: "kaddr", UAddr: "uaddr", Addr: "addr", MapRef: "map", FuncRef: "func"}

func (t Type) String() string {
	s := typeNames[t.Kind]
	switch t.Kind {
	case MapVal, MapKey, BTF:
		s = fmt.Sprintf("%s(%s)", s, t.Sym)
	case Ringbuf:
		s = fmt.Sprintf("%s(%d)", s, t.N)
	}
	if t.Nullable {
		s += "?"
	}
	return s
}

// MemKind is the width and signedness of a memory access.
type MemKind uint8

// Memory kinds. Loads extend to i64 by the kind; stores truncate.
const (
	MemNone MemKind = iota
	U8
	U16
	U32
	U64
	S8
	S16
	S32
)

// Size returns the width in bytes (0 for MemNone).
func (k MemKind) Size() int { return [...]int{0, 1, 2, 4, 8, 1, 2, 4}[k] }

// Signed reports whether a load sign-extends.
func (k MemKind) Signed() bool { return k >= S8 }

func (k MemKind) String() string {
	return [...]string{"", "u8", "u16", "u32", "u64", "s8", "s16", "s32"}[k]
}

// MemKindOf returns the kind for a size in bytes (1, 2, 4, 8) and signedness;
// 8 bytes are always U64. For other sizes it is MemNone.
func MemKindOf(size int, signed bool) MemKind {
	for _, k := range []MemKind{U8, U16, U32, U64, S8, S16, S32} {
		if k.Size() == size && (k.Signed() == signed || size == 8) {
			return k
		}
	}
	return MemNone
}

// Pos is a position in the script: line and column are 1-based, 0 is unknown. Stmt is the
// index into Module.Stmts of the statement it belongs to, or -1 if there is none. Site counts from 1
// in Meta.Sites, 0 for none: it identifies the expression for which failing helpers are
// reported.
type Pos struct {
	Line, Col int
	Stmt      int
	Site      int
}

// NoPos is an unknown position.
var NoPos = Pos{Stmt: -1}

// COREKind is the kind of a CO-RE relocation, numbered as in the kernel's
// enum bpf_core_relo_kind.
type COREKind uint8

// CO-RE kinds (linux/bpf.h, enum bpf_core_relo_kind).
const (
	FieldByteOffset COREKind = 0
	FieldByteSize   COREKind = 1
	FieldExists     COREKind = 2
	FieldSigned     COREKind = 3
	FieldLShift     COREKind = 4 // left shift that brings a bitfield read as u64 to the top
	FieldRShift     COREKind = 5 // right shift that follows it
	TypeExists      COREKind = 8
	TypeSize        COREKind = 9
	EnumvalExists   COREKind = 10
	EnumvalValue    COREKind = 11
)

// CORERef is the subject of a CO-RE relocation, by names and never by ids: backend/obj
// finds the types through the target. It is comparable.
type CORERef struct {
	Type string // "struct sock", "union x", "enum bpf_func_id", or a typedef's bare name
	// Path is the dotted member path from the type, with array indices in
	// brackets: "__sk_common.skc_family", "in6_u.u6_addr8[0]". Anonymous members
	// are not written. For enums: the enumerator. Empty for TypeExists, TypeSize.
	Path string
}

func (r CORERef) String() string {
	if r.Path == "" {
		return r.Type
	}
	return r.Type + ":" + r.Path
}
