// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/manifest"
	"btc/internal/probe"
)

// Subprog is an instance of a function of the script, "fn name($a : T) : R { ... }". It does not depend on the probe:
// callers that pass pointers into the same address spaces share an instance.
type Subprog struct {
	Name string
	// Variant is the number of this instance among those of the function, from 0.
	Variant int
	Def     *ast.Func
	Params  []*Var
	// Result is TNone for void.
	Result *types.Type
	Point  *Point // stands in for the probe; it has no provider
	Body   *Body
	// Inline: a parameter or the result is not a scalar. BPF passes values in registers, so
	// the body is inlined at each call. Set by Check's last round.
	Inline bool

	spaces callSpaces
	taken  bool   // a call has decided spaces
	open   []bool // by parameter: its size is the largest size passed
	body   *body
	total  int // statements, including those of inlined functions
}

// calls are the calls of a function in a body: the first one, and the total number of calls after unrolling.
type calls struct {
	at    ast.Node
	times int
}

// callSpaces are the address spaces of pointers that a Subprog is typed for: a byte
// ('0' + types.Space) for each parameter.
type callSpaces string

func (s callSpaces) of(param int) types.Space {
	if param < len(s) {
		return types.Space(s[param] - '0')
	}
	return types.NoSpace
}

// function is a definition with its Subprogs.
type function struct {
	def    *ast.Func
	clause *clause
	all    []*Subprog
}

const (
	// maxSubprogParams is the number of argument registers of BPF.
	maxSubprogParams = 5
	// maxCallFrames is the depth of calls, the program's own included (MAX_CALL_FRAMES, Linux 4.16).
	maxCallFrames = 8
)

// subprogType is the probe.Type of code in a function.
var subprogType = probe.Type{Kind: "fn"}

// subprogram declares a function; its body is typed in rounds, like the bodies of probes.
func (c *checker) subprogram(def *ast.Func) {
	name := def.Name.Text
	if before := c.subprogs[name]; before != nil {
		c.fail(diag.BadFunction, def.Name, "Redefinition of function: %s", name).
			Note(before.def.Name.At, "it is defined here first")
		return
	}
	if IsBuiltin(name) {
		c.fail(diag.BadFunction, def.Name, "%s is a builtin function", name)
		return
	}
	f := &function{
		def:    def,
		clause: &clause{probe: &ast.Probe{Extent: def.Extent, Body: def.Body}, scope: subprogScopes(c, def)},
	}
	c.subprogs[name] = f
	c.clauses = append(c.clauses, f.clause)
	c.variant(f, "")
}

// variant creates a Subprog of a function.
func (c *checker) variant(f *function, spaces callSpaces) *Subprog {
	name := f.def.Name
	s := &Subprog{
		Name:    name.Text,
		Variant: len(f.all),
		Def:     f.def,
		Params:  make([]*Var, len(f.def.Params)),
		Result:  types.TInvalid,
		spaces:  spaces,
		open:    make([]bool, len(f.def.Params)),
	}
	s.Point = &Point{Kind: "fn", Type: &subprogType, Attach: manifest.Attach{Text: name.Text}, At: name.At}
	s.body = newBody(c, f.clause, s.Point)
	s.body.sub, s.Body = s, s.body.out
	for i, p := range f.def.Params {
		s.Params[i] = s.body.vars[f.clause.scope.slot(p.Var)]
		s.Params[i].fixed = true
	}
	f.all = append(f.all, s)
	f.clause.bodies = append(f.clause.bodies, s.body)
	c.info.Subprogs = append(c.info.Subprogs, s)
	c.changed = true
	return s
}

