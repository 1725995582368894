// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
)

func sortStrings(s []string) { slices.Sort(s) }

func (b *body) unary(x *ast.Unary, e *Expr) {
	switch x.Op {
	case ast.AddrOf:
		b.addressOf(x, e)
		return
	case ast.Deref:
		b.deref(x, e)
		return
	}
	t := b.value(x.X)
	if invalid(t) {
		return
	}
	if in := b.out.Expr(x.X); in.Reads {
		message := "The %s operator can not be used on expressions of type '%s'"
		b.fail(diag.BadOperands, x, message, x.Op, b.maps[in.Map.Name].agg).Hint("add a cast to integer: %s(int64)%s", x.Op, in.Map.Name)
		return
	}
	if !t.IsInteger() && !(x.Op == ast.Not && t.Kind == types.Pointer) {
		b.fail(diag.BadOperands, x, "The %s operator can not be used on expressions of type '%s'", x.Op, t)
		return
	}
	switch x.Op {
	case ast.Not:
		e.Type = types.TBool
	case ast.Neg, ast.BitNot: // unsigned numbers keep their type: -(uint8)3 is 253
		if t.Kind == types.Bool {
			b.fail(diag.BadOperands, x, "The %s operator can not be used on expressions of type '%s'", x.Op, t)
			return
		}
		e.Type = types.MakeInt(8, t.Signed).WithSpace(t.Space)
		e.Width = b.unaryWidth(x.X)
		if in := b.out.Expr(x.X); in.isLate() {
			if e.Late = x.Op == ast.Neg; !e.Late { // ~5 is 2^64 - 6
				e.Type = types.TUint64
			}
		}
	}
	b.foldUnary(x, e)
}

// unaryWidth returns the Width of - or ~ of x: the size of an unsigned operand. The operand -$x has the size of $x,
// although its type has 64 bits.
func (b *body) unaryWidth(x ast.Expr) int {
	switch x := ast.Unparen(x).(type) {
	case *ast.Unary:
		if x.Op == ast.Neg || x.Op == ast.BitNot {
			return b.out.Expr(x).Width
		}
	case *ast.Comptime:
		return b.unaryWidth(x.X)
	case *ast.Block:
		if x.Value != nil {
			return b.unaryWidth(x.Value)
		}
	}
	if t := b.out.Expr(x).Type; !t.Signed && t.Size < 8 && !b.out.Expr(x).isNumber() {
		return t.Size
	}
	return 0
}

// addressOf checks "&$x", a pointer to the variable, or "&@x", the address of the kernel's map
// itself, as a pointer to the map's values. Both are in kernel memory.
func (b *body) addressOf(x *ast.Unary, e *Expr) {
	switch v := ast.Unparen(x.X).(type) {
	case *ast.Var:
		if t := b.value(v); !invalid(t) {
			b.out.Expr(v).Var.Addressed = true
			e.Type = types.MakePointer(t, types.Kernel)
		}
	case *ast.Map:
		m := b.mapNamed(v)
		e.Map = &m.Map
		switch {
		case m.agg != nil:
			e.Type = types.MakePointer(types.TNone, types.Kernel)
		case m.Value != nil:
			e.Type = types.MakePointer(m.Value, types.Kernel)
		default:
			m.onlyRead = v
		}
	default: // reported by the parser
		b.expr(v)
	}
}

// isAddress reports whether x is "&$x", whose type depends on the variable's.
func isAddress(x ast.Expr) bool {
	u, ok := ast.Unparen(x).(*ast.Unary)
	return ok && u.Op == ast.AddrOf
}

// bareAddress reports whether x is kptr(n) or uptr(n) of a number, or an offset from it: an untyped address, which is
// read like a plain number.
func (b *body) bareAddress(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.Call:
		c := b.out.Expr(x).Call
		return c != nil && c.Fn != nil && (c.Fn.Name == "kptr" || c.Fn.Name == "uptr") && b.out.Expr(x).Type.Elem.Kind == types.None
	case *ast.Binary:
		return (x.Op == ast.Add || x.Op == ast.Sub) && b.bareAddress(x.X)
	}
	return false
}

