// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/cdef"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/probe"
	"btc/internal/spell"
)

// maxDepth bounds the nesting of expressions.
const maxDepth = 1000

// newExpr allocates an Expr. Rounds need many, so they are allocated in batches.
func (c *checker) newExpr() *Expr {
	if len(c.spare) == 0 {
		c.spare = make([]Expr, 22) // 4 KB
	}
	e := &c.spare[0]
	c.spare = c.spare[1:]
	return e
}

// set records the facts of x.
func (b *body) set(x ast.Expr, e *Expr) *Expr {
	b.out.exprs[ast.Unparen(x)] = e
	return e
}

// value types an expression whose value is used.
func (b *body) value(x ast.Expr) *types.Type {
	e := b.expr(x)
	if e.Type.Kind == types.None {
		b.fail(diag.NoValue, x, "this expression has no value").
			Hint("functions such as printf() and clear() are statements")
		e.Type = types.TInvalid
	}
	return e.Type
}

// condition types the condition of a statement or expression.
func (b *body) condition(x ast.Expr) {
	t := b.truth(x)
	if !invalid(t) && !t.IsInteger() && t.Kind != types.Pointer {
		b.fail(diag.BadCondition, x, "Invalid condition: %s", t)
	}
}

// truth types a truth value: a string in the script is true unless it is empty.
func (b *body) truth(x ast.Expr) *types.Type {
	t := b.value(x)
	if e := b.out.Expr(x); t.Kind == types.String && e.Const != nil {
		e.Type, e.Const = types.TBool, literalBool(untilNUL(e.Const.Str) != "")
	}
	return b.out.Expr(x).Type
}

// integer types an argument that must be an integer; the error names fn.
func (b *body) integer(x ast.Expr, fn string) *types.Type {
	t := b.value(x)
	if !invalid(t) && !t.IsInteger() {
		b.fail(diag.BadArguments, x, "%s() only supports integer arguments (%s provided)", fn, t)
		return types.TInvalid
	}
	return t
}

// constInt types an argument that must be a constant integer.
func (b *body) constInt(x ast.Expr, fn string) (int64, bool) {
	t := b.value(x)
	if invalid(t) {
		return 0, false
	}
	c := b.out.Expr(x).Const
	if c == nil || c.IsStr || t.Kind == types.Bool {
		b.fail(diag.NotConstant, x, "%s needs a constant integer here", fn)
		return 0, false
	}
	return c.Int, true
}

// expr types any expression.
func (b *body) expr(x ast.Expr) *Expr {
	x = ast.Unparen(x)
	if b.depth++; b.depth > maxDepth {
		b.depth--
		b.fail(diag.TooLarge, x, "the expression is nested too deeply")
		return b.set(x, &Expr{Type: types.TInvalid})
	}
	defer func() { b.depth-- }()
	e := b.newExpr()
	e.Type = types.TInvalid
	b.set(x, e)
	b.kind(x, e)
	if e.Type == nil {
		e.Type = types.TInvalid
	}
	return e
}

// kind types x by its kind.
func (b *body) kind(x ast.Expr, e *Expr) {
	switch x := x.(type) {
	case *ast.IntLit:
		e.Type = types.Literal(x.Value)
		e.Const = &Const{Int: int64(x.Value), lit: true}
	case *ast.StringLit:
		b.stringConst(x, e, x.Value)
	case *ast.BoolLit:
		e.Type, e.Const = types.TBool, literalBool(x.Value)
	case *ast.Ident:
		b.ident(x, e)
	case *ast.Var:
		b.variable(x, e)
	case *ast.Map:
		b.readMap(x, x, nil, e)
	case *ast.MapElem:
		b.readMap(x, x.Map, x.Keys, e)
	case *ast.Positional:
		b.positional(x, e, false)
	case *ast.ParamCount:
		b.info.ParamCount = true
		e.Type, e.Late = flexible(types.TInt64), true // never negative
	case *ast.Index:
		b.index(x, e)
	case *ast.Field:
		b.field(x, e)
	case *ast.TupleIndex:
		b.tupleIndex(x, e)
	case *ast.Unary:
		b.unary(x, e)
	case *ast.IncDec:
		b.incDec(x, e)
	case *ast.Binary:
		b.binary(x, e)
	case *ast.Ternary:
		b.ternary(x, e)
	case *ast.Cast:
		b.cast(x, e)
	case *ast.Call:
		b.callExpr(x, e)
	default:
		b.compound(x, e)
	}
}

