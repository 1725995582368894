// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
)

// Trusted describes how a program obtains a pointer whose type the kernel's verifier knows, as some helpers require:
// from its context, and through members. The verifier accepts neither a copy nor a number.
type Trusted struct {
	// Type is the struct that it points to, "struct file".
	Type string
	// Slot is the 8-byte word of the context that contains it. The word may be null, or, with Result, an error
	// number.
	Slot   int
	Result bool
	// Iterated: the object of an iterator, null in the last call only.
	Iterated bool
	// From: the member Steps of the object From is the struct, or, with Load, a pointer to it.
	From  *Trusted
	Steps []Step
	Load  bool
	// Value: the pointer is the value of this expression, which at run time is one
	// of Any, or null.
	Value ast.Expr
	Any   []*Trusted
}

// maxTrusted bounds the depth of Trusted, and the number of sources of a variable.
const maxTrusted = 16

// wantsTrusted records that the kernel needs to know the type of the pointer x, an argument
// of c. The values of variables are known only at the end of the body.
func (b *body) wantsTrusted(c *callSite, x ast.Expr) {
	if b.final && b.quiet == 0 {
		b.trusting = append(b.trusting, func() {
			t, problem := b.trusted(x, 0)
			if t == nil {
				b.fail(diag.BadArguments, x, "%s() needs a pointer whose type the verifier knows: %s", c.Fn.Name, problem).
					Hint("it knows args, retval and the members of an iterator's ctx, and pointers reached through their members")
			}
			c.Trusted = t
		})
	}
}

// trusted returns how a program obtains the kernel's typed pointer x, or struct x; nil and the reason if it cannot.
func (b *body) trusted(x ast.Expr, depth int) (*Trusted, string) {
	x = ast.Unparen(x)
	e := b.out.Expr(x)
	switch {
	case depth > maxTrusted:
		return nil, "too many variables and members lead to it"
	case e == nil || invalid(e.Type):
		return nil, "the expression has an error"
	case e.Location != nil:
		return b.trustedLocation(x, e, depth)
	}
	switch x := x.(type) {
	case *ast.Var:
		return b.trustedVar(x, e, depth)
	case *ast.Cast:
		return b.trustedCast(x, e, depth)
	case *ast.Ternary:
		if x.Then != nil && e.Type.Kind == types.Pointer {
			return b.anyOf(x, e, []ast.Expr{x.Then, x.Else}, depth)
		}
	case *ast.Map, *ast.MapElem:
		return nil, "a value from a map is a plain number to the verifier"
	case *ast.Call, *ast.Ident:
		return nil, fmt.Sprintf("the value of %s is a plain number to the verifier", x.Span().Text())
	}
	return nil, "this expression is a plain number to the verifier"
}

// structName returns the kernel struct that a type is, or points to.
func structName(t *types.Type) (string, bool) {
	if t.Kind == types.Pointer {
		t = t.Elem
	}
	return t.String(), t.Kind == types.Struct && t.Comp.CORE != ""
}

func noStruct(t *types.Type) string {
	switch {
	case t.IsInteger():
		return "it is a number"
	case t.Kind == types.Pointer && t.Elem.Kind == types.None:
		return "void * is not a struct of the kernel"
	}
	return fmt.Sprintf("%s is not a struct of the kernel", t)
}

func (b *body) trustedLocation(x ast.Expr, e *Expr, depth int) (*Trusted, string) {
	p := e.Location
	name, ok := structName(e.Type)
	switch {
	case !ok:
		return nil, noStruct(e.Type)
	case p.Root == RootArg:
		if b.point.Type.Form != probe.Typed {
			return nil, "arguments are plain numbers in this probe"
		}
		return &Trusted{Type: name, Slot: b.out.Args[p.Arg].Slot, Result: p.Arg < 0}, ""
	case p.Root == RootPointer && b.point.Kind == probe.Iter && isContext(p.Base) && len(p.Steps) == 1 &&
		e.Type.Kind == types.Pointer:
		return &Trusted{Type: name, Slot: p.Steps[0].Off / 8, Iterated: true}, ""
	case p.Root == RootCtx:
		return nil, "fields of a tracepoint's record are plain numbers to the verifier"
	}
	for _, s := range p.Steps {
		if s.CORE == "" || s.Index != nil || s.Then != nil || len(s.Others) > 0 {
			return nil, "members of the script's own structs, and elements of arrays, are plain numbers to the verifier"
		}
	}
	from, problem := b.trusted(p.Base, depth+1)
	if from == nil {
		return nil, problem
	}
	return &Trusted{Type: name, From: from, Steps: p.Steps, Load: e.Type.Kind == types.Pointer}, ""
}

