package check

import (
	"strconv"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/ir/target"
)

// field is "x.name" and "x->name".
func (b *body) field(x *ast.Field, e *Expr) {
	if id, ok := ast.Unparen(x.X).(*ast.Ident); ok && id.Name == "args" {
		b.argsField(x, id, e)
		return
	}
	base := b.expr(x.X)
	t := base.Type
	switch {
	case invalid(t) && t.Kind != types.Record:
	case base.Known != nil:
		b.knownField(x, e, base.Known)
	case t.Kind == types.Record:
		b.recordField(x, e, t)
	case t.Kind == types.Struct:
		p := b.placeOf(x.X, base)
		b.member(x, e, p, t)
	case t.PointsTo(types.Struct):
		p := &Place{Root: RootPointer, Base: x.X, Space: b.spaceOf(t)}
		b.member(x, e, p, t.Elem)
	default:
		d := b.fail(diag.BadAccess, x, "Can not access field '%s' on expression of type '%s'", x.Name.Text, t)
		if t.Kind == types.Int {
			d.Hint("cast it to a pointer to a struct first: ((struct name *)x)->%s", x.Name.Text)
		}
	}
}

func (b *body) recordField(x *ast.Field, e *Expr, t *types.Type) {
	for i, f := range t.Fields {
		if f.Name == x.Name.Text {
			e.Elem, e.Type = i, f.Type
			return
		}
	}
	b.fail(diag.UnknownField, x.Name, "Record does not contain a field named '%s'", x.Name.Text)
}

// placeOf is a copy of the place of a struct, array or string, to be extended;
// a value in memory of ours is its own root.
func (b *body) placeOf(x ast.Expr, e *Expr) *Place {
	if e.Place == nil {
		return &Place{Root: RootValue, Base: x}
	}
	p := *e.Place
	p.Steps = append([]Step(nil), p.Steps...)
	return &p
}

// member goes from a struct at p to one of its members.
func (b *body) member(x *ast.Field, e *Expr, p *Place, t *types.Type) {
	comp, name := t.Comp, x.Name.Text
	if comp.Forward {
		b.fail(diag.UnknownType, x, "Unknown struct/union: '%s'", t)
		return
	}
	m, ok := comp.Find(name)
	if !ok {
		d := b.fail(diag.UnknownField, x.Name, "Struct/union of type '%s' does not contain a field named '%s'", t, name)
		if near := target.Nearest(name, comp.Names()); near != "" {
			d.Hint("did you mean %s?", near)
		}
		return
	}
	p.addMember(comp, name, m)
	e.Place = p
	b.placed(x, e, m.Type)
}

// addMember appends the step to a member. A member of a kernel struct extends
// the path of the step before it when that led to the struct.
func (p *Place) addMember(comp *types.Composite, name string, m types.Member) {
	last := p.last()
	switch {
	case last != nil && last.CORE != "":
		last.extend("."+name, m.Off)
	case comp.CORE != "": // also in a copy of ours: its bytes are the host's
		p.Steps = append(p.Steps, Step{CORE: comp.CORE, Path: name, Off: m.Off})
	default:
		p.addOff(m.Off)
	}
	p.Bits = nil
	if m.BitSize > 0 {
		p.Bits = &Bits{Unit: m.Type.Size, Off: m.BitOff, Size: m.BitSize}
	}
}

// extend goes on to a part of a relocated field. Data behind a record has none
// that a relocation could name.
func (s *Step) extend(path string, off int) {
	s.Path += path
	s.Off += off
	var others []Step
	for _, o := range s.Others {
		if !o.DataLoc {
			o.Path += path
			others = append(others, o)
		}
	}
	s.Others = others
}

func (p *Place) last() *Step {
	if len(p.Steps) == 0 {
		return nil
	}
	return &p.Steps[len(p.Steps)-1]
}

