// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/antlr4-go/antlr/v4"

	"btc/frontend/diag"
	"btc/grammar/parser"
)

// syntaxError is the first syntax error of a parse.
type syntaxError struct {
	rule      int   // rule being parsed
	want      []int // token types that were expected
	prev, got *token
	next      *token   // the token after got
	before    []*token // all tokens before got
}

type syntaxPanic struct{ err *syntaxError }

// firstError is an error strategy that ends the parse at the first error: the driver then drops the erroneous part
// and starts again. (The runtime's bail strategy panics with its own message.)
type firstError struct {
	*antlr.DefaultErrorStrategy
	parser *antlr.BaseParser
}

// Sync does nothing: every decision of the grammar checks its token.
func (*firstError) Sync(antlr.Parser) {}

// ReportMatch does nothing: there is no recovery to end.
func (*firstError) ReportMatch(antlr.Parser) {}

// RecoverInline is called when the next token is not the required one.
func (e *firstError) RecoverInline(antlr.Parser) antlr.Token { panic(newSyntaxError(e.parser)) }

// ReportError is called when no alternative starts with the token.
func (e *firstError) ReportError(antlr.Parser, antlr.RecognitionException) {
	panic(newSyntaxError(e.parser))
}

func newSyntaxError(p *antlr.BaseParser) *syntaxPanic {
	ts := p.GetTokenStream().(*stream)
	f := &syntaxError{
		rule:   p.GetParserRuleContext().GetRuleIndex(),
		got:    ts.at(ts.pos),
		next:   ts.at(ts.pos + 1),
		before: ts.tokens[:ts.pos],
	}
	if ts.pos > 0 {
		f.prev = ts.at(ts.pos - 1)
	}
	p.Interpreter = parser.NewBtParser(ts).Interpreter
	for _, iv := range p.GetExpectedTokens().GetIntervals() {
		for k := iv.Start; k < iv.Stop; k++ {
			f.want = append(f.want, k)
		}
	}
	return &syntaxPanic{f}
}

// afterOpening reports whether nothing was read since a bracket or a separator, so that an element or the end of the
// list would be valid here.
func (f *syntaxError) afterOpening() bool {
	if f.prev == nil {
		return false
	}
	switch f.prev.kind {
	case parser.BtLexerLPAREN, parser.BtLexerLBRACE, parser.BtLexerCOMMA, parser.BtLexerSEMI:
		return true
	}
	return false
}

func (f *syntaxError) wants(kind int) bool {
	for _, k := range f.want {
		if k == kind {
			return true
		}
	}
	return false
}

