// SPDX-License-Identifier: Apache-2.0

package check

import (
	"btc/frontend/ast"
	"btc/frontend/diag"
)

// slot is one variable of a clause, before it has a type.
type slot struct {
	name     string
	at       diag.Span
	let      bool // declared by let or by a loop
	assigned bool
	pointed  bool  // the address is taken: a callee may assign the variable
	into     *slot // the variable it was merged into, for scripts in older dialects
}

func (s *slot) root() *slot {
	for s.into != nil {
		s = s.into
	}
	return s
}

// scope resolves the names of a clause. Scoping is purely syntactic, so it is the same for
// all attach points.
//
// Variables live in the block of their first assignment. Older dialects had one scope for a probe: a use outside the
// block of the assignment is accepted with a warning, and all variables of that name become one.
type scope struct {
	c      *checker
	blocks []map[string]*slot
	closed map[string][]*slot // variables of blocks that have ended
	uses   map[*ast.Var]*slot
	slots  []*slot
	quiet  int // depth of expressions that are not evaluated (sizeof)

	// args: the clause reads values whose types depend on the probe (args, retval). probe: it reads the builtin
	// probe.
	args, probe bool
}

func resolveScopes(c *checker, p *ast.Probe) *scope {
	s := &scope{c: c, closed: map[string][]*slot{}, uses: map[*ast.Var]*slot{}}
	s.push()
	if p.Pred != nil {
		s.expr(p.Pred)
	}
	s.block(p.Body)
	s.pop()
	for _, v := range s.slots {
		if v.let && !v.assigned && !v.pointed {
			c.l.Add(diag.NeverAssigned, v.at, "Variable $%s was never assigned to.", v.name)
		}
	}
	return s
}

// slot returns the variable that x refers to, nil for an undeclared one.
func (s *scope) slot(x *ast.Var) *slot {
	if u := s.uses[x]; u != nil {
		return u.root()
	}
	return nil
}

func (s *scope) push() { s.blocks = append(s.blocks, map[string]*slot{}) }

func (s *scope) pop() {
	top := s.blocks[len(s.blocks)-1]
	s.blocks = s.blocks[:len(s.blocks)-1]
	for _, v := range s.slots { // in order of declaration, not in map order
		if top[v.name] == v {
			s.closed[v.name] = append(s.closed[v.name], v)
		}
	}
}

func (s *scope) find(name string) *slot {
	for i := len(s.blocks) - 1; i >= 0; i-- {
		if v := s.blocks[i][name]; v != nil {
			return v
		}
	}
	return nil
}

func (s *scope) declare(x *ast.Var, let bool) *slot {
	if old := s.find(x.Name); let && old != nil {
		s.c.fail(diag.BadDeclaration, x, "Variable $%s was already declared. Variable shadowing is not allowed.", x.Name).
			Note(old.at, "This is the initial declaration.")
	}
	v := &slot{name: x.Name, at: x.At, let: let}
	s.slots = append(s.slots, v)
	s.blocks[len(s.blocks)-1][x.Name] = v
	s.uses[x] = v
	return v
}

// use resolves a variable that is read.
func (s *scope) use(x *ast.Var) {
	v := s.find(x.Name)
	if v == nil {
		v = s.revive(x)
	} else if v.let && !v.assigned && !v.pointed && s.quiet == 0 {
		s.c.l.Add(diag.UsedBeforeAssign, x.At, "Variable used before it was assigned: $%s", x.Name)
	}
	s.uses[x] = v
}

// revive merges the variables of this name in ended blocks into one variable of the whole probe, as the old dialect
// had it.
func (s *scope) revive(x *ast.Var) *slot {
	var all []*slot
	for _, v := range s.closed[x.Name] {
		if !v.let {
			all = append(all, v.root())
		}
	}
	if len(all) == 0 {
		return nil
	}
	first := all[0]
	for _, v := range all[1:] {
		if v.root() != first {
			v.root().into = first
		}
	}
	s.blocks[0][x.Name] = first
	s.c.l.Add(diag.OldScope, x.At, "$%s is used outside the block that assigns it", x.Name).
		Note(first.at, "it is assigned here").
		Hint("write let $%s; before that block", x.Name)
	return first
}