// signature types the parameters and the result, in each round: typeof may name a type that
// grows.
func (s *Subprog) signature() {
	for _, last := range []bool{false, true} { // typeof may name another parameter
		for i, p := range s.Def.Params {
			if _, isTypeof := p.Type.(*ast.TypeofType); isTypeof == last {
				s.param(i, p)
			}
		}
	}
	b := s.body
	t := b.resolveType(s.Def.Result)
	switch {
	case t.Kind == types.None, invalid(t):
		s.Result = t
	case b.passable(s.Def.Result, t, "functions cannot return values %s"):
		if !isOpen(t) && t.Kind != types.Pointer {
			b.grow(&s.Result, t.JoinSpaces(s.Result))
		} else if s.Result.Kind != t.Kind && t.Kind != types.Timestamp {
			s.Result, b.changed = least(t), true
		}
	default:
		s.Result = types.TInvalid
	}
	s.Inline = t.Kind != types.None && !t.IsScalar()
	for _, p := range s.Params {
		s.Inline = s.Inline || p.Type != nil && !invalid(p.Type) && !p.Type.IsScalar()
	}
	if !s.Inline && len(s.Params) > maxSubprogParams {
		s.Inline = true
	}
}

// param types parameter i.
func (s *Subprog) param(i int, p *ast.Param) {
	b, v := s.body, s.Params[i]
	t := b.resolveType(p.Type)
	s.open[i] = isOpen(t)
	switch {
	case invalid(t), !b.passable(p, t, "function arguments cannot be %s"):
		v.Type = types.TInvalid
	case s.open[i]:
		if v.Type == nil {
			b.grow(&v.Type, least(t))
		}
	case t.Kind == types.Pointer:
		b.grow(&v.Type, t.WithSpace(s.spaces.of(i)))
	default:
		b.grow(&v.Type, t.JoinSpaces(orInvalid(v.Type)))
	}
}

// isOpen reports whether a declared type leaves something to its values: the size of strings and buffers, the format
// of timestamps.
func isOpen(t *types.Type) bool {
	switch t.Kind {
	case types.String, types.Buffer:
		return t.Size == 0
	case types.Timestamp:
		return t.Format == "" && t.FormatFrom == ""
	}
	return false
}

// least returns the smallest type that fits an open type.
func least(t *types.Type) *types.Type {
	switch t.Kind {
	case types.String:
		return types.MakeString(1)
	case types.Buffer:
		return types.MakeBuffer(1)
	}
	return t
}

// passable reports types that cannot be passed.
func (b *body) passable(at ast.Node, t *types.Type, format string) bool {
	switch {
	case t.IsAgg(), t.Kind == types.None, t.Kind == types.Func, t.Kind == types.Float:
		b.fail(diag.BadFunction, at, format, "of type '"+t.String()+"'").
			Hint("values are integers, bool, enums, pointers, strings, buffers, arrays, structs, tuples and records")
		return false
	case t.Kind == types.Array && t.Len == 0, t.Kind == types.Struct && t.Size == 0:
		b.fail(diag.BadFunction, at, format, "of type '"+t.String()+"', whose size is not known").
			Hint("a pointer can be passed")
		return false
	}
	return true
}

// subprogScopes resolves the names of a function; its parameters are declared
// in the block around the body.
func subprogScopes(c *checker, def *ast.Func) *scope {
	s := &scope{c: c, closed: map[string][]*slot{}, uses: map[*ast.Var]*slot{}}
	s.push()
	for _, p := range def.Params {
		s.declare(p.Var, true).assigned = true
	}
	for _, p := range def.Params {
		s.typ(p.Type)
	}
	s.typ(def.Result)
	s.block(def.Body)
	s.pop()
	return s
}

