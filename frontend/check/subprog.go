package check

import (
	"maps"
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
)

// Subprog is a function of the script: "fn name($a : T) : R { ... }". It is
// typed once, whoever calls it, so it knows nothing of a probe.
type Subprog struct {
	Name   string
	Def    *ast.Func
	Params []*Var // scalars, at most maxSubprogParams
	// Result is TNone for void.
	Result *types.Type
	Point  *Point // stands for the probe: of no provider
	Body   *Body

	body  *body
	calls map[*Subprog]ast.Node
}

const (
	// maxSubprogParams is the number of argument registers of BPF.
	maxSubprogParams = 5
	// maxCallFrames is the depth of calls, the program's own included (MAX_CALL_FRAMES, Linux 4.16).
	maxCallFrames = 8
)

// subprogProvider stands for the kind of probe in a function.
var subprogProvider = Provider{Name: "fn", Type: "fn"}

// notInSubprog are builtins that need the context of a program.
var notInSubprog = map[string]bool{"kstack": true, "ustack": true, "probe": true, "probetype": true, "args": true, "ctx": true}

// subprogram declares a function; its body is typed in rounds as those of
// probes are.
func (c *checker) subprogram(def *ast.Func) {
	name := def.Name.Text
	if before := c.subprogs[name]; before != nil {
		c.fail(diag.BadFunction, def.Name, "Redefinition of function: %s", name).Note(before.Def.Name.At, "it is defined here first")
		return
	}
	if IsBuiltin(name) {
		c.fail(diag.BadFunction, def.Name, "%s is a builtin function", name)
		return
	}
	s := &Subprog{Name: name, Def: def, calls: map[*Subprog]ast.Node{}, Point: &Point{Kind: "fn", Provider: &subprogProvider, Text: name, At: def.Name.At}}
	c.subprogs[name] = s
	probe := &ast.Probe{Extent: def.Extent, Body: def.Body}
	cl := &clause{probe: probe, scope: subprogScopes(c, def)}
	s.body = newBody(c, cl, s.Point)
	s.body.sub, s.Body = s, s.body.out
	if len(def.Params) > maxSubprogParams {
		c.fail(diag.BadFunction, def.Params[maxSubprogParams], "a function takes at most %d arguments", maxSubprogParams)
	}
	s.Params = make([]*Var, len(def.Params))
	for _, last := range []bool{false, true} { // typeof may name another parameter
		for i, p := range def.Params {
			if _, isTypeof := p.Type.(*ast.TypeofType); isTypeof == last {
				s.Params[i] = s.param(p)
			}
		}
	}
	s.Result = s.resultType()
	cl.bodies = append(cl.bodies, s.body)
	c.clauses = append(c.clauses, cl)
	c.info.Subprogs = append(c.info.Subprogs, s)
}

func (s *Subprog) resultType() *types.Type {
	t := s.body.declaredType(s.Def.Result)
	if !invalid(t) && t.Kind != types.None && !t.IsScalar() {
		s.body.unsupported(s.Def.Result, "functions that give %s", t).Hint("functions give integers, bool, enums, pointers or nothing (void)")
		return types.TInvalid
	}
	return t
}

func (s *Subprog) param(p *ast.Param) *Var {
	b := s.body
	t := b.declaredType(p.Type)
	if !invalid(t) && !t.IsScalar() {
		b.unsupported(p, "function arguments of type %s", t).Hint("arguments are integers, bool, enums or pointers")
		t = types.TInvalid
	}
	v := b.vars[b.clause.scope.slot(p.Var)]
	v.Type, v.fixed = t, true
	return v
}

