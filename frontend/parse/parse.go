// SPDX-License-Identifier: Apache-2.0

// Package parse turns the source text of a script into its syntax tree.
//
// The stages: scanner extracts the C definitions; the lexer's automaton, generated from grammar/BtLexer.g4, makes
// tokens, in a mode that depends on the context; classifier decides the types of tokens that depend on their
// neighbors; the parser generated from grammar/BtParser.g4 checks the structure with one token of lookahead; builder
// makes the tree.
//
// A syntax error does not end the parse: the statement or item around it is dropped and the rest is parsed again, so
// that all errors of a script are reported at once.
package parse

import (
	"slices"
	"strings"

	"github.com/antlr4-go/antlr/v4"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/grammar/parser"
)

// Script parses a whole script. Errors are added to diags; the result is nil if the script does not match the
// grammar. With errors in literals or attach points only, the result is a tree, so callers must check diags too.
// isValue reports the builtins that are written without parentheses, so that "(pid) - 1" subtracts and is not a cast.
func Script(src *diag.Source, diags *diag.List, isValue func(name string) bool) *ast.Script {
	if !checkText(src, diags) {
		return nil
	}
	sc := &scanner{src: src, text: src.Text, out: []byte(src.Text), diags: diags}
	sc.scan()
	d := &driver{src: src, diags: diags}
	macros := definedValues(sc.defs)
	if !d.prepare(string(sc.out), lexTop, func(name string) bool { return macros[name] || isValue(name) }) {
		return nil
	}
	var script *ast.Script
	b := &builder{src: src, diags: diags}
	clean := d.run(func(p *parser.BtParser) func() {
		tree := p.Script()
		return func() { script = b.script(tree.(*parser.ScriptContext)) }
	})
	if !clean {
		return nil
	}
	script.Shebang = sc.shebang
	script.Comments = mergeComments(d.comments, sc.notes)
	script.Header = mergeHeader(sc.defs, script.Header)
	return script
}

// Expr parses the bytes of span as one expression, such as the value of a #define. The result is nil if they are not
// one; the reason is in diags. isValue reports names that are not types, so that "(name) * x" multiplies.
func Expr(span diag.Span, diags *diag.List, isValue func(name string) bool) ast.Expr {
	src := span.File
	if !checkText(src, diags) {
		return nil
	}
	d := &driver{src: src, diags: diags}
	text := blankOutside(src.Text, span.Start, span.End)
	if !d.prepare(text, lexExpr, isValue) {
		return nil
	}
	var x ast.Expr
	b := &builder{src: src, diags: diags}
	clean := d.run(func(p *parser.BtParser) func() {
		tree := p.LoneExpr()
		return func() { x = b.expr(tree.(*parser.LoneExprContext).Expr()) }
	})
	if !clean {
		return nil
	}
	return x
}

// blankOutside replaces everything outside start and end with spaces, which keeps offsets.
func blankOutside(text string, start, end int) string {
	return strings.Repeat(" ", start) + text[start:end]
}

// mergeComments merges two lists in source order.
func mergeComments(a, b []*ast.Comment) []*ast.Comment {
	if len(b) == 0 {
		return a
	}
	all := append(a, b...)
	slices.SortStableFunc(all, func(x, y *ast.Comment) int { return x.At.Start - y.At.Start })
	return all
}

// mergeHeader merges C definitions with the config block and imports in source order.
func mergeHeader(defs []*ast.CDef, others []ast.Item) []ast.Item {
	var out []ast.Item
	for _, d := range defs {
		for len(others) > 0 && others[0].Span().Start < d.At.Start {
			out = append(out, others[0])
			others = others[1:]
		}
		out = append(out, d)
	}
	return append(out, others...)
}

// driver runs the generated parser.
type driver struct {
	src      *diag.Source
	diags    *diag.List
	tokens   []*token
	comments []*ast.Comment
}

// prepare produces the final tokens. It returns false if the script exceeds a limit.
func (d *driver) prepare(text string, start lexState, isValue func(name string) bool) bool {
	l := tokenize(text, start)
	c := &classifier{tokens: l.tokens, isValue: isValue}
	c.run()
	d.tokens = l.tokens
	literals(d.src, d.tokens, d.diags)
	d.comments = d.makeComments(l.comments)
	return checkNesting(d.src, d.tokens, d.diags)
}

func (d *driver) makeComments(tokens []*token) []*ast.Comment {
	var out []*ast.Comment
	for _, t := range tokens {
		at := d.src.Span(t.start, t.end)
		if strings.HasPrefix(t.text, "/*") && (len(t.text) < 4 || !strings.HasSuffix(t.text, "*/")) {
			d.diags.Add(diag.OpenComment, d.src.Span(t.start, t.start+2), "syntax: unterminated comment")
		}
		out = append(out, &ast.Comment{Extent: ast.Ext(at), Text: strings.TrimRight(t.text, " \t\r")})
	}
	return out
}