// subprogCall types a call of a function of the script; false if there is none.
func (b *body) subprogCall(x *ast.Call, e *Expr) bool {
	f := b.subprogs[x.Func.Text]
	if f == nil {
		return false
	}
	args := make([]*types.Type, len(x.Args))
	for i, a := range x.Args {
		args[i] = b.passed(a)
	}
	s := b.variantFor(f, args)
	e.Call = &Call{Fn: &Function{Name: s.Name, Effect: true}, Args: x.Args, Sub: s}
	if len(x.Args) != len(s.Params) {
		b.fail(diag.BadArguments, x, "%s() requires %d argument(s), found %d", s.Name, len(s.Params), len(x.Args))
	}
	for i, a := range x.Args {
		if i >= len(s.Params) {
			break
		}
		if !b.passes(a, args[i], &s.Params[i].Type, s.open[i]) {
			b.fail(diag.TypeMismatch, a,
				"Type mismatch for argument $%s of %s(): trying to pass a value of type '%s' where a '%s' is declared",
				s.Params[i].Name, s.Name, args[i], declared(s.Params[i].Type, s.open[i]))
		} else if p := s.Params[i]; p.Type != nil && p.Type.Kind != types.Pointer {
			b.grow(&p.Type, p.Type.JoinSpaces(args[i]))
		}
	}
	if b.quiet == 0 {
		use := b.calls[s]
		if use.at == nil {
			use.at = x
		}
		use.times = min(use.times+max(b.repeat, 1), maxStmts+1)
		b.calls[s] = use
	}
	e.Type = orInvalid(s.Result)
	return true
}

// passed types an argument.
func (b *body) passed(x ast.Expr) *types.Type {
	if m, ok := ast.Unparen(x).(*ast.Map); ok && b.mapNamed(m).use == keyKeyed {
		b.fail(diag.BadArguments, x, "the map %s cannot be passed to a function", b.mapNamed(m).Name).
			Hint("a function uses the script's maps by name; a macro can have a map parameter")
		b.set(m, &Expr{Type: types.TInvalid})
		return types.TInvalid
	}
	return b.value(x)
}

// declared returns a type as its declaration spells it: an open one has no size.
func declared(t *types.Type, open bool) string {
	name := t.String()
	if open {
		name, _, _ = strings.Cut(name, "[")
	}
	return name
}

// variantFor returns the Subprog for a call in this body.
func (b *body) variantFor(f *function, args []*types.Type) *Subprog {
	kinds := make([]byte, len(f.def.Params))
	for i := range kinds {
		kinds[i] = '0' + byte(types.NoSpace)
		if i < len(args) && args[i].Kind == types.Pointer && args[i].Space.Known() {
			kinds[i] = '0' + byte(args[i].Space)
		}
	}
	spaces := callSpaces(kinds)
	first := f.all[0]
	for _, t := range args {
		if invalid(t) { // not known yet, or in error
			return first
		}
	}
	if !first.taken && b.quiet == 0 {
		first.taken = true
		first.spaces = spaces
		b.changed = true
		return first
	}
	for _, s := range f.all {
		if s.spaces == spaces {
			return s
		}
	}
	if b.final || b.quiet > 0 {
		return first
	}
	s := b.variant(f, spaces)
	s.taken = true
	return s
}

// passes reports whether a value of type t may be passed as a declared one. An open
// type grows. An integer that is wider than the declared one is truncated,
// with a warning unless it is a constant.
func (b *body) passes(x ast.Expr, t *types.Type, declared **types.Type, open bool) bool {
	if invalid(t) || *declared == nil || invalid(*declared) {
		return true
	}
	if open && t.Kind == (*declared).Kind {
		switch {
		case t.Kind == types.Timestamp && isOpen(*declared):
			b.grow(declared, t)
		case t.Kind == types.Timestamp:
			return types.Equal(t, *declared)
		case !t.FitsInto(*declared):
			b.grow(declared, t)
		}
		return true
	}
	want := *declared
	if t.FitsInto(want) || b.constFits(x, want) {
		return true
	}
	if t.Kind == types.Pointer && want.Kind == types.Pointer {
		return true
	}
	if !t.IsInteger() || !want.IsInteger() || b.out.Expr(x).Const != nil {
		return false
	}
	b.lossy(x, t, want)
	return true
}

