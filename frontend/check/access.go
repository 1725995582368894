// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strconv"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/types"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/internal/spell"
	"btc/targets/kernel"
)

// field checks "x.name" and "x->name".
func (b *body) field(x *ast.Field, e *Expr) {
	if id, ok := ast.Unparen(x.X).(*ast.Ident); ok && id.Name == "args" {
		b.argsField(x, id, e)
		return
	}
	outer := b.enclosing
	b.enclosing = x
	base := b.expr(x.X)
	b.enclosing = outer
	t := base.Type
	switch {
	case invalid(t) && t.Kind != types.Record:
	case base.Known != nil:
		b.knownField(x, e, base.Known)
	case t.Kind == types.Record:
		b.recordField(x, e, t)
	case t.Kind == types.Struct:
		p := b.locationOf(x.X, base)
		b.member(x, e, p, t)
	case t.PointsTo(types.Struct):
		p := &Location{Root: RootPointer, Base: x.X, Space: t.Space}
		if spelled := base.Location.last(); spelled != nil && spelled.known("->"+x.Name.Text) {
			p = b.locationOf(x.X, base)
		}
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
			if record, ok := ast.Unparen(x.X).(*ast.Record); ok {
				var all []ast.Expr
				for _, part := range record.Fields {
					all = append(all, part.Value)
				}
				e.Const = b.partOf(all, i)
			}
			return
		}
	}
	suggest(b.fail(diag.UnknownField, x.Name, "Record does not contain a field named '%s'", x.Name.Text), x.Name.Text,
		"", fieldNames(t))
}

// locationOf returns a copy of the location of a struct, array or string, for the caller to extend; a value in program
// memory is its own root.
func (b *body) locationOf(x ast.Expr, e *Expr) *Location {
	if e.Location == nil {
		return &Location{Root: RootValue, Base: x, Space: e.Type.Space}
	}
	p := *e.Location
	p.Steps = slices.Clone(p.Steps)
	if last := p.last(); last != nil && last.Then != nil {
		then := *last.Then
		last.Then = &then
	}
	return &p
}

// member selects a member of the struct at p.
func (b *body) member(x *ast.Field, e *Expr, p *Location, t *types.Type) {
	comp, name := t.Comp, x.Name.Text
	if comp.Forward {
		b.fail(diag.UnknownType, x, "Unknown struct/union: '%s'", t)
		return
	}
	m, ok := comp.Find(name)
	if !ok {
		b.noMember(x.Name, t)
		return
	}
	p.addMember(comp, name, m)
	b.addOthers(p)
	if b.onOtherKernels(x, comp, p) {
		b.noMember(x.Name, t)
		return
	}
	e.Location = p
	b.setLvalue(x, e, m.Type)
}

func (b *body) noMember(at *ast.Name, t *types.Type) {
	name := at.Text
	d := b.fail(diag.UnknownField, at, "Struct/union of type '%s' does not contain a field named '%s'", t, name)
	if now := b.successor(t.Comp, name); now != "" {
		d.Hint("%s", now)
		return
	}
	if !b.final || !b.guess() { // only hints of the final round are used
		return
	}
	// In C, members of a socket have macro names: sk_family is __sk_common.skc_family.
	for _, spelling := range []string{name, "skc_" + strings.TrimPrefix(name, "sk_"), "skc_" + strings.TrimPrefix(name, "inet_")} {
		if path := within(t.Comp, spelling); path != "" {
			d.Hint("it is a nested field: %s", path)
			return
		}
	}
	suggest(d, name, "", t.Comp.Names())
}

// within returns the shortest path to a member with this name in a struct nested in comp, or "".
func within(comp *types.Composite, name string) string {
	const deepest = 4
	type part struct {
		comp *types.Composite
		path string
	}
	level, seen := []part{{comp, ""}}, map[*types.Composite]bool{comp: true}
	for range deepest {
		var next []part
		for _, p := range level {
			eachMember(p.comp, func(m types.Member) bool {
				if m.Type.Kind == types.Struct && !m.Type.Comp.Forward && !seen[m.Type.Comp] {
					seen[m.Type.Comp] = true
					next = append(next, part{m.Type.Comp, p.path + m.Name + "."})
				}
				return true
			})
		}
		for _, p := range next {
			if !eachMember(p.comp, func(m types.Member) bool { return m.Name != name }) {
				return p.path + name
			}
		}
		level = next
	}
	return ""
}

