// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/internal/probe"
	"btc/ir"
	"btc/targets/kernel"
)

// reloc is the address of an object: base plus a fixed offset, or plus a relocated field. The last step is not yet
// applied, so that a read op can contain it.
type reloc struct {
	base *ir.Value
	off  int64
	core ir.CORERef
}

// apply makes the address a value. The verifier does not accept an unknown offset into program memory, so a relocated
// field there is addressed like kernel memory.
func (f *fn) apply(w reloc) *ir.Value {
	if w.core.Type != "" {
		if ours(w.base) {
			w.base = f.Cast(ir.TKAddr, w.base)
		}
		a := f.Emit(ir.OpFieldAddr, w.base.Type, w.base)
		a.CORE = w.core
		return a
	}
	return f.AddImm(w.base, w.off)
}

// ours reports whether an address is in program memory: a slot, a map value or a record.
func ours(p *ir.Value) bool {
	return p.Type.Kind == ir.Stack || p.Type.Kind == ir.MapVal || p.Type.Kind == ir.Ringbuf
}

// locate computes the address of a location, without its last step.
func (f *fn) locate(p *check.Location) reloc { return f.walk(p, p.Steps) }

// walk computes the address after the given steps from a location's root, without the last step.
func (f *fn) walk(p *check.Location, steps []check.Step) reloc {
	var w reloc
	switch p.Root {
	case check.RootPointer:
		w.base = f.as(addrType(p.Space), f.scalar(p.Base))
	case check.RootValue:
		w.base = f.addr(p.Base)
	case check.RootCtx:
		w.base = f.ctx
		if !directContext(p) {
			w.base = f.Cast(ir.TKAddr, f.ctx)
		}
	default:
		panic("BUG: no address for a typed argument")
	}
	for _, s := range steps {
		if len(s.Others) > 0 {
			t := ir.TKAddr
			if !w.base.Type.IsPtr() {
				t = w.base.Type
			}
			w = reloc{base: f.alternatives(s, t, func(s check.Step) *ir.Value { return f.apply(f.step(w, s)) })}
			continue
		}
		w = f.step(w, s)
	}
	return w
}

// alternatives reads with the alternative of a step that the host has.
func (f *fn) alternatives(s check.Step, t ir.Type, read func(check.Step) *ir.Value) *ir.Value {
	if len(s.Others) == 0 {
		return read(s)
	}
	other, rest := s.Others[0], s
	rest.Others = s.Others[1:]
	exists := f.CORE(ir.FieldExists, ir.CORERef{Type: other.CORE, Path: other.Path})
	for then := other.Then; then != nil; then = then.Then {
		exists = f.And(exists, f.CORE(ir.FieldExists, ir.CORERef{Type: then.CORE, Path: then.Path}))
	}
	yes, no, join := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.branch(f.ICmp(ir.NE, exists, ir.Const(0)), yes, no)
	f.start(yes, true)
	f.jump(join, read(other))
	f.start(no, true)
	f.jump(join, f.alternatives(rest, t, read))
	result := join.AddParam(t)
	f.start(join, true)
	return result
}

// directContext reports whether a location in the context can be loaded through the unmodified context pointer, as
// the verifier requires.
func directContext(p *check.Location) bool {
	return len(p.Steps) == 1 && p.Steps[0].Index == nil && len(p.Steps[0].Others) == 0 && !isDataLoc(p)
}

// isDataLoc reports whether a location is variable data of a tracepoint: its value is the address of the data.
func isDataLoc(p *check.Location) bool {
	if len(p.Steps) == 0 {
		return false
	}
	last := p.Steps[len(p.Steps)-1]
	return last.DataLoc || last.RelLoc
}

func (f *fn) step(w reloc, s check.Step) reloc {
	if then := s.Then; then != nil {
		s.Then = nil
		t := ir.TKAddr
		if !w.base.Type.IsPtr() {
			t = w.base.Type
		}
		return f.step(reloc{base: f.readWord(f.step(w, s), ir.U64, t)}, *then)
	}
	switch {
	case s.CORE != "" && s.DataLoc: // another alternative, see alternatives
		w = f.dataLoc(reloc{base: f.ctx, core: ir.CORERef{Type: s.CORE, Path: s.Path}}, s)
	case s.CORE != "":
		if w.core.Type != "" || w.off != 0 {
			w = reloc{base: f.apply(w)}
		}
		w.core = ir.CORERef{Type: s.CORE, Path: s.Path}
	case s.Index != nil:
		w = f.index(reloc{base: f.apply(w)}, s)
	case s.DataLoc || s.RelLoc:
		w = f.dataLoc(w, s)
	case w.core.Type != "":
		w = reloc{base: f.apply(w), off: int64(s.Off)}
	default:
		w.off += int64(s.Off)
	}
	return w
}