// compound types the expressions that kind does not.
func (b *body) compound(x ast.Expr, e *Expr) {
	switch x := x.(type) {
	case *ast.Tuple:
		if len(x.Elems) == 0 {
			b.fail(diag.NoValue, x, "an empty tuple has no value")
			return
		}
		all := make([]*types.Type, len(x.Elems))
		for i, el := range x.Elems {
			all[i] = b.part("inside a tuple", el, b.element)
		}
		e.Type = b.bounded(x, types.MakeTuple(all...))
	case *ast.Record:
		fields := make([]types.Field, len(x.Fields))
		for i, f := range x.Fields {
			fields[i] = types.Field{Name: f.Name.Text, Type: b.part("inside a record", f.Value, b.element)}
		}
		e.Type = b.bounded(x, types.MakeRecord(fields...))
	case *ast.IfExpr:
		b.ifExpr(x, e)
	case *ast.Block:
		b.blockExpr(x, e)
	case *ast.Comptime:
		b.comptime(x, e)
	case *ast.Sizeof:
		b.sizeof(x, e)
	case *ast.Offsetof:
		b.offsetof(x, e)
	case *ast.Typeinfo:
		b.typeinfo(x, e)
	case *ast.TypeExpr:
		b.fail(diag.UnknownName, x, "a type cannot be used as a value")
	case *ast.Discard:
		b.fail(diag.UnknownName, x, "_ has no value")
	case *ast.Range:
		b.fail(diag.UnknownName, x, "a range is allowed only in a for statement")
	}
}

// bounded returns the type t, or the invalid type, with an error, if t is too large.
func (b *body) bounded(at ast.Node, t *types.Type) *types.Type {
	if why := t.TooLarge(); why != "" {
		b.fail(diag.TooLarge, at, "%s", why)
		return types.TInvalid
	}
	return t
}

// element types an element of a tuple or record.
func (b *body) element(x ast.Expr) *types.Type {
	t := b.value(x)
	switch t.Kind {
	case types.Func, types.Float:
		b.fail(diag.BadOperands, x, "Value '%s' cannot be part of a tuple.", t)
		return types.TInvalid
	}
	return t
}

// beginning returns a string, or its first n bytes and "..." where it is longer.
func beginning(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "..."
}

func (b *body) stringConst(x ast.Expr, e *Expr, s string) {
	limit := maxString
	if b.folding == 0 && x != b.noValue {
		limit = b.info.Config.MaxStrlen
	}
	if len(s)+1 > limit {
		b.fail(diag.StringTooLong, x, "String is too long (over %d bytes): %s", limit, beginning(s, 40)).
			Hint("config = { max_strlen = %d } permits it", len(s)+1)
		return
	}
	e.Type = types.MakeString(len(s) + 1)
	e.Const = &Const{Str: s, IsStr: true, lit: true}
}

func boolConst(v bool) *Const {
	c := &Const{}
	if v {
		c.Int = 1
	}
	return c
}

// literalBool returns a truth value that counts as a literal.
func literalBool(v bool) *Const {
	c := boolConst(v)
	c.lit = true
	return c
}

// isNumber reports whether e is an integer literal, or computed from such literals.
func (e *Expr) isNumber() bool { return e.Const != nil && e.Const.lit && e.Type.Kind == types.Int }

// isLate reports whether e is computed from literals and values known at load time, and needs one of the latter.
func (e *Expr) isLate() bool { return e.Late || e.isNumber() && e.Const.Host }

// ident resolves a plain name: a builtin, or a constant of the script, the
// target or the system headers.
func (b *body) ident(x *ast.Ident, e *Expr) {
	if b.builtin(x, x.Name, nil, e) {
		return
	}
	c, ok, err := b.env.Constant(x.Name)
	switch {
	case errors.Is(err, cdef.ErrItself):
		b.fail(diag.CSyntax, x, "#define %s refers to itself", x.Name)
	case err != nil && b.env.MacroText(x.Name) == "":
		b.fail(diag.CSyntax, x, "#define %s is empty: it has no value", x.Name)
	case err != nil && b.env.TakesArguments(x.Name):
		b.fail(diag.CSyntax, x, "macro %s takes arguments: write %s(...)", x.Name, x.Name)
	case err != nil:
		b.fail(diag.CSyntax, x, "unable to expand macro as an expression: %s", b.env.MacroText(x.Name))
	case ok && c.IsStr:
		b.stringConst(x, e, c.Str)
	case ok:
		e.Type = wideEnum(c.Type)
		e.Const = &Const{Int: c.Int, lit: c.Type.Kind == types.Int}
		if c.Enumerator {
			e.Enumerator = &Enumerator{Enum: c.Type.Enum.CORE, Name: x.Name}
			e.Const.Host = true
		}
	case b.stackArgument(x, e), b.oldName(x, x.Name, nil, e):
	default:
		d := b.fail(diag.UnknownName, x, "Unknown identifier: '%s'", x.Name)
		b.unknown.at, b.unknown.diag = x, d
		switch near := spell.Nearest(x.Name, b.plainNames(x.Name)); near {
		case "":
		case x.Name:
			d.Hint("%s is a function: %s(...)", near, near)
		default:
			d.Hint("did you mean %s?", near)
		}
	}
}

