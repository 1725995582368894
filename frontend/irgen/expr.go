// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"fmt"
	"slices"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/ir"
)

// irType returns the IR type of a scalar of a language type.
func irType(t *types.Type) ir.Type {
	if t.Kind != types.Pointer {
		return ir.TI64
	}
	return addrType(t.Space)
}

// addrType returns the IR type of an address in a space.
func addrType(s types.Space) ir.Type {
	switch s {
	case types.Kernel:
		return ir.TKAddr
	case types.User:
		return ir.TUAddr
	}
	return ir.TAddr
}

// address returns the value of a pointer, or of a number that is read as one.
func (f *fn) address(x ast.Expr) *ir.Value {
	return f.as(addrType(f.body.Type(x).Space), f.scalar(x))
}

// as returns v as a value of another scalar type, bit for bit.
func (f *fn) as(t ir.Type, v *ir.Value) *ir.Value {
	if v.Type == t {
		return v
	}
	if v.IsConst() && v.Type.Kind != ir.I1 {
		c := ir.Const(v.Imm)
		c.Type = t
		return c
	}
	return f.Cast(t, v)
}

// num returns the value of a scalar expression as an integer.
func (f *fn) num(x ast.Expr) *ir.Value { return f.as(ir.TI64, f.scalar(x)) }

func (f *fn) scaled(v *ir.Value, scale int) *ir.Value {
	if scale <= 1 {
		return v
	}
	if v.IsConst() {
		return ir.Const(v.Imm * int64(scale))
	}
	return f.Mul(v, ir.Const(int64(scale)))
}

// extent returns the host's size of a type or offset of a field.
func (f *fn) extent(x *check.Extent) *ir.Value {
	kind := ir.TypeSize
	if x.Path != "" {
		kind = ir.FieldByteOffset
	}
	return f.CORE(kind, ir.CORERef{Type: x.Type, Path: x.Path})
}

// scalar returns the value of an expression whose type IsScalar, as irType says.
func (f *fn) scalar(x ast.Expr) *ir.Value {
	x = ast.Unparen(x)
	e := f.body.Expr(x)
	if e == nil {
		panic(fmt.Sprintf("BUG: nothing known of %T at %s", x, x.Span()))
	}
	defer f.here(x)()
	switch {
	case e.Enumerator != nil:
		v := f.CORE(ir.EnumvalValue, ir.CORERef{Type: e.Enumerator.Enum, Path: e.Enumerator.Name})
		return v
	case e.Extent != nil:
		return f.extent(e.Extent)
	case e.Const != nil && !e.Const.Host:
		return f.as(irType(e.Type), ir.Const(e.Const.Int))
	case e.Location != nil:
		return f.readLocation(x, e)
	case e.Call != nil:
		return f.call(x, e)
	}
	switch x := x.(type) {
	case *ast.Var:
		return f.getVar(e.Var, irType(e.Var.Type))
	case *ast.Map, *ast.MapElem:
		return f.readMap(x, e)
	case *ast.Positional:
		return f.Global(ir.U64, intParam(x.N), 0)
	case *ast.ParamCount:
		return f.Global(ir.U64, paramCount, 0)
	case *ast.Unary:
		return f.unary(x, e)
	case *ast.IncDec:
		return f.incDec(x)
	case *ast.Binary:
		return f.binary(x, e)
	case *ast.Cast:
		return f.cast(x, e)
	case *ast.Ternary, *ast.IfExpr, *ast.Block:
		return f.branches(x, e)
	case *ast.TupleIndex, *ast.Index, *ast.Field:
		addr, t := f.element(x, e)
		return f.loadScalar(addr, t)
	case *ast.Comptime:
		return f.scalar(x.X)
	}
	panic(fmt.Sprintf("BUG: no code for expression %T at %s", x, x.Span()))
}

// loadScalar reads a scalar in its storage form.
func (f *fn) loadScalar(addr *ir.Value, t *types.Type) *ir.Value {
	return f.as(irType(t), f.Load(ir.U64, addr, 0))
}

// element returns the address of a field of a tuple or record value.
func (f *fn) element(x ast.Expr, e *check.Expr) (*ir.Value, *types.Type) {
	var base ast.Expr
	switch x := x.(type) {
	case *ast.TupleIndex:
		base = x.X
	case *ast.Index:
		base = x.X
	case *ast.Field:
		base = x.X
	}
	t := f.body.Type(base)
	return f.AddImm(f.addr(base), int64(t.Store().Offsets[e.Elem])), t.Fields[e.Elem].Type
}