const outsideText = "Array access out of bounds. This can lead to unexpected results."

// index adds a number of elements. Program memory cannot be loaded at an unknown offset, so it is addressed like
// kernel memory.
func (f *fn) index(w reloc, s check.Step) reloc {
	i := f.num(s.Index)
	if i.IsConst() && (s.Len == 0 || uint64(i.Imm) < uint64(s.Len)) {
		w.off += i.Imm * int64(s.Scale)
		return w
	}
	if w.base.Type.IsPtr() {
		w.base = f.Cast(ir.TKAddr, w.base)
	}
	if s.Len > 0 { // out of bounds: the null address, which reads as zero
		in, out, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
		out.Cold = true
		f.branch(f.ICmp(ir.ULT, i, ir.Const(int64(s.Len))), in, out)
		f.start(in, true)
		f.jump(rest, f.Add(w.base, f.scaled(i, s.Scale)))
		f.start(out, true)
		f.Emit(ir.OpDivZero, ir.TVoid).Imm = int64(f.runtimeError(outsideText, s.Index))
		f.jump(rest, ir.Null(w.base.Type))
		w.base = rest.AddParam(w.base.Type)
		f.start(rest, true)
		return w
	}
	w.base = f.Add(w.base, f.scaled(i, s.Scale))
	return w
}

// dataLoc follows a tracepoint's {u16 offset, u16 length} to its data.
func (f *fn) dataLoc(w reloc, s check.Step) reloc {
	if b := w.base; b.Op == ir.OpCast && b.Args[0] == f.ctx {
		w.base = f.ctx // a load instead of a probe read
	}
	loc := f.readWord(w, ir.U32, ir.TI64)
	off := f.And(loc, ir.Const(0xffff))
	base := f.Cast(ir.TKAddr, f.ctx)
	if s.RelLoc {
		base = f.AddImm(f.apply(w), 4)
	}
	return reloc{base: f.Add(base, off)}
}

// readWord reads a scalar at an address.
func (f *fn) readWord(w reloc, k ir.MemKind, t ir.Type) *ir.Value {
	v := f.Emit(ir.OpRead, t, w.base)
	v.Mem, v.Imm, v.CORE = k, w.off, w.core
	return v
}

// register returns an argument or return value with its type: the bits of a register above the
// type's size are undefined.
func (f *fn) register(v *ir.Value, t *types.Type) *ir.Value {
	if t.Kind == types.Bool {
		v = f.Extend(ir.U8, v)
	}
	return f.narrow(v, t)
}

// readLocation returns the scalar value at a location.
func (f *fn) readLocation(x ast.Expr, e *check.Expr) *ir.Value {
	p := e.Location
	if p.Root == check.RootArg {
		if p.Arg < 0 {
			return f.register(f.Emit(ir.OpRetval, ir.TI64, f.ctx), e.Type)
		}
		v := f.Emit(ir.OpArg, ir.TI64, f.ctx)
		v.Imm = int64(p.Arg)
		return f.register(v, e.Type)
	}
	if p.Root == check.RootCtx && len(p.Steps) == 1 && len(p.Steps[0].Others) > 0 {
		return f.readAlternatives(reloc{base: f.ctx}, p.Steps[0], x, e)
	}
	if n := len(p.Steps); n > 0 && differs(p.Steps[n-1]) && p.Root == check.RootPointer {
		return f.readAlternatives(f.walk(p, p.Steps[:n-1]), p.Steps[n-1], x, e)
	}
	w := f.locate(p)
	if isDataLoc(p) {
		return f.as(irType(e.Type), f.apply(w))
	}
	if ours(w.base) {
		if w.core.Type == "" {
			return f.readOwn(w, e)
		}
		w.base = f.Cast(ir.TKAddr, w.base) // a copy of a kernel object has the host's layout
	}
	if p.Bits != nil && w.core.Type == "" {
		return f.bits(f.readWord(w, ir.MemKindOf(p.Bits.Unit, false), ir.TI64), p.Bits)
	}
	kind := memKind(e.Type)
	if p.Bits != nil {
		kind = ir.MemKindOf(kind.Size(), false)
	}
	v := f.readWord(w, kind, irType(e.Type))
	if f.isIterated(e) {
		f.endUnless(v)
	}
	return v
}

