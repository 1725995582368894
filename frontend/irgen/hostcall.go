package irgen

import (
	"fmt"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/internal/probe"
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
		f.failed(helper, f.Call(helper, ir.TI64, n))
		return nil
	}
}

func (f *fn) override(_ ast.Expr, c *check.Call) *ir.Value {
	f.failed("override_return", f.Call("override_return", ir.TI64, f.ctx, f.num(c.Args[0])))
	return nil
}

// writeUser copies bytes of ours into the current process; true when that could
// be done.
func (f *fn) writeUser(_ ast.Expr, c *check.Call) *ir.Value {
	room := int(c.N+7) / 8 * 8
	src := f.Slot("bytes", room, 8)
	f.zero(src, room)
	dst := f.num(c.Args[0])
	if !f.body.Type(c.Args[1]).IsScalar() {
		f.bytesOf(c.Args[1], src, int(c.N))
		return f.writeBytes(dst, src, c.N)
	}
	r := f.readBytes(src, ir.Const(c.N), f.address(c.Args[1]))
	read, failed, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.branch(f.ICmp(ir.EQ, r, ir.Const(0)), read, failed)
	f.start(read, true)
	f.jump(rest, f.writeBytes(dst, src, c.N))
	f.start(failed, true)
	f.jump(rest, ir.Const(0))
	result := rest.AddParam(ir.TI64)
	f.start(rest, true)
	return result
}

// writeBytes copies n bytes into the current process; it is 1 when that could be
// done.
func (f *fn) writeBytes(dst, src *ir.Value, n int64) *ir.Value {
	r := f.Call("probe_write_user", ir.TI64, dst, src, ir.Const(n))
	f.failed("probe_write_user", r)
	return f.BoolInt(f.ICmp(ir.EQ, r, ir.Const(0)))
}

// joinStrings is how many strings join takes at most.
const joinStrings = 16

// join sends the strings that an array of pointers names, up to a null pointer.
func (f *fn) join(_ ast.Expr, c *check.Call) *ir.Value {
	e := f.event(ir.EvJoin)
	e.Format = c.Text
	e.Fields = []ir.Field{{Layout: f.layout(types.MakeBuffer(joinStrings * ir.JoinBytes))}}
	v := f.Emit(ir.OpJoin, ir.TVoid, f.address(c.Args[0]))
	v.Sym, v.Imm = e.Name, joinStrings
	return nil
}

// buf writes {u32 length, bytes}.
func (f *fn) buf(x ast.Expr, c *check.Call, dst *ir.Value) { f.bufInto(c, dst, f.body.Type(x).Size) }

// bufInto writes a buffer of the given capacity, which may be less than what the
// call gives.
func (f *fn) bufInto(c *check.Call, dst *ir.Value, capacity int) {
	size := types.MakeBuffer(capacity).Store().Size
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
	f.zero(dst, size)
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
		f.readBytes(to, n, f.address(c.Args[0]))
	}
}

// readBytes copies n bytes, a number that the kernel verifier has bounded. It is 0
// when that could be done.
func (f *fn) readBytes(to, n, from *ir.Value) *ir.Value {
	if from.Type.Kind == ir.Addr {
		kernel, user, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
		f.branch(f.KernelAddr(f.m.Served(), from), kernel, user)
		f.start(kernel, true)
		f.jump(rest, f.readBytes(to, n, f.Cast(ir.TKAddr, from)))
		f.start(user, true)
		f.jump(rest, f.readBytes(to, n, f.Cast(ir.TUAddr, from)))
		result := rest.AddParam(ir.TI64)
		f.start(rest, true)
		return result
	}
	helper := "probe_read_kernel"
	if from.Type.Kind == ir.UAddr {
		helper = "probe_read_user"
	}
	r := f.Call(helper, ir.TI64, to, n, from)
	f.failed(helper, r)
	return r
}

// childPID is the process id of the loader's command, which the loader sets.
func (f *fn) childPID(ast.Expr, *check.Call) *ir.Value {
	if f.m.Global("cpid") == nil {
		f.m.Globals = append(f.m.Globals, &ir.Global{Name: "cpid", Kind: ir.GlobalConst, Size: 8})
	}
	return f.Global(ir.U64, "cpid", 0)
}

// kfuncAllowed asks the host for a kernel function and this kind of program.
func (f *fn) kfuncAllowed(_ ast.Expr, c *check.Call) *ir.Value {
	return f.fromHost("kfunc_allowed", c.Text+" "+f.prog.Point.Kind)
}

