package parser

// Skipped is the kind of what the grammar skips.
const Skipped = 255

// Scan reads the token at an offset, which lies before the text's end, and gives
// its type and where it ends. It does what the lexer that ANTLR generates does,
// from a table of that lexer's automaton (a test derives it again): the lexer
// itself makes the automaton anew in each process, as it meets a text. Mode is
// that of the grammar: 0 between items, BtLexerBODY inside. Bytes above ASCII are
// characters of one kind. Some rule takes any character, so there is always a token.
func Scan(mode int, text string, at int) (kind, end int) {
	state := int(starts[mode])
	for i := at; i < len(text); i++ {
		state = int(next[state*width+int(columns[text[i]])])
		if state == 0 {
			return kind, end
		}
		if k := accepts[state]; k != 0 {
			kind, end = int(k), i+1
		}
	}
	if k := atEnd[state]; k != 0 {
		kind, end = int(k), len(text)
	}
	return kind, end
}