// addOff adds a fixed number of bytes.
func (p *Place) addOff(n int) {
	if last := p.last(); last != nil && last.CORE == "" && last.Index == nil && !last.DataLoc && !last.RelLoc {
		last.Off += n
		return
	}
	p.Steps = append(p.Steps, Step{Off: n})
}

// placed gives e, whose object lies at e.Place, its type: an array of char is a
// string, pointers without an address space have that of the place.
func (b *body) placed(x ast.Node, e *Expr, t *types.Type) {
	e.Type = t
	switch {
	case t.Kind == types.Array && t.Elem.IsChar() && t.Len > 0:
		e.Type = types.MakeString(t.Len)
	case t.Kind == types.Pointer && t.Space == types.NoSpace:
		space := e.Place.Space
		if space == types.NoSpace {
			space = b.space()
		}
		e.Type = t.WithSpace(space)
	case t.Kind == types.Float, t.Kind == types.Func, t.Kind == types.Int && t.Size > 8:
		b.unsupported(x, "values of type %s", t)
		e.Type, e.Place = types.TInvalid, nil
	}
}

// index is "x[i]" on anything but a map.
func (b *body) index(x *ast.Index, e *Expr) {
	base := b.expr(x.X)
	t := base.Type
	it := b.value(x.I)
	if invalid(it) || invalid(t) && t.Kind != types.Tuple {
		return
	}
	c := b.out.Expr(x.I).Const
	if !it.IsInteger() || c != nil && c.Int < 0 && it.Signed {
		b.fail(diag.BadAccess, x.I, "The array index operator [] only accepts non-negative integer indices. Got: %s", it)
		return
	}
	switch t.Kind {
	case types.Tuple:
		b.tupleElem(x, e, t, c)
	case types.Array:
		b.arrayElem(x, e, base, t.Elem, t.Len, c)
	case types.String:
		if base.Const != nil && c != nil {
			if b.inBounds(x, c.Int, t.Size) {
				e.Type = types.TInt8
				e.Const = &Const{Int: int64(int8((base.Const.Str + "\x00")[c.Int])), lit: true}
			}
			return
		}
		b.arrayElem(x, e, base, types.TInt8, t.Size, c)
	case types.Pointer:
		b.pointerElem(x, e, t, c)
	default:
		b.fail(diag.BadAccess, x, "The array index operator [] can only be used on arrays, pointers, and tuples, found %s.", t)
	}
}

func (b *body) inBounds(x ast.Node, i int64, n int) bool {
	if n > 0 && uint64(i) >= uint64(n) {
		b.fail(diag.OutOfBounds, x, "the index %d is out of bounds for array of size %d", i, n)
		return false
	}
	return true
}

func (b *body) tupleElem(x *ast.Index, e *Expr, t *types.Type, c *Const) {
	switch {
	case c == nil:
		b.fail(diag.BadAccess, x.I, "Array-style access for tuples only valid for integer literals")
	case uint64(c.Int) >= uint64(len(t.Fields)):
		b.fail(diag.OutOfBounds, x, "Invalid tuple index: %d. Found %d elements in tuple.", c.Int, len(t.Fields))
	default:
		e.Elem, e.Type = int(c.Int), t.Fields[c.Int].Type
	}
}

// arrayElem goes from an array or string to one of its n elements.
func (b *body) arrayElem(x *ast.Index, e *Expr, base *Expr, elem *types.Type, n int, c *Const) {
	if c != nil && !b.inBounds(x, c.Int, n) {
		return
	}
	p := b.placeOf(x.X, base)
	last := p.last()
	switch {
	case c != nil && !c.Host && last != nil && last.CORE != "":
		last.extend("["+strconv.FormatInt(c.Int, 10)+"]", int(c.Int)*elem.Size)
	case c != nil && !c.Host:
		p.addOff(int(c.Int) * elem.Size)
	default:
		p.Steps = append(p.Steps, Step{Index: x.I, Scale: elem.Size, Len: n})
	}
	e.Place = p
	b.placed(x, e, elem)
}

