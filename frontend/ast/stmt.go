// SPDX-License-Identifier: Apache-2.0

package ast

// Stmt is a statement.
type Stmt interface {
	Node
	stmt()
}

// Block is "{ stmts; value }". It is an expression where one is allowed. A loop body, a
// probe body, a function body and the branches of an "if" statement have no Value: a last
// expression without ';' is an ExprStmt there.
type Block struct {
	Extent
	Stmts []Stmt
	// Value is the last expression without ';' of a block expression or of a
	// macro body; nil if the block ends with a statement.
	Value Expr
}

// ExprStmt is an expression used as a statement: a call, "$x++", an "if".
type ExprStmt struct {
	Extent
	X Expr
}

// AssignOp is the operator of an assignment.
type AssignOp int

// The assignment operators.
const (
	Assign    AssignOp = iota // =
	AssignAdd                 // +=
	AssignSub                 // -=
	AssignMul                 // *=
	AssignDiv                 // /=
	AssignMod                 // %=
	AssignAnd                 // &=
	AssignOr                  // |=
	AssignXor                 // ^=
	AssignShl                 // <<=
	AssignShr                 // >>=
)

var assignText = [...]string{"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}

// String returns the operator as written.
func (op AssignOp) String() string { return assignText[op] }

// Binary returns the operator that a compound assignment applies; ok is false
// for plain "=".
func (op AssignOp) Binary() (bin BinaryOp, ok bool) {
	if op == Assign {
		return 0, false
	}
	return [...]BinaryOp{Add, Sub, Mul, Div, Mod, And, Or, Xor, Shl, Shr}[op-AssignAdd], true
}

// AssignStmt is "left op right".
type AssignStmt struct {
	Extent
	// Left is *Var, *Map, *MapElem or *Discard ("_", only with plain "=").
	Left  Expr
	Op    AssignOp
	Right Expr
}

// LetStmt is "let $x : T = e"; Type and Init may be nil.
type LetStmt struct {
	Extent
	Var  *Var
	Type Type
	Init Expr
}

// WhileStmt is "while (cond) { ... }".
type WhileStmt struct {
	Extent
	Cond Expr
	Body *Block
}

// UnrollStmt is "unroll (count) { ... }".
type UnrollStmt struct {
	Extent
	Count Expr
	Body  *Block
}

// ForStmt is "for ($kv : @map) { ... }" or "for ($i : from..to) { ... }".
type ForStmt struct {
	Extent
	Var *Var
	// Over is *Range, or the map to iterate (*Map).
	Over Expr
	Body *Block
}

// BranchStmt is "break" or "continue".
type BranchStmt struct {
	Extent
	Continue bool
}

// ReturnStmt is "return" or "return e"; X may be nil.
type ReturnStmt struct {
	Extent
	X Expr
}

func (*ExprStmt) stmt()   {}
func (*AssignStmt) stmt() {}
func (*LetStmt) stmt()    {}
func (*WhileStmt) stmt()  {}
func (*UnrollStmt) stmt() {}
func (*ForStmt) stmt()    {}
func (*BranchStmt) stmt() {}
func (*ReturnStmt) stmt() {}
func (*Import) stmt()     {}
