// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
	"btc/targets/kernel"
)

// maxStmts is the maximum number of statements of a body: the kernel accepts a million instructions, and a statement
// has a few dozen. Compiling that many takes up to three seconds and half a gigabyte.
const maxStmts = 1 << 14

// body types the predicate and body of a clause for one of its attach points.
type body struct {
	*checker
	clause *clause
	point  *Point
	// sharing are all attach points that share this typing, including point.
	sharing   []*Point
	sub       *Subprog           // the function with this body; nil for a probe
	ends      bool               // the end of the body is not reached
	event     *kernel.TraceEvent // for tracepoints that the target knows
	out       *Body
	vars      map[*slot]*Var
	seen      map[*slot]bool // assigned so far in this round
	loops     int            // depth of loops around the current statement
	fors      int            // for loops among them
	whiles    int            // while loops among them
	walks     int            // loops over maps among them
	trips     float64        // product of the known trip counts of for loops among them; 0: none
	noValue   ast.Expr       // a literal that is not part of the program, see compileTimeStrings
	folding   int            // depth of expressions whose strings are folded into a longer one
	quiet     int            // depth of expressions that are typed but not evaluated (sizeof)
	depth     int            // nesting depth of expressions
	repeat    int            // number of times that unroll repeats the current statement
	stmts     int            // statements so far in this round, repetitions included
	calls     map[*Subprog]calls
	composite struct { // the innermost tuple, record or key, for messages
		x       ast.Expr
		context string
	}
	// sources are the expressions assigned to each variable in this round.
	sources map[*Var][]ast.Expr
	// trusting are the deferred checks of pointers whose type the kernel must know.
	trusting   []func()
	loopReturn *ast.ReturnStmt // the first return in a loop
	enclosing  *ast.Field      // the innermost member access around the current expression
	// unknown is the last unknown name, and its diagnostic.
	unknown struct {
		at   *ast.Ident
		diag *diag.Diagnostic
	}
}

func newBody(c *checker, cl *clause, p *Point) *body {
	b := &body{checker: c, clause: cl, point: p, out: &Body{}, vars: map[*slot]*Var{}}
	switch {
	case p.syscallExits():
		if all := c.t.Tracepoints(p.Target, p.Name); len(all) > 0 {
			_, event, _ := strings.Cut(all[0], ":")
			b.event, _ = c.t.Tracepoint(p.Target, event)
		}
	case p.Kind == probe.Tracepoint && !p.Pattern:
		event, ok := c.t.Tracepoint(p.Target, p.Name)
		if !ok {
			event, _ = c.t.OnOtherKernels(p.Target, p.Name)
		}
		b.event = event
	}
	for _, s := range cl.scope.slots {
		if s.into == nil {
			v := &Var{Name: s.name, At: s.at, Index: len(b.out.Vars)}
			b.vars[s] = v
			b.out.Vars = append(b.out.Vars, v)
		}
	}
	return b
}

// run types everything once.
func (b *body) run() {
	o := b.out
	if o.decls == nil {
		o.exprs, o.decls, o.loops = map[ast.Expr]*Expr{}, map[*ast.LetStmt]*Var{}, map[*ast.ForStmt]*Var{}
		o.count, o.dead = map[*ast.UnrollStmt]int{}, map[ast.Stmt]bool{}
		b.seen, b.calls = map[*slot]bool{}, map[*Subprog]calls{}
	} else { // from the previous round
		clear(o.exprs)
		clear(o.decls)
		clear(o.loops)
		clear(o.count)
		clear(o.dead)
		clear(b.seen)
		clear(b.calls)
	}
	b.repeat, b.stmts = 1, 0
	b.sources, b.trusting = map[*Var][]ast.Expr{}, nil
	if b.sub != nil {
		b.sub.signature()
	}
	if b.clause.probe.Pred != nil {
		b.condition(b.clause.probe.Pred)
	}
	b.ends = b.block(b.clause.probe.Body)
	for _, resolve := range b.trusting {
		resolve()
	}
}

// finishVars fixes the types of variables.
func (b *body) finishVars() {
	for _, s := range b.clause.scope.slots {
		v := b.vars[s]
		if v == nil {
			continue
		}
		if v.Type == nil {
			if s.assigned && b.seen[s] && !b.l.HasErrors() {
				b.l.Add(diag.BadDeclaration, s.at,
					"cannot infer the type of $%s: every value assigned to it depends on itself", s.name)
			}
			v.Type = types.TInt64
			for let, declared := range b.out.decls {
				if e := b.out.Expr(let.Var); declared == v && e != nil {
					e.Type = v.Type
				}
			}
		}
		v.Type = v.Type.Fixed()
	}
}

