// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/types"
	"btc/internal/manifest"
	"btc/internal/probe"
	"btc/ir"
)

// hostValue generates a builtin whose value the loader looks up on the host: each argument has its own constant.
func hostValue(f *fn, _ ast.Expr, c *check.Call) *ir.Value {
	return f.fromHost(manifest.HostValue(c.Fn.Name), c.Text, c.From)
}

// fromHost loads the constant that the loader sets to a property (kaddr, cgroupid) of text. From is
// the parameter with the rest of text, as Call.From.
func (f *fn) fromHost(what manifest.HostValue, text, from string) *ir.Value {
	return f.Global(ir.U64, f.m.HostValue(what, text, f.stringFrom(from), f.Pos, f.end).Name, 0)
}

// percpuKaddr returns the address of a CPU's copy of a variable: the symbol's address plus the CPU's entry in the
// kernel's table of offsets; 0 for a CPU that does not exist.
func (f *fn) percpuKaddr(x ast.Expr, c *check.Call) *ir.Value {
	var cpu *ir.Value
	if len(c.Args) > 0 {
		cpu = f.num(c.Args[0])
	} else {
		cpu = f.Emit(ir.OpCPU, ir.TI64)
	}
	at := f.Add(f.fromHost(manifest.HostKaddr, "__per_cpu_offset", ""), f.Shl(cpu, ir.Const(3)))
	off := f.Emit(ir.OpRead, ir.TI64, f.as(ir.TKAddr, at))
	off.Mem = ir.U64
	there := f.ICmp(ir.ULT, cpu, f.Emit(ir.OpNcpus, ir.TI64))
	return f.as(irType(f.body.Type(x)), f.Select(there, f.Add(f.fromHost(manifest.HostKaddr, c.Text, c.From), off), ir.Const(0)))
}

// signal sends a signal to the current process (0) or thread (1).
func signal(to int64) callFunc {
	return func(f *fn, _ ast.Expr, c *check.Call) *ir.Value {
		n := ir.Const(c.N)
		if len(c.Args) > 0 {
			n = f.num(c.Args[0])
		}
		f.Emit(ir.OpSignal, ir.TVoid, n).Imm = to
		return nil
	}
}

func (f *fn) override(_ ast.Expr, c *check.Call) *ir.Value {
	f.Emit(ir.OpOverride, ir.TVoid, f.ctx, f.num(c.Args[0]))
	return nil
}

// writeUser copies bytes of program memory into the current process; true on success.
func (f *fn) writeUser(_ ast.Expr, c *check.Call) *ir.Value {
	room := int(c.N+7) / 8 * 8
	src := f.Slot("bytes", room, 8)
	f.zero(src, room)
	dst := f.num(c.Args[0])
	if !f.body.Type(c.Args[1]).IsScalar() {
		f.bytesOf(c.Args[1], src, int(c.N))
		return f.writeBytes(dst, src, c.N)
	}
	ok := f.readBytes(src, ir.Const(c.N), c.N, f.address(c.Args[1]))
	read, failed, rest := f.f.NewBlock(), f.f.NewBlock(), f.f.NewBlock()
	f.branch(ok, read, failed)
	f.start(read, true)
	f.jump(rest, f.writeBytes(dst, src, c.N))
	f.start(failed, true)
	f.jump(rest, ir.Const(0))
	result := rest.AddParam(ir.TI64)
	f.start(rest, true)
	return result
}

// writeBytes copies n bytes into the current process; it is 1 on success.
func (f *fn) writeBytes(dst, src *ir.Value, n int64) *ir.Value {
	ok := f.Emit(ir.OpWriteUser, ir.TI1, dst, src)
	ok.Imm = n
	return f.BoolInt(ok)
}

// joinStrings is the maximum number of strings of join.
const joinStrings = 16

// join sends the strings that an array of pointers points to, up to a null pointer.
func (f *fn) join(_ ast.Expr, c *check.Call) *ir.Value {
	e := f.event(ir.EvJoin)
	e.Format, e.FormatFrom = c.Text, f.stringFrom(c.From)
	e.Fields = []ir.Field{{Layout: f.layout(types.MakeBuffer(joinStrings * ir.JoinBytes))}}
	v := f.Emit(ir.OpJoin, ir.TVoid, f.address(c.Args[0]))
	v.Sym, v.Imm = e.Name, joinStrings
	return nil
}

// buf writes {u32 length, bytes}.
func (f *fn) buf(x ast.Expr, c *check.Call, dst *ir.Value) { f.bufInto(c, dst, f.body.Type(x).Size) }

