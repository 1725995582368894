package cdef

import (
	"errors"
	"fmt"
	"slices"

	"btc/frontend/diag"
	"btc/frontend/types"
)

const maxDepth = 200

var errTooDeep = errors.New("too deeply nested")

// parser reads the tokens of one definition or expression.
type parser struct {
	env       *Env
	toks      []token
	pos       int
	depth     int
	condition bool // in #if: words are macros only
}

func (p *parser) peek() token {
	if p.pos < len(p.toks) {
		return p.toks[p.pos]
	}
	return token{}
}

func (p *parser) next() token {
	t := p.peek()
	p.pos++
	return t
}

// accept consumes a word or operator if it is next.
func (p *parser) accept(s string) bool {
	if t := p.peek(); (t.kind == punct || t.kind == word) && t.text == s {
		p.pos++
		return true
	}
	return false
}

func (p *parser) acceptAny(all []string) string {
	for _, s := range all {
		if t := p.peek(); t.kind == punct && t.text == s {
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
	found := p.peek().text
	if found == "" {
		found = "the end"
	}
	return fmt.Errorf("expected '%s', found '%s'", s, found)
}

// definition reads one struct, union, enum or typedef.
func (e *Env) definition(c Chunk) {
	toks, err := lex(c.Text)
	if err == nil {
		p := &parser{env: e, toks: e.expand(toks, 0)}
		err = p.declaration(c)
		if err == nil && p.peek().kind != end {
			err = fmt.Errorf("expected the end of the definition, found '%s'", p.peek().text)
		}
	}
	if err != nil {
		e.diags.Add(diag.CSyntax, c.At, "%v", err)
	}
}

func (p *parser) declaration(c Chunk) error {
	typedef := p.accept("typedef")
	base, err := p.specifiers(c)
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
		p.attributes()
		p.env.typedefs[name] = t
		if !p.accept(",") {
			break
		}
	}
	p.attributes()
	return p.expect(";")
}

// qualifiers are words that change nothing here.
var qualifiers = [...]string{"const", "volatile", "restrict", "__restrict", "__user", "__rcu", "__percpu", "__kernel", "__iomem", "__extension__"}

func isQualifier(t token) bool { return t.kind == word && slices.Contains(qualifiers[:], t.text) }

// baseWords make up the integer types of C.
var baseWords = [...]string{"char", "short", "int", "long", "signed", "unsigned", "float", "double", "__signed__"}

// startsType reports whether a type name begins at the next token.
func (p *parser) startsType() bool {
	t := p.peek()
	if t.kind != word {
		return false
	}
	switch {
	case isQualifier(t), slices.Contains(baseWords[:], t.text), t.text == "struct", t.text == "union", t.text == "enum":
		return true
	}
	if _, isConst, _ := p.env.Constant(t.text); isConst {
		return false
	}
	_, ok := p.env.Named(t.text)
	return ok
}

// typeName reads a type without a declarator name, as in a cast.
func (p *parser) typeName() (*types.Type, error) {
	base, err := p.specifiers(Chunk{})
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
func (p *parser) specifiers(c Chunk) (*types.Type, error) {
	var words []string
	for {
		t := p.peek()
		switch {
		case isQualifier(t):
			p.next()
		case t.kind == word && t.text == "__attribute__":
			p.attributes()
		case t.kind == word && slices.Contains(baseWords[:], t.text):
			words = append(words, p.next().text)
		case len(words) > 0:
			return baseType(words)
		case t.kind == word && (t.text == "struct" || t.text == "union"):
			return p.skipQualifiers(p.compositeType(c))
		case t.kind == word && t.text == "enum":
			return p.skipQualifiers(p.enumType())
		case t.kind == word:
			typ, ok := p.env.Named(t.text)
			if !ok {
				return nil, fmt.Errorf("unknown type '%s'", t.text)
			}
			p.next()
			return p.skipQualifiers(typ, nil)
		case t.kind == end:
			return nil, errors.New("a type is missing")
		default:
			return nil, fmt.Errorf("expected a type, found '%s'", t.text)
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
	if p.peek().text == "(" && p.pos+1 < len(p.toks) && p.toks[p.pos+1].text == "*" {
		return p.functionPointer()
	}
	name := ""
	if p.peek().kind == word && p.peek().text != "__attribute__" {
		name = p.next().text
	}
	var dims []int
	for p.accept("[") {
		n := 0
		if !p.accept("]") {
			c, err := p.constant()
			if err == nil {
				err = p.expect("]")
			}
			if err == nil && (c.IsStr || c.Int < 0 || c.Int > 1<<24) {
				err = errors.New("an array has a bad length")
			}
			if err != nil {
				return "", nil, err
			}
			n = int(c.Int)
		}
		dims = append(dims, n)
	}
	for _, n := range slices.Backward(dims) {
		t = types.MakeArray(t, n)
		if t.Size > 1<<26 {
			return "", nil, errors.New("an array is too large")
		}
	}
	return name, t, nil
}

// functionPointer reads "(*name)(parameters)"; what it points to is never used.
func (p *parser) functionPointer() (string, *types.Type, error) {
	p.next()
	for p.accept("*") {
	}
	name := ""
	if p.peek().kind == word {
		name = p.next().text
	}
	n := 1
	if p.accept("[") {
		c, err := p.constant()
		if err == nil {
			err = p.expect("]")
		}
		if err != nil || c.IsStr || c.Int < 0 || c.Int > 1<<20 {
			return "", nil, errors.New("an array has a bad length")
		}
		n = int(c.Int)
	}
	if err := p.expect(")"); err != nil {
		return "", nil, err
	}
	if err := p.skipParens(); err != nil {
		return "", nil, err
	}
	t := types.MakePointer(types.TFunc, types.NoSpace)
	if n != 1 {
		t = types.MakeArray(t, n)
	}
	return name, t, nil
}

func (p *parser) skipParens() error {
	if err := p.expect("("); err != nil {
		return err
	}
	for open := 1; open > 0; {
		switch t := p.next(); {
		case t.kind == end:
			return errors.New("expected ')'")
		case t.text == "(" && t.kind == punct:
			open++
		case t.text == ")" && t.kind == punct:
			open--
		}
	}
	return nil
}

// attribute is what __attribute__ says about layout.
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
			switch t.text {
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
func (p *parser) alignment(toks []token) int {
	if len(toks) == 0 || toks[0].text != "(" {
		return 16
	}
	in := &parser{env: p.env, toks: toks[1:]}
	c, err := in.constant()
	if err != nil || c.IsStr || c.Int < 1 || c.Int > 4096 || c.Int&(c.Int-1) != 0 {
		return 0
	}
	return int(c.Int)
}
