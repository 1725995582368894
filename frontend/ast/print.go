// SPDX-License-Identifier: Apache-2.0

package ast

import (
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"btc/frontend/diag"
)

const (
	indentText = "  "
	lineWidth  = 100 // columns; the arguments of a longer call are broken into lines
)

// Fprint writes the canonical text of a script: two spaces of indentation, one statement a
// line, at most one empty line in a row. Comments are kept: those on a line of their own,
// and those at the end of a line, stay; those inside a statement move before it.
// Printing is idempotent, and the output parses to an equal tree.
func Fprint(w io.Writer, s *Script) error {
	p := &printer{comments: s.Comments, src: s.Source}
	p.script(s)
	_, err := w.Write(p.out)
	return err
}

type printer struct {
	out      []byte
	indent   int
	src      *diag.Source
	comments []*Comment // not yet printed
	// last is the source line where the last printed node ended; 0 where no empty line is kept.
	last int
	// gap asks for an empty line before the next line.
	gap bool
}

func (p *printer) put(texts ...string) {
	for _, t := range texts {
		p.out = append(p.out, t...)
	}
}

// newline starts a line for the node at a byte offset of the source; an empty line before it in the source is kept.
func (p *printer) newline(offset int) {
	if len(p.out) == 0 {
		return
	}
	if p.gap || p.last > 0 && p.src != nil && p.src.Position(offset).Line > p.last+1 {
		p.put("\n")
	}
	p.gap = false
	p.put("\n", strings.Repeat(indentText, p.indent))
}

// ended records where in the source the last printed node ended, and prints the comments that follow on the same line
// before limit.
func (p *printer) ended(offset, limit int) {
	if p.src == nil {
		return
	}
	p.last = p.src.Position(offset).Line
	for len(p.comments) > 0 {
		c := p.comments[0]
		if c.At.Start >= limit || c.At.Pos().Line != p.last {
			return
		}
		p.put(" ", c.Text)
		p.last = c.At.EndPos().Line
		p.comments = p.comments[1:]
	}
}

// before prints the comments that start before offset on lines of their own.
func (p *printer) before(offset int) {
	for len(p.comments) > 0 && p.comments[0].At.Start < offset {
		c := p.comments[0]
		p.comments = p.comments[1:]
		p.newline(c.At.Start)
		p.put(c.Text)
		p.last = c.At.EndPos().Line
	}
}

func (p *printer) script(s *Script) {
	if s.Shebang != "" {
		p.put(s.Shebang)
		p.last = 1
	}
	items := append(append([]Item(nil), s.Header...), s.Items...)
	for i, item := range items {
		limit := math.MaxInt
		if i+1 < len(items) {
			limit = items[i+1].Span().Start
		}
		p.gap = i > 0 && (hasBody(item) || hasBody(items[i-1]))
		p.before(commentLimit(item))
		p.newline(item.Span().Start)
		p.item(item)
		p.ended(item.Span().End, limit)
	}
	p.gap = false
	p.before(math.MaxInt)
	if len(p.out) > 0 {
		p.put("\n")
	}
}

func hasBody(item Item) bool {
	switch item.(type) {
	case *Probe, *Macro, *Func, *Config:
		return true
	}
	return false
}

// commentLimit returns the offset up to which the comments in a node are printed
// before it: its first block that is printed on lines of its own, or its end.
func commentLimit(n Node) int {
	limit := n.Span().End
	Inspect(n, func(n Node) bool {
		switch n := n.(type) {
		case *Config:
			limit = n.At.Start
		case *Block:
			if !inline(n) {
				limit = min(limit, n.At.Start)
			}
			return false
		}
		return n != nil
	})
	return limit
}

func (p *printer) item(item Item) {
	switch item := item.(type) {
	case *CDef:
		p.put(item.Text)
	case *Config:
		p.config(item)
	case *Import:
		p.put("import ", item.Path.Text, ";")
	case *MapDecl:
		p.put("let @", item.Map.Name, " = ", item.Kind.Text, "(", item.Max.Text, ");")
	case *Macro:
		p.put("macro ", item.Name.Text, "(")
		p.exprs(item.Params)
		p.put(") ")
		p.block(item.Body, true)
	case *Func:
		p.function(item)
	case *Probe:
		p.probe(item)
	}
}

func (p *printer) config(c *Config) {
	p.put("config = {")
	if len(c.Entries) == 0 {
		p.put("}")
		return
	}
	p.indent++
	p.last = 0
	for i, e := range c.Entries {
		limit := c.At.End
		if i+1 < len(c.Entries) {
			limit = c.Entries[i+1].At.Start
		}
		p.before(e.At.End)
		p.newline(e.At.Start)
		p.put(e.Key.Text, " = ")
		p.expr(e.Value, 0)
		p.put(";")
		p.ended(e.At.End, limit)
	}
	p.closeBrace(c.At.End)
}

func (p *printer) function(f *Func) {
	p.put("fn ", f.Name.Text, "(")
	for i, a := range f.Params {
		if i > 0 {
			p.put(", ")
		}
		p.put("$", a.Var.Name, " : ")
		p.typ(a.Type)
	}
	p.put(") : ")
	p.typ(f.Result)
	p.put(" ")
	p.block(f.Body, false)
}

func (p *printer) probe(x *Probe) {
	for i, a := range x.Points {
		if i > 0 {
			p.put(",\n")
		}
		if a.Label != nil {
			p.put(a.Label.Text, "=")
		}
		p.put(a.Raw)
	}
	if x.Pred != nil {
		p.put("\n/")
		mark := len(p.out)
		p.expr(x.Pred, 0)
		if p.out[mark] == '*' { // "/*" would start a comment
			p.out = append(p.out[:mark], append([]byte{' '}, p.out[mark:]...)...)
		}
		p.put("/")
	}
	p.put("\n")
	p.block(x.Body, false)
}