// block types the statements of a block and finds those that are never reached. It reports whether
// the end of the block is unreachable.
func (b *body) block(blk *ast.Block) (ends bool) {
	if blk == nil {
		return false
	}
	for _, s := range blk.Stmts {
		if ends {
			if !b.out.dead[s] {
				b.out.dead[s] = true
				b.unreachable(s, blk.Stmts)
			}
		}
		if b.stmt(s) {
			ends = true
		}
	}
	return ends
}

// unreachable warns of the first statement that is never reached.
func (b *body) unreachable(s ast.Stmt, all []ast.Stmt) {
	for _, earlier := range all {
		if earlier == s {
			b.fail(diag.Unreachable, s, "Unreachable statement.")
			return
		}
		if b.out.dead[earlier] {
			return
		}
	}
}

// written counts a statement as often as unroll repeats it. It reports whether the body is still within maxStmts.
func (b *body) written(s ast.Stmt) bool {
	n := max(b.repeat, 1)
	if b.stmts+n > maxStmts {
		if b.stmts <= maxStmts {
			b.tooLarge(s)
		}
		b.stmts = maxStmts + 1 // reported once
		return false
	}
	b.stmts += n
	return true
}

func (b *body) tooLarge(at ast.Node) {
	b.fail(diag.TooLarge, at,
		"the body has more than %d statements, counting repetitions by unroll and calls of functions", maxStmts)
}

// stmt types a statement; it reports whether control never reaches its end.
func (b *body) stmt(s ast.Stmt) (ends bool) {
	if !b.written(s) {
		return false
	}
	switch s := s.(type) {
	case *ast.ExprStmt:
		return b.exprStmt(s)
	case *ast.AssignStmt:
		b.assign(s)
	case *ast.LetStmt:
		b.let(s)
	case *ast.UnrollStmt:
		b.unroll(s)
	case *ast.WhileStmt:
		b.while(s)
	case *ast.ForStmt:
		b.forStmt(s)
	case *ast.BranchStmt:
		word := "break"
		if s.Continue {
			word = "continue"
		}
		if b.loops == 0 {
			b.fail(diag.BadJump, s, "'%s' statement is only allowed inside of loops", word)
		}
		return true
	case *ast.ReturnStmt:
		if b.fors+b.whiles > 0 {
			if b.loopReturn == nil {
				b.loopReturn = s
			}
			if (b.loopReturn.X == nil) != (s.X == nil) {
				b.fail(diag.BadJump, s, "Return value used in loop is inconsistent").Note(b.loopReturn.At, "another return from a loop is here")
			}
		}
		if b.sub != nil {
			b.returns(s)
		} else if s.X != nil {
			if t := b.value(s.X); !t.IsInteger() && !invalid(t) {
				b.fail(diag.BadJump, s.X, "Probe return values can only be integers. Found %s", t)
			}
		}
		return true
	}
	return false
}

// exprStmt types an expression whose value is discarded.
func (b *body) exprStmt(s *ast.ExprStmt) (ends bool) {
	x := ast.Unparen(s.X)
	switch x := x.(type) {
	case *ast.IfExpr:
		return b.ifStmt(x)
	case *ast.Block:
		ends = b.block(x)
		if x.Value != nil {
			b.expr(x.Value)
		}
		b.set(x, &Expr{Type: types.TNone})
		return ends
	}
	e := b.expr(x)
	if e.Call != nil {
		if e.Type.Kind != types.None && !invalid(e.Type) && !e.Call.Fn.Effect {
			b.fail(diag.ValueDiscarded, x, "Return value discarded.")
		}
		exits := e.Call.Fn.Exits && x.Span().Chain() == nil // in a macro, exit only sends its event
		if exits && b.fors > 0 {
			b.fail(diag.BadJump, x, "'return' statement is not allowed in a for-loop").
				Hint("exit() ends the probe like return: set a variable, break, and call exit() after the loop")
		}
		return exits
	}
	if _, changes := x.(*ast.IncDec); !changes && e.Type.Kind != types.None && !invalid(e.Type) {
		b.fail(diag.ValueDiscarded, x, "Return value discarded.")
	}
	return false
}

func (b *body) ifStmt(x *ast.IfExpr) (ends bool) {
	b.set(x, &Expr{Type: types.TNone})
	b.condition(x.Cond)
	if then, known := b.out.Taken(x); known {
		if then {
			return b.branch(x.Then)
		}
		return b.elseBranch(x)
	}
	if b.undecided(x) {
		return false
	}
	ends = b.branch(x.Then)
	return b.elseBranch(x) && ends
}

// undecided reports whether "if comptime" is not decided in this round; then neither branch may report type errors.
func (b *body) undecided(x *ast.IfExpr) bool {
	cond, ok := ast.Unparen(x.Cond).(*ast.Comptime)
	return ok && !b.final && invalid(b.out.Expr(cond).Type)
}

