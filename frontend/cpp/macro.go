// SPDX-License-Identifier: Apache-2.0

package cpp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"btc/frontend/diag"
)

// Macro is one #define.
type Macro struct {
	Name string
	// Function is set for a function-like macro: a parenthesis directly after its name.
	Function bool
	// Variadic is set if the last of Params receives all remaining arguments.
	Variadic bool
	Params   []string
	Body     []Token
	// At is the position of the name in the #define; not valid for predefined macros.
	At diag.Span

	special func(at diag.Span) Token // __LINE__, __FILE__
}

// Textual reports whether the body uses the source text of arguments (#, ## or variadic arguments), not only their
// values.
func (m *Macro) Textual() bool {
	return m.Variadic || slices.ContainsFunc(m.Body, func(t Token) bool { return t.Is("#") || t.Is("##") })
}

// BodyAt returns the position of the body; not valid when it is empty.
func (m *Macro) BodyAt() diag.Span {
	if len(m.Body) == 0 {
		return diag.Span{}
	}
	return m.Body[0].At.To(m.Body[len(m.Body)-1].At)
}

// hide is a list of macros.
type hide struct {
	m    *Macro
	next *hide
	n    int
}

func (h *hide) has(m *Macro) bool {
	for ; h != nil; h = h.next {
		if h.m == m {
			return true
		}
	}
	return false
}

func (h *hide) with(m *Macro) *hide {
	if h.has(m) {
		return h
	}
	n := 1
	if h != nil {
		n = h.n + 1
	}
	return &hide{m, h, n}
}

func (h *hide) union(o *hide) *hide {
	if o == nil || h == o {
		return h
	}
	if h == nil {
		return o
	}
	for ; o != nil; o = o.next {
		h = h.with(o.m)
	}
	return h
}

func (h *hide) both(o *hide) *hide {
	var out *hide
	for ; h != nil; h = h.next {
		if o.has(h.m) {
			out = out.with(h.m)
		}
	}
	return out
}

// Limits on expansion; real headers stay far below them. Work is counted in tokens; text produced by # and ## counts
// as one token per workBytes.
const (
	maxWork   = 300_000   // for the C text
	maxUse    = 200_000   // one use of a macro in the script's code
	maxUses   = 2_000_000 // all uses in the script's code
	maxChain  = 500       // depth of macros in expansions of macros
	maxArgs   = 100       // depth of calls in arguments
	workBytes = 32
)

// expansion is one run of macro replacement over a list of tokens.
type expansion struct {
	macros map[string]*Macro
	limit  int  // maximum of work
	work   *int // done so far, shared by all expansions under one limit; -1 once it is exceeded
	depth  int
	report func(at diag.Span, format string, args ...any)
	stack  [][]Token // lists still to be read, last one first
}

// expand replaces the macros in a list.
func (x *expansion) expand(in []Token) []Token {
	x.stack = append(x.stack, in)
	out := make([]Token, 0, len(in))
	for {
		t, ok := x.next()
		if !ok {
			return out
		}
		if *x.work < 0 { // the limit is exceeded: the rest does not matter
			return append(out, t)
		}
		m := x.macros[t.Text]
		if t.Kind != Word || m == nil || t.hide.has(m) || x.spent(t) {
			out = append(out, t)
			continue
		}
		switch {
		case m.special != nil:
			made := m.special(t.At)
			made.space, made.Included = t.space, t.Included
			out = append(out, made)
		case !m.Function:
			x.push(x.substitute(m, nil, t, t.hide.with(m)))
		case x.opens():
			args, shut, ok := x.arguments(m, t)
			if !ok {
				return append(out, t)
			}
			x.push(x.substitute(m, args, t, t.hide.both(shut.hide).with(m)))
		default:
			out = append(out, t)
		}
	}
}

// spent reports whether the limit is exceeded.
func (x *expansion) spent(t Token) bool {
	if t.hide != nil && t.hide.n > maxChain || x.depth > maxArgs {
		x.charge(x.limit+1, t.At)
	}
	return !x.charge(0, t.At)
}