// run parses until no error is left or nothing more can be dropped, and reports whether there was no error. The rest
// of the script is built even after an error, to find the errors that the builder reports.
func (d *driver) run(start func(*parser.BtParser) (build func())) (clean bool) {
	for n := 0; n < maxErrors; n++ {
		build, err := d.once(start)
		if err == nil {
			build()
			return n == 0
		}
		d.report(err)
		if !d.drop(err) {
			return false
		}
	}
	return false
}

// once parses the tokens up to the first error.
func (d *driver) once(start func(*parser.BtParser) func()) (build func(), err *syntaxError) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(*syntaxPanic)
			if !ok {
				panic(r)
			}
			err = f.err
		}
	}()
	// The automaton for adaptive prediction is left out: no decision of the grammar uses it, and an error gets it
	// later (newSyntaxError).
	p := &parser.BtParser{BaseParser: antlr.NewBaseParser(newStream(d.tokens))}
	p.RemoveErrorListeners()
	p.SetErrorHandler(&firstError{antlr.NewDefaultErrorStrategy(), p.BaseParser})
	return start(p), nil
}

// drop removes the statement or item around an error, so that the rest can be parsed. It
// returns false if that is not possible.
func (d *driver) drop(f *syntaxError) bool {
	i := f.got.index
	if f.got.kind == antlr.TokenEOF {
		return false
	}
	depth := 0
	for _, t := range d.tokens[:i] {
		switch t.kind {
		case parser.BtLexerLBRACE, parser.BtLexerS_LBRACE:
			depth++
		case parser.BtLexerRBRACE:
			depth--
		}
	}
	start, end := d.errorRange(i, depth == 0)
	if start == end {
		end = start + 1
	}
	d.tokens = append(d.tokens[:start:start], d.tokens[end:]...)
	return true
}

// errorRange returns the range of tokens of the statement, or with top of the whole item, that the token at i belongs
// to. It excludes a ';' after it.
func (d *driver) errorRange(i int, top bool) (start, end int) {
	depth := 0
	for start = i; start > 0; start-- {
		k := d.tokens[start-1].kind
		if k == parser.BtLexerRBRACE && (depth > 0 || d.tokens[start].kind == parser.BtLexerELSE) {
			depth++
			continue
		}
		if k == parser.BtLexerLBRACE || k == parser.BtLexerS_LBRACE {
			if depth == 0 {
				break
			}
			depth--
			continue
		}
		if depth == 0 && (k == parser.BtLexerSEMI || k == parser.BtLexerRBRACE) {
			break
		}
	}
	depth = 0
	for end = i; end < len(d.tokens)-1; end++ {
		switch d.tokens[end].kind {
		case parser.BtLexerLBRACE, parser.BtLexerS_LBRACE:
			depth++
		case parser.BtLexerRBRACE:
			if depth == 0 {
				return start, end
			}
			depth--
			if depth == 0 && !continues(d.tokens[start], d.tokens[end+1]) {
				return start, end + 1
			}
		case parser.BtLexerSEMI:
			if depth > 0 {
				break
			}
			inside := parenthesesEnd(d.tokens[start:end], d.tokens[end+1:])
			if inside == 0 {
				return start, end
			}
			end += inside
		case parser.BtLexerATTACH:
			if top && depth == 0 && end > i && d.tokens[end-1].kind == parser.BtLexerRBRACE {
				return start, end
			}
		}
	}
	return start, end
}

// continues reports whether a statement with an error continues with a token after a '}'.
func continues(first, next *token) bool {
	switch next.kind {
	case parser.BtLexerELSE, parser.BtLexerASSIGN, parser.BtLexerASSIGN_OP:
		return true
	case parser.BtLexerWHILE:
		return first.text == "do"
	}
	return false
}

// parenthesesEnd returns the number of tokens of after up to the ')' that closes the parentheses left open by before: a
// ';' between the two does not end a statement. It is 0 if a brace comes first.
func parenthesesEnd(before, after []*token) int {
	open := 0
	for _, t := range before {
		open += t.opens()
	}
	if open <= 0 {
		return 0
	}
	for i, t := range after {
		switch t.kind {
		case parser.BtLexerLBRACE, parser.BtLexerS_LBRACE, parser.BtLexerRBRACE:
			return 0
		}
		if open += t.opens(); open == 0 {
			return i + 1
		}
	}
	return 0
}

// opens returns the change in the number of open parentheses at a token.
func (t *token) opens() int {
	switch t.kind {
	case parser.BtLexerLPAREN, parser.BtLexerCAST_OPEN, parser.BtLexerTYPE_OPEN, parser.BtLexerREC_OPEN:
		return 1
	case parser.BtLexerRPAREN:
		return -1
	}
	return 0
}