func (b *body) pointerElem(x *ast.Index, e *Expr, t *types.Type, c *Const) {
	if t.Elem.Size == 0 {
		b.fail(diag.BadAccess, x, "The array index operator [] cannot be used on a pointer to an unsized type (%s).", t)
		return
	}
	p := &Place{Root: RootPointer, Base: x.X, Space: b.spaceOf(t)}
	if c != nil && !c.Host {
		p.addOff(int(c.Int) * t.Elem.Size)
	} else {
		p.Steps = append(p.Steps, Step{Index: x.I, Scale: t.Elem.Size})
	}
	e.Place = p
	b.placed(x, e, t.Elem)
}

// argsProviders are the probes whose arguments have names.
var argsProviders = map[string]bool{"tracepoint": true, "rawtracepoint": true, "fentry": true, "fexit": true, "uprobe": true}

// argsHere reports whether args may be used in this probe.
func (b *body) argsHere(at ast.Node) bool {
	if argsProviders[b.point.Kind] {
		return true
	}
	b.fail(diag.NotInThisProbe, at, "The args builtin can only be used with tracepoint, rawtracepoint, fentry/fexit, and uprobe probes (%s used here)", b.point.Kind)
	return false
}

// argsField is "args.name".
func (b *body) argsField(x *ast.Field, id *ast.Ident, e *Expr) {
	b.set(id, &Expr{Type: types.TNone}) // it has no value of its own
	if !b.argsHere(id) {
		return
	}
	switch b.point.Kind {
	case "tracepoint":
		b.tracepointField(x, e)
	case "uprobe":
		b.unsupported(id, "args in uprobes (it needs debug information)").Hint("arg0, arg1, ... are there without it")
	default:
		b.typedArg(x, e)
	}
}

func (b *body) tracepointField(x *ast.Field, e *Expr) {
	name := x.Name.Text
	if b.event == nil {
		b.fail(diag.NoArgs, x, "the target has no tracepoint %s:%s, so its arguments are not known", b.point.Target, b.point.Name)
		return
	}
	f, ok := b.event.Field(name)
	if !ok {
		if len(name) > 7 && name[:7] == "common_" {
			b.fail(diag.UnknownField, x.Name, "BPF does not support accessing common tracepoint fields")
			return
		}
		d := b.fail(diag.UnknownField, x.Name, "Struct/union of type 'struct _tracepoint_%s_%s' does not contain a field named '%s'", b.event.Category, b.event.Event, name)
		if near := b.event.SuggestField(name); near != "" {
			d.Hint("did you mean %s?", near)
		}
		return
	}
	space := types.Kernel
	if f.User || b.point.Target == "syscalls" {
		space = types.User
	}
	p := &Place{Root: RootCtx, Space: space}
	if s := b.event.Struct(); s != nil && f.Member != "" && b.event.Category != "syscalls" {
		p.Steps = []Step{{CORE: "struct " + b.event.Class, Path: f.Member, Off: f.Offset, Others: otherForms(f)}}
	} else {
		p.Steps = []Step{{Off: f.Offset}}
	}
	e.Place = p
	if f.DataLoc || f.RelLoc {
		// The value is the address of the data, as a number.
		p.Steps = append(p.Steps, Step{DataLoc: f.DataLoc, RelLoc: f.RelLoc})
		p.Space = types.Kernel
		e.Type = types.TInt64
		return
	}
	b.placed(x, e, b.traceFieldType(f))
}

func otherForms(f *target.TraceField) []Step {
	var all []Step
	for _, o := range f.Others() {
		all = append(all, Step{CORE: "struct " + o.Class, Path: o.Member, DataLoc: o.DataLoc})
	}
	return all
}

