// SPDX-License-Identifier: Apache-2.0

package cdef

import (
	"errors"
	"fmt"
	"slices"

	"btc/frontend/cpp"
	"btc/frontend/diag"
	"btc/frontend/types"
)

const maxDepth = 200

var errTooDeep = errors.New("too deeply nested")

// parser reads the tokens of definitions or of one expression.
type parser struct {
	env   *Env
	toks  []cpp.Token
	pos   int
	depth int
}

func (p *parser) peek() cpp.Token {
	if p.pos < len(p.toks) {
		return p.toks[p.pos]
	}
	return cpp.Token{}
}

func (p *parser) next() cpp.Token {
	t := p.peek()
	p.pos++
	return t
}

// accept consumes a word or operator if it is next.
func (p *parser) accept(s string) bool {
	if p.peek().Is(s) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) acceptAny(all []string) string {
	for _, s := range all {
		if t := p.peek(); t.Kind == cpp.Punct && t.Text == s {
			p.pos++
			return s
		}
	}
	return ""
}

func (p *parser) expect(s string) error {
	if p.accept(s) {
		return nil
	}
	found := p.peek().Text
	if found == "" {
		found = "end of input"
	}
	return fmt.Errorf("expected '%s', found '%s'", s, found)
}

// definitions reads all declarations of the C text. Declarations of functions and variables
// are skipped.
func (e *Env) definitions(toks []cpp.Token) {
	p := &parser{env: e, toks: toks}
	for p.pos < len(p.toks) {
		if t := p.peek(); t.Kind == cpp.Pragma {
			e.pragma(t.Line)
			p.next()
			continue
		}
		if p.accept(";") {
			continue
		}
		start := p.pos
		if err := p.declaration(); err != nil {
			at := min(p.pos, len(p.toks)-1)
			if at > start && p.pos >= len(p.toks) {
				at = start
			}
			// The message may quote any token that was read. If one is from a private source, the error is reported
			// at it, which hides the message.
			private := func(t cpp.Token) bool { return t.At.Private() }
			if i := slices.IndexFunc(p.toks[start:min(p.pos+1, len(p.toks))], private); i >= 0 {
				at = start + i
			}
			e.diags.Add(diag.CSyntax, p.toks[at].At, "%v", err)
			p.pos = start
			p.skipDeclaration()
		}
	}
}

// declaration reads one struct, union, enum or typedef with its ';'.
func (p *parser) declaration() error {
	for p.accept("__extension__") {
	}
	first := p.peek()
	typedef := p.accept("typedef")
	if !typedef && !slices.Contains(tagWords[:], first.Text) {
		if !first.Included {
			return fmt.Errorf("expected a type definition, found '%s'", first.Text)
		}
		p.skipDeclaration()
		return nil
	}
	base, err := p.specifiers(first.At)
	if err != nil {
		return err
	}
	for typedef {
		name, t, err := p.declarator(base)
		if err != nil {
			return err
		}
		if name == "" {
			return errors.New("typedef needs a name")
		}
		if p.peek().Is("(") { // parameters of a function
			if err := p.skipParens(); err != nil {
				return err
			}
			t = types.TFunc
		}
		p.attributes()
		p.env.typedefs[name] = t
		if !p.accept(",") {
			break
		}
	}
	p.attributes()
	if !typedef && first.Included && !p.peek().Is(";") { // a function or variable of this type
		p.skipDeclaration()
		return nil
	}
	return p.expect(";")
}

// tagWords are the keywords before a tag.
var tagWords = [...]string{"struct", "union", "enum"}

// skipDeclaration goes past the ';' of a declaration, or past the body of a
// function. It always makes progress.
func (p *parser) skipDeclaration() {
	open, params := 0, false
	for first := true; p.pos < len(p.toks); first = false {
		t := p.peek()
		if t.Kind == cpp.Pragma && open == 0 && !first {
			return
		}
		p.next()
		switch {
		case t.Is("(") || t.Is("[") || t.Is("{"):
			open++
		case t.Is(")"), t.Is("]"):
			open = max(0, open-1)
			params = params || open == 0
		case t.Is("}"):
			open = max(0, open-1)
			if open == 0 && (params || p.pos < len(p.toks) && startsDefinition(p.peek())) {
				p.accept(";")
				return
			}
		case t.Is(";") && open == 0:
			return
		}
	}
}

