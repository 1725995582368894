// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
)

// change replaces the bytes from..to of a file.
type change struct {
	path     string
	source   []byte
	line     int
	from, to int
	with     string
}

func (c *change) apply() []byte {
	return append(append(append([]byte(nil), c.source[:c.from]...), c.with...), c.source[c.to:]...)
}

func (c change) String() string {
	return fmt.Sprintf("%s:%d: %q -> %q", filepath.Base(c.path), c.line, c.source[c.from:c.to], c.with)
}

// operators are the replacements of binary operators.
var operators = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+", token.MUL: "+", token.QUO: "*", token.REM: "/",
	token.AND: "|", token.OR: "&", token.SHL: ">>", token.SHR: "<<", token.AND_NOT: "&",
}

// assignments are the replacements of assignments and of ++ and --.
var assignments = map[token.Token]string{
	token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.OR_ASSIGN: "&=", token.AND_ASSIGN: "|=",
	token.SHL_ASSIGN: ">>=", token.SHR_ASSIGN: "<<=", token.INC: "--", token.DEC: "++",
}

// finder collects the possible changes of a file.
type finder struct {
	path   string
	source []byte
	fset   *token.FileSet
	found  []change
}

// changes returns all possible changes of a file.
func changes(path string) ([]change, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &finder{path: path, source: source, fset: token.NewFileSet()}
	file, err := parser.ParseFile(f.fset, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		ast.Inspect(d, f.visit)
	}
	return f.found, nil
}

func (f *finder) replace(from, to token.Pos, with string) {
	p := f.fset.Position(from)
	f.found = append(f.found, change{path: f.path, source: f.source, line: p.Line,
		from: p.Offset, to: f.fset.Position(to).Offset, with: with})
}

func (f *finder) operator(at token.Pos, old token.Token, with string) {
	f.replace(at, at+token.Pos(len(old.String())), with)
}

// visit adds the changes at a node; it returns false if the nodes below it are to be skipped.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		name, _ := n.Fun.(*ast.Ident)
		return name == nil || name.Name != "panic" && name.Name != "make" // messages, and sizes of allocations
	case *ast.ArrayType, *ast.ImportSpec, *ast.FuncType:
		return false
	case *ast.GenDecl:
		return n.Tok == token.VAR || n.Tok == token.CONST
	case *ast.BinaryExpr:
		if with, ok := operators[n.Op]; ok {
			f.operator(n.OpPos, n.Op, with)
		}
	case *ast.BasicLit:
		if v, err := strconv.ParseInt(n.Value, 0, 64); n.Kind == token.INT && err == nil {
			f.replace(n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
		}
	case *ast.Ident:
		switch n.Name {
		case "true":
			f.replace(n.Pos(), n.End(), "false")
		case "false":
			f.replace(n.Pos(), n.End(), "true")
		}
	case *ast.IfStmt:
		f.negate(n.Cond)
		if asserts(n.Body) { // a weaker assertion makes no difference unless it fails
			return false
		}
	case *ast.ForStmt:
		if n.Cond != nil {
			ast.Inspect(n.Body, f.visit) // an infinite loop says nothing about the tests
		}
		return n.Cond == nil
	case *ast.BranchStmt:
		if n.Label == nil && n.Tok == token.CONTINUE {
			f.replace(n.Pos(), n.End(), "break")
		}
	case *ast.AssignStmt:
		if with, ok := assignments[n.Tok]; ok {
			f.operator(n.TokPos, n.Tok, with)
		}
	case *ast.IncDecStmt:
		f.operator(n.TokPos, n.Tok, assignments[n.Tok])
	case *ast.ExprStmt:
		f.drop(n)
	}
	return true
}

// negate inverts the condition of an if statement.
func (f *finder) negate(cond ast.Expr) {
	from, to := f.fset.Position(cond.Pos()), f.fset.Position(cond.End())
	f.found = append(f.found, change{path: f.path, source: f.source, line: from.Line, from: from.Offset, to: to.Offset,
		with: "!(" + string(f.source[from.Offset:to.Offset]) + ")"})
}

// drop removes a call whose result is unused.
func (f *finder) drop(n *ast.ExprStmt) {
	if call, ok := n.X.(*ast.CallExpr); ok {
		if name, _ := call.Fun.(*ast.Ident); name == nil || name.Name != "panic" {
			from, to := f.fset.Position(n.Pos()), f.fset.Position(n.End())
			with := "_ = 0"
			f.found = append(f.found, change{path: f.path, source: f.source, line: from.Line, from: from.Offset, to: to.Offset, with: with})
		}
	}
}

// asserts reports whether a block does nothing but panic.
func asserts(b *ast.BlockStmt) bool {
	if len(b.List) != 1 {
		return false
	}
	s, ok := b.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := s.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	name, _ := call.Fun.(*ast.Ident)
	return name != nil && name.Name == "panic"
}
