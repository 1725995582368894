package build

import (
	"btc/frontend/ast"
	"btc/ir"
)

// loopTargets are where break and continue go.
type loopTargets struct{ brk, cont *ir.Block }

// repeat builds the body of a loop.
func (f *fn) repeat(body *ast.Block, brk, cont *ir.Block) {
	f.loop = append(f.loop, loopTargets{brk, cont})
	f.block(body)
	f.loop = f.loop[:len(f.loop)-1]
}

func (f *fn) while(s *ast.WhileStmt) {
	head, body, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head)
	f.start(head, false)
	f.condition(s.Cond, body, rest)
	f.start(body, true)
	f.repeat(s.Body, rest, head)
	f.jump(head)
	f.seal(head)
	f.start(rest, true)
	f.endIfUnreachable(rest)
}

func (f *fn) unroll(s *ast.UnrollStmt) {
	rest := f.f.NewBlock()
	for range f.body.Unroll(s) {
		if f.ended() {
			break
		}
		next := f.f.NewBlock()
		f.repeat(s.Body, rest, next)
		f.jump(next)
		f.start(next, true)
		f.endIfUnreachable(next)
	}
	f.jump(rest)
	f.start(rest, true)
	f.endIfUnreachable(rest)
}

func (f *fn) forStmt(s *ast.ForStmt) {
	if r, ok := ast.Unparen(s.Over).(*ast.Range); ok {
		f.forRange(s, r)
		return
	}
	f.forMap(s)
}

// forRange is "for ($i : from..to)": half-open, bounds evaluated once.
func (f *fn) forRange(s *ast.ForStmt, r *ast.Range) {
	v := f.body.Loop(s)
	type counter struct{ *ast.ForStmt }
	hidden := counter{s} // the loop's own counter: the script may change $i
	f.setVar(hidden, f.num(r.From))
	to := f.num(r.To)
	head, body, next, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head)
	f.start(head, false)
	i := f.getVar(hidden, ir.TI64)
	cond := ir.SLT
	if !v.Type.Signed {
		cond = ir.ULT
	}
	f.branch(f.ICmp(cond, i, to), body, rest)
	f.start(body, true)
	f.setVar(v, i)
	f.repeat(s.Body, rest, next)
	f.jump(next)
	f.start(next, true)
	f.setVar(hidden, f.Add(f.getVar(hidden, ir.TI64), ir.Const(1)))
	f.jump(head)
	f.seal(head)
	f.start(rest, true)
}

// forMap is "for ($kv : @map)": a loop headed by mapnext, whose body begins by
// copying key and value to the tuple $kv.
func (f *fn) forMap(s *ast.ForStmt) {
	m, kv := f.body.Expr(s.Over).Map, f.body.Loop(s)
	name := ir.MapOperand(m.Name)
	walk := f.Emit(ir.OpMapIter, ir.TI64, name)
	head, body, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.jump(head)
	f.start(head, false)
	next := f.Emit(ir.OpMapNext, ir.TMapVal(m.Name, true), name, walk)
	f.branch(f.NotNull(next), body, rest)
	f.start(body, true)
	elem := f.NonNull(next)
	dst, st := f.vars[kv], kv.Type.Store()
	f.clearPadding(dst, kv.Type)
	key := f.Emit(ir.OpMapKey, ir.TMapKey(m.Name), elem)
	f.copy(f.AddImm(dst, int64(st.Offsets[0])), key, m.Key.Store().Size)
	value := f.AddImm(dst, int64(st.Offsets[1]))
	if t := kv.Type.Fields[1].Type; t.IsScalar() {
		f.Store(ir.U64, value, 0, f.Emit(ir.OpElemGet, irType(t), name, elem))
	} else {
		f.Emit(ir.OpElemGetMem, ir.TVoid, name, value, elem)
	}
	f.repeat(s.Body, rest, head)
	f.jump(head)
	f.seal(head)
	f.start(rest, true)
}
