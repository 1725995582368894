// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"btc/frontend/ast"
	"btc/frontend/diag"
)

// dump prints the structure of a tree, such as (Binary + a (Unary - b)).
func dump(n ast.Node) string {
	head := strings.TrimPrefix(fmt.Sprintf("%T", n), "*ast.")
	var parts []string
	switch n := n.(type) {
	case *ast.Ident:
		return n.Name
	case *ast.Name:
		return n.Text
	case *ast.Var:
		return "$" + n.Name
	case *ast.Map:
		return "@" + n.Name
	case *ast.NamedType:
		return n.Name
	case *ast.IntLit:
		return fmt.Sprint(n.Value)
	case *ast.StringLit:
		return fmt.Sprintf("%q", n.Value)
	case *ast.BoolLit:
		return fmt.Sprint(n.Value)
	case *ast.Positional:
		return fmt.Sprintf("$%d", n.N)
	case *ast.Binary:
		parts = append(parts, n.Op.String())
	case *ast.Unary:
		parts = append(parts, n.Op.String())
	case *ast.AssignStmt:
		parts = append(parts, n.Op.String())
	case *ast.IncDec:
		parts = append(parts, fmt.Sprintf("dec=%t prefix=%t", n.Dec, n.Prefix))
	case *ast.TagType:
		return n.Kind.String() + ":" + n.Name
	case *ast.TupleIndex:
		parts = append(parts, fmt.Sprint(n.Index))
	case *ast.Ternary:
		if n.Then == nil {
			head = "Elvis"
		}
	case *ast.Block:
		if n.Value != nil {
			head = "Block="
		}
	}
	for _, c := range ast.Children(n) {
		parts = append(parts, dump(c))
	}
	return "(" + strings.Join(append([]string{head}, parts...), " ") + ")"
}