// maxGuesses limits for how many unknown names of a script the nearest known name is searched.
const maxGuesses = 100

// guess counts an unknown name; it is false after maxGuesses.
func (c *checker) guess() bool {
	c.guesses++
	return c.guesses <= maxGuesses
}

// plainNames returns the possible meanings of a name without a sigil: builtins, functions and
// macros, the constants of the script, and those of the headers with a common prefix.
func (b *body) plainNames(name string) []string {
	if !b.final || !b.guess() { // hints of other rounds are not used
		return nil
	}
	return slices.Concat(b.builtinNames(), b.env.ConstantNames(name[:min(len(name), 3)]))
}

// stackArgument is sarg0, sarg1, ...: the words above the return address at a function's entry. bpftrace had them
// until 0.24; Go before 1.17 passed all arguments there.
func (b *body) stackArgument(x *ast.Ident, e *Expr) bool {
	digits, ok := strings.CutPrefix(x.Name, "sarg")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || n > 4095 {
		return false
	}
	if k := b.point.Kind; k != probe.Kprobe && k != probe.Uprobe {
		b.fail(diag.NotInThisProbe, x, "The %s builtin can only be used with 'kprobes' and 'uprobes' probes", x.Name)
		e.Type = types.TInvalid
		return true
	}
	first := b.t.Arch().StackArg
	if first == 0 {
		b.fail(diag.NotSupported, x, "%s is known for x86_64 only", x.Name)
		e.Type = types.TInvalid
		return true
	}
	off := first + 8*int(n)
	b.fail(diag.Deprecated, x, "%s is deprecated", x.Name).Hint("write *(reg(\"sp\") + %d)", off)
	sp := &ast.Call{Extent: x.Extent, Func: &ast.Name{Extent: x.Extent, Text: "reg"},
		Args: []ast.Expr{&ast.StringLit{Extent: x.Extent, Text: `"sp"`, Value: "sp"}}}
	if e.Type = types.TInvalid; !invalid(b.value(sp)) {
		e.Type = types.TUint64.WithSpace(b.point.Space())
		e.Location = &Location{Root: RootPointer, Base: sp, Space: b.point.Space(), Steps: []Step{{Off: off}}}
	}
	return true
}

// builtinNames returns the names of builtins and functions.
func (b *body) builtinNames() []string {
	names := []string{"arg0", "arg1", "arg2", "arg3", "arg4", "arg5"}
	for name := range b.functions {
		names = append(names, name)
	}
	for name := range b.subprogs {
		names = append(names, name)
	}
	names = append(names, b.info.Script.Macros...)
	sortStrings(names)
	return names
}

func (b *body) variable(x *ast.Var, e *Expr) {
	slot := b.clause.scope.slot(x)
	if slot == nil {
		d := b.fail(diag.UndefinedVar, x, "Undefined or undeclared variable: $%s", x.Name)
		var names []string
		for _, s := range b.clause.scope.slots {
			names = append(names, s.name)
		}
		suggest(d, x.Name, "$", names)
		return
	}
	v := b.vars[slot]
	e.Var, e.Type = v, orInvalid(v.Type)
	if v.Type == nil && !slot.assigned && b.final {
		b.fail(diag.BadDeclaration, x, "Could not resolve the type of this variable").
			Hint("$%s is never assigned: give it a value, or a type with let $%s : int64", x.Name, x.Name)
		return
	}
	if !b.seen[slot] && b.loops == 0 && slot.assigned && v.Type != nil && b.final && !slot.let {
		b.fail(diag.UsedBeforeAssign, x, "Variable used before it was assigned: $%s", x.Name)
	}
}

// part types an expression that is part of a tuple, record or key; where names that for messages.
func (b *body) part(where string, x ast.Expr, typ func(ast.Expr) *types.Type) *types.Type {
	b.composite.x, b.composite.context = ast.Unparen(x), where
	return typ(x)
}

