// SPDX-License-Identifier: Apache-2.0

package parse

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
)

// scanner finds what the grammar does not cover: the "#!" line and the C definitions between the items of a script.
// It replaces them with spaces, so that all other offsets stay valid.
type scanner struct {
	src     *diag.Source
	text    string
	out     []byte
	diags   *diag.List
	shebang string
	defs    []*ast.CDef
	notes   []*ast.Comment // comments that begin with '#'
	// late is set after a probe, macro, function or map declaration.
	late bool
}

func (s *scanner) scan() {
	if strings.HasPrefix(s.text, "\ufeff") {
		s.blank(0, len("\ufeff"))
	}
	pos := 0
	first := true
	for {
		pos, _ = skipLayout(s.text, pos)
		if pos >= len(s.text) {
			return
		}
		rest := s.text[pos:]
		switch {
		case first && strings.HasPrefix(rest, "#!"):
			end := lineEnd(s.text, pos)
			s.shebang = strings.TrimRight(s.text[pos:end], "\r")
			s.blank(pos, end)
			pos = end
		case rest[0] == '#':
			pos = s.directive(pos)
		case s.startsDefinition(pos):
			pos = s.definition(pos)
		default:
			pos = s.skipItem(pos)
		}
		first = false
	}
}

func (s *scanner) blank(start, end int) {
	for i := start; i < end; i++ {
		if c := s.out[i]; c != '\n' && c != '\r' {
			s.out[i] = ' '
		}
	}
}

// skipLayout returns the first offset at or after pos that is neither space nor in a
// comment; open reports whether the text ends inside a comment.
func skipLayout(text string, pos int) (end int, open bool) {
	for pos < len(text) {
		switch c := text[pos]; {
		case c == ' ' || c >= '\t' && c <= '\r':
			pos++
		case strings.HasPrefix(text[pos:], "//"):
			pos = lineEnd(text, pos)
		case strings.HasPrefix(text[pos:], "/*"):
			n := strings.Index(text[pos+2:], "*/")
			if n < 0 {
				return len(text), true
			}
			pos += n + 4
		default:
			return pos, false
		}
	}
	return pos, false
}

func lineEnd(text string, pos int) int {
	if n := strings.IndexByte(text[pos:], '\n'); n >= 0 {
		return pos + n
	}
	return len(text)
}

// directive reads a preprocessor line with its continuation lines. Any other line with '#' is treated as a comment,
// as in other languages, because old scripts have them.
func (s *scanner) directive(pos int) int {
	word := strings.TrimLeft(s.text[pos+1:], " \t")
	name := word[:wordLength(word)]
	if !directives[name] && strings.Trim(word[:lineEnd(word, 0)], " \t\r\f\v\\") != "" {
		end := lineEnd(s.text, pos)
		line := strings.TrimRight(s.text[pos:end], " \t\r\n\f\v")
		at := s.src.Span(pos, pos+len(line))
		s.diags.Add(diag.Deprecated, at, "unknown preprocessor directive: it is ignored as a comment").
			Hint("comments start with //")
		s.notes = append(s.notes, &ast.Comment{Extent: ast.Ext(at), Text: "// " + strings.TrimLeft(line[1:], " \t")})
		s.blank(pos, end)
		return end
	}
	end := directiveEnd(s.text, pos)
	line := strings.TrimRight(s.text[pos:end], " \t\r\n\f\v")
	for strings.HasSuffix(line, "\\") && end == len(s.text) { // the last line cannot be continued
		line = strings.TrimRight(line, "\\ \t\r\n\f\v")
	}
	s.add(ast.CDirective, name, pos, pos+len(line), line)
	s.blank(pos, end)
	return end
}

// directiveEnd returns the end of a preprocessor line, which continues after a backslash at its end and while a comment
// is open.
func directiveEnd(text string, pos int) int {
	for pos < len(text) {
		switch c := text[pos]; {
		case c == '\n':
			return pos
		case strings.HasPrefix(text[pos:], "\\\r\n"):
			pos += 3
		case c == '\\':
			pos = min(pos+2, len(text))
		case c == '"':
			pos = max(stringEnd(text, pos), pos+1)
		case strings.HasPrefix(text[pos:], "//"):
			for pos < len(text) && text[pos] != '\n' {
				if strings.HasPrefix(text[pos:], "\\\n") {
					pos++
				}
				pos++
			}
		case strings.HasPrefix(text[pos:], "/*"):
			n := strings.Index(text[pos+2:], "*/")
			if n < 0 {
				return len(text)
			}
			pos += n + 4
		default:
			pos++
		}
	}
	return len(text)
}

// directives are the words that may follow '#'.
var directives = wordSet("include define undef if ifdef ifndef elif else endif pragma error warning line")

var cKeywords = map[string]ast.CDefKind{
	"struct": ast.CStruct, "union": ast.CUnion, "enum": ast.CEnum, "typedef": ast.CTypedef,
}

// startsDefinition distinguishes a C definition from an attach point: the keyword is
// followed by words and groups in parentheses or brackets, up to '{' or ';'.
func (s *scanner) startsDefinition(pos int) bool {
	n := wordLength(s.text[pos:])
	kind, ok := cKeywords[s.text[pos:pos+n]]
	if !ok {
		return false
	}
	for pos += n; ; {
		pos, _ = skipLayout(s.text, pos)
		if pos >= len(s.text) {
			return false
		}
		switch c := s.text[pos]; {
		case c == '{' || c == ';':
			return true
		case isWordByte(c):
			pos += wordLength(s.text[pos:])
		case c == '(' || c == '[':
			end, closed := balanced(s.text, pos)
			if !closed {
				return false
			}
			pos = end
		case c == '*' && kind == ast.CTypedef:
			pos++
		default:
			return false
		}
	}
}

