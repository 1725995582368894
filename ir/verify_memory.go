// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"math"

	"btc/targets/kernel"
)

// Pointer is a tracked pointer split into an object and a range of offsets.
type Pointer struct {
	Root *Value // value, block parameter or slot address with which the arithmetic starts
	Slot *Slot  // when Root is the address of a slot
	Off  Range  // bytes from the start of the object (Slot) or from Root; empty where conditions exclude each other
}

// Fixed reports whether the offset is a constant, and which.
func (p Pointer) Fixed() (int, bool) {
	n, ok := p.Off.Const()
	return int(n), ok && n == int64(int(n))
}

// Resolve follows the arithmetic that computes the pointer p, as known in block b.
func (rs *Ranges) Resolve(p *Value, b *Block) Pointer {
	off := RangeOf(0)
	for {
		switch p.Op {
		case OpAdd, OpSub:
			n := rs.At(p.Args[1], b)
			if n.Empty() {
				return Pointer{Root: p, Off: n}
			}
			off = BinaryRange(p.Op, off, n)
			p = p.Args[0]
			continue
		case OpNonNull:
			p = p.Args[0]
			continue
		case OpSlotAddr:
			return Pointer{p, p.Slot, BinaryRange(OpAdd, off, RangeOf(p.Imm))}
		}
		return Pointer{p, nil, off}
	}
}

// access checks that n bytes at p + off are inside the object that p points
// into. Objects of unknown size pass.
func (c *checker) access(v, p *Value, off, n int, what string) {
	if !c.dom.Reachable(v.Block) {
		return
	}
	ptr := c.ranges.Resolve(p, v.Block)
	if ptr.Off.Empty() {
		return // unreachable
	}
	size, known := c.objectSize(ptr)
	lo, hi := ptr.Off.SMin, ptr.Off.SMax
	if !known {
		if ptr.Root.Op != OpParam && hi == math.MaxInt64 && p.Type.Kind == MapVal {
			c.at(v, "%s: offset in the map value is unbounded", what)
		}
		return
	}
	if hi == math.MaxInt64 || lo == math.MinInt64 {
		c.at(v, "%s: offset in %s is unbounded", what, ptr.describe())
		return
	}
	if lo+int64(off) < 0 || hi+int64(off)+int64(n) > int64(size) {
		if lo == hi {
			c.at(v, "%s: bytes %d to %d are outside %s (%d bytes)", what, lo+int64(off), lo+int64(off)+int64(n),
				ptr.describe(), size)
		} else {
			c.at(v, "%s: offset %d to %d and %d bytes are outside %s (%d bytes)", what, lo+int64(off), hi+int64(off), n, ptr.describe(), size)
		}
	}
}

func (p Pointer) describe() string {
	if p.Slot != nil {
		return "slot " + p.Slot.text()
	}
	return "the " + p.Root.Type.NonNull().String()
}

// objectSize returns the size of the object, when Root points to its start.
func (c *checker) objectSize(p Pointer) (int, bool) {
	switch {
	case p.Slot != nil:
		return p.Slot.Size, true
	case p.Root.Op == OpGlobalAddr:
		if g := c.names.globals[p.Root.Sym]; g != nil {
			return g.Size - int(p.Root.Imm), true
		}
	case p.Root.Op == OpCall && p.Root.Type.Kind == Ringbuf:
		return p.Root.Type.N, true
	case p.Root.Op == OpCall && p.Root.Type.Kind == MapVal:
		if x := c.names.maps[p.Root.Type.Sym]; x != nil && x.BPF.Type != "" {
			return x.BPF.ValueSize, true
		}
	}
	return 0, false
}

func ruleLoad(c *checker, v *Value) {
	if !isNumber(v.Type) && v.Type.Kind != BTF && !keepsPointer(v.Args[0], v.Mem) {
		c.at(v, "result cannot be %s", v.Type)
	}
	if v.Args[0].Type == TCtx {
		c.ctxLoad(v)
		return
	}
	if c.innerMap(v.Args[0]) != nil {
		c.at(v, "cannot load from an element that is a map")
		return
	}
	c.slotAligned(v)
	if v.Args[0].Type.Kind != BTF && v.CORE.Type == "" {
		c.access(v, v.Args[0], int(v.Imm), v.Mem.Size(), "load")
	}
}

// ctxLoad checks a load from the context: the kernel accepts aligned loads of certain sizes
// at constant offsets in a range.
func (c *checker) ctxLoad(v *Value) {
	n := int64(v.Mem.Size())
	if v.Imm < 0 || v.Imm%n != 0 {
		c.at(v, "load from the context at an offset that is not a multiple of its size")
		return
	}
	if c.m.Target == nil || c.f.Prog == nil || v.CORE.Type != "" {
		return
	}
	// In an object for several architectures, guards choose among their layouts.
	program := c.f.Prog.Type().Program
	ctx := kernel.ContextOf(program, c.m.Target.Arch())
	for _, a := range c.m.Arches {
		ctx.Limit = max(ctx.Limit, kernel.ContextOf(program, a).Limit)
	}
	switch {
	case ctx.Sizes&int(n) == 0:
		c.at(v, "a %s program cannot load %d bytes from its context", ctx.Program, n)
	case v.Imm < int64(ctx.First) || v.Imm+n > int64(ctx.Limit):
		c.at(v, "a %s program can load only bytes %d to %d of its context", ctx.Program, ctx.First, ctx.Limit)
	}
}

