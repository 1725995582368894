// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"strings"
	"unicode/utf8"

	"github.com/antlr4-go/antlr/v4"

	"btc/grammar/parser"
)

// token is the unit of the parser's input. It has its position in bytes, and classify can
// change its type.
type token struct {
	kind       int
	start, end int // byte offsets
	index      int
	text       string
	num        intValue // value of an INT or a PARAM
	str        string   // value of a STRING
}

// The methods of antlr.Token. Lines and columns are not stored: diagnostics compute them from the offset.

func (t *token) GetTokenType() int { return t.kind }
func (t *token) GetStart() int     { return t.start }
func (t *token) GetStop() int      { return t.end - 1 }
func (t *token) GetText() string   { return t.text }
func (t *token) GetTokenIndex() int {
	return t.index
}
func (t *token) SetTokenIndex(i int)                         { t.index = i }
func (t *token) SetText(s string)                            { t.text = s }
func (t *token) GetChannel() int                             { return antlr.TokenDefaultChannel }
func (t *token) GetLine() int                                { return 0 }
func (t *token) GetColumn() int                              { return 0 }
func (t *token) GetSource() *antlr.TokenSourceCharStreamPair { return nil }
func (t *token) GetTokenSource() antlr.TokenSource           { return nil }
func (t *token) GetInputStream() antlr.CharStream            { return nil }
func (t *token) String() string                              { return t.text }

// stream passes tokens to the generated parser. The grammar needs one token of lookahead,
// and the parser never goes back.
type stream struct {
	tokens []*token // the last one is EOF
	pos    int
}

func newStream(tokens []*token) *stream {
	for i, t := range tokens {
		t.index = i
	}
	return &stream{tokens: tokens}
}

func (s *stream) at(i int) *token {
	return s.tokens[min(max(i, 0), len(s.tokens)-1)]
}

// LT returns the k-th token ahead (from 1), or before (negative).
func (s *stream) LT(k int) antlr.Token {
	if k > 0 {
		k--
	}
	return s.at(s.pos + k)
}

// LA returns the type of LT.
func (s *stream) LA(k int) int { return s.LT(k).GetTokenType() }

// Consume advances by one token, but not past EOF.
func (s *stream) Consume() { s.pos = min(s.pos+1, len(s.tokens)-1) }

// The rest of antlr.TokenStream.

func (s *stream) Reset()                                          { s.pos = 0 }
func (s *stream) Get(i int) antlr.Token                           { return s.at(i) }
func (s *stream) Mark() int                                       { return 0 }
func (s *stream) Release(int)                                     {}
func (s *stream) Index() int                                      { return s.pos }
func (s *stream) Seek(i int)                                      { s.pos = i }
func (s *stream) Size() int                                       { return len(s.tokens) }
func (s *stream) GetSourceName() string                           { return "" }
func (s *stream) GetTokenSource() antlr.TokenSource               { return nil }
func (s *stream) SetTokenSource(antlr.TokenSource)                {}
func (s *stream) GetAllText() string                              { return "" }
func (s *stream) GetTextFromInterval(antlr.Interval) string       { return "" }
func (s *stream) GetTextFromRuleContext(antlr.RuleContext) string { return "" }
func (s *stream) GetTextFromTokens(_, _ antlr.Token) string       { return "" }

// lexer drives the generated automaton: it chooses the mode from the tokens read so far.
type lexer struct {
	text     string // the source, with everything the lexer must not see replaced by spaces
	tokens   []*token
	comments []*token
	spare    []token // allocated in batches, for the next tokens

	state lexState
	depth int // open braces
}

type lexState int

const (
	lexTop    lexState = iota // between items, attach points
	lexImport                 // after "import"
	lexLet                    // after "let"
	lexHeader                 // after "macro" and "fn", up to the body
	lexPred                   // in a predicate
	lexBody                   // in a body
	lexExpr                   // in a standalone expression, to the end
)

// tokenize splits text into tokens; start is the initial state.
func tokenize(text string, start lexState) *lexer {
	l := &lexer{text: text, state: start}
	for at := 0; at < len(text); {
		mode := parser.BtLexerBODY
		if l.state == lexTop {
			mode = antlr.LexerDefaultMode
		}
		kind, end := parser.Scan(mode, text, at)
		if kind != parser.Skipped {
			l.add(kind, at, end)
		}
		at = end
	}
	l.emit(antlr.TokenEOF, len(text), len(text))
	return l
}