// readMap types a map or element that is read as a value.
func (b *body) readMap(x ast.Expr, name *ast.Map, keys []ast.Expr, e *Expr) {
	m := b.mapNamed(name)
	e.Map = &m.Map
	if !b.key(m, x, keys) {
		return
	}
	switch {
	case m.agg != nil && m.agg.IsReadable():
		e.Type, e.Reads = types.MakeInt(8, m.agg.Signed), true
		if b.quiet == 0 {
			m.Read = true
		}
	case m.agg != nil && m.agg.Kind == types.Stats:
		n := types.MakeInt(8, m.agg.Signed)
		e.Type = types.MakeRecord(types.Field{Name: "count", Type: types.TUint64},
			types.Field{Name: "average", Type: n}, types.Field{Name: "total", Type: n})
		if b.quiet == 0 {
			m.Read = true
		}
	case m.agg != nil:
		message := "Value '%s' cannot be read by the script"
		switch {
		case b.composite.x != x:
		case b.composite.context == "as a key":
			message = "Value '%s' cannot be used as a map key."
		default:
			message = "Map type %s cannot exist " + b.composite.context + "."
		}
		b.fail(diag.BadMapUse, x, message, m.agg).
			Hint("print(%s) prints the whole map", m.Name)
	case m.Value != nil:
		e.Type = m.Value
	default:
		m.onlyRead = x
	}
}

// statsMap returns the type of the map when x reads a stats map or an element of one. The value can be printed, but not
// stored in variables or other maps.
func (b *body) statsMap(x ast.Expr) (*types.Type, bool) {
	var name *ast.Map
	switch x := ast.Unparen(x).(type) {
	case *ast.Map:
		name = x
	case *ast.MapElem:
		name = x.Map
	default:
		return nil, false
	}
	m := b.maps["@"+name.Name]
	if m == nil || m.agg == nil || m.agg.Kind != types.Stats {
		return nil, false
	}
	return m.agg, true
}

// unknownMap reports a map that is never written.
func (b *body) unknownMap(m *mapState, at ast.Node) {
	if b.final && !b.everWritten(m) {
		d := b.fail(diag.UndefinedMap, at, "Undefined map: %s", m.Name)
		var names []string
		for _, other := range b.maps {
			if b.everWritten(other) {
				names = append(names, strings.TrimPrefix(other.Name, "@"))
			}
		}
		slices.Sort(names)
		suggest(d, strings.TrimPrefix(m.Name, "@"), "@", names)
	}
}

// everWritten reports whether any clause writes m. In the last round a write may come after
// the read, so the result is that of the previous round.
func (b *body) everWritten(m *mapState) bool { return m.written || m.wasWritten }

// maxParams bounds the number of positional parameters.
const maxParams = 128

// positional types $N; asString where a string is expected.
func (b *body) positional(x *ast.Positional, e *Expr, asString bool) {
	p := b.param(x)
	if p == nil {
		return
	}
	e.Param, e.AsString = p, asString
	if asString {
		p.Str = true
		e.Type = types.MakeString(b.info.Config.MaxStrlen)
		return
	}
	p.Int = true
	e.Type, e.Late = types.TInt64, true
}

// param returns the record of a parameter; nil, with an error, when there are too many.
func (b *body) param(x *ast.Positional) *Param {
	p := b.params[x.N]
	if p == nil {
		if len(b.params) == maxParams {
			b.fail(diag.TooLarge, x, "too many parameters (max %d)", maxParams)
			return nil
		}
		p = &Param{N: x.N, At: x.At}
		b.params[x.N] = p
	}
	return p
}

// asString types x where a string is expected: a parameter is a string there.
func (b *body) asString(x ast.Expr) *types.Type {
	if p, ok := ast.Unparen(x).(*ast.Positional); ok {
		e := b.set(p, &Expr{})
		b.positional(p, e, true)
		return e.Type
	}
	return b.value(x)
}

func (b *body) ternary(x *ast.Ternary, e *Expr) {
	then := x.Then
	if then == nil { // c ?: d
		then = x.Cond
	}
	b.condition(x.Cond)
	if b.expr(then).Type.Kind == types.None && x.Then != nil {
		b.expr(x.Else)
		e.Type = types.TNone // printf("a") : exit()
		return
	}
	t, u := b.value(then), b.value(x.Else)
	if chosen := b.literalBranch(x.Cond, then, x.Else); chosen != nil && !invalid(t) && !invalid(u) {
		c := b.out.Expr(chosen)
		e.Type, e.Const = c.Type, c.Const
		return
	}
	if b.branches(x, e, t, u); invalid(e.Type) {
		return
	}
	if c := b.out.Expr(x.Cond).Const; c != nil && !c.Host && !c.IsStr {
		chosen := x.Else
		if c.Int != 0 {
			chosen = then
		}
		if v := b.out.Expr(chosen).Const; v != nil {
			value := *v
			value.lit = value.IsStr
			e.Const = &value
		}
	}
}