// expectations describe what was expected, by rule and by one of the expected tokens. The first matching row is used;
// rule -1 matches all.
var expectations = []struct {
	rule, want int
	text       string
}{
	{-1, parser.BtLexerPARAMCOUNT, "expected expression"},
	{parser.BtParserRULE_script, antlr.TokenEOF, "expected attach point"},
	{parser.BtParserRULE_item, parser.BtLexerATTACH, "expected attach point"},
	{parser.BtParserRULE_config, parser.BtLexerRBRACE, "expected ';'"},
	{parser.BtParserRULE_configValue, parser.BtLexerSTRING, "expected string, int, boolean, or ident"},
	{parser.BtParserRULE_importDef, parser.BtLexerSTRING, "expected string after 'import'"},
	{parser.BtParserRULE_importDef, parser.BtLexerSEMI, "expected ';' after import"},
	{parser.BtParserRULE_simple, parser.BtLexerSTRING, "expected string after 'import'"},
	{parser.BtParserRULE_macro, parser.BtLexerIDENT, "expected macro name"},
	{parser.BtParserRULE_macroParam, parser.BtLexerIDENT, "expected macro argument ($var, @map, or identifier)"},
	{parser.BtParserRULE_funcDef, parser.BtLexerIDENT, "expected function name"},
	{parser.BtParserRULE_funcParam, parser.BtLexerVAR, "expected variable in function argument"},
	{parser.BtParserRULE_mapDecl, parser.BtLexerMAP, "root-level let statements need to be map declarations, e.g. let @a = hash(2);"},
	{parser.BtParserRULE_mapDecl, parser.BtLexerIDENT, "expected map type name"},
	{parser.BtParserRULE_mapDecl, parser.BtLexerINT, "expected positive integer for map declaration max entries"},
	{parser.BtParserRULE_predicate, parser.BtLexerENDPRED, "expected '/' to close predicate"},
	{parser.BtParserRULE_simple, parser.BtLexerVAR, "expected variable after 'let'"},
	{parser.BtParserRULE_forStmt, parser.BtLexerVAR, "expected variable in for loop"},
	{parser.BtParserRULE_forHead, parser.BtLexerVAR, "expected variable in for loop"},
	{parser.BtParserRULE_ifRest, parser.BtLexerIF, "expected '{' or 'if' after 'else'"},
	{parser.BtParserRULE_primary, parser.BtLexerIDENT, "expected field name"},
	{parser.BtParserRULE_suffix, parser.BtLexerIDENT, "expected field name"},
	{parser.BtParserRULE_recordField, parser.BtLexerIDENT, "expected identifier"},
	{parser.BtParserRULE_typeName, parser.BtLexerIDENT, "expected type name"},
	{parser.BtParserRULE_tagType, parser.BtLexerIDENT, "expected identifier"},
	{parser.BtParserRULE_typeSuffix, parser.BtLexerRBRACK, "expected ']'"},
}

// report adds the diagnostic of an error.
func (d *driver) report(f *syntaxError) {
	at := d.src.Span(f.got.start, f.got.end)
	found := "end of script"
	switch {
	case f.got.kind != antlr.TokenEOF:
		found = "'" + f.got.text + "'"
	case f.prev != nil: // the position is the end of the previous token, not after empty lines
		at = d.src.Span(f.prev.end, f.prev.end)
	}
	switch f.got.kind {
	case parser.BtLexerBADSTRING: // reported with the literals
		return
	case parser.BtLexerERR:
		d.reportCharacter(f, at)
		return
	case antlr.TokenEOF:
		if d.diags.HasErrors() { // further errors at the end of the input are consequences of the first
			return
		}
	}
	var e *diag.Diagnostic
	if f.inBlock() {
		e = d.reportInBlock(f, at, found)
	} else {
		e = d.diags.Add(diag.Syntax, at, "syntax: %s, found %s", f.expected(), found)
	}
	if hint := d.hint(f); hint != "" {
		e.Hint("%s", hint)
	}
}

func (d *driver) reportCharacter(f *syntaxError, at diag.Span) {
	switch f.got.text {
	case "$":
		d.diags.Add(diag.Syntax, at, "syntax: expected identifier after '$'").
			Hint("the shell may have expanded a variable here: put the script in single quotes")
	case `"`:
		d.diags.Add(diag.UnterminatedString, at, "syntax: unterminated string")
	default:
		shown := f.got.text
		if r, _ := utf8.DecodeRuneInString(shown); !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			shown = fmt.Sprintf("%U", r)
		}
		e := d.diags.Add(diag.Syntax, at, "syntax: unexpected input '%s'", shown)
		if hint := characterHint(f.got.text); hint != "" {
			e.Hint("%s", hint)
		}
	}
}

// inBlock reports whether an error is after a complete statement or at its start.
func (f *syntaxError) inBlock() bool {
	switch f.rule {
	case parser.BtParserRULE_body, parser.BtParserRULE_control, parser.BtParserRULE_primary, parser.BtParserRULE_stmts:
		return len(f.want) == 1 && f.wants(parser.BtLexerRBRACE)
	}
	return false
}