// add appends a token of the automaton and assigns its type.
func (l *lexer) add(kind, start, end int) {
	text := l.text[start:end]
	switch kind {
	case parser.BtLexerCOMMENT:
		l.comments = append(l.comments, &token{kind: kind, start: start, end: end, text: text})
		return
	case parser.BtLexerIDENT:
		if k, ok := keywords[text]; ok {
			kind = k
		}
	case parser.BtLexerATTACH:
		if name, eq := strings.CutSuffix(text, "="); eq && l.afterConfig(name) {
			if name != "" {
				l.emit(parser.BtLexerCONFIG, start, end-1)
			}
			l.emit(parser.BtLexerASSIGN, end-1, end)
			return
		}
		if k, ok := itemWords[text]; ok {
			kind = k
		}
	case parser.BtLexerERR:
		if !utf8.RuneStart(text[0]) { // the rest of a character that was already reported
			return
		}
		_, n := utf8.DecodeRuneInString(l.text[start:])
		end = start + n
	}
	l.emit(kind, start, end)
}

// afterConfig reports whether the '=' after name is that of a config block: the
// name is "config", or there is none and "config" came before.
func (l *lexer) afterConfig(name string) bool {
	if name != "" {
		return name == "config"
	}
	n := len(l.tokens)
	return n > 0 && l.tokens[n-1].kind == parser.BtLexerCONFIG
}

func (l *lexer) emit(kind, start, end int) {
	if len(l.spare) == 0 {
		l.spare = make([]token, 32)
	}
	t := &l.spare[0]
	l.spare = l.spare[1:]
	*t = token{kind: kind, start: start, end: end, text: l.text[start:end]}
	l.tokens = append(l.tokens, t)
	l.advance(t)
}

// itemWords start an item that is not a probe.
var itemWords = map[string]int{
	"config": parser.BtLexerCONFIG, "fn": parser.BtLexerFN, "import": parser.BtLexerIMPORT,
	"let": parser.BtLexerLET, "macro": parser.BtLexerMACRO,
}

// keywords are the words with a meaning inside items. After '.' and '->'
// and as names of record fields they are plain names.
var keywords = map[string]int{
	"break": parser.BtLexerBREAK, "comptime": parser.BtLexerCOMPTIME, "continue": parser.BtLexerCONTINUE,
	"else": parser.BtLexerELSE, "enum": parser.BtLexerENUM, "false": parser.BtLexerFALSE,
	"for": parser.BtLexerFOR, "if": parser.BtLexerIF, "import": parser.BtLexerIMPORT,
	"let": parser.BtLexerLET, "offsetof": parser.BtLexerOFFSETOF, "return": parser.BtLexerRETURN,
	"sizeof": parser.BtLexerSIZEOF, "struct": parser.BtLexerSTRUCT, "true": parser.BtLexerTRUE,
	"typeinfo": parser.BtLexerTYPEINFO, "typeof": parser.BtLexerTYPEOF, "union": parser.BtLexerUNION,
	"unroll": parser.BtLexerUNROLL, "while": parser.BtLexerWHILE,
}

// advance updates the state after a token.
func (l *lexer) advance(t *token) {
	switch t.kind {
	case parser.BtLexerLBRACE:
		l.depth++
		if l.state == lexTop || l.state == lexHeader {
			l.state = lexBody
		}
		return
	case parser.BtLexerRBRACE:
		l.depth = max(l.depth-1, 0)
		if l.depth == 0 && (l.state == lexBody || l.state == lexPred && !l.predicateContinues(t.end)) {
			l.state = lexTop
		}
		return
	}
	switch l.state {
	case lexTop:
		l.leaveTop(t)
	case lexImport:
		if t.kind == parser.BtLexerSTRING || t.kind == parser.BtLexerSEMI {
			l.state = lexTop
		}
	case lexLet:
		if t.kind == parser.BtLexerRPAREN || t.kind == parser.BtLexerSEMI {
			l.state = lexTop
		}
	case lexPred:
		if t.kind == parser.BtLexerDIV && l.depth == 0 && l.peek(t.end) == '{' {
			t.kind = parser.BtLexerENDPRED
			l.state = lexTop
		}
	}
}

func (l *lexer) leaveTop(t *token) {
	switch t.kind {
	case parser.BtLexerIMPORT:
		l.state = lexImport
	case parser.BtLexerLET:
		l.state = lexLet
	case parser.BtLexerMACRO, parser.BtLexerFN:
		l.state = lexHeader
	case parser.BtLexerDIV:
		l.state = lexPred
	}
}

// predicateContinues reports, after the '}' that closes the outermost brace in a predicate, whether that was a block
// expression, rather than the body of a probe whose predicate is not closed.
func (l *lexer) predicateContinues(offset int) bool {
	switch l.peek(offset) {
	case '/', '+', '-', '*', '%', '&', '|', '^', '=', '!', '<', '>', '?', ':', '.', ')', ']', ',':
		return true
	}
	return false
}

// peek returns the first byte at or after offset that is neither space nor in
// a comment; 0 at the end.
func (l *lexer) peek(offset int) byte {
	offset, _ = skipLayout(l.text, offset)
	if offset >= len(l.text) {
		return 0
	}
	return l.text[offset]
}