// startsDefinition reports whether a definition begins with the token.
func startsDefinition(t cpp.Token) bool {
	return t.Is("typedef") || t.Is("static") || t.Is("extern") || slices.Contains(tagWords[:], t.Text)
}

// qualifiers are ignored: they do not affect layout.
var qualifiers = [...]string{
	"const", "volatile", "restrict", "__restrict", "__user", "__rcu", "__percpu", "__kernel", "__iomem",
	"__extension__",
}

func isQualifier(t cpp.Token) bool {
	return t.Kind == cpp.Word && slices.Contains(qualifiers[:], t.Text)
}

// baseWords make up the integer types of C.
var baseWords = [...]string{"char", "short", "int", "long", "signed", "unsigned", "float", "double", "__signed__"}

// startsType reports whether a type name begins at the next token.
func (p *parser) startsType() bool {
	t := p.peek()
	if t.Kind != cpp.Word {
		return false
	}
	switch {
	case isQualifier(t), slices.Contains(baseWords[:], t.Text), t.Text == "struct", t.Text == "union", t.Text == "enum":
		return true
	}
	if _, isConst, _ := p.env.Constant(t.Text); isConst {
		return false
	}
	_, ok := p.env.Named(t.Text)
	return ok
}

// typeName reads a type without a declarator name, as in a cast.
func (p *parser) typeName() (*types.Type, error) {
	base, err := p.specifiers(diag.Span{})
	if err != nil {
		return nil, err
	}
	name, t, err := p.declarator(base)
	if err == nil && name != "" {
		err = fmt.Errorf("unexpected '%s'", name)
	}
	return t, err
}

// specifiers reads the part of a declaration before its declarators.
func (p *parser) specifiers(at diag.Span) (*types.Type, error) {
	var words []string
	for {
		t := p.peek()
		switch {
		case isQualifier(t):
			p.next()
		case t.Kind == cpp.Word && t.Text == "__attribute__":
			p.attributes()
		case t.Kind == cpp.Word && slices.Contains(baseWords[:], t.Text):
			words = append(words, p.next().Text)
		case len(words) > 0:
			return baseType(words)
		case t.Kind == cpp.Word && (t.Text == "struct" || t.Text == "union"):
			return p.skipQualifiers(p.compositeType(at))
		case t.Kind == cpp.Word && t.Text == "enum":
			return p.skipQualifiers(p.enumType())
		case t.Kind == cpp.Word:
			typ, ok := p.env.Named(t.Text)
			if !ok {
				return nil, fmt.Errorf("unknown type '%s'", t.Text)
			}
			p.next()
			return p.skipQualifiers(typ, nil)
		case t.Kind == cpp.End:
			return nil, errors.New("missing type")
		default:
			return nil, fmt.Errorf("expected a type, found '%s'", t.Text)
		}
	}
}

func (p *parser) skipQualifiers(t *types.Type, err error) (*types.Type, error) {
	for isQualifier(p.peek()) {
		p.next()
	}
	return t, err
}

func baseType(words []string) (*types.Type, error) {
	n := map[string]int{}
	for _, w := range words {
		n[w]++
	}
	signed := n["unsigned"] == 0
	switch {
	case n["double"] > 0:
		return &types.Type{Kind: types.Float, Size: 8}, nil
	case n["float"] > 0:
		return &types.Type{Kind: types.Float, Size: 4}, nil
	case n["char"] > 0 && len(words) == 1:
		return types.TChar, nil
	case n["char"] > 0:
		return types.MakeInt(1, signed), nil
	case n["short"] > 0:
		return types.MakeInt(2, signed), nil
	case n["long"] > 0:
		return types.MakeInt(8, signed), nil
	}
	return types.MakeInt(4, signed), nil
}