// differs reports whether kernels keep the value of a step in different members or encodings.
func differs(s check.Step) bool { return len(s.Others)+len(s.Tagged) > 0 || s.Flags != 0 }

// readAlternatives reads the value of a step that differs between kernels; w is the address before it.
func (f *fn) readAlternatives(w reloc, s check.Step, x ast.Expr, e *check.Expr) *ir.Value {
	t, k := irType(e.Type), memKind(e.Type)
	v := f.readTagged(s.Tagged, w, s, x, e, func() *ir.Value {
		return f.alternatives(s, t, func(s check.Step) *ir.Value { return f.readWord(f.step(w, s), k, t) })
	})
	if s.Flags != 0 {
		v = f.And(v, ir.Const(int64(^s.Flags)))
	}
	return v
}

// readTagged reads the first of the members whose tag says that they hold the value, or calls other. A
// kernel without the member or without its enumerator never has the tag.
func (f *fn) readTagged(all []kernel.TaggedMember, w reloc, s check.Step, x ast.Expr, e *check.Expr,
	other func() *ir.Value) *ir.Value {
	if len(all) == 0 {
		return other()
	}
	m, t := all[0], irType(e.Type)
	has, hit, no, join := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	exists := f.And(f.CORE(ir.FieldExists, ir.CORERef{Type: s.CORE, Path: m.Path}),
		f.CORE(ir.EnumvalExists, ir.CORERef{Type: m.Enum, Path: m.Value}))
	f.branch(f.ICmp(ir.NE, exists, ir.Const(0)), has, no)
	f.start(has, true)
	tag := f.readWord(f.step(w, check.Step{CORE: s.CORE, Path: m.Tag}), ir.U32, ir.TI64)
	f.branch(f.ICmp(ir.EQ, tag, f.CORE(ir.EnumvalValue, ir.CORERef{Type: m.Enum, Path: m.Value})), hit, no)
	f.start(hit, true)
	at := f.step(w, check.Step{CORE: s.CORE, Path: m.Path})
	switch {
	case m.None != "":
		f.Emit(ir.OpDivZero, ir.TVoid).Imm = int64(f.runtimeError(m.None, x))
		f.jump(join, f.as(t, ir.Const(0)))
	case m.Address:
		f.jump(join, f.as(t, f.apply(at)))
	default:
		f.jump(join, f.readWord(at, memKind(e.Type), t))
	}
	f.start(no, true)
	f.jump(join, f.readTagged(all[1:], w, s, x, e, other))
	result := join.AddParam(t)
	f.start(join, true)
	return result
}

// isIterated reports whether a location is the object of an iterator, "ctx.task".
func (f *fn) isIterated(e *check.Expr) bool {
	p := e.Location
	if f.prog.Point.Kind != probe.Iter || p.Root != check.RootPointer || len(p.Steps) != 1 ||
		e.Type.Kind != types.Pointer {
		return false
	}
	id, ok := ast.Unparen(p.Base).(*ast.Ident)
	return ok && strings.TrimPrefix(id.Name, "__builtin_") == "ctx"
}

// endUnless ends the program if an address is null, because an iterator's last call has no object.
func (f *fn) endUnless(v *ir.Value) {
	some, none := f.f.NewBlock(), f.f.NewBlock()
	f.branch(f.ICmp(ir.NE, v, ir.Null(v.Type)), some, none)
	f.start(none, true)
	f.Ret(ir.Const(0))
	f.start(some, true)
}

// readOwn reads from program memory, where a struct or array keeps its C layout.
func (f *fn) readOwn(w reloc, e *check.Expr) *ir.Value {
	addr := f.apply(w)
	if b := e.Location.Bits; b != nil {
		return f.bits(f.loadParts(ir.MemKindOf(b.Unit, false), addr), b)
	}
	return f.as(irType(e.Type), f.loadParts(memKind(e.Type), addr))
}

