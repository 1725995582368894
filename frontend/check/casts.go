package check

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/ir/target"
)

// languageTypes are the type names of the language; string, buffer and inet
// take a size.
var languageTypes = map[string]*types.Type{
	"bool": types.TBool, "void": types.TNone, "string": types.MakeString(0), "buffer": types.MakeBuffer(0),
	"int8": types.TInt8, "int16": types.TInt16, "int32": types.TInt32, "int64": types.TInt64,
	"uint8": types.TUint8, "uint16": types.TUint16, "uint32": types.TUint32, "uint64": types.TUint64,
	"inet": types.TInet, "timestamp": types.MakeTimestamp("", 0), "macaddr_t": types.TMac,
	"cgroup_path_t": types.TCgroupPath, "username_t": types.TUsername,
	"count_t": types.MakeAgg(types.Count, false),
	"sum_t":   types.MakeAgg(types.Sum, true), "usum_t": types.MakeAgg(types.Sum, false),
	"min_t": types.MakeAgg(types.Min, true), "umin_t": types.MakeAgg(types.Min, false),
	"max_t": types.MakeAgg(types.Max, true), "umax_t": types.MakeAgg(types.Max, false),
	"avg_t": types.MakeAgg(types.Avg, true), "uavg_t": types.MakeAgg(types.Avg, false),
	"stats_t": types.MakeAgg(types.Stats, true), "ustats_t": types.MakeAgg(types.Stats, false),
}

// resolveType finds the type that is written; an unknown one is reported.
func (b *body) resolveType(t ast.Type) *types.Type {
	switch t := t.(type) {
	case *ast.NamedType:
		return b.namedType(t, t.Name)
	case *ast.TagType:
		return b.tagType(t)
	case *ast.PointerType:
		elem := b.resolveType(t.Elem)
		if invalid(elem) {
			return elem
		}
		return types.MakePointer(elem, types.NoSpace)
	case *ast.ArrayType:
		return b.arrayType(t)
	case *ast.TypeofType:
		return b.typeof(t.Arg)
	}
	panic("BUG: unknown form of type")
}

func (b *body) namedType(at ast.Node, name string) *types.Type {
	if t, ok := languageTypes[name]; ok {
		return t
	}
	if t, ok := b.env.Named(name); ok {
		return t
	}
	b.fail(diag.UnknownType, at, "Cannot resolve unknown type \"%s\"", name)
	return types.TInvalid
}

func (b *body) tagType(t *ast.TagType) *types.Type {
	if typ, ok := b.env.Tagged(t.Kind.String(), t.Name); ok {
		return typ
	}
	if t.Kind == ast.EnumTag {
		b.fail(diag.UnknownType, t, "Unknown enum: %s", t.Name)
		return types.TInvalid
	}
	d := b.fail(diag.UnknownType, t, "Unknown struct/union: '%s %s'", t.Kind, t.Name)
	head := t.Name[:min(len(t.Name), 3)]
	if near := target.Nearest(t.Name, b.t.StructNames(head+"*")); near != "" {
		d.Hint("did you mean struct %s?", near)
	}
	return types.TInvalid
}

// maxArray bounds arrays that scripts write.
const maxArray = 1 << 16

func (b *body) arrayType(t *ast.ArrayType) *types.Type {
	elem := b.resolveType(t.Elem)
	n := 0
	if t.Len != nil {
		if t.Len.Value > maxArray {
			b.fail(diag.OutOfBounds, t.Len, "arrays and strings hold at most %d elements", maxArray)
			return types.TInvalid
		}
		n = int(t.Len.Value)
	}
	switch {
	case invalid(elem):
		return elem
	case elem.Kind == types.String && elem.Size == 0:
		return types.MakeString(n)
	case elem.Kind == types.Buffer && elem.Size == 0:
		return types.MakeBuffer(n)
	case elem.Kind == types.Inet:
		return elem
	}
	return types.MakeArray(elem, n)
}

// typeof is the type of an expression that is not evaluated.
func (b *body) typeof(x ast.Expr) *types.Type {
	b.quiet++
	defer func() { b.quiet-- }()
	switch x := ast.Unparen(x).(type) {
	case *ast.TypeExpr:
		return b.resolveType(x.Type)
	case *ast.Ident:
		if t, ok := languageTypes[x.Name]; ok {
			return t
		}
		if _, isFunction := b.functions[x.Name]; !isFunction {
			if t, ok := b.env.Named(x.Name); ok {
				return t
			}
		}
	case *ast.Map:
		m := b.mapNamed(x)
		if m.use == keyKeyed {
			return orInvalid(m.Key)
		}
		if m.use == keyUnknown && !b.final {
			return types.TInvalid // a later line may tell
		}
	}
	return b.value(x)
}

