// SPDX-License-Identifier: Apache-2.0

package cpp

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"btc/frontend/diag"
)

// condition is one level of #if.
type condition struct {
	at     diag.Span
	active bool // lines are read
	done   bool // a branch was taken
	outer  bool // the enclosing level is active
	last   bool // #else was seen
}

// active reports whether lines are read, not skipped, at this point.
func (r *reader) active() bool {
	n := len(r.nesting)
	return n == 0 || r.nesting[n-1].active
}

// conditional executes #if and related directives; it is false for others.
func (r *reader) conditional(name string, rest []Token, at diag.Span) bool {
	switch name {
	case "ifdef", "ifndef", "if":
		r.flush()
		level := condition{at: at, outer: r.active()}
		level.active = level.outer && r.holds(name, rest, at)
		level.done = level.active
		r.nesting = append(r.nesting, level)
		return true
	case "elif", "elifdef", "elifndef", "else", "endif":
	default:
		return false
	}
	r.flush()
	n := len(r.nesting)
	if n == 0 {
		r.fail(at, "#%s without #if", name)
		return true
	}
	level := &r.nesting[n-1]
	if name == "endif" {
		r.nesting = r.nesting[:n-1]
		return true
	}
	if level.last {
		r.fail(at, "#%s after #else", name).Note(level.at, "this is the #if")
		return true
	}
	level.last = name == "else"
	level.active = level.outer && !level.done && (level.last || r.holds(strings.TrimPrefix(name, "el"), rest, at))
	level.done = level.done || level.active
	return true
}

// holds evaluates a condition; it reports an invalid one and returns false for it.
func (r *reader) holds(name string, rest []Token, at diag.Span) bool {
	if name != "if" {
		if len(rest) == 0 || rest[0].Kind != Word {
			r.fail(at, "#%s needs a name", name)
			return false
		}
		_, ok := r.unit.macros[rest[0].Text]
		return ok == (name == "ifdef")
	}
	v, err := r.evaluate(rest)
	if r.unit.work < 0 { // reported
		return false
	}
	if err != nil {
		r.fail(at, "#if: %v", err)
		return false
	}
	return v.v != 0
}

func (r *reader) evaluate(rest []Token) (value, error) {
	answered, err := r.queries(rest)
	if err != nil {
		return value{}, err
	}
	x := &expansion{macros: r.unit.macros, limit: maxWork, work: &r.unit.work, report: r.tooLarge}
	c := &calculator{toks: x.expand(answered), constant: r.opt.Constant}
	v, err := c.ternary(true)
	if err == nil && c.pos < len(c.toks) {
		err = fmt.Errorf("unexpected '%s'", c.toks[c.pos].Text)
	}
	return v, err
}

// queries evaluates defined and similar operators before macros are replaced.
func (r *reader) queries(in []Token) ([]Token, error) {
	var out []Token
	for i := 0; i < len(in); i++ {
		t := in[i]
		truth := false
		switch {
		case t.Is("defined"):
			n, name := operand(in[i+1:])
			if n == 0 {
				return nil, errors.New("defined needs a name")
			}
			_, truth = r.unit.macros[name]
			truth = truth || queryNames[name]
			i += n
		case t.Kind == Word && queryNames[t.Text]:
			if _, own := r.unit.macros[t.Text]; own {
				out = append(out, t)
				continue
			}
			n, inside := group(in[i+1:])
			if n == 0 {
				return nil, fmt.Errorf("%s needs '(' and ')'", t.Text)
			}
			if strings.HasPrefix(t.Text, "__has_include") {
				truth = r.hasInclude(inside, t.At)
			}
			i += n
		default:
			out = append(out, t)
			continue
		}
		text := "0"
		if truth {
			text = "1"
		}
		out = append(out, Token{Kind: Number, Text: text, At: t.At})
	}
	return out, nil
}

// queryNames are operators of #if that look like calls. All but __has_include are false.
var queryNames = map[string]bool{
	"__has_include":            true,
	"__has_include_next":       true,
	"__has_attribute":          true,
	"__has_builtin":            true,
	"__has_feature":            true,
	"__has_extension":          true,
	"__has_c_attribute":        true,
	"__has_declspec_attribute": true,
}

// operand reads "name" or "(name)" and returns the number of tokens, 0 for neither.
func operand(in []Token) (int, string) {
	switch {
	case len(in) > 0 && in[0].Kind == Word:
		return 1, in[0].Text
	case len(in) > 2 && in[0].Is("(") && in[1].Kind == Word && in[2].Is(")"):
		return 3, in[1].Text
	}
	return 0, ""
}

// group reads "( ... )" and returns the number of tokens, 0 for none.
func group(in []Token) (int, []Token) {
	if len(in) == 0 || !in[0].Is("(") {
		return 0, nil
	}
	depth := 0
	for i, t := range in {
		switch {
		case t.Is("("):
			depth++
		case t.Is(")"):
			if depth--; depth == 0 {
				return i + 1, in[1:i]
			}
		}
	}
	return 0, nil
}

// value is a number in #if: 64 bits, signed or unsigned.
type value struct {
	v   int64
	uns bool
}

// calculator evaluates the tokens of a condition. Unevaluated operands (after "0 &&") are
// parsed, but may divide by zero.
type calculator struct {
	toks     []Token
	pos      int
	depth    int
	constant func(name string) (int64, bool)
}

// maxNested bounds the depth of expressions.
const maxNested = 200

func (c *calculator) accept(ops ...string) string {
	for _, op := range ops {
		if c.pos < len(c.toks) && c.toks[c.pos].Is(op) {
			c.pos++
			return op
		}
	}
	return ""
}

