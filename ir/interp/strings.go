// SPDX-License-Identifier: Apache-2.0

package interp

import (
	"bytes"

	"btc/ir"
)

func memoryOps() map[ir.Op]opFunc {
	return map[ir.Op]opFunc{
		ir.OpRead:      read,
		ir.OpReadMem:   readMem,
		ir.OpFieldAddr: func(fr *frame, v *ir.Value) int64 { return fr.arg(v, 0) + fr.relocate(ir.FieldByteOffset, v.CORE) },
		ir.OpMemCopy: func(fr *frame, v *ir.Value) int64 {
			copy(fr.bytes(fr.arg(v, 0), int(v.Imm), true), fr.bytes(fr.arg(v, 1), int(v.Imm), false))
			return 0
		},
		ir.OpMemZero: func(fr *frame, v *ir.Value) int64 {
			clearBytes(fr.bytes(fr.arg(v, 0), int(v.Imm), true))
			return 0
		},
		ir.OpStrLit:   strLit,
		ir.OpStr:      str,
		ir.OpStrCopy:  strCopy,
		ir.OpStrEq:    strEq,
		ir.OpStrEqMem: strEqMem,
		ir.OpMemEq: func(fr *frame, v *ir.Value) int64 {
			return truth(bytes.Equal(fr.bytes(fr.arg(v, 0), int(v.Imm), false), fr.bytes(fr.arg(v, 1), int(v.Imm), false)))
		},
	}
}

// readable returns n bytes that a read of an address of type t finds, or nil if there is none.
func (fr *frame) readable(t ir.Type, addr int64, n int) []byte {
	switch {
	case fr.user(t, addr):
		return fr.mem.userBytes(uint64(addr), n)
	case t.IsForeign() || t.Kind == ir.BTF:
		return fr.mem.kernelBytes(uint64(addr), n)
	}
	return fr.bytes(addr, n, false)
}

// user reports whether an address of type t is of user space.
func (fr *frame) user(t ir.Type, addr int64) bool {
	return t.Kind == ir.UAddr || t.Kind == ir.Addr && addr<<fr.arch.TagBits >= 0
}

func read(fr *frame, v *ir.Value) int64 {
	addr, t := fr.arg(v, 0)+v.Imm, v.Args[0].Type
	if v.CORE.Type == "" {
		return extend(v.Mem, int64(getUint(fr.readable(t, addr, v.Mem.Size()))))
	}
	at, ok := fr.find(v.CORE)
	if !ok {
		return 0
	}
	unit := fr.readable(t, addr+int64(at.off), at.size())
	if unit == nil {
		return 0
	}
	return extend(v.Mem, at.read(unit))
}

func readMem(fr *frame, v *ir.Value) int64 {
	to := fr.bytes(fr.arg(v, 0), int(v.Imm), true)
	from := fr.readable(v.Args[1].Type, fr.arg(v, 1), int(v.Imm))
	if from == nil {
		clearBytes(to)
		return 0
	}
	copy(to, from)
	return 0
}

func strLit(fr *frame, v *ir.Value) int64 {
	to := fr.bytes(fr.arg(v, 0), int(v.Imm), true)
	clearBytes(to)
	copy(to, v.Sym)
	return 0
}

// str writes the string and, if there is room, its NUL and leaves the following bytes
// unchanged.
func str(fr *frame, v *ir.Value) int64 {
	to := fr.bytes(fr.arg(v, 0), int(v.Imm), true)
	limit := int(min(uint64(fr.arg(v, 2)), uint64(v.Imm)+1))
	t := v.Args[1].Type
	var s []byte
	ok := false
	if limit > 0 {
		s, ok = fr.mem.str(uint64(fr.arg(v, 1)), limit, fr.user(t, fr.arg(v, 1)))
	}
	if !ok {
		to[0] = 0
		return 0
	}
	n := copy(to, s)
	if n == len(to) {
		return v.Imm
	}
	to[n] = 0
	return int64(n + 1)
}

// ownString returns the string at an address of the machine's memory, at most limit bytes of it.
func (fr *frame) ownString(addr int64, limit int) []byte {
	o := fr.mem.object(uint64(addr))
	if o == nil {
		fr.trap("string at %#x, which is not memory of the program", uint64(addr))
	}
	rest := len(o.data) - int((uint64(addr)-firstAddr)%stride)
	return cstring(fr.bytes(addr, min(limit, max(rest, 0)), false))
}

func strCopy(fr *frame, v *ir.Value) int64 {
	to := fr.bytes(fr.arg(v, 0), int(v.Imm), true)
	s := bytes.Clone(fr.ownString(fr.arg(v, 1), int(v.Imm)))
	clearBytes(to)
	return int64(min(copy(to, s)+1, len(to)))
}

func strEq(fr *frame, v *ir.Value) int64 {
	return truth(string(fr.ownString(fr.arg(v, 0), int(v.Imm))) == v.Sym)
}

func strEqMem(fr *frame, v *ir.Value) int64 {
	return truth(bytes.Equal(fr.ownString(fr.arg(v, 0), int(v.Imm)), fr.ownString(fr.arg(v, 1), int(v.Imm))))
}
