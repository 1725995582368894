package build

import (
	"fmt"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/ir"
)

// hostValue is a builtin whose value the loader finds on the host: a constant of
// its own for each argument.
func hostValue(f *fn, _ ast.Expr, c *check.Call) *ir.Value {
	return f.fromHost(c.Fn.Name, c.Text)
}

// fromHost loads the constant that the loader sets to what (kaddr, cgroupid) says
// of text.
func (f *fn) fromHost(what, text string) *ir.Value {
	n := 0
	for _, g := range f.m.Globals {
		if g.Host == what && g.Text == text {
			return f.Global(ir.U64, g.Name, 0)
		}
		if g.Host == what {
			n++
		}
	}
	at := f.Pos
	g := &ir.Global{Name: fmt.Sprintf("%s_%d", what, n), Kind: ir.GlobalConst, Size: 8, Host: what, Text: text, Pos: &at, End: f.end}
	f.m.Globals = append(f.m.Globals, g)
	return f.Global(ir.U64, g.Name, 0)
}

// percpuKaddr is where a CPU has its copy of a variable: the symbol's address plus
// the CPU's entry in the kernel's table of offsets; 0 for a CPU that is not there.
func (f *fn) percpuKaddr(x ast.Expr, c *check.Call) *ir.Value {
	var cpu *ir.Value
	if len(c.Args) > 0 {
		cpu = f.num(c.Args[0])
	} else {
		cpu = f.Emit(ir.OpCPU, ir.TI64)
	}
	at := f.Add(f.fromHost("kaddr", "__per_cpu_offset"), f.Shl(cpu, ir.Const(3)))
	off := f.Emit(ir.OpRead, ir.TI64, f.as(ir.TKAddr, at))
	off.Mem = ir.U64
	there := f.ICmp(ir.ULT, cpu, f.Emit(ir.OpNcpus, ir.TI64))
	return f.as(irType(f.body.Type(x)), f.Select(there, f.Add(f.fromHost("kaddr", c.Text), off), ir.Const(0)))
}

// jiffies reads the kernel's counter: the helper for it is not for tracing
// programs on older kernels. Newer ones may not list the counter among their
// symbols, but have the helper.
func (f *fn) jiffies(ast.Expr, *check.Call) *ir.Value {
	addr := f.fromHost("kaddr_or_0", "jiffies_64")
	read, call, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.branch(f.ICmp(ir.NE, addr, ir.Const(0)), read, call)
	f.start(read, true)
	v := f.Emit(ir.OpRead, ir.TI64, f.as(ir.TKAddr, addr))
	v.Mem = ir.U64
	f.jump(rest, v)
	f.start(call, true)
	f.jump(rest, f.Call("jiffies64", ir.TI64))
	result := rest.AddParam(ir.TI64)
	f.start(rest, true)
	return result
}

// signal sends a signal to the current process or thread.
func signal(helper string) callFunc {
	return func(f *fn, _ ast.Expr, c *check.Call) *ir.Value {
		n := ir.Const(c.N)
		if len(c.Args) > 0 {
			n = f.num(c.Args[0])
		}
		f.Call(helper, ir.TI64, n)
		return nil
	}
}

func (f *fn) override(_ ast.Expr, c *check.Call) *ir.Value {
	f.Call("override_return", ir.TI64, f.ctx, f.num(c.Args[0]))
	return nil
}

// writeUser copies bytes of ours into the current process; true when that could
// be done.
func (f *fn) writeUser(_ ast.Expr, c *check.Call) *ir.Value {
	room := int(c.N+7) / 8 * 8
	src := f.Slot("bytes", room, 8)
	f.zero(src, room)
	f.bytesOf(c.Args[1], src, int(c.N))
	r := f.Call("probe_write_user", ir.TI64, f.num(c.Args[0]), src, ir.Const(c.N))
	return f.BoolInt(f.ICmp(ir.EQ, r, ir.Const(0)))
}

// The strings that join takes at most, and the bytes of each.
const (
	joinStrings = 16
	joinBytes   = 1024
)

// join sends the strings that an array of pointers names, up to a null pointer.
func (f *fn) join(_ ast.Expr, c *check.Call) *ir.Value {
	e := f.event(ir.EvJoin)
	e.Format = c.Text
	at := f.scalar(c.Args[0])
	if at.Type.Kind == ir.I64 {
		at = f.as(f.addressType(), at)
	}
	text := f.layout(types.MakeString(joinBytes))
	vals := make([]*ir.Value, joinStrings)
	var p *ir.Value
	for i := range vals {
		from := f.AddImm(at, int64(8*i))
		if p != nil { // what is behind the end is read at null, which gives null
			n := f.as(ir.TI64, p)
			ones := f.Sub(ir.Const(0), f.notZero(n)) // no branch: each would double what 5.10 walks
			from = f.as(at.Type, f.And(f.as(ir.TI64, from), ones))
		}
		p = f.Emit(ir.OpRead, at.Type, from)
		p.Mem = ir.U64
		vals[i] = f.Slot("str", joinBytes, 1)
		f.Emit(ir.OpStr, ir.TI64, vals[i], p, ir.Const(joinBytes)).Imm = joinBytes
		e.Fields = append(e.Fields, ir.Field{Layout: text})
	}
	f.Emit(ir.OpEmit, ir.TVoid, vals...).Sym = e.Name
	return nil
}

// buf writes {u32 length, bytes}.
func (f *fn) buf(x ast.Expr, c *check.Call, dst *ir.Value) {
	capacity := f.body.Type(x).Size
	n := ir.Const(int64(capacity))
	if len(c.Args) > 1 {
		n = f.num(c.Args[1])
		if n.IsConst() {
			n = ir.Const(max(0, min(n.Imm, int64(capacity))))
		}
	}
	src := f.body.Type(c.Args[0])
	if !src.IsScalar() {
		capacity = min(capacity, src.Size)
	}
	f.zero(dst, f.body.Type(x).Store().Size)
	if !n.IsConst() {
		top := ir.Const(int64(capacity))
		n = f.Select(f.ICmp(ir.UGT, n, top), top, n)
	}
	f.Store(ir.U32, dst, 0, n)
	to := f.AddImm(dst, 4)
	switch {
	case !src.IsScalar() && capacity > 0:
		f.bytesOf(c.Args[0], to, capacity)
	case src.IsScalar():
		from := f.scalar(c.Args[0])
		if from.Type.Kind == ir.I64 {
			from = f.as(f.addressType(), from)
		}
		helper := "probe_read_kernel"
		if from.Type.Kind == ir.UAddr {
			helper = "probe_read_user"
		}
		f.Call(helper, ir.TI64, to, n, from)
	}
}