// declarator reads pointers, a name and array or function suffixes. The name is
// empty for an abstract declarator.
func (p *parser) declarator(t *types.Type) (string, *types.Type, error) {
	if p.depth++; p.depth > maxDepth {
		return "", nil, errTooDeep
	}
	defer func() { p.depth-- }()
	for p.accept("*") {
		t = types.MakePointer(t, types.NoSpace)
		for isQualifier(p.peek()) {
			p.next()
		}
	}
	if p.peek().Is("(") && p.pos+1 < len(p.toks) && (p.toks[p.pos+1].Is("*") || p.toks[p.pos+1].Is("(")) {
		return p.nested(t)
	}
	name := ""
	if p.peek().Kind == cpp.Word && p.peek().Text != "__attribute__" {
		name = p.next().Text
	}
	dims, err := p.dimensions()
	if err == nil {
		t, err = arrays(t, dims)
	}
	if err != nil {
		return "", nil, err
	}
	return name, t, nil
}

// dimensions reads "[n][m]"; 0 means "[]".
func (p *parser) dimensions() (dims []int, err error) {
	for p.accept("[") {
		n := 0
		if !p.accept("]") {
			c, err := p.constant()
			if err == nil {
				err = p.expect("]")
			}
			if err == nil && (c.IsStr || c.Int < 0 || c.Int > 1<<24) {
				err = errors.New("invalid array length")
			}
			if err != nil {
				return nil, err
			}
			n = int(c.Int)
		}
		dims = append(dims, n)
	}
	return dims, nil
}

func arrays(t *types.Type, dims []int) (*types.Type, error) {
	for _, n := range slices.Backward(dims) {
		isChar := t == types.TChar
		if t = types.MakeArray(t, n); isChar {
			t.Chars = types.ScriptChars
		}
		if t.Size > 1<<26 {
			return nil, errors.New("array too large")
		}
	}
	return t, nil
}

// nested reads a declarator in parentheses: "(*name)(parameters)", a pointer to
// a function, which is never followed, or "(*name)[n]", one to an array.
func (p *parser) nested(t *types.Type) (string, *types.Type, error) {
	p.next()
	start := p.pos
	p.pos--
	if err := p.skipParens(); err != nil {
		return "", nil, err
	}
	switch {
	case p.peek().Is("("):
		for p.peek().Is("(") {
			if err := p.skipParens(); err != nil {
				return "", nil, err
			}
		}
		t = types.TFunc
	case p.peek().Is("["):
		dims, err := p.dimensions()
		if err == nil {
			t, err = arrays(t, dims)
		}
		if err != nil {
			return "", nil, err
		}
	}
	after := p.pos
	p.pos = start
	name, t, err := p.declarator(t)
	for err == nil && p.peek().Is("(") { // a function that returns such a pointer
		err = p.skipParens()
	}
	if err == nil {
		err = p.expect(")")
	}
	p.pos = after
	return name, t, err
}

func (p *parser) skipParens() error {
	if err := p.expect("("); err != nil {
		return err
	}
	for open := 1; open > 0; {
		switch t := p.next(); {
		case t.Kind == cpp.End:
			return errors.New("expected ')'")
		case t.Text == "(" && t.Kind == cpp.Punct:
			open++
		case t.Text == ")" && t.Kind == cpp.Punct:
			open--
		}
	}
	return nil
}

// attribute is the part of __attribute__ that affects layout.
type attribute struct {
	packed  bool
	aligned int // bytes, 0 for none
}

// attributes reads any number of __attribute__((...)).
func (p *parser) attributes() attribute {
	var a attribute
	for p.accept("__attribute__") {
		start := p.pos
		if p.skipParens() != nil {
			return a
		}
		in := p.toks[start:min(p.pos, len(p.toks))]
		for i, t := range in {
			switch t.Text {
			case "packed", "__packed__":
				a.packed = true
			case "aligned", "__aligned__":
				a.aligned = max(a.aligned, p.alignment(in[i+1:]))
			}
		}
	}
	return a
}

// alignment reads "(n)" after "aligned"; without it the machine's largest.
func (p *parser) alignment(toks []cpp.Token) int {
	if len(toks) == 0 || toks[0].Text != "(" {
		return 16
	}
	in := &parser{env: p.env, toks: toks[1:], depth: p.depth + 1}
	c, err := in.constant()
	if err != nil || c.IsStr || c.Int < 1 || c.Int > 4096 || c.Int&(c.Int-1) != 0 {
		return 0
	}
	return int(c.Int)
}
