// SPDX-License-Identifier: Apache-2.0

package ast

import (
	"strconv"
	"strings"
)

// Precedence levels of expressions other than binary operators; see BinaryOp.Precedence.
const (
	ternaryLevel = 1
	unaryLevel   = 12
	postfixLevel = 13
)

func level(x Expr) int {
	switch x := x.(type) {
	case *Ternary:
		return ternaryLevel
	case *Binary:
		return x.Op.Precedence()
	case *Unary, *Cast, *Comptime:
		return unaryLevel
	case *IncDec:
		if x.Prefix {
			return unaryLevel
		}
	}
	return postfixLevel
}

// ExprString returns the canonical text of an expression on one line, where it has
// no block with statements.
func ExprString(x Expr) string {
	p := &printer{}
	p.expr(x, 0)
	return string(p.out)
}

// TypeString returns the canonical text of a type.
func TypeString(t Type) string {
	p := &printer{}
	p.typ(t)
	return string(p.out)
}

// expr prints x, in parentheses if it binds weaker than least.
func (p *printer) expr(x Expr, least int) {
	if level(x) < least {
		p.put("(")
		p.expr(x, 0)
		p.put(")")
		return
	}
	switch x := x.(type) {
	case *Binary:
		p.expr(x.X, x.Op.Precedence())
		p.put(" ", x.Op.String(), " ")
		p.expr(x.Y, x.Op.Precedence()+1)
	case *Ternary:
		p.ternary(x)
	case *Unary:
		p.prefix(x.Op.String(), x.X)
	case *IncDec:
		op := "++"
		if x.Dec {
			op = "--"
		}
		if x.Prefix {
			p.prefix(op, x.X)
			return
		}
		p.expr(x.X, postfixLevel)
		p.put(op)
	case *Cast:
		p.put("(")
		p.typ(x.Type)
		p.put(")")
		p.expr(x.X, unaryLevel)
	case *Comptime:
		p.put("comptime ")
		p.expr(x.X, unaryLevel)
	case *MapElem, *Index, *Field, *TupleIndex, *Call:
		p.postfix(x)
	case *Paren, *Tuple, *Record:
		p.parens(x)
	case *IfExpr, *Block:
		p.ifOrBlock(x, true)
	case *Range:
		p.expr(x.From, unaryLevel)
		p.put("..")
		p.expr(x.To, unaryLevel)
	default:
		p.atom(x)
	}
}

func (p *printer) ternary(x *Ternary) {
	p.expr(x.Cond, ternaryLevel+1)
	if x.Then == nil {
		p.put(" ?: ")
	} else {
		p.put(" ? ")
		p.expr(x.Then, 0)
		p.put(" : ")
	}
	p.expr(x.Else, ternaryLevel)
}

// prefix keeps "- -x" from becoming "--x".
func (p *printer) prefix(op string, x Expr) {
	p.put(op)
	mark := len(p.out)
	p.expr(x, unaryLevel)
	if len(p.out) > mark && p.out[mark] == op[0] && op != "*" && op != "!" && op != "~" {
		p.out = append(p.out[:mark], append([]byte{' '}, p.out[mark:]...)...)
	}
}

func (p *printer) postfix(x Expr) {
	switch x := x.(type) {
	case *MapElem:
		p.expr(x.Map, postfixLevel)
		p.put("[")
		p.exprs(x.Keys)
		p.put("]")
	case *Index:
		p.expr(x.X, postfixLevel)
		p.put("[")
		p.expr(x.I, 0)
		p.put("]")
	case *Field:
		p.expr(x.X, postfixLevel)
		if x.Arrow {
			p.put("->", x.Name.Text)
		} else {
			p.put(".", x.Name.Text)
		}
	case *TupleIndex:
		p.expr(x.X, postfixLevel)
		p.put(".", strconv.Itoa(x.Index))
	case *Call:
		p.put(x.Func.Text, "(")
		p.exprs(x.Args)
		p.put(")")
	}
}

func (p *printer) parens(x Expr) {
	p.put("(")
	switch x := x.(type) {
	case *Paren:
		p.expr(x.X, 0)
	case *Tuple:
		p.exprs(x.Elems)
		if len(x.Elems) == 1 {
			p.put(",")
		}
	case *Record:
		for i, f := range x.Fields {
			if i > 0 {
				p.put(", ")
			}
			p.put(f.Name.Text, "=")
			p.expr(f.Value, 0)
		}
	}
	p.put(")")
}

func (p *printer) exprs(xs []Expr) {
	for i, x := range xs {
		if i > 0 {
			p.put(", ")
		}
		p.expr(x, 0)
	}
}

func (p *printer) atom(x Expr) {
	switch x := x.(type) {
	case *Ident:
		p.put(x.Name)
	case *Var:
		p.put("$", x.Name)
	case *Map:
		p.put("@", x.Name)
	case *Positional:
		p.put("$", strconv.Itoa(x.N))
	case *ParamCount:
		p.put("$#")
	case *IntLit:
		p.put(x.Text)
	case *StringLit:
		p.put(x.Text)
	case *BoolLit:
		p.put(strconv.FormatBool(x.Value))
	case *Discard:
		p.put("_")
	case *Sizeof:
		p.put("sizeof(")
		p.expr(x.Arg, 0)
		p.put(")")
	case *Typeinfo:
		p.put("typeinfo(")
		p.expr(x.Arg, 0)
		p.put(")")
	case *Offsetof:
		var fields []string
		for _, f := range x.Fields {
			fields = append(fields, f.Text)
		}
		p.put("offsetof(")
		p.expr(x.Arg, 0)
		p.put(", ", strings.Join(fields, "."), ")")
	case *TypeExpr:
		p.typ(x.Type)
	}
}

func (p *printer) typ(t Type) {
	switch t := t.(type) {
	case *NamedType:
		p.put(t.Name)
	case *TagType:
		p.put(t.Kind.String(), " ", t.Name)
	case *PointerType:
		p.typ(t.Elem)
		if _, again := t.Elem.(*PointerType); !again {
			p.put(" ")
		}
		p.put("*")
	case *ArrayType:
		p.typ(t.Elem)
		p.put("[")
		if t.Len != nil {
			p.put(t.Len.Text)
		}
		p.put("]")
	case *TypeofType:
		p.put("typeof(")
		p.expr(t.Arg, 0)
		p.put(")")
	}
}
