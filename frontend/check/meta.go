// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
)

// metaRows are functions evaluated at compile time: they query types and constants, and generate no code.
func metaRows() []Function {
	row := func(name string, is func(*Expr) bool) Function {
		return Function{Name: name, min: 1, max: 1, check: func(b *body, c *callSite) { b.predicate(c, is) }}
	}
	kind := func(k types.Kind) func(*Expr) bool { return func(e *Expr) bool { return e.Type.Kind == k } }
	return []Function{
		row("is_array", kind(types.Array)),
		row("is_ptr", kind(types.Pointer)),
		row("is_str", kind(types.String)),
		row("is_integer", func(e *Expr) bool { return e.Type.Kind == types.Int || e.Type.Kind == types.Enum }),
		row("is_unsigned_integer", func(e *Expr) bool { return e.Type.Kind == types.Int && !e.Type.Signed }),
		row("is_literal", func(e *Expr) bool { return e.Const != nil && !e.Const.Host }),
		{Name: "is_scalar", min: 1, max: 1, check: (*body).isScalar},
		{Name: "default_str_length", value: true, check: func(b *body, c *callSite) {
			c.e.Type, c.e.Const = types.TUint64, &Const{Int: int64(b.info.Config.MaxStrlen)}
		}},
		{Name: "config", value: true, check: (*body).configRecord},
		{Name: "fail", min: 1, max: 128, result: types.TNone, Effect: true, check: (*body).failCall, text0: true},
	}
}

// predicate checks a call that asks a question about an expression, which is not evaluated. The
// answer is not known while types are still being inferred.
func (b *body) predicate(c *callSite, is func(*Expr) bool) {
	b.quiet++
	defer func() { b.quiet-- }()
	e := b.expr(c.args[0])
	if invalid(e.Type) {
		return
	}
	c.e.Type, c.e.Const = types.TBool, literalBool(is(e))
}

// isScalar checks is_scalar(@m): whether the map has no keys.
func (b *body) isScalar(c *callSite) {
	x, ok := ast.Unparen(c.args[0]).(*ast.Map)
	if !ok {
		b.fail(diag.BadArguments, c.args[0], "is_scalar() expects a map argument")
		return
	}
	if m := b.mapNamed(x); m.use != keyUnknown || b.final {
		c.e.Type, c.e.Const = types.TBool, literalBool(m.use != keyKeyed)
	}
}

// failCall checks fail("message", literals): an error if the call is part of the compiled code.
func (b *body) failCall(c *callSite) {
	var texts []string
	for _, a := range c.args {
		if invalid(b.expr(a).Type) {
			return
		}
		k := b.out.Expr(a).Const
		switch {
		case k == nil:
			b.fail(diag.NotConstant, a, "fail() accepts only literals")
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

// fillIn replaces the conversions of a format by strings.
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

// KnownField is a field of a record whose values are known at compile time: that of typeinfo() or config.
type KnownField struct {
	Name string
	Str  string
	// Int is the value of fields that are not strings.
	Int  int64
	Type *types.Type
}

func knownText(name, text string) KnownField {
	return KnownField{Name: name, Str: text, Type: types.MakeString(len(text) + 1)}
}

// known sets e to a record of known fields.
func (e *Expr) known(fields []KnownField) {
	all := make([]types.Field, len(fields))
	for i, f := range fields {
		all[i] = types.Field{Name: f.Name, Type: f.Type}
	}
	e.Known, e.Type = fields, types.MakeRecord(all...)
}

// configRecord checks the builtin config, a record of the settings that the script is compiled
// with.
func (b *body) configRecord(c *callSite) {
	var fields []KnownField
	for _, s := range settings {
		text := b.info.Config.Values[s.name]
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case s.noop:
		case s.bool:
			fields = append(fields, KnownField{Name: s.name, Int: boolConst(text == "true").Int, Type: types.TBool})
		case s.text || s.values != nil || err != nil:
			fields = append(fields, knownText(s.name, text))
		default:
			fields = append(fields, KnownField{Name: s.name, Int: n, Type: types.TUint64})
		}
	}
	c.e.known(fields)
}

// unstable reports an error for an experimental feature of the language, or warns at its first use, as the script's
// config block says.
func (b *body) unstable(feature string, at ast.Node) {
	key := "unstable_" + feature
	switch b.info.Config.Values[key] {
	case "error":
		b.fail(diag.BadConfigKey, at,
			"%s feature is not enabled by default. To enable this unstable feature, set the config flag to enable. %s=enable",
			feature, key)
	case "warn":
		if !b.final || b.warned[feature] {
			return
		}
		b.warned[feature] = true
		b.l.Add(diag.Ignored, diag.Span{},
			"Script is using an unstable feature: %s. To prevent this warning you must explicitly enable it in the config e.g. %s=enable",
			feature, key)
	}
}

// typeinfo checks "typeinfo(type or expression)": a record (btf_id, base_type,
// full_type). The id is 0, because it differs between kernels.
func (b *body) typeinfo(x *ast.Typeinfo, e *Expr) {
	b.unstable("typeinfo", x)
	t := b.typeof(x.Arg)
	if invalid(t) {
		return
	}
	e.known([]KnownField{
		{Name: "btf_id", Type: types.TUint64}, knownText("base_type", baseNames[t.Kind]),
		knownText("full_type", t.String()),
	})
}

// knownField sets e to a field of a record of known values: a constant.
func (b *body) knownField(x *ast.Field, e *Expr, fields []KnownField) {
	for _, f := range fields {
		switch {
		case f.Name != x.Name.Text:
		case f.Type.Kind == types.String:
			b.stringConst(x, e, f.Str)
			return
		default:
			e.Type, e.Const = f.Type, &Const{Int: f.Int}
			return
		}
	}
	b.fail(diag.UnknownField, x.Name, "Record does not contain a field named '%s'", x.Name.Text)
}

// compareKnown folds the comparison of two typeinfos; false for anything else.
func (b *body) compareKnown(x *ast.Binary, e *Expr) bool {
	l, r := b.out.Expr(x.X).Known, b.out.Expr(x.Y).Known
	if l == nil || r == nil || x.Op != ast.Eq && x.Op != ast.Ne {
		return false
	}
	same := slices.EqualFunc(l, r,
		func(a, b KnownField) bool { return a.Name == b.Name && a.Str == b.Str && a.Int == b.Int })
	e.Type, e.Const = types.TBool, literalBool(same == (x.Op == ast.Eq))
	return true
}

// baseNames are the names of kinds of types in typeinfo().
var baseNames = map[types.Kind]string{
	types.None: "none", types.Int: "int", types.Enum: "int", types.Bool: "bool", types.String: "string", types.Buffer: "buffer",
	types.Pointer: "pointer", types.Array: "array", types.Struct: "c_type", types.Tuple: "tuple", types.Record: "record",
	types.Kstack: "kstack", types.Ustack: "ustack", types.Ksym: "ksym_t", types.Usym: "usym_t", types.Inet: "inet",
	types.Mac: "mac_address", types.Timestamp: "timestamp", types.Username: "username_t", types.CgroupPath: "cgroup_path_t",
	types.Probe: "string", types.Count: "count_t", types.Sum: "sum_t", types.Min: "min_t", types.Max: "max_t", types.Avg: "avg_t",
	types.Stats: "stats_t", types.Hist: "hist_t", types.Lhist: "lhist_t", types.Tseries: "tseries_t",
}