// declaredType is a type in a signature, where typeof may name a parameter.
func (b *body) declaredType(t ast.Type) *types.Type {
	o := b.out
	o.exprs = map[ast.Expr]*Expr{}
	typ := b.resolveType(t)
	if typ.Kind == types.Pointer && typ.Space == types.NoSpace {
		typ = typ.WithSpace(types.Kernel)
	}
	return typ
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

// subprogCall types a call of a function of the script; false when there is none.
func (b *body) subprogCall(x *ast.Call, e *Expr) bool {
	s := b.subprogs[x.Func.Text]
	if s == nil {
		return false
	}
	e.Call = &Call{Fn: &Function{Name: s.Name, Effect: true, Supported: true}, Args: x.Args, Sub: s}
	if b.sub != nil && b.sub.calls[s] == nil {
		b.sub.calls[s] = x
	}
	if len(x.Args) != len(s.Params) {
		b.fail(diag.BadArguments, x, "%s() requires %d argument(s), found %d", s.Name, len(s.Params), len(x.Args))
	}
	for i, a := range x.Args {
		t := b.value(a)
		if i < len(s.Params) && !b.passes(a, t, s.Params[i].Type) {
			b.fail(diag.TypeMismatch, a, "Type mismatch for argument $%s of %s(): trying to pass a value of type '%s' where a '%s' is declared", s.Params[i].Name, s.Name, t, s.Params[i].Type)
		}
	}
	e.Type = s.Result
	return true
}

// passes reports whether a value of type t may stand for a declared scalar. What
// is wider than it is cut to its size, with a warning unless it is a constant.
func (b *body) passes(x ast.Expr, t, declared *types.Type) bool {
	if invalid(t) || invalid(declared) || t.FitsInto(declared) || b.constFits(x, declared) {
		return true
	}
	if t.Kind == types.Pointer && declared.Kind == types.Pointer {
		return true
	}
	if !t.IsInteger() || !declared.IsInteger() || b.out.Expr(x).Const != nil {
		return false
	}
	b.lossy(x, t, declared)
	return true
}

// returns types a return statement of a function.
func (b *body) returns(r *ast.ReturnStmt) {
	want := b.sub.Result
	switch {
	case r.X == nil && want.Kind != types.None && !invalid(want):
		b.fail(diag.BadFunction, r, "function %s must return a value of type '%s'", b.sub.Name, want)
	case r.X == nil:
	case want.Kind == types.None:
		b.value(r.X)
		b.fail(diag.BadFunction, r.X, "function %s is void and cannot return a value", b.sub.Name)
	default:
		if t := b.value(r.X); !b.passes(r.X, t, want) {
			b.fail(diag.TypeMismatch, r.X, "Function %s is of type %s, cannot return %s", b.sub.Name, want, t)
		}
	}
}

// finishSubprogs reports functions that do not return, and calls that go too deep.
func (c *checker) finishSubprogs() {
	for _, s := range c.info.Subprogs {
		if s.Result.Kind != types.None && !invalid(s.Result) && !s.body.ends {
			c.fail(diag.BadFunction, s.Def.Name, "Not all code paths returned a value").
				Hint("end the function with return")
		}
	}
	if !c.cycles() {
		c.depths()
	}
}

// cycles reports functions that call themselves.
func (c *checker) cycles() (found bool) {
	done, place := map[*Subprog]bool{}, map[*Subprog]int{}
	for i, s := range c.info.Subprogs {
		place[s] = i
	}
	var visit func(s *Subprog, chain []string, open map[*Subprog]bool)
	visit = func(s *Subprog, chain []string, open map[*Subprog]bool) {
		open[s], chain = true, append(chain, s.Name)
		inOrder := func(a, b *Subprog) int { return place[a] - place[b] }
		for _, callee := range slices.SortedFunc(maps.Keys(s.calls), inOrder) {
			at := s.calls[callee]
			switch {
			case at == nil || done[callee]:
			case open[callee]:
				found = true
				c.fail(diag.BadFunction, at, "Recursive function call detected. Call chain: %s", strings.Join(append(chain, callee.Name), " > "))
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

// depths reports chains of calls that are deeper than the kernel permits.
func (c *checker) depths() {
	frames := map[*Subprog]int{}
	var need func(s *Subprog) int
	need = func(s *Subprog) int {
		if frames[s] == 0 {
			frames[s] = 1
			for callee := range s.calls {
				frames[s] = max(frames[s], 1+need(callee))
			}
		}
		return frames[s]
	}
	for _, s := range c.info.Subprogs {
		if need(s) == maxCallFrames {
			c.fail(diag.BadFunction, s.Def.Name, "calls from %s go deeper than the %d frames that the kernel permits", s.Name, maxCallFrames)
		}
	}
}
