package parse

import (
	"fmt"

	"github.com/antlr4-go/antlr/v4"

	"btc/frontend/diag"
	"btc/grammar/parser"
)

// fault is the first syntax error of a parse.
type fault struct {
	rule      int   // rule that was being parsed
	want      []int // token types that could have come
	prev, got *token
	before    []*token // all tokens before got
}

type syntaxPanic struct{ fault *fault }

// firstError is an error strategy that ends the parse at the first error: the
// driver then repairs and starts again. (The runtime's own bail strategy
// panics with a message of its own.)
type firstError struct {
	*antlr.DefaultErrorStrategy
}

// Sync does nothing: every decision of the grammar checks its token.
func (*firstError) Sync(antlr.Parser) {}

// ReportMatch does nothing: there is no recovery to end.
func (*firstError) ReportMatch(antlr.Parser) {}

// RecoverInline is called when a token that must come does not.
func (*firstError) RecoverInline(p antlr.Parser) antlr.Token { panic(newFault(p)) }

// ReportError is called when no alternative starts with the token.
func (*firstError) ReportError(p antlr.Parser, _ antlr.RecognitionException) { panic(newFault(p)) }

func newFault(p antlr.Parser) *syntaxPanic {
	ts := p.GetTokenStream().(*stream)
	f := &fault{rule: p.GetParserRuleContext().GetRuleIndex(), got: ts.at(ts.pos), before: ts.tokens[:ts.pos]}
	if ts.pos > 0 {
		f.prev = ts.at(ts.pos - 1)
	}
	for _, iv := range p.GetExpectedTokens().GetIntervals() {
		for k := iv.Start; k < iv.Stop; k++ {
			f.want = append(f.want, k)
		}
	}
	return &syntaxPanic{f}
}

func (f *fault) wants(kind int) bool {
	for _, k := range f.want {
		if k == kind {
			return true
		}
	}
	return false
}

// expectations word what should have come, by rule and by one of the tokens
// that could have come. The first row that fits is taken; rule -1 fits all.
var expectations = []struct {
	rule, want int
	text       string
}{
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
	{parser.BtParserRULE_suffix, parser.BtLexerIDENT, "expected field name"},
	{parser.BtParserRULE_recordField, parser.BtLexerIDENT, "expected identifier"},
	{parser.BtParserRULE_typeName, parser.BtLexerIDENT, "expected type name"},
	{parser.BtParserRULE_tagType, parser.BtLexerIDENT, "expected identifier"},
	{parser.BtParserRULE_typeSuffix, parser.BtLexerRBRACK, "expected ']'"},
	{-1, parser.BtLexerPARAMCOUNT, "expected expression"},
}

// report words a fault.
func (d *driver) report(f *fault) {
	at := d.src.Span(f.got.start, f.got.end)
	found := "end of script"
	switch {
	case f.got.kind != antlr.TokenEOF:
		found = "'" + f.got.text + "'"
	case f.prev != nil: // not after blank lines
		at = d.src.Span(f.prev.end, f.prev.end)
	}
	switch f.got.kind {
	case parser.BtLexerBADSTRING: // reported with the literals
		return
	case parser.BtLexerERR:
		d.reportCharacter(f, at)
		return
	}
	if f.inBlock() {
		d.reportInBlock(f, at, found)
		return
	}
	d.diags.Add(diag.Syntax, at, "syntax: %s, found %s", f.expected(), found)
}

func (d *driver) reportCharacter(f *fault, at diag.Span) {
	switch f.got.text {
	case "$":
		d.diags.Add(diag.Syntax, at, "syntax: expected identifier after '$'")
	case `"`:
		d.diags.Add(diag.UnterminatedString, at, "syntax: unterminated string")
	default:
		d.diags.Add(diag.Syntax, at, "syntax: unexpected input '%s'", f.got.text)
	}
}

// inBlock tells a fault after a complete statement or at its start.
func (f *fault) inBlock() bool {
	switch f.rule {
	case parser.BtParserRULE_body, parser.BtParserRULE_control, parser.BtParserRULE_primary, parser.BtParserRULE_stmts:
		return len(f.want) == 1 && f.wants(parser.BtLexerRBRACE)
	}
	return false
}

func (d *driver) reportInBlock(f *fault, at diag.Span, found string) {
	if f.got.kind == antlr.TokenEOF {
		e := d.diags.Add(diag.Syntax, at, "syntax: expected '}', found end of script")
		if open := f.openBrace(); open != nil {
			e.Note(d.src.Span(open.start, open.end), "the '{' is here")
		}
		return
	}
	switch f.prev.kind {
	case parser.BtLexerSEMI, parser.BtLexerLBRACE, parser.BtLexerS_LBRACE, parser.BtLexerRBRACE:
		d.diags.Add(diag.Syntax, at, "syntax: unexpected input in block: %s", found)
		return
	}
	switch f.got.kind {
	case parser.BtLexerRPAREN, parser.BtLexerRBRACK, parser.BtLexerCOMMA, parser.BtLexerCOLON, parser.BtLexerASSIGN, parser.BtLexerASSIGN_OP:
		d.diags.Add(diag.Syntax, at, "syntax: unexpected %s, expected ';'", found)
		return
	}
	end := d.src.Span(f.prev.end, f.prev.end)
	d.diags.Add(diag.Syntax, end, "syntax: expected ';', found %s", found)
}

// openBrace is the innermost '{' before the fault that is not closed.
func (f *fault) openBrace() *token {
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

func (f *fault) expected() string {
	for _, e := range expectations {
		if (e.rule == f.rule || e.rule < 0) && f.wants(e.want) {
			return e.text
		}
	}
	text := "expected "
	for i, k := range f.want {
		switch {
		case i > 0 && i == len(f.want)-1:
			text += " or "
		case i > 0:
			text += ", "
		}
		text += tokenName(k)
	}
	return text
}

// tokenName is how messages call a token type.
func tokenName(kind int) string {
	switch kind {
	case antlr.TokenEOF:
		return "end of script"
	case parser.BtLexerIDENT:
		return "identifier"
	case parser.BtLexerVAR:
		return "variable"
	case parser.BtLexerMAP:
		return "map"
	case parser.BtLexerINT:
		return "integer"
	case parser.BtLexerSTRING:
		return "string"
	case parser.BtLexerS_LBRACE:
		return "'{'"
	case parser.BtLexerENDPRED:
		return "'/'"
	case parser.BtLexerATTACH:
		return "attach point"
	case parser.BtLexerASSIGN_OP:
		return "assignment operator"
	case parser.BtLexerTYPE_OPEN, parser.BtLexerCAST_OPEN, parser.BtLexerREC_OPEN:
		return "'('"
	}
	names := parser.BtParserParserStaticData.LiteralNames
	if kind < len(names) && names[kind] != "" {
		return names[kind]
	}
	return fmt.Sprintf("token %d", kind)
}