// literalBranch returns the branch that a literal condition selects, if both branches are literals too: it replaces
// the expression, and the types of the branches may differ.
func (b *body) literalBranch(cond, then, otherwise ast.Expr) ast.Expr {
	c, t, u := b.out.Expr(cond).Const, b.out.Expr(then).Const, b.out.Expr(otherwise).Const
	switch {
	case c == nil || t == nil || u == nil || c.Host || t.Host || u.Host || c.IsStr || !c.lit || !t.lit || !u.lit:
		return nil
	case c.Int != 0:
		return then
	}
	return otherwise
}

// branches finds the common type of two branches.
func (b *body) branches(x ast.Node, e *Expr, t, u *types.Type) {
	if invalid(t) || invalid(u) {
		return
	}
	p, ok := types.Promote(t, u)
	if !ok {
		b.fail(diag.BadBranches, x, "Branches must return the same type or compatible types: have '%s' and '%s'", t, u)
		return
	}
	if p.Lossy {
		if u.Signed {
			u = t
		}
		b.lossy(x, u, p.Type)
	}
	e.Type = p.Type
}

func (b *body) ifExpr(x *ast.IfExpr, e *Expr) {
	b.condition(x.Cond)
	if then, known := b.out.Taken(x); known {
		e.Type = types.TNone
		var taken ast.Expr
		switch {
		case then:
			taken = x.Then
		case x.Else != nil:
			taken = x.Else
		default:
			return
		}
		value := b.expr(taken)
		e.Type, e.Const, e.Late = value.Type, value.Const, value.Late
		return
	}
	if b.undecided(x) {
		return
	}
	t := b.expr(x.Then).Type
	if x.Else == nil {
		e.Type = types.TNone
		return
	}
	u := b.expr(x.Else).Type
	if t.Kind == types.None || u.Kind == types.None {
		e.Type = types.TNone
		return
	}
	b.branches(x, e, t, u)
}

func (b *body) blockExpr(x *ast.Block, e *Expr) {
	ends := b.block(x)
	e.Type = types.TNone
	if x.Value == nil {
		return
	}
	value := b.expr(x.Value)
	e.Type = value.Type
	if len(x.Stmts) == 0 {
		e.Const, e.Late = value.Const, value.Late
	}
	if ends {
		b.fail(diag.Unreachable, x.Value, "Unreachable expression; block type is implicitly none.")
	}
}

// comptime checks "comptime x". Values that depend on kernel types and enumerators are the target's: they decide what
// is compiled, so they cannot be relocated on the host.
func (b *body) comptime(x *ast.Comptime, e *Expr) {
	t := b.value(x.X)
	if invalid(t) {
		return
	}
	e.Type = t
	e.Known = b.out.Expr(x.X).Known
	if e.Const = b.out.Expr(x.X).Const; e.Const == nil && e.Known == nil {
		b.fail(diag.NotConstant, x, "Unable to resolve comptime expression")
		e.Type = types.TInvalid
	}
	if e.Const != nil && e.Const.Host {
		fixed := *e.Const
		fixed.Host = false
		e.Const = &fixed
	}
}

// constElement returns the value of a literal tuple's element, if all elements are
// constant.
func (b *body) constElement(x *ast.TupleIndex) *Const {
	tuple, ok := ast.Unparen(x.X).(*ast.Tuple)
	if !ok {
		return nil
	}
	return b.partOf(tuple.Elems, x.Index)
}

// partOf returns the value of one of the elements of a literal tuple or record, if all are constant.
func (b *body) partOf(elems []ast.Expr, i int) *Const {
	for _, elem := range elems {
		if b.out.Expr(elem).Const == nil {
			return nil
		}
	}
	return b.out.Expr(elems[i]).Const
}

func (b *body) tupleIndex(x *ast.TupleIndex, e *Expr) {
	t := b.value(x.X)
	switch {
	case invalid(t):
	case t.Kind != types.Tuple:
		d := b.fail(diag.BadAccess, x, "Can not access index '%d' on expression of type '%s'", x.Index, t)
		if _, number := ast.Unparen(x.X).(*ast.IntLit); number {
			d.Hint("floating-point numbers are not supported")
		}
	case x.Index < 0 || x.Index >= len(t.Fields):
		b.fail(diag.OutOfBounds, x, "Invalid tuple index: %d. Found %d elements in tuple.", x.Index, len(t.Fields))
	default:
		e.Elem, e.Type = x.Index, t.Fields[x.Index].Type
		e.Const = b.constElement(x)
	}
}
