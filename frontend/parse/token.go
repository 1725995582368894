package parse

import (
	"unicode/utf8"

	"github.com/antlr4-go/antlr/v4"

	"btc/frontend/diag"
	"btc/grammar/parser"
)

// token is what the parser reads. It knows its place in bytes, where the
// generated lexer counts runes, and its type can be changed by classify.
type token struct {
	kind       int
	start, end int // byte offsets
	index      int
	text       string
	num        intValue // of an INT and a PARAM
	str        string   // of a STRING
}

// The methods of antlr.Token. Lines and columns are not kept: diagnostics
// compute them from the offset.

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

// stream hands tokens to the generated parser. The grammar needs one token of
// lookahead, and the parser never goes back.
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

// LT returns the k-th token ahead (from 1), or behind (negative).
func (s *stream) LT(k int) antlr.Token {
	if k > 0 {
		k--
	}
	return s.at(s.pos + k)
}

// LA returns the type of LT.
func (s *stream) LA(k int) int { return s.LT(k).GetTokenType() }

// Consume moves on by one token; EOF stays.
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

// lexer drives the generated lexer: it chooses the mode by what it has read.
type lexer struct {
	src      *diag.Source
	text     string // the source, with what is not for the lexer blanked out
	antlr    *parser.BtLexer
	offsets  []int // byte offset of each rune; nil if equal
	tokens   []*token
	comments []*token

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
	lexExpr                   // in an expression on its own, to the end
)

// tokenize splits text into tokens; start is the state to begin with.
func tokenize(src *diag.Source, text string, start lexState) *lexer {
	lx := parser.NewBtLexer(antlr.NewInputStream(text))
	lx.RemoveErrorListeners()
	l := &lexer{src: src, text: text, antlr: lx, offsets: runeOffsets(text), state: start}
	for {
		mode := parser.BtLexerBODY
		if l.state == lexTop {
			mode = antlr.LexerDefaultMode
		}
		lx.SetMode(mode)
		raw := lx.NextToken()
		t := l.convert(raw)
		if raw.GetChannel() != antlr.TokenDefaultChannel {
			l.comments = append(l.comments, t)
			continue
		}
		l.tokens = append(l.tokens, t)
		if t.kind == antlr.TokenEOF {
			return l
		}
		l.advance(t)
	}
}

func runeOffsets(text string) []int {
	if utf8.RuneCountInString(text) == len(text) {
		return nil
	}
	return diag.NewSource("", text).RuneOffsets()
}

func (l *lexer) convert(raw antlr.Token) *token {
	start, end := raw.GetStart(), raw.GetStop()+1
	if raw.GetTokenType() == antlr.TokenEOF {
		return &token{kind: antlr.TokenEOF, start: len(l.text), end: len(l.text)}
	}
	if l.offsets != nil {
		start, end = l.offsets[start], l.offsets[end]
	}
	return &token{kind: raw.GetTokenType(), start: start, end: end, text: l.text[start:end]}
}

// advance moves the state on after a token.
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
		if l.depth == 0 && (l.state == lexBody || l.state == lexPred && !l.predicateGoesOn(t.end)) {
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

// predicateGoesOn tells, after a '}' that closes the outermost brace of a
// predicate, whether that was a block expression or the body of a probe whose
// predicate lacks its end.
func (l *lexer) predicateGoesOn(offset int) bool {
	switch l.peek(offset) {
	case '/', '+', '-', '*', '%', '&', '|', '^', '=', '!', '<', '>', '?', ':', '.', ')', ']', ',':
		return true
	}
	return false
}

// peek returns the first byte at or after offset that is neither blank nor in
// a comment; 0 at the end.
func (l *lexer) peek(offset int) byte {
	offset, _ = skipLayout(l.text, offset)
	if offset >= len(l.text) {
		return 0
	}
	return l.text[offset]
}