// debugf writes to the kernel's trace pipe.
func (f *fn) debugf(_ ast.Expr, c *check.Call) *ir.Value {
	size := len(c.Format) + 1
	text := f.Slot("format", size, 1)
	lit := f.Emit(ir.OpStrLit, ir.TVoid, text)
	lit.Sym, lit.Imm = c.Format, int64(size)
	args := []*ir.Value{text, ir.Const(int64(size))}
	for _, x := range c.Args {
		if f.body.Type(x).IsScalar() {
			args = append(args, f.num(x))
		} else {
			args = append(args, f.addr(x))
		}
	}
	for len(args) < 5 { // the helper's number; it looks at those that the format names
		args = append(args, ir.Const(0))
	}
	f.Call("trace_printk", ir.TI64, args...)
	return nil
}

// path writes the path of a struct path; an empty text where there is none.
func (f *fn) path(c *check.Call, dst *ir.Value, capacity int) {
	f.zero(dst, capacity)
	f.withTrusted(c.Trusted, func(at *ir.Value) {
		f.failed("d_path", f.Call("d_path", ir.TI64, at, dst, ir.Const(int64(capacity))))
	})
}

// packetLimit is the most that skb_output copies of a packet: a perf record has at
// most 64 KiB with its headers.
const packetLimit = 0xff00

// skbOutput has the kernel copy a packet behind a record of ours into a perf event
// array, the only map that the helper takes.
func (f *fn) skbOutput(_ ast.Expr, c *check.Call) *ir.Value {
	const packets = "packets"
	if f.m.Map(packets) == nil {
		f.m.Maps = append(f.m.Maps, &ir.Map{Name: packets, Shape: ir.ShapeIntern, Pos: ir.NoPos, BPF: ir.BPFMap{Name: packets,
			Type: "perf_event_array", KeySize: 4, ValueSize: 4, Present: -1, Gens: 1, Loss: -1}})
	}
	e := f.event(ir.EvSkbOutput)
	e.Format = c.Text
	const size = 8 + 3*8
	u64 := f.layout(types.TUint64)
	e.Fields = []ir.Field{{Name: "time", Layout: u64}, {Name: "length", Layout: u64}, {Name: "offset", Layout: u64}}
	n := f.num(c.Args[0])
	n = f.Select(f.ICmp(ir.UGT, n, ir.Const(packetLimit)), ir.Const(packetLimit), n)
	rec := f.Slot("packet", size, 8)
	f.Store(ir.U32, rec, 0, ir.Const(int64(e.ID)))
	f.Store(ir.U32, rec, 4, ir.Const(size))
	f.Store(ir.U64, rec, 8, f.Emit(ir.OpNsecs, ir.TI64))
	f.Store(ir.U64, rec, 16, n)
	f.Store(ir.U64, rec, 24, ir.Const(c.N))
	const currentCPU = 0xffffffff // BPF_F_CURRENT_CPU; the length stands above it
	flags := f.Or(f.Shl(n, ir.Const(32)), ir.Const(currentCPU))
	return f.trustedValue(c, func(skb *ir.Value) *ir.Value {
		r := f.Call("skb_output", ir.TI64, skb, ir.MapOperand(packets), flags, rec, ir.Const(size))
		f.failed("skb_output", r)
		return f.And(r, ir.Const(1<<32-1)) // a uint32
	})
}

func (f *fn) socketCookie(_ ast.Expr, c *check.Call) *ir.Value {
	return f.trustedValue(c, func(sk *ir.Value) *ir.Value { return f.Call("get_socket_cookie", ir.TI64, sk) })
}

// trustedValue is the number that a helper makes of the trusted pointer that c
// gives it, 0 without one.
func (f *fn) trustedValue(c *check.Call, use func(at *ir.Value) *ir.Value) *ir.Value {
	f.setVar(c, ir.Const(0)) // a variable of its own carries the value to where the branches meet
	f.withTrusted(c.Trusted, func(at *ir.Value) { f.setVar(c, use(at)) })
	return f.getVar(c, ir.TI64)
}

// uaddr is the address of a symbol of the probed file: at a uprobe in the
// process, by the distance from the probe; elsewhere (the macro uaddr adds where
// the program's code begins) the distance from there.
func (f *fn) uaddr(x ast.Expr, c *check.Call) *ir.Value {
	t := irType(f.body.Type(x))
	if f.prog.Point.Kind == probe.Uprobe {
		return f.as(t, f.Add(f.Emit(ir.OpFuncIP, ir.TI64, f.ctx), f.fromHost("uaddr", f.f.Name+" "+c.Text)))
	}
	return f.as(t, f.fromHost("uaddr_code", f.f.Name+" "+c.Text))
}