// charge counts work; once the limit is exceeded it always returns false.
func (x *expansion) charge(n int, at diag.Span) bool {
	if *x.work < 0 {
		return false
	}
	if *x.work += n; *x.work > x.limit {
		x.report(at, "macro expansion is too large here")
		*x.work = -1
		return false
	}
	return true
}

func (x *expansion) push(all []Token) {
	if len(all) > 0 {
		x.stack = append(x.stack, all)
	}
}

func (x *expansion) next() (Token, bool) {
	for n := len(x.stack); n > 0; n = len(x.stack) {
		top := x.stack[n-1]
		if len(top) == 0 {
			x.stack = x.stack[:n-1]
			continue
		}
		x.stack[n-1] = top[1:]
		return top[0], true
	}
	return Token{}, false
}

// opens reports whether the next token is '('.
func (x *expansion) opens() bool {
	for _, top := range slices.Backward(x.stack) {
		if len(top) > 0 {
			return top[0].Is("(")
		}
	}
	return false
}

// arguments reads "(a, b, ...)" after a macro's name.
func (x *expansion) arguments(m *Macro, at Token) (args [][]Token, shut Token, ok bool) {
	x.next()
	depth := 1
	args = [][]Token{nil}
	for {
		t, more := x.next()
		if !more {
			x.report(at.At, "missing ')' in call of macro %s", m.Name)
			return nil, t, false
		}
		last := len(args) - 1
		switch {
		case t.Is("("):
			depth++
		case t.Is(")"):
			if depth--; depth == 0 {
				return m.fit(args), t, x.count(m, m.fit(args), at)
			}
		case t.Is(",") && depth == 1 && !(m.Variadic && len(args) == len(m.Params)):
			args = append(args, nil)
			continue
		}
		args[last] = append(args[last], t)
	}
}

// fit drops an empty argument if there are no parameters, and adds an empty one for "...".
func (m *Macro) fit(args [][]Token) [][]Token {
	if len(m.Params) == 0 && len(args) == 1 && len(args[0]) == 0 {
		return nil
	}
	if m.Variadic && len(args) == len(m.Params)-1 {
		args = append(args, nil)
	}
	return args
}

func (x *expansion) count(m *Macro, args [][]Token, at Token) bool {
	if len(args) == len(m.Params) {
		return true
	}
	x.report(at.At, "macro %s takes %d arguments, found %d", m.Name, len(m.Params), len(args))
	return false
}

// substitute returns the body of a macro for one use.
func (x *expansion) substitute(m *Macro, args [][]Token, at Token, hidden *hide) []Token {
	var out []Token
	expanded := make([][]Token, len(args))
	for i := 0; i < len(m.Body); i++ {
		if len(out) > x.limit {
			break
		}
		t := m.Body[i]
		p := m.param(t)
		switch {
		case t.Is("#") && m.Function && i+1 < len(m.Body) && m.param(m.Body[i+1]) >= 0:
			i++
			made := stringify(args[m.param(m.Body[i])], t)
			x.charge(len(made.Text)/workBytes, at.At)
			out = append(out, made)
		case t.Is("##") && len(out) > 0 && i+1 < len(m.Body):
			i++
			right := []Token{m.Body[i]}
			if q := m.param(m.Body[i]); q >= 0 {
				right = args[q]
				if out[len(out)-1].Is(",") && m.Variadic && q == len(m.Params)-1 { // ", ## __VA_ARGS__"
					if len(right) == 0 {
						out = out[:len(out)-1]
					} else {
						out = append(out, x.argument(expanded, args, q)...)
					}
					continue
				}
			}
			out = x.paste(out, right)
		case p >= 0 && i+1 < len(m.Body) && m.Body[i+1].Is("##"):
			out = append(out, args[p]...)
			if len(args[p]) == 0 { // keeps its position next to ##
				out = append(out, Token{At: at.At})
			}
		case p >= 0:
			out = append(out, spaced(x.argument(expanded, args, p), t.space)...)
		default:
			out = append(out, t)
		}
	}
	if !x.charge(len(out)+1, at.At) {
		return nil
	}
	out = slices.DeleteFunc(out, func(t Token) bool { return t.Kind == End })
	for i := range out {
		out[i].hide = out[i].hide.union(hidden)
		out[i].At, out[i].Included = at.At, at.Included
	}
	return spaced(out, at.space)
}