func (s *scope) assign(left ast.Expr) {
	if x, ok := left.(*ast.Var); ok {
		v := s.find(x.Name)
		if v == nil {
			v = s.declare(x, false)
		}
		v.assigned = true
		s.uses[x] = v
		return
	}
	s.expr(left)
}

func (s *scope) block(b *ast.Block) {
	if b == nil {
		return
	}
	s.push()
	for _, st := range b.Stmts {
		s.stmt(st)
	}
	if b.Value != nil {
		s.expr(b.Value)
	}
	s.pop()
}

func (s *scope) stmt(st ast.Stmt) {
	switch st := st.(type) {
	case *ast.ExprStmt:
		s.expr(st.X)
	case *ast.AssignStmt:
		s.expr(st.Right)
		if st.Op != ast.Assign {
			s.expr(st.Left)
			if x, ok := st.Left.(*ast.Var); !ok || s.uses[x] == nil {
				return
			}
		}
		s.assign(st.Left)
	case *ast.LetStmt:
		s.expr(st.Init)
		s.typ(st.Type)
		s.declare(st.Var, true).assigned = st.Init != nil
	case *ast.WhileStmt:
		s.expr(st.Cond)
		s.block(st.Body)
	case *ast.UnrollStmt:
		s.expr(st.Count)
		s.block(st.Body)
	case *ast.ForStmt:
		s.expr(st.Over)
		s.push()
		s.declare(st.Var, true).assigned = true
		s.block(st.Body)
		s.pop()
	case *ast.ReturnStmt:
		s.expr(st.X)
	}
}

func (s *scope) exprs(all ...ast.Expr) {
	for _, x := range all {
		s.expr(x)
	}
}

// expr walks an expression, which may be nil.
func (s *scope) expr(x ast.Expr) {
	switch x := x.(type) {
	case nil:
	case *ast.Var:
		s.use(x)
	case *ast.Ident:
		s.name(x.Name)
	case *ast.MapElem:
		s.exprs(x.Keys...)
	case *ast.Index:
		s.exprs(x.X, x.I)
	case *ast.Field:
		s.expr(x.X)
	case *ast.TupleIndex:
		s.expr(x.X)
	case *ast.Call:
		s.name(x.Func.Text)
		s.exprs(x.Args...)
	case *ast.Unary:
		if v, ok := ast.Unparen(x.X).(*ast.Var); ok && x.Op == ast.AddrOf {
			if slot := s.find(v.Name); slot != nil {
				slot.pointed = true
			}
		}
		s.expr(x.X)
	case *ast.IncDec:
		s.expr(x.X)
	case *ast.Binary:
		s.exprs(x.X, x.Y)
	case *ast.Ternary:
		s.exprs(x.Cond, x.Then, x.Else)
	case *ast.Cast:
		s.typ(x.Type)
		s.expr(x.X)
	case *ast.Paren:
		s.expr(x.X)
	case *ast.Tuple:
		s.exprs(x.Elems...)
	case *ast.Record:
		for _, f := range x.Fields {
			s.expr(f.Value)
		}
	case *ast.IfExpr:
		s.expr(x.Cond)
		s.block(x.Then)
		s.expr(x.Else)
	case *ast.Block:
		s.block(x)
	case *ast.Comptime:
		s.expr(x.X)
	case *ast.Sizeof:
		s.unevaluated(x.Arg)
	case *ast.Offsetof:
		s.unevaluated(x.Arg)
	case *ast.Typeinfo:
		s.unevaluated(x.Arg)
	case *ast.TypeExpr:
		s.typ(x.Type)
	case *ast.Range:
		s.exprs(x.From, x.To)
	}
}

// unevaluated walks an expression that is typed but not evaluated.
func (s *scope) unevaluated(x ast.Expr) {
	s.quiet++
	s.expr(x)
	s.quiet--
}

func (s *scope) name(n string) {
	switch n {
	case "args", "retval":
		s.args = true
	case "probe", "probetype":
		s.probe = true
	}
}

// typ walks the expressions in a type.
func (s *scope) typ(t ast.Type) {
	switch t := t.(type) {
	case *ast.PointerType:
		s.typ(t.Elem)
	case *ast.ArrayType:
		s.typ(t.Elem)
	case *ast.TypeofType:
		s.unevaluated(t.Arg)
	}
}