func TestTree(t *testing.T) {
	tests := []struct{ text, want string }{
		// precedence and associativity
		{"a + b * c - d", "(Binary - (Binary + a (Binary * b c)) d)"},
		{"a || b && c | d ^ e & f == g < h << i + j * k",
			"(Binary || a (Binary && b (Binary | c (Binary ^ d (Binary & e (Binary == f (Binary < g (Binary << h (Binary + i (Binary * j k))))))))))"},
		{"a * b + c << d < e == f & g ^ h | i && j || k",
			"(Binary || (Binary && (Binary | (Binary ^ (Binary & (Binary == (Binary < (Binary << (Binary + (Binary * a b) c) d) e) f) g) h) i) j) k)"},
		{"a - b - c", "(Binary - (Binary - a b) c)"},
		{"a ? b : c ? d : e", "(Ternary a b (Ternary c d e))"},
		{"a ?: b ?: c", "(Elvis a (Elvis b c))"},
		{"a ? b ? 1 : 2 : 3", "(Ternary a (Ternary b 1 2) 3)"},
		{"-a.b", "(Unary - (Field a b))"},
		{"*$p++", "(Unary * (IncDec dec=false prefix=false $p))"},
		{"!a == b", "(Binary == (Unary ! a) b)"},
		{"--$x - -1", "(Binary - (IncDec dec=true prefix=true $x) (Unary - 1))"},
		// casts and groups
		{"(int8)-1", "(Cast int8 (Unary - 1))"},
		{"(foo)-1", "(Cast foo (Unary - 1))"},
		{"(pid)-1", "(Binary - (Paren pid) 1)"},
		{"(arg0)*2", "(Binary * (Paren arg0) 2)"},
		{"(foo)/2", "(Binary / (Paren foo) 2)"},
		{"(foo) && a", "(Binary && (Paren foo) a)"},
		{"(struct sock *)arg0", "(Cast (PointerType struct:sock) arg0)"},
		{"((struct s *)a)->b.c", "(Field (Field (Paren (Cast (PointerType struct:s) a)) b) c)"},
		{"(uint8[8])$x", "(Cast (ArrayType uint8 8) $x)"},
		{"(int8[])\"a\"", "(Cast (ArrayType int8) \"a\")"},
		{"(uint64)$x / 2", "(Binary / (Cast uint64 $x) 2)"},
		{"(int32 **)5", "(Cast (PointerType (PointerType int32)) 5)"},
		{"(typeof($x))1", "(Cast (TypeofType $x) 1)"},
		{"(a * b)", "(Paren (Binary * a b))"},
		{"&@m", "(Unary & @m)"},
		// maps, tuples, records, fields
		{"@", "@"},
		{"@[1]", "(MapElem @ 1)"},
		{"@x[1, a][2]", "(Index (MapElem @x 1 a) 2)"},
		{"()", "(Tuple)"},
		{"(1,)", "(Tuple 1)"},
		{"(1, 2, )", "(Tuple 1 2)"},
		{"$t.0.1", "(TupleIndex 1 (TupleIndex 0 $t))"},
		{"(a=1, if=2)", "(Record (RecordField a 1) (RecordField if 2))"},
		{"(a == 1)", "(Paren (Binary == a 1))"},
		{"args->return", "(Field args return)"},
		{"$p->next.type.config.let", "(Field (Field (Field (Field $p next) type) config) let)"},
		{"f()", "(Call f)"},
		{"f(typeof(int8), struct a *)", "(Call f (TypeExpr (TypeofType (TypeExpr int8))) (TypeExpr (PointerType struct:a)))"},
		{"sizeof(uint8)", "(Sizeof (TypeExpr uint8))"},
		{"sizeof(u8)", "(Sizeof u8)"},
		{"sizeof(u8 *)", "(Sizeof (TypeExpr (PointerType u8)))"},
		{"sizeof(a * b)", "(Sizeof (Binary * a b))"},
		{"offsetof(struct a, b.c)", "(Offsetof (TypeExpr struct:a) b c)"},
		{"offsetof(*$p, type)", "(Offsetof (Unary * $p) type)"},
		// literals
		{"0x1F", "31"}, {"017", "15"}, {"1_000", "1000"}, {"1e9", "1000000000"}, {"5ms", "5000000"}, {"2d", "172800000000000"},
		{"18446744073709551615", "18446744073709551615"}, {"0xfful", "255"},
		{`"a\n\x41\102\0\"é"`, `"a\nAB\x00\"é"`},
		{"$1", "$1"}, {"$#", "(ParamCount)"}, {"true", "true"},
		// blocks
		{"{ 1 }", "(Block= 1)"},
		{"{ 1; }", "(Block (ExprStmt 1))"},
		{"{ $x = 1; $x }", "(Block= (AssignStmt = $x 1) $x)"},
		{"if a { 1 } else if b { 2 } else { 3 }", "(IfExpr a (Block= 1) (IfExpr b (Block= 2) (Block= 3)))"},
		{"{ if (a) { 1 } }", "(Block= (IfExpr a (Block= 1)))"},
		{"{ if (a) { 1 } 2 }", "(Block= (ExprStmt (IfExpr a (Block (ExprStmt 1)))) 2)"},
		{"{ if (a) { 1 }; }", "(Block (ExprStmt (IfExpr a (Block (ExprStmt 1)))))"},
		{"{ { 1 } { 2 } }", "(Block= (ExprStmt (Block (ExprStmt 1))) (Block= 2))"},
		{"{ for ($i : 0..f(1)) { $i } }", "(Block (ForStmt $i (Range 0 (Call f 1)) (Block (ExprStmt $i))))"},
		{"{ while $x { } unroll (3) { } }", "(Block (WhileStmt $x (Block)) (UnrollStmt 3 (Block)))"},
		{"{ _ = a; let $x: int8 = 1; return; }", "(Block (AssignStmt = (Discard) a) (LetStmt $x int8 1) (ReturnStmt))"},
		{"{ @m[1] <<= 2 }", "(Block (AssignStmt <<= (MapElem @m 1) 2))"},
		{"comptime a + b", "(Binary + (Comptime a) b)"},
	}
	for _, tt := range tests {
		src := diag.NewSource("t", tt.text)
		var l diag.List
		x := Expr(src.Span(0, len(tt.text)), &l, isValue)
		if x == nil || l.Len() > 0 {
			t.Errorf("%s", l.Err())
			continue
		}
		if got := dump(x); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.text, got, tt.want)
		}
		printed := ast.ExprString(x)
		src = diag.NewSource("printed", printed)
		if again := Expr(src.Span(0, len(printed)), &l, isValue); again == nil || dump(again) != tt.want {
			t.Errorf("%s is printed as %s, which is a different expression", tt.text, printed)
		}
	}
}

