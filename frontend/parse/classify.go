// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"strings"

	"btc/frontend/ast"
	"btc/grammar/parser"
)

// classifier assigns tokens the types that a parser with one token of lookahead needs: keywords used as names,
// statement starts, and the kinds of '('. It also limits nesting.
type classifier struct {
	tokens []*token
	// isValue reports names of builtins and C macros with a value, so that "(name) - 1" is a subtraction and not a cast.
	isValue func(name string) bool
}

// typeNames are the words that always name a type.
var typeNames = wordSet(`bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 void string buffer inet
	timestamp macaddr_t cgroup_path_t username_t count_t sum_t min_t max_t avg_t stats_t usum_t umin_t
	umax_t uavg_t ustats_t`)

func wordSet(words string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// definedValues returns the names of the object-like macros of a script.
func definedValues(defs []*ast.CDef) map[string]bool {
	set := make(map[string]bool)
	for _, d := range defs {
		if d.Kind != ast.CDirective || d.Name != "define" {
			continue
		}
		if f := strings.Fields(d.Text[strings.Index(d.Text, "define")+len("define"):]); len(f) > 1 &&
			!strings.Contains(f[0], "(") {
			set[f[0]] = true
		}
	}
	return set
}

// keywordTypes are the token types of keywords.
var keywordTypes = func() map[int]bool {
	types := make(map[int]bool)
	for _, k := range keywords {
		types[k] = true
	}
	return types
}()

func (c *classifier) kind(i int) int {
	if i < 0 || i >= len(c.tokens) {
		return 0
	}
	return c.tokens[i].kind
}

func (c *classifier) run() {
	for i, t := range c.tokens {
		prev := c.kind(i - 1)
		switch t.kind {
		case parser.BtLexerIF:
			if startsStatement(prev) {
				t.kind = parser.BtLexerS_IF
			}
		case parser.BtLexerLBRACE:
			if startsStatement(prev) {
				t.kind = parser.BtLexerS_LBRACE
			}
		case parser.BtLexerLPAREN:
			t.kind = c.paren(i, prev)
		}
		if keywordTypes[t.kind] && c.isName(i, prev) {
			t.kind = parser.BtLexerIDENT
		}
	}
}

func startsStatement(prev int) bool {
	switch prev {
	case parser.BtLexerLBRACE, parser.BtLexerS_LBRACE, parser.BtLexerRBRACE, parser.BtLexerSEMI:
		return true
	}
	return false
}

// isName reports whether a keyword is used as the name of a field or struct: x.type, x->next, (for=1), struct return.
func (c *classifier) isName(i, prev int) bool {
	switch prev {
	case parser.BtLexerDOT, parser.BtLexerARROW, parser.BtLexerSTRUCT, parser.BtLexerUNION, parser.BtLexerENUM:
		return true
	case parser.BtLexerREC_OPEN, parser.BtLexerCOMMA:
		next, kind := c.kind(i+1), c.kind(i)
		field := next == parser.BtLexerRPAREN || next == parser.BtLexerDOT // offsetof(x, for)
		return next == parser.BtLexerASSIGN || field && kind != parser.BtLexerTRUE && kind != parser.BtLexerFALSE
	}
	return false
}

// paren classifies the '(' at i.
func (c *classifier) paren(i, prev int) int {
	next := c.kind(i + 1)
	switch prev {
	case parser.BtLexerIDENT: // a call
		return parser.BtLexerLPAREN
	case parser.BtLexerSIZEOF, parser.BtLexerOFFSETOF, parser.BtLexerTYPEOF, parser.BtLexerTYPEINFO:
		if c.startsType(i + 1) {
			return parser.BtLexerTYPE_OPEN
		}
		return parser.BtLexerLPAREN
	}
	switch {
	case (next == parser.BtLexerIDENT || keywordTypes[next]) && c.kind(i+2) == parser.BtLexerASSIGN:
		return parser.BtLexerREC_OPEN
	case next == parser.BtLexerSTRUCT,
		next == parser.BtLexerUNION,
		next == parser.BtLexerENUM,
		next == parser.BtLexerTYPEOF:
		return parser.BtLexerCAST_OPEN
	case next == parser.BtLexerIDENT && c.isCast(i+1):
		return parser.BtLexerCAST_OPEN
	}
	return parser.BtLexerLPAREN
}

// startsType reports, after "sizeof(" and the like, whether a type follows. A single word that is not a builtin type
// stays an expression; the checker resolves it.
func (c *classifier) startsType(i int) bool {
	switch c.kind(i) {
	case parser.BtLexerSTRUCT, parser.BtLexerUNION, parser.BtLexerENUM, parser.BtLexerTYPEOF:
		return true
	case parser.BtLexerIDENT:
		name := c.tokens[i].text
		end, suffixed := c.typeSuffix(i + 1)
		if isArg(name) || c.isValue(name) {
			return false
		}
		after := c.kind(end)
		return (suffixed || typeNames[name]) && (after == parser.BtLexerRPAREN || after == parser.BtLexerCOMMA)
	}
	return false
}

// isCast reports whether the word at i, just after '(', names the type of a cast.
func (c *classifier) isCast(i int) bool {
	name := c.tokens[i].text
	if isArg(name) || c.isValue(name) {
		return false
	}
	end, _ := c.typeSuffix(i + 1)
	return c.kind(end) == parser.BtLexerRPAREN && startsOperand(c.kind(end+1))
}

// typeSuffix skips '*' and '[N]'.
func (c *classifier) typeSuffix(i int) (end int, any bool) {
	for start := i; ; {
		switch {
		case c.kind(i) == parser.BtLexerSTAR:
			i++
		case c.kind(i) == parser.BtLexerLBRACK && c.kind(i+1) == parser.BtLexerRBRACK:
			i += 2
		case c.kind(i) == parser.BtLexerLBRACK && c.kind(i+1) == parser.BtLexerINT && c.kind(i+2) == parser.BtLexerRBRACK:
			i += 3
		default:
			return i, i > start
		}
	}
}

// startsOperand reports whether a token makes "(word) token" a cast.
func startsOperand(kind int) bool {
	switch kind {
	case parser.BtLexerINT, parser.BtLexerSTRING, parser.BtLexerVAR, parser.BtLexerMAP, parser.BtLexerPARAM,
		parser.BtLexerPARAMCOUNT, parser.BtLexerLPAREN, parser.BtLexerMINUS, parser.BtLexerNOT, parser.BtLexerTILDE,
		parser.BtLexerSTAR, parser.BtLexerAND, parser.BtLexerINC, parser.BtLexerDEC, parser.BtLexerIDENT,
		parser.BtLexerTRUE, parser.BtLexerFALSE,
		parser.BtLexerSIZEOF, parser.BtLexerOFFSETOF, parser.BtLexerTYPEINFO, parser.BtLexerCOMPTIME:
		return true
	}
	return false
}

// isArg reports whether a name is arg0, arg1, ... or sarg0, ...
func isArg(name string) bool {
	digits, ok := strings.CutPrefix(strings.TrimPrefix(name, "s"), "arg")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}
