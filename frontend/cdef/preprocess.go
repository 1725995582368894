package cdef

import (
	"errors"
	"fmt"
	"strings"

	"btc/frontend/diag"
)

// macro is one #define.
type macro struct {
	name     string
	function bool // has parameters: cannot be used
	body     []token
	busy     bool // being expanded
}

// condition is one level of #if.
type condition struct {
	at     diag.Span
	active bool // lines are read
	done   bool // a branch was taken
	outer  bool // the level outside is active
}

// active reports whether lines are read at this point.
func (e *Env) active() bool {
	n := len(e.nesting)
	return n == 0 || e.nesting[n-1].active
}

// directive executes one preprocessor line.
func (e *Env) directive(c Chunk) {
	toks, err := lex(strings.TrimPrefix(strings.TrimSpace(c.Text), "#"))
	if len(toks) == 0 || toks[0].kind != word {
		if err == nil && len(toks) == 0 || !e.active() {
			return
		}
		e.diags.Add(diag.CSyntax, c.At, "this is no preprocessor directive").
			Hint("comments begin with //")
		return
	}
	name, rest := toks[0].text, toks[1:]
	if err != nil && name != "include" && name != "error" && e.active() {
		e.diags.Add(diag.CSyntax, c.At, "%v", err)
		return
	}
	switch name {
	case "if", "ifdef", "ifndef", "elif", "else", "endif":
		e.conditional(c, name, rest)
		return
	}
	if !e.active() {
		return
	}
	switch name {
	case "define":
		e.define(c, rest)
	case "undef":
		if len(rest) > 0 {
			delete(e.macros, rest[0].text)
		}
	case "include":
		e.include(c)
	case "pragma":
		e.pragma(rest)
	case "error":
		_, message, _ := strings.Cut(c.Text, "error")
		e.diags.Add(diag.CSyntax, c.At, "#error %s", strings.TrimSpace(message))
	case "warning", "line":
	default:
		e.diags.Add(diag.CSyntax, c.At, "unknown preprocessor directive #%s", name).Hint("comments begin with //")
	}
}

func (e *Env) conditional(c Chunk, name string, rest []token) {
	n := len(e.nesting)
	switch name {
	case "ifdef", "ifndef", "if":
		level := condition{at: c.At, outer: e.active()}
		level.active = level.outer && e.holds(c, name, rest)
		level.done = level.active
		e.nesting = append(e.nesting, level)
		return
	}
	if n == 0 {
		e.diags.Add(diag.CSyntax, c.At, "#%s without #if", name)
		return
	}
	level := &e.nesting[n-1]
	switch name {
	case "endif":
		e.nesting = e.nesting[:n-1]
	case "else":
		level.active = level.outer && !level.done
		level.done = true
	case "elif":
		level.active = level.outer && !level.done && e.holds(c, "if", rest)
		level.done = level.done || level.active
	}
}

// holds evaluates a condition; a faulty one is reported and does not hold.
func (e *Env) holds(c Chunk, name string, rest []token) bool {
	if name != "if" {
		if len(rest) == 0 || rest[0].kind != word {
			e.diags.Add(diag.CSyntax, c.At, "#%s needs a name", name)
			return false
		}
		return e.Macro(rest[0].text) == (name == "ifdef")
	}
	p := &parser{env: e, toks: rest, condition: true}
	v, err := p.constant()
	if err == nil && p.peek().kind != end {
		err = fmt.Errorf("unexpected '%s'", p.peek().text)
	}
	if err != nil {
		e.diags.Add(diag.CSyntax, c.At, "#if: %v", err)
		return false
	}
	return v.Int != 0
}

func (e *Env) define(c Chunk, rest []token) {
	if len(rest) == 0 || rest[0].kind != word {
		e.diags.Add(diag.CSyntax, c.At, "#define needs a name")
		return
	}
	m := &macro{name: rest[0].text, body: rest[1:]}
	// A '(' directly after the name begins parameters.
	_, after, _ := strings.Cut(c.Text, "define")
	_, after, _ = strings.Cut(after, m.name)
	m.function = strings.HasPrefix(after, "(")
	e.macros[m.name] = m
}

// include checks an #include: system headers are satisfied by the target and
// the table of constants.
func (e *Env) include(c Chunk) {
	_, path, _ := strings.Cut(c.Text, "include")
	path, _, _ = strings.Cut(path, "//")
	path = strings.TrimSpace(path)
	if len(path) < 3 || path[0] != '<' && path[0] != '"' {
		e.diags.Add(diag.CSyntax, c.At, "#include needs <file> or \"file\"")
		return
	}
	if path[0] == '<' {
		return
	}
	name := strings.Trim(path, "\"")
	dir, _, _ := strings.Cut(name, "/")
	switch dir {
	case "linux", "net", "uapi", "asm", "asm-generic", "sys", "netinet", "arpa", "bits", "trace":
		return
	}
	e.diags.Add(diag.NotSupported, c.At, "not supported yet: #include of a file of your own (%s)", name).
		Hint("copy the definitions that the script uses into the script")
}

// pragma knows #pragma pack only.
func (e *Env) pragma(toks []token) {
	if len(toks) < 3 || toks[0].text != "pack" {
		return
	}
	for _, t := range toks[1:] {
		switch {
		case t.text == "push":
			e.packs = append(e.packs, e.pack)
		case t.text == "pop" && len(e.packs) > 0:
			e.pack = e.packs[len(e.packs)-1]
			e.packs = e.packs[:len(e.packs)-1]
		case t.kind == number:
			if v, err := parseNumber(t.text); err == nil {
				e.pack = int(v)
			}
		}
	}
	if len(toks) == 3 {
		e.pack = 0
	}
}

// expand replaces object-like macros in the tokens of a definition.
func (e *Env) expand(toks []token, depth int) []token {
	var out []token
	for _, t := range toks {
		m := e.macros[t.text]
		if t.kind != word || m == nil || m.function || m.busy || depth > 32 || len(out) > 1<<16 {
			out = append(out, t)
			continue
		}
		m.busy = true
		out = append(out, e.expand(m.body, depth+1)...)
		m.busy = false
	}
	return out
}

// macroValue evaluates a macro's body as a constant expression.
func (e *Env) macroValue(m *macro) (Const, error) {
	switch {
	case m.function:
		return Const{}, errors.New("it has parameters")
	case len(m.body) == 0:
		return Const{}, errors.New("it is empty")
	}
	m.busy = true
	defer func() { m.busy = false }()
	p := &parser{env: e, toks: m.body}
	v, err := p.constant()
	if err == nil && p.peek().kind != end {
		err = fmt.Errorf("unexpected '%s'", p.peek().text)
	}
	return v, err
}