// slotAligned checks a direct access to a slot: the kernel requires stack accesses aligned
// to their size on every architecture.
func (c *checker) slotAligned(v *Value) {
	if !c.dom.Reachable(v.Block) {
		return
	}
	p := c.ranges.Resolve(v.Args[0], v.Block)
	off, fixed := p.Fixed()
	n := v.Mem.Size()
	switch {
	case p.Slot == nil:
	case !fixed && p.Slot.Class == Frame:
		c.at(v, "variable offset in a slot of the frame")
	case fixed && (off+int(v.Imm))%n != 0, p.Slot.Align < n:
		c.at(v, "access of %d bytes is not aligned in slot %s", n, p.Slot.text())
	}
}

func ruleStore(c *checker, v *Value) {
	p := v.Args[0]
	switch k := p.Type.Kind; {
	case k == Ctx || k == BTF || k == MapKey:
		c.at(v, "cannot store to %s", describe(p.Type))
		return
	case !v.Args[1].Type.IsAddr() && v.Args[1].Type != TI64:
		c.at(v, "cannot store %s", describe(v.Args[1].Type))
		return
	}
	if c.innerMap(p) != nil {
		c.at(v, "cannot store to an element that is a map")
		return
	}
	c.slotAligned(v)
	c.access(v, p, int(v.Imm), v.Mem.Size(), "store")
}

func ruleAtomicAdd(c *checker, v *Value) {
	if v.Mem != U32 && v.Mem != U64 {
		c.at(v, "atomic add of %s", v.Mem)
		return
	}
	ruleStore(c, v)
	if p := c.ranges.Resolve(v.Args[0], v.Block); (p.Off.SMin+v.Imm)%int64(v.Mem.Size()) != 0 &&
		p.Off.SMin == p.Off.SMax {
		c.at(v, "atomic add is not aligned")
	}
}

// ruleCallSub also checks the target of a function reference.
func ruleCallSub(c *checker, v *Value) {
	f := c.names.funcs[v.Sym]
	switch {
	case f == nil || f.Prog != nil:
		c.at(v, "subprogram %s is not declared", v.Sym)
		return
	case len(v.Args) > 5:
		c.at(v, "more than 5 arguments")
	case len(v.Args) != len(f.Params):
		c.at(v, "subprogram %s has %d parameters", f.Name, len(f.Params))
		return
	}
	for i, a := range v.Args {
		if i < len(f.Params) && !assignable(f.Params[i], a.Type) {
			c.at(v, "argument %d is %s, not %s", i+1, describe(a.Type), f.Params[i])
		}
	}
}

func ruleCall(c *checker, v *Value) {
	h := kernel.HelperByName(v.Sym)
	switch {
	case h == nil:
		c.at(v, "unknown helper %s", v.Sym)
		return
	case len(v.Args) > 5:
		c.at(v, "more than 5 arguments")
		return
	case len(v.Args) != len(h.Args):
		c.at(v, "helper %s expects %d arguments", h.Name, len(h.Args))
		return
	case c.f.Prog != nil && !h.Progs.Has(c.f.Prog.Type().Program):
		c.at(v, "a %s program cannot call %s", c.f.Prog.Kind, h.Name)
	}
	for i := range h.Args {
		c.helperArg(v, h, i)
	}
	c.helperResult(v, h)
}

