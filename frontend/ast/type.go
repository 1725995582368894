// SPDX-License-Identifier: Apache-2.0

package ast

// Type is a type as written.
type Type interface {
	Node
	typ()
}

// NamedType is a type named by one word: "int32", "string", "u64", "size_t".
type NamedType struct {
	Extent
	Name string
}

// TagKind distinguishes struct, union and enum.
type TagKind int

// The kinds of tagged types.
const (
	StructTag TagKind = iota
	UnionTag
	EnumTag
)

// String returns the keyword.
func (k TagKind) String() string { return [...]string{"struct", "union", "enum"}[k] }

// TagType is "struct X", "union X" or "enum X".
type TagType struct {
	Extent
	Kind TagKind
	Name string
}

// PointerType is "T *".
type PointerType struct {
	Extent
	Elem Type
}

// ArrayType is "T[n]" or "T[]" (Len nil). "string[64]", "buffer[16]" and
// "inet[4]" have this form too.
type ArrayType struct {
	Extent
	Elem Type
	Len  *IntLit
}

// TypeofType is "typeof(arg)"; Arg may be a *TypeExpr.
type TypeofType struct {
	Extent
	Arg Expr
}

func (*NamedType) typ()   {}
func (*TagType) typ()     {}
func (*PointerType) typ() {}
func (*ArrayType) typ()   {}
func (*TypeofType) typ()  {}