// eachMember calls do for each member that has a name, also inside anonymous
// members, until it returns false; it reports whether all calls returned true.
func eachMember(c *types.Composite, do func(types.Member) bool) bool {
	for _, m := range c.Members() {
		switch {
		case m.Name != "":
			if !do(m) {
				return false
			}
		case m.Type.Kind == types.Struct && !eachMember(m.Type.Comp, do):
			return false
		}
	}
	return true
}

// addMember appends the step to a member. A member of a kernel struct extends the path of the preceding step if that
// step led to the struct.
func (p *Location) addMember(comp *types.Composite, name string, m types.Member) {
	last := p.last()
	switch {
	case last != nil && last.known("->"+name):
		last.Then = &Step{CORE: comp.CORE, Path: name, Off: m.Off}
		last.Others, last.Flags, last.Tagged = nil, 0, nil // those of the shorter path
	case last != nil && last.CORE != "" && (last.known("."+name) || !hasHistory(comp, name)):
		last.extend("."+name, m.Off)
	case comp.CORE != "": // also in a copy, which has the host's layout
		p.Steps = append(p.Steps, Step{CORE: comp.CORE, Path: name, Off: m.Off})
	default:
		p.addOff(m.Off)
	}
	p.Bits, p.Chars = nil, 0
	if m.BitSize > 0 {
		p.Bits = &Bits{Unit: m.Type.Size, Off: m.BitOff, Size: m.BitSize}
	}
}

// hasHistory reports whether a member of a kernel struct has other paths on other kernels, or begins one.
// Its step starts at this struct, also where the struct is a part of another.
func hasHistory(comp *types.Composite, name string) bool {
	tag := strings.TrimPrefix(comp.CORE, "struct ")
	return comp.CORE != "" && (kernel.OtherPaths(tag, name) != nil || kernel.IsPathPrefix(tag, name))
}

// spelled returns the path of a relocated step and the tag of the struct where it starts.
func (s *Step) spelled() (tag, path string) {
	tag, path = strings.TrimPrefix(s.CORE, "struct "), s.Path
	if s.Then != nil {
		_, then := s.Then.spelled()
		path += "->" + then
	}
	return tag, path
}

// known reports whether the step, extended by more, is a location that other kernels have under another path, or a
// prefix of one.
func (s *Step) known(more string) bool {
	if s.CORE == "" || s.Then != nil {
		return false
	}
	tag, path := s.spelled()
	return kernel.OtherPaths(tag, path+more) != nil || kernel.IsPathPrefix(tag, path+more)
}

// addOthers adds the paths that other kernels have for the kernel member at which the location now ends; the host
// decides which is used.
func (b *body) addOthers(p *Location) {
	last := p.last()
	if last == nil || last.CORE == "" || len(last.Others) > 0 {
		return
	}
	tag, path := last.spelled()
	last.Flags, last.Tagged = kernel.Encoding(tag, path)
	for _, other := range kernel.OtherPaths(tag, path) {
		if s := b.stepsOf(last.CORE, other); s != nil {
			last.Others = append(last.Others, *s)
		}
	}
}

// stepsOf returns the step for a path of members.
func (b *body) stepsOf(core, path string) *Step {
	first, rest, far := strings.Cut(path, "->")
	s := &Step{CORE: core, Path: first}
	if !far {
		return s
	}
	t, ok := b.t.ParseType(core)
	for _, name := range strings.Split(first, ".") {
		var f kernel.Field
		if ok {
			f, ok = t.Field(name)
			t = f.Type
		}
	}
	if !ok || t.Resolve().Kind != kernel.Pointer || t.Resolve().Elem().Name == "" {
		return nil
	}
	if s.Then = b.stepsOf("struct "+t.Resolve().Elem().Name, rest); s.Then == nil {
		return nil
	}
	return s
}

