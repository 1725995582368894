package build

import (
	"fmt"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/ir"
)

// subName is the C identifier of a function of the script.
func subName(s *check.Subprog) string { return "fn_" + s.Name }

// subprograms builds the functions that programs call, directly or not.
func (b *builder) subprograms() {
	built := map[string]bool{}
	for again := true; again; {
		again = false
		for _, s := range b.info.Subprogs {
			if name := subName(s); !built[name] && b.called(name) {
				built[name], again = true, true
				b.subprogram(s)
			}
		}
	}
}

// called reports whether code that was built so far calls a function.
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
	fb.initVars()
	for i, p := range s.Params {
		fb.setVar(p, params[i])
	}
	fb.clause(&ast.Probe{Extent: s.Def.Extent, Body: s.Def.Body})
	dropTrivialParams(f)
}

// callSub calls a function of the script. Arguments are cut to what is declared.
func (f *fn) callSub(e *check.Expr) *ir.Value {
	s := e.Call.Sub
	args := make([]*ir.Value, len(s.Params))
	for i, p := range s.Params {
		args[i] = f.as(irType(p.Type), f.scalar(e.Call.Args[i]))
		if t := f.body.Type(e.Call.Args[i]); !types.Equal(t, p.Type) && p.Type.Kind != types.Pointer {
			args[i] = f.narrow(f.as(ir.TI64, args[i]), p.Type)
		}
	}
	v := f.CallSub(subName(s), args...)
	if s.Result.Kind == types.None {
		return nil
	}
	if !s.Result.IsScalar() {
		panic(fmt.Sprintf("BUG: function %s gives %s", s.Name, s.Result))
	}
	return f.as(irType(s.Result), v)
}
