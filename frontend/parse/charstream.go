package parse

import "github.com/antlr4-go/antlr/v4"

// byteStream shows a text to the generated lexer byte by byte, with one byte
// for all that the lexer does not tell apart (see grammar/BtLexer.g4). Offsets
// are byte offsets.
type byteStream struct {
	text string
	pos  int
}

// byteClass is what the lexer sees of each byte.
var byteClass = func() (class [256]int) {
	for i := range class {
		c := byte(i)
		switch {
		case c >= 0x80:
			class[i] = 0x7f // the lexer caches nothing above
		case isDigit(c):
			class[i] = '0'
		case isWordByte(c):
			class[i] = 'a'
		case c == ' ', c >= '\t' && c <= '\r', c > ' ' && c < 0x7f:
			class[i] = i
		default:
			class[i] = 1
		}
	}
	return class
}()

// LA returns the class of the k-th byte ahead, or behind for a negative k.
func (s *byteStream) LA(k int) int {
	i := s.pos + k
	if k > 0 {
		i--
	}
	if i < 0 || i >= len(s.text) {
		return antlr.TokenEOF
	}
	return byteClass[s.text[i]]
}

// Consume moves on by one byte.
func (s *byteStream) Consume() { s.pos++ }

// The rest of antlr.CharStream.

func (s *byteStream) Mark() int             { return 0 }
func (s *byteStream) Release(int)           {}
func (s *byteStream) Index() int            { return s.pos }
func (s *byteStream) Seek(i int)            { s.pos = min(i, len(s.text)) }
func (s *byteStream) Size() int             { return len(s.text) }
func (s *byteStream) GetSourceName() string { return "" }

func (s *byteStream) GetText(start, stop int) string {
	return s.text[start:min(stop+1, len(s.text))]
}

func (s *byteStream) GetTextFromTokens(start, end antlr.Token) string {
	return s.GetText(start.GetStart(), end.GetStop())
}

func (s *byteStream) GetTextFromInterval(i antlr.Interval) string { return s.GetText(i.Start, i.Stop) }