// bufInto writes a buffer of the given capacity, which may be smaller than the call's result.
func (f *fn) bufInto(c *check.Call, dst *ir.Value, capacity int) {
	size := types.MakeBuffer(capacity).Store().Size
	n := ir.Const(int64(capacity))
	if len(c.Args) > 1 {
		n = f.num(c.Args[1])
		if n.IsConst() {
			n = ir.Const(max(0, min(n.Imm, int64(capacity))))
		}
	}
	src, flexible := f.body.Type(c.Args[0]), f.flexible(c.Args[0])
	if !src.IsScalar() && flexible == nil {
		capacity = min(capacity, src.Size)
	}
	f.zero(dst, size)
	if !n.IsConst() {
		n = f.atMost(n, int64(capacity))
	}
	f.Store(ir.U32, dst, 0, n)
	to := f.AddImm(dst, 4)
	switch {
	case flexible != nil:
		f.readBytes(to, n, int64(capacity), flexible)
	case !src.IsScalar() && capacity > 0:
		f.bytesOf(c.Args[0], to, capacity)
	case src.IsScalar():
		f.readBytes(to, n, int64(capacity), f.address(c.Args[0]))
	}
}

// readBytes copies n bytes, at most most; it is true on success.
func (f *fn) readBytes(to, n *ir.Value, most int64, from *ir.Value) *ir.Value {
	ok := f.Emit(ir.OpReadBytes, ir.TI1, to, n, from)
	ok.Imm = most
	return ok
}

// childPID returns the process id of the loader's command, which the loader sets.
func (f *fn) childPID(ast.Expr, *check.Call) *ir.Value {
	const name = string(manifest.HostCpid)
	if f.m.Global(name) == nil {
		f.m.Globals = append(f.m.Globals, &ir.Global{Name: name, Kind: ir.GlobalConst, Size: 8})
	}
	return f.Global(ir.U64, name, 0)
}

// kfuncAllowed generates kfunc_allowed(): whether the host has a kernel function and allows it in
// this type of program.
func (f *fn) kfuncAllowed(_ ast.Expr, c *check.Call) *ir.Value {
	return f.fromHost(manifest.HostKfuncAllowed, c.Text+" "+f.prog.Point.Kind, c.From)
}

// debugf writes to the kernel's trace pipe.
func (f *fn) debugf(_ ast.Expr, c *check.Call) *ir.Value {
	var args []*ir.Value
	for _, x := range c.Args {
		if f.body.Type(x).IsScalar() {
			args = append(args, f.num(x))
		} else {
			args = append(args, f.addr(x))
		}
	}
	f.Emit(ir.OpDebugf, ir.TVoid, args...).Sym = c.Format
	return nil
}

// path writes the path of a struct path; an empty string if there is none.
func (f *fn) path(c *check.Call, dst *ir.Value, capacity int) {
	f.zero(dst, capacity)
	f.withTrusted(c.Trusted, func(at *ir.Value) {
		f.Emit(ir.OpPath, ir.TVoid, dst, at).Imm = int64(capacity)
	})
}

// skbOutput sends a packet to the loader, which writes it to a file.
func (f *fn) skbOutput(_ ast.Expr, c *check.Call) *ir.Value {
	e := f.event(ir.EvSkbOutput)
	e.Format, e.FormatFrom = c.Text, f.stringFrom(c.From)
	u64 := f.layout(types.TUint64)
	e.Fields = []ir.Field{{Name: "time", Layout: u64}, {Name: "length", Layout: u64}, {Name: "offset", Layout: u64}}
	n := f.num(c.Args[0])
	return f.trustedValue(c, func(skb *ir.Value) *ir.Value {
		v := f.Emit(ir.OpSkbOutput, ir.TI64, skb, n)
		v.Imm, v.Sym = c.N, e.Name
		return v
	})
}

func (f *fn) socketCookie(_ ast.Expr, c *check.Call) *ir.Value {
	return f.trustedValue(c, func(sk *ir.Value) *ir.Value { return f.Emit(ir.OpSocketCookie, ir.TI64, sk) })
}

// trustedValue returns the result of a helper for the trusted pointer of c, 0 without one.
func (f *fn) trustedValue(c *check.Call, use func(at *ir.Value) *ir.Value) *ir.Value {
	f.setVar(c, ir.Const(0)) // a separate variable carries the value to the join
	f.withTrusted(c.Trusted, func(at *ir.Value) { f.setVar(c, use(at)) })
	return f.getVar(c, ir.TI64)
}

// uaddr returns the address of a symbol of the probed file. At a uprobe it is the address in the process, computed from
// the distance to the probe; elsewhere it is the distance from the start of the program's code, which the macro uaddr
// adds.
func (f *fn) uaddr(x ast.Expr, c *check.Call) *ir.Value {
	t := irType(f.body.Type(x))
	if f.prog.Point.Kind == probe.Uprobe {
		return f.as(t, f.Add(f.Emit(ir.OpProbeIP, ir.TI64, f.ctx), f.fromHost(manifest.HostUaddr, f.f.Name+" "+c.Text, c.From)))
	}
	return f.as(t, f.fromHost(manifest.HostUaddrCode, f.f.Name+" "+c.Text, c.From))
}
