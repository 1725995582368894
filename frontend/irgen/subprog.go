// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"fmt"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/ir"
)

// subName returns the C identifier of a function of the script.
func subName(s *check.Subprog) string {
	if s.Variant == 0 {
		return "fn_" + s.Name
	}
	return fmt.Sprintf("fn%d_%s", s.Variant, s.Name)
}

// subprograms generates the functions that programs call, directly or indirectly.
func (b *builder) subprograms() {
	built := map[string]bool{}
	for again := true; again; {
		again = false
		for _, s := range b.info.Subprogs {
			if name := subName(s); !s.Inline && !built[name] && b.called(name) {
				built[name], again = true, true
				b.subprogram(s)
			}
		}
	}
}

// called reports whether the code generated so far calls a function.
func (b *builder) called(name string) bool {
	for _, f := range b.m.Funcs {
		for _, blk := range f.Blocks {
			for _, v := range blk.Values {
				if v.Op == ir.OpCallSub && v.Sym == name {
					return true
				}
			}
		}
	}
	return false
}

func (b *builder) subprogram(s *check.Subprog) {
	at := b.pos(s.Def.Name.At, b.stmt(s.Def.Name.At))
	f := &ir.Func{Name: subName(s), Pos: at}
	b.m.Funcs = append(b.m.Funcs, f)
	fb := &fn{builder: b, cursor: newCursor(f), body: s.Body, vars: map[*check.Var]*ir.Value{}, result: s.Result}
	fb.prog = &check.Program{Point: s.Point, Body: s.Body}
	fb.Pos = at
	params := make([]*ir.Value, len(s.Params))
	for i, p := range s.Params {
		t := irType(p.Type)
		f.Params = append(f.Params, t)
		params[i] = f.Entry().AddParam(t)
	}
	fb.initVars(s.Params...)
	for i, p := range s.Params {
		fb.setVar(p, params[i])
	}
	fb.clause(&ast.Probe{Extent: s.Def.Extent, Body: s.Def.Body})
	dropTrivialParams(f)
}

// callSub calls a function of the script for its scalar value or its effect. Arguments are
// truncated to the declared types.
func (f *fn) callSub(e *check.Expr) *ir.Value {
	s := e.Call.Sub
	if s.Inline {
		var dst *ir.Value
		if r := s.Result; !r.IsScalar() && r.Kind != types.None {
			dst = f.Slot(slotName(r), r.Store().Size, max(1, r.Store().Align))
		}
		return f.inline(e, dst, false)
	}
	args := make([]*ir.Value, len(s.Params))
	for i, p := range s.Params {
		args[i] = f.argument(e.Call.Args[i], p)
	}
	v := f.CallSub(subName(s), args...)
	if s.Result.Kind == types.None {
		return nil
	}
	return f.as(irType(s.Result), v)
}

// argument returns the value of a scalar argument.
func (f *fn) argument(x ast.Expr, p *check.Var) *ir.Value {
	v := f.as(irType(p.Type), f.scalar(x))
	if t := f.body.Type(x); !types.Equal(t, p.Type) && p.Type.Kind != types.Pointer {
		v = f.narrow(f.as(ir.TI64, v), p.Type)
	}
	return v
}

// inlined is where an inlined function leaves its result.
type inlined struct {
	rest  *ir.Block // target of returns
	dst   *ir.Value // address of a result that is not a scalar
	exact bool      // see store
}

// inline generates the body of a function in place of a call, with its own parameters and variables. Its result is
// returned, or stored to dst when it is not a scalar.
func (f *fn) inline(e *check.Expr, dst *ir.Value, exact bool) *ir.Value {
	s := e.Call.Sub
	g := *f
	g.body, g.prog, g.result = s.Body, &check.Program{Point: s.Point, Body: s.Body}, s.Result
	g.vars, g.loop, g.inlined = map[*check.Var]*ir.Value{}, nil, &inlined{f.f.NewBlock(), dst, exact}
	g.initVars(s.Params...)
	scalars := make([]*ir.Value, len(s.Params)) // an argument may call the same function
	for i, p := range s.Params {
		if p.Type.IsScalar() {
			scalars[i] = f.argument(e.Call.Args[i], p)
		} else {
			f.store(e.Call.Args[i], g.vars[p], p.Type, false)
		}
	}
	for _, v := range s.Body.Vars { // an earlier inlined call has set them
		if v.Type.IsScalar() {
			g.setVar(v, unset(irType(v.Type)))
		}
	}
	for i, v := range scalars {
		if v != nil {
			g.setVar(s.Params[i], v)
		}
	}
	if dst != nil && hasLoop(s.Def.Body) { // the loop may be outlined to a function that may not store it
		f.clear(dst, s.Result)
	}
	g.block(s.Def.Body)
	g.jump(g.inlined.rest)
	g.start(g.inlined.rest, true)
	if s.Result.IsScalar() {
		return g.cursor.getVar(g.inlined, irType(s.Result))
	}
	return nil
}

// returns generates a return statement.
func (f *fn) returns(s *ast.ReturnStmt) {
	var v *ir.Value
	switch {
	case s.X == nil && f.inlined != nil: // void
	case s.X == nil:
		v = ir.Const(0)
	case f.inlined != nil && !f.result.IsScalar():
		f.store(s.X, f.inlined.dst, f.result, f.inlined.exact)
	case f.result != nil && f.result.Kind == types.Pointer:
		v = f.scalar(s.X)
	case f.result != nil:
		v = f.narrow(f.num(s.X), f.result)
	default:
		v = f.num(s.X)
	}
	if f.inlined == nil {
		f.Ret(f.as(ir.TI64, v))
		return
	}
	if f.result.IsScalar() {
		f.cursor.setVar(f.inlined, f.as(irType(f.result), v))
	}
	f.jump(f.inlined.rest)
}

// leave ends the function without a result, which is then zero or empty.
func (f *fn) leave() {
	if f.inlined == nil {
		f.Ret(ir.Const(0))
		return
	}
	if f.result.IsScalar() {
		f.cursor.setVar(f.inlined, unset(irType(f.result)))
	} else if f.inlined.dst != nil {
		f.zero(f.inlined.dst, f.result.Store().Size)
	}
	f.jump(f.inlined.rest)
}
