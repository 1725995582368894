// SPDX-License-Identifier: Apache-2.0

package cdef

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"btc/frontend/cpp"
	"btc/frontend/types"
)

// constant parses and evaluates a constant expression.
func (p *parser) constant() (Const, error) {
	if p.depth++; p.depth > maxDepth {
		return Const{}, errTooDeep
	}
	defer func() { p.depth-- }()
	c, err := p.binary(0)
	if err != nil || !p.accept("?") {
		return c, err
	}
	yes, err := p.constant()
	if err != nil {
		return c, err
	}
	if !p.accept(":") {
		return c, errors.New("expected ':'")
	}
	no, err := p.constant()
	if err != nil || c.Int == 0 {
		return no, err
	}
	return yes, nil
}

// levels are the binary operators, lowest precedence first.
var levels = [...][]string{
	{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"},
}

func (p *parser) binary(level int) (Const, error) {
	if level == len(levels) {
		return p.unary()
	}
	x, err := p.binary(level + 1)
	for err == nil {
		op := p.acceptAny(levels[level])
		if op == "" {
			break
		}
		var y Const
		if y, err = p.binary(level + 1); err == nil {
			x, err = combine(op, x, y)
		}
	}
	return x, err
}

// combine computes x op y in 64 bits; the operation is unsigned if one operand is.
func combine(op string, x, y Const) (Const, error) {
	if x.IsStr || y.IsStr {
		return x, errors.New("arithmetic on strings")
	}
	uns := isUnsigned(x) || isUnsigned(y)
	a, b := x.Int, y.Int
	truth := func(c bool) (Const, error) {
		if c {
			return number64(1, false), nil
		}
		return number64(0, false), nil
	}
	less := func(a, b int64) bool {
		if uns {
			return uint64(a) < uint64(b)
		}
		return a < b
	}
	switch op {
	case "||":
		return truth(a != 0 || b != 0)
	case "&&":
		return truth(a != 0 && b != 0)
	case "==":
		return truth(a == b)
	case "!=":
		return truth(a != b)
	case "<":
		return truth(less(a, b))
	case ">":
		return truth(less(b, a))
	case "<=":
		return truth(!less(b, a))
	case ">=":
		return truth(!less(a, b))
	case "/", "%":
		if b == 0 || a == math.MinInt64 && b == -1 {
			return x, errors.New("division overflows")
		}
	}
	switch op {
	case "|":
		a |= b
	case "^":
		a ^= b
	case "&":
		a &= b
	case "<<":
		a <<= uint64(b) & 63
	case ">>":
		if isUnsigned(x) {
			a = int64(uint64(a) >> (uint64(b) & 63))
		} else {
			a >>= uint64(b) & 63
		}
	case "+":
		a += b
	case "-":
		a -= b
	case "*":
		a *= b
	case "/", "%":
		a = divide(op, a, b, uns)
	}
	return number64(a, uns), nil
}

func divide(op string, a, b int64, uns bool) int64 {
	switch {
	case uns && op == "/":
		return int64(uint64(a) / uint64(b))
	case uns:
		return int64(uint64(a) % uint64(b))
	case op == "/":
		return a / b
	}
	return a % b
}

func isUnsigned(c Const) bool {
	return c.Type != nil && !c.Type.Signed && c.Type.Size == 8
}

// number64 returns a computed value. Unsigned values that fit int64 stay literals.
func number64(v int64, uns bool) Const {
	if uns && v < 0 {
		return Const{Type: types.TUint64, Int: v}
	}
	return Const{Type: literal(v), Int: v}
}

func (p *parser) unary() (Const, error) {
	if p.depth++; p.depth > maxDepth {
		return Const{}, errTooDeep
	}
	defer func() { p.depth-- }()
	switch op := p.acceptAny([]string{"-", "+", "!", "~", "("}); op {
	case "":
		return p.primary()
	case "(":
		return p.parenthesis()
	default:
		x, err := p.unary()
		if err == nil && x.IsStr {
			err = errors.New("arithmetic on strings")
		}
		if err != nil {
			return x, err
		}
		switch op {
		case "-":
			x = number64(-x.Int, false)
		case "~":
			x = number64(^x.Int, false)
		case "!":
			x = number64(b2i(x.Int == 0), false)
		}
		return x, nil
	}
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// parenthesis parses what follows '(': a cast or an expression.
func (p *parser) parenthesis() (Const, error) {
	if p.startsType() {
		t, err := p.typeName()
		if err != nil {
			return Const{}, err
		}
		if !p.accept(")") {
			return Const{}, errors.New("expected ')'")
		}
		x, err := p.unary()
		if err != nil || x.IsStr || !t.IsInteger() && t.Kind != types.Pointer {
			return x, err
		}
		v := Truncate(x.Int, t)
		return number64(v, !t.Signed), nil
	}
	x, err := p.constant()
	if err == nil && !p.accept(")") {
		err = errors.New("expected ')'")
	}
	return x, err
}

// Truncate returns v as a value of the integer type t, sign- or zero-extended.
func Truncate(v int64, t *types.Type) int64 {
	if t.Kind == types.Bool {
		return b2i(v != 0)
	}
	if t.Size <= 0 || t.Size >= 8 {
		return v
	}
	shift := 64 - 8*t.Size
	if t.Signed {
		return v << shift >> shift
	}
	return int64(uint64(v) << shift >> shift)
}

func (p *parser) primary() (Const, error) {
	t := p.next()
	switch t.Kind {
	case cpp.Number:
		v, err := cpp.ParseInt(t.Text)
		if err == nil && v > math.MaxInt64 {
			return Const{Type: types.TUint64, Int: int64(v)}, nil
		}
		return number64(int64(v), false), err
	case cpp.Char:
		if t.Value == "" {
			return Const{}, errors.New("empty character constant")
		}
		return number64(int64(int8(t.Value[0])), false), nil
	case cpp.StringLit:
		s, err := p.joined(t)
		if err != nil {
			return Const{}, err
		}
		return Const{Type: types.MakeString(len(s) + 1), Str: s, IsStr: true}, nil
	case cpp.Word:
		return p.wordValue(t.Text)
	case cpp.End:
		return Const{}, errors.New("missing expression")
	}
	return Const{}, fmt.Errorf("unexpected '%s'", t.Text)
}

// maxString bounds a string of the C text, in bytes: values of the language are not longer.
const maxString = 1 << 20

// joined returns a string literal concatenated with those that follow it.
func (p *parser) joined(t cpp.Token) (string, error) {
	if p.peek().Kind != cpp.StringLit {
		return t.Value, nil
	}
	var b strings.Builder
	b.WriteString(t.Value)
	for p.peek().Kind == cpp.StringLit {
		if b.WriteString(p.next().Value); b.Len() > maxString {
			return "", fmt.Errorf("string too long (max %d bytes)", maxString)
		}
	}
	return b.String(), nil
}

func (p *parser) wordValue(name string) (Const, error) {
	if name == "sizeof" {
		return p.sizeof()
	}
	c, ok, err := p.env.Constant(name)
	if err != nil {
		return c, fmt.Errorf("%s is not a constant: %w", name, err)
	}
	if !ok {
		return c, fmt.Errorf("unknown constant %s", name)
	}
	return c, nil
}

func (p *parser) sizeof() (Const, error) {
	if !p.accept("(") || !p.startsType() {
		return Const{}, errors.New("sizeof needs a type in parentheses")
	}
	t, err := p.typeName()
	if err == nil && !p.accept(")") {
		err = errors.New("expected ')'")
	}
	if err != nil {
		return Const{}, err
	}
	return number64(int64(t.Size), false), nil
}