// trustedVar finds the values that are assigned to a variable.
func (b *body) trustedVar(x *ast.Var, e *Expr, depth int) (*Trusted, string) {
	var sources []ast.Expr
	for _, from := range b.sources[e.Var] {
		if c := b.out.Expr(from); !slices.Contains(sources, from) &&
			(c == nil || c.Const == nil || c.Const.IsStr || c.Const.Int != 0) {
			sources = append(sources, from)
		}
	}
	switch {
	case len(sources) == 0:
		return nil, fmt.Sprintf("no pointer whose type the verifier knows is assigned to $%s", x.Name)
	case e.Type.Kind == types.Pointer:
		return b.anyOf(x, e, sources, depth)
	case len(sources) > 1 || !b.atTop(sources[0]):
		return nil, fmt.Sprintf("$%s is a copy, assigned more than once or in a branch: use a pointer", x.Name)
	}
	return b.trusted(sources[0], depth+1)
}

// atTop reports whether a value is assigned by a statement that always runs.
func (b *body) atTop(from ast.Expr) bool {
	return slices.ContainsFunc(b.clause.probe.Body.Stmts, func(s ast.Stmt) bool {
		switch s := s.(type) {
		case *ast.AssignStmt:
			return s.Right == from
		case *ast.LetStmt:
			return s.Init == from
		}
		return false
	})
}

// anyOf returns the pointer x, which is one of several.
func (b *body) anyOf(x ast.Expr, e *Expr, sources []ast.Expr, depth int) (*Trusted, string) {
	name, ok := structName(e.Type)
	switch {
	case !ok:
		return nil, noStruct(e.Type)
	case len(sources) > maxTrusted:
		return nil, "it has too many sources"
	}
	t := &Trusted{Type: name, Value: x}
	for _, from := range sources {
		one, problem := b.trusted(from, depth+1)
		switch {
		case one == nil:
			return nil, problem
		case one.Type != name:
			return nil, fmt.Sprintf("it is a %s * to it", one.Type)
		}
		t.Any = append(t.Any, one)
	}
	return t, ""
}

// trustedCast returns a trusted pointer from a cast that does not change its type, or from a cast
// of an argument of a raw tracepoint, whose type the kernel knows.
func (b *body) trustedCast(x *ast.Cast, e *Expr, depth int) (*Trusted, string) {
	name, ok := structName(e.Type)
	if !ok || e.Type.Kind != types.Pointer {
		return nil, noStruct(e.Type)
	}
	if arg := b.out.Expr(x.X); b.point.Kind == probe.RawTracepoint && arg != nil && arg.Call != nil &&
		arg.Call.Fn.Name == "arg" {
		return &Trusted{Type: name, Slot: int(arg.Call.N)}, ""
	}
	if b.out.Type(x.X).IsInteger() {
		return nil, noStruct(b.out.Type(x.X))
	}
	t, problem := b.trusted(x.X, depth+1)
	if t != nil && t.Type != name {
		return nil, fmt.Sprintf("it is a %s * to it", t.Type)
	}
	return t, problem
}

// isContext reports whether x is the builtin ctx, cast or not.
func isContext(x ast.Expr) bool {
	x = ast.Unparen(x)
	for cast, ok := x.(*ast.Cast); ok; cast, ok = x.(*ast.Cast) {
		x = ast.Unparen(cast.X)
	}
	id, ok := x.(*ast.Ident)
	return ok && strings.TrimPrefix(id.Name, "__builtin_") == "ctx"
}