// returns types a return statement of a function.
func (b *body) returns(r *ast.ReturnStmt) {
	s := b.sub
	want := s.Result
	switch {
	case r.X == nil && want.Kind != types.None && !invalid(want):
		b.fail(diag.BadFunction, r, "function %s must return a value of type '%s'", s.Name, want)
	case r.X == nil:
	case want.Kind == types.None:
		b.value(r.X)
		b.fail(diag.BadFunction, r.X, "function %s is void and cannot return a value", s.Name)
	default:
		t := b.value(r.X)
		want := b.resolveType(s.Def.Result)
		if s.Result.Kind == types.Invalid && t.Kind == types.Timestamp && want.Kind == types.Timestamp {
			b.grow(&s.Result, t)
		}
		if !b.passes(r.X, t, &s.Result, isOpen(want)) {
			b.fail(diag.TypeMismatch, r.X, "Function %s is of type %s, cannot return %s", s.Name,
				declared(s.Result, isOpen(want)), t)
			return
		}
		b.grow(&s.Result, s.Result.JoinSpaces(t))
	}
}

// finishSubprogs reports functions that do not return, and calls that are nested too
// deeply.
func (c *checker) finishSubprogs() {
	for _, s := range c.info.Subprogs {
		if invalid(orInvalid(s.Result)) && !c.l.HasErrors() {
			c.fail(diag.BadFunction, s.Def.Result, "cannot infer the result type of %s", s.Name)
		}
		if s.Result.Kind != types.None && !invalid(s.Result) && !s.body.ends {
			c.fail(diag.BadFunction, s.Def.Name, "Not all code paths returned a value").
				Hint("end the function with return")
		}
	}
	if !c.cycles() {
		c.depths()
		for _, cl := range c.clauses {
			for _, b := range cl.bodies {
				b.total()
			}
		}
	}
}

// total counts the statements of a body, including those of inlined functions, and reports too many.
func (b *body) total() int {
	if b.sub != nil && b.sub.total > 0 {
		return b.sub.total
	}
	n, inOrder := max(b.stmts, 1), func(x, y *Subprog) int {
		return cmp.Or(cmp.Compare(x.Def.Span().Start, y.Def.Span().Start), cmp.Compare(x.Variant, y.Variant))
	}
	for _, s := range slices.SortedFunc(maps.Keys(b.calls), inOrder) {
		if !s.Inline {
			continue
		}
		use := b.calls[s]
		was := n
		if n = min(n+use.times*s.body.total(), maxStmts+1); n > maxStmts && was <= maxStmts {
			b.tooLarge(use.at)
		}
	}
	if b.sub != nil {
		b.sub.total = n
	}
	return n
}

// cycles reports functions that call themselves.
func (c *checker) cycles() (found bool) {
	done, index := map[*Subprog]bool{}, map[*Subprog]int{}
	for i, s := range c.info.Subprogs {
		index[s] = i
	}
	var visit func(s *Subprog, chain []string, open map[*Subprog]bool)
	visit = func(s *Subprog, chain []string, open map[*Subprog]bool) {
		open[s], chain = true, append(chain, s.Name)
		inOrder := func(a, b *Subprog) int { return index[a] - index[b] }
		for _, callee := range slices.SortedFunc(maps.Keys(s.body.calls), inOrder) {
			switch {
			case done[callee]:
			case open[callee]:
				found = true
				c.fail(diag.BadFunction, s.body.calls[callee].at, "Recursive function call detected. Call chain: %s",
					strings.Join(append(chain, callee.Name), " > "))
			default:
				visit(callee, chain, open)
			}
		}
		open[s], done[s] = false, true
	}
	for _, s := range c.info.Subprogs {
		if !done[s] {
			visit(s, nil, map[*Subprog]bool{})
		}
	}
	return found
}

// depths reports chains of calls that are deeper than the kernel allows.
func (c *checker) depths() {
	frames := map[*Subprog]int{}
	var need func(s *Subprog) int
	need = func(s *Subprog) int {
		if frames[s] == 0 {
			own := 1
			if s.Inline {
				own = 0
			}
			frames[s] = own
			for callee := range s.body.calls {
				frames[s] = max(frames[s], own+need(callee))
			}
		}
		return frames[s]
	}
	for _, s := range c.info.Subprogs {
		if need(s) == maxCallFrames {
			c.fail(diag.BadFunction, s.Def.Name, "calls from %s nest too deeply: the kernel allows %d frames", s.Name,
				maxCallFrames)
		}
	}
}