// deref checks "*p"; a plain integer is read as the address of a uint64.
func (b *body) deref(x *ast.Unary, e *Expr) {
	t := b.value(x.X)
	switch {
	case invalid(t):
	case t.Kind == types.Int, b.bareAddress(x.X):
		e.Location = &Location{Root: RootPointer, Base: x.X, Space: t.Space}
		b.setLvalue(x, e, types.TUint64)
	case t.Kind == types.Struct:
		b.fail(diag.BadOperands, x, "Can not dereference struct/union of type '%s'. It is not a pointer.", t)
	case t.Kind != types.Pointer || t.Elem.Kind == types.None || t.Elem.Kind == types.Func:
		b.fail(diag.BadOperands, x, "Can not dereference type '%s'. It is not a pointer.", t)
	default:
		e.Location = &Location{Root: RootPointer, Base: x.X, Space: t.Space}
		b.setLvalue(x, e, t.Elem)
	}
}

// pointerScale returns the size in bytes of one step of a pointer of type t.
func pointerScale(t *types.Type) int { return max(1, t.Elem.Size) }

// stepType returns the type of an integer that ++ or -- has changed.
func stepType(t *types.Type, dec bool) *types.Type {
	return types.MakeInt(8, dec || t.Signed)
}

func (b *body) incDec(x *ast.IncDec, e *Expr) {
	switch v := ast.Unparen(x.X).(type) {
	case *ast.Var:
		b.incDecVar(x, v, e)
		return
	case *ast.Map, *ast.MapElem:
	default: // reported by the parser
		b.expr(v)
		return
	}
	m, ok := b.mapTarget(ast.Unparen(x.X))
	te := b.set(x.X, &Expr{Type: types.TInvalid, Map: &m.Map})
	m.written = true
	if !ok {
		return
	}
	t := types.TInt64
	switch {
	case m.agg != nil:
		b.plain(m, x, types.TInt64)
		return
	case m.Value != nil && m.Value.Kind == types.Pointer:
		t = m.Value
		e.Scale = pointerScale(t)
	case m.Value != nil && m.Value.Kind != types.Int && m.Value.Kind != types.Enum:
		b.plain(m, x, stepType(m.Value, x.Dec)) // reports the mismatch
		return
	case m.Value != nil && m.Value.Kind == types.Int && !m.Value.Flexible:
		t = stepType(m.Value, x.Dec)
	}
	b.plain(m, x, t)
	e.Type = orInvalid(m.Value)
	te.Type = e.Type
}

func (b *body) incDecVar(x *ast.IncDec, v *ast.Var, e *Expr) {
	t := b.value(v)
	switch {
	case invalid(t):
	case t.Kind == types.Pointer:
		e.Type, e.Scale = t, pointerScale(t)
	case t.Kind != types.Int && t.Kind != types.Enum:
		b.varMismatch(v, x, stepType(t, x.Dec), t)
	default:
		variable := b.out.Expr(v).Var
		if !variable.fixed {
			b.assignVar(v, x, stepType(t, x.Dec))
		}
		e.Type = variable.Type
	}
}

// isComparison reports whether op compares two operands.
func isComparison(op ast.BinaryOp) bool { return op >= ast.Eq && op <= ast.Ge }

func (b *body) binary(x *ast.Binary, e *Expr) {
	left, right := b.binaryOperands(x)
	switch {
	case invalid(left) || invalid(right):
		b.quotesMissing(x, left, right)
		if isComparison(x.Op) || x.Op <= ast.LogAnd {
			e.Type = types.TBool // avoids a second error
		}
		return
	case b.compareKnown(x, e):
	case x.Op == ast.LogOr || x.Op == ast.LogAnd:
		b.logical(x, e, left, right)
	case isComparison(x.Op):
		b.compare(x, e, left, right)
	case left.Kind == types.String && x.Op == ast.Add:
		b.addString(x, e, left, right)
	default:
		e.Type = b.arithmetic(x, x.Op, x.X, x.Y, left, right)
		if e.Type.Kind == types.Pointer {
			e.Scale = pointerScale(e.Type)
		}
	}
	if !invalid(e.Type) && e.Const == nil {
		l, r := b.out.Expr(x.X), b.out.Expr(x.Y)
		literal := (l.Late || l.isNumber()) && (r.Late || r.isNumber())
		e.Late = literal && e.Type.Kind == types.Int && (l.isLate() || r.isLate())
		b.foldBinary(x, e)
	}
}