func (f *fn) unary(x *ast.Unary, e *check.Expr) *ir.Value {
	switch x.Op {
	case ast.AddrOf:
		if e.Map != nil {
			return f.Emit(ir.OpMapAddr, ir.TKAddr, ir.MapOperand(e.Map.Name))
		}
		return f.Cast(ir.TKAddr, f.vars[f.body.Expr(x.X).Var])
	case ast.Neg:
		return f.unsignedWidth(f.Sub(ir.Const(0), f.num(x.X)), e)
	case ast.BitNot:
		return f.unsignedWidth(f.Binary(ir.OpXor, f.num(x.X), ir.Const(-1)), e)
	case ast.Not:
		return f.BoolInt(f.ICmp(ir.EQ, f.truth(x.X), ir.Const(0)))
	}
	panic(fmt.Sprintf("BUG: no code for unary %s of type %s", x.Op, e.Type))
}

// unsignedWidth truncates the result of a unary operator to its width.
func (f *fn) unsignedWidth(v *ir.Value, e *check.Expr) *ir.Value {
	if e.Width == 0 {
		return v
	}
	return f.Binary(ir.OpAnd, v, ir.Const(1<<(8*e.Width)-1))
}

var arithOps = map[ast.BinaryOp]ir.Op{
	ast.Add: ir.OpAdd, ast.Sub: ir.OpSub, ast.Mul: ir.OpMul, ast.Div: ir.OpUDiv, ast.Mod: ir.OpUMod,
	ast.And: ir.OpAnd, ast.Or: ir.OpOr, ast.Xor: ir.OpXor, ast.Shl: ir.OpShl, ast.Shr: ir.OpLShr,
}

// arith generates an arithmetic operation on two i64. Division is unsigned; division by zero is 1 and reports a runtime
// error (as in bpftrace 0.26).
func (f *fn) arith(op ast.BinaryOp, x, y *ir.Value, at ast.Node) *ir.Value {
	if op != ast.Div && op != ast.Mod || y.IsConst() && y.Imm != 0 {
		return f.Binary(arithOps[op], x, y)
	}
	ok, zero, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	zero.Cold = true
	f.branch(f.ICmp(ir.NE, y, ir.Const(0)), ok, zero)
	f.start(ok, true)
	f.jump(rest, f.Binary(arithOps[op], x, y))
	f.start(zero, true)
	f.Emit(ir.OpDivZero, ir.TVoid).Imm = int64(f.runtimeError(divZeroText, at))
	f.jump(rest, ir.Const(1))
	result := rest.AddParam(ir.TI64)
	f.start(rest, true)
	return result
}

// lateArith is arith for values that are literals but for when they are known (check.Expr.Late): as folding of literals
// does, it divides and shifts signed numbers. BPF has no signed division before cpu=v4.
func (f *fn) lateArith(op ast.BinaryOp, x, y *ir.Value, at ast.Node) *ir.Value {
	switch op {
	case ast.Shr:
		return f.AShr(x, y)
	case ast.Div, ast.Mod:
		magnitude := func(v *ir.Value) (sign, abs *ir.Value) {
			if v.IsConst() && v.Imm >= 0 {
				return ir.Const(0), v
			}
			sign = f.AShr(v, ir.Const(63)) // 0 or -1
			return sign, f.Sub(f.Binary(ir.OpXor, v, sign), sign)
		}
		signed := func(v, sign *ir.Value) *ir.Value { return f.Sub(f.Binary(ir.OpXor, v, sign), sign) }
		xs, xa := magnitude(x)
		ys, ya := magnitude(y)
		v := f.arith(op, xa, ya, at)
		if op == ast.Div {
			xs = f.Binary(ir.OpXor, xs, ys)
		}
		return signed(v, xs)
	}
	return f.arith(op, x, y, at)
}

const divZeroText = "Divide or modulo by 0 detected. This can lead to unexpected results. 1 is being used as the result."

