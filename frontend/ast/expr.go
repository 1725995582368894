// SPDX-License-Identifier: Apache-2.0

package ast

// Expr is an expression.
type Expr interface {
	Node
	expr()
}

// Ident is a plain name: a builtin ("pid"), an enum constant, a #define, a
// macro without arguments or a macro's parameter. The checker decides which.
type Ident struct {
	Extent
	Name string
}

// Var is "$name"; Name has no '$'.
type Var struct {
	Extent
	Name string
}

// Map is "@name" without keys; Name has no '@' and is empty for "@".
type Map struct {
	Extent
	Name string
}

// MapElem is "@m[k1, k2]"; there is at least one key.
type MapElem struct {
	Extent
	Map  *Map
	Keys []Expr
}

// Index is "x[i]" on anything but a map.
type Index struct {
	Extent
	X, I Expr
}

// Field is "x.name" or "x->name".
type Field struct {
	Extent
	X     Expr
	Name  *Name
	Arrow bool
}

// TupleIndex is "x.0".
type TupleIndex struct {
	Extent
	X     Expr
	Index int
}

// Positional is "$1"; N counts from 1.
type Positional struct {
	Extent
	N int
}

// ParamCount is "$#".
type ParamCount struct{ Extent }

// IntLit is an integer literal.
type IntLit struct {
	Extent
	// Text is the literal as written.
	Text string
	// Value is the number, a duration already in nanoseconds.
	Value uint64
	// Suffix is "", u, l, ll, ul, ull, ns, us, ms, s, m, h or d.
	Suffix string
}

// IsDuration reports whether the suffix is a unit of time.
func (x *IntLit) IsDuration() bool {
	switch x.Suffix {
	case "ns", "us", "ms", "s", "m", "h", "d":
		return true
	}
	return false
}

// StringLit is a string literal.
type StringLit struct {
	Extent
	// Text is the literal as written, quotes included.
	Text string
	// Value is the string with escapes resolved; it may hold any bytes.
	Value string
}

// BoolLit is "true" or "false".
type BoolLit struct {
	Extent
	Value bool
}

// Call is "name(args)". An argument may be a *TypeExpr.
type Call struct {
	Extent
	Func *Name
	Args []Expr
}

// UnaryOp is a prefix operator.
type UnaryOp int

// The prefix operators.
const (
	Neg    UnaryOp = iota // -
	Not                   // !
	BitNot                // ~
	Deref                 // *
	AddrOf                // &
)

var unaryText = [...]string{"-", "!", "~", "*", "&"}

// String returns the operator as written.
func (op UnaryOp) String() string { return unaryText[op] }

// Unary is "op x".
type Unary struct {
	Extent
	Op UnaryOp
	X  Expr
}

// IncDec is "++x", "x++", "--x" or "x--"; X is *Var, *Map or *MapElem.
type IncDec struct {
	Extent
	X      Expr
	Dec    bool
	Prefix bool
}

// BinaryOp is an infix operator.
type BinaryOp int

// The infix operators, lowest precedence first.
const (
	LogOr  BinaryOp = iota // ||
	LogAnd                 // &&
	Or                     // |
	Xor                    // ^
	And                    // &
	Eq                     // ==
	Ne                     // !=
	Lt                     // <
	Gt                     // >
	Le                     // <=
	Ge                     // >=
	Shl                    // <<
	Shr                    // >>
	Add                    // +
	Sub                    // -
	Mul                    // *
	Div                    // /
	Mod                    // %
)

var binaryTable = [...]struct {
	text       string
	precedence int
}{
	LogOr: {"||", 2}, LogAnd: {"&&", 3}, Or: {"|", 4}, Xor: {"^", 5}, And: {"&", 6},
	Eq: {"==", 7}, Ne: {"!=", 7}, Lt: {"<", 8}, Gt: {">", 8}, Le: {"<=", 8}, Ge: {">=", 8},
	Shl: {"<<", 9}, Shr: {">>", 9}, Add: {"+", 10}, Sub: {"-", 10}, Mul: {"*", 11}, Div: {"/", 11}, Mod: {"%", 11},
}

