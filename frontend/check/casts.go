// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math/big"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/debuginfo"
	"btc/frontend/diag"
	"btc/frontend/types"
)

// languageTypes are the type names of the language; string, buffer and inet have a size.
var languageTypes = map[string]*types.Type{
	"bool":          types.TBool,
	"void":          types.TNone,
	"string":        types.MakeString(0),
	"buffer":        types.MakeBuffer(0),
	"int8":          types.TInt8,
	"int16":         types.TInt16,
	"int32":         types.TInt32,
	"int64":         types.TInt64,
	"uint8":         types.TUint8,
	"uint16":        types.TUint16,
	"uint32":        types.TUint32,
	"uint64":        types.TUint64,
	"inet":          types.TInet,
	"timestamp":     types.MakeTimestamp("", "", 0),
	"macaddr_t":     types.TMac,
	"cgroup_path_t": types.TCgroupPath,
	"username_t":    types.TUsername,
	"count_t":       types.MakeAgg(types.Count, false),
	"sum_t":         types.MakeAgg(types.Sum, true),
	"usum_t":        types.MakeAgg(types.Sum, false),
	"min_t":         types.MakeAgg(types.Min, true),
	"umin_t":        types.MakeAgg(types.Min, false),
	"max_t":         types.MakeAgg(types.Max, true),
	"umax_t":        types.MakeAgg(types.Max, false),
	"avg_t":         types.MakeAgg(types.Avg, true),
	"uavg_t":        types.MakeAgg(types.Avg, false),
	"stats_t":       types.MakeAgg(types.Stats, true),
	"ustats_t":      types.MakeAgg(types.Stats, false),
}

// resolveType resolves a type as written, and reports an unknown one.
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
	if t, ok := b.userType(at, func(d *debuginfo.Binary) (*types.Type, bool) { return d.Named(name) }); ok {
		return t
	}
	suggest(b.fail(diag.UnknownType, at, "Cannot resolve unknown type \"%s\"", name), name, "", namesOf(languageTypes))
	return types.TInvalid
}

// tagNames returns the tags of the script, and those of the target that share a prefix with name.
func (b *body) tagNames(word, name string) []string {
	if !b.final || !b.guess() {
		return nil
	}
	all, head := b.env.Tags(word), name[:min(len(name), 1)]
	switch word {
	case "enum":
		return append(all, b.t.EnumNames(head+"*")...)
	case "struct":
		return append(all, b.t.StructNames(head+"*")...)
	}
	return all
}

func (b *body) tagType(t *ast.TagType) *types.Type {
	word := t.Kind.String()
	own := b.env.Own(word, t.Name)
	inProgram := func(d *debuginfo.Binary) (*types.Type, bool) { return d.Tagged(word, t.Name) }
	// Both the program and the kernel may have the type. A uprobe means the program's.
	if !own && !b.severalPrograms() {
		if typ, ok := b.userType(t, inProgram); ok {
			return typ
		}
	}
	if typ, ok := b.env.Tagged(word, t.Name); ok {
		return typ
	}
	if typ, ok := b.userType(t, inProgram); ok {
		return typ
	}
	if t.Kind == ast.EnumTag {
		d := b.fail(diag.UnknownType, t, "Unknown enum: %s", t.Name)
		suggest(d, t.Name, "enum ", b.tagNames("enum", t.Name))
		return types.TInvalid
	}
	d := b.fail(diag.UnknownType, t, "Unknown struct/union: '%s %s'", t.Kind, t.Name)
	suggest(d, t.Name, t.Kind.String()+" ", b.tagNames(t.Kind.String(), t.Name))
	return types.TInvalid
}

// Bounds of arrays that scripts write.
const (
	maxArray      = 1 << 16 // elements
	maxArrayBytes = 1 << 26
)