// traceFieldType is the type of a tracepoint's field. The record's own width
// and sign of an integer count, not those of its C type: system calls keep each
// argument in 8 bytes.
func (b *body) traceFieldType(f *target.TraceField) *types.Type {
	var t *types.Type
	if kt := f.Type(); kt != nil {
		t = b.env.Kernel(kt)
	}
	switch {
	case t == nil && (f.Size == 1 || f.Size == 2 || f.Size == 4 || f.Size == 8):
		return types.MakeInt(f.Size, f.Signed)
	case t == nil:
		return types.MakeArray(types.TUint8, f.Size)
	case t.Kind == types.Int && t.Size != f.Size && f.Size <= 8 || t.Kind == types.Int && f.Size == 8:
		return types.MakeInt(f.Size, f.Signed)
	case (t.Kind == types.Enum || t.Kind == types.Bool) && t.Size != f.Size && f.Size <= 8:
		return types.MakeInt(f.Size, f.Signed)
	}
	return t
}

// typedArg is an argument of a probe whose function has a prototype in the
// target, or its return value.
func (b *body) typedArg(x *ast.Field, e *Expr) {
	proto := b.proto()
	if proto == nil {
		b.fail(diag.NoArgs, x, "the target has no prototype of %s, so its arguments are not known", b.point.Name)
		return
	}
	if x.Name.Text == "retval" && b.point.Kind == "fexit" {
		b.argPlace(x, e, proto, -1)
		return
	}
	var names []string
	for i, param := range proto.Params {
		if param.Name == x.Name.Text {
			b.argPlace(x, e, proto, i)
			return
		}
		names = append(names, param.Name)
	}
	d := b.fail(diag.UnknownField, x.Name, "Can't find function parameter %s", x.Name.Text)
	if near := target.Nearest(x.Name.Text, names); near != "" {
		d.Hint("did you mean %s?", near)
	}
}

// argPlace makes e argument i of a prototype, or with -1 its return value.
func (b *body) argPlace(x ast.Node, e *Expr, proto *target.Type, i int) {
	use := ArgUse{Slot: proto.Slot(len(proto.Params))}
	typ := proto.Elem()
	if i >= 0 {
		typ = proto.Params[i].Type()
		use = ArgUse{Name: proto.Params[i].Name, Slot: proto.Slot(i)}
	}
	use.Type = typ.String()
	t := b.env.Kernel(typ)
	e.Type = types.TInvalid
	switch typ.Resolve().Kind {
	case target.Void:
		b.fail(diag.UnknownField, x, "%s returns nothing", b.point.Name)
		return
	case target.Struct, target.Union:
		b.unsupported(x, "arguments and results of type %s", typ)
		return
	}
	if b.out.Args == nil {
		b.out.Args = map[int]ArgUse{}
	}
	b.out.Args[i] = use
	e.Place = &Place{Root: RootArg, Space: types.Kernel, Arg: i}
	b.placed(x, e, t)
}

// proto is the prototype of the probed function, nil when the target has none.
func (b *body) proto() *target.Type {
	if b.point.Kind == "rawtracepoint" {
		return b.rawProto()
	}
	f, ok := b.t.Func(b.point.Name)
	if !ok {
		return nil
	}
	return f.Proto
}

// rawProto is the prototype of a raw tracepoint. The function that calls its
// programs has the names of the arguments; the first, the kernel's own, is not
// one of them.
func (b *body) rawProto() *target.Type {
	return RawPrototype(b.t, b.point.Name)
}

// RawPrototype is the prototype of a raw tracepoint with the names of its
// arguments where the target has them; nil when it has no such tracepoint.
func RawPrototype(t *target.Target, name string) *target.Type {
	proto, ok := t.RawTracepoint(name)
	if !ok {
		return nil
	}
	f, ok := t.Func("__traceiter_" + name)
	if !ok || f.Proto == nil || len(f.Proto.Params) != len(proto.Params)+1 {
		return proto
	}
	own := *f.Proto
	own.Params = own.Params[1:]
	return &own
}
