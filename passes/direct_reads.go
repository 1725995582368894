// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"strings"

	"btc/internal/probe"
	"btc/ir"
	"btc/targets/kernel"
)

// direct-reads replaces probe reads by plain loads where the kernel knows the object's
// type: the arguments of traced functions (fentry, fexit), and what the current task points
// to, also through further pointers. docs/targets.md has the measured gain.
//
// requires:    -
// establishes: -
// invalidates: dominators, liveness (it adds blocks)
//
//	v1:kaddr = curtask
//	v2:kaddr = read.u64 [v1+field(struct task_struct:real_parent)]
//	v3:i64 = read.s32 [v2+field(struct task_struct:tgid)]
//	->
//	  ...                  ; is there get_current_task_btf, is tgid 4 bytes wide here?
//	  br v9, b1, b3
//	b1:
//	  v10:btf = call get_current_task_btf
//	  v11:btf? = load.u64 [v10+field(struct task_struct:real_parent)]
//	  v12:i1 = icmp ne v11, 0
//	  br v12, b2, b3
//	b2:
//	  v13:i64 = load.s32 [v11+field(struct task_struct:tgid)]
//	  jump b4(v13)
//	b3:                    ; the reads as they were
//	  ...
//	  jump b4(v14)
//
// The kernel uses its own types: it follows a pointer only if the type there is a pointer
// to a struct, uses the first member of a union, and allows no arithmetic with such a
// pointer. So only chains are converted whose every step is a plain member in the target
// and that end in a number. The test for the helper (5.11) is made before arguments, too,
// as the switch that the loader can set.
func directReads(m *ir.Module) []ir.Diag {
	if m.Target == nil {
		return nil
	}
	for _, f := range m.Funcs {
		if f.Prog == nil {
			continue
		}
		d := &direct{m: m, f: f}
		ir.Rewrite(f, func(b *ir.Builder, v *ir.Value) (*ir.Value, bool) {
			c, ok := d.chain(v)
			if !ok {
				return nil, false
			}
			return c.emit(b), true
		})
	}
	return nil
}

const typedTask = "get_current_task_btf"

type direct struct {
	m *ir.Module
	f *ir.Func
}

// chain is a read of a number, and the reads of pointers that lead to it.
type chain struct {
	root  *ir.Value   // curtask or an argument
	typ   string      // type that root points to
	slot  int         // slot of an argument, in words of the context
	reads []*ir.Value // in execution order; the last one reads the number
}

// chain finds the chain that ends in v.
func (d *direct) chain(v *ir.Value) (c chain, ok bool) {
	if v.Op != ir.OpRead || v.Type.IsPtr() {
		return c, false
	}
	f, ok := d.plainField(v)
	if !ok || !isWord(f.Type.Resolve(), v.Mem.Size()) {
		return c, false
	}
	c.reads = []*ir.Value{v}
	for {
		c.typ = c.reads[0].CORE.Type
		base := uncast(c.reads[0].Args[0])
		if base.Op != ir.OpRead {
			c.root = base
			return c, d.isRoot(&c)
		}
		f, ok := d.plainField(base)
		if !ok || !pointsTo(f.Type, c.typ) {
			return c, false
		}
		c.reads = append([]*ir.Value{base}, c.reads...)
	}
}

// isRoot reports whether the kernel knows the type of a chain's first value.
func (d *direct) isRoot(c *chain) bool {
	switch c.root.Op {
	case ir.OpCurtask: // the call that returns it typed costs as much as a read
		return c.typ == "struct task_struct" && len(c.reads) > 1
	case ir.OpArg:
		if k := d.f.Prog.Kind; k != probe.Fentry && k != probe.Fexit {
			return false
		}
		fn, ok := d.m.Target.Func(d.f.Prog.Attach.Name)
		n := int(c.root.Imm)
		if !ok || fn.Proto == nil || n >= len(fn.Proto.Params) || !pointsTo(fn.Proto.Params[n].Type(), c.typ) {
			return false
		}
		c.slot = fn.Proto.Slot(n)
		return true
	}
	return false
}

