// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"btc/internal/manifest"
	"btc/ir"
)

// lower-library expands the functions of the language that need loops, helpers or maps of their
// own: searches of strings, names of probes, actions on processes. It runs first, so that all
// optimizations apply to the code that it emits.
//
// requires:    -
// establishes: none of its ops is left; the maps "probe_names" and "packets" exist
// where they are used
// invalidates: dominators, liveness (it adds blocks)
//
//	v2:i64 = memcmp s0+0, s1+0, #8
//	->
//	jump b1(0)
//	b1(v3:i64):
//	  v4:stack = add s0+0, v3
//	  v5:i64 = load.s8 [v4]
//	  ...                                ; the same of s1
//	  v8:i64 = sub v5, v7
//	  v9:i64 = add v3, 1
//	  v10:i1 = icmp eq v8, 0
//	  br v10, b3, b2                     ; b3: v9 < 8 goes on at b1, else b2
//
// Memory that the kernel must take variable offsets into is in scratch.
func lowerLibrary(m *ir.Module) []ir.Diag {
	names := int64(0) // the longest name of a probe that is read
	for _, f := range m.Funcs {
		for _, b := range f.Blocks {
			for _, v := range b.Values {
				if v.Op == ir.OpProbeName {
					names = max(names, v.Imm)
				}
			}
		}
	}
	return rules{
		ir.OpStrLen:     lowerStrLen,
		ir.OpStrFind:    lowerStrFind,
		ir.OpStrFindMem: lowerStrFindMem,
		ir.OpStrConcat:  lowerStrConcat,
		ir.OpMemCmp:     lowerMemCmp,
		ir.OpReadBytes:  lowerReadBytes,
		ir.OpMapAddr: func(l *lowering, v *ir.Value) *ir.Value { // the kernel computes with no pointer to a map
			return l.Cast(ir.TKAddr, l.forget(l.Cast(ir.TKAddr, v.Args[0])))
		},
		ir.OpProbeName: func(l *lowering, v *ir.Value) *ir.Value { return lowerProbeName(l, v, int(names)) },
		ir.OpJiffies:   lowerJiffies,
		ir.OpSkbOutput: lowerSkbOutput,
		ir.OpDebugf:    lowerDebugf,
		ir.OpSignal:    lowerSignal,
		ir.OpOverride: func(l *lowering, v *ir.Value) *ir.Value {
			l.helper("override_return", v.Args...)
			return nil
		},
		ir.OpWriteUser: func(l *lowering, v *ir.Value) *ir.Value {
			r := l.helper("probe_write_user", v.Args[0], v.Args[1], ir.Const(v.Imm))
			return l.ICmp(ir.EQ, r, ir.Const(0))
		},
		ir.OpPath: func(l *lowering, v *ir.Value) *ir.Value {
			l.helper("d_path", v.Args[1], v.Args[0], ir.Const(v.Imm))
			return nil
		},
		ir.OpSocketCookie: func(l *lowering, v *ir.Value) *ir.Value {
			return l.Call("get_socket_cookie", ir.TI64, v.Args[0])
		},
	}.apply(m)
}

// helper calls a helper whose failure is reported.
func (l *lowering) helper(name string, args ...*ir.Value) *ir.Value {
	r := l.Call(name, ir.TI64, args...)
	if l.Pos.Site > 0 {
		l.Emit(ir.OpFailed, ir.TVoid, r).Sym = name
	}
	return r
}

// forget passes x through memory whose content the kernel's verifier does not track:
// it then walks what follows once, not once for each way in which x was computed.
func (l *lowering) forget(x *ir.Value) *ir.Value {
	slot := l.scratch("known", 8)
	l.Store(ir.U64, slot, 0, x)
	return l.Load(ir.U64, slot, 0)
}

// scratch makes a memory object outside of the frame, where the kernel takes
// variable offsets.
func (l *lowering) scratch(name string, size int) *ir.Value {
	p := l.Slot(name, size, 8)
	p.Slot.Class = ir.Scratch
	return p
}

// lowerMemCmp compares byte by byte: the first difference decides the result.
func lowerMemCmp(l *lowering, v *ir.Value) *ir.Value {
	for _, a := range v.Args {
		if a.Op == ir.OpSlotAddr {
			a.Slot.Class = ir.Scratch
		}
	}
	rest := l.Split()
	head := l.Func().NewBlockAfter(l.Block())
	next := l.Func().NewBlockAfter(head)
	l.Jump(head, ir.Const(0))
	k := head.AddParam(ir.TI64)
	l.continueAt(head)
	diff := l.Sub(l.Load(ir.S8, l.Add(v.Args[0], k), 0), l.Load(ir.S8, l.Add(v.Args[1], k), 0))
	more := l.AddImm(k, 1)
	l.Br(l.ICmp(ir.EQ, diff, ir.Const(0)), next, rest)
	l.continueAt(next)
	again := ir.Edge{To: head, Args: []*ir.Value{more}}
	next.Br(l.ICmp(ir.ULT, more, ir.Const(v.Imm)), again, ir.Edge{To: rest}, l.Pos)
	l.continueAt(rest)
	return diff
}