// binaryOperands types both sides; literals that are folded into one value may exceed max_strlen.
func (b *body) binaryOperands(x *ast.Binary) (left, right *types.Type) {
	if literalString(x.X) && literalString(x.Y) || x.Op == ast.Add && (literalString(x.X) || literalString(x.Y)) {
		b.folding++
		defer func() { b.folding-- }()
	}
	return b.operands(x)
}

func literalString(x ast.Expr) bool {
	_, ok := ast.Unparen(x).(*ast.StringLit)
	return ok
}

// operands types both sides; a parameter compared with a string is a string.
func (b *body) operands(x *ast.Binary) (left, right *types.Type) {
	if isComparison(x.Op) {
		_, lp := ast.Unparen(x.X).(*ast.Positional)
		_, rp := ast.Unparen(x.Y).(*ast.Positional)
		switch {
		case lp && !rp:
			if right = b.value(x.Y); right.Kind == types.String {
				return b.asString(x.X), right
			}
			return b.value(x.X), right
		case rp && !lp:
			if left = b.value(x.X); left.Kind == types.String {
				return left, b.asString(x.Y)
			}
			return left, b.value(x.Y)
		}
	}
	if x.Op == ast.LogAnd || x.Op == ast.LogOr {
		left, right = b.value(x.X), b.value(x.Y)
		if b.isLiteralString(x.X) && right.Kind == types.Int || left.Kind == types.Int && b.isLiteralString(x.Y) {
			b.fail(diag.TypeMismatch, x, "Type mismatch for '%s': comparing %s with %s", x.Op, left, right)
			return types.TInvalid, types.TInvalid
		}
		left = b.truth(x.X)
		return left, b.truth(x.Y)
	}
	left = b.value(x.X)
	return left, b.value(x.Y)
}

func (b *body) isLiteralString(x ast.Expr) bool {
	e := b.out.Expr(x)
	return e.Type.Kind == types.String && e.Const != nil
}

func (b *body) badOperands(at ast.Node, op ast.BinaryOp, left, right *types.Type) *types.Type {
	b.fail(diag.BadOperands, at, "The %s operator can not be used on expressions of types %s, %s", op, left, right)
	return types.TInvalid
}

func (b *body) logical(x *ast.Binary, e *Expr, left, right *types.Type) {
	for _, t := range []*types.Type{left, right} {
		if !t.IsInteger() && t.Kind != types.Pointer {
			b.badOperands(x, x.Op, left, right)
			e.Type = types.TBool
			return
		}
	}
	e.Type = types.TBool
}

// compare types ==, !=, <, >, <= and >=.
func (b *body) compare(x *ast.Binary, e *Expr, left, right *types.Type) {
	e.Type = types.TBool
	equality := x.Op == ast.Eq || x.Op == ast.Ne
	switch {
	case left.IsInteger() && right.IsInteger():
		e.Operands = b.commonInt(x, e, left, right)
	case left.Kind == types.Pointer || right.Kind == types.Pointer:
		b.comparePointers(x, e, left, right)
	case !equality:
		if left.Kind == types.String && right.Kind == types.String && b.bothConst(x.X, x.Y) {
			return
		}
		if left.Kind == types.Array || right.Kind == types.Array {
			b.fail(diag.BadOperands, x, "The %s operator cannot be used on arrays.", x.Op)
			return
		}
		b.badOperands(x, x.Op, left, right)
	case left.Kind == types.Probe || right.Kind == types.Probe:
		b.compareProbe(x, e, left, right)
	case left.Kind != right.Kind:
		b.fail(diag.TypeMismatch, x, "Type mismatch for '%s': comparing %s with %s", x.Op, left, right)
	default:
		b.compareMemory(x, e, left, right)
	}
}