// helperArg checks argument i against the helper's requirements.
func (c *checker) helperArg(v *Value, h *kernel.Helper, i int) {
	a := v.Args[i]
	t := a.Type
	bad := func(want string) { c.at(v, "argument %d is %s, not %s", i+1, describe(t), want) }
	switch kind := h.Args[i]; kind {
	case kernel.ArgAny:
		if t.Nullable || t.Kind == MapRef || t.Kind == FuncRef || t.Kind == Void {
			bad("a number or a pointer")
		}
	case kernel.ArgCtx:
		if t != TCtx {
			bad("the context")
		}
	case kernel.ArgMap:
		if inner := c.innerMap(a); inner != nil && h.Name == "map_lookup_elem" {
			return
		} else if a.Op != OpMapRef {
			bad("a map")
		} else if c.names.maps[a.Sym] == nil {
			c.at(v, "map %s is not declared", a.Sym)
		}
	case kernel.ArgMapKey, kernel.ArgMapValue:
		if !isMemory(t) {
			bad("memory")
			return
		}
		if n, ok := c.mapArgSize(v, h, i); ok {
			c.access(v, a, 0, n, map[bool]string{true: "key", false: "value"}[kind == kernel.ArgMapKey])
		}
	case kernel.ArgMem, kernel.ArgMemOrNull, kernel.ArgMemOut:
		if a.IsConst() && a.Imm == 0 && kind == kernel.ArgMemOrNull {
			return
		}
		if !isMemory(t) {
			bad("memory")
			return
		}
		c.access(v, a, 0, c.sizeOf(v, i+1), "memory")
	case kernel.ArgSize, kernel.ArgSizeOrZero:
		c.sizeArg(v, i, kind == kernel.ArgSizeOrZero)
	case kernel.ArgAllocSize:
		if !a.IsConst() || a.Imm <= 0 {
			c.at(v, "argument %d must be a constant size", i+1)
		}
	case kernel.ArgRecord:
		if t.Kind != Ringbuf || t.Nullable {
			bad("a ring buffer record")
		} else if off, fixed := c.ranges.Resolve(a, v.Block).Fixed(); !fixed || off != 0 {
			c.at(v, "argument %d must point to the start of the record", i+1)
		}
	case kernel.ArgFunc:
		if f := c.names.funcs[a.Sym]; a.Op != OpFuncRef || f == nil || f.Prog != nil {
			bad("a subprogram")
		}
	case kernel.ArgStackOrNull:
		if t.Kind != Stack && (!a.IsConst() || a.Imm != 0) {
			bad("stack memory or null")
		}
	case kernel.ArgConstStr:
		if t.Kind != MapVal || t.Nullable {
			bad("a string constant")
		}
	case kernel.ArgBTF:
		// Only the kernel knows what a plain address points to.
		if t.Kind != BTF && t != TKAddr || t.Nullable {
			bad("a trusted pointer")
		}
	}
}

// innerMap returns the description of the map that an element of an array_of_maps is, nil if a is not one.
func (c *checker) innerMap(a *Value) *Map {
	if a.Type.Kind != MapVal || a.Type.Nullable {
		return nil
	}
	if x := c.names.maps[a.Type.Sym]; x != nil && x.BPF.Inner != "" {
		return c.names.maps[x.BPF.Inner]
	}
	return nil
}

// isMemory reports whether a helper may access the memory that t points to.
func isMemory(t Type) bool {
	return !t.Nullable && (t.Kind == Stack || t.Kind == MapVal || t.Kind == MapKey || t.Kind == Ringbuf)
}

// mapArgSize returns the key or value size of the call's map, if it is already known.
func (c *checker) mapArgSize(v *Value, h *kernel.Helper, i int) (int, bool) {
	for j, k := range h.Args {
		if k != kernel.ArgMap {
			continue
		}
		x := c.names.maps[v.Args[j].Sym]
		if inner := c.innerMap(v.Args[j]); inner != nil {
			x = inner
		}
		if x == nil || x.BPF.Type == "" {
			return 0, false
		}
		if h.Args[i] == kernel.ArgMapKey {
			return x.BPF.KeySize, true
		}
		return x.BPF.ValueSize, true
	}
	return 0, false
}

// sizeOf returns the largest number of bytes that size argument i may be.
func (c *checker) sizeOf(v *Value, i int) int {
	if i >= len(v.Args) || v.Args[i].Type != TI64 {
		return 0
	}
	r := c.ranges.At(v.Args[i], v.Block)
	if r.UMax >= maxVarSize {
		return 0 // sizeArg reports the error
	}
	return int(r.UMax)
}

// maxVarSize is BPF_MAX_VAR_SIZ: variable sizes must be smaller.
const maxVarSize = 1 << 29

// sizeArg requires a number below maxVarSize, as the kernel does.
func (c *checker) sizeArg(v *Value, i int, zero bool) {
	if v.Args[i].Type != TI64 {
		c.at(v, "argument %d is %s, not a size", i+1, describe(v.Args[i].Type))
		return
	}
	if !c.dom.Reachable(v.Block) {
		return
	}
	switch r := c.ranges.At(v.Args[i], v.Block); {
	case r.UMax >= maxVarSize:
		c.at(v, "argument %d is a size without bound", i+1)
	case r.UMin == 0 && !zero:
		c.at(v, "argument %d is a size that may be 0", i+1)
	}
}

func (c *checker) helperResult(v *Value, h *kernel.Helper) {
	ok := false
	want := ""
	switch h.Result {
	case kernel.ResultInt:
		ok, want = isNumber(v.Type) || v.Type == TVoid, "i64, kaddr, uaddr or addr"
	case kernel.ResultVoid:
		ok, want = v.Type == TVoid, "void"
	case kernel.ResultMapValue:
		t := TMapVal(v.Args[0].Sym, true)
		if inner := c.innerMap(v.Args[0]); inner != nil {
			t = TMapVal(inner.Name, true)
		}
		ok, want = v.Type == t, t.String()
	case kernel.ResultRecord:
		t := TRingbuf(int(v.Args[1].Imm), true)
		ok, want = v.Type == t, t.String()
	case kernel.ResultBTF:
		ok, want = v.Type.Kind == BTF && !v.Type.Nullable || v.Type == TKAddr, "btf"
	}
	if !ok {
		c.at(v, "result must be %s", want)
	}
}