// elseBranch types the else branch; it reports whether its end is unreachable.
func (b *body) elseBranch(x *ast.IfExpr) bool {
	switch e := x.Else.(type) {
	case *ast.Block:
		return b.branch(e)
	case *ast.IfExpr:
		return b.ifStmt(e)
	}
	return false
}

// branch types a branch of an if statement.
func (b *body) branch(blk *ast.Block) bool {
	ends := b.block(blk)
	if blk != nil && blk.Value != nil {
		b.expr(blk.Value)
	}
	return ends
}

func (b *body) assign(s *ast.AssignStmt) {
	if b.isAgg(s.Right) {
		b.assignAggs(s, s.Right)
		return
	}
	if op, compound := s.Op.Binary(); compound {
		b.assignOp(s, op)
		return
	}
	switch left := s.Left.(type) {
	case *ast.Var:
		b.assignVar(left, s.Right, b.value(s.Right))
	case *ast.Map:
		b.assignMap(left, left, nil, s)
	case *ast.MapElem:
		b.assignMap(left, left.Map, left.Keys, s)
	case *ast.Discard:
		b.set(left, &Expr{Type: types.TNone})
		b.expr(s.Right)
	default:
		b.fail(diag.NotAssignable, s.Left, "invalid assignment target")
	}
}

// assignVar records that a value of type t is assigned to a variable.
func (b *body) assignVar(x *ast.Var, from ast.Expr, t *types.Type) { b.assignTo(x, from, t, false) }

// assignTo is assignVar; combined is set for "$x op= from", where the value is not from itself.
func (b *body) assignTo(x *ast.Var, from ast.Expr, t *types.Type, combined bool) {
	slot := b.clause.scope.slot(x)
	if slot == nil {
		b.set(x, &Expr{Type: types.TInvalid})
		return
	}
	v := b.vars[slot]
	b.seen[slot] = true
	b.sources[v] = append(b.sources[v], from)
	defer func() {
		b.set(x, &Expr{Type: orInvalid(v.Type), Var: v})
	}()
	if agg, ok := b.statsMap(from); ok && !invalid(t) {
		t = agg
	}
	switch {
	case invalid(t):
		return
	case t.Kind == types.None, t.Kind == types.Func, t.Kind == types.Float, t.IsAgg():
		b.fail(diag.TypeMismatch, from, "Value '%s' cannot be assigned to a scratch variable.", t)
		return
	}
	if b.fixed(v) {
		if v.Type == nil { // not known yet
			return
		}
		b.grow(&v.Type, v.Type.JoinSpaces(t))
		if v.Type.Kind == types.Int && t.IsInteger() && !t.FitsInto(v.Type) && (b.out.Expr(from).Const == nil || combined) {
			b.lossy(from, t, v.Type)
			return
		}
		if !t.FitsInto(v.Type) && !b.constFits(from, v.Type) {
			b.varMismatch(x, from, t, v.Type)
		}
		return
	}
	if v.text && t.Kind != types.String {
		b.varMismatch(x, from, t, types.MakeString(0))
		return
	}
	p, ok := types.Promote(v.Type, t)
	if !ok && isAddress(from) && v.Type.Kind == types.Pointer &&
		v.Type.Elem.FitsInto(t.Elem) { // the variable has grown
		v.Type, b.changed = t, true
		return
	}
	if !ok {
		b.varMismatch(x, from, t, v.Type)
		return
	}
	if p.Lossy {
		if e := b.out.Expr(from); !combined && e.isNumber() && !p.Type.FitsInto(t) && !t.Signed && e.Const.Int < 0 {
			b.varMismatch(x, from, t, v.Type) // a literal that fits no signed type
			return
		}
		b.lossy(from, t, p.Type)
	}
	b.grow(&v.Type, p.Type)
}

func orInvalid(t *types.Type) *types.Type {
	if t == nil {
		return types.TInvalid
	}
	return t
}

// constFits reports whether x is a constant that fits the integer type.
func (b *body) constFits(x ast.Expr, t *types.Type) bool {
	e := b.out.Expr(x)
	if e == nil || e.Const == nil || e.Const.IsStr || t.Kind != types.Int || e.Type.Kind != types.Int {
		return false
	}
	if !e.Type.Signed && e.Type.Size == 8 && e.Const.Int < 0 {
		return !t.Signed && t.Size == 8
	}
	return e.Type.FitsInto(t) || truncate(e.Const.Int, t) == e.Const.Int && (t.Signed || e.Const.Int >= 0)
}

func (b *body) varMismatch(x *ast.Var, from ast.Expr, t, have *types.Type) {
	b.fail(diag.TypeMismatch, from, "Type mismatch for $%s: trying to assign value of type '%s' when variable already has a type '%s'", x.Name, t, have).
		Note(b.vars[b.clause.scope.slot(x)].At, "the variable gets its type here")
}