// onOtherKernels reports whether a location ends in a member that only other kernels have, unless an enclosing
// expression continues it to a member that this kernel has under another path.
func (b *body) onOtherKernels(x *ast.Field, comp *types.Composite, p *Location) bool {
	tag, name := strings.TrimPrefix(comp.CORE, "struct "), x.Name.Text
	if comp.CORE == "" || len(p.last().Others) > 0 {
		return false
	}
	if b.enclosing != nil && ast.Unparen(b.enclosing.X) == x &&
		(p.last().known("."+b.enclosing.Name.Text) || p.last().known("->"+b.enclosing.Name.Text)) {
		return false
	}
	t, ok := b.t.Struct(tag)
	return ok && !t.Has(name)
}

// extend continues into a part of a relocated field. Parts of variable data after a record are not relocated.
func (s *Step) extend(path string, off int) {
	if s.Then != nil {
		s.Then.extend(path, off)
	} else {
		s.Path += path
		s.Off += off
	}
	var others []Step
	for _, o := range s.Others {
		if o.DataLoc {
			continue
		}
		if o.Then != nil { // a copy, because steps share what follows them
			then := *o.Then
			o.Then = &then
		}
		o.extend(path, 0)
		others = append(others, o)
	}
	s.Others = others
}

func (p *Location) last() *Step {
	if p == nil || len(p.Steps) == 0 {
		return nil
	}
	return &p.Steps[len(p.Steps)-1]
}

// addOff adds a fixed number of bytes.
func (p *Location) addOff(n int) {
	if last := p.last(); last != nil && last.CORE == "" && last.Index == nil && !last.DataLoc && !last.RelLoc {
		last.Off += n
		return
	}
	p.Steps = append(p.Steps, Step{Off: n})
}

// setLvalue sets the type of e, whose object is at e.Location: a char array is a string. Pointers have the address space
// of the location unless their declaration says otherwise, and so do numbers, which may be addresses.
func (b *body) setLvalue(x ast.Node, e *Expr, t *types.Type) {
	e.Type, e.Location.Chars = t, 0
	switch {
	case t.Kind == types.Array && t.Chars == types.ScriptChars && t.Len > 0:
		e.Location.Chars = t.Len
		e.Type = types.MakeString(t.Len + 1)
	case t.Kind == types.Array && t.Chars != types.NoChars && t.Len > 0:
		e.Type = types.MakeString(t.Len)
		e.Type.Raw, e.Type.Full = t.Chars == types.KernelBytes, true
	case t.Kind == types.Float, t.Kind == types.Func, t.Kind == types.Int && t.Size > 8:
		b.unsupported(x, "values of type %s", t)
		e.Type, e.Location = types.TInvalid, nil
	case t.Kind == types.Int && b.inContext(e.Location):
		e.Type = t.WithSpace(b.point.Space())
	case t.Space == types.NoSpace:
		e.Type = t.WithSpace(e.Location.Space)
	}
}

// inContext reports whether a location is one of the registers in ctx.
func (b *body) inContext(p *Location) bool {
	return p.Root == RootPointer && isContext(p.Base) && b.point.Kind != probe.Iter
}