// definition reads a struct, union, enum or typedef with what follows its braces. A typedef
// extends to its ';', which is optional for the others after a body.
func (s *scanner) definition(start int) int {
	n := wordLength(s.text[start:])
	kind := cKeywords[s.text[start:start+n]]
	pos, end, name := start+n, start+n, ""
	for {
		pos, _ = skipLayout(s.text, pos)
		if pos >= len(s.text) {
			s.diags.Add(diag.BadCDefinition, s.src.Span(start, start+n), "syntax: expected ';' after C definition")
			s.addDefinition(kind, name, start, end)
			return end
		}
		switch c := s.text[pos]; c {
		case ';':
			s.addDefinition(kind, name, start, pos+1)
			return pos + 1
		case '{', '(', '[':
			shut, closed := balanced(s.text, pos)
			if !closed {
				s.diags.Add(diag.BadCDefinition, s.src.Span(pos, pos+1), "syntax: unclosed '%c' in C definition", c)
				s.blank(start, len(s.text))
				return len(s.text)
			}
			pos, end = shut, shut
			if c == '{' && kind != ast.CTypedef {
				end = s.afterBody(pos)
				s.addDefinition(kind, name, start, end)
				return end
			}
		default:
			n := max(wordLength(s.text[pos:]), 1)
			if name == "" && kind != ast.CTypedef && !strings.HasPrefix(s.text[pos:], "__attribute") {
				name = s.text[pos : pos+n]
			}
			pos += n
			end = pos
		}
	}
}

// afterBody returns the end of the attributes and the ';' that may follow the
// braces of a definition.
func (s *scanner) afterBody(end int) int {
	for {
		pos, _ := skipLayout(s.text, end)
		rest := s.text[pos:]
		if strings.HasPrefix(rest, ";") {
			return pos + 1
		}
		if !strings.HasPrefix(rest, "__attribute") {
			return end
		}
		word := s.src.Span(pos, pos+wordLength(rest))
		open, _ := skipLayout(s.text, word.End)
		shut, closed := balanced(s.text, open)
		switch {
		case !strings.HasPrefix(s.text[open:], "(("):
			s.diags.Add(diag.BadCDefinition, word, "syntax: __attribute__ syntax error, expected '(('")
			return word.End
		case !closed:
			s.diags.Add(diag.BadCDefinition, word, "syntax: __attribute__ syntax error, mismatched '(' and ')'")
			return word.End
		}
		end = shut
	}
}

func (s *scanner) addDefinition(kind ast.CDefKind, name string, start, end int) {
	text := s.text[start:end]
	if !strings.HasSuffix(text, ";") {
		text += ";"
	}
	s.add(kind, name, start, end, text)
	s.blank(start, end)
}

func (s *scanner) add(kind ast.CDefKind, name string, start, end int, text string) {
	at := s.src.Span(start, end)
	if s.late {
		s.diags.Add(diag.Misplaced, at, "syntax: C definitions must appear before probes and functions")
		return
	}
	s.defs = append(s.defs, &ast.CDef{Extent: ast.Ext(at), Kind: kind, Name: name, Text: text})
}

// skipItem skips one item of the script: to the '}' that closes its first brace, or to a
// ';' before any brace. It always makes progress.
func (s *scanner) skipItem(pos int) int {
	n := wordLength(s.text[pos:])
	word := s.text[pos : pos+n]
	if word != "config" && word != "import" && s.text[pos] != ';' {
		s.late = true
	}
	for pos < len(s.text) {
		switch c := s.text[pos]; c {
		case '{':
			end, closed := balanced(s.text, pos)
			if !closed {
				return len(s.text)
			}
			return end
		case ';', '}':
			return pos + 1
		case '"':
			pos = stringEnd(s.text, pos)
		case '/':
			if next, _ := skipLayout(s.text, pos); next > pos {
				pos = next
				continue
			}
			pos++
		default:
			pos++
		}
	}
	return pos
}

// balanced returns the offset after the bracket that closes the one at pos. Brackets in strings and comments do not
// count.
func balanced(text string, pos int) (end int, closed bool) {
	if pos >= len(text) {
		return pos, false
	}
	open := text[pos]
	shut := map[byte]byte{'{': '}', '(': ')', '[': ']'}[open]
	depth := 0
	for pos < len(text) {
		switch c := text[pos]; {
		case c == open:
			depth++
		case c == shut:
			depth--
			if depth == 0 {
				return pos + 1, true
			}
		case c == '"':
			pos = stringEnd(text, pos)
			continue
		case c == '/':
			if next, _ := skipLayout(text, pos); next > pos {
				pos = next
				continue
			}
		}
		pos++
	}
	return pos, false
}

// stringEnd returns the offset after the string that starts at pos, which ends at the end of its line at the latest.
func stringEnd(text string, pos int) int {
	for pos++; pos < len(text); pos++ {
		switch text[pos] {
		case '\\':
			pos++
		case '"':
			return pos + 1
		case '\n':
			return pos
		}
	}
	return len(text)
}

func isWordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func wordLength(s string) int {
	n := 0
	for n < len(s) && isWordByte(s[n]) {
		n++
	}
	return n
}