// commonInt returns the type in which two integers are compared: signed if one side is, unless that side is a literal.
// An unsigned number and a value of parameters are compared as signed numbers if that value is negative, which is
// known when the object is loaded.
func (b *body) commonInt(x *ast.Binary, e *Expr, left, right *types.Type) *types.Type {
	p, _ := types.Promote(number(left), number(right))
	l, r := b.out.Expr(x.X), b.out.Expr(x.Y)
	ordered := x.Op != ast.Eq && x.Op != ast.Ne // equal numbers have equal bits
	switch {
	case ordered && (l.Late && !left.Flexible && !r.Late && unsigned(right) || r.Late && !right.Flexible && !l.Late && unsigned(left)):
		e.LateSign = true
		for _, side := range []*Expr{l, r} {
			if side.Param != nil {
				side.Param.Sign = true
			}
		}
		return types.TUint64
	case !p.Lossy || l.Late != r.Late:
	case !isParam(x.X) && !isParam(x.Y):
		unsigned := left
		if number(left).Signed {
			unsigned = right
		}
		b.lossy(x, unsigned, p.Type)
	}
	return p.Type.Fixed()
}

func unsigned(t *types.Type) bool { return !number(t).Signed && !t.Flexible }

func isParam(x ast.Expr) bool {
	switch x := ast.Unparen(x).(type) {
	case *ast.Positional, *ast.ParamCount:
		return true
	case *ast.Unary:
		return isParam(x.X)
	}
	return false
}

// number returns the Int type of an integer of any kind.
func number(t *types.Type) *types.Type {
	if t.Kind == types.Int {
		return t
	}
	return types.MakeInt(max(1, t.Size), t.Signed)
}

func (b *body) comparePointers(x *ast.Binary, e *Expr, left, right *types.Type) {
	e.Operands = types.TUint64
	switch {
	case left.Kind == types.Pointer && right.Kind == types.Pointer:
		if !types.Equal(left.Elem, right.Elem) && left.Elem.Kind != types.None && right.Elem.Kind != types.None {
			b.fail(diag.DistinctPointers, x, "comparison of distinct pointer types: %s, %s", left.Elem, right.Elem)
		}
	case !left.IsInteger() && !right.IsInteger():
		b.badOperands(x, x.Op, left, right)
	}
}

// compareProbe compares the name of the attach point with a literal: as strings if only the host knows the name.
func (b *body) compareProbe(x *ast.Binary, e *Expr, left, right *types.Type) {
	lit := b.out.Expr(x.Y)
	if right.Kind == types.Probe {
		lit = b.out.Expr(x.X)
	}
	if lit.Const == nil || !lit.Const.IsStr {
		if left.Kind != types.Probe || right.Kind != types.Probe {
			b.fail(diag.TypeMismatch, x, "Type mismatch for '%s': comparing %s with %s", x.Op, left, right)
		}
		return
	}
	if b.point.NamedByHost() {
		name := x.X
		if right.Kind == types.Probe {
			name = x.Y
		}
		e.Operands = b.probeString(name)
		return
	}
	e.Const = literalBool((b.point.Text == lit.Const.Str) == (x.Op == ast.Eq))
}

// compareMemory compares values that are in memory.
func (b *body) compareMemory(x *ast.Binary, e *Expr, left, right *types.Type) {
	p, ok := types.Promote(left, right)
	switch left.Kind {
	case types.String:
		e.Operands = p.Type
	case types.Array:
		switch {
		case left.Elem.Kind != types.Int || right.Elem.Kind != types.Int:
			b.badOperands(x, x.Op, left, right)
		case left.Size != right.Size || left.Elem.Size != right.Elem.Size:
			b.fail(diag.BadOperands, x, "Only arrays of same size support comparison operators.")
		default:
			e.Operands = left
		}
	case types.Tuple, types.Record:
		if !ok {
			b.fail(diag.TypeMismatch, x, "Type mismatch for '%s': comparing %s with %s", x.Op, left, right)
			return
		}
		e.Operands = p.Type
	case types.Ksym, types.Usym, types.Username, types.Inet, types.Mac, types.Timestamp, types.CgroupPath:
		e.Operands = left
	case types.Kstack, types.Ustack: // by id: stacks with equal frames, up to the same depth, share an id
		if left.Depth != right.Depth {
			b.fail(diag.TypeMismatch, x, "Type mismatch for '%s': comparing %s with %s", x.Op, left, right)
			return
		}
		e.Operands = left
	case types.Buffer:
		e.Operands = p.Type
	default:
		b.badOperands(x, x.Op, left, right)
	}
}