// runtimeError returns the index of a message that the loader prints when a program reports it.
func (f *fn) runtimeError(text string, at ast.Node) int {
	e := ir.RuntimeError{Text: text, Pos: f.pos(at.Span(), f.at), End: f.endCol(at.Span()), Chain: f.chain(at.Span())}
	for i, old := range f.m.Meta.Errors {
		if old.Text == e.Text && old.Pos == e.Pos && old.End == e.End && slices.Equal(old.Chain, e.Chain) {
			return i
		}
	}
	f.m.Meta.Errors = append(f.m.Meta.Errors, e)
	return len(f.m.Meta.Errors) - 1
}

func (f *fn) binary(x *ast.Binary, e *check.Expr) *ir.Value {
	switch x.Op {
	case ast.LogAnd, ast.LogOr, ast.Eq, ast.Ne, ast.Lt, ast.Gt, ast.Le, ast.Ge:
		return f.boolean(x)
	}
	if e.Scale > 0 { // pointer + integer, in either order
		l, r := f.scalar(x.X), f.scalar(x.Y)
		if f.body.Type(x.X).Kind == types.Pointer {
			r = f.scaled(f.as(ir.TI64, r), e.Scale)
		} else {
			l = f.scaled(f.as(ir.TI64, l), e.Scale)
		}
		return f.as(irType(e.Type), f.Binary(arithOps[x.Op], f.as(ir.TI64, l), f.as(ir.TI64, r)))
	}
	if e.Late {
		l := f.num(x.X)
		return f.lateArith(x.Op, l, f.num(x.Y), x)
	}
	l := f.num(x.X)
	return f.as(irType(e.Type), f.bounded(e.Type, x.Op, f.arith(x.Op, l, f.num(x.Y), x)))
}

// bounded returns the result of an operator as a value of type t. For two bools it is an 8-bit number that is true if
// it is not 0.
func (f *fn) bounded(t *types.Type, op ast.BinaryOp, v *ir.Value) *ir.Value {
	if t.Kind != types.Bool || !canOverflow[op] {
		return v
	}
	return f.Binary(ir.OpAnd, v, ir.Const(0xff))
}

// canOverflow are the operators whose result can exceed both operands.
var canOverflow = map[ast.BinaryOp]bool{ast.Add: true, ast.Sub: true, ast.Mul: true, ast.Shl: true}

// isTruth reports whether a bool is always 0 or 1, for any operands.
func (f *fn) isTruth(x ast.Expr) bool {
	x = ast.Unparen(x)
	if e := f.body.Expr(x); e.Const != nil || e.Location != nil || e.Call != nil {
		return true
	}
	switch x := x.(type) {
	case *ast.Binary:
		switch x.Op {
		case ast.And, ast.Or, ast.Xor:
			return f.isTruth(x.X) && f.isTruth(x.Y)
		}
		return arithOps[x.Op] == 0
	case *ast.Var, *ast.Unary, *ast.Cast:
		return true
	}
	return false
}

// boolean returns a condition as 0 or 1.
func (f *fn) boolean(x *ast.Binary) *ir.Value {
	if x.Op != ast.LogAnd && x.Op != ast.LogOr {
		return f.BoolInt(f.compare(x))
	}
	yes, no, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.condition(x, yes, no)
	f.start(yes, true)
	f.jump(rest, ir.Const(1))
	f.start(no, true)
	f.jump(rest, ir.Const(0))
	result := rest.AddParam(ir.TI64)
	f.start(rest, true)
	return result
}

// condition branches on the truth of x.
func (f *fn) condition(x ast.Expr, yes, no *ir.Block) {
	x = ast.Unparen(x)
	defer f.here(x)()
	e := f.body.Expr(x)
	constant := e.Const != nil && !e.Const.Host
	switch x := x.(type) {
	case *ast.Binary:
		switch {
		case constant:
		case x.Op == ast.LogAnd:
			mid := f.f.NewBlock()
			f.condition(x.X, mid, no)
			f.start(mid, true)
			f.condition(x.Y, yes, no)
			return
		case x.Op == ast.LogOr:
			mid := f.f.NewBlock()
			f.condition(x.X, yes, mid)
			f.start(mid, true)
			f.condition(x.Y, yes, no)
			return
		case x.Op >= ast.Eq && x.Op <= ast.Ge:
			f.branch(f.compare(x), yes, no)
			return
		}
	case *ast.Unary:
		if x.Op == ast.Not && !constant {
			f.condition(x.X, no, yes)
			return
		}
	}
	f.branch(f.ICmp(ir.NE, f.truth(x), ir.Const(0)), yes, no)
}