// TestDefinedNameIsNoCast checks that "(NAME) - 1" is not a cast if NAME is a macro of the script.
func TestDefinedNameIsNoCast(t *testing.T) {
	s := mustParse(t, "t", "#define N 5\nbegin { $x = (N) - 1; }")
	p := s.Items[0].(*ast.Probe)
	if got, want := dump(p.Body), "(Block (AssignStmt = $x (Binary - (Paren N) 1)))"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestPrintAddsParens checks that parentheses that a tree needs and does not have are printed.
func TestPrintAddsParens(t *testing.T) {
	a, b := &ast.Ident{Name: "a"}, &ast.Ident{Name: "b"}
	sum := &ast.Binary{Op: ast.Add, X: a, Y: b}
	tests := []struct {
		x    ast.Expr
		want string
	}{
		{&ast.Binary{Op: ast.Mul, X: sum, Y: sum}, "(a + b) * (a + b)"},
		{&ast.Binary{Op: ast.Sub, X: sum, Y: sum}, "a + b - (a + b)"},
		{&ast.Field{X: sum, Name: &ast.Name{Text: "f"}}, "(a + b).f"},
		{&ast.Unary{Op: ast.Neg, X: &ast.Unary{Op: ast.Neg, X: a}}, "- -a"},
		{&ast.Cast{Type: &ast.NamedType{Name: "int8"}, X: sum}, "(int8)(a + b)"},
		{&ast.Binary{Op: ast.Eq, X: &ast.Ternary{Cond: a, Then: b, Else: a}, Y: b}, "(a ? b : a) == b"},
	}
	for _, tt := range tests {
		if got := ast.ExprString(tt.x); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// TestChildrenAreComplete checks that Children finds every node that is reachable through the fields of
// a tree.
func TestChildrenAreComplete(t *testing.T) {
	for name, text := range acceptFiles(t) {
		s := mustParse(t, name, text)
		want := make(map[ast.Node]bool)
		collect(reflect.ValueOf(s), want)
		ast.Inspect(s, func(n ast.Node) bool {
			if n != nil {
				delete(want, n)
			}
			return true
		})
		for n := range want {
			if _, isComment := n.(*ast.Comment); !isComment {
				t.Errorf("%s: %T not visited", n.Span(), n)
			}
		}
	}
}

func collect(v reflect.Value, into map[ast.Node]bool) {
	switch v.Kind() {
	case reflect.Interface:
		collect(v.Elem(), into)
	case reflect.Slice:
		for i := range v.Len() {
			collect(v.Index(i), into)
		}
	case reflect.Pointer:
		n, ok := v.Interface().(ast.Node)
		if v.IsNil() || !ok {
			return
		}
		into[n] = true
		for i := range v.Elem().NumField() {
			collect(v.Elem().Field(i), into)
		}
	}
}

func TestHeader(t *testing.T) {
	s := mustParse(t, "t", acceptFiles(t)["testdata/accept/latency.bt"])
	var got []string
	for _, h := range s.Header {
		switch h := h.(type) {
		case *ast.CDef:
			got = append(got, fmt.Sprintf("%d:%s", h.Kind, h.Name))
			if sp := h.At.Text(); sp != h.Text && sp+";" != h.Text {
				t.Errorf("span %q, text %q", sp, h.Text)
			}
		case *ast.Config:
			got = append(got, "config")
		case *ast.Import:
			got = append(got, "import "+h.Path.Value)
		}
	}
	want := "0:ifndef 0:include 0:endif 0:define 1:point 1:bare 3:color 2:u 4: 1:forward config import lib.bt"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
	if s.Shebang != "#!/usr/bin/env btc" {
		t.Errorf("Shebang = %q", s.Shebang)
	}
	last := s.Comments[len(s.Comments)-1]
	if last.Text != "// end of file" {
		t.Errorf("last comment = %q", last.Text)
	}
}