// fixed reports whether a variable's type is that of its let.
func (b *body) fixed(v *Var) bool { return v.fixed }

// assignMap checks a plain "@m[keys] = e".
func (b *body) assignMap(left ast.Expr, x *ast.Map, keys []ast.Expr, s *ast.AssignStmt) {
	if b.quiet > 0 {
		b.fail(diag.BadMapUse, left, "Map assignments not allowed inside of sizeof, offsetof or typeof")
	}
	m := b.mapNamed(x)
	keyed := b.key(m, left, keys)
	t := b.value(s.Right)
	if src := b.out.Expr(s.Right); src != nil && src.Reads && m.Value == nil && m.agg == nil && !invalid(t) {
		b.fail(diag.BadMapUse, s.Right, "Map value '%s' cannot be assigned from one map to another.", b.maps[src.Map.Name].agg).
			Hint("add a cast to integer if you want the value of the aggregate: (int64)")
		t, m.written = types.TInvalid, true
	}
	if agg, ok := b.statsMap(s.Right); ok && !invalid(t) {
		b.fail(diag.BadMapUse, s.Right, "Map value '%s' cannot be assigned from one map to another.", agg).
			Hint("call stats() for each of the maps")
		t, m.written = types.TInvalid, true
	}
	switch t.Kind {
	case types.None, types.Func, types.Float:
		b.fail(diag.BadMapUse, s.Right, "Value '%s' cannot be assigned to a map.", t)
		t = types.TInvalid
	}
	b.plain(m, s.Right, t)
	m.nameValue(s.Right)
	e := &Expr{Type: orInvalid(m.Value), Map: &m.Map}
	if !keyed {
		e.Type = types.TInvalid
	}
	b.set(left, e)
}

// assignOp checks "left op= right": the left side is read, combined and written.
func (b *body) assignOp(s *ast.AssignStmt, op ast.BinaryOp) {
	right := b.value(s.Right)
	switch left := s.Left.(type) {
	case *ast.Var:
		t := b.value(left)
		b.assignTo(left, s.Right, b.arithmetic(s, op, s.Left, s.Right, t, right), true)
		if v := b.out.Expr(left); v != nil && v.Type.Kind == types.Pointer {
			v.Scale = pointerScale(v.Type)
		}
	case *ast.Map, *ast.MapElem:
		b.assignOpMap(s, op, left, right)
	default:
		b.fail(diag.NotAssignable, s.Left, "invalid assignment target")
	}
}

func (b *body) assignOpMap(s *ast.AssignStmt, op ast.BinaryOp, left ast.Expr, right *types.Type) {
	m, ok := b.mapTarget(left)
	e := &Expr{Type: types.TInvalid, Map: &m.Map}
	b.set(left, e)
	if !ok {
		m.written = true
		return
	}
	have := m.Value
	if m.agg != nil {
		b.plain(m, s, types.TInt64) // to report the mismatch
		return
	}
	if have == nil {
		have = types.Literal(0)
	}
	t := b.arithmetic(s, op, left, s.Right, have, right)
	b.plain(m, s, t)
	e.Type = orInvalid(m.Value)
	if e.Type.Kind == types.Pointer {
		e.Scale = pointerScale(e.Type)
	}
}

// mapTarget resolves a map or element that is changed in place.
func (b *body) mapTarget(x ast.Expr) (*mapState, bool) {
	switch x := x.(type) {
	case *ast.Map:
		m := b.mapNamed(x)
		return m, b.scalarUse(m, x)
	case *ast.MapElem:
		m := b.mapNamed(x.Map)
		return m, b.key(m, x, x.Keys)
	}
	panic("BUG: not a map")
}

func (b *body) let(s *ast.LetStmt) {
	slot := b.clause.scope.slot(s.Var)
	v := b.vars[slot]
	b.out.decls[s] = v
	if s.Type != nil { // in each round, because a typeof may grow
		t := wideEnum(b.resolveType(s.Type))
		switch {
		case t.IsAgg(), t.Kind == types.None:
			b.fail(diag.BadDeclaration, s.Type, "Invalid variable declaration type: %s", t)
		case isOpen(t): // grows with the assigned values
			v.text = t.Kind == types.String
			if !slot.assigned {
				b.grow(&v.Type, least(t))
			}
		default:
			v.fixed = true
			if v.Type != nil {
				t = t.JoinSpaces(v.Type)
			}
			if !invalid(t) {
				b.grow(&v.Type, t)
			}
		}
	}
	b.set(s.Var, &Expr{Type: orInvalid(v.Type), Var: v})
	if s.Init == nil {
		return
	}
	if call := b.aggCall(s.Init); call != nil {
		b.aggMisuse(call)
		return
	}
	b.assignVar(s.Var, s.Init, b.value(s.Init))
}