// truth returns a number that is not 0 if and only if x is true.
func (f *fn) truth(x ast.Expr) *ir.Value {
	if f.body.Type(x).IsScalar() {
		return f.num(x)
	}
	switch t := f.body.Type(x); t.Kind {
	case types.String: // not empty
		return f.Load(ir.U8, f.addr(x), 0)
	case types.Ustack, types.Usym:
		return f.Load(ir.U64, f.addr(x), 0)
	default:
		if t.IsAgg() {
			return f.scalar(x)
		}
		panic("BUG: no truth value of type " + t.String())
	}
}

var signedConds = map[ast.BinaryOp]ir.Cond{
	ast.Eq: ir.EQ,
	ast.Ne: ir.NE,
	ast.Lt: ir.SLT,
	ast.Gt: ir.SGT,
	ast.Le: ir.SLE,
	ast.Ge: ir.SGE,
}

var unsignedConds = map[ast.BinaryOp]ir.Cond{
	ast.Eq: ir.EQ,
	ast.Ne: ir.NE,
	ast.Lt: ir.ULT,
	ast.Gt: ir.UGT,
	ast.Le: ir.ULE,
	ast.Ge: ir.UGE,
}

// compare generates a comparison that is not folded.
func (f *fn) compare(x *ast.Binary) *ir.Value {
	t := f.body.Expr(x).Operands
	if t == nil || t.IsScalar() {
		conds := unsignedConds
		if t != nil && t.IsInteger() && t.Signed {
			conds = signedConds
		}
		l := f.num(x.X)
		r := f.num(x.Y)
		if f.body.Expr(x).LateSign {
			return f.compareByLate(x, l, r)
		}
		return f.ICmp(conds[x.Op], l, r)
	}
	var eq *ir.Value
	if t.Kind == types.String {
		eq = f.stringsEqual(x.X, x.Y, 0)
	} else {
		l, r := f.temp(x.X, t), f.temp(x.Y, t)
		eq = f.Emit(ir.OpMemEq, ir.TI1, l, r)
		eq.Imm = int64(t.Store().Size)
	}
	if x.Op == ast.Ne {
		return f.ICmp(ir.EQ, f.BoolInt(eq), ir.Const(0))
	}
	return eq
}

// compareByLate compares an unsigned number with a value of parameters (check.Expr.LateSign). The kernel's verifier knows
// that value, so that one of the two comparisons is dead code.
func (f *fn) compareByLate(x *ast.Binary, l, r *ir.Value) *ir.Value {
	late, v := ast.Unparen(x.X), l
	if !f.body.Expr(late).Late {
		late, v = ast.Unparen(x.Y), r
	}
	negative := f.ICmp(ir.SLT, v, ir.Const(0))
	if p, ok := late.(*ast.Positional); ok { // may be above 2^63
		negative = f.ICmp(ir.NE, f.Global(ir.U64, signParam(p.N), 0), ir.Const(0))
	}
	signed, unsigned, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.branch(negative, signed, unsigned)
	f.start(signed, true)
	f.jump(rest, f.BoolInt(f.ICmp(signedConds[x.Op], l, r)))
	f.start(unsigned, true)
	f.jump(rest, f.BoolInt(f.ICmp(unsignedConds[x.Op], l, r)))
	result := rest.AddParam(ir.TI64)
	f.start(rest, true)
	return f.ICmp(ir.NE, result, ir.Const(0))
}

// stringsEqual compares two strings, at most n bytes when n is not 0.
func (f *fn) stringsEqual(x, y ast.Expr, n int64) *ir.Value {
	if _, ok := f.literal(x); ok {
		x, y = y, x
	}
	lit, known := f.literal(y)
	lit = cString(lit)
	if known && (n == 0 || n > int64(len(lit))) {
		eq := f.Emit(ir.OpStrEq, ir.TI1, f.addr(x))
		eq.Sym, eq.Imm = lit, int64(f.body.Type(x).Size)
		return eq
	}
	size := min(int64(f.body.Type(x).Size), int64(f.body.Type(y).Size))
	if n > 0 {
		size = min(size, n)
	}
	l := f.addr(x)
	eq := f.Emit(ir.OpStrEqMem, ir.TI1, l, f.addr(y))
	eq.Imm = size
	return eq
}