func (d *driver) reportInBlock(f *syntaxError, at diag.Span, found string) *diag.Diagnostic {
	if f.got.kind == antlr.TokenEOF {
		e := d.diags.Add(diag.Syntax, at, "syntax: expected '}', found end of script")
		if open := f.openBrace(); open != nil {
			e.Note(d.src.Span(open.start, open.end), "the '{' is here")
		}
		return e
	}
	switch f.prev.kind {
	case parser.BtLexerSEMI, parser.BtLexerLBRACE, parser.BtLexerS_LBRACE:
		return d.diags.Add(diag.Syntax, at, "syntax: unexpected input in block: %s", found)
	}
	switch f.got.kind {
	case parser.BtLexerRPAREN,
		parser.BtLexerRBRACK,
		parser.BtLexerCOMMA,
		parser.BtLexerCOLON,
		parser.BtLexerASSIGN,
		parser.BtLexerASSIGN_OP:
	default: // a following statement: the ';' is missing before it
		at = d.src.Span(f.prev.end, f.prev.end)
	}
	return d.diags.Add(diag.Syntax, at, "syntax: expected ';', found %s", found)
}

// openBrace returns the innermost unclosed '{' before the error.
func (f *syntaxError) openBrace() *token {
	depth := 0
	for i := len(f.before) - 1; i >= 0; i-- {
		switch f.before[i].kind {
		case parser.BtLexerRBRACE:
			depth++
		case parser.BtLexerLBRACE, parser.BtLexerS_LBRACE:
			if depth == 0 {
				return f.before[i]
			}
			depth--
		}
	}
	return nil
}

func (f *syntaxError) expected() string {
	if f.afterOpening() {
		switch f.rule {
		case parser.BtParserRULE_config:
			if f.wants(parser.BtLexerRBRACE) {
				return "expected config key"
			}
		case parser.BtParserRULE_primary, parser.BtParserRULE_call:
			if f.wants(parser.BtLexerRPAREN) {
				return "expected expression"
			}
		case parser.BtParserRULE_macro:
			return "expected macro argument ($var, @map, or identifier)"
		case parser.BtParserRULE_funcDef:
			return "expected variable in function argument"
		}
	}
	for _, e := range expectations {
		if (e.rule == f.rule || e.rule < 0) && f.wants(e.want) {
			return e.text
		}
	}
	var names []string
	for _, k := range f.want {
		if name := tokenName(k); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return "expected " + strings.Join(names, " or ")
}

// tokenNames are the token types without a spelling in the grammar.
var tokenNames = map[int]string{
	antlr.TokenEOF:           "end of script",
	parser.BtLexerIDENT:      "identifier",
	parser.BtLexerVAR:        "variable",
	parser.BtLexerMAP:        "map",
	parser.BtLexerINT:        "integer",
	parser.BtLexerSTRING:     "string",
	parser.BtLexerATTACH:     "attach point",
	parser.BtLexerASSIGN_OP:  "assignment operator",
	parser.BtLexerLBRACE:     "'{'",
	parser.BtLexerS_LBRACE:   "'{'",
	parser.BtLexerRBRACE:     "'}'",
	parser.BtLexerCOMMA:      "','",
	parser.BtLexerSEMI:       "';'",
	parser.BtLexerDIV:        "'/'",
	parser.BtLexerENDPRED:    "'/'",
	parser.BtLexerS_IF:       "'if'",
	parser.BtLexerTYPE_OPEN:  "'('",
	parser.BtLexerCAST_OPEN:  "'('",
	parser.BtLexerREC_OPEN:   "'('",
	parser.BtLexerPARAM:      "parameter",
	parser.BtLexerPARAMCOUNT: "'$#'",
	parser.BtLexerCONFIG:     "'config'",
	parser.BtLexerMACRO:      "'macro'",
	parser.BtLexerFN:         "'fn'",
}

// tokenName returns the name of a token type in messages.
func tokenName(kind int) string {
	if name, ok := tokenNames[kind]; ok {
		return name
	}
	for word, k := range keywords {
		if k == kind {
			return "'" + word + "'"
		}
	}
	if names := parser.BtParserParserStaticData.LiteralNames; kind < len(names) && names[kind] != "" {
		return names[kind]
	}
	panic(fmt.Sprintf("BUG: token type %d has no name", kind))
}
