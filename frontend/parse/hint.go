// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"slices"
	"strings"

	"github.com/antlr4-go/antlr/v4"

	"btc/grammar/parser"
	"btc/internal/spell"
)

// hint says what to write if the error is a known habit from another language or from shells; "" otherwise.
func (d *driver) hint(f *syntaxError) string {
	if f.prev == nil {
		return ""
	}
	for _, h := range []func() string{f.hintWord, f.hintLoop, f.hintHeader, f.hintName, f.hintShell, f.hintStatement} {
		if s := h(); s != "" {
			return s
		}
	}
	return d.hintComment(f)
}

// operators maps operator words of other languages to operators.
var operators = map[string]string{"and": "&&", "or": "||", "not": "!", "eq": "==", "ne": "!=", "is": "=="}

// hintWord recognizes operators that are words, and one '=' in a condition.
func (f *syntaxError) hintWord() string {
	if op, ok := operators[f.got.text]; ok && f.got.kind == parser.BtLexerIDENT {
		return op + " means " + f.got.text
	}
	if f.prev.kind == parser.BtLexerIDENT && f.prev.text == "not" {
		return "! means not"
	}
	if f.got.kind == parser.BtLexerASSIGN && f.next.kind == parser.BtLexerTILDE {
		return noPatterns
	}
	if f.got.kind == parser.BtLexerASSIGN && (f.wants(parser.BtLexerRPAREN) || f.wants(parser.BtLexerENDPRED)) {
		return "== compares"
	}
	return ""
}

const noPatterns = "strings cannot be matched against patterns: strcontains(haystack, needle) finds a substring, strncmp(string, prefix, n) == 0 tests a prefix"

// hintLoop recognizes loop headers of other languages.
func (f *syntaxError) hintLoop() string {
	switch f.rule {
	case parser.BtParserRULE_forStmt, parser.BtParserRULE_forHead:
		return "to count: for ($i : 0..10) { }; to loop over a map: for ($kv : @map) { }, where $kv.0 is the key and $kv.1 the value"
	}
	return ""
}

// hintHeader recognizes errors between an attach point and its body.
func (f *syntaxError) hintHeader() string {
	switch {
	case f.rule == parser.BtParserRULE_script && f.got.kind == parser.BtLexerRBRACE:
		return "unmatched '}': this one or an earlier one is extra"
	case f.got.kind == parser.BtLexerDIV && f.prev.kind == parser.BtLexerDIV:
		return "a probe has at most one filter: combine the conditions with &&"
	case f.rule == parser.BtParserRULE_funcDef && f.wants(parser.BtLexerCOLON) && f.prev.kind == parser.BtLexerRPAREN:
		return "a function declares its return type: fn name($a : int64) : int64 { }"
	case f.prev.text == "include" && f.rule == parser.BtParserRULE_body:
		return "import scripts with import, and C headers with #include on a separate line"
	case f.got.kind != parser.BtLexerATTACH || f.prev.kind != parser.BtLexerATTACH:
		return ""
	case strings.Contains(f.got.text, ":"):
		return "separate attach points with commas"
	case strings.ContainsAny(f.got.text, "@$("):
		return "write the body in braces: { }"
	}
	return "write the filter between slashes: /pid == 1/"
}

// hintName recognizes invalid names.
func (f *syntaxError) hintName() string {
	if f.prev.kind != parser.BtLexerMAP {
		return ""
	}
	switch f.got.kind {
	case parser.BtLexerLPAREN,
		parser.BtLexerCAST_OPEN,
		parser.BtLexerREC_OPEN,
		parser.BtLexerLBRACE,
		parser.BtLexerS_LBRACE:
		return "write keys in brackets: " + f.prev.text + "[1]"
	case parser.BtLexerINT:
		if f.prev.end == f.got.start {
			return "a name begins with a letter: @x" + f.got.text
		}
	}
	return ""
}

// hintShell recognizes a script from which the shell has removed quotes and expanded names that begin with '$'.
func (f *syntaxError) hintShell() string {
	switch f.got.kind {
	case parser.BtLexerMOD:
		if f.prev.kind == parser.BtLexerLPAREN {
			return lostQuotes
		}
	case parser.BtLexerASSIGN,
		parser.BtLexerASSIGN_OP,
		parser.BtLexerEQ,
		parser.BtLexerNE,
		parser.BtLexerLE,
		parser.BtLexerGE,
		parser.BtLexerLT,
		parser.BtLexerGT:
		switch f.prev.kind {
		case parser.BtLexerLPAREN,
			parser.BtLexerSEMI,
			parser.BtLexerLBRACE,
			parser.BtLexerS_LBRACE,
			parser.BtLexerRBRACE:
			return "the shell may have expanded a variable here: put the script in single quotes"
		}
	}
	return ""
}

const lostQuotes = "strings need double quotes; if you wrote them, the shell has removed them: put the script in single quotes"

// hintComment recognizes a comment that hides the rest of a line, such as an empty filter.
func (d *driver) hintComment(f *syntaxError) string {
	if f.got.kind != antlr.TokenEOF || f.prev.kind != parser.BtLexerATTACH || len(d.comments) == 0 {
		return ""
	}
	if last := d.comments[len(d.comments)-1]; last.At.Start >= f.prev.end && strings.ContainsRune(last.Text, '{') {
		return "// begins a comment; omit a filter that is always true"
	}
	return ""
}

// statements are the words that begin or continue a statement.
var statements = []string{"if", "else", "while", "unroll", "for", "let", "return", "break", "continue"}