// cast is "(type)x".
func (b *body) cast(x *ast.Cast, e *Expr) {
	to := b.resolveType(x.Type)
	from := b.value(x.X)
	if invalid(to) || invalid(from) {
		return
	}
	in := b.out.Expr(x.X)
	if to.Kind == types.Pointer {
		space := types.NoSpace
		if from.Kind == types.Pointer {
			space = from.Space
		}
		if space == types.NoSpace {
			space = b.space()
			if in.Place != nil && in.Place.Space != types.NoSpace && from.Kind != types.Pointer {
				space = in.Place.Space
			}
		}
		to = to.WithSpace(space)
	}
	if !b.castable(x, from, &to) {
		return
	}
	if c := in.Const; to.Kind == types.Enum && c != nil && c.lit && !to.Enum.Has(c.Int) {
		b.fail(diag.BadCast, x, "Enum: %s doesn't contain a variant value of %d", strings.TrimPrefix(to.String(), "enum "), c.Int)
		return
	}
	e.Type = to
	if types.Equal(from, to) && !from.Flexible && to.IsInteger() && !in.Reads {
		b.fail(diag.NeedlessCast, x, "Unnecessary cast: expression is already of type %s", to)
	}
	if c := in.Const; c != nil && c.IsStr && to.Kind == types.Bool {
		e.Const = boolConst(untilNUL(c.Str) != "")
	}
	if c := in.Const; c != nil && !c.IsStr && (to.IsInteger() || to.Kind == types.Pointer) {
		v := c.Int
		switch {
		case to.IsInteger():
			v = truncate(v, to)
		case from.IsInteger() && from.Size < 8: // an address has no sign
			v = int64(uint64(v) & (1<<(8*from.Size) - 1))
		}
		e.Const = &Const{Int: v, Host: c.Host}
	}
}

// castable decides whether a value of type from becomes one of type *to; it
// completes a type without a size.
func (b *body) castable(x *ast.Cast, from *types.Type, to **types.Type) bool {
	t := *to
	scalar := from.IsInteger() || from.Kind == types.Pointer
	switch t.Kind {
	case types.Int, types.Enum, types.Bool, types.Pointer:
		if scalar || t.Kind == types.Bool && from.Kind == types.String || t.Kind == types.Int && (from.Kind == types.Ksym || from.Kind == types.Timestamp) {
			return true
		}
		if from.Kind == types.Array && from.Elem.IsInteger() {
			if from.Size == t.Size && t.Kind == types.Int {
				return true
			}
		}
	case types.Username:
		if from.IsInteger() {
			return true
		}
	case types.String:
		if from.Kind == types.String && (t.Size == 0 || t.Size >= from.Size) {
			if t.Size == 0 {
				*to = from
			}
			return true
		}
	case types.Array:
		if size, ok := b.arraySize(x.X, from, t); ok {
			*to = types.MakeArray(t.Elem, size/t.Elem.Size)
			return true
		}
	case types.Struct:
		b.fail(diag.BadCast, x, "Cannot cast to \"%s\"", t).Hint("pointers can be cast: (%s *)", t)
		return false
	}
	if from.Kind == types.Struct {
		b.fail(diag.BadCast, x, "Cannot cast from C type \"%s\"", from)
		return false
	}
	b.fail(diag.BadCast, x, "Cannot cast from \"%s\" to \"%s\"", from, t)
	return false
}

// arraySize is the size in bytes of a number or a string as an array of type t;
// false when it can not be one. A literal takes any size up to 8 bytes.
func (b *body) arraySize(x ast.Expr, from, t *types.Type) (size int, ok bool) {
	size = from.Size
	switch {
	case !t.Elem.IsInteger():
		return 0, false
	case from.Kind == types.String:
		ok = t.Elem.Size == 1
	case from.IsInteger() || from.Kind == types.Pointer:
		ok = true
		if c := b.out.Expr(x).Const; c != nil && c.lit && t.Len > 0 {
			return t.Size, t.Size <= 8
		}
	}
	return size, ok && size%t.Elem.Size == 0 && (t.Len == 0 || t.Size == size)
}

func (b *body) sizeof(x *ast.Sizeof, e *Expr) {
	t := b.typeof(x.Arg)
	if invalid(t) {
		return
	}
	if t.Kind == types.Struct && t.Comp.Forward {
		b.fail(diag.UnknownType, x, "Unknown struct/union: '%s'", t)
		return
	}
	e.Type = types.TUint64
	e.Const = &Const{Int: int64(t.Size)}
	if _, named := ast.Unparen(x.Arg).(*ast.Ident); named && t.Kind == types.Enum {
		e.Const.Int = 8 // an enumerator is a number of 64 bits
	}
	if t.Kind == types.Struct && t.Comp.CORE != "" {
		e.Const.Host = true
		e.Extent = &Extent{Type: t.Comp.CORE}
	}
}

// offsetof is "offsetof(type, a.b.c)".
func (b *body) offsetof(x *ast.Offsetof, e *Expr) {
	t := b.typeof(x.Arg)
	if invalid(t) {
		return
	}
	if t.Kind == types.Pointer {
		t = t.Elem
	}
	off, core := 0, ""
	var path []string
	for i, f := range x.Fields {
		if t.Kind != types.Struct {
			b.fail(diag.BadAccess, f, "'%s' is not a C type.", t)
			return
		}
		m, ok := t.Comp.Find(f.Text)
		if !ok {
			b.fail(diag.UnknownField, f, "Struct/union of type '%s' does not contain a field named '%s'", t, f.Text)
			return
		}
		if i == 0 {
			core = t.Comp.CORE
		}
		off += m.Off
		path = append(path, f.Text)
		t = m.Type
	}
	e.Type = types.TUint64
	e.Const = &Const{Int: int64(off)}
	if core != "" {
		e.Const.Host = true
		e.Extent = &Extent{Type: core, Path: strings.Join(path, ".")}
	}
}