func (b *body) arrayType(t *ast.ArrayType) *types.Type {
	elem := b.resolveType(t.Elem)
	n := 0
	if t.Len != nil {
		if t.Len.Value > maxArray {
			b.fail(diag.OutOfBounds, t.Len, "array or string too long (max %d elements)", maxArray)
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
	if n*elem.Size > maxArrayBytes {
		b.fail(diag.OutOfBounds, t, "array too large (max %d bytes)", maxArrayBytes)
		return types.TInvalid
	}
	return types.MakeArray(elem, n)
}

// typeof returns the type of an expression that is not evaluated.
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
			return types.TInvalid // a later statement may decide
		}
	}
	return b.value(x)
}

// cast checks "(type)x".
func (b *body) cast(x *ast.Cast, e *Expr) {
	to := wideEnum(b.resolveType(x.Type))
	from := b.value(x.X)
	if invalid(to) || invalid(from) {
		return
	}
	in := b.out.Expr(x.X)
	if space := origin(in); space != types.NoSpace {
		to = to.WithSpace(space)
	}
	if !b.castable(x, from, &to) {
		return
	}
	// bpftrace looks up only literals that are not negative, and none in sizeof.
	if c := in.Const; to.Kind == types.Enum && b.quiet == 0 && in.isNumber() && exact(c, from).Sign() >= 0 && !to.Enum.Has(c.Int) {
		d := b.fail(diag.BadCast, x, "Enum: %s doesn't contain a variant value of %d",
			strings.TrimPrefix(to.String(), "enum "), c.Int)
		if n := len(to.Enum.Values); n > 0 && n <= 8 {
			var all []string
			for _, v := range to.Enum.Values {
				all = append(all, fmt.Sprintf("%s = %d", v.Name, v.Value))
			}
			d.Hint("it has %s", strings.Join(all, ", "))
		}
		return
	}
	e.Type = to
	if types.Equal(from, to) && (to.Kind == types.Int || to.Kind == types.Array || to.Kind == types.Pointer) &&
		!in.Reads &&
		!measured(x.X) {
		b.fail(diag.NeedlessCast, x, "Unnecessary cast: expression is already of type %s", to)
	}
	if c := in.Const; c != nil && c.IsStr && to.Kind == types.Bool {
		e.Const = literalBool(untilNUL(c.Str) != "")
	}
	if c := in.Const; c != nil && !c.IsStr && (to.IsInteger() || to.Kind == types.Pointer) {
		v := c.Int
		switch {
		case to.IsInteger():
			v = truncate(v, to)
		case from.IsInteger() && from.Size < 8: // an address is unsigned
			v = int64(uint64(v) & (1<<(8*from.Size) - 1))
		}
		e.Const = &Const{Int: v, Host: c.Host, lit: c.lit && to.Kind == types.Bool}
	}
}

// origin returns the address space that a value comes from.
func origin(e *Expr) types.Space {
	switch p := e.Location; {
	case e.Type.Kind == types.Ksym:
		return types.Kernel
	case p == nil || e.Type.IsScalar():
		return e.Type.Space
	case p.Root == RootCtx: // the record itself
		return types.Kernel
	default: // an array decays to its address
		return p.Space
	}
}

// wideEnum returns the type of a value of enum t that is not a member of a C struct:
// the language stores it in 64 bits.
func wideEnum(t *types.Type) *types.Type {
	if t.Kind != types.Enum || t.Size == 8 {
		return t
	}
	return types.MakeEnum(t.Enum, 8, t.Signed)
}

// measured reports whether x is a size or an offset. For kernel types, their type is wider here than in bpftrace,
// where a cast to it is not redundant.
func measured(x ast.Expr) bool {
	switch x.(type) {
	case *ast.Sizeof, *ast.Offsetof:
		return true
	}
	return false
}