// loadParts loads a number of a struct in program memory. A field of a packed struct is loaded in parts that are
// aligned: the kernel refuses misaligned accesses of the stack, and on CPUs without efficient ones also of
// map values and records (check_ptr_alignment, with strict_alignment). Objects are aligned to 8 bytes.
//
//	v1:i64 = load.u8 [s0+1]
//	v2:i64 = load.u16 [s0+2]
//	v3:i64 = shl v2, 8
//	...
//	v7:i64 = sext.s32 v6
func (f *fn) loadParts(k ir.MemKind, addr *ir.Value) *ir.Value {
	n := k.Size()
	object, at := objectOf(addr)
	if object.Op == ir.OpSlotAddr { // where a packed struct has no alignment of its own
		object.Slot.Align = max(object.Slot.Align, n)
	}
	if at%n == 0 {
		return f.Load(k, addr, 0)
	}
	var v *ir.Value
	for off, w := 0, 0; off < n; off += w {
		for w = n / 2; (at+off)%w != 0 || w > n-off; {
			w /= 2
		}
		part := f.Load(ir.MemKindOf(w, false), addr, off)
		if v == nil {
			v = part
		} else {
			v = f.Or(v, f.Shl(part, ir.Const(int64(8*off))))
		}
	}
	return f.Extend(k, v)
}

// objectOf returns the address of the object in which addr is, and the sum of the constants that were added to it.
// Other summands are multiples of the size of an array's element.
func objectOf(addr *ir.Value) (object *ir.Value, off int) {
	for ; addr.Op == ir.OpAdd; addr = addr.Args[0] {
		if addr.Args[1].IsConst() {
			off += int(addr.Args[1].Imm)
		}
	}
	if addr.Op == ir.OpSlotAddr {
		off += int(addr.Imm)
	}
	return addr, off
}

// bits extracts a bitfield from its storage unit. Its upper bits are zero even if its C
// type is signed, as in bpftrace.
func (f *fn) bits(unit *ir.Value, b *check.Bits) *ir.Value {
	v := f.Shl(unit, ir.Const(int64(64-b.Off-b.Size)))
	return f.LShr(v, ir.Const(int64(64-b.Size)))
}

// memKind returns the representation of a scalar of a C type in kernel or user memory.
func memKind(t *types.Type) ir.MemKind {
	switch t.Kind {
	case types.Int, types.Enum, types.Bool:
		return ir.MemKindOf(t.Size, t.Signed)
	}
	return ir.U64
}

// readString reads a character array as a string.
func (f *fn) readString(e *check.Expr, dst *ir.Value, capacity int) {
	w := f.locate(e.Location)
	if w.base.Type.Kind == ir.Ctx {
		w.base = f.Cast(ir.TKAddr, w.base)
	}
	addr := f.apply(w)
	chars := capacity
	if n := e.Location.Chars; n > 0 {
		chars = min(n, capacity)
	}
	if addr.Type.IsPtr() {
		f.Emit(ir.OpStrCopy, ir.TI64, dst, addr).Imm = int64(chars)
		if chars < capacity {
			f.Store(ir.U8, dst, chars, ir.Const(0))
		}
		return
	}
	f.Emit(ir.OpStr, ir.TI64, dst, addr, ir.Const(int64(chars)+1)).Imm = int64(capacity)
}

// readObject copies a struct or array from a location.
func (f *fn) readObject(e *check.Expr, dst *ir.Value) {
	size := e.Type.Size
	if e.Type.Kind == types.Tuple ||
		e.Type.Kind == types.Record { // only objects in program memory have an address, "&$x"
		size = e.Type.Store().Size
	}
	f.readWhole(e, dst, size)
}

// readWhole copies the first size bytes at a location.
func (f *fn) readWhole(e *check.Expr, dst *ir.Value, size int) {
	if size == 0 {
		return
	}
	w := f.locate(e.Location)
	if w.base.Type.Kind == ir.Ctx {
		w.base = f.Cast(ir.TKAddr, w.base)
	}
	addr := f.apply(w)
	if addr.Type.IsPtr() {
		f.copy(dst, addr, size)
		return
	}
	f.Emit(ir.OpReadMem, ir.TVoid, dst, addr).Imm = int64(size)
}