// foreign maps words that begin a statement in C or other languages to hints.
var foreign = map[string]string{
	"elseif": "did you mean else if?", "elsif": "did you mean else if?", "elif": "did you mean else if?",
	"do":       "the condition of a loop comes first: while (condition) { }",
	"switch":   "there is no switch: if (x == 1) { } else if (x == 2) { }",
	"case":     "there is no switch: if (x == 1) { } else if (x == 2) { }",
	"goto":     "there is no goto",
	"foreach":  "to loop over a map: for ($kv : @map) { }",
	"function": "functions are defined outside probes: fn name($a : int64) : int64 { }",
}

// declaring are the words that declare a variable in other languages, in addition to names of types.
var declaring = wordSet("var auto const static int char long short unsigned signed float double u8 u16 u32 u64 s8 s16 s32 s64 __u32 __u64 size_t local")

// hintStatement looks at the first word of the statement with the error.
func (f *syntaxError) hintStatement() string {
	if f.got.kind == parser.BtLexerSTRUCT && f.inBlock() {
		return "variables begin with $ and get their type from their value: $x = (struct name *)arg0"
	}
	i := f.statement()
	if i < 0 {
		return ""
	}
	first := f.before[i]
	alone := i == len(f.before)-1
	switch {
	case first.kind == parser.BtLexerVAR && alone && f.got.kind == parser.BtLexerCOLON:
		return "= assigns: " + first.text + " = 1; to declare a type, use let: let " + first.text + " : int64"
	case first.kind == parser.BtLexerIDENT && alone && f.got.kind == parser.BtLexerIDENT &&
		(declaring[first.text] || typeNames[first.text]):
		return "variables begin with $ and get their type from their value: $x = 1"
	case first.kind == parser.BtLexerIDENT && foreign[first.text] != "":
		return foreign[first.text]
	case f.rule == parser.BtParserRULE_body && f.got.kind != antlr.TokenEOF && f.got.kind != parser.BtLexerRPAREN &&
		first.headed():
		return "the body needs braces, even if it is one statement"
	case first.kind != parser.BtLexerIDENT || !f.inBlock():
		return ""
	}
	if word := spell.Nearest(first.text, statements); word != "" &&
		(f.got.kind == parser.BtLexerLBRACE || f.got.kind == parser.BtLexerS_LBRACE || alone) {
		return "did you mean " + word + "?"
	}
	switch f.got.kind {
	case parser.BtLexerSTRING,
		parser.BtLexerMAP,
		parser.BtLexerVAR,
		parser.BtLexerINT,
		parser.BtLexerPARAM,
		parser.BtLexerIDENT:
		if alone {
			return "write the arguments of a function in parentheses: " + first.text + "(" + f.got.text + ")"
		}
	}
	return ""
}

// headed reports whether a statement with this first token has a body.
func (t *token) headed() bool {
	switch t.kind {
	case parser.BtLexerS_IF,
		parser.BtLexerIF,
		parser.BtLexerELSE,
		parser.BtLexerWHILE,
		parser.BtLexerFOR,
		parser.BtLexerUNROLL:
		return true
	}
	return false
}

// statement returns the index of the first token of the statement with the error; -1 if the error is at that token or
// not in a statement.
func (f *syntaxError) statement() int {
	i := len(f.before) - 1
	for depth := 0; i >= 0; i-- {
		switch f.before[i].kind {
		case parser.BtLexerRPAREN:
			depth++
		case parser.BtLexerLPAREN, parser.BtLexerCAST_OPEN, parser.BtLexerTYPE_OPEN, parser.BtLexerREC_OPEN:
			depth--
		case parser.BtLexerSEMI:
			if depth > 0 {
				continue
			}
			return f.statementAt(i + 1)
		case parser.BtLexerLBRACE, parser.BtLexerS_LBRACE, parser.BtLexerRBRACE:
			return f.statementAt(i + 1)
		}
	}
	return -1
}

func (f *syntaxError) statementAt(i int) int {
	if i >= len(f.before) {
		return -1
	}
	return i
}

// lookalikes are characters that editors and web pages substitute for ASCII characters.
var lookalikes = []struct{ wrong, right string }{
	{"\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02\u2033", `"`},
	{"\u2018\u2019\u201a\u201b\u0060\u00b4\u2032'", `"`},
	{"\u2010\u2011\u2012\u2013\u2014\u2212\uff0d", "-"},
	{"\uff1b\u037e", ";"}, {"\uff0c\u3001", ","}, {"\uff08", "("}, {"\uff09", ")"}, {"\uff1a", ":"},
	{"\uff5b", "{"}, {"\uff5d", "}"}, {"\uff3b", "["}, {"\uff3d", "]"}, {"\uff1d", "="}, {"\uff0f\u2044\u2215", "/"},
	{"\u00d7", "*"}, {"\u2260", "!="}, {"\u2264", "<="}, {"\u2265", ">="}, {"\u2026", ".."}, {"\u2192", "->"},
}

// characterHint says what to write for a character that is not part of the language.
func characterHint(char string) string {
	switch char {
	case "#":
		return "comments start with //; preprocessor lines are at the top of a script"
	case "'", "`":
		return "strings need double quotes"
	case `\`:
		return lostQuotes
	}
	i := slices.IndexFunc(lookalikes,
		func(l struct{ wrong, right string }) bool { return strings.Contains(l.wrong, char) })
	switch {
	case i >= 0 && lookalikes[i].right == `"`:
		return `write strings in plain double quotes: "text"`
	case i >= 0:
		return "this character only looks like " + lookalikes[i].right + ": replace it"
	case strings.TrimSpace(strings.Trim(char, "\u200b\u200c\u200d\u2060\ufeff\u00ad")) == "":
		return "this is an invisible character, perhaps from copied text: delete it"
	}
	return ""
}