// block prints a block on lines of its own, or "{}". Where the block may have a value, a last statement that could be
// parsed as the value gets a ';'.
func (p *printer) block(b *Block, mayHaveValue bool) {
	hasComments := len(p.comments) > 0 && p.comments[0].At.Start < b.At.End
	if len(b.Stmts) == 0 && b.Value == nil && !hasComments {
		p.put("{}")
		return
	}
	p.put("{")
	nodes := make([]Node, 0, len(b.Stmts)+1)
	for _, s := range b.Stmts {
		nodes = append(nodes, s)
	}
	if b.Value != nil {
		nodes = append(nodes, b.Value)
	}
	start := func(i int) int {
		if i < len(nodes) {
			return nodes[i].Span().Start
		}
		return b.At.End
	}
	p.indent++
	p.ended(b.At.Start, start(0))
	p.last = 0
	for i, n := range nodes {
		p.before(commentLimit(n))
		p.newline(n.Span().Start)
		if s, ok := n.(Stmt); ok {
			p.stmt(s)
			if mayHaveValue && i == len(nodes)-1 && bare(s) {
				p.put(";")
			}
		} else {
			p.expr(b.Value, 0)
		}
		p.ended(n.Span().End, start(i+1))
	}
	p.closeBrace(b.At.End)
}

// closeBrace prints the remaining comments of a block, and its closing brace.
func (p *printer) closeBrace(end int) {
	p.before(end)
	p.indent--
	p.last = 0
	p.newline(end)
	p.put("}")
}

// inline reports whether a block is printed as "{ x }".
func inline(b *Block) bool { return len(b.Stmts) == 0 && b.Value != nil }

// bare reports whether a statement is an expression but printed without ';'.
func bare(s Stmt) bool {
	x, ok := s.(*ExprStmt)
	if !ok {
		return false
	}
	switch x.X.(type) {
	case *IfExpr, *Block:
		return true
	}
	return false
}

func (p *printer) blockExpr(b *Block, mayHaveValue bool) {
	if !inline(b) {
		p.block(b, mayHaveValue)
		return
	}
	p.put("{ ")
	p.expr(b.Value, 0)
	p.put(" }")
}

func (p *printer) ifExpr(x *IfExpr, mayHaveValue bool) {
	p.put("if (")
	p.expr(x.Cond, 0)
	p.put(") ")
	p.blockExpr(x.Then, mayHaveValue)
	if x.Else != nil {
		p.put(" else ")
		p.ifOrBlock(x.Else, mayHaveValue)
	}
}

// ifOrBlock prints an expression; an if or a block is printed as a statement, or as one that may have a value.
func (p *printer) ifOrBlock(x Expr, mayHaveValue bool) {
	switch x := x.(type) {
	case *IfExpr:
		p.ifExpr(x, mayHaveValue)
	case *Block:
		p.blockExpr(x, mayHaveValue)
	default:
		p.value(x)
	}
}

func (p *printer) stmt(s Stmt) {
	switch s := s.(type) {
	case *ExprStmt:
		p.ifOrBlock(s.X, false)
		if bare(s) {
			return
		}
	case *AssignStmt:
		p.expr(s.Left, 0)
		p.put(" ", s.Op.String(), " ")
		p.value(s.Right)
	case *LetStmt:
		p.put("let $", s.Var.Name)
		if s.Type != nil {
			p.put(": ")
			p.typ(s.Type)
		}
		if s.Init != nil {
			p.put(" = ")
			p.value(s.Init)
		}
	case *WhileStmt:
		p.loop("while (", s.Cond, s.Body)
		return
	case *UnrollStmt:
		p.loop("unroll (", s.Count, s.Body)
		return
	case *ForStmt:
		p.loop("for ($"+s.Var.Name+" : ", s.Over, s.Body)
		return
	case *BranchStmt:
		if s.Continue {
			p.put("continue")
		} else {
			p.put("break")
		}
	case *ReturnStmt:
		p.put("return")
		if s.X != nil {
			p.put(" ")
			p.value(s.X)
		}
	case *Import:
		p.put("import ", s.Path.Text)
	}
	p.put(";")
}

func (p *printer) loop(head string, x Expr, body *Block) {
	p.put(head)
	p.expr(x, 0)
	p.put(") ")
	p.block(body, false)
}

// value prints an expression at the end of a statement; the arguments of a
// call are broken into lines if it is too wide.
func (p *printer) value(x Expr) {
	call, ok := x.(*Call)
	if !ok {
		p.expr(x, 0)
		return
	}
	text := ExprString(call)
	if p.column()+utf8.RuneCountInString(text) < lineWidth || strings.Contains(text, "\n") {
		p.expr(x, 0)
		return
	}
	p.put(call.Func.Text, "(")
	for i, a := range call.Args {
		text := ExprString(a)
		if i > 0 {
			p.put(",")
			if p.column()+utf8.RuneCountInString(text)+2 < lineWidth {
				p.put(" ")
			} else {
				p.put("\n", strings.Repeat(indentText, p.indent+2))
			}
		}
		p.put(text)
	}
	p.put(")")
}

// column returns the width of the line so far.
func (p *printer) column() int {
	line := p.out
	for i := len(line) - 1; i >= 0; i-- {
		if line[i] == '\n' {
			line = line[i+1:]
			break
		}
	}
	return utf8.RuneCount(line)
}