// index checks "x[i]" on anything but a map.
func (b *body) index(x *ast.Index, e *Expr) {
	base := b.expr(x.X)
	t := base.Type
	it := b.value(x.I)
	if invalid(it) || invalid(t) && t.Kind != types.Tuple {
		return
	}
	c := b.out.Expr(x.I).Const
	if !it.IsInteger() || c != nil && c.Int < 0 && it.Signed {
		b.fail(diag.BadAccess, x.I, "The array index operator [] only accepts non-negative integer indices. Got: %s",
			it)
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
		b.fail(diag.BadAccess, x,
			"The array index operator [] can only be used on arrays, pointers, and tuples, found %s.", t)
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

// arrayElem indexes an array or string of n elements.
func (b *body) arrayElem(x *ast.Index, e *Expr, base *Expr, elem *types.Type, n int, c *Const) {
	if c != nil && !b.inBounds(x, c.Int, n) {
		return
	}
	p := b.locationOf(x.X, base)
	last := p.last()
	switch {
	case c != nil && !c.Host && last != nil && last.CORE != "":
		last.extend("["+strconv.FormatInt(c.Int, 10)+"]", int(c.Int)*elem.Size)
	case c != nil && !c.Host:
		p.addOff(int(c.Int) * elem.Size)
	default:
		p.Steps = append(p.Steps, Step{Index: x.I, Scale: elem.Size, Len: n})
	}
	e.Location = p
	b.setLvalue(x, e, elem)
}

func (b *body) pointerElem(x *ast.Index, e *Expr, t *types.Type, c *Const) {
	if t.Elem.Size == 0 {
		b.fail(diag.BadAccess, x, "The array index operator [] cannot be used on a pointer to an unsized type (%s).", t)
		return
	}
	p := &Location{Root: RootPointer, Base: x.X, Space: t.Space}
	if c != nil && !c.Host {
		p.addOff(int(c.Int) * t.Elem.Size)
	} else {
		p.Steps = append(p.Steps, Step{Index: x.I, Scale: t.Elem.Size})
	}
	e.Location = p
	b.setLvalue(x, e, t.Elem)
}

// argsHere reports whether args may be used in this probe.
func (b *body) argsHere(at ast.Node) bool {
	if b.point.ofBPF() {
		b.fail(diag.NotInThisProbe, at, "The args builtin cannot be used for 'fentry/fexit:bpf' probes")
		return false
	}
	if b.point.Type.Args {
		return true
	}
	hinted(
		b.fail(diag.NotInThisProbe, at,
			"The args builtin can only be used with tracepoint, rawtracepoint, fentry/fexit, and uprobe probes (%s used here)",
			b.point.Kind),
		b.point.otherProbe("args"),
	)
	return false
}

// argsField checks "args.name".
func (b *body) argsField(x *ast.Field, id *ast.Ident, e *Expr) {
	b.set(id, &Expr{Type: types.TNone}) // args alone has no value
	if !b.argsHere(id) {
		return
	}
	switch b.point.Kind {
	case probe.Tracepoint:
		b.tracepointField(x, e)
	case probe.Uprobe:
		b.userArg(x, e)
	default:
		b.typedArg(x, e)
	}
}

func (b *body) tracepointField(x *ast.Field, e *Expr) {
	name := x.Name.Text
	if b.event == nil {
		b.fail(diag.NoArgs, x, "the target has no tracepoint %s:%s, so its arguments are not known", b.point.Target,
			b.point.Name)
		return
	}
	f, ok := b.event.Field(name)
	if !ok {
		if len(name) > 7 && name[:7] == "common_" {
			b.fail(diag.UnknownField, x.Name, "BPF does not support accessing common tracepoint fields")
			return
		}
		d := b.fail(diag.UnknownField, x.Name,
			"Struct/union of type 'struct _tracepoint_%s_%s' does not contain a field named '%s'", b.event.Category,
			b.event.Event, name)
		if near := b.event.SuggestField(name); near != "" {
			d.Hint("did you mean %s?", near)
		}
		return
	}
	space := types.Kernel
	if f.User || b.point.Target == "syscalls" {
		space = types.User
	}
	p := &Location{Root: RootCtx, Space: space}
	if s := b.event.Struct(); s != nil && f.Member != "" && b.event.Category != "syscalls" {
		p.Steps = []Step{{CORE: "struct " + f.Class(), Path: f.Member, Off: f.Offset, Others: otherForms(f)}}
	} else {
		p.Steps = []Step{{Off: f.Offset}}
		b.recordUse(x, f)
	}
	e.Location = p
	if f.DataLoc || f.RelLoc {
		// The value is the address of the data, as a number.
		p.Steps = append(p.Steps, Step{DataLoc: f.DataLoc, RelLoc: f.RelLoc})
		p.Space = types.Kernel
		e.Type = types.TInt64.WithSpace(types.Kernel)
		return
	}
	b.setLvalue(x, e, b.traceFieldType(f))
}

// recordUse records a field that is read at the target's offset. Records of system calls are exempt: they have one
// layout, which the loader knows.
func (b *body) recordUse(x ast.Expr, f *kernel.TraceField) {
	same := func(u RecordUse) bool { return u.Name == f.Name }
	if b.event.Category == "syscalls" || slices.ContainsFunc(b.out.Record, same) {
		return
	}
	use := RecordUse{At: x.Span(), Name: f.Name, Offset: f.Offset, Size: f.Size}
	if t := b.traceFieldType(f); !f.DataLoc && !f.RelLoc && t.Kind == types.Int {
		use.Sign = "unsigned"
		if t.Signed {
			use.Sign = "signed"
		}
	}
	b.out.Record = append(b.out.Record, use)
}

func otherForms(f *kernel.TraceField) []Step {
	var all []Step
	for _, o := range f.Others() {
		all = append(all, Step{CORE: "struct " + o.Class, Path: o.Member, DataLoc: o.DataLoc})
	}
	return all
}

// traceFieldType returns the type of a tracepoint's field. An integer has the width and sign of the record, not of its
// C type: system calls keep each argument in 8 bytes. Of the arrays of bytes only those of char are strings.
func (b *body) traceFieldType(f *kernel.TraceField) *types.Type {
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
	case t.Kind == types.Array && t.Chars == types.KernelBytes:
		return types.MakeArray(t.Elem, t.Len)
	}
	return t
}

// typedArg checks an argument of a probe whose function has a prototype in the
// target, or its return value.
func (b *body) typedArg(x *ast.Field, e *Expr) {
	proto := b.proto()
	if proto == nil {
		b.fail(diag.NoArgs, x, "the target has no prototype of %s, so its arguments are not known", b.point.Name)
		return
	}
	if x.Name.Text == "retval" && b.point.Kind == probe.Fexit {
		b.argLocation(x, e, proto, -1)
		return
	}
	var names []string
	for i, param := range proto.Params {
		if param.Name == x.Name.Text {
			b.argLocation(x, e, proto, i)
			return
		}
		names = append(names, param.Name)
	}
	d := b.fail(diag.UnknownField, x.Name, "Can't find function parameter %s", x.Name.Text)
	if near := spell.Nearest(x.Name.Text, names); near != "" {
		d.Hint("did you mean %s?", near)
	}
}

// argLocation sets e to argument i of a prototype, or to its return value for -1.
func (b *body) argLocation(x ast.Node, e *Expr, proto *kernel.Type, i int) {
	use := manifest.ArgUse{Slot: proto.Slot(len(proto.Params))}
	typ := proto.Elem()
	if i >= 0 {
		typ = proto.Params[i].Type()
		use = manifest.ArgUse{Name: proto.Params[i].Name, Slot: proto.Slot(i)}
	}
	use.Type = typ.String()
	t := b.env.Kernel(typ)
	e.Type = types.TInvalid
	switch typ.Resolve().Kind {
	case kernel.Void:
		b.fail(diag.UnknownField, x, "%s returns nothing", b.point.Name)
		return
	case kernel.Struct, kernel.Union:
		b.unsupported(x, "arguments and results of type %s", typ)
		return
	}
	if b.out.Args == nil {
		b.out.Args = map[int]manifest.ArgUse{}
	}
	if r := typ.Resolve(); i < 0 && (r.Kind == kernel.Int || r.Kind == kernel.Enum) {
		if use.Bits = 8 * r.Size; r.Signed {
			use.Bits = -use.Bits
		}
	}
	b.out.Args[i] = use
	e.Location = &Location{Root: RootArg, Space: types.Kernel, Arg: i}
	b.setLvalue(x, e, t)
}

// proto returns the prototype of the probed function, nil when the target has none.
func (b *body) proto() *kernel.Type {
	if b.point.Kind == probe.RawTracepoint {
		return b.rawProto()
	}
	f, ok := b.t.Func(b.t.Arch().SyscallFunc(b.point.Name))
	if !ok {
		return nil
	}
	return f.Proto
}

// rawProto returns the prototype of a raw tracepoint. The argument names are those of the kernel function that calls
// the programs, without its first parameter, which is internal.
func (b *body) rawProto() *kernel.Type {
	return RawPrototype(b.t, b.point.Name)
}

// RawPrototype returns the prototype of a raw tracepoint, with argument names where the target has them; nil if the
// target has no such tracepoint.
func RawPrototype(t *kernel.Target, name string) *kernel.Type {
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