// literal returns the value of a constant string.
func (f *fn) literal(x ast.Expr) (string, bool) {
	e := f.body.Expr(x)
	if e.Const != nil && e.Const.IsStr {
		return e.Const.Str, true
	}
	return "", false
}

// cast converts to a scalar type.
func (f *fn) cast(x *ast.Cast, e *check.Expr) *ir.Value {
	from := f.body.Type(x.X)
	if !from.IsScalar() && !from.IsAgg() {
		if e.Type.Kind == types.Pointer {
			w := f.locate(f.body.Expr(x.X).Location)
			if w.base == f.ctx {
				w.base = f.Cast(ir.TKAddr, f.ctx)
			}
			return f.as(irType(e.Type), f.apply(w))
		}
		if from.Kind == types.Array {
			return f.narrow(f.arrayBits(f.addr(x.X), from), e.Type)
		}
		if from.Kind == types.Inet || from.Kind == types.Struct {
			size := min(from.Size, 8)
			if k := ir.MemKindOf(size, false); k != ir.MemNone {
				return f.narrow(f.Load(k, f.addr(x.X), 0), e.Type)
			}
		}
		if e.Type.Kind == types.Bool {
			return f.BoolInt(f.ICmp(ir.NE, f.truth(x.X), ir.Const(0)))
		}
		return f.narrow(f.Load(ir.U64, f.addr(x.X), 0), e.Type)
	}
	if e.Type.Kind == types.Pointer && from.IsInteger() && from.Size < 8 { // an address is unsigned
		return f.as(irType(e.Type), f.Extend(ir.MemKindOf(from.Size, false), f.num(x.X)))
	}
	return f.narrow(f.num(x.X), e.Type)
}

// arrayBits returns the number that has the bytes of an array of at most 8 bytes.
func (f *fn) arrayBits(a *ir.Value, t *types.Type) *ir.Value {
	n := t.Elem.Size
	v := f.loadParts(ir.MemKindOf(n, false), a)
	for off := n; off < t.Size; off += n {
		part := f.loadParts(ir.MemKindOf(n, false), f.AddImm(a, int64(off)))
		v = f.Binary(ir.OpOr, v, f.Binary(ir.OpShl, part, ir.Const(int64(8*off))))
	}
	return v
}

// narrow truncates an i64 to a type and extends it again.
func (f *fn) narrow(v *ir.Value, t *types.Type) *ir.Value {
	switch t.Kind {
	case types.Bool:
		return f.BoolInt(f.ICmp(ir.NE, v, ir.Const(0)))
	case types.Int, types.Enum:
		return f.Extend(ir.MemKindOf(t.Size, t.Signed), v)
	}
	return f.as(irType(t), v)
}

// branches returns the value of ?:, if and block expressions.
func (f *fn) branches(x ast.Expr, e *check.Expr) *ir.Value {
	t := irType(e.Type)
	switch x := x.(type) {
	case *ast.Block:
		f.block(x)
		if f.ended() {
			return unset(t)
		}
		return f.as(t, f.scalar(x.Value))
	case *ast.Ternary:
		return f.ternary(x, t)
	case *ast.IfExpr:
		key := ast.Expr(x) // a variable of its own carries the value to the join
		f.setVar(key, unset(t))
		f.ifExpr(x, func(v ast.Expr) { f.setVar(key, f.as(t, f.scalar(v))) })
		return f.getVar(key, t)
	}
	panic("BUG: not a branching expression")
}

func (f *fn) ternary(x *ast.Ternary, t ir.Type) *ir.Value {
	yes, no, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	var cond *ir.Value
	if x.Then == nil { // cond ?: else
		cond = f.scalar(x.Cond)
		f.branch(f.ICmp(ir.NE, f.as(ir.TI64, cond), ir.Const(0)), yes, no)
	} else {
		f.condition(x.Cond, yes, no)
	}
	f.start(yes, true)
	if x.Then != nil {
		cond = f.scalar(x.Then)
	}
	f.jump(rest, f.as(t, cond))
	f.start(no, true)
	f.jump(rest, f.as(t, f.scalar(x.Else)))
	result := rest.AddParam(t)
	f.start(rest, true)
	return result
}
