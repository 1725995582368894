package check

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
)

// metaRows are functions that are gone when the script is compiled: they ask
// for types and constants, and evaluate nothing.
func metaRows() []Function {
	row := func(name string, is func(*Expr) bool) Function {
		return Function{Name: name, min: 1, max: 1, Supported: true, check: func(b *body, c *callSite) { b.predicate(c, is) }}
	}
	kind := func(k types.Kind) func(*Expr) bool { return func(e *Expr) bool { return e.Type.Kind == k } }
	return []Function{
		row("is_array", kind(types.Array)),
		row("is_ptr", kind(types.Pointer)),
		row("is_str", kind(types.String)),
		row("is_integer", func(e *Expr) bool { return e.Type.Kind == types.Int || e.Type.Kind == types.Enum }),
		row("is_unsigned_integer", func(e *Expr) bool { return e.Type.Kind == types.Int && !e.Type.Signed }),
		row("is_literal", func(e *Expr) bool { return e.Const != nil && !e.Const.Host }),
		{Name: "is_scalar", min: 1, max: 1, Supported: true, check: (*body).isScalar},
		{Name: "default_str_length", Supported: true, check: func(b *body, c *callSite) {
			c.e.Type, c.e.Const = types.TUint64, &Const{Int: int64(b.info.Config.MaxStrlen)}
		}},
		{Name: "fail", min: 1, max: 128, result: types.TNone, Effect: true, Supported: true, check: (*body).failCall},
	}
}

// predicate is a question about an expression that is not evaluated. While types
// are still being found it has no answer.
func (b *body) predicate(c *callSite, is func(*Expr) bool) {
	b.quiet++
	defer func() { b.quiet-- }()
	e := b.expr(c.args[0])
	if invalid(e.Type) {
		return
	}
	c.e.Type, c.e.Const = types.TBool, boolConst(is(e))
}

// isScalar asks whether a map has no keys.
func (b *body) isScalar(c *callSite) {
	x, ok := ast.Unparen(c.args[0]).(*ast.Map)
	if !ok {
		b.fail(diag.BadArguments, c.args[0], "is_scalar() expects a map argument")
		return
	}
	if m := b.mapNamed(x); m.use != keyUnknown || b.final {
		c.e.Type, c.e.Const = types.TBool, boolConst(m.use != keyKeyed)
	}
}

// failCall is fail("text", literals): it is an error to get there.
func (b *body) failCall(c *callSite) {
	var texts []string
	for _, a := range c.args {
		if invalid(b.expr(a).Type) {
			return
		}
		k := b.out.Expr(a).Const
		switch {
		case k == nil:
			b.fail(diag.NotConstant, a, "fail() takes literals only")
			return
		case k.IsStr:
			texts = append(texts, k.Str)
		default:
			texts = append(texts, exact(k, b.out.Expr(a).Type).String())
		}
	}
	if !b.out.Expr(c.args[0]).Const.IsStr {
		b.fail(diag.BadArguments, c.args[0], "fail() expects a string literal as the first argument")
		return
	}
	b.fail(diag.ScriptFails, c.at, "%s", fillIn(texts[0], texts[1:]))
}

// fillIn puts texts for the conversions of a format.
func fillIn(format string, args []string) string {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		for i++; i < len(format)-1 && strings.IndexByte("0123456789lhzjt-+#", format[i]) >= 0; i++ {
		}
		switch {
		case format[i] == '%':
			out.WriteByte('%')
		case len(args) > 0:
			out.WriteString(args[0])
			args = args[1:]
		}
	}
	return out.String()
}

// TypeInfo is what typeinfo says of a type.
type TypeInfo struct{ Base, Full string }

// typeinfoRecord is the type of typeinfo.
func typeinfoRecord(i *TypeInfo) *types.Type {
	return types.MakeRecord(types.Field{Name: "btf_id", Type: types.Literal(0)},
		types.Field{Name: "base_type", Type: types.MakeString(len(i.Base) + 1)},
		types.Field{Name: "full_type", Type: types.MakeString(len(i.Full) + 1)})
}

// typeinfo is "typeinfo(type or expression)": a record (btf_id, base_type,
// full_type). The id is 0: it would be another in each kernel.
func (b *body) typeinfo(x *ast.Typeinfo, e *Expr) {
	const key = "unstable_typeinfo"
	switch b.info.Config.Values[key] {
	case "error":
		b.fail(diag.BadConfigKey, x, "typeinfo feature is not enabled by default. To enable this unstable feature, set the config flag to enable. %s=enable", key)
	case "warn":
		b.fail(diag.Ignored, x, "typeinfo is an unstable feature of the language")
	}
	t := b.typeof(x.Arg)
	if invalid(t) {
		return
	}
	e.Info = &TypeInfo{Base: baseNames[t.Kind], Full: t.String()}
	e.Type = typeinfoRecord(e.Info)
}

// infoField is a field of a typeinfo: a constant.
func (b *body) infoField(x *ast.Field, e *Expr, i *TypeInfo) {
	switch x.Name.Text {
	case "btf_id":
		e.Type, e.Const = types.Literal(0), &Const{lit: true}
	case "base_type":
		b.stringConst(x, e, i.Base)
	case "full_type":
		b.stringConst(x, e, i.Full)
	default:
		b.fail(diag.UnknownField, x.Name, "Record does not contain a field named '%s'", x.Name.Text)
	}
}

// compareInfo folds the comparison of two typeinfos; false for anything else.
func (b *body) compareInfo(x *ast.Binary, e *Expr) bool {
	l, r := b.out.Expr(x.X).Info, b.out.Expr(x.Y).Info
	if l == nil || r == nil || x.Op != ast.Eq && x.Op != ast.Ne {
		return false
	}
	e.Type, e.Const = types.TBool, boolConst((*l == *r) == (x.Op == ast.Eq))
	return true
}

// baseNames are the names of kinds of types in typeinfo.
var baseNames = map[types.Kind]string{
	types.None: "none", types.Int: "int", types.Enum: "int", types.Bool: "bool", types.String: "string", types.Buffer: "buffer",
	types.Pointer: "pointer", types.Array: "array", types.Struct: "c_type", types.Tuple: "tuple", types.Record: "record",
	types.Kstack: "kstack", types.Ustack: "ustack", types.Ksym: "ksym_t", types.Usym: "usym_t", types.Inet: "inet",
	types.Mac: "mac_address", types.Timestamp: "timestamp", types.Username: "username_t", types.CgroupPath: "cgroup_path_t",
	types.Probe: "string", types.Count: "count_t", types.Sum: "sum_t", types.Min: "min_t", types.Max: "max_t", types.Avg: "avg_t",
	types.Stats: "stats_t", types.Hist: "hist_t", types.Lhist: "lhist_t", types.Tseries: "tseries_t",
}