// String returns the operator as written.
func (op BinaryOp) String() string { return binaryTable[op].text }

// Precedence returns the level of the operator, 2 (||) to 11 (* / %).
func (op BinaryOp) Precedence() int { return binaryTable[op].precedence }

// Binary is "x op y".
type Binary struct {
	Extent
	Op   BinaryOp
	X, Y Expr
	// OpAt is the extent of the operator.
	OpAt Extent
}

// Ternary is "cond ? then : else"; Then is nil for "cond ?: else".
type Ternary struct {
	Extent
	Cond, Then, Else Expr
}

// Cast is "(type)x".
type Cast struct {
	Extent
	Type Type
	X    Expr
}

// Paren is "(x)"; the tree keeps it for the formatter.
type Paren struct {
	Extent
	X Expr
}

// Unparen removes parentheses around an expression.
func Unparen(x Expr) Expr {
	for {
		p, ok := x.(*Paren)
		if !ok {
			return x
		}
		x = p.X
	}
}

// Tuple is "()", "(a,)" or "(a, b)".
type Tuple struct {
	Extent
	Elems []Expr
}

// Record is "(a=1, b=2)".
type Record struct {
	Extent
	Fields []*RecordField
}

// RecordField is "name=value".
type RecordField struct {
	Extent
	Name  *Name
	Value Expr
}

// IfExpr is "if (cond) { ... } else ...". As a statement it is the X of an
// ExprStmt, and its branches have no Value then.
type IfExpr struct {
	Extent
	// Cond has no parentheses around it.
	Cond Expr
	Then *Block
	// Else is nil, *Block or *IfExpr.
	Else Expr
}

// Comptime is "comptime x".
type Comptime struct {
	Extent
	X Expr
}

// Sizeof is "sizeof(arg)"; Arg may be a *TypeExpr. A plain name, which may be
// that of a type, is an *Ident.
type Sizeof struct {
	Extent
	Arg Expr
}

// Offsetof is "offsetof(arg, a.b.c)"; Arg as in Sizeof.
type Offsetof struct {
	Extent
	Arg    Expr
	Fields []*Name
}

// Typeinfo is "typeinfo(arg)"; Arg as in Sizeof.
type Typeinfo struct {
	Extent
	Arg Expr
}

// TypeExpr is a type where a type or an expression is allowed.
type TypeExpr struct {
	Extent
	Type Type
}

// Range is "from..to" in a for statement.
type Range struct {
	Extent
	From, To Expr
}

// Discard is "_" on the left side of an assignment.
type Discard struct{ Extent }

// Bad replaces an expression whose error has been reported. It has no type, and causes no further errors.
type Bad struct{ Extent }

func (*Bad) expr()        {}
func (*Ident) expr()      {}
func (*Var) expr()        {}
func (*Map) expr()        {}
func (*MapElem) expr()    {}
func (*Index) expr()      {}
func (*Field) expr()      {}
func (*TupleIndex) expr() {}
func (*Positional) expr() {}
func (*ParamCount) expr() {}
func (*IntLit) expr()     {}
func (*StringLit) expr()  {}
func (*BoolLit) expr()    {}
func (*Call) expr()       {}
func (*Unary) expr()      {}
func (*IncDec) expr()     {}
func (*Binary) expr()     {}
func (*Ternary) expr()    {}
func (*Cast) expr()       {}
func (*Paren) expr()      {}
func (*Tuple) expr()      {}
func (*Record) expr()     {}
func (*IfExpr) expr()     {}
func (*Block) expr()      {}
func (*Comptime) expr()   {}
func (*Sizeof) expr()     {}
func (*Offsetof) expr()   {}
func (*Typeinfo) expr()   {}
func (*TypeExpr) expr()   {}
func (*Range) expr()      {}
func (*Discard) expr()    {}
