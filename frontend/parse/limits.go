// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"strings"
	"unicode/utf8"

	"btc/frontend/diag"
	"btc/grammar/parser"
)

// MaxBytes bounds a script: a larger one can take a gigabyte of memory.
const MaxBytes = 2 << 20

// Limits that turn a hang or a stack overflow into a diagnostic. Real scripts stay below one percent of them.
const (
	maxBytes     = MaxBytes
	maxNesting   = 300     // depth of brackets
	maxChain     = 300     // prefix operators in a row, and "?:" in a statement
	maxElse      = 2500    // length of an "else if" chain; all chains around a position together may have four times as many
	maxStatement = 20000   // tokens
	maxName      = 255     // bytes of a name, without $ and @
	maxAttach    = 8 << 10 // bytes of an attach point; a path has up to 4096
	maxErrors    = 20      // syntax errors per script
)

// checkText reports a source that is not valid UTF-8 or too large.
func checkText(src *diag.Source, diags *diag.List) bool {
	if len(src.Text) > maxBytes {
		diags.Add(diag.TooLarge, src.Span(0, 0), "syntax: script too large: %d bytes (max %d)", len(src.Text),
			maxBytes)
		return false
	}
	if i := strings.IndexByte(src.Text, 0); i >= 0 {
		diags.Add(diag.NotText, src.Span(i, i+1), "syntax: NUL byte: the script is not a text file")
		return false
	}
	if utf8.ValidString(src.Text) {
		return true
	}
	for i, r := range src.Text {
		if _, n := utf8.DecodeRuneInString(src.Text[i:]); r == utf8.RuneError && n == 1 {
			diags.Add(diag.NotText, src.Span(i, i+1), "syntax: invalid UTF-8: byte 0x%02x", src.Text[i])
			break
		}
	}
	return false
}

// nesting counts constructs that make the generated parser and the tree walkers recurse.
type nesting struct {
	open     int
	prefix   int         // prefix operators in a row
	branches int         // '?' in the statement
	tokens   int         // in the statement
	elses    map[int]int // length of the "else if" chain at each depth
	allElses int         // the sum of them
}

func (n *nesting) add(kind, next int) {
	n.tokens++
	switch kind {
	case parser.BtLexerMINUS, parser.BtLexerNOT, parser.BtLexerTILDE, parser.BtLexerSTAR, parser.BtLexerAND,
		parser.BtLexerINC, parser.BtLexerDEC, parser.BtLexerCOMPTIME, parser.BtLexerIF, parser.BtLexerS_IF:
		n.prefix++
	default:
		n.prefix = 0
	}
	switch kind {
	case parser.BtLexerLPAREN,
		parser.BtLexerLBRACK,
		parser.BtLexerCAST_OPEN,
		parser.BtLexerTYPE_OPEN,
		parser.BtLexerREC_OPEN:
		n.open++
	case parser.BtLexerRPAREN, parser.BtLexerRBRACK:
		n.open--
	case parser.BtLexerLBRACE, parser.BtLexerS_LBRACE:
		n.open++
		n.tokens = 0
	case parser.BtLexerRBRACE:
		n.open--
		n.tokens = 0
		if next != parser.BtLexerELSE {
			n.allElses -= n.elses[n.open]
			delete(n.elses, n.open)
		}
	case parser.BtLexerSEMI:
		n.tokens, n.branches = 0, 0
	case parser.BtLexerQUESTION:
		n.branches++
	case parser.BtLexerELSE:
		n.elses[n.open]++
		n.allElses++
	}
}

func (n *nesting) tooDeep() bool {
	return n.open > maxNesting || n.prefix > maxChain || n.branches > maxChain || n.tokens > maxStatement ||
		n.elses[n.open] > maxElse || n.allElses > 4*maxElse
}

// longest returns the maximum length of a token in bytes; 0 if other limits apply.
func longest(kind int) int {
	switch kind {
	case parser.BtLexerIDENT:
		return maxName
	case parser.BtLexerVAR, parser.BtLexerMAP:
		return maxName + 1
	case parser.BtLexerATTACH:
		return maxAttach
	}
	return 0
}

// checkNesting reports the first token that exceeds a limit.
func checkNesting(src *diag.Source, tokens []*token, diags *diag.List) bool {
	n := nesting{elses: make(map[int]int)}
	for i, t := range tokens {
		next := 0
		if i+1 < len(tokens) {
			next = tokens[i+1].kind
		}
		if most := longest(t.kind); most > 0 && t.end-t.start > most {
			diags.Add(diag.TooLarge, src.Span(t.start, t.start+1), "syntax: too long: %d bytes (max %d)",
				t.end-t.start, most)
			return false
		}
		n.add(t.kind, next)
		if n.tooDeep() {
			diags.Add(diag.TooLarge, src.Span(t.start, t.end), "syntax: nesting too deep or statement too long")
			return false
		}
	}
	return true
}