// lowerReadBytes reads a variable number of bytes, which the program has bounded.
func lowerReadBytes(l *lowering, v *ir.Value) *ir.Value {
	r := l.bySpace(v.Args[2], func(from *ir.Value) *ir.Value {
		_, helper := readHelpers(from)
		return l.helper(helper, v.Args[0], v.Args[1], from)
	})
	return l.ICmp(ir.EQ, r, ir.Const(0))
}

// lowerProbeName looks the name up in the map "probe_names", which the loader fills with the names
// of all attach points, by number. size is the size of the map's values.
func lowerProbeName(l *lowering, v *ir.Value, size int) *ir.Value {
	const names = "probe_names"
	intern(l.m, names, "hash", 4, size, 1) // the loader knows how many
	key := l.Slot("probe", 4, 4)
	l.Store(ir.U32, key, 0, v.Args[1])
	name := l.lookup(names, key)
	l.If(l.NotNull(name), func() {
		l.Emit(ir.OpStrCopy, ir.TI64, v.Args[0], l.NonNull(name)).Imm = v.Imm
	}, func() {
		l.Emit(ir.OpMemZero, ir.TVoid, v.Args[0]).Imm = v.Imm
	})
	return nil
}

// lowerJiffies reads the kernel's counter: tracing programs may not call the helper
// for it on older kernels. Newer ones may not list the counter among their symbols,
// but have the helper.
func lowerJiffies(l *lowering, v *ir.Value) *ir.Value {
	g := l.m.HostValue(manifest.HostKaddrOr0, "jiffies_64", "", v.Pos, 0)
	addr := l.Global(ir.U64, g.Name, 0)
	return l.IfValue(l.ICmp(ir.NE, addr, ir.Const(0)), ir.TI64, func() *ir.Value {
		r := l.Emit(ir.OpRead, ir.TI64, l.Cast(ir.TKAddr, addr))
		r.Mem = ir.U64
		return r
	}, func() *ir.Value { return l.Call("jiffies64", ir.TI64) })
}

// packetLimit is the maximum number of bytes of a packet that skb_output copies: a perf record has
// at most 64 KiB with its headers.
const packetLimit = 0xff00

// lowerSkbOutput makes the kernel write a record followed by the packet to a perf event array, the
// only map that the helper supports.
func lowerSkbOutput(l *lowering, v *ir.Value) *ir.Value {
	const packets = "packets"
	intern(l.m, packets, "perf_event_array", 4, 4, 0)
	const size = headerSize + 3*8
	n := v.Args[1]
	n = l.Select(l.ICmp(ir.UGT, n, ir.Const(packetLimit)), ir.Const(packetLimit), n)
	rec := l.Slot("packet", size, 8)
	l.Store(ir.U32, rec, 0, ir.Const(int64(l.m.Event(v.Sym).ID)))
	l.Store(ir.U32, rec, 4, ir.Const(size))
	l.Store(ir.U64, rec, headerSize, l.Emit(ir.OpNsecs, ir.TI64))
	l.Store(ir.U64, rec, headerSize+8, n)
	l.Store(ir.U64, rec, headerSize+16, ir.Const(v.Imm))
	const currentCPU = 0xffffffff // BPF_F_CURRENT_CPU; the length is above it
	flags := l.Or(l.Shl(n, ir.Const(32)), ir.Const(currentCPU))
	r := l.helper("skb_output", v.Args[0], ir.MapOperand(packets), flags, rec, ir.Const(size))
	return l.And(r, ir.Const(1<<32-1)) // a uint32
}

func lowerDebugf(l *lowering, v *ir.Value) *ir.Value {
	size := len(v.Sym) + 1
	text := l.Slot("format", size, 1)
	lit := l.Emit(ir.OpStrLit, ir.TVoid, text)
	lit.Sym, lit.Imm = v.Sym, int64(size)
	args := append([]*ir.Value{text, ir.Const(int64(size))}, v.Args...)
	for len(args) < 5 { // the helper looks at those that the format names
		args = append(args, ir.Const(0))
	}
	l.Call("trace_printk", ir.TI64, args...)
	return nil
}

func lowerSignal(l *lowering, v *ir.Value) *ir.Value {
	helper := "send_signal"
	if v.Imm == 1 {
		helper = "send_signal_thread"
	}
	l.helper(helper, v.Args[0])
	return nil
}