// spaced returns the list with the space before its first token set or cleared.
func spaced(all []Token, space bool) []Token {
	if len(all) == 0 || all[0].space == space {
		return all
	}
	all = slices.Clone(all)
	all[0].space = space
	return all
}

// argument returns argument q with its macros replaced; the result is cached.
func (x *expansion) argument(made, args [][]Token, q int) []Token {
	if made[q] == nil && *x.work >= 0 {
		inner := &expansion{macros: x.macros, limit: x.limit, work: x.work, depth: x.depth + 1, report: x.report}
		made[q] = inner.expand(args[q])
	}
	return made[q]
}

// param returns the index of the parameter that a token names, or -1 if there is none.
func (m *Macro) param(t Token) int {
	if !m.Function || t.Kind != Word {
		return -1
	}
	return slices.Index(m.Params, t.Text)
}

// stringify makes a string literal of tokens.
func stringify(all []Token, at Token) Token {
	var text strings.Builder
	for i, t := range all {
		if i > 0 && t.space {
			text.WriteByte(' ')
		}
		text.WriteString(t.Text)
	}
	t := at
	t.Kind, t.Value = StringLit, text.String()
	t.Text = strconv.Quote(t.Value)
	return t
}

// paste joins the last token with the first of the right side.
func (x *expansion) paste(left, right []Token) []Token {
	if len(right) == 0 {
		return left
	}
	last := left[len(left)-1]
	if last.Kind == End {
		return append(left[:len(left)-1:len(left)-1], right...)
	}
	x.charge((len(last.Text)+len(right[0].Text))/workBytes, last.At)
	made, ok := single(last.Text + right[0].Text)
	if !ok {
		x.report(last.At, "'%s' ## '%s' is not a valid token", last.Text, right[0].Text)
		return left
	}
	made.At, made.space, made.hide = last.At, last.space, last.hide.both(right[0].hide)
	return append(append(left[:len(left)-1:len(left)-1], made), right[1:]...)
}

// single lexes a string as exactly one token.
func single(text string) (Token, bool) {
	src := diag.NewSource("", text)
	all, err := Lex(src.Span(0, len(text)))
	if err != nil || len(all) != 1 {
		return Token{}, false
	}
	return all[0], true
}

// parseDefine parses what follows "#define".
func parseDefine(toks []Token) (*Macro, error) {
	if len(toks) == 0 || toks[0].Kind != Word {
		return nil, fmt.Errorf("#define needs a name")
	}
	m := &Macro{Name: toks[0].Text, At: toks[0].At, Body: toks[1:]}
	if m.Name == "defined" {
		return nil, fmt.Errorf("'defined' cannot be a macro")
	}
	if len(m.Body) == 0 || !m.Body[0].Is("(") || m.Body[0].space {
		return m, nil
	}
	m.Function = true
	rest := m.Body[1:]
	for {
		switch {
		case len(rest) > 0 && rest[0].Is(")") && len(m.Params) == 0 && !m.Variadic:
		case len(rest) > 0 && rest[0].Is("...") && !m.Variadic:
			m.Params, m.Variadic = append(m.Params, "__VA_ARGS__"), true
			rest = rest[1:]
		case len(rest) > 0 && rest[0].Kind == Word && !m.Variadic:
			if slices.Contains(m.Params, rest[0].Text) {
				return nil, fmt.Errorf("macro %s has two parameters %s", m.Name, rest[0].Text)
			}
			m.Params = append(m.Params, rest[0].Text)
			rest = rest[1:]
			if len(rest) > 0 && rest[0].Is("...") { // GNU: "args..."
				m.Variadic = true
				rest = rest[1:]
			}
		default:
			return nil, fmt.Errorf("invalid parameters of macro %s", m.Name)
		}
		switch {
		case len(rest) > 0 && rest[0].Is(")"):
			m.Body = rest[1:]
			return m, nil
		case len(rest) > 0 && rest[0].Is(","):
			rest = rest[1:]
		default:
			return nil, fmt.Errorf("missing ')' after the parameters of macro %s", m.Name)
		}
	}
}
