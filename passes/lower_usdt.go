// SPDX-License-Identifier: Apache-2.0

package passes

import "btc/ir"

// USDT arguments. The location of a probe's argument (a register, memory, a constant) is in
// a note of the traced file, so only the loader knows it: the loader fills map usdt_specs,
// keyed by the number of the attach point, and the program interprets the entry.
// docs/layouts.md has the layout. The bits of the number from 20 on distinguish the
// locations of one probe.

const (
	usdtArgs    = 12 // arguments of a probe, the maximum of the macros that write the notes
	usdtArgSize = 16
	// usdtSpecs is the map of argument locations.
	usdtSpecs = "usdt_specs"
)

// Offsets in an argument location.
const (
	usdtValue  = 0  // u64: constant, or displacement of a memory operand
	usdtReg    = 8  // u16: offset of a register in the context
	usdtIndex  = 10 // u16: the same of an index register, usdtNone for none
	usdtKind   = 12 // u8
	usdtScale  = 13 // u8: shift of the index
	usdtSize   = 14 // u8: bytes, 1 to 8
	usdtSigned = 15 // u8
	usdtNone   = 0xffff
)

// Kinds of argument locations.
const (
	usdtAbsent = iota
	usdtConst
	usdtInReg
	usdtInMemory
)

// lowerUSDTArg reads argument Imm; a missing one is 0.
func lowerUSDTArg(l *lowering, v *ir.Value) *ir.Value {
	n := int(v.Imm)
	if n >= usdtArgs {
		return l.refuse(v, "", "arg%d is out of range: a usdt has arg0 to arg%d", n, usdtArgs-1)
	}
	prog := l.prog()
	prog.UsesID = true
	intern(l.m, usdtSpecs, "hash", 4, usdtArgs*usdtArgSize, 1)
	id := l.Emit(ir.OpAttachID, ir.TI64)
	id.Imm = int64(prog.FirstID)
	spec := l.lookup(usdtSpecs, l.key32(id))
	return l.IfValue(l.NotNull(spec), ir.TI64,
		func() *ir.Value { return l.usdtArg(v.Args[0], l.NonNull(spec), n*usdtArgSize) },
		func() *ir.Value { return ir.Const(0) })
}

// usdtArg evaluates the argument location at spec+off.
func (l *lowering) usdtArg(ctx, spec *ir.Value, off int) *ir.Value {
	slot := l.Slot("usdt", 16, 8)
	l.Store(ir.U64, slot, 8, ir.Const(0)) // the kernel verifier assumes a size of up to 15
	word := func(read func()) *ir.Value {
		l.Store(ir.U64, slot, 0, ir.Const(0))
		read()
		return l.Load(ir.U64, slot, 0)
	}
	kind := l.Load(ir.U8, spec, off+usdtKind)
	size := l.Load(ir.U8, spec, off+usdtSize)
	// The kernel accepts no variable offset in a load from the context.
	regs := l.Cast(ir.TKAddr, ctx)
	reg := func(at *ir.Value) *ir.Value {
		return word(func() { l.probeRead(slot, ir.Const(8), l.Add(regs, at)) })
	}
	is := func(k int64) *ir.Value { return l.ICmp(ir.EQ, kind, ir.Const(k)) }
	raw := l.IfValue(is(usdtConst), ir.TI64,
		func() *ir.Value { return l.Load(ir.U64, spec, off+usdtValue) },
		func() *ir.Value {
			base := reg(l.Load(ir.U16, spec, off+usdtReg))
			return l.IfValue(is(usdtInMemory), ir.TI64,
				func() *ir.Value {
					addr := l.Add(base, l.Load(ir.U64, spec, off+usdtValue))
					at := l.Load(ir.U16, spec, off+usdtIndex)
					index := l.IfValue(l.ICmp(ir.NE, at, ir.Const(usdtNone)), ir.TI64,
						func() *ir.Value { return l.Shl(reg(at), l.Load(ir.U8, spec, off+usdtScale)) },
						func() *ir.Value { return ir.Const(0) })
					addr = l.Cast(ir.TUAddr, l.Add(addr, index))
					return word(func() { l.probeRead(slot, l.And(size, ir.Const(15)), addr) })
				},
				func() *ir.Value { return base })
		})
	return l.IfValue(is(usdtAbsent), ir.TI64,
		func() *ir.Value { return ir.Const(0) },
		func() *ir.Value {
			shift := l.Sub(ir.Const(64), l.Shl(size, ir.Const(3)))
			high := l.Shl(raw, shift)
			return l.IfValue(l.ICmp(ir.NE, l.Load(ir.U8, spec, off+usdtSigned), ir.Const(0)), ir.TI64,
				func() *ir.Value { return l.Binary(ir.OpAShr, high, shift) },
				func() *ir.Value { return l.LShr(high, shift) })
		})
}