// plainField returns the field that v reads, if it is a member of a struct and not of a union, a
// bitfield or an array.
func (d *direct) plainField(v *ir.Value) (f kernel.Field, ok bool) {
	if v.Imm != 0 || v.CORE.Path == "" || strings.Contains(v.CORE.Path, "[") ||
		!strings.HasPrefix(v.CORE.Type, "struct ") {
		return f, false
	}
	typ, ok := structType(d.m.Target, v.CORE.Type)
	for _, name := range strings.Split(v.CORE.Path, ".") {
		if !ok || typ.Kind != kernel.Struct {
			return f, false
		}
		if f, ok = typ.Field(name); !ok || f.BitSize > 0 || !plainPath(typ, f.Path) {
			return f, false
		}
		typ = f.Type.Resolve()
	}
	return f, ok
}

// plainPath reports whether no member on the way to a field is a union.
func plainPath(typ *kernel.Type, path []int) bool {
	for _, i := range path {
		if typ.Kind != kernel.Struct {
			return false
		}
		typ = typ.Members[i].Type().Resolve()
	}
	return true
}

// isWord reports whether the kernel treats a value of type t as a number of size bytes.
func isWord(t *kernel.Type, size int) bool {
	switch t.Kind {
	case kernel.Int, kernel.Enum:
		return int(t.Size) == size
	case kernel.Pointer: // a pointer to neither struct nor union
		to := t.Elem().Resolve()
		return size == 8 && (to.Kind == kernel.Int || to.Kind == kernel.Void)
	}
	return false
}

// pointsTo reports whether t is a pointer to the struct called name.
func pointsTo(t *kernel.Type, name string) bool {
	t = t.Resolve()
	if t.Kind != kernel.Pointer || t.User {
		return false
	}
	to := t.Elem().Resolve()
	return to.Kind == kernel.Struct && "struct "+to.Name == name
}

func uncast(v *ir.Value) *ir.Value {
	for v.Op == ir.OpCast {
		v = v.Args[0]
	}
	return v
}

// emit writes the loads, and the original reads for hosts where the loads are not possible.
func (c chain) emit(b *ir.Builder) *ir.Value {
	last := c.reads[len(c.reads)-1]
	rest := b.Split()
	result := rest.AddParam(last.Type)
	slow := b.Func().NewBlockAfter(b.Block())
	slow.Cold = true
	unless := func(test *ir.Value) {
		next := b.Func().NewBlockAfter(b.Block())
		b.Br(test, next, slow)
		b.SetBlock(next)
	}
	follow := func(p *ir.Value) *ir.Value {
		next := b.Func().NewBlockAfter(b.Block())
		null := ir.Edge{To: rest, Args: []*ir.Value{b.Cast(last.Type, ir.Const(0))}}
		if last.Pos.Site > 0 { // the failed read is to be reported
			null = ir.Edge{To: slow}
		}
		b.Block().Br(b.NotNull(p), ir.Edge{To: next}, null, b.Pos)
		b.SetBlock(next)
		return b.NonNull(p)
	}
	unless(b.HasHelper(typedTask))
	size := last.Mem.Size()
	unless(b.ICmp(ir.EQ, b.CORE(ir.FieldByteSize, last.CORE), ir.Const(int64(size))))
	if size < 8 { // a bitfield here
		unless(b.ICmp(ir.EQ, b.CORE(ir.FieldRShift, last.CORE), ir.Const(int64(64-8*size))))
	}
	p := c.typedRoot(b)
	if p.Type.Nullable {
		p = follow(p)
	}
	for i, r := range c.reads[:len(c.reads)-1] {
		p = follow(b.LoadField(ir.TBTF(c.reads[i+1].CORE.Type, true), ir.U64, p, r.CORE))
	}
	b.Jump(rest, b.LoadField(last.Type, last.Mem, p, last.CORE))

	b.SetBlock(slow)
	at := c.root
	if c.root.Op == ir.OpCurtask {
		at = b.Emit(ir.OpCurtask, c.root.Type)
	}
	at = b.Cast(ir.TKAddr, at)
	for _, r := range c.reads {
		again := b.Emit(ir.OpRead, r.Type, at)
		again.Mem, again.CORE = r.Mem, r.CORE
		at = again
	}
	b.Jump(rest, at)
	*b = *ir.At(rest, 0, last.Pos)
	return result
}

func (c chain) typedRoot(b *ir.Builder) *ir.Value {
	if c.root.Op == ir.OpCurtask {
		return b.Call(typedTask, ir.TBTF(c.typ, false))
	}
	return b.LoadAs(ir.TBTF(c.typ, true), ir.U64, c.root.Args[0], 8*c.slot)
}
