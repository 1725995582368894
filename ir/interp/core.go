// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"slices"

	"btc/ir"
	"btc/targets/kernel"
)

// opFunc runs one value; the result is ignored for void ops.
type opFunc func(fr *frame, v *ir.Value) int64

// opTable has an entry for each op that can be placed.
func opTable() map[ir.Op]opFunc {
	t := map[ir.Op]opFunc{
		ir.OpBswap:     func(fr *frame, v *ir.Value) int64 { return byteSwap(v.Mem.Size(), fr.arg(v, 0)) },
		ir.OpZext:      func(fr *frame, v *ir.Value) int64 { return extend(v.Mem, fr.arg(v, 0)) },
		ir.OpSext:      func(fr *frame, v *ir.Value) int64 { return extend(v.Mem, fr.arg(v, 0)) },
		ir.OpICmp:      func(fr *frame, v *ir.Value) int64 { return truth(conditions[v.Cond](fr.arg(v, 0), fr.arg(v, 1))) },
		ir.OpSelect:    func(fr *frame, v *ir.Value) int64 { return fr.arg(v, 2-int(fr.arg(v, 0)&1)) },
		ir.OpBoolInt:   first,
		ir.OpOpaque:    first,
		ir.OpCast:      first,
		ir.OpNonNull:   nonNull,
		ir.OpLoad:      load,
		ir.OpStore:     store,
		ir.OpAtomicAdd: atomicAdd,
		ir.OpCall:      callHelper,
		ir.OpCallSub:   callSub,
		ir.OpCORE:      func(fr *frame, v *ir.Value) int64 { return fr.relocate(v.Kind, v.CORE) },
		ir.OpGlobal:    loadGlobal,
		ir.OpGlobalAddr: func(fr *frame, v *ir.Value) int64 {
			return int64(fr.globalAddr(v)) + v.Imm
		},
		ir.OpSaved:    saved,
		ir.OpPerArch:  perArch,
		ir.OpAttachID: func(fr *frame, v *ir.Value) int64 { return v.Imm + fr.in.AttachID },
	}
	for op, compute := range binaryOps {
		t[op] = func(fr *frame, v *ir.Value) int64 {
			return int64(compute(uint64(fr.arg(v, 0)), uint64(fr.arg(v, 1))))
		}
	}
	for _, more := range []map[ir.Op]opFunc{builtinOps(), memoryOps(), mapOps(), walkOps(), outputOps(), libraryOps()} {
		for op, run := range more {
			t[op] = run
		}
	}
	return t
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// saved reads a register from its offset in the context on the machine's architecture.
func saved(fr *frame, v *ir.Value) int64 {
	s, ok := fr.arch.Saved(v.Sym)
	if !ok {
		fr.trap("no %q on %s", v.Sym, fr.arch.Name)
	}
	n := fr.ctxWord(v, s.Offset) + s.Add
	if s.Mask != 0 {
		return truth(n&s.Mask == s.Want)
	}
	return n
}

func perArch(fr *frame, v *ir.Value) int64 {
	n, ok := ir.PerArchValue(v.Sym, fr.arch)
	if !ok {
		fr.trap("no value for %s in %q", fr.arch.Name, v.Sym)
	}
	return n
}

func first(fr *frame, v *ir.Value) int64 { return fr.arg(v, 0) }

func nonNull(fr *frame, v *ir.Value) int64 {
	p := fr.arg(v, 0)
	if p == 0 {
		fr.trap("null where the code asserts nonnull")
	}
	return p
}

// bytes returns n bytes that the program may access directly at addr.
func (fr *frame) bytes(addr int64, n int, write bool) []byte {
	b, o := fr.mem.own(uint64(addr), n)
	switch {
	case o == nil:
		fr.trap("access of %d bytes at %#x, which is not memory of the program", n, uint64(addr))
	case o.dead:
		fr.trap("access of %s, which was released", o.name)
	case b == nil:
		fr.trap("access of %d bytes outside of %s (%d bytes) at %d", n, o.name, len(o.data),
			(uint64(addr)-firstAddr)%stride)
	case write && o.readOnly:
		fr.trap("store to %s, which is read-only", o.name)
	}
	return b
}

func load(fr *frame, v *ir.Value) int64 {
	addr := fr.arg(v, 0) + v.Imm
	if v.CORE.Type != "" {
		addr += fr.relocate(ir.FieldByteOffset, v.CORE)
	}
	n := v.Mem.Size()
	if v.Args[0].Type.Kind == ir.BTF {
		// A failing direct load returns 0 (the kernel's exception table).
		return extend(v.Mem, int64(getUint(fr.mem.kernelBytes(uint64(addr), n))))
	}
	return extend(v.Mem, int64(getUint(fr.bytes(addr, n, false))))
}

func store(fr *frame, v *ir.Value) int64 {
	putUint(fr.bytes(fr.arg(v, 0)+v.Imm, v.Mem.Size(), true), uint64(fr.arg(v, 1)))
	return 0
}

func atomicAdd(fr *frame, v *ir.Value) int64 {
	b := fr.bytes(fr.arg(v, 0)+v.Imm, v.Mem.Size(), true)
	putUint(b, getUint(b)+uint64(fr.arg(v, 1)))
	return 0
}

func (fr *frame) globalAddr(v *ir.Value) uint64 {
	addr, ok := fr.globals[v.Sym]
	if !ok {
		fr.trap("no global %s", v.Sym)
	}
	return addr
}

func loadGlobal(fr *frame, v *ir.Value) int64 {
	b := fr.bytes(int64(fr.globalAddr(v))+v.Imm, v.Mem.Size(), false)
	return extend(v.Mem, int64(getUint(b)))
}

func callSub(fr *frame, v *ir.Value) int64 {
	f := fr.Module.Func(v.Sym)
	if f == nil {
		fr.trap("no subprogram %s", v.Sym)
	}
	args := make([]int64, len(v.Args))
	for i := range args {
		args[i] = fr.arg(v, i)
	}
	return fr.call(f, args)
}

func callHelper(fr *frame, v *ir.Value) int64 {
	run := fr.helpers[v.Sym]
	h := kernel.HelperByName(v.Sym)
	if run == nil || h == nil {
		fr.trap("helper %s is not implemented", v.Sym)
	}
	if slices.Contains(fr.in.Lacks, v.Sym) {
		fr.trap("the kernel has no helper %s", v.Sym)
	}
	if len(v.Args) != len(h.Args) {
		fr.trap("helper %s expects %d arguments", v.Sym, len(h.Args))
	}
	return run(fr, v)
}