// castable reports whether a value of type from can be cast to *to; it completes a type without a size.
func (b *body) castable(x *ast.Cast, from *types.Type, to **types.Type) bool {
	t := *to
	scalar := from.IsInteger() || from.Kind == types.Pointer
	switch t.Kind {
	case types.Int, types.Enum, types.Bool, types.Pointer:
		if scalar || t.Kind == types.Bool && from.Kind == types.String ||
			t.Kind == types.Int && (from.Kind == types.Ksym || from.Kind == types.Timestamp) {
			return true
		}
		if from.Kind == types.Array && from.Elem.IsInteger() {
			if from.Size == t.Size && t.Kind == types.Int {
				return true
			}
		}
		if t.Kind == types.Pointer && b.decays(x.X, from) {
			return true
		}
	case types.Username:
		if from.IsInteger() {
			return true
		}
	case types.String:
		if from.Kind == types.String && t.Size >= from.Size {
			return true
		}
	case types.Array:
		if types.Equal(from, t) {
			return true
		}
		if size, ok := b.arraySize(x.X, from, t); ok {
			*to = types.MakeArray(t.Elem, size/t.Elem.Size)
			return true
		}
		if t.Len == 0 && from.IsInteger() && t.Elem.IsInteger() {
			b.fail(diag.BadCast, x,
				"Cannot determine array size: the element size is incompatible with the cast integer size")
			return false
		}
	case types.Struct:
		if b.quiet > 0 && scalar { // sizeof(((struct x)0).member)
			return true
		}
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

// decays reports whether an array decays to its address, as in C: an array in the memory of the kernel or of a
// process does, a copy does not.
func (b *body) decays(x ast.Expr, t *types.Type) bool {
	if t.Kind != types.Array && t.Kind != types.String {
		return false
	}
	p := b.out.Expr(x).Location
	if p == nil || p.Root != RootPointer && p.Root != RootCtx {
		return false
	}
	last := len(p.Steps) - 1
	return last < 0 || !p.Steps[last].DataLoc && !p.Steps[last].RelLoc
}

// arraySize returns the size in bytes of a number or a string as an array of type t; false if it cannot be converted. A
// literal may have any size up to 8 bytes.
func (b *body) arraySize(x ast.Expr, from, t *types.Type) (size int, ok bool) {
	size = from.Size
	switch {
	case !t.Elem.IsInteger():
		return 0, false
	case from.Kind == types.String:
		ok = t.Elem.Size == 1
	case from.IsInteger() || from.Kind == types.Pointer:
		ok = true
		if b.out.Expr(x).isNumber() && t.Len > 0 {
			return t.Size, t.Size <= 8
		}
	}
	return size, ok && size%t.Elem.Size == 0 && (t.Len == 0 || t.Size == size)
}

// measure sets a size or offset: a literal, but of type uint8 in what is not evaluated, as in sizeof(-sizeof(x)).
func (b *body) measure(e *Expr, n int, host bool) {
	if b.quiet > 0 {
		e.Type, e.Const = types.TUint8, &Const{Int: int64(n), Host: host}
		return
	}
	setNumber(e, big.NewInt(int64(n)), host)
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
	size := t.Sizeof()
	if arg, ok := ast.Unparen(x.Arg).(*ast.TypeExpr); ok {
		size = wideEnum(b.resolveType(arg.Type)).Size
	}
	if _, literal := x.Arg.(*ast.BoolLit); literal {
		size = 8 // as in bpftrace, where sizeof((true)) is 1
	}
	host := t.Kind == types.Struct && t.Comp.CORE != ""
	b.measure(e, size, host)
	if host {
		e.Extent = &Extent{Type: t.Comp.CORE}
	}
}

// offsetof checks "offsetof(type, a.b.c)".
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
		if kernel, known := b.t.ParseType(t.Comp.CORE); ok && known {
			ok = kernel.Has(f.Text) // only fields of kernel types have relocated offsets
		}
		if !ok {
			b.noMember(f, t)
			return
		}
		if i == 0 {
			core = t.Comp.CORE
		}
		off += m.Off
		path = append(path, f.Text)
		t = m.Type
	}
	b.measure(e, off, core != "")
	if core != "" {
		e.Extent = &Extent{Type: core, Path: strings.Join(path, ".")}
	}
}
