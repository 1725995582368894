// SPDX-License-Identifier: Apache-2.0

package ast

// Inspect calls visit for n and for all nodes below it in source order, and
// after the nodes below one, visit(nil). When visit returns false for a node,
// the nodes below it are skipped, and so is the visit(nil).
func Inspect(n Node, visit func(Node) bool) {
	if !visit(n) {
		return
	}
	for _, c := range Children(n) {
		Inspect(c, visit)
	}
	visit(nil)
}

// list collects children and leaves nil ones out.
type list []Node

func (l *list) expr(xs ...Expr) {
	for _, x := range xs {
		if x != nil {
			*l = append(*l, x)
		}
	}
}

func (l *list) typ(t Type) {
	if t != nil {
		*l = append(*l, t)
	}
}

func (l *list) block(b *Block) {
	if b != nil {
		*l = append(*l, b)
	}
}

func (l *list) names(names ...*Name) {
	for _, n := range names {
		if n != nil {
			*l = append(*l, n)
		}
	}
}

// Children returns the nodes directly below n in source order. Comments are not children.
func Children(n Node) []Node {
	var l list
	switch n := n.(type) {
	case Item:
		l.ofItem(n)
	case Stmt:
		l.ofStmt(n)
	case Expr:
		l.ofExpr(n)
	case Type:
		l.ofType(n)
	case *Script:
		for _, i := range n.Header {
			l = append(l, i)
		}
		for _, i := range n.Items {
			l = append(l, i)
		}
	case *ConfigEntry:
		l.names(n.Key)
		l.expr(n.Value)
	case *Param:
		l.expr(n.Var)
		l.typ(n.Type)
	case *RecordField:
		l.names(n.Name)
		l.expr(n.Value)
	case *AttachPoint:
		l.names(n.Label)
	}
	return l
}

func (l *list) ofItem(n Item) {
	switch n := n.(type) {
	case *Config:
		for _, e := range n.Entries {
			*l = append(*l, e)
		}
	case *Import:
		l.expr(n.Path)
	case *MapDecl:
		l.expr(n.Map)
		l.names(n.Kind)
		l.expr(n.Max)
	case *Macro:
		l.names(n.Name)
		l.expr(n.Params...)
		l.block(n.Body)
	case *Func:
		l.names(n.Name)
		for _, p := range n.Params {
			*l = append(*l, p)
		}
		l.typ(n.Result)
		l.block(n.Body)
	case *Probe:
		for _, p := range n.Points {
			*l = append(*l, p)
		}
		l.expr(n.Pred)
		l.block(n.Body)
	}
}

func (l *list) ofStmt(n Stmt) {
	switch n := n.(type) {
	case *ExprStmt:
		l.expr(n.X)
	case *AssignStmt:
		l.expr(n.Left, n.Right)
	case *LetStmt:
		l.expr(n.Var)
		l.typ(n.Type)
		l.expr(n.Init)
	case *WhileStmt:
		l.expr(n.Cond)
		l.block(n.Body)
	case *UnrollStmt:
		l.expr(n.Count)
		l.block(n.Body)
	case *ForStmt:
		l.expr(n.Var, n.Over)
		l.block(n.Body)
	case *ReturnStmt:
		l.expr(n.X)
	}
}

func (l *list) ofExpr(n Expr) {
	switch n := n.(type) {
	case *Block:
		for _, s := range n.Stmts {
			*l = append(*l, s)
		}
		l.expr(n.Value)
	case *MapElem:
		l.expr(n.Map)
		l.expr(n.Keys...)
	case *Index:
		l.expr(n.X, n.I)
	case *Field:
		l.expr(n.X)
		l.names(n.Name)
	case *TupleIndex:
		l.expr(n.X)
	case *Call:
		l.names(n.Func)
		l.expr(n.Args...)
	case *Unary:
		l.expr(n.X)
	case *IncDec:
		l.expr(n.X)
	case *Binary:
		l.expr(n.X, n.Y)
	case *Ternary:
		l.expr(n.Cond, n.Then, n.Else)
	case *Cast:
		l.typ(n.Type)
		l.expr(n.X)
	case *Paren:
		l.expr(n.X)
	case *Tuple:
		l.expr(n.Elems...)
	case *Record:
		for _, f := range n.Fields {
			*l = append(*l, f)
		}
	case *IfExpr:
		l.expr(n.Cond)
		l.block(n.Then)
		l.expr(n.Else)
	case *Comptime:
		l.expr(n.X)
	case *Sizeof:
		l.expr(n.Arg)
	case *Offsetof:
		l.expr(n.Arg)
		l.names(n.Fields...)
	case *Typeinfo:
		l.expr(n.Arg)
	case *TypeExpr:
		l.typ(n.Type)
	case *Range:
		l.expr(n.From, n.To)
	}
}

func (l *list) ofType(n Type) {
	switch n := n.(type) {
	case *PointerType:
		l.typ(n.Elem)
	case *ArrayType:
		l.typ(n.Elem)
		if n.Len != nil {
			l.expr(n.Len)
		}
	case *TypeofType:
		l.expr(n.Arg)
	}
}