func (c *calculator) enter() error {
	if c.depth++; c.depth > maxNested {
		return errors.New("too deeply nested")
	}
	return nil
}

// ternary evaluates "a ? b : c" and operators that bind more tightly.
func (c *calculator) ternary(needed bool) (value, error) {
	if err := c.enter(); err != nil {
		return value{}, err
	}
	defer func() { c.depth-- }()
	v, err := c.binary(0, needed)
	if err != nil || c.accept("?") == "" {
		return v, err
	}
	yes, err := c.ternary(needed && v.v != 0)
	if err != nil {
		return v, err
	}
	if c.accept(":") == "" {
		return v, errors.New("expected ':'")
	}
	no, err := c.ternary(needed && v.v == 0)
	if v.v != 0 {
		no.v = yes.v
	}
	no.uns = no.uns || yes.uns
	return no, err
}

var levels = [...][]string{
	{"||"}, {"&&"}, {"|"}, {"^"}, {"&"}, {"==", "!="}, {"<", ">", "<=", ">="}, {"<<", ">>"}, {"+", "-"}, {"*", "/", "%"},
}

func (c *calculator) binary(level int, needed bool) (value, error) {
	if level == len(levels) {
		return c.unary(needed)
	}
	x, err := c.binary(level+1, needed)
	for err == nil {
		op := c.accept(levels[level]...)
		if op == "" {
			break
		}
		need := needed && (op != "||" || x.v == 0) && (op != "&&" || x.v != 0)
		var y value
		if y, err = c.binary(level+1, need); err == nil {
			x, err = combine(op, x, y, need)
		}
	}
	return x, err
}

func truth(b bool) (value, error) {
	if b {
		return value{v: 1}, nil
	}
	return value{}, nil
}

func combine(op string, x, y value, needed bool) (value, error) {
	uns := x.uns || y.uns
	less := func(a, b int64) bool { return uns && uint64(a) < uint64(b) || !uns && a < b }
	switch op {
	case "||":
		return truth(x.v != 0 || y.v != 0)
	case "&&":
		return truth(x.v != 0 && y.v != 0)
	case "==":
		return truth(x.v == y.v)
	case "!=":
		return truth(x.v != y.v)
	case "<":
		return truth(less(x.v, y.v))
	case ">":
		return truth(less(y.v, x.v))
	case "<=":
		return truth(!less(y.v, x.v))
	case ">=":
		return truth(!less(x.v, y.v))
	}
	v := x.v
	switch op {
	case "|":
		v |= y.v
	case "^":
		v ^= y.v
	case "&":
		v &= y.v
	case "+":
		v += y.v
	case "-":
		v -= y.v
	case "*":
		v *= y.v
	case "<<":
		return value{v << (uint64(y.v) & 63), x.uns}, nil
	case ">>":
		if x.uns {
			return value{int64(uint64(v) >> (uint64(y.v) & 63)), true}, nil
		}
		return value{v >> (uint64(y.v) & 63), false}, nil
	case "/", "%":
		return divide(op, x.v, y.v, uns, needed)
	}
	return value{v, uns}, nil
}

func divide(op string, a, b int64, uns, needed bool) (value, error) {
	switch {
	case b == 0 && needed:
		return value{}, errors.New("division by zero")
	case b == 0, b == -1 && a == math.MinInt64 && !uns:
		return value{uns: uns}, nil
	case uns && op == "/":
		return value{int64(uint64(a) / uint64(b)), true}, nil
	case uns:
		return value{int64(uint64(a) % uint64(b)), true}, nil
	case op == "/":
		return value{a / b, false}, nil
	}
	return value{a % b, false}, nil
}

func (c *calculator) unary(needed bool) (value, error) {
	if err := c.enter(); err != nil {
		return value{}, err
	}
	defer func() { c.depth-- }()
	op := c.accept("-", "+", "!", "~")
	if op == "" {
		return c.primary(needed)
	}
	v, err := c.unary(needed)
	switch op {
	case "-":
		v.v = -v.v
	case "~":
		v.v = ^v.v
	case "!":
		if err == nil {
			return truth(v.v == 0)
		}
	}
	return v, err
}

// primary evaluates an operand. A remaining identifier is a constant of the system's headers, or 0.
func (c *calculator) primary(needed bool) (value, error) {
	if c.accept("(") != "" {
		v, err := c.ternary(needed)
		if err == nil && c.accept(")") == "" {
			err = errors.New("expected ')'")
		}
		return v, err
	}
	if c.pos >= len(c.toks) {
		return value{}, errors.New("missing expression")
	}
	t := c.toks[c.pos]
	c.pos++
	switch t.Kind {
	case Number:
		v, err := ParseInt(t.Text)
		return value{int64(v), v > math.MaxInt64 || strings.ContainsAny(t.Text, "uU")}, err
	case Char:
		if t.Value == "" {
			return value{}, errors.New("empty character constant")
		}
		return value{v: int64(int8(t.Value[0]))}, nil
	case Word:
		if c.constant != nil {
			if v, ok := c.constant(t.Text); ok {
				return value{v: v}, nil
			}
		}
		return value{}, nil
	}
	return value{}, fmt.Errorf("unexpected '%s'", t.Text)
}

// ParseInt reads a C integer with its suffix.
func ParseInt(s string) (uint64, error) {
	digits := strings.TrimRight(s, "uUlL")
	v, err := strconv.ParseUint(digits, 0, 64)
	if err != nil || strings.ContainsAny(digits, "_oO") {
		return 0, fmt.Errorf("invalid number %s", s)
	}
	return v, nil
}

func itoa(v int) string { return strconv.Itoa(v) }

func quote(s string) string { return strconv.Quote(s) }