// arithmetic returns the type of "left op right" for arithmetic operators: bool for two bools, else 64 bits; signed if
// an operand is (also the right one of a shift), or for a difference.
func (b *body) arithmetic(at ast.Node, op ast.BinaryOp, x, y ast.Expr, left, right *types.Type) *types.Type {
	switch {
	case invalid(left) || invalid(right):
		return types.TInvalid
	case left.Kind == types.Pointer || right.Kind == types.Pointer:
		return b.pointerArithmetic(at, op, left, right)
	case !left.IsInteger() || !right.IsInteger():
		return b.badOperands(at, op, left, right)
	case left.Kind == types.Bool && right.Kind == types.Bool:
		return types.TBool
	}
	l, r := number(left), number(right)
	ls, rs := l.Signed, r.Signed
	lf, rf := l.Flexible || b.isLateValue(x), r.Flexible || b.isLateValue(y)
	switch {
	case lf && !rf:
		ls = rs
	case rf && !lf:
		rs = ls
	}
	signed := ls || rs
	switch op {
	case ast.Sub:
		signed = true
	case ast.Div, ast.Mod:
		if (ls || rs) && (ls != rs || l.Size != r.Size) && !b.bothLiteral(x, y) {
			b.fail(diag.SignedDivision, at,
				"signed operands for '%s' can lead to undefined behavior (cast to unsigned to silence warning)", op)
		}
	}
	return types.MakeInt(8, signed).WithSpace(left.Space.Join(right.Space))
}

// isLateValue reports whether x is computed from parameters, at load time. Like a literal that is not negative, it takes
// the sign of its peer.
func (b *body) isLateValue(x ast.Expr) bool {
	e := b.out.Expr(x)
	return e != nil && e.Late
}

func (b *body) bothConst(x, y ast.Expr) bool {
	l, r := b.out.Expr(x), b.out.Expr(y)
	return l != nil && r != nil && l.Const != nil && r.Const != nil
}

// bothLiteral reports whether x and y are numbers without casts or variables: their quotient is the exact one.
func (b *body) bothLiteral(x, y ast.Expr) bool {
	l, r := b.out.Expr(x), b.out.Expr(y)
	return (l.isNumber() || l.Late) && (r.isNumber() || r.Late)
}

func (b *body) pointerArithmetic(at ast.Node, op ast.BinaryOp, left, right *types.Type) *types.Type {
	switch {
	case op == ast.Add && left.Kind == types.Pointer && right.IsInteger():
		return left
	case op == ast.Add && right.Kind == types.Pointer && left.IsInteger():
		return right
	case op == ast.Sub && left.Kind == types.Pointer && right.IsInteger():
		return left
	}
	return b.badOperands(at, op, left, right)
}

// addString checks "literal" + n, the literal without its first n bytes, or
// "literal" + "literal", concatenated.
func (b *body) addString(x *ast.Binary, e *Expr, left, right *types.Type) {
	l, r := b.out.Expr(x.X).Const, b.out.Expr(x.Y).Const
	switch {
	case l == nil || r == nil || !r.IsStr && !right.IsInteger():
		e.Type = b.badOperands(x, x.Op, left, right)
	case r.IsStr:
		b.stringConst(x, e, l.Str+r.Str)
	case r.Int < 0:
		b.fail(diag.OutOfBounds, x, "the index %d is out of bounds for a string of %d bytes", r.Int, len(l.Str))
	default:
		b.stringConst(x, e, l.Str[min(r.Int, int64(len(l.Str))):])
	}
}
